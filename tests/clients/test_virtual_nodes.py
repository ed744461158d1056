"""Virtual nodes over one store, as the Python driver sees them: ring, token-aware routing, levels, events."""

import random
import time

import pytest
from cassandra import InvalidRequest, Unavailable
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.metadata import Murmur3Token
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    HostStateListener,
    RoundRobinPolicy,
    TokenAwarePolicy,
    WhiteListRoundRobinPolicy,
)
from cassandra.query import ConsistencyLevel, SimpleStatement, dict_factory

from server import Server

NODES = "system_testing.cassette_nodes"
PATIENCE = 30
ADDRESSES = [f"127.0.0.{last}" for last in range(1, 5)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("nodes") / "data", "--nodes", "dc1=3,dc2/far", "--fault-injection", "--admin", "off")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def control(server):
    """A session through the first node only."""
    policy = WhiteListRoundRobinPolicy(["127.0.0.1"])
    profile = ExecutionProfile(load_balancing_policy=policy, row_factory=dict_factory)
    with Cluster(["127.0.0.1"], port=server.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}) as cluster:
        session = cluster.connect()
        replication = "{'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1}"
        session.execute(f"CREATE KEYSPACE one WITH replication = {replication}")
        session.execute("CREATE TABLE one.t (k int PRIMARY KEY, v int)")
        session.execute("CREATE KEYSPACE three WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 1}")
        session.execute("CREATE TABLE three.t (k int PRIMARY KEY, v int)")
        yield session


@pytest.fixture(autouse=True)
def all_up(control):
    yield
    for address in ADDRESSES:
        set_state(control, address, "up")


def set_state(control, address, state):
    control.execute(f"UPDATE {NODES} SET state = %s WHERE address = %s", [state, address])


def nodes(control):
    return {row["address"]: row for row in control.execute(f"SELECT * FROM {NODES}")}


def connect(server, policy, contact="127.0.0.1", **options):
    profile = ExecutionProfile(
        load_balancing_policy=policy, retry_policy=FallthroughRetryPolicy(), consistency_level=ConsistencyLevel.LOCAL_ONE
    )
    return Cluster([contact], port=server.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, **options)


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_driver_finds_all_nodes_with_their_places(server, control):
    for contact in ADDRESSES:
        with connect(server, RoundRobinPolicy(), contact) as cluster:
            cluster.connect()
            hosts = {host.address: (host.datacenter, host.rack) for host in cluster.metadata.all_hosts()}
            assert hosts == {address: ("dc1", "rack1") for address in ADDRESSES[:3]} | {"127.0.0.4": ("dc2", "far")}
            assert len({host.host_id for host in cluster.metadata.all_hosts()}) == 4


def test_requests_with_a_key_go_to_a_replica_and_others_to_all_nodes(server, control):
    with connect(server, TokenAwarePolicy(DCAwareRoundRobinPolicy("dc1"))) as cluster:
        session = cluster.connect()
        insert = session.prepare("INSERT INTO one.t (k, v) VALUES (?, ?)")
        # Pools to all nodes are opened in the background.
        wait_until(lambda: len(session.get_pool_state()) == 3)
        before = nodes(control)
        for key in range(300):
            session.execute(insert, [key, key])
        after = nodes(control)
        made = {address: after[address]["requests"] - before[address]["requests"] for address in ADDRESSES}
        as_replica = sum(after[a]["requests_as_replica"] - before[a]["requests_as_replica"] for a in ADDRESSES)
        assert sum(made.values()) == as_replica == 300, made
        assert made["127.0.0.4"] == 0 and all(made[address] > 50 for address in ADDRESSES[:3]), made


