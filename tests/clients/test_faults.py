"""Injected faults, as unmodified drivers see them: exactly the error with its fields, and what their policies do."""

import json
import time
import urllib.error
import urllib.request

import pytest
from cassandra import (
    InvalidRequest,
    OperationTimedOut,
    ReadFailure,
    ReadTimeout,
    Unavailable,
    WriteFailure,
    WriteTimeout,
    WriteType,
)
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.policies import RetryPolicy, RoundRobinPolicy
from cassandra.protocol import ErrorMessage, OverloadedErrorMessage, ServerError
from cassandra.query import BatchStatement, BatchType, ConsistencyLevel, SimpleStatement

from conftest import connect
from server import Server

FAULTS = "system_testing.cassette_faults"
#: Code of the protocol.
CAS_WRITE_UNKNOWN = 0x1700
#: Well above the delay of a rule, well below that of the driver.
LONG = 30


class Recorder(RetryPolicy):
    """Gives up, and keeps what the driver asked."""

    def __init__(self):
        self.asked = []

    def on_read_timeout(self, query, consistency, required_responses, received_responses, data_retrieved, retry_num):
        self.asked.append(("read", consistency, required_responses, received_responses, data_retrieved))
        return self.RETHROW, None

    def on_write_timeout(self, query, consistency, write_type, required_responses, received_responses, retry_num):
        self.asked.append(("write", consistency, write_type, required_responses, received_responses))
        return self.RETHROW, None

    def on_unavailable(self, query, consistency, required_replicas, alive_replicas, retry_num):
        self.asked.append(("unavailable", consistency, required_replicas, alive_replicas))
        return self.RETHROW, None

    def on_request_error(self, query, consistency, error, retry_num):
        self.asked.append(("error", type(error)))
        return self.RETHROW, None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("faults") / "data", "--fault-injection", "--admin", "127.0.0.1:0").start()
    server.admin = server.process.stdout.readline().split()[-1]
    yield server
    server.stop()


@pytest.fixture(scope="module")
def recorder():
    return Recorder()


@pytest.fixture(scope="module")
def cluster(server, recorder):
    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(), retry_policy=recorder, request_timeout=LONG,
        consistency_level=ConsistencyLevel.QUORUM, serial_consistency_level=ConsistencyLevel.SERIAL,
    )
    with Cluster(["127.0.0.1"], port=server.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}) as cluster:
        session = cluster.connect()
        session.execute("CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE app.users (id int PRIMARY KEY, name text)")
        session.execute("CREATE TABLE app.visits (id int PRIMARY KEY, n counter)")
        yield cluster


@pytest.fixture
def session(cluster, recorder):
    session = cluster.connect("app")
    session.execute("TRUNCATE users")
    recorder.asked.clear()
    yield session
    session.execute(f"TRUNCATE {FAULTS}")
    session.shutdown()


def add(session, effect, fault="fault", **columns):
    """Adds a rule by CQL."""
    columns = {"id": fault, "effect": effect} | columns
    marks = ", ".join("%s" for _ in columns)
    session.execute(f"INSERT INTO {FAULTS} ({', '.join(columns)}) VALUES ({marks})", list(columns.values()))


def counts(session, fault="fault"):
    row = session.execute(f"SELECT matched, injected FROM {FAULTS} WHERE id = %s", [fault]).one()
    return row.matched, row.injected


READ = "SELECT * FROM users WHERE id = 1"
WRITE = "INSERT INTO users (id, name) VALUES (1, 'ada')"
CONDITIONAL = "INSERT INTO users (id, name) VALUES (1, 'ada') IF NOT EXISTS"


def batch(batch_type):
    batch = BatchStatement(batch_type)
    batch.add(SimpleStatement(WRITE))
    return batch


@pytest.mark.parametrize("version", [4, 5])
def test_a_read_timeout_has_its_fields(server, cluster, recorder, version):
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), retry_policy=recorder)
    with Cluster(["127.0.0.1"], port=server.port, protocol_version=version,
                 execution_profiles={EXEC_PROFILE_DEFAULT: profile}) as own:
        session = own.connect()
        session.execute("CREATE TABLE IF NOT EXISTS app.other (k int PRIMARY KEY)")
        add(session, "read_timeout", consistency="QUORUM", received=1, required=2, data_present=True, table_name="other")
        recorder.asked.clear()
        with pytest.raises(ReadTimeout) as failed:
            session.execute("SELECT * FROM app.other")
        error = failed.value
        assert (error.consistency, error.received_responses, error.required_responses, error.data_retrieved) == (
            ConsistencyLevel.QUORUM, 1, 2, True)
        assert recorder.asked == [("read", ConsistencyLevel.QUORUM, 2, 1, True)]
        session.execute(f"TRUNCATE {FAULTS}")
        session.execute("SELECT * FROM app.other")


