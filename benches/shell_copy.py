"""COPY of `cassette cql` beside COPY of cqlsh, both ways, on one Cassette server.

Usage: shell_copy.py CASSETTE CQLSH [ROWS] [ROUNDS]

The rows have an int, two texts, a double and a timestamp. In each round, the clients take turns: FROM a file of ROWS rows
into an empty table, then TO a file. cqlsh has its default of processes, `cassette cql` its default of threads; neither has
a limit of its rate. Prints the median and the range of the rows a second of each, by the wall clock of the whole command.
"""

import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main(cassette, cqlsh, rows, rounds):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        environment = {**os.environ, "HOME": str(folder)}
        source = folder / "rows.csv"
        write_rows(source, rows)
        server = subprocess.Popen(
            [cassette, "serve", "--data", folder / "data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            port = re.search(r"127\.0\.0\.1:(\d+)", server.stdout.readline()).group(1)
            clients = {
                "cqlsh": [cqlsh, "127.0.0.1", port, "--request-timeout=600"],
                "cassette cql": [cassette, "cql", f"127.0.0.1:{port}"],
            }
            results = measure(clients, source, folder, rows, rounds, environment)
        finally:
            server.terminate()
            server.wait()
    for (direction, client), rates in sorted(results.items()):
        spread = f"{statistics.median(rates):,.0f} ({min(rates):,.0f}-{max(rates):,.0f})"
        print(f"COPY {direction}, {client}: {spread} rows/s")


def write_rows(path, rows):
    random.seed(1)
    with open(path, "w") as file:
        for key in range(rows):
            text = "".join(random.choices("abcdefghijklmnopqrstuvwxyz ", k=60)).strip()
            day = f"2024-{key % 12 + 1:02}-{key % 28 + 1:02} {key % 24:02}:{key % 60:02}:00.{key % 1000:03}+0000"
            file.write(f"{key},name {key % 1000},{text},{random.random() * 1000:.6f},{day}\n")


def measure(clients, source, folder, rows, rounds, environment):
    def run(client, statement):
        started = time.monotonic()
        command = [str(part) for part in [*clients[client], "-e", statement]]
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        seconds = time.monotonic() - started
        if ended.returncode != 0:
            raise SystemExit(ended.stdout + ended.stderr)
        return seconds, ended.stdout

    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    run("cassette cql", f"CREATE KEYSPACE bench WITH replication = {replication}")
    run("cassette cql", "CREATE TABLE bench.t (k int PRIMARY KEY, name text, v text, d double, at timestamp)")
    results = {}
    columns = "(k, name, v, d, at)"
    for _ in range(rounds):
        for client in clients:
            run("cassette cql", "TRUNCATE bench.t")
            out = folder / "out.csv"
            limit = " WITH INGESTRATE = 10000000" if client == "cqlsh" else ""
            seconds, shown = run(client, f"COPY bench.t {columns} FROM '{source}'{limit}")
            assert f"{rows} rows imported" in shown, shown
            results.setdefault(("FROM", client), []).append(rows / seconds)
            seconds, shown = run(client, f"COPY bench.t {columns} TO '{out}'")
            assert sum(1 for _ in open(out)) == rows, shown
            results.setdefault(("TO", client), []).append(rows / seconds)
    return results


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2], int((sys.argv + ["", "", ""])[3] or 400_000), int((sys.argv + [""] * 4)[4] or 3))
