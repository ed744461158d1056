"""Tables and what is written into them; SSTables kept aside, to be imported into table after table."""

import itertools
import os
import random
import socket
import struct

from cassandra.concurrent import execute_concurrent
from cassandra.query import BatchStatement, BatchType

from beside.servers import KEYSPACE, WORK, Failed, fresh

IN_FLIGHT = 16
ROWS_A_REQUEST = 10
COLUMNS, CELL_BYTES = 10, 100
ROW_BYTES = 8 + 4 + COLUMNS * CELL_BYTES  # of wide_row: key, clustering, values

# Without a ratio Cassette stores chunks that hardly shrink as they are, which Cassandra compresses.
LZ4 = "compression = {'class': 'LZ4Compressor', 'min_compress_ratio': 0}"
names = itertools.count(1)


def new_table(server, columns, compaction=""):
    """Makes a table that is not compacted unless asked for; its name."""
    name = f"t{next(names)}"
    options = f"{{'class': 'SizeTieredCompactionStrategy'{compaction}}}"
    server.session.execute(f"CREATE TABLE {KEYSPACE}.{name} ({columns}) WITH compaction = {options} AND {LZ4}")
    server.nodetool("disableautocompaction", KEYSPACE, name)
    return name


def drop_table(server, name):
    """Drops a table, when its SSTables are not wanted any more."""
    server.session.execute(f"DROP TABLE {KEYSPACE}.{name}")


WIDE = "k bigint, c int, " + ", ".join(f"v{n} blob" for n in range(COLUMNS)) + ", PRIMARY KEY (k, c)"


def wide_rows(server, table, keys, seed):
    """Inserts rows of ten random columns of 100 bytes; `keys` gives (k, c)."""
    values = ", ".join(["?"] * (COLUMNS + 2))
    columns = ", ".join(f"v{n}" for n in range(COLUMNS))
    insert = server.session.prepare(f"INSERT INTO {KEYSPACE}.{table} (k, c, {columns}) VALUES ({values})")
    source = random.Random(seed)

    def statements():
        for k, c in keys:
            row = source.randbytes(COLUMNS * CELL_BYTES)
            cells = [row[at : at + CELL_BYTES] for at in range(0, len(row), CELL_BYTES)]
            yield insert, (scattered(k), c, *cells)

    send(server, statements())


SMALL = "k bigint, c int, v blob, PRIMARY KEY (k, c)"
SMALL_BYTES = 300


def small_rows_and_deletions(server, table, partitions, sstable):
    """What an SSTable of CASSANDRA-7019 holds: two rows of 300 bytes a partition, one of them deleted in a tenth, at random."""
    insert = server.session.prepare(f"INSERT INTO {KEYSPACE}.{table} (k, c, v) VALUES (?, ?, ?) USING TIMESTAMP ?")
    delete = server.session.prepare(f"DELETE FROM {KEYSPACE}.{table} USING TIMESTAMP ? WHERE k = ? AND c = 0")
    source = random.Random(sstable)
    written = 1_700_000_000_000_000 + sstable * 10  # microseconds; those of later SSTables are greater

    def statements():
        for k in range(partitions):
            for c in (0, 1):
                yield insert, (scattered(k), c, source.randbytes(SMALL_BYTES), written)
            if source.randrange(10) == 0:
                yield delete, (written + 1, scattered(k))

    send(server, statements())


def scattered(number):
    """Another 64 bits for every number."""
    return (number * 0x9E3779B97F4A7C15 + (1 << 63)) % (1 << 64) - (1 << 63)


def send(server, statements):
    """Executes prepared statements, ten in a request, sixteen requests in flight."""

    def requests():
        while some := list(itertools.islice(statements, ROWS_A_REQUEST)):
            batch = BatchStatement(BatchType.UNLOGGED)
            for statement, values in some:
                batch.add(statement, values)
            yield batch, ()

    done = execute_concurrent(
        server.session, requests(), concurrency=IN_FLIGHT, raise_on_first_error=True, results_generator=True
    )
    for _ in done:
        pass


def flush(server, table):
    """Flushes the table; seconds, and the one Data.db that came of it."""
    before = server.sstables(table)
    seconds, _ = server.nodetool("flush", KEYSPACE, table)
    new = server.sstables(table) - before
    if len(new) != 1:
        raise Failed(f"{server.name}: {len(new)} SSTables came of a flush of {table}, where one was expected")
    return seconds, new.pop()


def keep(server, columns, writers, kind):
    """Has each of `writers` fill an SSTable of a table; their directories, links to the files of each, oldest first."""
    table = new_table(server, columns)
    kept = fresh(WORK / "kept" / server.name / kind)
    for number, write in enumerate(writers):
        write(table)
        if len(server.sstables(table)) != number:
            raise Failed(f"{server.name} flushed before it was asked to: give it more room for memtables")
        _, data = flush(server, table)
        directory = kept / f"{number:02}"
        directory.mkdir()
        of_sstable = data.rsplit("/", 1)[1].removesuffix("Data.db")
        for path in server.directory(table).glob(f"{of_sstable}*"):
            os.link(path, directory / path.name)
    drop_table(server, table)
    return sorted(kept.iterdir())


def import_copies(server, table, directories):
    """Imports copies of kept SSTables; their Data.db files in the table."""
    before = server.sstables(table)
    server.nodetool("import", "--copy-data", KEYSPACE, table, *directories)
    new = server.sstables(table) - before
    if len(new) != len(directories):
        raise Failed(f"{server.name} imported {len(new)} SSTables of {len(directories)} into {table}")
    return new


class Reader:
    """One connection that asks for one row after another. The driver takes several times as long as the server, and would hide
    differences."""

    STARTUP, ERROR, EXECUTE = 0x01, 0x00, 0x0A
    ROWS, SKIP_METADATA_AND_VALUES, ONE = 2, 0x03, 1

    def __init__(self, server):
        self.socket = socket.create_connection(server.contact)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ask(self.STARTUP, struct.pack(">HH11sH5s", 1, 11, b"CQL_VERSION", 5, b"3.0.0"))

    def ask(self, opcode, body):
        """Sends a frame of protocol v4; the body of the answer."""
        self.socket.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)
        header = self.take(9)
        body = self.take(struct.unpack(">i", header[5:])[0])
        if header[4] == self.ERROR:
            raise Failed(f"a read failed: {body[6:].decode(errors='replace')}")
        return body

    def take(self, length):
        """So many bytes."""
        taken = b""
        while len(taken) < length:
            some = self.socket.recv(length - len(taken))
            if not some:
                raise Failed("the server closed the connection")
            taken += some
        return taken

    def read_one(self, prepared, value):
        """Executes a prepared SELECT by one value, which must find one row."""
        body = struct.pack(">H", len(prepared.query_id)) + prepared.query_id
        body += struct.pack(">HBHi", self.ONE, self.SKIP_METADATA_AND_VALUES, 1, len(value)) + value
        kind, _, _, rows = struct.unpack(">iiii", self.ask(self.EXECUTE, body)[:16])
        if (kind, rows) != (self.ROWS, 1):
            raise Failed(f"{prepared.query_string} of {value!r} was answered with kind {kind} and {rows} rows")

    def close(self):
        """Closes the connection."""
        self.socket.close()
