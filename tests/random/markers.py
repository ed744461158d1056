"""Random values of bind markers, for `grammar.py`.

A statement with markers ends in a comment that lists their values in hexadecimal notation:
`/* bind 00000001, null, unset, empty */`.
"""

import re
import struct

MARK = re.compile(r"\x01(\d+)\x02")
NUMBERS = {"tinyint": ">b", "smallint": ">h", "int": ">i", "bigint": ">q", "counter": ">q", "float": ">f",
    "double": ">d", "time": ">q"}
TIMEUUIDS = ["50554d6e29bb11e5b345feff819cdc9f", "50554d6f29bb11e5b345feff819cdc9f"]
CHOICES = {
    "ascii": ["61", "62", "", "5a"],
    "blob": ["", "cafe", "00"],
    "boolean": ["00", "01"],
    "date": ["80004d4e", "7fffffff", "80004d4f"],
    "decimal": ["0000000232", "00000000ff", "0000000200", "fffffffd01"],
    "duration": ["000200", "035a00", "000000"],
    "inet": ["7f000001", "0" * 31 + "1", "0a000002"],
    "text": ["61", "62", "", "c3a4e282ac"],
    "timestamp": ["0000000000000000", "0000018df4a1e200", "ffffffffffffffff"],
    "timeuuid": TIMEUUIDS,
    "uuid": ["123e4567e89b42d3a456426655440000", TIMEUUIDS[0]],
    "varint": ["00", "01", "ff", "018ee90ff6c373e0ee4e3f0ad2"],
}


class Markers:
    """What the grammar needs to bind values; mixed into it."""

    #: The values of the statement's markers; None where it has none.
    marks = None

    @property
    def is_marked(self):
        return self.marks is not None

    def with_markers(self, write):
        """The statement that `write` returns, with markers instead of some values."""
        self.marks = []
        try:
            text, values = write(), self.marks
        finally:
            self.marks = None
        found = [values[int(number)] for number in MARK.findall(text)]
        return MARK.sub("?", text) + (f" /* bind {', '.join(found)} */" if found else "")

    def mark(self, data_type):
        """A marker; its place in the statement is found when the statement is complete."""
        return self.mark_of(self.bound(data_type))

    def mark_of(self, value):
        self.marks.append(value)
        return f"\x01{len(self.marks) - 1}\x02"

    def bound(self, data_type):
        kind = self.random.random()
        if kind < 0.06:
            return "null"
        if kind < 0.12:
            return "unset"
        if kind < 0.14:
            return bytes(self.random.randrange(256) for _ in range(self.random.randint(1, 5))).hex()
        return self.encoded(data_type).hex() or "empty"

    def encoded(self, data_type):
        """The bytes of a value of the type."""
        if data_type.startswith("frozen<"):
            return self.encoded(data_type[7:-1])
        if data_type in NUMBERS:
            number = self.random.randint(0 if data_type == "time" else -1, 3)
            return struct.pack(NUMBERS[data_type], number)
        if data_type in CHOICES:
            return bytes.fromhex(self.one(CHOICES[data_type]))
        if data_type in self.USER_TYPES:
            fields = self.FIELDS[data_type][: self.random.randint(0, 3)]
            return b"".join(self.sized(kind) for _, kind in fields)
        outer, parts = data_type.partition("<")[0], self.parameters(data_type)
        if outer == "tuple":
            return b"".join(self.sized(part)
                for part in parts[: self.random.randint(max(len(parts) - 1, 1), len(parts))])
        if outer == "vector":
            return self.elements(parts[0], int(parts[1]))
        count = self.random.randint(0, 2)
        if outer == "map":
            return struct.pack(">i", count) + b"".join(self.sized(part, 0) for _ in range(count) for part in parts)
        return struct.pack(">i", count) + b"".join(self.sized(parts[0], 0) for _ in range(count))

    def sized(self, data_type, null=0.1):
        """A value after its length; sometimes null."""
        if self.chance(null):
            return struct.pack(">i", -1)
        value = self.encoded(data_type)
        return struct.pack(">i", len(value)) + value

    def elements(self, data_type, count):
        """The elements of a vector; those of varying size have their length before them."""
        values = [self.encoded(data_type) for _ in range(count)]
        is_fixed = data_type in ("bigint", "boolean", "double", "float", "int", "timestamp", "timeuuid", "uuid")
        return b"".join(value if is_fixed else bytes([len(value)]) + value for value in values)
