"""Injected faults, and virtual nodes."""

import time

import pytest
from cassandra import ReadTimeout, Unavailable, WriteTimeout, WriteType
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy
from cassandra.query import ConsistencyLevel
from cassette import Server, StatementError


PATIENCE = 60


@pytest.fixture(scope="module")
def server():
    with Server(fault_injection=True, nodes=3) as server:
        yield server


@pytest.fixture
def session(server):
    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(),
        retry_policy=FallthroughRetryPolicy(),
        consistency_level=ConsistencyLevel.QUORUM,
    )
    with Cluster([server.host], port=server.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}) as cluster:
        session = cluster.connect()
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        session.execute("CREATE TABLE IF NOT EXISTS k.t (k int PRIMARY KEY)")
        yield session
    server.faults.clear()


def test_a_rule_affects_requests_until_it_is_removed(server, session):
    with server.faults.injected("read_timeout", table_name="t", data_present=True) as rule:
        with pytest.raises(ReadTimeout) as failed:
            session.execute("SELECT * FROM k.t WHERE k = 1")
        assert failed.value.data_retrieved
        (listed,) = server.faults.list()
        assert (listed["id"], listed["injected"]) == (rule, 1)
    session.execute("SELECT * FROM k.t WHERE k = 1")
    assert server.faults.list() == []


def test_a_write_can_be_applied_and_time_out(server, session):
    server.faults.add("write_timeout", applied=True, times=1, statement="INSERT INTO %.t %")
    with pytest.raises(WriteTimeout) as failed:
        session.execute("INSERT INTO k.t (k) VALUES (7)")
    assert failed.value.write_type == WriteType.SIMPLE
    assert session.execute("SELECT k FROM k.t WHERE k = 7").one().k == 7


def test_a_rule_that_is_not_possible_is_an_error(server):
    with pytest.raises(StatementError, match="kind: expected one of read"):
        server.faults.add("overloaded", kind="it's")


def test_nodes_can_go_down_and_come_up(server, session):
    assert server.nodes.addresses() == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    for address in ("127.0.0.2", "127.0.0.3"):
        session.execute("SELECT * FROM k.t WHERE k = 1")
        server.nodes.down(address)
        # The driver learns it from the end of its connections.
        deadline = time.monotonic() + PATIENCE
        while session.cluster.metadata.get_host(address).is_up:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    with pytest.raises(Unavailable) as failed:
        session.execute("SELECT * FROM k.t WHERE k = 1")
    assert (failed.value.required_replicas, failed.value.alive_replicas) == (2, 1)
    for address in ("127.0.0.2", "127.0.0.3"):
        server.nodes.up(address)
    session.execute("SELECT * FROM k.t WHERE k = 1")


def test_a_server_without_the_option_has_no_faults():
    with Server() as server, pytest.raises(StatementError, match="start the server with --fault-injection"):
        server.faults.add("overloaded")
