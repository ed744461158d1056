"""Values of CQL as values of Python, and back. The module `_embedded` calls these functions by their names."""

from __future__ import annotations

import datetime
import keyword
import uuid as _uuid
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
#: The number of 1970-01-01 in CQL's dates.
_DAY_ZERO = 1 << 31
_DAY_NANOSECONDS = 24 * 60 * 60 * 1_000_000_000


class _Unset:
    def __repr__(self) -> str:
        return "cassette.UNSET"


#: A value that is omitted: its column stays as it is, and nothing is written for it.
UNSET = _Unset()


class Duration(NamedTuple):
    """A value of type `duration`: its parts are all negative or all positive."""

    months: int
    days: int
    nanoseconds: int


class Time(int):
    """A value of type `time`: nanoseconds since midnight, created of these, or of hour, minute and second."""

    def __new__(cls, value: int = 0, minute: int | None = None, second: float = 0) -> Time:
        if minute is not None:
            value = (value * 60 + minute) * 60 * 1_000_000_000 + round(second * 1_000_000_000)
        return super().__new__(cls, value)

    def time(self) -> datetime.time:
        """The time of day, without the part of a microsecond."""
        return (_EPOCH + datetime.timedelta(microseconds=self // 1000)).time()

    def __str__(self) -> str:
        seconds, nanoseconds = divmod(int(self), 1_000_000_000)
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{nanoseconds:09}"

    def __repr__(self) -> str:
        return f"Time({int(self)})"


def varint(value: bytes) -> int:
    return int.from_bytes(value, "big", signed=True)


def decimal(unscaled: bytes, scale: int) -> Decimal:
    # `scaleb` would round to the precision of the context, and `str` of an int has a limit of digits.
    sign, digits, _ = Decimal(varint(unscaled)).as_tuple()
    return Decimal((sign, digits, -scale))


def date(days: int) -> datetime.date:
    try:
        return datetime.date.fromordinal(days - _DAY_ZERO + _EPOCH_DAY)
    except (ValueError, OverflowError):
        raise _out_of_range("date", "datetime.date", days - _DAY_ZERO, "days") from None


def timestamp(millis: int) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(milliseconds=millis)
    except OverflowError:
        raise _out_of_range("timestamp", "datetime.datetime", millis, "milliseconds") from None


def _out_of_range(cql: str, python: str, value: int, unit: str) -> Exception:
    from cassette._errors import DataError

    return DataError(f"a {cql} of {value} {unit} since 1970 is beyond {python}: select it as JSON, or CAST it to text")


def uuid(value: bytes) -> _uuid.UUID:
    return _uuid.UUID(bytes=value)


@lru_cache(maxsize=256)
def _class_of(name: str, fields: tuple[str, ...]) -> Any:
    # Names of fields that are no identifiers are replaced by their positions.
    is_name = name.isidentifier() and not keyword.iskeyword(name)
    return namedtuple(name if is_name else "UserType", fields, rename=True)  # noqa: PYI024


def user_type(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _class_of(name, fields)._make(values)


def to_varint(value: int) -> bytes:
    if not isinstance(value, int):
        raise TypeError("expected an int")
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def to_decimal(value: Decimal | int) -> tuple[bytes, int]:
    if isinstance(value, int):
        return to_varint(value), 0
    if not isinstance(value, Decimal):
        raise TypeError("expected a decimal.Decimal, or an int")
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("expected a finite number")
    # `int` of a text has a limit of digits.
    unscaled = int(Decimal((sign, digits, 0)))
    return to_varint(unscaled), -exponent


def to_date(value: datetime.date | int) -> int:
    """Accepts an int: days, of which 1970-01-01 is 0."""
    if isinstance(value, datetime.datetime):
        raise TypeError("expected a datetime.date, found a datetime.datetime, whose time would be lost")
    if isinstance(value, datetime.date):
        value = value.toordinal() - _EPOCH_DAY
    if not isinstance(value, int):
        raise TypeError("expected a datetime.date, or an int of days since 1970")
    return value + _DAY_ZERO


def to_time(value: datetime.time | int) -> int:
    """Accepts an int: nanoseconds since midnight."""
    if isinstance(value, datetime.time):
        if value.tzinfo is not None:
            raise ValueError("expected a time without a zone")
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        value = (seconds * 1_000_000 + value.microsecond) * 1000
    if not isinstance(value, int):
        raise TypeError("expected a datetime.time, or an int of nanoseconds")
    if not 0 <= value < _DAY_NANOSECONDS:
        raise ValueError(f"expected nanoseconds of a day, found {value}")
    return value


def to_timestamp(value: datetime.datetime | datetime.date | int) -> int:
    """Accepts an int: milliseconds since 1970. Times without a zone are of UTC, as those of rows."""
    if isinstance(value, int):
        return value
    if not isinstance(value, datetime.date):
        raise TypeError("expected a datetime.datetime, or an int of milliseconds since 1970")
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return (value - _EPOCH) // datetime.timedelta(milliseconds=1)


def to_uuid(value: _uuid.UUID | str) -> bytes:
    if isinstance(value, str):
        value = _uuid.UUID(value)
    if not isinstance(value, _uuid.UUID):
        raise TypeError("expected a uuid.UUID, or a text")
    return value.bytes


def to_bytes(value: Any) -> bytes:
    # bytes(3) would be three zeros.
    return bytes(memoryview(value))


def to_items(value: Iterable[Any], count: int) -> list[Any]:
    """The items of a tuple, with None for those that are missing."""
    if not isinstance(value, (tuple, list)):
        raise TypeError("expected a tuple or a list")
    if len(value) > count:
        raise ValueError(f"expected at most {count} items, found {len(value)}")
    return [*value, *[None] * (count - len(value))]


def to_entries(value: Any) -> dict[Any, Any]:
    """The entries of a map: of a mapping, or of pairs, as those of a map that is an element of a set."""
    if isinstance(value, (str, bytes)):
        raise TypeError("expected a mapping")
    return value if type(value) is dict else dict(value)


def to_fields(value: Any, names: Sequence[str]) -> list[Any]:
    """The fields of a user-defined type: of a mapping by name, of a sequence by position, or attributes."""
    if isinstance(value, Mapping):
        unknown = set(value) - set(names)
        if unknown:
            raise ValueError(f"the type has no field {', '.join(sorted(map(str, unknown)))}")
        return [value.get(name) for name in names]
    if isinstance(value, (tuple, list)):
        return to_items(value, len(names))
    if not any(hasattr(value, name) for name in names):
        raise TypeError("expected a mapping, a sequence, or an object with the fields as attributes")
    return [getattr(value, name, None) for name in names]
