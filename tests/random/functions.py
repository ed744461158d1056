"""Random calls of functions and terms of expressions, for `grammar.py`."""

from values import ODD_JSON

#: Conversions of numbers, and functions of one number.
NUMBERS = ["tinyint", "smallint", "int", "bigint", "varint", "float", "double", "decimal"]
MATH = ["abs", "exp", "log", "log10", "round"]
TIMES = ["to_date", "to_timestamp", "to_unix_timestamp", "min_timeuuid", "max_timeuuid", "dateOf", "unixTimestampOf", "toDate"]
COLLECTIONS = ["map_keys", "map_values", "collection_count", "collection_min", "collection_max", "collection_sum", "collection_avg"]
AGGREGATES = ["count", "min", "max", "sum", "avg"]
MASKS = [
    "mask_default({0})", "mask_null({0})", "mask_inner({0}, 1, 1)", "mask_outer({0}, 1, null, '#')", "mask_replace({0}, {1})",
    "mask_hash({0})", "mask_hash({0}, 'nohash')", "mask_inner({0}, 1, 1, '##')",
]


class Functions:
    """What the grammar needs to write expressions; mixed into it."""

    def expression(self, table, depth=0):
        """A selector: a column, or what functions and operators make of columns and values."""
        column = self.one(table.columns)
        if depth > 1 or self.chance(0.35):
            return column.name
        inner = lambda: self.expression(table, depth + 1)  # noqa: E731
        return self.one(
            [
                lambda: f"{self.one(MATH)}({inner()})",
                lambda: f"{self.one(TIMES)}({inner()})",
                lambda: f"{self.one(COLLECTIONS)}({inner()})",
                lambda: f"{self.one(AGGREGATES)}({inner()})",
                lambda: f"CAST({inner()} AS {self.one(NUMBERS + ['text', 'ascii', 'date', 'timestamp', 'boolean'])})",
                lambda: f"{inner()} {self.one('+-*/%')} {inner()}",
                lambda: f"{inner()} {self.one('+-*/%')} {self.value(column.type)}",
                lambda: f"-{inner()}",
                lambda: f"({inner()}, {inner()})",
                lambda: f"({column.type}) {self.value(column.type)}",
                lambda: f"{{{inner()}: {inner()}}}",
                lambda: f"{{{inner()}}}",
                lambda: f"(set<{column.type}>) {{{column.name}}}",
                lambda: f"(list<{column.type}>) [{column.name}]",
                lambda: f"to_json({inner()})",
                lambda: f"{self.one(['blob', 'int', 'text', 'bigint'])}_as_blob({inner()})",
                lambda: f"blob_as_{self.one(['int', 'text', 'bigint', 'uuid'])}({self.one(['0x', '0x00000001', inner()])})",
                lambda: self.one(MASKS).format(column.name, self.value(column.type)),
                lambda: f"{column.name}[{self.value('int')}..{self.value('int')}]",
                lambda: f"{column.name}[{self.value('text')}]",
                lambda: f"{column.name}.{self.one(['x', 'y', 'z'])}",
                lambda: f"token({', '.join(c.name for c in table.of('partition'))})",
                lambda: f"count({self.one(['*', '1'])})",
                lambda: f"similarity_{self.one(['cosine', 'euclidean', 'dot_product'])}({column.name}, {self.value(column.type)})",
            ]
        )()

    def term(self, data_type):
        """A value, sometimes as the result of a function or of arithmetic."""
        value = self.value(data_type)
        if self.chance(0.85) or data_type == "counter":
            return value
        choices = [f"({self.cast(data_type)}) {value}", f"from_json('{self.json_text(data_type)}')"]
        if self.is_marked:
            choices.append(f"from_json({self.mark_of(self.json(data_type).encode().hex())})")
        if data_type in NUMBERS:
            choices += [f"abs({value})", f"{value} {self.one('+-*/%')} {self.value(data_type)}", f"-{value}", f"round({value})"]
        if data_type == "blob":
            choices += ["int_as_blob(1)", "text_as_blob('a')"]
        if data_type == "date":
            choices += ["to_date(50554d6e-29bb-11e5-b345-feff819cdc9f)", f"{value} - 1d"]
        if data_type == "timestamp":
            choices += ["to_timestamp(50554d6e-29bb-11e5-b345-feff819cdc9f)", f"{value} + 1h", "to_timestamp('2024-03-01')"]
        if data_type == "timeuuid":
            choices += ["min_timeuuid('2024-03-01')", "max_timeuuid(0)"]
        return self.one(choices)

    def cast(self, data_type):
        """The type, or sometimes the frozen one or the one that is not."""
        if self.chance(0.7) or "<" not in data_type:
            return data_type
        return data_type[7:-1] if data_type.startswith("frozen<") else f"frozen<{data_type}>"

    def json_text(self, data_type):
        """JSON of a value, for INSERT JSON and from_json; quotation marks are doubled for CQL."""
        return self.json(data_type).replace("'", "''")

    def json(self, data_type, depth=0):
        if self.chance(0.05):
            return "null"
        if not self.is_strict and self.chance(0.04):
            return self.one(ODD_JSON)
        if data_type.startswith("frozen<"):
            return self.json(data_type[7:-1], depth)
        outer, _, inside = data_type.partition("<")
        number = self.random.randint(-1, 3)
        if not inside:
            return self.json_of_native(data_type, number)
        parts = self.parameters(data_type)
        some = range(self.random.randint(0, 2))
        if outer in ("list", "set"):
            return "[" + ", ".join(self.json(parts[0], depth + 1) for _ in some) + "]"
        if outer == "map":
            # Of equal keys in different notations, Cassandra keeps any.
            keys = [self.json(parts[0], depth + 1) for _ in some][:1]
            quoted = [key if key.startswith('"') else '"' + key.replace('"', '\\"') + '"' for key in keys]
            return "{" + ", ".join(f"{key}: {self.json(parts[1], depth + 1)}" for key in quoted) + "}"
        if outer == "tuple":
            return "[" + ", ".join(self.json(part, depth + 1) for part in parts) + "]"
        return "[" + ", ".join(self.json(parts[0], depth + 1) for _ in range(int(parts[1]))) + "]"

    def json_of_native(self, data_type, number):
        if data_type == "pair":
            return self.one([f'{{"x": {number}, "y": "a"}}', f'{{"x": {number}}}', '{"y": null}', "{}"])
        if data_type == "nest":
            fields = [f'"{name}": {self.json(kind)}' for name, kind in self.FIELDS["nest"] if self.chance(0.8)]
            return "{" + ", ".join(fields) + "}"
        if data_type in NUMBERS or data_type == "counter":
            return self.one([str(number), f'"{number}"', f"{number}.5", "1e2"])
        if data_type == "boolean":
            return self.one(["true", "false", '"true"', "0"])
        text = self.native(data_type, number)
        return '"' + text.strip("'") + '"' if self.chance(0.97) else str(number)
