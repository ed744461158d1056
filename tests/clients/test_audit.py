"""The audit log, the full query log and slow queries: what is recorded, and their commands.

`tests/conformance/audit.json` has the entries that Cassandra 5.0.8 made for the statements here, with
PasswordAuthenticator, CassandraAuthorizer and FileAuditLogger.
"""

import json
import re
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from cassandra.auth import PlainTextAuthProvider
from cassandra.query import BatchStatement, BatchType, SimpleStatement

from conftest import connect
from server import BINARY, Server, free_port

RECORDED = Path(__file__).parents[1] / "conformance" / "audit.json"
REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
HASH = "$2a$10$zObOFimTY907Fj4jkmC2oe4PFZS.SkLxNdY8lcd95ki2HSgJoSLRa"

STATEMENTS = [
    f"CREATE KEYSPACE aud WITH replication = {REPLICATION}",
    "ALTER KEYSPACE aud WITH durable_writes = true",
    "USE aud",
    "CREATE TYPE addr (street text)",
    "ALTER TYPE addr ADD zip int",
    "CREATE TABLE t (k int PRIMARY KEY, v int, a frozen<addr>)",
    "CREATE TABLE aud.cnt (k int PRIMARY KEY, c counter)",
    "ALTER TABLE t ADD w text",
    "CREATE INDEX t_v ON t (v)",
    "CREATE MATERIALIZED VIEW mv AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)",
    "ALTER MATERIALIZED VIEW mv WITH comment = 'x'",
    "INSERT INTO t (k, v) VALUES (1, 2)",
    "INSERT INTO aud.t (k, v) VALUES (1, 3) IF NOT EXISTS",
    "UPDATE aud.t SET v = 4 WHERE k = 1",
    "UPDATE aud.cnt SET c = c + 1 WHERE k = 1",
    "DELETE FROM aud.t WHERE k = 5",
    "SELECT * FROM t WHERE k = 1",
    "SELECT key FROM system.local",
    "SELECT * FROM system_schema.keyspaces LIMIT 1",
    "SELECT role FROM system_auth.roles LIMIT 1",
    "SELECT name FROM system_views.settings LIMIT 1",
    "BEGIN BATCH INSERT INTO aud.t (k, v) VALUES (7, 7); INSERT INTO aud.t (k, v) VALUES (8, 8); APPLY BATCH",
    "SELECT nothing FROM aud.t",
    "SELEC * FROM aud.t",
    "SELECT * FROM aud.nothere",
    "SELECT * FROM nokeyspace.t",
    "INSERT INTO aud.t (k, v) VALUES ('a', 2)",
    "USE nokeyspace",
    "CREATE TABLE aud.t (k int PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS aud.t (k int PRIMARY KEY)",
    "CREATE ROLE rr WITH PASSWORD = 'geheim1' AND LOGIN = true",
    "CREATE USER uu WITH PASSWORD 'geheim3' NOSUPERUSER",
    "CREATE ROLE rr WITH PASSWORD = 'geheim5'",
    "CREATE ROL x WITH PASSWORD = 'geheim6'",
    "CREATE ROLE yy WITH PASSWORD = geheim7",
    f"CREATE ROLE hh WITH HASHED PASSWORD = '{HASH}'",
    "LIST ROLES",
    "LIST USERS",
    "GRANT SELECT ON aud.t TO rr",
    "GRANT rr TO uu",
    "REVOKE rr FROM uu",
    "LIST ALL PERMISSIONS OF rr",
    "REVOKE SELECT ON aud.t FROM rr",
    "DESCRIBE KEYSPACES",
    "DESCRIBE TABLE aud.t",
    "TRUNCATE aud.t",
    "DROP MATERIALIZED VIEW aud.mv",
    "DROP INDEX aud.t_v",
]

STATEMENTS_AT_THE_END = [
    "DROP TABLE aud.t",
    "DROP TYPE aud.addr",
    "DROP ROLE rr",
    "DROP USER uu",
    "DROP ROLE hh",
    "DROP ROLE IF EXISTS low",
    "DROP KEYSPACE aud",
]

# Entries that differ on purpose, or whose error message does; see docs/differences.md.
DIFFERENT = [
    # Cassandra shows the number of statements that it prepared before the error.
    ("BATCH of 0 statements at", "BATCH of 1 statements at"),
]


