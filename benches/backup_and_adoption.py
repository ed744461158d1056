#!/usr/bin/env python3
"""Time and space of backups, of a restore, and of the adoption of a Cassandra directory, for a table of 1 KB rows.

    benches/backup_and_adoption.py [--gb 10] [--rounds 3]

A repeated backup, a verification and an adoption are repeated in each round; the others happen once. The directory to adopt is one
of Apache Cassandra 5.0.8, which made the schema; its SSTables are links to those of Cassette, which has the same format. Needs
three times the space of the data, JDK 17 and Maven. Prints Markdown.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from cassandra.cluster import Cluster

from beside import servers

WORK = servers.WORK / "backup-and-adoption"
ROW_BYTES = 1000
PORT = 9263


def run(*words):
    """Runs a command of `cassette`. Returns its seconds, and those of processors."""
    before, began = os.times(), time.monotonic()
    done = subprocess.run([servers.BINARY, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise servers.Failed(f"cassette {' '.join(map(str, words))}: {done.stderr.strip()}")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - began, cpu


def size(*directories):
    """The bytes that directories occupy together; files that are linked count once."""
    printed = subprocess.run(["du", "-sc", "-B1", *directories], capture_output=True, text=True, check=True).stdout
    return int(printed.splitlines()[-1].split()[0])


def exported_schema(data):
    """The CQL of the user's keyspaces in a data directory."""
    command = [servers.BINARY, "serve", "--data", data, "--listen", f"127.0.0.1:{PORT}", "--admin", "off"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        server.stdout.readline()
        with Cluster(["127.0.0.1"], port=PORT) as cluster:
            cluster.connect()
            keyspaces = cluster.metadata.keyspaces.values()
            return [keyspace.export_as_string() for keyspace in keyspaces if not keyspace.name.startswith("system")]
    finally:
        server.terminate()
        server.wait()


def cassandra_directory(data, schema):
    """A data directory of a stopped Cassandra, with links to the SSTables of `data`."""
    cassandra = servers.Cassandra("1G")
    cassandra.start()
    try:
        with Cluster([cassandra.contact[0]], port=cassandra.contact[1], connect_timeout=60) as cluster:
            session = cluster.connect()
            statements = [part.strip() for text in schema for part in text.split(";\n") if part.strip().rstrip(";")]
            for statement in statements:
                session.execute(statement.rstrip(";"), timeout=60)
    finally:
        cassandra.stop()
    for directory in (data / "data").glob("*/*"):
        name = directory.name.split("-")[0]
        for target in cassandra.data.glob(f"{directory.parent.name}/{name}-*"):
            if not directory.parent.name.startswith("system"):
                for file in directory.glob("*.*"):
                    os.link(file, target / file.name)
    return cassandra.data


def shown(values, unit="s"):
    text = f"{statistics.median(values):.2f}"
    return f"{text} ({min(values):.2f}-{max(values):.2f}) {unit}" if len(values) > 1 else f"{text} {unit}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    data, backups, restored, adopted = (WORK / name for name in ("data", "backups", "restored", "adopted"))
    servers.fresh(WORK)
    records = int(options.gb * 1e9 / ROW_BYTES)
    run("lab", "ycsb", "--engine", "embedded", "--data", data, "--phase", "load", "--records", records, "--threads", 2, "--no-json")
    rows = []

    def measured(what, times, space):
        wall, cpu = zip(*times)
        rows.append((what, shown(wall), shown(cpu), f"{space / 1e6:,.1f} MB"))
        print(rows[-1], file=sys.stderr)

    before = size(data)
    print(f"{before / 1e9:.2f} GB", file=sys.stderr)
    first = run("backup", "create", "--data", data, backups)
    measured("first backup, copied", [first], size(data, backups) - before)
    space = size(data, backups)
    again = [run("backup", "create", "--data", data, backups) for _ in range(options.rounds)]
    measured("backup without changes", again, (size(data, backups) - space) / options.rounds)
    measured("verification", [run("backup", "verify", backups) for _ in range(options.rounds)], 0)
    dry = run("backup", "restore", backups, "--data", restored, "--dry-run")
    measured("restore, dry run", [dry], 0)
    space = size(data, backups)
    whole = run("backup", "restore", backups, "--data", restored)
    measured("restore", [whole], size(data, backups, restored) - space)
    shutil.rmtree(restored)
    shutil.rmtree(backups)
    try:
        foreign = cassandra_directory(data, exported_schema(data))
        space, times = size(data, foreign), []
        for _ in range(options.rounds):
            shutil.rmtree(adopted, ignore_errors=True)
            times.append(run("adopt", foreign, "--data", adopted))
        measured("adoption by links", times, size(data, foreign, adopted) - space)
        run("lab", "ycsb", "--engine", "embedded", "--data", adopted, "--phase", "run", "--workload", "c",
            "--records", records, "--operations", 10_000, "--no-json")  # fmt: skip
    finally:
        shutil.rmtree(servers.WORK / "cassandra", ignore_errors=True)
        shutil.rmtree(WORK)
    print(f"\n{records:,} rows, {before / 1e9:.1f} GB of files\n")
    print("| | time | processor time | additional space |\n| --- | ---: | ---: | ---: |")
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    try:
        main()
    except servers.Failed as failed:
        sys.exit(str(failed))
