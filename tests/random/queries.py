"""Random queries of forms that `Grammar.select` does not have, for `grammar.py`."""

LOWER, UPPER = [">", ">="], ["<", "<="]
DURATIONS = ["1d", "2h", "1mo", "12h", "1d1h", "0d", "-1d", "1ns"]


class Queries:
    """Queries by tuples, slices and tokens, of groups and of elements; a part of the grammar."""

    def query(self, table):
        forms = [self.by_tuples, self.by_slices, self.by_lists, self.by_tokens, self.grouped, self.grouped,
            self.distinct]
        forms += [self.of_elements, self.of_aggregates, self.as_json, self.filtered, self.filtered]
        if any(is_searched(column) for column in table.columns):
            forms += [self.by_similarity] * 4
        return self.one(forms)(table)

    def row(self, columns):
        """A tuple with a value for each column; rarely with one too many."""
        if self.is_marked and self.chance(0.3):
            return self.mark(self.tuple_type(columns))
        values = [self.value(column.type) for column in columns]
        if self.chance(0.02):
            values.append("1")
        return "(" + ", ".join(values) + ")"

    def tuple_type(self, columns):
        return f"tuple<{', '.join(column.type for column in columns)}>"

    def by_tuples(self, table):
        clustering = table.of("clustering")
        if not clustering:
            return self.by_lists(table)
        start = 0 if self.chance(0.8) else self.random.randrange(len(clustering))
        columns = clustering[start : start + self.random.randint(1, 3)]
        where = [f"{column.name} = {self.value(column.type)}" for column in clustering[:start] if self.chance(0.9)]
        names = ", ".join(column.name for column in columns)
        if self.chance(0.5):
            rows = ", ".join(self.row(columns) for _ in range(self.random.randint(0, 3)))
            if self.is_marked and self.chance(0.4):
                where.append(f"({names}) IN {self.mark(f'list<{self.tuple_type(columns)}>')}")
            else:
                where.append(f"({names}) IN ({rows})")
        else:
            where.append(f"({names}) {self.one(LOWER + ['='])} {self.row(columns)}")
            if self.chance(0.5):
                prefix = columns[: self.random.randint(1, len(columns))]
                where.append(f"({', '.join(column.name for column in prefix)}) {self.one(UPPER)} {self.row(prefix)}")
        rest = clustering[start + len(columns) :]
        if rest and self.chance(0.3):
            where.append(self.relation(rest[0]))
        return self.selected(table, self.partition(table) + where)

    def by_slices(self, table):
        clustering = table.of("clustering")
        if not clustering:
            return self.by_lists(table)
        at = self.random.randrange(len(clustering))
        where = [self.equalities([column]) for column in clustering[:at]]
        sliced = clustering[at]
        where.append(f"{sliced.name} {self.one(LOWER)} {self.value(sliced.type)}")
        if self.chance(0.7):
            where.append(f"{sliced.name} {self.one(UPPER + ['>'] if self.chance(0.1) else UPPER)} {self.value(sliced.type)}")
        for column in clustering[at + 1 :]:
            if self.chance(0.2):
                where.append(self.relation(column))
        return self.selected(table, self.partition(table) + where)

    def by_lists(self, table):
        where = []
        for column in table.key:
            if column.kind == "clustering" and self.chance(0.3):
                break
            values = [self.value(column.type) for _ in range(self.random.randint(1, 3))]
            where.append(f"{column.name} = {values[0]}" if self.chance(0.3)
                else f"{column.name} IN ({', '.join(values)})")
        return self.selected(table, where)

    def by_tokens(self, table):
        partition = table.of("partition")
        token = f"token({', '.join(column.name for column in partition)})"
        limit = lambda: self.mark("bigint") if self.is_marked and self.chance(0.3) else (  # noqa: E731
            f"token({', '.join(self.value(c.type) for c in partition)})" if self.chance(0.6)
            else str(self.random.randint(-4, 4) * 2**61 - self.chance(0.1))
        )
        where = [f"{token} {self.one(LOWER)} {limit()}"]
        if self.chance(0.7):
            where.append(f"{token} {self.one(UPPER)} {limit()}")
        if self.chance(0.15):
            where += self.partition(table)
        if self.chance(0.2):
            where.append(self.relation(self.one(table.columns)))
        return self.selected(table, where)

    def grouped(self, table):
        key = table.key
        groups = [column.name for column in key[: self.random.randint(1, len(key))]]
        if self.chance(0.15):
            del groups[: self.random.randint(0, max(0, len(groups) - 1))]
        if self.chance(0.2):
            start = self.one(["", "", ", '2024-01-01'"])
            groups[-1] = f"floor({groups[-1]}, {self.one(DURATIONS)}{start})"
        if self.chance(0.05):
            groups.append(self.one(table.columns).name)
        shown = [name for name in groups if self.chance(0.8)]
        for _ in range(self.random.randint(1, 3)):
            column = self.one(table.columns).name
            shown.append(self.one([f"count({column})", f"min({column})", f"max({column})", f"sum({column})", "count(*)",
                column]))
        where = []
        if self.chance(0.6):
            where = self.relations(table)
        return self.selected(table, where, ", ".join(shown), f"GROUP BY {', '.join(groups)}")

    def distinct(self, table):
        shown = [column.name for column in table.of("partition") if self.chance(0.97)]
        shown += [self.one([column.name, f"count({column.name})", f"to_json({column.name})"])
            for column in table.of("static")]
        where = []
        if self.chance(0.3):
            where = self.partition(table)
        elif self.chance(0.5) and table.of("static"):
            where = [self.relation(table.of("static")[0])]
        if self.chance(0.1):
            where.append(self.relation(self.one(table.columns)))
        groups = ""
        if self.chance(0.1):
            groups = "GROUP BY " + ", ".join(column.name for column in table.of("partition"))
        return self.selected(table, where,
            self.one(["DISTINCT ", "DISTINCT ", "JSON DISTINCT "]) + ", ".join(shown or ["*"]), groups)

    def of_elements(self, table):
        composed = [column for column in table.columns if column.type in self.USER_TYPES or "<" in column.type]
        shown = [self.element(self.one(composed or table.columns)) for _ in range(self.random.randint(1, 3))]
        return self.selected(table, self.relations(table) if self.chance(0.4) else [], ", ".join(shown))

    def element(self, column):
        """An element, a slice or a field of a column, or its times."""
        key = self.value(self.parameters(column.type)[0])
        upper = self.value(self.parameters(column.type)[0])
        name = column.name
        part = self.one(
            [f"{name}[{key}]", f"{name}[{key}..{upper}]", f"{name}[{key}..]", f"{name}[..{upper}]",
                f"{name}.{self.one('xyabc')}"]
            + [f"{name}.a.{self.one('xy')}", f"{name}[{key}].{self.one('xy')}", f"{name}[{key}][{upper}]", name]
        )
        if self.is_timed and self.chance(0.35):
            return f"{self.one(['writetime', 'maxwritetime'])}({part})"
        if self.chance(0.15):
            return f"{self.one(['to_json', 'count', 'max', 'min', 'collection_count', 'map_values', 'collection_max'])}({part})"
        return part

    def of_aggregates(self, table):
        shown = []
        for _ in range(self.random.randint(1, 3)):
            name = self.one(table.columns).name
            inner = self.one([name, f"collection_{self.one(['count', 'sum', 'min', 'max', 'avg'])}({name})",
                f"map_keys({name})"])
            inner = self.one([inner, inner, f"CAST({name} AS {self.one(['int', 'text', 'double', 'decimal'])})",
                f"{name}.x", f"[{name}]"])
            shown.append(f"{self.one(['count', 'min', 'max', 'sum', 'avg'])}({inner}){self.one(['', '', ' AS n'])}")
        return self.selected(table, self.relations(table) if self.chance(0.4) else [], ", ".join(shown))

    def as_json(self, table):
        shown = []
        for column in self.some(table.columns):
            shown.append(column.name + self.one(["", "", "", ' AS "Upper"', " AS lower", ' AS "a ""b"', ' AS "ä\\n"']))
        if self.chance(0.3):
            shown.append(self.element(self.one(table.columns)))
        return self.selected(table, self.relations(table) if self.chance(0.3) else [],
            "JSON " + ("*" if self.chance(0.4) else ", ".join(shown)))

    def filtered(self, table):
        """Several relations of any columns."""
        columns = self.some(table.columns, 2)
        where = [self.relation(column) for column in columns]
        if self.chance(0.3):
            where = self.partition(table) + where
        if self.chance(0.05):
            where.append(f"{self.one(table.columns).name} IS NOT NULL")
        return self.selected(table, where, None, "", 0.85)

    def by_similarity(self, table):
        column = self.one([column for column in table.columns if is_searched(column)])
        where = self.relations(table) if self.chance(0.35) else []
        query = self.value(column.type)
        shown = "*"
        if self.chance(0.5):
            measure = self.one(["cosine", "euclidean", "dot_product"])
            shown = f"{', '.join(c.name for c in table.key)}, similarity_{measure}({column.name}, {query})"
        limit = f" LIMIT {self.random.randint(0, 5)}" if self.chance(0.95) else ""
        filtering = " ALLOW FILTERING" if self.chance(0.2) else ""
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        return f"SELECT {shown} FROM {table.name}{condition} ORDER BY {column.name} ANN OF {query}{limit}{filtering}"

    def partition(self, table):
        """Relations of the partition key; sometimes none or too few."""
        if self.chance(0.12):
            return []
        return [self.equalities([column]) for column in table.of("partition") if self.chance(0.97)]

    def selected(self, table, where, shown=None, groups="", filtering=0.4):
        clauses = [f"SELECT {shown or self.selection(table)} FROM {table.name}"]
        if where:
            clauses.append("WHERE " + " AND ".join(where))
        if groups:
            clauses.append(groups)
        if table.of("clustering") and self.chance(0.25):
            clauses.append(self.order(table))
        if self.chance(0.15):
            clauses.append(f"PER PARTITION LIMIT {self.limit()}")
        if self.chance(0.25):
            clauses.append(f"LIMIT {self.limit()}")
        if self.chance(filtering):
            clauses.append("ALLOW FILTERING")
        return " ".join(clauses)

    def limit(self):
        if self.is_marked and self.chance(0.4):
            return self.mark("int")
        return str(self.random.randint(0, 3) if self.chance(0.1) else self.random.randint(1, 3))

    def order(self, table):
        """The order of the table, its reverse, or any."""
        columns = table.of("clustering")[: self.random.randint(1, 3)]
        is_reversed, is_any = self.chance(0.5), self.chance(0.15)
        directions = []
        for column in columns:
            is_ascending = self.chance(0.5) if is_any else (table.order.get(column.name, "ASC") == "ASC") != is_reversed
            directions.append(f"{column.name} {'ASC' if is_ascending else 'DESC'}")
        return "ORDER BY " + ", ".join(directions)


def is_searched(column):
    return column.name == "e"
