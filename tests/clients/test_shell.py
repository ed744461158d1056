"""`cassette cql` beside cqlsh, unmodified, on the same server."""

import os
import pty
import select
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from server import BINARY, Server, free_port

CQLSH = Path(sys.executable).parent / "cqlsh"
FOLDER = Path(__file__).parent / "shell"


@pytest.fixture
def home(tmp_path):
    """A home directory without configuration, and the environment for it."""
    return {**os.environ, "HOME": str(tmp_path), "COLUMNS": "200", "TERM": "xterm-256color", "LANG": "C.UTF-8"}


@pytest.fixture
def keyspace(contact, home):
    name = f"t{uuid.uuid4().hex[:16]}"
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    assert ours(contact, home, "-e", f"CREATE KEYSPACE {name} WITH replication = {replication}").returncode == 0
    yield name
    ours(contact, home, "-e", f"DROP KEYSPACE {name}")


def ours(contact, home, *arguments, **options):
    host, port = contact
    command = [str(BINARY), "cql", f"{host}:{port}", *[str(argument) for argument in arguments]]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=home, **options)


def theirs(contact, home, *arguments):
    host, port = contact
    command = [str(CQLSH), host, str(port), "--no-color", *[str(argument) for argument in arguments]]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=home)
    # It warns that it is older than the server it sees.
    lines = result.stdout.splitlines(keepends=True)
    result.stdout = "".join(line for line in lines if not line.startswith("WARNING"))
    return result


def script(tmp_path, name, keyspace):
    path = tmp_path / name
    path.write_text((FOLDER / name).read_text().replace("KEYSPACE_NAME", keyspace))
    return path


def test_results_and_commands_are_those_of_cqlsh_byte_for_byte(contact, home, keyspace, tmp_path):
    filled = ours(contact, home, "-f", script(tmp_path, "fill.cql", keyspace))
    assert (filled.returncode, filled.stderr) == (0, "")
    queries = script(tmp_path, "queries.cql", keyspace)
    expected, found = theirs(contact, home, "-f", queries), ours(contact, home, "-f", queries)
    assert found.stdout == expected.stdout
    assert found.returncode == expected.returncode == 2
    errors = [line.split(":", 2)[2] for line in expected.stderr.splitlines() if line.startswith(str(queries))]
    ours_errors = [line.split(":", 2)[2] for line in found.stderr.splitlines() if line.startswith(str(queries))]
    assert errors == ours_errors and len(errors) == 2


def test_the_exit_status_is_that_of_cqlsh(contact, home):
    for statement, status in [("SELECT key FROM system.local", 0), ("SELECT nonsense", 2), ("CONSISTENCY", 0)]:
        assert ours(contact, home, "-e", statement).returncode == status
        assert theirs(contact, home, "-e", statement).returncode == status
    nobody = ("127.0.0.1", 1)
    assert ours(nobody, home, "-e", "SELECT 1").returncode == 1
    assert theirs(nobody, home, "-e", "SELECT 1").returncode == 1


def test_pipes_are_scripts_and_formats_are_for_programs(contact, home):
    out = ours(contact, home, "--format", "json", input="SELECT key FROM system.local;\nSELECT nosuch FROM system.local;\n")
    assert out.stdout == '{"key": "local"}\n' and out.returncode == 2
    assert out.stderr.startswith("<stdin>:2:InvalidRequest: ") and out.stderr.endswith("\n         ^\n")


def test_a_directory_is_opened_without_a_server_and_read_only(home, tmp_path):
    data = tmp_path / "data"
    data.mkdir()

    def run(*arguments):
        command = [str(BINARY), "cql", *[str(argument) for argument in arguments]]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=home)

    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    created = f"CREATE KEYSPACE k WITH replication = {replication}; CREATE TABLE k.t (k int PRIMARY KEY)"
    assert run("--data", data, "-e", created, "-e", "INSERT INTO k.t (k) VALUES (5)").stderr == ""
    read = run("--read-only", data, "-e", "SELECT * FROM k.t")
    assert read.stdout == "\n k\n---\n 5\n\n(1 rows)\n", read.stderr
    written = run("--read-only", data, "-e", "INSERT INTO k.t (k) VALUES (6)")
    assert written.returncode == 2 and written.stderr
    missing = run("--data", tmp_path / "nosuch", "-e", "SELECT 1")
    assert missing.returncode == 1 and "found none" in missing.stderr


