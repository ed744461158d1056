"""What is measured: each measure prepares a server once, then takes figures of it round by round, and makes tables of all."""

import statistics
import time

from beside import loads
from beside.servers import KEYSPACE, Failed, settle

NOTHINGS = 5  # commands that do nothing, timed before one that does


class Measure:
    """`round` gives figures by name; those of all rounds go to `tables`, by server and name."""

    title = ""
    compactions = 0  # ordered in a round

    def __init__(self, sizes, servers):
        self.sizes, self.servers = sizes, servers

    def prepare(self, server):
        """What is done once for a server."""

    def round(self, server):
        """Figures of one round."""
        raise NotImplementedError

    def tables(self, shown):
        """Lines of Markdown; `shown(server name, figure name)` is a median with least and greatest."""
        raise NotImplementedError

    def during(self, server, work):
        """Wall seconds, which `work` gives, and processor seconds of a nodetool command, less those of one that does nothing."""
        settle(self.servers)
        nothing = [self.of(server, lambda: server.nodetool("version")[0]) for _ in range(NOTHINGS)]
        wall, cpu = self.of(server, work)
        return tuple(figure - statistics.median(of_nothing) for figure, of_nothing in zip((wall, cpu), zip(*nothing)))

    @staticmethod
    def of(server, work):
        cpu, began = server.cpu_seconds(), time.monotonic()
        seconds = work()
        return seconds, server.cpu_seconds() - cpu - server.idle * (time.monotonic() - began)


class Flush(Measure):
    """A memtable becomes an SSTable."""

    title = "flush"

    def round(self, server):
        rows = self.sizes.rows
        table = loads.new_table(server, loads.WIDE)
        loads.wide_rows(server, table, ((k, 0) for k in range(rows)), seed=1)
        if server.sstables(table):
            raise Failed(f"{server.name} flushed before it was asked to: fewer ROWS, or more room for memtables")
        data = []

        def flush():
            seconds, path = loads.flush(server, table)
            data.append(path)
            return seconds

        wall, cpu = self.during(server, flush)
        check_bytes(server, data[0], rows * loads.COLUMNS * loads.CELL_BYTES)
        loads.drop_table(server, table)
        return rates(rows * loads.ROW_BYTES / 1e6, wall, cpu)

    def tables(self, shown):
        rows = self.sizes.rows
        return [
            f"Flush of {rows:,} rows of 1 KB in ten columns, {rows * loads.ROW_BYTES / 1e6:.0f} MB of keys and values, "
            "which do not compress, LZ4:",
            *rate_table(self.servers, shown),
        ]