class Audited(Server):
    """A server with a configuration and an admin endpoint."""

    def __init__(self, folder, configuration, *options):
        (folder / "cassandra.yaml").write_text(configuration)
        self.admin_port = free_port()
        super().__init__(
            folder / "data", "--config", folder / "cassandra.yaml", "--admin", f"127.0.0.1:{self.admin_port}", *options
        )

    def nodetool(self, *words):
        command = [str(BINARY), "nodetool", "-p", str(self.admin_port), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def report(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}") as answer:
            return json.load(answer)

    def metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))

    def session(self, role=None, password=None, **options):
        provider = PlainTextAuthProvider(role, password or role) if role else None
        cluster = connect("127.0.0.1", self.port, auth_provider=provider, protocol_version=4,
                          schema_metadata_enabled=False, token_metadata_enabled=False, **options)
        return cluster, cluster.connect()


@pytest.fixture
def serve(tmp_path):
    """Starts servers, which end with the test."""
    servers = []

    def serve(configuration, folder=tmp_path):
        servers.append(Audited(folder, configuration))
        return servers[-1].start()

    yield serve
    for server in servers:
        server.stop()


def querylog(*words):
    return subprocess.run([str(BINARY), "querylog", *map(str, words)], capture_output=True, text=True, check=False)


def attempt(work):
    """Errors are recorded by the server, too."""
    try:
        work()
    except Exception:  # pylint: disable=broad-except
        pass


def exercise(server):
    """The requests whose entries are recorded."""
    cluster, root = server.session("cassandra")
    for cql in STATEMENTS:
        attempt(lambda: root.execute(cql))
    insert = root.prepare("INSERT INTO aud.t (k, v) VALUES (?, ?)")
    select = root.prepare("SELECT v FROM aud.t WHERE k = ?")
    root.execute(insert, (1, 2))
    root.execute(select, (1,))
    attempt(lambda: root.prepare("SELECT x FROM aud.t"))
    attempt(lambda: root.prepare("CREATE ROLE pp WITH PASSWORD = 'geheim8'"))
    batch = BatchStatement(batch_type=BatchType.UNLOGGED)
    batch.add(insert, (10, 1))
    batch.add(SimpleStatement("INSERT INTO aud.t (k, v) VALUES (11, 1)"))
    root.execute(batch)
    for cql in ["INSERT INTO aud.nothere (k, v) VALUES (11, 1)", "SELECT * FROM aud.t"]:
        batch = BatchStatement(batch_type=BatchType.LOGGED)
        batch.add(SimpleStatement(cql))
        attempt(lambda: root.execute(batch))
    root.execute(SimpleStatement("SELECT * FROM aud.t WHERE k = %s"), (1,))
    root.execute(select.bind((1,)))
    root.execute("CREATE ROLE low WITH PASSWORD = 'low' AND LOGIN = true")
    low_cluster, low = server.session("low")
    for cql in [
        "SELECT * FROM aud.t",
        "INSERT INTO aud.t (k, v) VALUES (1, 1)",
        "CREATE TABLE aud.z (k int PRIMARY KEY)",
        "ALTER ROLE rr WITH PASSWORD = 'geheim9'",
    ]:
        attempt(lambda: low.execute(cql))
    attempt(lambda: low.prepare("SELECT * FROM aud.t"))
    batch = BatchStatement()
    batch.add(SimpleStatement("INSERT INTO aud.t (k, v) VALUES (11, 1)"))
    attempt(lambda: low.execute(batch))
    for credentials in [("low", "falsch"), ("nobody", "x"), ("hh", "cassandra")]:
        attempt(lambda: server.session(*credentials))
    for cql in STATEMENTS_AT_THE_END:
        attempt(lambda: root.execute(cql))
    low_cluster.shutdown()
    cluster.shutdown()


def shown(line):
    """A line without what differs between runs."""
    user, rest = line.split("|host:", 1)[0], line.split("|type:", 1)[1]
    rest = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", rest)
    return f"{user}|type:{rest}"


def test_entries_are_those_of_cassandra(serve, tmp_path):
    configuration = (
        "materialized_views_enabled: true\n"
        "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n"
        f"audit_logging_options:\n  enabled: true\n  audit_logs_dir: {tmp_path}/audit\n"
        "  logger:\n    - class_name: BinAuditLogger\n    - class_name: FileAuditLogger\n"
    )
    server = serve(configuration)
    exercise(server)
    server.stop()
    dumped = querylog("dump", "--format", "text", tmp_path / "audit")
    assert dumped.returncode == 0, dumped.stderr
    lines = dumped.stdout.splitlines()
    recorded = json.loads(RECORDED.read_text())["lines"]
    for theirs, ours in DIFFERENT:
        recorded = [line.replace(theirs, ours) for line in recorded]
    assert [shown(line) for line in lines] == recorded
    assert all(re.match(r"user:\w+\|host:/127.0.0.1:\d+\|source:/127.0.0.1\|port:\d+\|timestamp:\d{13}\|type:", line)
               for line in lines)
    assert "geheim" not in dumped.stdout and HASH not in dumped.stdout
    log = (tmp_path / "data.log").read_text()
    assert "type:CREATE_ROLE|category:DCL|ks:aud|operation:CREATE ROLE rr WITH PASSWORD = '*******' AND LOGIN" in log
    assert "geheim" not in log and HASH not in log


