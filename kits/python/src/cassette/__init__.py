"""Cassette, a Cassandra-compatible database in one binary: a server for tests, and a database in the process.

>>> from cassette import Server
>>> with Server() as server:
...     print(server.execute("SELECT release_version FROM system.local"))

>>> import cassette
>>> with cassette.connect(":memory:") as connection:
...     print(connection.execute("SELECT release_version FROM system.local").fetchone())

The pytest plugin of this package has fixtures: `cassette_server`, `cassette_cluster`, `cassette_session`.
"""

from cassette._binary import BinaryNotFoundError, find_binary
from cassette._connection import Connection, Cursor, connect, dict_factory, named_tuple_factory, tuple_factory
from cassette._dbapi import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from cassette._errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from cassette._faults import Faults
from cassette._nodes import Nodes
from cassette._server import Server, ServerError, StatementError
from cassette._values import UNSET, Duration, Time

#: The version of the DB-API (PEP 249).
apilevel = "2.0"
#: Threads may share the module and connections.
threadsafety = 2
#: Markers are `?`, or `:name` for values by name.
paramstyle = "qmark"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "UNSET",
    "Binary",
    "BinaryNotFoundError",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Duration",
    "Error",
    "Faults",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Nodes",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Server",
    "ServerError",
    "StatementError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "dict_factory",
    "find_binary",
    "named_tuple_factory",
    "paramstyle",
    "threadsafety",
    "tuple_factory",
]
