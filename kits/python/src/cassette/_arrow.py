"""Rows as a table of Apache Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable

#: The types of values without values within. Numbers without a limit are texts, which lose nothing.
_SCALARS = {
    "ascii": "string",
    "text": "string",
    "inet": "string",
    "uuid": "string",
    "timeuuid": "string",
    "varint": "string",
    "decimal": "string",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "counter": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool_",
    "blob": "binary",
    "custom": "binary",
    "date": "date32",
    "duration": "month_day_nano_interval",
}
#: Those whose values have to be texts first.
_AS_TEXT = {"uuid", "timeuuid", "varint", "decimal"}

#: A type: its name, and the types within.
Type = tuple[Any, ...]


def table(pyarrow: Any, names: Sequence[str], types: Sequence[Type], chunks: Iterable[list[tuple[Any, ...]]]) -> Any:
    """The table of all rows. Its schema depends on the types alone."""
    schema = pyarrow.schema([(name, _type(pyarrow, kind)) for name, kind in zip(names, types)])
    converters = [_converter(pyarrow, kind) for kind in types]
    batches = []
    for rows in chunks:
        columns = zip(schema.types, converters, zip(*rows))
        arrays = [pyarrow.array(list(map(convert, values)), kind) for kind, convert, values in columns]
        batches.append(pyarrow.record_batch(arrays, schema=schema))
    return pyarrow.Table.from_batches(batches, schema=schema)


def _type(pyarrow: Any, kind: Type) -> Any:
    name = kind[0]
    if name in ("list", "set"):
        return pyarrow.list_(_type(pyarrow, kind[1]))
    if name == "vector":
        return pyarrow.list_(_type(pyarrow, kind[1]), kind[2])
    if name == "map":
        return pyarrow.map_(_type(pyarrow, kind[1]), _type(pyarrow, kind[2]))
    if name == "struct":
        return pyarrow.struct([(field, _type(pyarrow, within)) for field, within in kind[1]])
    if name == "timestamp":
        return pyarrow.timestamp("ms", tz="UTC")
    if name == "time":
        return pyarrow.time64("ns")
    return getattr(pyarrow, _SCALARS[name])()


def _converter(pyarrow: Any, kind: Type) -> Callable[[Any], Any]:
    """The function that converts values to those that Arrow converts to the type."""
    name = kind[0]
    if name in _AS_TEXT:
        return _optional(str)
    if name == "duration":
        return _optional(pyarrow.MonthDayNano)
    if name in ("list", "vector"):
        element = _converter(pyarrow, kind[1])
        return _optional(lambda values: list(map(element, values)))
    if name == "set":
        element = _converter(pyarrow, kind[1])
        return _optional(lambda values: _sorted(map(element, values)))
    if name == "map":
        key, value = _converter(pyarrow, kind[1]), _converter(pyarrow, kind[2])
        return _optional(lambda entries: [(key(k), value(v)) for k, v in _pairs(entries)])
    if name == "struct":
        fields = [(field, _converter(pyarrow, within)) for field, within in kind[1]]
        return _optional(lambda values: {field: convert(value) for (field, convert), value in zip(fields, values)})
    return lambda value: value


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _pairs(entries: Any) -> Iterable[tuple[Any, Any]]:
    # A map within a set is a tuple of pairs.
    return entries.items() if isinstance(entries, dict) else entries


def _sorted(values: Iterable[Any]) -> list[Any]:
    values = list(values)
    try:
        return sorted(values)
    except TypeError:  # Some values have no order in Python, such as those of structs.
        return values