def test_the_audit_log_is_changed_at_run_time(serve, tmp_path):
    server = serve(f"audit_logging_options:\n  audit_logs_dir: {tmp_path}/audit\n")
    cluster, session = server.session()
    session.execute(f"CREATE KEYSPACE ks WITH replication = {REPLICATION}")
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
    assert re.search(r"^enabled +false", server.nodetool("getauditlog").stdout, re.M)
    done = server.nodetool("enableauditlog", "--included-categories", "DML,ERROR", "--max-log-size", "400000")
    assert (done.returncode, done.stdout) == (0, "")
    settings = server.nodetool("getauditlog").stdout
    assert re.search(r"^enabled +true", settings, re.M)
    assert re.search(r"^included_categories +DML,ERROR", settings, re.M)
    insert = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
    for k in range(5000):
        session.execute_async(insert, (k, k)).result()
        if k % 1000 == 0:
            session.execute("SELECT * FROM ks.t LIMIT 1")
    server.nodetool("disableauditlog")
    session.execute(insert, (1, 1))
    entries = [json.loads(line) for line in querylog("dump", tmp_path / "audit").stdout.splitlines()]
    assert {entry["category"] for entry in entries} == {"DML"}
    assert {entry["user"] for entry in entries} == {"anonymous"}
    # The oldest files were removed, and the newest entries kept.
    sizes = [path.stat().st_size for path in (tmp_path / "audit").glob("audit-*.log")]
    assert sum(sizes) <= 400_000 and len(sizes) > 3
    assert 0 < len(entries) < 5000
    assert server.metric("cassette_audit_log_written_total") == 5000
    verified = querylog("verify", tmp_path / "audit")
    assert verified.returncode == 0, verified.stdout
    for words, code, text in [
        (["--logger", "NoSuch"], 2, "NoSuch"),
        (["--blocking", "maybe"], 1, "nodetool: Invalid [maybe]. Blocking only accepts 'true' or 'false'."),
        (["--roll-cycle", "FOO"], 1, "FOO"),
        (["--included-categories", "READS"], 1, "READS"),
        (["--archive-command", "x"], 2, "archive commands are not supported"),
    ]:
        refused = server.nodetool("enableauditlog", *words)
        assert refused.returncode == code and text in refused.stdout + refused.stderr, words
    cluster.shutdown()
    server.stop()


def test_operations_are_logged_with_who_requested_them(serve, tmp_path):
    server = serve("authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n")
    credentials = ["-u", "cassandra", "-pw", "cassandra"]
    assert server.nodetool(*credentials, "disableauditlog").returncode == 0
    # One that is refused, too, in one line whatever it contains.
    assert server.nodetool(*credentials, "setlogginglevel", "a\nb", "INFO").returncode == 1
    assert server.nodetool("-u", "cassandra", "-pw", "falsch", "drain").returncode != 0
    log = (tmp_path / "data.log").read_text()
    assert 'operation of role "cassandra" at 127.0.0.1: DisableAuditLog' in log
    assert r'SetLoggingLevel { target: "a\nb"' in log
    assert ": Drain" not in log


def test_json_lines_go_to_standard_output(serve, tmp_path):
    server = serve("audit_logging_options:\n  enabled: true\n  included_categories: DDL\n  logger: JsonAuditLogger\n")
    cluster, session = server.session()
    session.execute(f"CREATE KEYSPACE ks WITH replication = {REPLICATION}")
    cluster.shutdown()
    server.stop()
    lines = [line for line in server.process.stdout.read().splitlines() if line.startswith("{")]
    entry = json.loads(lines[0])
    assert (len(lines), entry["type"], entry["ks"]) == (1, "CREATE_KEYSPACE", "ks")


