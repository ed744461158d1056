"""Cassette, a Cassandra-compatible database in one binary, for tests.

>>> from cassette import Server
>>> with Server() as server:
...     print(server.execute("SELECT release_version FROM system.local"))

The pytest plugin of this package has fixtures: `cassette_server`, `cassette_cluster`, `cassette_session`.
"""

from cassette._binary import BinaryNotFoundError, find_binary
from cassette._faults import Faults
from cassette._nodes import Nodes
from cassette._server import Server, ServerError, StatementError

__all__ = ["BinaryNotFoundError", "Faults", "Nodes", "Server", "ServerError", "StatementError", "find_binary"]
