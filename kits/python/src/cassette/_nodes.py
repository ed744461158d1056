"""Virtual nodes of a server."""

from __future__ import annotations

import json
from typing import Any, Callable

_TABLE = "system_testing.cassette_nodes"


class Nodes:
    """The virtual nodes of a server that was started with `nodes`.

    Take another node down than the one at `server.host`, through which this class and `server.execute` connect.
    """

    def __init__(self, execute: Callable[..., str]) -> None:
        self._execute = execute

    def addresses(self) -> list[str]:
        """Returns the addresses of all nodes, in their order."""
        return sorted((str(node["address"]) for node in self.list()), key=_order)

    def list(self) -> list[dict[str, Any]]:
        """Returns all nodes: their columns, with `state`, `requests` and `requests_as_replica`."""
        rows = self._execute(f"SELECT * FROM {_TABLE}", format="json")
        return [json.loads(line) for line in rows.splitlines() if line]

    def down(self, address: str) -> None:
        """Closes the listener and the connections of a node, and notifies the clients of others."""
        self._set(address, "down")

    def up(self, address: str) -> None:
        """Starts a node that is down or removed, and notifies clients."""
        self._set(address, "up")

    def remove(self, address: str) -> None:
        """Removes a node from the cluster, and notifies clients."""
        self._set(address, "removed")

    def _set(self, address: str, state: str) -> None:
        self._execute(f"UPDATE {_TABLE} SET state = '{state}' WHERE address = '{address}'")


def _order(address: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in address.split("."))
