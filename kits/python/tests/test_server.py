"""The server: its start and its end, statements, errors."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from cassette import Server, ServerError, StatementError

PATIENCE = 60


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    """The directory for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def serves(host, port):
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def test_the_start_of_the_documentation_works():
    with Server() as server:
        server.execute("SELECT release_version FROM system.local")


def test_a_server_executes_statements_and_ends_without_a_trace(temporary):
    with Server() as server:
        host, port = server.host, server.port
        assert "5.0" in server.execute("SELECT release_version FROM system.local")
        assert list(temporary.iterdir()) != []
    assert not serves(host, port)
    assert list(temporary.iterdir()) == []


def test_a_server_in_memory_has_no_files(temporary):
    with Server(in_memory=True) as server:
        server.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        assert "k" in server.execute("DESCRIBE KEYSPACES")
        assert list(temporary.iterdir()) == []
    with pytest.raises(ValueError, match="expected data or in_memory, found both"):
        Server(in_memory=True, data=temporary)


def test_a_seed_makes_uuids_and_times_the_same_in_each_run_and_after_each_truncation():
    def written(server):
        server.execute("INSERT INTO t (k, id, at) VALUES (1, uuid(), toTimestamp(now()))", keyspace="k")
        return server.execute("SELECT JSON id, at, writetime(id) FROM t", keyspace="k", format="json")

    seen = []
    for seed in (7, 7, 8):
        with Server(in_memory=True, seed=seed) as server:
            server.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
            server.execute("CREATE TABLE t (k int PRIMARY KEY, id uuid, at timestamp)", keyspace="k")
            seen.append(written(server))
            server.truncate()
            assert written(server) == seen[-1]
    assert seen[0] == seen[1] != seen[2]
    assert "2025-01-01" in seen[0]


def test_several_servers_run_at_the_same_time():
    with Server() as one, Server() as other:
        assert one.port != other.port


def test_a_file_is_executed_in_a_keyspace(tmp_path):
    script = tmp_path / "schema.cql"
    script.write_text("CREATE TABLE t (k int PRIMARY KEY);\nINSERT INTO t (k) VALUES (7);\n")
    with Server() as server:
        server.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        server.execute_file(script, keyspace="k")
        assert "7" in server.execute("SELECT k FROM t", keyspace="k")


def test_all_tables_are_truncated():
    with Server() as server:
        server.truncate()
        server.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        server.execute('CREATE TABLE "T" (k int PRIMARY KEY); INSERT INTO "T" (k) VALUES (7);', keyspace="k")
        assert server.execute('SELECT k FROM "T"', keyspace="k", format="json") == '{"k": 7}\n'
        server.truncate()
        assert server.execute('SELECT k FROM "T"', keyspace="k", format="json") == ""


def test_a_statement_that_fails_is_an_error_with_its_reason():
    with Server() as server, pytest.raises(StatementError, match="keyspace nowhere does not exist|nowhere"):
        server.execute("SELECT * FROM nowhere.t")


def test_a_server_that_does_not_start_is_an_error_with_its_log():
    with pytest.raises(ServerError, match="unexpected argument '--wrong'"):
        Server(arguments=["--wrong"]).start()


def test_a_directory_keeps_its_data(tmp_path):
    server = Server(data=tmp_path / "data")
    with server:
        server.execute("CREATE KEYSPACE kept WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    with server:
        assert "kept" in server.execute("DESCRIBE KEYSPACES")


def test_a_configuration_file_applies(tmp_path):
    config = tmp_path / "cassandra.yaml"
    config.write_text("cluster_name: 'of the file'\n")
    with Server(config=config) as server:
        assert "of the file" in server.execute("SELECT cluster_name FROM system.local")


def test_a_stopped_server_has_no_address():
    server = Server()
    with server:
        pass
    server.stop()
    with pytest.raises(ServerError, match="does not run"):
        server.port  # noqa: B018


def test_the_server_ends_with_a_process_that_is_killed(temporary):
    program = "import cassette, time; s = cassette.Server().start(); print(s.port, flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    port = int(process.stdout.readline())
    assert serves("127.0.0.1", port)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + PATIENCE
    while serves("127.0.0.1", port) or list(temporary.iterdir()):
        assert time.monotonic() < deadline, list(temporary.iterdir())
        time.sleep(0.02)
