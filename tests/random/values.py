"""Random types and their values as terms, for `grammar.py`."""

NATIVE = [
    "ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "duration", "float", "inet", "int", "smallint",
    "text", "time",
    "timestamp", "timeuuid", "tinyint", "uuid", "varint",
]
#: Types whose values are frequent in keys, so that statements meet the same rows.
KEYS = ["int", "int", "int", "text", "bigint", "timestamp", "uuid", "boolean", "tinyint", "decimal", "date", "timeuuid",
    "inet", "varint"]

#: Other notations of values, and texts that are none.
ODD = {
    "ascii": ["$$a$$", "'ä'", "5", "0x61"],
    "bigint": ["1.0", "-0", "007", "1e2", "0x01", "'1'"],
    "blob": ["0xABC", "'61'", "0X61", "5", "0xAB"],
    "boolean": ["TRUE", "'true'", "1", "tRuE", "'yes'", "0x01"],
    "date": ["'2024-02-30'", "'-0001-01-01'", "4294967296", "-1", "2147483648", "'10000-01-01'", "'2024-1-1'",
        "'0000-00-00'", "'-5877641-06-23'"],
    "decimal": ["1e-5", "-0.0", "1E10", "'1.5'", "1.", "-.5", "007.50", "NaN"],
    "double": ["-Infinity", "-NaN", "1E-400", "0x00", "1.", "'1.5'", "nan", "infinity", "-0"],
    "duration": [
        "1y1mo", "1h1mo", "P1D", "P2W", "PT1H30M", "P0001-02-03T04:05:06", "1us", "1µs", "-1d1h",
        "9223372036854775808ns", "'1d'", "1d1d", "-P1D",
        "1Y", "178956971y",
    ],
    "float": ["3.4e39", "1e-50", "-Infinity", "NaN", "16777217", "0.1"],
    "inet": ["'1.2.3'", "'1'", "'::'", "'::ffff:1.2.3.4'", "'1::2::3'", "'fe80::1%1'", "'01.02.03.04'", "''"],
    "int": ["1.0", "-0", "007", "1e2", "0x00000001", "'1'", "-2147483648", "-2147483649", "true"],
    "smallint": ["-32769", "1.0", "0x0001", "'1'"],
    "text": ["$$a$$", "5", "0x61", "true", "'it''s'", "$$it's$$", "1d", "50554d6e-29bb-11e5-b345-feff819cdc9f"],
    "time": ["'24:00:00'", "'1:2:3'", "86400000000000", "-1", "'00:00:00.1234567890'", "'8:12'", "1", "'00:00:00.1'",
        "''"],
    "timestamp": [
        "'2024-02-30'", "'2024-01-01T00:00Z'", "'2024-01-01 00:00:00.1234+0200'", "'2024-01-01T00:00:00.1+02'",
        "'2024-1-1 1:2'", "1e3", "'0'",
        "-9223372036854775808", "'2024-01-01 00:00 UTC'", "'2024-01-01T25:00:00Z'", "''", "'-0001-01-01T00:00:00Z'",
        "0x0000000000000001",
    ],
    "timeuuid": ["123e4567-e89b-42d3-a456-426655440000", "50554D6E-29BB-11E5-B345-FEFF819CDC9F", "'x'", "0x00"],
    "tinyint": ["-129", "1.0", "0x01", "'1'"],
    "uuid": ["'123e4567-e89b-42d3-a456-426655440000'", "123E4567-E89B-42D3-A456-426655440000", "0x00", "1"],
    "varint": ["-0", "1.5", "1e3", "'1'", "0x01", "-123456789012345678901234567890"],
}
#: JSON of no type in particular.
ODD_JSON = [
    '"\\u0061"', '" 1"', '"+1"', "01", "1.", '".5"', '"NaN"', '"Infinity"', "1e400", "-0", "-0.0", "{}", "[]", '""',
    '"0x1"', "12345678901234567890", "1E2",
    '"1e2"', '"true"', '"TRUE"', '"null"', "[null]", '{"a": null}', '"2024-01-01"', '"1d"', "true", "1.0",
    '"\\n\\t\\"\\u0000"', "nul", "'a'",
]