class Terminal:
    """The shell on a pseudo terminal."""

    def __init__(self, contact, home, *arguments):
        host, port = contact
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(BINARY, [str(BINARY), "cql", f"{host}:{port}", *arguments], home)
        self.seen = ""

    def send(self, text):
        self.seen = ""
        os.write(self.fd, text.encode())

    def expect(self, text, seconds=60):
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, f"expected {text!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    data = os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    data = ""
                assert data, f"the shell ended after {self.seen!r}"
                self.seen += data
                # The editor asks where the cursor is.
                for _ in range(data.count("\x1b[6n")):
                    os.write(self.fd, b"\x1b[1;1R")

    def end(self):
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def test_the_terminal_edits_completes_and_remembers(contact, home, keyspace, tmp_path):
    terminal = Terminal(contact, home, "--keyspace", keyspace, "--no-color")
    terminal.expect(f"cql:{keyspace}> ")
    terminal.send("CREATE TABLE remembered (k int\r")
    terminal.expect("... ")
    terminal.send("PRIMARY KEY);\r")
    terminal.expect(f"cql:{keyspace}> ")
    # Two words complete: a keyword and the table.
    terminal.send("SEL\t* FROM rem\t;\r")
    terminal.expect("(0 rows)")
    terminal.send("SELECT nosuch FROM remembered;\r")
    terminal.expect("Undefined column name nosuch")
    terminal.expect(f"cql:{keyspace}> ")
    # Ctrl-C drops what is typed.
    terminal.send("dropped\x03")
    terminal.expect(f"cql:{keyspace}> ")
    terminal.send("EXIT\r")
    terminal.end()
    history = (tmp_path / ".cassandra" / "cassette_history").read_text()
    assert "CREATE TABLE remembered (k int<\\n>PRIMARY KEY);" in history
    assert "SELECT * FROM remembered ;" in history or "SELECT * FROM remembered;" in history


def test_pages_wait_on_a_terminal(contact, home, keyspace):
    rows = "; ".join(f"INSERT INTO {keyspace}.t (k, c) VALUES (1, {c})" for c in range(25))
    assert ours(contact, home, "-e", f"CREATE TABLE {keyspace}.t (k int, c int, PRIMARY KEY (k, c)); {rows}").stderr == ""
    terminal = Terminal(contact, home, "--keyspace", keyspace, "--no-color")
    terminal.expect(f"cql:{keyspace}> ")
    terminal.send("PAGING 10\r")
    terminal.expect("Page size: 10")
    terminal.expect(f"cql:{keyspace}> ")
    terminal.send("SELECT * FROM t;\r")
    terminal.expect("---MORE---")
    terminal.send("\r")
    terminal.expect("---MORE---")
    terminal.send("q\r")
    terminal.expect("(20 rows)")
    terminal.expect(f"cql:{keyspace}> ")
    terminal.send("\x04")
    terminal.end()


def test_files_of_copy_move_between_the_shell_and_cqlsh(contact, home, keyspace, tmp_path):
    columns = "(k int PRIMARY KEY, t text, l list<text>, m map<text, int>, ts timestamp, d double, b blob, u uuid, du inet)"
    created = "; ".join(f"CREATE TABLE {keyspace}.{name} {columns}" for name in ("a", "by_us", "by_them"))
    rows = [
        "(1, 'a,b \"quoted\"', ['x', 'it''s'], {'k': 1}, '2024-01-02 03:04:05.678+0000', 0.125, 0xcafe, "
        "123e4567-e89b-12d3-a456-426614174000, '10.0.0.1')",
        "(2, null, null, null, null, null, null, null, null)",
        "(3, '日本', [], {}, '1969-12-31 23:59:59.999+0000', -1.5, 0x, null, '::1')",
    ]
    filled = "; ".join(f"INSERT INTO {keyspace}.a (k, t, l, m, ts, d, b, u, du) VALUES {row}" for row in rows)
    assert ours(contact, home, "-e", f"{created}; {filled}").stderr == ""
    us, them = tmp_path / "us.csv", tmp_path / "them.csv"
    assert ours(contact, home, "-e", f"COPY {keyspace}.a TO '{us}'").returncode == 0
    assert theirs(contact, home, "-e", f"COPY {keyspace}.a TO '{them}'").returncode == 0
    assert sorted(us.read_text().splitlines()) == sorted(them.read_text().splitlines())
    assert ours(contact, home, "-e", f"COPY {keyspace}.by_us FROM '{them}'").returncode == 0
    assert theirs(contact, home, "-e", f"COPY {keyspace}.by_them FROM '{us}'").returncode == 0
    shown = [ours(contact, home, "-e", f"SELECT * FROM {keyspace}.{name}").stdout for name in ("a", "by_us", "by_them")]
    assert shown[0] == shown[1] == shown[2] and "(3 rows)" in shown[0]


