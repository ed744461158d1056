"""Random modifications of forms that `Grammar.insert`, `update` and `delete` do not have, for `grammar.py`."""


class Writes:
    """Conditional batches, conditions on elements and deletions of parts; a part of the grammar."""

    def modification(self, table):
        forms = [self.conditional_batch, self.conditional_batch, self.static_condition, self.element_condition,
            self.element_condition]
        forms += [self.delete_elements, self.delete_slice, self.any_json, self.timed, self.batch_of_one_partition]
        if any(column.type == "counter" for column in table.columns):
            forms = [self.counter_batch]
        return self.one(forms)(table)

    def pinned(self, columns):
        """Equalities of columns with values."""
        return [f"{column.name} = {self.value(column.type)}" for column in columns]

    def conditional_batch(self, table):
        """Statements on one partition, some of them with conditions."""
        partition = {column.name: self.value(column.type) for column in table.of("partition")}
        count = self.random.randint(1, 4)
        parts = [self.in_partition(table, partition, 0.5) for _ in range(count)]
        if self.chance(0.05):
            parts.append(self.insert(table))
        return self.one(["BEGIN BATCH ", "BEGIN BATCH ", "BEGIN UNLOGGED BATCH "]) + "; ".join(parts) + "; APPLY BATCH"

    def batch_of_one_partition(self, table):
        partition = {column.name: self.value(column.type) for column in table.of("partition")}
        parts = [self.in_partition(table, partition, 0) for _ in range(self.random.randint(1, 4))]
        using = f"USING TIMESTAMP {self.random.randint(1, 40) * 1000} " if self.is_timed and self.chance(0.5) else ""
        return f"BEGIN {self.one(['', 'UNLOGGED '])}BATCH {using}{'; '.join(parts)}; APPLY BATCH"

    def in_partition(self, table, partition, conditional):
        """A statement on the partition with these values, which has a condition with a probability."""
        where = [f"{name} = {value}" for name, value in partition.items()]
        statics = table.of("static")
        kind = self.random.random()
        if kind < 0.35:
            columns = [column for column in table.columns if column.kind == "clustering" or column.kind != "partition"
                and self.chance(0.6)]
            if statics and self.chance(0.2):
                columns = statics
            names = list(partition) + [column.name for column in columns]
            values = list(partition.values()) + [self.term(column.type) for column in columns]
            suffix = " IF NOT EXISTS" if self.chance(conditional) else ""
            return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join(values)}){suffix}"
        is_static = bool(statics) and self.chance(0.3)
        if not is_static:
            where += self.pinned(table.of("clustering"))
        condition = self.elements_tested(table, table.of("static") if is_static
            else None) if self.chance(conditional) else ""
        columns = statics if is_static else table.others
        if kind < 0.75:
            sets = ", ".join(self.assignment(column) for column in self.some(columns)[:2])
            return f"UPDATE {table.name} SET {sets} WHERE {' AND '.join(where)}{condition}"
        what = " " + self.one(columns).name if is_static or self.chance(0.4) else ""
        return f"DELETE{what} FROM {table.name} WHERE {' AND '.join(where)}{condition}"

    def static_condition(self, table):
        """Conditions on static columns, with and without a row."""
        statics = table.of("static")
        if not statics:
            return self.element_condition(table)
        column = statics[0]
        keys = table.of("partition") if self.chance(0.6) else table.key
        where = " AND ".join(self.pinned(keys))
        condition = self.elements_tested(table, statics if self.chance(0.8) else None)
        changed = self.one(statics if self.chance(0.7) else table.others)
        return self.one(
            [
                lambda: f"UPDATE {table.name} SET {self.assignment(changed)} WHERE {where}{condition}",
                lambda: f"DELETE {changed.name} FROM {table.name} WHERE {where}{condition}",
                lambda: f"DELETE FROM {table.name} WHERE {where}{condition}",
                lambda: f"INSERT INTO {table.name} ({', '.join(c.name for c in keys)}, {column.name}) "
                f"VALUES ({', '.join(self.value(c.type) for c in keys)}, {self.value(column.type)}) IF NOT EXISTS",
            ]
        )()

    def element_condition(self, table):
        where = " AND ".join(self.pinned(table.key))
        condition = self.elements_tested(table)
        if self.chance(0.3):
            return f"DELETE{self.one(['', ' ' + self.one(table.others).name])} FROM {table.name} WHERE {where}{condition}"
        return f"UPDATE {table.name} SET {self.assignment(self.one(table.others))} WHERE {where}{condition}"

    def elements_tested(self, table, columns=None):
        """Conditions on columns, their elements and fields."""
        if self.chance(0.15):
            return self.one([" IF EXISTS", " IF EXISTS", " IF NOT EXISTS"])
        parts = []
        for column in self.some(columns or table.others)[:2]:
            name, inside = column.name, self.parameters(column.type)
            kind = self.random.random()
            if column.is_collection and kind < 0.5:
                key = self.value("int" if column.type.startswith("list<") and self.chance(0.8) else inside[0])
                name, data_type = f"{name}[{key}]", inside[-1]
            elif column.type in self.USER_TYPES and kind < 0.5:
                field, data_type = self.one(self.FIELDS[column.type])
                name = f"{name}.{field}"
            elif column.is_collection and kind < 0.7:
                parts.append(f"{name} CONTAINS {self.one(['', 'KEY '])}{self.value(self.one(inside))}")
                continue
            else:
                data_type = column.type
            operator = self.one(["=", "=", "=", "!=", "<", ">", "<=", ">=", "IN", "IN"])
            value = self.value(data_type)
            if operator == "IN":
                value = "(" + ", ".join(self.value(data_type) for _ in range(self.random.randint(0, 3))) + ")"
            parts.append(f"{name} {operator} {value}")
        return " IF " + " AND ".join(parts)

    def delete_elements(self, table):
        targets = []
        for column in self.some(table.others)[:3]:
            inside = self.parameters(column.type)
            if column.is_collection and self.chance(0.8):
                targets.append(f"{column.name}[{self.value('int' if column.type.startswith('list<') else inside[0])}]")
            elif column.type in self.USER_TYPES and self.chance(0.8):
                targets.append(f"{column.name}.{self.one(self.FIELDS[column.type])[0]}")
            else:
                targets.append(column.name)
        return f"DELETE {', '.join(targets)} FROM {table.name}{self.using()} WHERE {self.equalities(table.key)}"

    def delete_slice(self, table):
        """A deletion of a range of rows."""
        clustering = table.of("clustering")
        where = self.pinned(table.of("partition"))
        if clustering:
            at = self.random.randrange(len(clustering))
            where += [self.equalities([column]) for column in clustering[:at]]
            if self.chance(0.5):
                columns = clustering[at : at + self.random.randint(1, 3)]
                names = ", ".join(column.name for column in columns)
                where.append(f"({names}) {self.one(['<', '<=', '>', '>='])} {self.row(columns)}")
                if self.chance(0.2):
                    where[-1] = f"({names}) IN ({self.row(columns)}, {self.row(columns)})"
            else:
                where.append(f"{clustering[at].name} {self.one(['>', '>='])} {self.value(clustering[at].type)}")
                if self.chance(0.6):
                    where.append(f"{clustering[at].name} {self.one(['<', '<='])} {self.value(clustering[at].type)}")
        return f"DELETE FROM {table.name}{self.using()} WHERE {' AND '.join(where)}"

    def any_json(self, table):
        return self.insert_json(table, [column for column in table.columns if column in table.key or self.chance(0.85)])

    def timed(self, table):
        """Timestamps and times to live in both orders, of values at the edges."""
        ttl = self.one(["0", "100000", "null", "-1", "630720000", "630720001", "2147483648"])
        timestamp = self.one(["1000", "0", "-1", "9223372036854775807", "-9223372036854775808", "null"]
            if self.is_timed else ["null"])
        if self.is_marked and self.chance(0.5):
            ttl, timestamp = self.mark("int"), self.mark("bigint")
        using = self.one([f"TTL {ttl} AND TIMESTAMP {timestamp}", f"TIMESTAMP {timestamp} AND TTL {ttl}",
            f"TIMESTAMP {timestamp}", f"TTL {ttl}"])
        where = " AND ".join(self.pinned(table.key))
        column = self.one(table.others)
        return self.one(
            [f"UPDATE {table.name} USING {using} SET {self.assignment(column)} WHERE {where}",
                f"DELETE FROM {table.name} USING {using} WHERE {where}"]
        )

    def counter_batch(self, table):
        parts = []
        for _ in range(self.random.randint(1, 3)):
            sets = ", ".join(self.assignment(column) for column in self.some(table.others))
            where = " AND ".join(self.pinned(table.key)) if table.of("static") else self.equalities(table.key)
            parts.append(f"UPDATE {table.name} SET {sets} WHERE {where}")
        if self.chance(0.15):
            parts.append(self.insert(self.one(self.tables)))
        using = "USING TIMESTAMP 1000 " if self.chance(0.05) else ""
        return f"BEGIN {self.one(['COUNTER ', 'COUNTER ', 'UNLOGGED ', ''])}BATCH {using}{'; '.join(parts)}; APPLY BATCH"
