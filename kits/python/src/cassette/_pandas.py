"""Rows as a DataFrame of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Types of columns that can hold null, so that they do not depend on the values. Other values are objects.
_TYPES = {
    "tinyint": "Int8",
    "smallint": "Int16",
    "int": "Int32",
    "bigint": "Int64",
    "counter": "Int64",
    "float": "float32",
    "double": "float64",
    "boolean": "boolean",
    "timestamp": "datetime64[ms]",
}


def frame(pandas: Any, names: Sequence[str], types: Sequence[tuple[Any, ...]], rows: list[tuple[Any, ...]]) -> Any:
    columns = zip(*rows) if rows else [()] * len(names)
    series = [pandas.Series(values, dtype=_TYPES.get(kind[0], "object")) for kind, values in zip(types, columns)]
    # Names may be equal, so they cannot be keys.
    table = pandas.concat(series, axis=1)
    table.columns = list(names)
    return table
