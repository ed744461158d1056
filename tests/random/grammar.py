"""Random schemas and statements: mostly valid, often at the edge of what CQL permits.

Everything follows from the seed of a `random.Random`. Statements name columns, types and values that fit the schema, and
with a small probability ones that do not, because errors have to be those of Cassandra, too.
"""

from alterations import Alterations
from functions import Functions

NATIVE = [
    "ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "duration", "float", "inet", "int", "smallint", "text", "time",
    "timestamp", "timeuuid", "tinyint", "uuid", "varint",
]
#: Types whose values are frequent in keys, so that statements meet the same rows.
KEYS = ["int", "int", "int", "text", "bigint", "timestamp", "uuid", "boolean", "tinyint", "decimal", "date", "timeuuid", "inet", "varint"]
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


class Grammar(Functions, Alterations):
    def __init__(self, random, keyspace="random_statements"):
        self.random, self.keyspace = random, keyspace
        self.tables = []
        #: Whether writes have timestamps, so that those in answers are known.
        self.is_timed = self.chance(0.3)

    column = Column

    def parameters(self, data_type):
        return parameters(data_type)

    def chance(self, probability):
        return self.random.random() < probability

    def one(self, choices):
        return self.random.choice(choices)

    def some(self, choices, least=1):
        count = self.random.randint(min(least, len(choices)), max(least, min(4, len(choices))))
        return self.random.sample(choices, min(count, len(choices)))

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
                lambda: "pair",
            ]
        )()
        return self.frozen(made) if is_key or self.chance(0.3) else made

    def frozen(self, data_type):
        return f"frozen<{data_type}>" if data_type.startswith(("list<", "set<", "map<", "pair")) else data_type

    # Values

    def value(self, data_type, depth=0):
        """A term of the type; sometimes null, and rarely of another type."""
        if self.chance(0.02):
            return "null"
        if self.chance(0.012) and depth < 2:
            return self.value(self.data_type(1), depth + 1)
        number = self.random.randint(-1, 3)
        if data_type.startswith("frozen<"):
            return self.value(data_type[7:-1], depth)
        outer, _, inside = data_type.partition("<")
        if not inside:
            return self.native(data_type, number)
        parts = parameters(data_type)
        count = self.random.randint(0, 2)
        if outer == "list":
            return "[" + ", ".join(self.value(parts[0], depth + 1) for _ in range(count)) + "]"
        if outer == "set":
            return "{" + ", ".join(self.value(parts[0], depth + 1) for _ in range(count)) + "}"
        if outer == "map":
            items = [f"{self.value(parts[0], depth + 1)}: {self.value(parts[1], depth + 1)}" for _ in range(count)]
            return "{" + ", ".join(items) + "}"
        if outer == "tuple":
            return "(" + ", ".join(self.value(part, depth + 1) for part in parts) + ")"
        return "[" + ", ".join(self.value(parts[0], depth + 1) for _ in range(int(parts[1]))) + "]"

    def native(self, data_type, number):
        edge = self.chance(0.05)
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
            "pair": lambda: self.one([f"{{x: {number}, y: 'a'}}", f"{{x: {number}}}", "{y: 'b'}", "{z: 1}" if edge else "{x: 1, y: null}"]),
            "smallint": lambda: "32768" if edge else str(number),
            "text": lambda: self.one(["'a'", "'b'", "''", "'ä€'"]),
            "time": lambda: self.one(["'08:12:54.123456789'", "'00:00:00'"]),
            "timestamp": lambda: self.one(["0", "'2024-02-29T12:00:00Z'", "'1969-12-31 23:59:59.999+0000'"]),
            "timeuuid": lambda: self.one(["50554d6e-29bb-11e5-b345-feff819cdc9f", "50554d6f-29bb-11e5-b345-feff819cdc9f"]),
            "tinyint": lambda: "128" if edge else str(number),
            "uuid": lambda: self.one(["123e4567-e89b-42d3-a456-426655440000", "50554d6e-29bb-11e5-b345-feff819cdc9f"]),
            "varint": lambda: "123456789012345678901234567890" if edge else str(number),
        }[data_type]()

    # Schemas

    def schema(self):
        """CREATE statements, which also define what later statements refer to."""
        yield "CREATE TYPE pair (x int, y text)"
        for number in range(self.random.randint(1, 2)):
            yield self.create_table(f"t{number}")
            for column in self.some(self.tables[-1].columns, 0)[: self.random.randint(0, 2)]:
                yield self.create_index(self.tables[-1], column)

    def create_table(self, name):
        is_counter = self.chance(0.1)
        columns = [Column(f"p{i}", "partition", self.data_type(is_key=True)) for i in range(self.one([1, 1, 1, 2]))]
        columns += [Column(f"c{i}", "clustering", self.data_type(is_key=True)) for i in range(self.one([0, 1, 1, 2, 2, 3]))]
        others = 1 if is_counter else self.random.randint(1, 4)
        columns += [Column(f"v{i}", "regular", "counter" if is_counter else self.data_type()) for i in range(others)]
        if any(column.kind == "clustering" for column in columns) and self.chance(0.5):
            columns.append(Column("s", "static", "counter" if is_counter else self.data_type()))
        table = Table(name, columns, {})
        self.tables.append(table)
        text = ", ".join(f"{c.name} {c.type}{' static' if c.kind == 'static' else ''}" for c in columns)
        names = lambda kind: ", ".join(c.name for c in table.of(kind))  # noqa: E731
        clustering = f", {names('clustering')}" if table.of("clustering") else ""
        order = ""
        if clustering and self.chance(0.4):
            parts = [f"{c.name} {self.one(['ASC', 'DESC'])}" for c in table.of("clustering")]
            order = f" WITH CLUSTERING ORDER BY ({', '.join(parts)})"
        return f"CREATE TABLE {name} ({text}, PRIMARY KEY (({names('partition')}){clustering})){order}"

    # Statements

    def statement(self):
        table = self.one(self.tables)
        if self.chance(0.08):
            return self.alteration(table)
        return self.one([self.insert, self.insert, self.insert, self.update, self.delete, self.batch] + [self.select] * 5)(table)

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
        return f"INSERT INTO {table.name} JSON '{text.replace(chr(39), chr(39) * 2)}'{suffix}{self.using()}"

    def update(self, table):
        columns = table.of("regular", "static")
        if self.chance(0.03):
            columns = table.columns
        sets = ", ".join(self.assignment(column) for column in self.some(columns))
        keys = table.of("partition") if self.chance(0.1) else table.key
        condition = self.conditions(table) if self.chance(0.15) else ""
        return f"UPDATE {table.name}{self.using()} SET {sets} WHERE {self.equalities(keys)}{condition}"

    def assignment(self, column):
        name, value = column.name, self.term(column.type)
        if column.type == "counter":
            return f"{name} = {name} {self.one('+-')} {value}"
        if column.is_collection and self.chance(0.6):
            parts = parameters(column.type)
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
        for column in self.some(table.of("regular", "static"))[:2]:
            operator = self.one(COMPARISONS + ["IN", "CONTAINS"])
            value = f"({self.value(column.type)}, {self.value(column.type)})" if operator == "IN" else self.value(column.type)
            parts.append(f"{column.name} {operator} {value}")
        return " IF " + " AND ".join(parts)

    def equalities(self, columns):
        parts = []
        for column in columns:
            if self.chance(0.1):
                parts.append(f"{column.name} IN ({self.value(column.type)}, {self.value(column.type)})")
            else:
                parts.append(f"{column.name} = {self.term(column.type)}")
        return " AND ".join(parts)

    def delete(self, table):
        what = ""
        if self.chance(0.4):
            targets = []
            for column in self.some(table.of("regular", "static"))[:2]:
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
            clauses.append("ORDER BY " + ", ".join(f"{c.name} {self.one(['ASC', 'DESC'])}" for c in table.of("clustering")[:2]))
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
                f"count({name})", "count(*)", f"max({name})", f"min({name})", f"sum({name})", f"avg({name})", f"ttl({name})", f"to_json({name})",
                f"CAST({name} AS text)", f"CAST({name} AS {self.one(NATIVE)})", f"{name} + {self.value(column.type)}", f"-{name}",
                f"{name} AS x", f"token({name})", f"{name}[{self.value('int')}]", f"{name}.x", f"mask_default({name})", f"abs({name})",
                f"map_keys({name})", f"collection_count({name})", f"({column.type}) {self.value(column.type)}", f"{name} * {name}",
                f"({name}, {self.one(table.columns).name})", f"[{name}]", f"to_timestamp({name})", f"{self.one(NATIVE)}_as_blob({name})",
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
        parts = parameters(column.type)
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
        if operator == "IN":
            return f"{column.name} IN ({', '.join(self.value(column.type) for _ in range(self.random.randint(0, 2)))})"
        return f"{column.name} {operator} {self.value(column.type)}"


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