def test_the_token_map_of_the_driver_names_the_replicas_of_the_server(server, control):
    """A request that is sent to each node in turn is counted as that of a replica exactly where the driver has one."""
    with connect(server, RoundRobinPolicy()) as cluster:
        cluster.connect()
        tokens = cluster.metadata.token_map
        keys = random.Random(7).sample(range(10_000), 20)
        for address in ADDRESSES[:3]:
            with connect(server, WhiteListRoundRobinPolicy([address]), address) as one:
                session = one.connect()
                read = session.prepare("SELECT v FROM one.t WHERE k = ?")
                for key in keys:
                    before = nodes(control)[address]["requests_as_replica"]
                    session.execute(read, [key])
                    is_replica = nodes(control)[address]["requests_as_replica"] > before
                    token = Murmur3Token.from_key(key.to_bytes(4, "big"))
                    expected = address in {host.address for host in tokens.get_replicas("one", token)}
                    assert is_replica == expected, (key, address)


def test_levels_are_compared_with_the_nodes_that_are_up(server, control):
    def required_and_alive(level):
        try:
            session.execute(SimpleStatement("SELECT * FROM three.t WHERE k = 1", consistency_level=level))
        except Unavailable as error:
            return error.required_replicas, error.alive_replicas
        return None

    with connect(server, WhiteListRoundRobinPolicy(["127.0.0.1"])) as cluster:
        session = cluster.connect()
        assert required_and_alive(ConsistencyLevel.ALL) is None
        set_state(control, "127.0.0.2", "down")
        assert required_and_alive(ConsistencyLevel.ALL) == (4, 3)
        assert required_and_alive(ConsistencyLevel.LOCAL_QUORUM) is None
        set_state(control, "127.0.0.3", "down")
        assert required_and_alive(ConsistencyLevel.LOCAL_QUORUM) == (2, 1)
        assert required_and_alive(ConsistencyLevel.QUORUM) == (3, 2)
        assert required_and_alive(ConsistencyLevel.ONE) is None


def test_a_driver_follows_nodes_that_go_down_come_up_and_are_removed(server, control):
    class Recorder(HostStateListener):
        def __init__(self):
            self.seen = []

        def on_up(self, host):
            self.seen.append(("up", host.address))

        def on_down(self, host):
            self.seen.append(("down", host.address))

        def on_add(self, host):
            self.seen.append(("add", host.address))

        def on_remove(self, host):
            self.seen.append(("remove", host.address))

    with connect(server, RoundRobinPolicy()) as cluster:
        session = cluster.connect()
        wait_until(lambda: len(session.get_pool_state()) == 4)
        recorder = Recorder()
        cluster.register_listener(recorder)
        set_state(control, "127.0.0.3", "down")
        wait_until(lambda: ("down", "127.0.0.3") in recorder.seen)
        for _ in range(8):
            session.execute("SELECT * FROM three.t WHERE k = 1")
        set_state(control, "127.0.0.3", "up")
        wait_until(lambda: ("up", "127.0.0.3") in recorder.seen)
        set_state(control, "127.0.0.3", "removed")
        wait_until(lambda: ("remove", "127.0.0.3") in recorder.seen)
        assert len(cluster.metadata.all_hosts()) == 3
        set_state(control, "127.0.0.3", "up")
        wait_until(lambda: ("add", "127.0.0.3") in recorder.seen)


def test_faults_can_be_those_of_one_node(server, control):
    control.execute("INSERT INTO system_testing.cassette_faults (id, effect, node) VALUES ('n', 'unavailable', '127.0.0.2')")
    for address, fails in [("127.0.0.1", False), ("127.0.0.2", True)]:
        with connect(server, WhiteListRoundRobinPolicy([address]), address) as cluster:
            session = cluster.connect()
            if fails:
                with pytest.raises(Unavailable):
                    session.execute("SELECT * FROM one.t WHERE k = 1")
            else:
                session.execute("SELECT * FROM one.t WHERE k = 1")
    control.execute("TRUNCATE system_testing.cassette_faults")


def test_states_that_a_node_cannot_have_are_refused(control):
    with pytest.raises(InvalidRequest, match="state: expected up, down or removed, found asleep"):
        set_state(control, "127.0.0.2", "asleep")
    with pytest.raises(InvalidRequest, match="there is no node 127.0.0.9"):
        set_state(control, "127.0.0.9", "down")