@pytest.mark.parametrize("write_type", ["SIMPLE", "BATCH", "UNLOGGED_BATCH", "COUNTER", "BATCH_LOG", "CAS", "VIEW", "CDC"])
def test_the_retry_policy_is_asked_with_each_write_type(session, recorder, write_type):
    add(session, "write_timeout", write_type=write_type)
    with pytest.raises(WriteTimeout) as failed:
        session.execute(WRITE)
    assert failed.value.write_type == WriteType.name_to_value[write_type]
    assert recorder.asked == [("write", ConsistencyLevel.QUORUM, WriteType.name_to_value[write_type], 2, 1)]
    assert session.execute(READ).one() is None, "it was not applied"


def test_the_write_type_is_that_of_the_statement_by_default(session):
    add(session, "write_timeout", applied=True)
    for statement, write_type in [
        (WRITE, WriteType.SIMPLE),
        (batch(BatchType.LOGGED), WriteType.BATCH),
        (batch(BatchType.UNLOGGED), WriteType.UNLOGGED_BATCH),
        ("UPDATE visits SET n = n + 1 WHERE id = 1", WriteType.COUNTER),
        ("UPDATE users SET name = 'bob' WHERE id = 1 IF name = 'ada'", WriteType.CAS),
    ]:
        with pytest.raises(WriteTimeout) as failed:
            session.execute(statement)
        assert failed.value.write_type == write_type, statement
    assert session.execute(READ).one().name == "bob", "all of them were applied"
    assert counts(session) == (5, 5)


def test_a_conditional_write_has_an_unknown_outcome(session):
    for applied in (False, True):
        session.execute("TRUNCATE users")
        add(session, "cas_write_unknown", applied=applied, received=1, required=2)
        # The driver has no class of its own for it.
        with pytest.raises(ErrorMessage) as failed:
            session.execute(CONDITIONAL)
        assert failed.value.code == CAS_WRITE_UNKNOWN, failed.value
        assert (session.execute(READ).one() is not None) == applied
        session.execute(WRITE)


def test_unavailable_and_failures_have_their_fields(session, recorder):
    add(session, "unavailable", required=3, alive=1)
    with pytest.raises(Unavailable) as failed:
        session.execute(READ)
    assert (failed.value.required_replicas, failed.value.alive_replicas) == (3, 1)
    assert recorder.asked == [("unavailable", ConsistencyLevel.QUORUM, 3, 1)]
    session.execute(f"TRUNCATE {FAULTS}")
    add(session, "read_failure", failures=2, failure_code=1, received=0)
    with pytest.raises(ReadFailure) as failed:
        session.execute(READ)
    assert failed.value.failures == 2
    assert failed.value.error_code_map == {"127.0.0.1": 1, "127.0.0.2": 1}
    session.execute(f"TRUNCATE {FAULTS}")
    add(session, "write_failure", applied=True)
    with pytest.raises(WriteFailure) as failed:
        session.execute(WRITE)
    assert (failed.value.write_type, failed.value.failures) == (WriteType.SIMPLE, 1)
    assert session.execute(READ).one().name == "ada"


def test_errors_of_the_server_reach_the_policy(session, recorder):
    for effect, kind in [("overloaded", OverloadedErrorMessage), ("server_error", ServerError)]:
        add(session, effect, "fault", message="as the test wants")
        recorder.asked.clear()
        with pytest.raises((NoHostAvailable, kind)) as failed:
            session.execute(READ)
        assert "as the test wants" in str(failed.value)
        assert recorder.asked == [("error", kind)]


def test_a_count_of_times_lets_a_retry_succeed(cluster, session):
    class Retries(RetryPolicy):
        def on_read_timeout(self, *arguments, **keywords):
            return self.RETRY, None

    session.execute(WRITE)
    add(session, "read_timeout", skip=1, times=2)
    statement = SimpleStatement(READ, retry_policy=Retries())
    profile = session.execution_profile_clone_update(EXEC_PROFILE_DEFAULT, retry_policy=Retries())
    assert session.execute(statement.query_string, execution_profile=profile).one().name == "ada", "skipped"
    assert session.execute(statement.query_string, execution_profile=profile).one().name == "ada", "after two retries"
    assert counts(session) == (4, 2)


