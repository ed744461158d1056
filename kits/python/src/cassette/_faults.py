"""Faults that a server injects into the requests of applications."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, Union

Value = Union[str, int, float, bool]

_TABLE = "system_testing.cassette_faults"


class Faults:
    """The rules of a server that was started with `fault_injection=True`.

    The columns of a rule are those of the table `system_testing.cassette_faults`, which docs/testing.md describes.
    """

    def __init__(self, execute: Callable[..., str]) -> None:
        self._execute = execute
        self._numbers = itertools.count(1)
        #: Whether there may be rules.
        self._is_used = False

    def add(self, effect: str, *, id: str | None = None, **columns: Value) -> str:
        """Adds a rule, and returns its id. Rules are tried in the order of their ids, which is that of their calls.

        Raises StatementError if a column has a value that it cannot have.
        """
        rule: dict[str, Value] = {"id": id or f"fault-{next(self._numbers):06}", "effect": effect, **columns}
        self._is_used = True
        names, values = ", ".join(rule), ", ".join(_literal(value) for value in rule.values())
        self._execute(f"INSERT INTO {_TABLE} ({names}) VALUES ({values})")
        return str(rule["id"])

    @contextmanager
    def injected(self, effect: str, **columns: Value) -> Iterator[str]:
        """Adds a rule, and removes it at the end."""
        rule = self.add(effect, **columns)
        try:
            yield rule
        finally:
            self.remove(rule)

    def remove(self, id: str) -> None:
        """Removes a rule. Does nothing if it does not exist."""
        self._execute(f"DELETE FROM {_TABLE} WHERE id = {_literal(id)}")

    def clear(self) -> None:
        """Removes all rules."""
        self._execute(f"TRUNCATE {_TABLE}")
        self._is_used = False

    def list(self) -> list[dict[str, Any]]:
        """Returns all rules: their columns, and how many requests they `matched` and `injected` faults into."""
        rows = self._execute(f"SELECT * FROM {_TABLE}", format="json")
        rules = [json.loads(line) for line in rows.splitlines() if line]
        return [{name: value for name, value in rule.items() if value is not None} for rule in rules]


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value)