def test_the_full_query_log_records_queries_with_their_values(serve, tmp_path):
    directory = tmp_path / "queries"
    server = serve(f"full_query_logging_options:\n  log_dir: {directory}\n")
    cluster, session = server.session()
    session.execute(f"CREATE KEYSPACE ks WITH replication = {REPLICATION}")
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
    assert server.nodetool("enablefullquerylog").returncode == 0
    again = server.nodetool("enablefullquerylog")
    assert (again.returncode, again.stdout.splitlines()[0]) == (1, "nodetool: Binlog is already configured")
    insert = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
    session.execute(insert, (1, "a"))
    session.execute(insert, (2, None))
    batch = BatchStatement(batch_type=BatchType.UNLOGGED)
    batch.add(insert, (3, "c"))
    batch.add(SimpleStatement("INSERT INTO ks.t (k) VALUES (4)"))
    session.execute(batch)
    attempt(lambda: session.execute("SELECT nothing FROM ks.t"))
    session.execute("SELECT * FROM ks.t")
    assert server.nodetool("disablefullquerylog").returncode == 0
    assert re.search(r"^enabled +false", server.nodetool("getfullquerylog").stdout, re.M)
    dumped = querylog("dump", directory)
    queries = [json.loads(line) for line in dumped.stdout.splitlines() if "ks.t" in line]
    assert [query["type"] for query in queries] == ["single-query", "single-query", "batch", "single-query"]
    assert queries[0]["values"] == ["0x00000001", "0x61"] and queries[0]["prepared"]
    assert queries[1]["values"] == ["0x00000002", None]
    assert queries[2]["batch-type"] == "UNLOGGED" and queries[2]["values"] == [["0x00000003", "0x63"], []]
    assert all(query["protocol-version"] == 4 and query["consistency"] == "LOCAL_ONE" for query in queries)
    assert len({query["connection"] for query in queries}) == 1
    # A damaged file is found.
    path = next(directory.glob("queries-*.log"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    verified = querylog("verify", directory)
    assert verified.returncode == 1 and "checksum" in verified.stdout
    assert server.nodetool("resetfullquerylog").returncode == 0
    assert not list(directory.glob("queries-*.log"))
    cluster.shutdown()
    server.stop()


def test_a_recorded_log_is_replayed_with_the_same_results(serve, tmp_path):
    directory = tmp_path / "queries"
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first = serve(f"full_query_logging_options:\n  log_dir: {directory}\n", tmp_path / "first")
    second = serve("", tmp_path / "second")
    assert first.nodetool("enablefullquerylog").returncode == 0
    cluster, session = first.session()
    session.execute(f"CREATE KEYSPACE ks WITH replication = {REPLICATION}")
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
    session.set_keyspace("ks")
    insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)")
    select = session.prepare("SELECT v FROM t WHERE k = ?")
    for k in range(100):
        session.execute(insert, (k % 10, str(k)))
        session.execute(select, (k % 10,))
    session.execute("SELECT * FROM t")
    assert first.nodetool("disablefullquerylog").returncode == 0

    def replay(*words):
        command = [str(BINARY), "lab", "replay", str(directory), "--speed", "max", "--json", str(tmp_path / "r.json")]
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False, cwd=tmp_path)
        return done, json.loads((tmp_path / "r.json").read_text())

    done, report = replay("--target", f"127.0.0.1:{second.port}", "--connections", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert report["queries"] >= 203 and report["targets"][0]["failed"] == 0
    other, copy = second.session()
    assert set(copy.execute("SELECT k, v FROM ks.t")) == {(k, str(90 + k)) for k in range(10)}
    # Both targets execute the same: the statements that create the schema fail, the others agree.
    copy.execute("INSERT INTO ks.t (k, v) VALUES (1000, 'only here')")
    targets = ["--target", f"127.0.0.1:{first.port}", "--compare", f"127.0.0.1:{second.port}"]
    done, report = replay(*targets, "--connections", "1", "--protocol", "4")
    assert done.returncode == 1
    differing = [difference["query"]["query"] for difference in report["differences"]]
    assert differing == ["SELECT * FROM t"], report
    for session_cluster in (cluster, other):
        session_cluster.shutdown()
    first.stop()
    second.stop()


def test_slow_queries_are_logged_and_reported(serve, tmp_path):
    server = serve("slow_query_log_timeout: 1ms\n")
    cluster, session = server.session()
    session.execute(f"CREATE KEYSPACE ks WITH replication = {REPLICATION}")
    session.execute("CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO ks.t (k, c, v) VALUES (1, ?, ?)")
    for c in range(3000):
        session.execute(insert, (c, "x" * 100))
    query = "SELECT count(*) FROM ks.t WHERE v = 'y' ALLOW FILTERING"
    for _ in range(3):
        session.execute(query)
    slow = [report for report in server.report("/v1/slow_queries") if report["text"] == query]
    assert slow and slow[0]["count"] >= 1 and slow[0]["max_millis"] >= 1
    deadline = time.monotonic() + 60
    pattern = re.compile(r"\d+ operations were slow in the last \d+ msecs:")
    # On a slow machine, the first intervals end while rows are inserted, and the 50 operations that
    # are kept of an interval are slow insertions.
    while f"<{query}>, " not in (tmp_path / "data.log").read_text():
        assert time.monotonic() < deadline, "the interval has passed many times"
        session.execute(query)
        time.sleep(0.5)
    assert pattern.search((tmp_path / "data.log").read_text())
    cluster.shutdown()
    server.stop()
