"""Fixtures for pytest: a server for the run, and sessions in keyspaces with the schema of files.

Every worker of pytest-xdist has a server.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cassette._server import _RESET_CLOCK, Server

if TYPE_CHECKING:
    from cassandra.cluster import Cluster, Session

_SCHEMA = "cassette_schema"
_REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
#: How much of the server's log a failure shows.
_LOG_LINES = 60
_servers = pytest.StashKey[Server]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_SCHEMA, "files with the schema of cassette_session's keyspace, relative to rootdir", "args")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_SCHEMA}(*files): the schema of cassette_session's keyspace, instead of that of the configuration; "
        "paths are relative to the file of the test",
    )


@pytest.fixture(scope="session")
def cassette_options() -> dict[str, Any]:
    """The options of the server, as keywords of `cassette.Server`. To be overridden."""
    return {}


@pytest.fixture(scope="session")
def cassette_server(cassette_options: dict[str, Any], pytestconfig: pytest.Config) -> Iterator[Server]:
    """A server for the whole run."""
    with Server(**cassette_options) as server:
        pytestconfig.stash[_servers] = server
        yield server


@pytest.fixture(scope="session")
def cassette_cluster(cassette_server: Server) -> Iterator[Cluster]:
    """A `cassandra.cluster.Cluster` that is connected to the server."""
    try:
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
        from cassandra.policies import RoundRobinPolicy
    except ImportError as error:
        raise RuntimeError("cassandra-driver is not installed: pip install 'cassette-db[driver]'") from error
    profiles = {EXEC_PROFILE_DEFAULT: ExecutionProfile(load_balancing_policy=RoundRobinPolicy())}
    with Cluster([cassette_server.host], port=cassette_server.port, execution_profiles=profiles) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _cassette_keyspaces(cassette_server: Server, cassette_cluster: Cluster) -> _Keyspaces:
    return _Keyspaces(cassette_server, cassette_cluster)


@pytest.fixture
def cassette_session(request: pytest.FixtureRequest, _cassette_keyspaces: _Keyspaces) -> Iterator[Session]:
    """A session in a keyspace with the schema of the marker `cassette_schema`, else of the configuration.

    Tests with the same schema share the keyspace; without a schema, each test has its own, which is dropped afterwards.
    After each test, the faults that it added are removed, and all tables of all keyspaces are truncated; with `seed`,
    UUIDs and times start again.
    """
    schema = _schema_of(request)
    if schema:
        yield _cassette_keyspaces.shared(schema)
    else:
        with _cassette_keyspaces.fresh() as session:
            yield session
    _cassette_keyspaces.truncate()


class _Keyspaces:
    """The keyspaces of the run."""

    def __init__(self, server: Server, cluster: Cluster) -> None:
        self._server = server
        self._cluster = cluster
        self._admin: Session = cluster.connect()
        self._names = (f"test_{number}" for number in itertools.count())
        self._shared: dict[tuple[Path, ...], tuple[Session, str]] = {}

    def shared(self, schema: tuple[Path, ...]) -> Session:
        """Returns the session of all tests with a schema. An earlier test may have used another keyspace."""
        if schema not in self._shared:
            name = self._create()
            for path in schema:
                self._server.execute_file(path, keyspace=name)
            # Rows of the schema must not make the first test differ from the others.
            self._reset_clock()
            self._cluster.refresh_schema_metadata()
            self._shared[schema] = (self._cluster.connect(name), name)
        session, name = self._shared[schema]
        session.set_keyspace(name)
        return session

    @contextmanager
    def fresh(self) -> Iterator[Session]:
        """A session in an empty keyspace, which is dropped at the end."""
        name = self._create()
        session = self._cluster.connect(name)
        try:
            yield session
        finally:
            session.shutdown()
            self._admin.execute(f"DROP KEYSPACE IF EXISTS {name}")

    def _create(self) -> str:
        name = next(self._names)
        self._admin.execute(f"CREATE KEYSPACE {name} WITH replication = {_REPLICATION}")
        return name

    def truncate(self) -> None:
        if self._server.faults._is_used:
            self._server.faults.clear()
        rows = self._admin.execute("SELECT keyspace_name, table_name FROM system_schema.tables")
        users = [(keyspace, table) for keyspace, table in rows if not keyspace.startswith("system")]
        pending = [self._admin.execute_async(f'TRUNCATE "{keyspace}"."{table}"') for keyspace, table in users]
        for result in pending:
            result.result()
        self._reset_clock()

    def _reset_clock(self) -> None:
        if self._server._has_seed:
            self._admin.execute(_RESET_CLOCK)


def _schema_of(request: pytest.FixtureRequest) -> tuple[Path, ...]:
    marker = request.node.get_closest_marker(_SCHEMA)
    if marker is None:
        directory, names = request.config.rootpath, request.config.getini(_SCHEMA)
    else:
        directory, names = request.path.parent, marker.args
    return tuple((directory / name).resolve() for name in names)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    server = item.config.stash.get(_servers, None)
    if report.failed and server is not None and "cassette_server" in getattr(item, "fixturenames", ()):
        lines = server.log.splitlines()[-_LOG_LINES:]
        if lines:
            report.sections.append(("log of cassette", "\n".join(lines)))
    return report