class Values:
    """What the grammar needs to write types and values; mixed into it."""

    #: User-defined types of every case, and their fields.
    FIELDS = {
        "pair": [("x", "int"), ("y", "text")],
        "nest": [("a", "frozen<pair>"), ("b", "frozen<list<int>>"), ("c", "tuple<int, text>")],
    }
    USER_TYPES = tuple(FIELDS)

    # Types

    def data_type(self, depth=0, is_key=False):
        if is_key and self.chance(0.8):
            return self.one(KEYS)
        if depth > 1 or self.chance(0.55):
            return self.one(NATIVE)
        inner = lambda: self.frozen(self.data_type(depth + 1))  # noqa: E731
        made = self.one(
            [
                lambda: f"list<{inner()}>",
                lambda: f"set<{inner()}>",
                lambda: f"map<{inner()}, {inner()}>",
                lambda: f"tuple<{inner()}, {inner()}>",
                lambda: f"vector<{self.data_type(2)}, {self.random.randint(1, 3)}>",
                lambda: self.one(self.USER_TYPES),
            ]
        )()
        return self.frozen(made) if is_key or self.chance(0.3) else made

    def frozen(self, data_type):
        return f"frozen<{data_type}>" if data_type.startswith(("list<", "set<", "map<",
            *self.USER_TYPES)) else data_type

    # Values

    def value(self, data_type, depth=0):
        """A term of the type; sometimes null, and rarely of another type."""
        if self.is_marked and not depth and self.chance(0.5):
            return self.mark(data_type)
        if not self.is_strict:
            if self.chance(0.02):
                return "null"
            if self.chance(0.012) and depth < 2:
                return self.value(self.data_type(1), depth + 1)
        number = self.random.randint(-1, 3)
        if data_type.startswith("frozen<"):
            return self.value(data_type[7:-1], depth)
        outer, _, inside = data_type.partition("<")
        if data_type == "nest":
            fields = [f"{name}: {self.value(kind, depth + 1)}" for name, kind in self.FIELDS["nest"]
                if self.chance(0.8)]
            return "{" + ", ".join(fields or ["a: null"]) + "}"
        if not inside:
            return self.native(data_type, number)
        parts = self.parameters(data_type)
        count = self.random.randint(0, 2)
        if outer == "vector" and parts[0] == "float":
            # No two of them are equally similar to a third one.
            return "[" + ", ".join(str(self.random.randint(1, 9999) / 1000) for _ in range(int(parts[1]))) + "]"
        if outer == "list":
            return "[" + ", ".join(self.value(parts[0], depth + 1) for _ in range(count)) + "]"
        if outer == "set":
            return "{" + ", ".join(self.value(parts[0], depth + 1) for _ in range(count)) + "}"
        if outer == "map":
            items = [f"{self.value(parts[0], depth + 1)}: {self.value(parts[1], depth + 1)}" for _ in range(count)]
            # Of equal keys, Cassandra keeps any.
            items = items[:1] if len({item.partition(":")[0] for item in items}) < len(items) else items
            return "{" + ", ".join(items) + "}"
        if outer == "tuple":
            return "(" + ", ".join(self.value(part, depth + 1) for part in parts) + ")"
        return "[" + ", ".join(self.value(parts[0], depth + 1) for _ in range(int(parts[1]))) + "]"

    def native(self, data_type, number):
        edge = self.chance(0.05) and not self.is_strict
        if data_type in ODD and not self.is_strict and self.chance(0.03):
            return self.one(ODD[data_type])
        return {
            "ascii": lambda: self.one(["'a'", "'b'", "''", "'Z'"]),
            "bigint": lambda: "9223372036854775807" if edge else str(number),
            "blob": lambda: self.one(["0x", "0xcafe", "0x00"]),
            "boolean": lambda: self.one(["true", "false"]),
            "counter": lambda: str(number),
            "date": lambda: self.one(["'2024-02-29'", "'1969-12-31'", "0" if edge else "'2024-03-01'"]),
            "decimal": lambda: self.one([f"{number}.50", str(number), "1E+3" if edge else "0.00"]),
            "double": lambda: self.one([f"{number}.25", "NaN" if edge else "0.0", str(number)]),
            "duration": lambda: self.one(["1d", "-2mo3h", "P1Y2M", "0s"]),
            "float": lambda: self.one([f"{number}.5", "Infinity" if edge else "-0.0", str(number)]),
            "inet": lambda: self.one(["'127.0.0.1'", "'::1'", "'10.0.0.2'"]),
            "int": lambda: "2147483648" if edge else str(number),
            "pair": lambda: self.one([f"{{x: {number}, y: 'a'}}", f"{{x: {number}}}", "{y: 'b'}", "{z: 1}" if edge
                else "{x: 1, y: null}"]),
            "smallint": lambda: "32768" if edge else str(number),
            "text": lambda: self.one(["'a'", "'b'", "''", "'ä€'"]),
            "time": lambda: self.one(["'08:12:54.123456789'", "'00:00:00'"]),
            "timestamp": lambda: self.one(["0", "'2024-02-29T12:00:00Z'", "'1969-12-31 23:59:59.999+0000'"]),
            "timeuuid": lambda: self.one(["50554d6e-29bb-11e5-b345-feff819cdc9f",
                "50554d6f-29bb-11e5-b345-feff819cdc9f"]),
            "tinyint": lambda: "128" if edge else str(number),
            "uuid": lambda: self.one(["123e4567-e89b-42d3-a456-426655440000", "50554d6e-29bb-11e5-b345-feff819cdc9f"]),
            "varint": lambda: "123456789012345678901234567890" if edge else str(number),
        }[data_type]()

    def parameters(self, data_type):
        return parameters(data_type)


def parameters(data_type):
    """The parameters of a type, frozen or not; itself, if it has none."""
    if data_type.startswith("frozen<"):
        return parameters(data_type[7:-1])
    inside = data_type.partition("<")[2]
    return split(inside[:-1]) if inside else [data_type]


def split(text):
    """The parameters of a type: at the commas outside of angle brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return parts + [text[start:].strip()]
