"""Passwords, roles and permissions, with the unmodified Python driver and cqlsh."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cassandra import Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import NoHostAvailable

from conftest import connect
from server import BINARY, Server

OPTIONS = ["--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer"]
# Made by Cassandra 5.0.8 for the password "cassandra".
COPIED_HASH = "$2a$10$zObOFimTY907Fj4jkmC2oe4PFZS.SkLxNdY8lcd95ki2HSgJoSLRa"
REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 1}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("secured") / "data", *OPTIONS, "--admin", "off").start()
    yield server
    server.stop()


@pytest.fixture
def login(server):
    """Logs in: a session of a role, or of nobody."""
    clusters = []

    def login(role=None, password=None):
        provider = PlainTextAuthProvider(role, password or role) if role else None
        cluster = connect("127.0.0.1", server.port, auth_provider=provider)
        clusters.append(cluster)
        return cluster.connect()

    yield login
    for cluster in clusters:
        cluster.shutdown()


def refusal(login, *credentials):
    with pytest.raises(NoHostAvailable) as refused:
        login(*credentials)
    return str(refused.value)


def test_only_right_passwords_are_let_in(login):
    root = login("cassandra")
    root.execute("CREATE ROLE reader WITH PASSWORD = 'lesen' AND LOGIN = true")
    root.execute("CREATE ROLE off WITH PASSWORD = 'off'")
    root.execute(f"CREATE ROLE copied WITH HASHED PASSWORD = '{COPIED_HASH}' AND LOGIN = true")
    login("reader", "lesen").execute("SELECT key FROM system.local")
    login("copied", "cassandra").execute("SELECT key FROM system.local")
    incorrect = 'message="Provided username {} and/or password are incorrect"'
    assert incorrect.format("reader") in refusal(login, "reader", "falsch")
    assert incorrect.format("nobody") in refusal(login, "nobody", "falsch")
    assert 'message="off is not permitted to log in"' in refusal(login, "off")
    assert "code=0100 [Bad credentials]" in refusal(login, "off")
    assert "requires authentication" in refusal(login)


def test_permissions_take_effect_at_once(login):
    root = login("cassandra")
    root.execute(f"CREATE KEYSPACE app WITH replication = {REPLICATION}")
    root.execute("CREATE TABLE app.t (k int PRIMARY KEY, v int)")
    root.execute("CREATE ROLE app WITH PASSWORD = 'app' AND LOGIN = true")
    app = login("app")
    select = app.prepare("SELECT k, v FROM app.t WHERE k = ?")
    insert = app.prepare("INSERT INTO app.t (k, v) VALUES (?, ?)")
    with pytest.raises(Unauthorized, match="User app has no MODIFY permission on <table app.t> or any of its parents"):
        app.execute(insert, (1, 1))
    root.execute("GRANT MODIFY ON app.t TO app")
    app.execute(insert, (1, 1))
    with pytest.raises(Unauthorized, match="User app has no SELECT permission on <table app.t>"):
        app.execute(select, (1,))
    root.execute("CREATE ROLE readers")
    root.execute("GRANT SELECT ON KEYSPACE app TO readers")
    root.execute("GRANT readers TO app")
    assert list(app.execute(select, (1,))) == [(1, 1)]
    root.execute("REVOKE readers FROM app")
    with pytest.raises(Unauthorized):
        app.execute(select, (1,))
    root.execute("DROP ROLE app")
    with pytest.raises(Unauthorized):
        app.execute(insert, (1, 1))


def test_a_password_is_not_shown_in_traces(login):
    root = login("cassandra")
    traced = root.execute("CREATE ROLE traced WITH PASSWORD = 'geheim'", trace=True)
    trace = traced.get_query_trace()
    assert trace.parameters["query"] == "CREATE ROLE traced WITH PASSWORD *******"
    assert not any("geheim" in event.description for event in trace.events)


def test_cqlsh_logs_in(server):
    cqlsh = [Path(sys.executable).parent / "cqlsh", "127.0.0.1", str(server.port), "--no-color"]

    def run(*arguments):
        command = [*cqlsh, *arguments]
        environment = {**os.environ, "HOME": "/nonexistent", "COLUMNS": "200"}
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)

    listed = run("-u", "cassandra", "-p", "cassandra", "-e", "LIST ROLES OF cassandra")
    assert listed.returncode == 0, listed.stderr
    assert " cassandra |  True |  True |        {} |         ALL" in listed.stdout
    refused = run("-u", "cassandra", "-p", "falsch", "-e", "LIST ROLES")
    assert refused.returncode != 0
    assert "Provided username cassandra and/or password are incorrect" in refused.stderr


def test_roles_survive_a_kill_and_the_password_file_sets_the_first_password(tmp_path):
    password = tmp_path / "password"
    password.write_text("geheim\n")
    server = Server(tmp_path / "data", *OPTIONS, "--admin", "off", "--superuser-password-file", password).start()
    try:
        for _ in range(2):
            cluster = connect("127.0.0.1", server.port, auth_provider=PlainTextAuthProvider("cassandra", "geheim"))
            cluster.connect().execute("CREATE ROLE IF NOT EXISTS r")
            cluster.shutdown()
            server.kill()
            server.start()
        log = Path(server.log.name).read_text()
        assert "geheim" not in log
    finally:
        server.stop()


def test_the_default_password_is_not_served_to_other_machines(tmp_path):
    command = [BINARY, "serve", "--data", tmp_path / "data", "--listen", "0.0.0.0:0", "--admin", "off", *OPTIONS]
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert "the superuser cassandra has the default password" in ended.stderr
