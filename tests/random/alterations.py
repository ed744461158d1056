"""Random changes of schemas, and queries of what describes them, for `grammar.py`."""

SASI = "org.apache.cassandra.index.sasi.SASIIndex"
ANALYZERS = ["NonTokenizingAnalyzer", "StandardAnalyzer", "DelimiterAnalyzer", "NoOpAnalyzer"]
OPTIONS = [
    "comment = 'a'", "gc_grace_seconds = 0", "default_time_to_live = 1000", "default_time_to_live = -1",
    "bloom_filter_fp_chance = 0.5",
    "bloom_filter_fp_chance = 2", "caching = {'keys': 'NONE'}", "caching = {'keys': 'x'}",
    "compression = {'enabled': 'false'}",
    "compaction = {'class': 'LeveledCompactionStrategy'}", "compaction = {'class': 'x'}", "min_index_interval = 0",
    "speculative_retry = '50ms'", "speculative_retry = 'x'", "memtable_flush_period_in_ms = 1", "unknown = 1",
    "cdc = false",
    "read_repair = 'NONE'", "crc_check_chance = 0.5", "additional_write_policy = '9p'", "extensions = {}",
]


class Alterations:
    """What the grammar needs to change schemas; mixed into it."""

    def create_index(self, table, column):
        target = column.name
        if column.is_collection and self.chance(0.6):
            target = f"{self.one(['keys', 'values', 'entries', 'full'])}({target})"
        kind = self.random.random()
        if kind < 0.35:
            return f"CREATE INDEX ON {table.name} ({target}) USING 'sai'{self.sai_options()}"
        if kind < 0.6:
            return f"CREATE CUSTOM INDEX ON {table.name} ({target}) USING '{SASI}'{self.sasi_options()}"
        return f"CREATE INDEX {self.one(['', '', 'IF NOT EXISTS ', 'i '])}ON {table.name} ({target})"

    def sai_options(self):
        if self.chance(0.8):
            return ""
        option = self.one(["case_sensitive", "normalize", "ascii", "similarity_function", "x"])
        return f" WITH OPTIONS = {{'{option}': '{self.one(['true', 'false', 'cosine', 'x'])}'}}"

    def sasi_options(self):
        options = {}
        if self.chance(0.6):
            options["mode"] = self.one(["PREFIX", "CONTAINS", "CONTAINS", "SPARSE", "x"])
        if self.chance(0.3):
            analyzer = self.one(ANALYZERS)
            options["analyzer_class"] = f"org.apache.cassandra.index.sasi.analyzer.{analyzer}"
            if analyzer == "NonTokenizingAnalyzer" and self.chance(0.6):
                options[self.one(["case_sensitive", "normalize_lowercase", "normalize_uppercase"])] = self.one(["true",
                    "false"])
            if analyzer == "DelimiterAnalyzer":
                options["delimiter"] = self.one([",", "a", " "])
        if self.chance(0.1):
            options[self.one(["analyzed", "is_literal"])] = self.one(["true", "false"])
        if not options:
            return ""
        return " WITH OPTIONS = {" + ", ".join(f"'{key}': '{value}'" for key, value in options.items()) + "}"

    def alteration(self, table):
        return self.one(
            [
                self.add_column, self.add_column, self.drop_column, self.rename_column, self.with_options,
                self.alter_type, self.index_later,
                self.index_later, self.drop_index, self.view, self.view, self.truncate, self.described, self.described,
                self.several_columns, self.several_columns, self.change_column, self.change_view, self.change_types,
                self.change_types,
                self.odd_table, self.odd_table,
            ]
        )(table)

    def add_column(self, table):
        name = self.one(["n", "m", "v0", "c0"])
        column = self.column(name, self.one(["regular", "regular", "static"]), self.data_type())
        if name in ("n", "m") and all(c.name != name for c in table.columns):
            # Later statements use it, though this one may be refused.
            table.columns.append(column)
        static = " static" if column.kind == "static" else ""
        exists = "IF NOT EXISTS " if self.chance(0.1) else ""
        return f"ALTER TABLE {table.name} ADD {exists}{name} {column.type}{static}"

    def drop_column(self, table):
        exists = "IF EXISTS " if self.chance(0.1) else ""
        return f"ALTER TABLE {table.name} DROP {exists}{self.one(table.columns).name}"

    def rename_column(self, table):
        column = self.one(table.key)
        return f"ALTER TABLE {table.name} RENAME {column.name} TO {self.one(['v0', 'zz'])}"

    def several_columns(self, table):
        """Columns added, dropped and renamed together."""
        names = [column.name for column in table.columns]
        added = ", ".join(f"{name} {self.data_type()}{self.one(['', '', ' static'])}"
            for name in self.random.sample(["n", "m", "v0", "q"], 2))
        dropped = ", ".join(self.random.sample(names, min(2, len(names))))
        using = self.one(["", "", " USING TIMESTAMP 5000", " USING TIMESTAMP 20000"])
        renamed = " AND ".join(f"{self.one(names)} TO {name}"
            for name in self.random.sample(["zz", "yy", "v0", "c1"], 2))
        exists = self.one(["", "", "", "IF EXISTS "])
        return self.one(
            [
                f"ALTER TABLE {exists}{table.name} ADD ({added})", f"ALTER TABLE {table.name} ADD {added}",
                f"ALTER TABLE {table.name} DROP ({dropped}){using}",
                f"ALTER TABLE {table.name} DROP {self.one(names)}{using}",
                f"ALTER TABLE {table.name} RENAME {exists}{renamed}",
            ]
        )

    def change_column(self, table):
        column = self.one(table.columns)
        return self.one(
            [
                f"ALTER TABLE {table.name} ALTER {column.name} TYPE {self.data_type()}",
                f"ALTER TABLE {table.name} DROP COMPACT STORAGE",
                f"ALTER TABLE {table.name} ALTER IF EXISTS n TYPE int",
                f"ALTER TABLE {table.name} WITH COMPACT STORAGE",
                f"ALTER TABLE {table.name} WITH CLUSTERING ORDER BY ({column.name} DESC)",
                f"ALTER TABLE {table.name} WITH {self.one(OPTIONS)}",
            ]
        )

    def change_view(self, table):
        name = self.one([table.name, "w1", "w2", "w3"])
        return self.one(
            [
                f"ALTER MATERIALIZED VIEW {name} WITH {self.one(OPTIONS)}",
                f"DROP MATERIALIZED VIEW {self.one(['', 'IF EXISTS '])}{name}",
                f"ALTER MATERIALIZED VIEW IF EXISTS {name} WITH {self.one(OPTIONS)}", f"TRUNCATE TABLE {name}",
                f"ALTER TABLE {name} ADD n int",
                "DROP TABLE w1", f"ALTER TABLE {name} RENAME c0 TO zz", f"CREATE INDEX ON {name} (v0)",
                f"INSERT INTO {name} (p0) VALUES (1)",
            ]
        )

    def change_types(self, table):
        frozen, data_type = self.one(["", "frozen"]), self.data_type()
        inside = f"frozen<{data_type}>" if frozen else data_type
        return self.one(
            [
                f"ALTER TYPE nest ADD {self.one(['d', 'a'])} {inside}",
                f"ALTER TYPE nest RENAME a TO {self.one(['e', 'b'])}",
                "ALTER TYPE nest RENAME a TO e AND c TO f",
                f"ALTER TYPE {self.one(['nest', 'pair'])} ALTER b TYPE {data_type}",
                "ALTER TYPE IF EXISTS nosuch ADD x int", "ALTER TYPE nest ADD IF NOT EXISTS a int",
                "ALTER TYPE nest RENAME IF EXISTS q TO r",
                f"CREATE TYPE {self.one(['', 'IF NOT EXISTS '])}{self.one(['pair', 'more'])} (a {inside}, {self.one(['b', 'a'])} int)",
                "CREATE TYPE counted (a counter)", "CREATE TYPE itself (a frozen<itself>)", "DROP TYPE IF EXISTS more",
                "DROP TYPE nest",
                f"CREATE TYPE more (a {inside})", "ALTER TYPE pair ADD n frozen<nest>",
                "ALTER TYPE pair ADD n frozen<pair>",
            ]
        )

    def odd_table(self, table):
        """CREATE TABLE at the edge of what is permitted; nothing refers to the table."""
        kind = lambda: self.data_type(self.one([0, 0, 2]))  # noqa: E731
        options = " AND ".join(
            self.some(
                [self.one(OPTIONS), self.one(OPTIONS), "CLUSTERING ORDER BY (b DESC)",
                    "CLUSTERING ORDER BY (b ASC, c DESC)", "COMPACT STORAGE"]
                + ["CLUSTERING ORDER BY (c ASC)", "compression = {'class': 'LZ4Compressor'}",
                    "compaction = {'min_threshold': 2}", "id = 1"]
            )[:2]
        )
        key = self.one(["(a)", "(a, b)", "(a, b)", "((a, b), c)", "(a, b, c)", "(a, b, c)", "((a), a)", "(a, nosuch)",
            "((a, b))", "(b, a)"])
        static = self.one(["", "", " static"])
        columns = f"a {kind()}, b {kind()}, c {kind()}{static}"
        if self.chance(0.1):
            columns += f", {self.one(['a', 'd'])} {self.one(['counter', 'frozen<int>', 'list<list<int>>', 'set<pair>', 'vector<int, 0>', 'nosuch'])}"
        suffix = f" WITH {options}" if self.chance(0.5) else ""
        return self.one(
            [
                f"CREATE TABLE x{self.random.randint(0, 9)} ({columns}, PRIMARY KEY {key}){suffix}",
                f"CREATE TABLE x{self.random.randint(0, 9)} ({columns}, PRIMARY KEY {key}){suffix}",
                f"CREATE TABLE x{self.random.randint(0, 9)} (a {kind()} PRIMARY KEY, b {kind()}{static}){suffix}",
                f"CREATE TABLE IF NOT EXISTS {table.name} (a int PRIMARY KEY)",
                f"CREATE TABLE {table.name} (a int PRIMARY KEY)",
                f"CREATE TABLE x (a {kind()} PRIMARY KEY, b {kind()} PRIMARY KEY)", f"CREATE TABLE x (a {kind()})",
                "DROP TABLE IF EXISTS x1",
            ]
        )

    def search_index(self, table):
        """An index for similarity of each column of vectors that queries search."""
        for column in table.columns:
            if column.name == "e":
                measure = self.one(["", "", "euclidean", "dot_product", "cosine"])
                options = f" WITH OPTIONS = {{'similarity_function': '{measure}'}}" if measure else ""
                yield f"CREATE INDEX ON {table.name} (e) USING 'sai'{options}"

    def with_options(self, table):
        return f"ALTER TABLE {table.name} WITH {' AND '.join(self.some(OPTIONS)[:2])}"

    def alter_type(self, table):
        return self.one(["ALTER TYPE pair ADD z int", "ALTER TYPE pair RENAME x TO w", "DROP TYPE pair",
            "ALTER TYPE pair ADD x int"])

    def index_later(self, table):
        return self.create_index(table, self.one(table.columns))

    def drop_index(self, table):
        column = self.one(table.columns)
        return f"DROP INDEX {self.one(['', 'IF EXISTS '])}{table.name}_{column.name}_idx"

    def view(self, table):
        others = [c for c in table.columns if c.kind != "static" and c not in table.key]
        key = list(table.key)
        if others and self.chance(0.5):
            key.insert(0, self.one(others))
        else:
            self.random.shuffle(key)
        if self.chance(0.05):
            key.pop()
        nulls = [f"{c.name} IS NOT NULL" for c in key]
        while self.chance(0.3):
            column = self.one(table.columns)
            if column in key and self.chance(0.7):
                nulls[key.index(column)] = self.relation(column)
            else:
                nulls.append(self.relation(column))
        selected = "*" if self.chance(0.6) else ", ".join(c.name for c in table.columns if c in key or self.chance(0.5))
        number = len(self.tables)
        if number < 5:
            columns = [self.column(c.name, "partition" if c is key[0] else "clustering" if c in key else "regular",
                c.type) for c in key]
            columns += [self.column(c.name, "regular", c.type) for c in table.columns if c not in key
                and c.kind != "static"]
            self.tables.append(type(table)(f"w{number}", columns, {}))
        names = ", ".join(c.name for c in key)
        suffix = ""
        if self.chance(0.3):
            orders = ", ".join(f"{c.name} {self.one(['ASC', 'DESC'])}" for c in key[1:])
            suffix = " WITH " + (f"CLUSTERING ORDER BY ({orders})" if orders and self.chance(0.7)
                else self.one(OPTIONS))
        relations = " AND ".join(nulls)
        return f"CREATE MATERIALIZED VIEW w{number} AS SELECT {selected} FROM {table.name} WHERE {relations} PRIMARY KEY ({names}){suffix}"

    def truncate(self, table):
        return f"TRUNCATE {table.name}"

    def described(self, table):
        where = f"WHERE keyspace_name = '{self.keyspace}'"
        return self.one(
            [
                f"SELECT table_name, index_name, kind, options FROM system_schema.indexes {where}",
                f"SELECT * FROM system_schema.columns {where} AND table_name = '{table.name}'",
                f"SELECT * FROM system_schema.types {where}",
                f"SELECT column_name, kind, type FROM system_schema.dropped_columns {where}",
                f"SELECT view_name, base_table_name, where_clause, include_all_columns FROM system_schema.views {where}",
                f"SELECT table_name, flags, default_time_to_live, compaction, caching FROM system_schema.tables {where}",
                f"DESCRIBE TABLE {table.name}", "DESCRIBE TYPE pair", "DESCRIBE TYPE nest", "DESCRIBE TYPES",
                "DESCRIBE TABLES",
                f"DESCRIBE MATERIALIZED VIEW {table.name}", f"DESCRIBE {table.name}",
                f"DESCRIBE INDEX {table.name}_v0_idx",
            ]
        )