class Compaction(Measure):
    """Four SSTables become one; each row is in one of them, and every eighth in all."""

    title = "compaction"
    compactions = 1

    def prepare(self, server):
        quarter = self.sizes.rows // 4

        def writer(sstable):
            rows = (i * 4 if i % 8 == 0 else i * 4 + sstable for i in range(quarter))
            keys = ((row // 10, row % 10) for row in rows)
            return lambda table: loads.wide_rows(server, table, keys, seed=sstable)

        kept = loads.keep(server, loads.WIDE, [writer(sstable) for sstable in range(4)], "compaction")
        self.kept = {**getattr(self, "kept", {}), server.name: kept}

    def round(self, server):
        table = loads.new_table(server, loads.WIDE)
        before = loads.import_copies(server, table, self.kept[server.name])
        wall, cpu = self.during(server, lambda: server.nodetool("compact", KEYSPACE, table)[0])
        after = server.sstables(table) - before
        if len(after) != 1:
            raise Failed(f"{server.name} made {len(after)} SSTables of four, where one was expected")
        quarter = self.sizes.rows // 4
        left = 4 * quarter - 3 * len(range(0, quarter, 8))
        check_bytes(server, after.pop(), left * loads.COLUMNS * loads.CELL_BYTES)
        loads.drop_table(server, table)
        return rates(4 * quarter * loads.ROW_BYTES / 1e6, wall, cpu)

    def tables(self, shown):
        mb = self.sizes.rows // 4 * 4 * loads.ROW_BYTES / 1e6
        return [
            f"Compaction of four SSTables into one, rows of 1 KB in ten columns, {mb:.0f} MB of keys and values uncompressed, "
            "LZ4:",
            *rate_table(self.servers, shown),
        ]


class Overlapping(Measure):
    """The experiment of CASSANDRA-7019: the two oldest SSTables are compacted while newer ones overlap them."""

    title = "overlapping"
    by = ["none", "row", "cell"]

    @property
    def compactions(self):
        return len(self.sizes.sources) * len(self.by)

    def prepare(self, server):
        def writer(sstable):
            return lambda table: loads.small_rows_and_deletions(server, table, self.sizes.partitions, sstable)

        writers = [writer(sstable) for sstable in range(max(self.sizes.sources) + 2)]
        kept = loads.keep(server, loads.SMALL, writers, "overlapping")
        self.kept = {**getattr(self, "kept", {}), server.name: kept}

    def round(self, server):
        figures = {}
        for sources in self.sizes.sources:
            for by in self.by:
                wall, cpu, left = self.case(server, sources, by)
                name = f"{sources} {by}"
                figures |= {f"cpu {name}": cpu, f"wall {name}": wall, f"left {name}": left / (1 << 20)}
        return figures

    def case(self, server, sources, by):
        """Wall and processor seconds of one compaction, and the bytes of Data.db that it leaves."""
        table = loads.new_table(server, loads.SMALL, f", 'provide_overlapping_tombstones': '{by}'")
        kept = self.kept[server.name]
        oldest = loads.import_copies(server, table, kept[:2])
        if sources:
            loads.import_copies(server, table, kept[2 : sources + 2])
        before = server.sstables(table)
        left = []

        def compact():
            seconds, _ = server.nodetool("compact", "--user-defined", *sorted(oldest))
            left.extend(server.sstables(table) - before)
            return seconds

        wall, cpu = self.during(server, compact)
        # Without anything left there is no new file, but the old ones must be gone: Cassandra removes them a little later.
        wait_until_gone(server, table, oldest)
        size = sum(path_bytes(path) for path in left)
        loads.drop_table(server, table)
        return wall, cpu, size

    def tables(self, shown):
        heads = " | ".join(self.by)
        lines = [
            f"CASSANDRA-7019: {self.sizes.partitions:,} partitions in every SSTable, two rows of 300 bytes each, a row deletion "
            "in every tenth; the two oldest are compacted while M newer ones overlap them.",
        ]
        for kind, title in [("cpu", "CPU seconds"), ("wall", "seconds"), ("left", "MiB left")]:
            lines += ["", f"| {title}, M | server | {heads} |", "| ---: | --- |" + " ---: |" * len(self.by)]
            for sources in self.sizes.sources:
                for server in self.servers:
                    cells = " | ".join(shown(server.name, f"{kind} {sources} {by}") for by in self.by)
                    lines.append(f"| {sources} | {server.name} | {cells} |")
        return lines


class Index(Measure):
    """Reads by an indexed column beside the reads by key that they end in."""

    title = "index"
    columns = ["id", "email", "firstname", "lastname", "loginid", "phone", "status", "userid", "username"]

    def prepare(self, server):
        typed = ", ".join(f"{column} text" for column in self.columns[1:])
        table = loads.new_table(server, f"id text PRIMARY KEY, {typed}")
        server.session.execute(f"CREATE INDEX ON {KEYSPACE}.{table} (userid)")
        marks = ", ".join("?" * len(self.columns))
        insert = server.session.prepare(f"INSERT INTO {KEYSPACE}.{table} ({', '.join(self.columns)}) VALUES ({marks})")
        rows = (
            (insert, [f"{column}{row:012}" for column in self.columns]) for row in range(self.sizes.index_rows)
        )
        loads.send(server, rows)
        loads.flush(server, table)
        reads = {by: server.session.prepare(f"SELECT * FROM {KEYSPACE}.{table} WHERE {by} = ?") for by in ("id", "userid")}
        self.reads = {**getattr(self, "reads", {}), server.name: reads}

    def round(self, server):
        figures = {}
        for by, statement in self.reads[server.name].items():
            settle(self.servers)
            reader = loads.Reader(server)
            cpu, began = server.cpu_seconds(), time.monotonic()
            for i in range(self.sizes.operations):
                row = loads.scattered(i) % self.sizes.index_rows
                reader.read_one(statement, b"%s%012d" % (by.encode(), row))
            wall, cpu = time.monotonic() - began, server.cpu_seconds() - cpu
            reader.close()
            figures[f"us {by}"] = wall / self.sizes.operations * 1e6
            figures[f"cpu us {by}"] = cpu / self.sizes.operations * 1e6
        for kind in ("us", "cpu us"):
            figures[f"{kind} ratio"] = figures[f"{kind} userid"] / figures[f"{kind} id"]
        return figures

    def tables(self, shown):
        lines = [
            f"Reads of one row of {self.sizes.index_rows:,}, from an SSTable, by key and by a column that CREATE INDEX has "
            f"indexed; one client, one request at a time, {self.sizes.operations:,} reads of each kind a round.",
            "",
            "| server | by key, µs | by index, µs | ratio | by key, server's µs of CPU | by index | ratio |",
            "| --- |" + " ---: |" * 6,
        ]
        for server in self.servers:
            cells = [shown(server.name, f"{kind} {by}") for kind in ("us", "cpu us") for by in ("id", "userid", "ratio")]
            lines.append(f"| {server.name} | {' | '.join(cells)} |")
        return lines


MEASURES = [Flush, Compaction, Overlapping, Index]


def rates(mb, wall, cpu):
    """The figures of something that reads or writes so many MB, in seconds and MB/s."""
    # With sizes for trying, the difference of two commands may be nothing.
    return {"wall": wall, "cpu": cpu, "mb/s": mb / max(wall, 1e-3), "mb/s of cpu": mb / max(cpu, 1e-3)}


def rate_table(servers, shown):
    lines = ["", "| server | MB/s | MB/s of CPU | seconds | CPU seconds |", "| --- |" + " ---: |" * 4]
    for server in servers:
        cells = " | ".join(shown(server.name, name) for name in ("mb/s", "mb/s of cpu", "wall", "cpu"))
        lines.append(f"| {server.name} | {cells} |")
    return lines


def check_bytes(server, path, least):
    """All values are in the SSTable, which random ones cannot be in fewer bytes."""
    found = path_bytes(path)
    if found < least:
        raise Failed(f"{server.name}: {path} has {found} bytes, and the values that belong into it have {least}")


def path_bytes(path):
    with open(path, "rb") as file:
        return file.seek(0, 2)


def wait_until_gone(server, table, sstables):
    """Waits until SSTables that were compacted are removed, ten seconds at most."""
    deadline = time.monotonic() + 10
    while still := sstables & server.sstables(table):
        if time.monotonic() > deadline:
            raise Failed(f"{server.name} did not compact {', '.join(still)}")
        time.sleep(0.05)
