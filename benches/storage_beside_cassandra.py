#!/usr/bin/env python3
"""Flushes, compactions, CASSANDRA-7019 and reads by index on `cassette serve` and on Apache Cassandra in one run.

Both servers run on this machine and get the same CQL and the same commands of nodetool. They work by turns, one at a time, and
nothing is measured before both are idle and what is dirty is on the disk. The first rounds warm Cassandra's just-in-time
compiler up and do not count; the JSON has them. Seconds are those of the command, processor time that of the server's process
meanwhile; from both is subtracted what `nodetool version` takes right before, and from processor time what the server takes idle.
Cassandra's nodetool runs in one Java that stays. SSTables to compact are written once by each server, and copies of them imported
into a new table for each compaction.

    benches/storage_beside_cassandra.py [--quick] [--rounds 3] [--measures flush,compaction,overlapping,index]

Sizes are options or environment variables (--help). CASSETTE_BINARY is the program, target/release/cassette otherwise. Needs
cassandra-driver (`make bench-beside-cassandra` has it), JDK 17 and Maven. Prints Markdown and leaves JSON in bench-results/.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from cassandra import DriverException
from cassandra.cluster import NoHostAvailable

from beside import servers as both
from beside.measures import MEASURES

IDLE_SECONDS = 10  # how long both are watched without work
RESULTS = Path(os.environ.get("RESULTS", both.ROOT / "bench-results"))
# Names, defaults, those of --quick, what they are.
SIZES = [
    ("rounds", 3, 1, "rounds that count"),
    # Compactions of the size of CASSANDRA-7019's take Cassandra ten times as long in the first round as in the fifth.
    ("warm_up", 4, 0, "rounds before them"),
    ("rows", 200_000, 20_000, "rows of 1 KB flushed, and compacted"),
    ("partitions", 12_000, 2_000, "partitions in every SSTable of CASSANDRA-7019"),
    ("index_rows", 30_000, 3_000, "rows of the table with an index"),
    ("operations", 20_000, 2_000, "reads of each kind in a round"),
]


def arguments():
    """Options over environment variables over defaults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a minute: shows that it works, not figures")
    for name, default, _, what in SIZES:
        text = f"{what} ({name.upper()}, {default:,})"
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=text)
    parser.add_argument("--sources", help="numbers of newer SSTables, M (SOURCES, 0,5,20)")
    parser.add_argument("--heap", default=os.environ.get("HEAP", "2G"), help="Cassandra's (HEAP, 2G)")
    titles = ",".join(measure.title for measure in MEASURES)
    parser.add_argument("--measures", default=os.environ.get("MEASURES", titles), help=f"of {titles} (MEASURES)")
    given = parser.parse_args()
    for name, default, quick, _ in SIZES:
        if getattr(given, name) is None:
            setattr(given, name, int(os.environ.get(name.upper(), quick if given.quick else default)))
    given.sources = given.sources or os.environ.get("SOURCES", "0,5" if given.quick else "0,5,20")
    given.sources = [int(number) for number in given.sources.split(",")]
    given.measures = given.measures.split(",")
    unknown = set(given.measures) - set(titles.split(","))
    if unknown or given.rounds < 1 or given.rows < 1000:
        parser.error(f"no measure {', '.join(unknown)}" if unknown else "at least a round, of 1000 rows")
    return given


def progress(text):
    print(f"# {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def take(measure, sizes, servers):
    """Figures of all rounds of a measure, those that warm up first, by server."""
    for server in servers:
        progress(f"{measure.title}: {server.name} is filled")
        measure.prepare(server)
    figures = {server.name: [] for server in servers}
    for number in range(sizes.warm_up + sizes.rounds):
        for server in servers if number % 2 == 0 else reversed(servers):
            found = measure.round(server)
            figures[server.name].append(found)
            some = ", ".join(f"{name} {value:.3g}" for name, value in list(found.items())[:4])
            which = f"round {number - sizes.warm_up + 1}" if number >= sizes.warm_up else "to warm up"
            progress(f"{measure.title}, {which}: {server.name}: {some}")
    return figures


def spread(values):
    """Median (least-greatest), three digits."""

    def text(value):
        digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
        return f"{value:,.{digits}f}"

    return f"{text(statistics.median(values))} ({text(min(values))}-{text(max(values))})"


def settings(sizes):
    """What the figures are of."""
    version = subprocess.run([both.BINARY, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "cassette": version,
        "machine": f"{os.cpu_count()} processors, {platform.system()} {platform.release()}",
        "command": " ".join(sys.argv),
        "sizes": vars(sizes),
        "both": both.COMMON,
        "cassandra": both.OF_CASSANDRA,
    }


def description(found):
    """One paragraph of Markdown of it."""
    sizes = found["sizes"]
    idle = ", ".join(f"{name} {share:.1%}" for name, share in found["idle"].items())
    return (
        f"{found['machine']}; {found['cassette']}; Cassandra's {found['versions']['Cassandra']}, {sizes['heap']} of heap, "
        f"memtables beside it. Medians of {sizes['rounds']} rounds by turns after {sizes['warm_up']} to warm up, with the least "
        f"and the greatest. Idle they take of a processor: {idle}."
    )


def unasked_compactions(servers, ordered):
    """How many compactions of the tables nobody ordered, by server."""
    unasked = {}
    for server in servers:
        _, text = server.nodetool("compactionhistory", "-F", "json")
        history = json.loads(text).get("CompactionHistory", [])
        done = [one for one in history if one["keyspace_name"] == both.KEYSPACE]
        progress(f"{server.name}: {len(done)} compactions, {ordered} ordered")
        unasked[server.name] = max(len(done) - ordered, 0)
    return unasked


def run(sizes):
    """Starts both servers, measures, stops them; everything found."""
    progress("starting both servers")
    servers = both.start(sizes.heap)
    found = {**settings(sizes), "versions": {}, "idle": {}, "figures": {}}
    try:
        for server in servers:
            found["versions"][server.name] = server.nodetool("version")[1].strip()
        for server, share in zip(servers, both.settle(servers, IDLE_SECONDS)):
            server.idle = found["idle"][server.name] = share
        print(description(found) + "\n", flush=True)
        ordered = 0
        for kind in MEASURES:
            if kind.title not in sizes.measures:
                continue
            measure = kind(sizes, servers)
            figures = found["figures"][kind.title] = take(measure, sizes, servers)
            ordered += measure.compactions * (sizes.warm_up + sizes.rounds)
            count = {name: rounds[sizes.warm_up :] for name, rounds in figures.items()}
            lines = measure.tables(lambda server, name: spread([one[name] for one in count[server]]))
            print("\n".join([*lines, ""]), flush=True)
        found["unasked"] = unasked_compactions(servers, ordered)
        return found
    finally:
        both.stop(servers)


def main():
    # As by the terminal's interrupt, so that servers are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sizes = arguments()
    began = time.monotonic()
    try:
        found = run(sizes)
    except both.Failed as error:
        sys.exit(f"error: {error}")
    except (DriverException, NoHostAvailable) as error:
        sys.exit(f"error: a server does not do as it is told, see the logs in {both.WORK}: {error}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"storage-beside-cassandra-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(found, indent=1))
    progress(f"{time.monotonic() - began:.0f} s; everything is in {path}")
    if any(found["unasked"].values()):
        sys.exit(f"error: compactions that nobody ordered ({found['unasked']}): do not trust the figures")


if __name__ == "__main__":
    main()
