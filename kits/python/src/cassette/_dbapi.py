"""Constructors and type objects of the DB-API (PEP 249)."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from cassette._values import Time


class TypeObject:
    """Equals the type codes of `Cursor.description` that it groups."""

    def __init__(self, name: str, kinds: Iterable[str]) -> None:
        self._name = name
        self._kinds = frozenset(kinds)

    def __eq__(self, other: object) -> bool:
        return other in self._kinds if isinstance(other, str) else self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"cassette.{self._name}"


STRING = TypeObject("STRING", ("ascii", "text"))
BINARY = TypeObject("BINARY", ("blob",))
NUMBER = TypeObject(
    "NUMBER",
    ("tinyint", "smallint", "int", "bigint", "counter", "varint", "float", "double", "decimal"),
)
DATETIME = TypeObject("DATETIME", ("date", "time", "timestamp"))
#: No column has this type: rows have no identifiers beside their primary key.
ROWID = TypeObject("ROWID", ())

Date = datetime.date
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802
    """The date of UTC at a time in seconds since 1970."""
    return TimestampFromTicks(ticks).date()


def TimeFromTicks(ticks: float) -> Time:  # noqa: N802
    """The time of day of UTC at a time in seconds since 1970."""
    time = TimestampFromTicks(ticks).time()
    return Time(time.hour, time.minute, time.second + time.microsecond / 1_000_000)


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """The time of UTC, without a zone, of seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks, datetime.timezone.utc).replace(tzinfo=None)