def test_a_delay_does_not_stall_other_requests_of_the_connection(session):
    add(session, "latency", delay_ms=10 * 60 * 1000, statement="%id = 7%")
    delayed = session.execute_async("SELECT * FROM users WHERE id = 7")
    session.execute(READ)
    assert not delayed._event.is_set(), "others are answered meanwhile"
    with pytest.raises(OperationTimedOut):
        session.execute("SELECT * FROM users WHERE id = 7", timeout=0.2)
    add(session, "latency", delay_ms=50, statement="%id = 7%")
    session.execute("SELECT * FROM users WHERE id = 7")
    assert counts(session) == (1, 1)


@pytest.mark.parametrize(
    ("effect", "columns", "is_executed"),
    [("drop_connection", {}, False), ("drop_connection", {"applied": True}, True), ("cut_response", {}, True)],
)
def test_a_connection_ends_before_or_after_the_execution(server, session, effect, columns, is_executed):
    # The driver needs long to use the node of a closed connection again, so the connection is another one.
    with connect("127.0.0.1", server.port) as cluster:
        victim = cluster.connect("app")
        add(session, effect, table_name="users", times=1, **columns)
        # The driver does not notice the end of a connection within an answer.
        with pytest.raises((ConnectionException, NoHostAvailable, OperationTimedOut)):
            victim.execute(WRITE, timeout=2)
    assert counts(session) == (1, 1)
    assert (session.execute(READ).one() is not None) == is_executed


def test_short_pages_have_a_paging_state(session):
    for key in range(10):
        session.execute("INSERT INTO users (id) VALUES (%s)", [key])
    add(session, "short_page", page_size=3)
    result = session.execute("SELECT id FROM users")
    assert len(result.current_rows) == 3 and result.has_more_pages
    assert sorted(row.id for row in result) == list(range(10))


def test_prepared_statements_and_batches_are_matched_by_their_text(session):
    prepared = session.prepare("SELECT name FROM users WHERE id = ?")
    add(session, "read_timeout", statement="select name from %users%")
    with pytest.raises(ReadTimeout):
        session.execute(prepared, [1])
    insert = session.prepare("INSERT INTO users (id) VALUES (?)")
    several = BatchStatement()
    several.add(insert, [1])
    add(session, "write_timeout", "second", statement="INSERT INTO users%")
    with pytest.raises(WriteTimeout):
        session.execute(several)
    assert counts(session, "second") == (1, 1)


def test_rules_are_refused_with_what_is_possible(session):
    with pytest.raises(InvalidRequest, match="effect: expected one of latency, "):
        add(session, "timeout")
    with pytest.raises(InvalidRequest, match="alive: the effect read_timeout does not have it"):
        add(session, "read_timeout", alive=1)


def post(server, **operation):
    request = urllib.request.Request(
        f"{server.admin}v1/operations", json.dumps(operation).encode(), {"content-type": "application/json"}
    )
    return json.load(urllib.request.urlopen(request))


def test_rules_can_be_set_by_http(server, session):
    post(server, operation="put_fault", id="web", effect="read_timeout", table_name="users", probability=1, times=1)
    with pytest.raises(ReadTimeout):
        session.execute(READ)
    session.execute(READ)
    (rule,) = json.load(urllib.request.urlopen(f"{server.admin}v1/faults"))
    assert rule == {
        "id": "web", "effect": "read_timeout", "table_name": "users", "probability": 1.0, "times": 1,
        "matched": 2, "injected": 1,
    }
    post(server, operation="remove_fault", id="web")
    post(server, operation="clear_faults")
    assert json.load(urllib.request.urlopen(f"{server.admin}v1/faults")) == []
    with pytest.raises(urllib.error.HTTPError) as failed:
        post(server, operation="put_fault", id="web", effect="read_timeout", tables="users")
    assert "tables: expected a column of system_testing.cassette_faults" in failed.value.read().decode()


def test_a_server_of_production_has_no_faults(tmp_path):
    server = Server(tmp_path / "data", "--admin", "127.0.0.1:0").start()
    server.admin = server.process.stdout.readline().split()[-1]
    try:
        with connect("127.0.0.1", server.port) as cluster, pytest.raises(InvalidRequest, match="start the server with --fault-injection"):
            cluster.connect().execute(f"INSERT INTO {FAULTS} (id, effect) VALUES ('a', 'overloaded')")
        with pytest.raises(urllib.error.HTTPError) as failed:
            post(server, operation="put_fault", id="a", effect="overloaded")
        assert "start the server with --fault-injection" in failed.value.read().decode()
    finally:
        server.stop()