def test_exported_parquet_is_imported(home, tmp_path):
    def run(*arguments):
        command = [str(BINARY), *[str(argument) for argument in arguments]]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=home)
        assert result.returncode == 0, result.stderr
        return result.stdout

    types = "t text, l list<int>, m map<text, int>, ts timestamp, d date, ti time, u uuid, de decimal, b blob"
    values = (
        "1, 'one', [1, 2], {'a': 3}, '2024-01-02 03:04:05.678Z', '2024-01-02', '01:02:03.000000004', "
        "123e4567-e89b-12d3-a456-426614174000, 1.50, 0xff"
    )
    statements = [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        *[f"CREATE TABLE k.{name} (k int PRIMARY KEY, {types})" for name in ("t", "u")],
        f"INSERT INTO k.t (k, t, l, m, ts, d, ti, u, de, b) VALUES ({values})",
        "INSERT INTO k.t (k, t) VALUES (2, null)",
    ]
    data = tmp_path / "data"
    admin = free_port()
    server = Server(data, "--admin", f"127.0.0.1:{admin}").start()
    run("cql", f"127.0.0.1:{server.port}", "-e", "; ".join(statements))
    run("nodetool", "-p", admin, "flush")
    server.stop()
    table = next(path for path in data.glob("data/k/t-*"))
    file = tmp_path / "t.parquet"
    run("sstable", "export", table, "--schema", data, "-o", file)
    out = run("cql", "--data", data, "-e", f".import {file} k.u")
    assert out.startswith("2 rows imported into k.u in ")
    shown = [run("cql", "--data", data, "-e", f"SELECT * FROM k.{name}") for name in ("t", "u")]
    assert shown[0] == shown[1] and "(2 rows)" in shown[0]


def test_a_server_with_tls_and_passwords_is_used_with_cqlshrc_and_credentials(home, tmp_path):
    subprocess.run([str(BINARY), "certificates", str(tmp_path / "certificates")], check=True, capture_output=True)
    (tmp_path / "cassandra.yaml").write_text(
        "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\nclient_encryption_options:\n"
        f"  enabled: true\n  keystore: {tmp_path}/certificates/server.pem\n"
    )
    (tmp_path / "password").write_text("correct horse\n")
    options = ["--config", tmp_path / "cassandra.yaml", "--superuser-password-file", tmp_path / "password"]
    server = Server(tmp_path / "data", *options, "--admin", "off").start()
    contact = ("127.0.0.1", server.port)
    try:
        authority = tmp_path / "certificates" / "ca.pem"
        plain = ours(contact, home, "-e", "SHOW VERSION")
        assert plain.returncode == 1 and plain.stderr.startswith("cassette: Connection error: ")
        anonymous = ours(contact, home, "--tls-ca", authority, "-e", "SHOW VERSION")
        assert anonymous.returncode == 1 and "requires a login" in anonymous.stderr
        (tmp_path / ".cassandra").mkdir(exist_ok=True)
        (tmp_path / ".cassandra" / "cqlshrc").write_text(f"[connection]\nssl = true\n[ssl]\ncertfile = {authority}\n")
        credentials = tmp_path / ".cassandra" / "credentials"
        credentials.write_text("[plain_text_auth]\nusername = cassandra\npassword = correct horse\n")
        credentials.chmod(0o600)
        roles = ours(contact, home, "-e", "CREATE ROLE ada WITH LOGIN = true AND PASSWORD = 'x'; LIST ROLES")
        assert (roles.returncode, roles.stderr) == (0, "") and " ada | " in roles.stdout
        login = ours(contact, home, "-e", "LOGIN ada 'x'; DROP ROLE cassandra")
        assert login.returncode == 2 and "Unauthorized" in login.stderr
        wrong = ours(contact, home, "-e", "LOGIN ada 'y'; SELECT key FROM system.local")
        assert "Bad credentials" in wrong.stderr and "local" in wrong.stdout, "the session stays as it is"
    finally:
        server.stop()
