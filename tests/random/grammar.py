"""Random schemas and statements: mostly valid, often at the edge of what CQL permits.

Everything follows from the seed of a `random.Random`. Statements name columns, types and values that fit the schema, and
with a small probability ones that do not, because errors have to be those of Cassandra, too.
"""

from alterations import Alterations
from functions import Functions
from markers import Markers
from queries import Queries
from values import NATIVE, Values
from writes import Writes

LIKES = ["'a%'", "'%a'", "'%a%'", "'a'", "'b%'", "'%'", "'%ä%'", "'A%'", "'%b%'"]
COMPARISONS = ["=", "=", "=", "<", "<=", ">", ">=", "!="]


class Column:
    def __init__(self, name, kind, data_type):
        self.name, self.kind, self.type = name, kind, data_type

    @property
    def is_collection(self):
        return self.type.startswith(("list<", "set<", "map<"))


class Table:
    def __init__(self, name, columns, order):
        self.name, self.columns, self.order = name, columns, order

    def of(self, *kinds):
        return [column for column in self.columns if column.kind in kinds]

    @property
    def key(self):
        return self.of("partition", "clustering")

    @property
    def others(self):
        """The columns that statements write beside the key; those of the key where there are none."""
        return self.of("regular", "static") or self.columns


class Grammar(Values, Functions, Alterations, Queries, Writes, Markers):
    def __init__(self, random, keyspace="random_statements"):
        self.random, self.keyspace = random, keyspace
        self.tables = []
        #: Whether writes have timestamps, so that those in answers are known.
        self.is_timed = self.chance(0.3)
        #: Whether values are all of the expected type.
        self.is_strict = False

    column = Column

    def chance(self, probability):
        return self.random.random() < probability

    def one(self, choices):
        return self.random.choice(choices)

    def some(self, choices, least=1):
        count = self.random.randint(min(least, len(choices)), max(least, min(4, len(choices))))
        return self.random.sample(choices, min(count, len(choices)))

    # Schemas

    def schema(self):
        """CREATE statements, which also define what later statements refer to."""
        yield "CREATE TYPE pair (x int, y text)"
        yield "CREATE TYPE nest (a frozen<pair>, b frozen<list<int>>, c tuple<int, text>)"
        for number in range(self.random.randint(1, 2)):
            yield self.create_table(f"t{number}")
            for column in self.some(self.tables[-1].columns, 0)[: self.random.randint(0, 2)]:
                yield self.create_index(self.tables[-1], column)
            yield from self.search_index(self.tables[-1])
            yield from self.rows(self.tables[-1])

    def rows(self, table):
        """Statements that write some valid rows."""
        self.is_strict = True
        for _ in range(self.random.randint(0, 8)):
            yield self.insert(table)
        self.is_strict = False

    def create_table(self, name):
        is_counter = self.chance(0.1)
        columns = [Column(f"p{i}", "partition", self.data_type(is_key=True)) for i in range(self.one([1, 1, 1, 2]))]
        columns += [Column(f"c{i}", "clustering", self.data_type(is_key=True))
            for i in range(self.one([0, 1, 1, 2, 2, 3]))]
        others = 1 if is_counter else self.random.randint(1, 4)
        columns += [Column(f"v{i}", "regular", "counter" if is_counter else self.data_type()) for i in range(others)]
        if any(column.kind == "clustering" for column in columns) and self.chance(0.5):
            columns.append(Column("s", "static", "counter" if is_counter else self.data_type()))
        options = []
        if not is_counter and self.chance(0.07):
            columns = self.compact(columns)
            options.append("COMPACT STORAGE")
        elif not is_counter and self.chance(0.12):
            columns.append(Column("e", "regular", f"vector<float, {self.random.randint(2, 3)}>"))
        table = Table(name, columns, {})
        self.tables.append(table)
        text = ", ".join(f"{c.name} {c.type}{' static' if c.kind == 'static' else ''}" for c in columns)
        names = lambda kind: ", ".join(c.name for c in table.of(kind))  # noqa: E731
        clustering = f", {names('clustering')}" if table.of("clustering") else ""
        if clustering and self.chance(0.4):
            table.order.update({c.name: self.one(["ASC", "DESC"]) for c in table.of("clustering")})
            options.append(f"CLUSTERING ORDER BY ({', '.join(f'{name} {order}' for name, order in table.order.items())})")
        suffix = " WITH " + " AND ".join(options) if options else ""
        return f"CREATE TABLE {name} ({text}, PRIMARY KEY (({names('partition')}){clustering})){suffix}"

    def compact(self, columns):
        """The columns of a table WITH COMPACT STORAGE: without static ones, and beside clustering columns at most one."""
        columns = [column for column in columns if column.kind != "static"]
        for column in columns:
            if column.is_collection or column.type in self.USER_TYPES:
                column.type = f"frozen<{column.type}>"
        if any(column.kind == "clustering" for column in columns):
            kept = self.random.randint(0, 1) if self.chance(0.3) else 1
            columns = [column for column in columns if column.kind != "regular" or int(column.name[1:]) < kept]
        return columns

    # Statements

    def statement(self):
        table = self.one(self.tables)
        if self.chance(0.1):
            return self.alteration(table)
        form = self.one(
            [self.insert, self.insert, self.insert, self.update, self.delete, self.batch, self.modification,
                self.modification]
            + [self.select] * 4
            + [self.query] * 5
        )
        statement = self.with_markers(lambda: form(table)) if self.chance(0.15) else form(table)
        for name, order in table.order.items():
            if order == "DESC":
                # Cassandra finds no function for these.
                of_type = next(column.type for column in table.columns if column.name == name)
                statement = statement.replace(f"CAST({name} AS {of_type})", name)
        if statement.startswith("SELECT") and self.chance(0.25):
            pages = f"pages of {self.random.randint(1, 3)}"
            return statement.replace(" /* bind ",
                f" /* {pages}, bind ") if "/*" in statement else f"{statement} /* {pages} */"
        return statement

    def insert(self, table):
        if any(column.type == "counter" for column in table.columns):
            return self.update(table)
        columns = [c for c in table.columns if c in table.key or self.chance(0.6)]
        if self.chance(0.05):
            columns.pop(self.random.randrange(len(columns)))
        if self.chance(0.08):
            return self.insert_json(table, columns)
        names, values = ", ".join(c.name for c in columns), ", ".join(self.term(c.type) for c in columns)
        suffix = self.one([""] * 8 + [" IF NOT EXISTS", " USING TIMESTAMP 1000", " USING TTL 100000", " USING TTL 0"])
        if self.is_timed:
            suffix = self.using() + ("" if self.chance(0.9) else self.one([" AND TTL 100000", " AND TTL -1"]))
        return f"INSERT INTO {table.name} ({names}) VALUES ({values}){suffix}"

    def using(self):
        """Timestamps in no order, some of them equal."""
        return f" USING TIMESTAMP {self.random.randint(1, 40) * 1000}" if self.is_timed else ""

    def insert_json(self, table, columns):
        members = [f'"{c.name}": {self.json(c.type)}' for c in columns]
        if self.chance(0.05):
            members.append('"unknown": 1')
        text = "{" + ", ".join(members) + "}"
        suffix = self.one(["", "", " DEFAULT UNSET", " DEFAULT NULL", " IF NOT EXISTS"])
        term = self.mark_of(text.encode().hex()) if self.is_marked and self.chance(0.5) else f"'{text.replace(chr(39), chr(39) * 2)}'"
        return f"INSERT INTO {table.name} JSON {term}{suffix}{self.using()}"

    def update(self, table):
        columns = table.others
        if self.chance(0.03):
            columns = table.columns
        sets = ", ".join(self.assignment(column) for column in self.some(columns))
        keys = table.of("partition") if self.chance(0.1) else table.key
        condition = self.conditions(table) if self.chance(0.15) else ""
        where = self.equalities(keys)
        if " IN " in where and table.of("static"):
            # Cassandra changes static lists and counters once for each row.
            where = " AND ".join(self.pinned(keys))
        return f"UPDATE {table.name}{self.using()} SET {sets} WHERE {where}{condition}"

    def assignment(self, column):
        name, value = column.name, self.term(column.type)
        if column.type == "counter":
            return f"{name} = {name} {self.one('+-')} {value}"
        if column.is_collection and self.chance(0.6):
            parts = self.parameters(column.type)
            element = self.value(parts[-1])
            return self.one(
                [
                    f"{name} = {name} + {value}",
                    f"{name} = {name} - {value}",
                    f"{name} = {value} + {name}",
                    f"{name} += {value}",
                    f"{name}[{self.random.randint(0, 1)}] = {element}",
                    f"{name}[{self.value(parts[0])}] = {element}",
                ]
            )
        if column.type == "pair" and self.chance(0.5):
            return self.one([f"{name}.x = {self.value('int')}", f"{name}.y = {self.value('text')}", f"{name}.z = 1"])
        return f"{name} = {value}"

    def conditions(self, table):
        if self.chance(0.3):
            return " IF EXISTS"
        parts = []
        for column in self.some(table.others)[:2]:
            operator = self.one(COMPARISONS + ["IN", "CONTAINS"])
            value = f"({self.value(column.type)}, {self.value(column.type)})" if operator == "IN" else self.value(column.type)
            parts.append(f"{column.name} {operator} {value}")
        return " IF " + " AND ".join(parts)

    def equalities(self, columns):
        parts = []
        for column in columns:
            if self.is_marked and self.chance(0.1):
                parts.append(f"{column.name} IN {self.mark(f'list<{column.type}>')}")
            elif self.chance(0.1):
                parts.append(f"{column.name} IN ({self.value(column.type)}, {self.value(column.type)})")
            else:
                parts.append(f"{column.name} = {self.term(column.type)}")
        return " AND ".join(parts)

    def delete(self, table):
        if any(column.type == "counter" for column in table.columns):
            # After a deletion, Cassandra continues from the cached count.
            return self.update(table)
        what = ""
        if self.chance(0.4):
            targets = []
            for column in self.some(table.others)[:2]:
                element = f"[{self.value('int')}]" if column.is_collection and self.chance(0.5) else ""
                targets.append(column.name + element)
            what = " " + ", ".join(targets)
        keys = table.of("partition") + table.of("clustering")[: self.random.randint(0, 3)]
        where = self.equalities(keys)
        clustering = table.of("clustering")
        if clustering and self.chance(0.25):
            column = clustering[0]
            where = f"{self.equalities(table.of('partition'))} AND {column.name} {self.one(['<', '>='])} {self.value(column.type)}"
        condition = self.conditions(table) if self.chance(0.1) else ""
        if len(clustering) > 1 and self.chance(0.1):
            names, values = ", ".join(c.name for c in clustering), ", ".join(self.value(c.type) for c in clustering)
            where = f"{self.equalities(table.of('partition'))} AND ({names}) {self.one(['<', '>=', '=', 'IN'])} ({values})"
        return f"DELETE{what} FROM {table.name}{self.using()} WHERE {where}{condition}"

    def batch(self, table):
        parts = [self.one([self.insert, self.update, self.delete])(table) for _ in range(self.random.randint(1, 3))]
        if self.chance(0.3):
            parts.append(self.one([self.insert, self.update, self.delete])(self.one(self.tables)))
        return f"BEGIN {self.one(['', '', 'UNLOGGED ', 'COUNTER '])}BATCH {'; '.join(parts)}; APPLY BATCH"

    def select(self, table):
        if self.chance(0.02):
            names = ", ".join(c.name for c in table.of("partition") + self.some(table.of("static"), 0)[:1])
            return f"SELECT DISTINCT {names} FROM {table.name} PER PARTITION LIMIT 1 LIMIT 3"
        clauses = [f"SELECT {self.selection(table)} FROM {table.name}"]
        relations = self.relations(table)
        if relations:
            clauses.append("WHERE " + " AND ".join(relations))
        if self.chance(0.08):
            clauses.append("GROUP BY " + ", ".join(c.name for c in table.key[: self.random.randint(1, 3)]))
        if table.of("clustering") and self.chance(0.15):
            clauses.append("ORDER BY " + ", ".join(f"{c.name} {self.one(['ASC', 'DESC'])}"
                for c in table.of("clustering")[:2]))
        if self.chance(0.1):
            clauses.append(f"PER PARTITION LIMIT {self.random.randint(0, 2)}")
        if self.chance(0.15):
            clauses.append(f"LIMIT {self.random.randint(0, 3)}")
        if self.chance(0.45):
            clauses.append("ALLOW FILTERING")
        return " ".join(clauses)

    def selection(self, table):
        if self.chance(0.4):
            return "*"
        if self.chance(0.06):
            return "DISTINCT " + ", ".join(c.name for c in table.of("partition", "static"))
        prefix = "JSON " if self.chance(0.08) else ""
        if self.chance(0.3):
            return prefix + ", ".join(self.expression(table) for _ in range(self.random.randint(1, 2)))
        if self.is_timed and self.chance(0.15):
            return prefix + f"{self.one(['writetime', 'maxwritetime', 'min_writetime'])}({self.one(table.columns).name})"
        return prefix + ", ".join(self.selector(table) for _ in range(self.random.randint(1, 3)))

    def selector(self, table):
        column = self.one(table.columns)
        name = column.name
        return self.one(
            [name] * 6
            + [
                f"count({name})", "count(*)", f"max({name})", f"min({name})", f"sum({name})", f"avg({name})",
                f"ttl({name})", f"to_json({name})",
                f"CAST({name} AS text)", f"CAST({name} AS {self.one(NATIVE)})", f"{name} + {self.value(column.type)}",
                f"-{name}",
                f"{name} AS x", f"token({name})", f"{name}[{self.value('int')}]", f"{name}.x", f"mask_default({name})",
                f"abs({name})",
                f"map_keys({name})", f"collection_count({name})", f"({column.type}) {self.value(column.type)}",
                f"{name} * {name}",
                f"({name}, {self.one(table.columns).name})", f"[{name}]", f"to_timestamp({name})",
                f"{self.one(NATIVE)}_as_blob({name})",
            ]
        )

    def relations(self, table):
        if self.chance(0.25):
            return []
        if self.chance(0.5):
            keys = table.of("partition") + table.of("clustering")[: self.random.randint(0, 3)]
            relations = self.equalities(keys).split(" AND ")
            rest = [c for c in table.of("clustering") if c not in keys]
            if rest and self.chance(0.5):
                relations.append(f"{rest[0].name} {self.one(['<', '<=', '>', '>='])} {self.value(rest[0].type)}")
        else:
            relations = []
        clustering = table.of("clustering")
        if len(clustering) > 1 and self.chance(0.15):
            names = ", ".join(c.name for c in clustering)
            values = ", ".join(self.value(c.type) for c in clustering)
            relations.append(f"({names}) {self.one(COMPARISONS)} ({values})")
        if self.chance(0.05):
            names = ", ".join(c.name for c in table.of("partition"))
            relations.append(f"token({names}) {self.one(COMPARISONS)} {self.random.randint(-2, 2) * 2**61}")
        if self.chance(0.45) or not relations:
            relations.append(self.relation(self.one(table.columns)))
        return relations

    def relation(self, column):
        parts = self.parameters(column.type)
        if column.is_collection and self.chance(0.7):
            return self.one(
                [
                    f"{column.name} CONTAINS {self.value(parts[-1])}",
                    f"{column.name} CONTAINS KEY {self.value(parts[0])}",
                    f"{column.name}[{self.value(parts[0])}] = {self.value(parts[-1])}",
                ]
            )
        operator = self.one(COMPARISONS + ["IN", "LIKE", "CONTAINS"])
        if operator == "LIKE" and self.chance(0.9):
            return f"{column.name} LIKE {self.one(LIKES)}"
        if operator == "IN" and self.is_marked and self.chance(0.4):
            return f"{column.name} IN {self.mark(f'list<{column.type}>')}"
        if operator == "IN":
            return f"{column.name} IN ({', '.join(self.value(column.type) for _ in range(self.random.randint(0, 2)))})"
        return f"{column.name} {operator} {self.value(column.type)}"
