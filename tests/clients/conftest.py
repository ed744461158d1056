"""Fixtures: a server for the whole run, or the one named by CASSETTE_CONTACT=host:port (a real Cassandra, say)."""

import os
import uuid

import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy
from cassandra.query import tuple_factory

from server import Server


def pytest_addoption(parser):
    parser.addoption("--record", action="store_true", help="write down the answers of the server at CASSETTE_CONTACT")


@pytest.fixture(scope="session")
def contact(tmp_path_factory):
    """(host, port) of the server under test."""
    if "CASSETTE_CONTACT" in os.environ:
        host, port = os.environ["CASSETTE_CONTACT"].rsplit(":", 1)
        yield host, int(port)
        return
    folder = tmp_path_factory.mktemp("served")
    # As Cassandra was when its answers were written down.
    (folder / "cassandra.yaml").write_text("materialized_views_enabled: true\ndrop_compact_storage_enabled: true\nsasi_indexes_enabled: true\nzero_ttl_on_twcs_warned: false\n")
    server = Server(folder / "data", "--config", folder / "cassandra.yaml").start()
    yield "127.0.0.1", server.port
    server.stop()


def connect(host, port, **options):
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), row_factory=tuple_factory, request_timeout=60)
    return Cluster([host], port=port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, **options)


@pytest.fixture(scope="session")
def cluster(contact):
    cluster = connect(*contact)
    yield cluster
    cluster.shutdown()


@pytest.fixture
def session(cluster):
    """A session in a new keyspace, dropped afterwards."""
    keyspace = f"t{uuid.uuid4().hex[:16]}"
    session = cluster.connect()
    session.execute(
        f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )
    session.set_keyspace(keyspace)
    yield session
    session.execute(f"DROP KEYSPACE {keyspace}")
    session.shutdown()
