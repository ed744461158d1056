#!/usr/bin/env python3
"""Moves from a data directory of Cassette to Apache Cassandra, beside the tools of Cassandra's users.

Writes GB gigabytes of rows of 1 KB (YCSB's) into a data directory, starts NODES nodes of Cassandra on this machine,
and moves the same directory by each method into an empty keyspace with as many replicas as nodes: `cassette move` by
files, by import, in bulk and by rows, and Cassandra's sstableloader. The methods `copy` (cqlsh's COPY FROM) and `dsbulk` load CSV files
of CSV_GB gigabytes of such rows, which are written before and not counted. Prints for each the seconds, rows and
megabytes per second, and processor time of the client's processes, that of `nodetool import` separately; then the
seconds of `--verify`, which compares all rows (VERIFY=files: with the files of the nodes; VERIFY=compacted: after a
compaction, so that the nodes have files of their own; VERIFY=none: not at all). COLD=1 empties the page cache before
it, which root may.
Client and nodes share the machine: a network and a disk between them would add their own limits.

    GB=1 CSV_GB=1 NODES=1 ROUNDS=1 METHODS=files,import,bulk,rows,sstableloader,copy,dsbulk VERIFY=query benches/move.py

CASSETTE_BINARY is the program, target/release/cassette otherwise. Needs cassandra-driver and cqlsh (`make bench-move`
has them), JDK 17 and Maven. Prints Markdown and leaves JSON in bench-results/.
"""

import glob
import json
import math
import os
import platform
import random
import re
import shlex
import shutil
import statistics
import string
import subprocess
import sys
import time
from pathlib import Path

from cassandra.cluster import Cluster

ROOT = Path(__file__).resolve().parents[1]
BINARY = os.environ.get("CASSETTE_BINARY", str(ROOT / "target/release/cassette"))
WORK = Path(os.environ.get("WORK", ROOT / ".cache/bench-move"))
RESULTS = Path(os.environ.get("RESULTS", ROOT / "bench-results"))
GIGABYTES = float(os.environ.get("GB", "1"))
CSV_GIGABYTES = float(os.environ.get("CSV_GB", "1"))
NODES = int(os.environ.get("NODES", "1"))
ROUNDS = int(os.environ.get("ROUNDS", "1"))
METHODS = os.environ.get("METHODS", "files,import,bulk,rows,sstableloader,copy,dsbulk").split(",")
VERIFY = os.environ.get("VERIFY", "query")
COLD = os.environ.get("COLD", "0") == "1"
HEAP = os.environ.get("HEAP", "2G")
LIBRARY = os.environ.get("CASSANDRA_LIB")
NETWORK, PORT, STORAGE_PORT, JMX_PORT = "127.0.79", 9279, 17000, 17200 + 79 * 20
ROW_BYTES = 1000
COLUMNS = ["y_id", *(f"field{number}" for number in range(10))]
DSBULK = [("com.datastax.oss", "dsbulk-runner", "1.10.0"), ("com.datastax.oss", "dsbulk-workflow-load", "1.10.0"),
          ("com.datastax.oss", "dsbulk-connectors-csv", "1.10.0"),
          ("com.datastax.oss", "dsbulk-batcher-reactor", "1.10.0"),
          ("com.datastax.oss", "dsbulk-executor-reactor", "1.10.0"), ("ch.qos.logback", "logback-classic", "1.2.13")]
CSV = ("copy", "dsbulk")
READY_SECONDS_MAX = 300
QUIET = '<configuration><root level="OFF"/></configuration>'
# Packages that Cassandra's tools open on JDK 17.
OPENED = ["java.base/java.io", "java.base/java.lang", "java.base/java.nio", "java.base/java.util",
          "java.base/sun.nio.ch", "java.base/jdk.internal.misc", "java.base/jdk.internal.ref",
          "java.base/java.util.concurrent",
          "java.base/java.util.concurrent.atomic", "java.base/java.lang.reflect", "java.base/java.math",
          "java.base/java.net"]


def progress(text):
    print(f"# {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def run(command, name="output"):
    """Runs a command; its seconds and processor time, or the end of its output as an error."""
    with open(WORK / name, "w+") as output:
        started = time.monotonic()
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - started
        if status != 0:
            output.seek(0)
            sys.exit(f"{' '.join(map(str, command))}: status {status}\n{output.read()[-3000:]}")
        return {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime}


def csv_rows():
    return int(min(GIGABYTES, CSV_GIGABYTES) * 1e9 / ROW_BYTES)


def contacts():
    return ",".join(f"{NETWORK}.{node}:{PORT}" for node in range(1, NODES + 1))


def jars():
    found = LIBRARY or str(Path(os.environ.get("CASSETTE_LAB_CACHE", ROOT / ".cache/cassandra")) / "lib-5.0.8")
    return f"{found}/*"


def replication():
    return f"{{'class': 'SimpleStrategy', 'replication_factor': {NODES}}}"


def move(*more):
    return [BINARY, "move", "--data", str(WORK / "data"), "--to", contacts(), "--keyspace", "ycsb",
            "--replication", replication(), "--consistency", "ALL", "--progress", str(WORK / "progress"), *more]


def flush():
    """Starts the server on the directory and stops it, which writes what the commit log has to SSTables."""
    command = [BINARY, "serve", "--data", str(WORK / "data"), "--listen", "127.0.0.1:0", "--admin", "off"]
    with open(WORK / "serve", "w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while "listens for CQL" not in (WORK / "serve").read_text():
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{' '.join(command)}: not ready\n{(WORK / 'serve').read_text()}")
            time.sleep(0.1)
        server.terminate()
        server.wait()


def java(*options):
    """Java for Cassandra's tools."""
    flags = ("--add-exports", "--add-opens")
    opened = [text for package in OPENED for flag in flags for text in (flag, f"{package}=ALL-UNNAMED")]
    return ["java", *opened, *options, f"-Dlogback.configurationFile={WORK / 'logback.xml'}",
            "-Djava.net.preferIPv4Stack=true"]


def nodetool():
    """Scripts that run nodetool of each node with its own options, and add their processor time to a file."""
    for node in range(1, NODES + 1):
        conf = WORK / f"cluster/node{node}/conf"
        command = [*java("-Xmx128m", "-XX:ParallelGCThreads=1"), "-cp", f"{conf}:{jars()}",
                   "org.apache.cassandra.tools.NodeTool", "-h", "127.0.0.1", "-p", str(JMX_PORT + node)]
        script = WORK / f"nodetool-{NETWORK}.{node}"
        # In a pipe, `times` would be that of another shell.
        script.write_text(f"#!/bin/bash\ncd {WORK}\n{shlex.join(command)} \"$@\"\nstatus=$?\n"
                          f"times > times-$$\ntail -n 1 times-$$ >> {WORK / 'nodetool.times'}\n"
                          "rm times-$$\nexit $status\n")
        script.chmod(0o755)
    return str(WORK / f"nodetool-{NETWORK}.")


def nodetool_seconds():
    """The processor time of nodetool since the last call, from lines such as `0m1.234s 0m0.100s`."""
    times = WORK / "nodetool.times"
    texts = times.read_text().split() if times.exists() else []
    times.unlink(missing_ok=True)
    return sum(float(minutes) * 60 + float(seconds) for minutes, seconds in
               (text.rstrip("s").split("m") for text in texts))


def by_import():
    """`nodetool import` of directories of this file system."""
    for node in range(1, NODES + 1):
        (WORK / f"import{node}").mkdir(exist_ok=True)
    directories = ",".join(f"{NETWORK}.{node}={WORK / f'import{node}'}" for node in range(1, NODES + 1))
    return move("--by", "import", "--import-directory", directories, "--nodetool", str(WORK / "nodetool-{node}"))


def wait_for_compactions(node):
    """Waits until a node compacts nothing, so that it leaves the processors and the disk to the verification."""
    while True:
        run([f"{nodetool()}{node}", "compactionstats"], "compactions")
        pending = re.search(r"pending(?: tasks|_tasks)?:?\s+(\d+)", (WORK / "compactions").read_text())
        if pending and pending[1] == "0":
            return
        time.sleep(2)


def verify():
    """Compares all rows; its seconds and processor time."""
    if VERIFY == "none":
        return {}
    more = []
    if VERIFY in ("files", "compacted"):
        for node in range(1, NODES + 1):
            run([f"{nodetool()}{node}", "flush", "ycsb"])
            if VERIFY == "compacted":
                run([f"{nodetool()}{node}", "compact", "--split-output", "ycsb"])
            wait_for_compactions(node)
        nodetool_seconds()
        more = ["--target-files", ",".join(str(WORK / f"cluster/node{node}/data") for node in range(1, NODES + 1))]
    if COLD:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    found = run(move("--verify", *more))
    return {"verify_seconds": found["seconds"], "verify_cpu": found["cpu"]}


def loader():
    """Cassandra's sstableloader on the table's directory."""
    directory = glob.glob(str(WORK / "data/data/ycsb/usertable-*"))[0]
    return [*java("-Xmx1G", "-Djdk.attach.allowAttachSelf=true"), "-cp", jars(), "org.apache.cassandra.tools.BulkLoader",
            "-d", contacts().replace(f":{PORT}", ""), "-p", str(PORT), "-sp", str(STORAGE_PORT),
            "--no-progress", directory]


def copy():
    """cqlsh's COPY FROM, with its own number of processes."""
    command = f"COPY ycsb.usertable ({', '.join(COLUMNS)}) FROM '{WORK / 'rows.csv'}'"
    return [str(Path(sys.executable).with_name("cqlsh")), f"{NETWORK}.1", str(PORT), "-e", command]


def dsbulk():
    """DSBulk, from its packages, which `fetch_dsbulk` gets."""
    return ["java", "-Xmx1G", "-cp", f"{WORK / 'dsbulk'}/*", "com.datastax.oss.dsbulk.runner.DataStaxBulkLoader",
            "load", "-url", str(WORK / "rows.csv"), "-header", "false", "-k", "ycsb", "-t", "usertable",
            "-m", ",".join(COLUMNS), "-h", f"{NETWORK}.1", "-port", str(PORT), "-logDir", str(WORK / "dsbulk-logs"),
            "-maxErrors", "0"]


def fetch_dsbulk():
    packages = "".join(f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
                       f"<version>{version}</version></dependency>"
                       for group, name, version in DSBULK)
    (WORK / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>cassette</groupId><artifactId>dsbulk</artifactId>"
        f"<version>1</version><dependencies>{packages}</dependencies></project>")
    run(["mvn", "-q", "-B", "-f", str(WORK / "pom.xml"), "dependency:copy-dependencies",
         f"-DoutputDirectory={WORK / 'dsbulk'}"])


def write_csv(rows):
    """Rows like YCSB's: ten fields of 100 random letters and digits."""
    source = random.Random(1)
    alphabet = string.ascii_letters + string.digits
    with open(WORK / "rows.csv", "w") as file:
        for number in range(rows):
            text = "".join(source.choices(alphabet, k=1000))
            file.write(f"user{number}," + ",".join(text[at:at + 100] for at in range(0, 1000, 100)) + "\n")


def empty(session, schema):
    """Drops the keyspace, and creates it again with an empty table if `schema`."""
    session.execute("DROP KEYSPACE IF EXISTS ycsb")
    if schema:
        session.execute(f"CREATE KEYSPACE ycsb WITH replication = {replication()}")
        columns = ", ".join(f"{name} varchar" for name in COLUMNS[1:])
        session.execute(f"CREATE TABLE ycsb.usertable ({COLUMNS[0]} varchar PRIMARY KEY, {columns})")
    (WORK / "progress").unlink(missing_ok=True)


def measured(method, session):
    empty(session, method not in ("files", "import", "bulk", "rows"))
    commands = {"files": move("--by", "files"), "import": by_import(), "bulk": move("--by", "bulk"), "rows": move(),
                "sstableloader": loader(), "copy": copy(), "dsbulk": dsbulk()}
    nodetool()
    nodetool_seconds()
    os.sync()
    found = run(commands[method], f"{method}.output")
    found["nodetool_cpu"] = nodetool_seconds()
    found["cpu"] -= found["nodetool_cpu"]
    progress(f"{method}: {found}")
    if method not in CSV:
        found |= verify()
        progress(f"{method}: {found}")
    return found


def table(rows, megabytes, figures):
    print(f"{rows:,} rows of 1 KB ({csv_rows():,} for {' and '.join(CSV)}), {megabytes:.0f} MB of SSTables, "
          f"{NODES} nodes of Cassandra 5.0.8 with {NODES} replicas, median of {ROUNDS}\n")
    print("| method | seconds | rows/s | MB/s | client CPU s | nodetool CPU s | CPU s per GB | verify s | verify CPU s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for method, rounds in figures.items():
        middle = {name: statistics.median(round[name] for round in rounds) for name in rounds[0]}
        seconds, part = middle["seconds"], csv_rows() / rows if method in CSV else 1
        verified, compared = middle.get("verify_seconds", math.nan), middle.get("verify_cpu", math.nan)
        cpu = middle["cpu"] + middle["nodetool_cpu"]
        print(f"| {method} | {seconds:.1f} | {rows * part / seconds:,.0f} | {megabytes * part / seconds:.1f} "
              f"| {middle['cpu']:.1f} | {middle['nodetool_cpu']:.1f} | {cpu / (megabytes * part) * 1000:.2f} "
              f"| {verified:.1f} | {compared:.1f} |")


def main():
    rows = int(GIGABYTES * 1e9 / ROW_BYTES)
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    progress(f"{rows:,} rows are written")
    load = [BINARY, "lab", "ycsb", "--engine", "embedded", "--data", str(WORK / "data"), "--phase", "load",
            "--records", str(rows)]
    run([*load, "--threads", "4", "--no-json"])
    flush()
    (WORK / "logback.xml").write_text(QUIET)
    if set(CSV) & set(METHODS):
        write_csv(csv_rows())
    if "dsbulk" in METHODS:
        fetch_dsbulk()
    files = [path for path in (WORK / "data/data/ycsb").rglob("*") if path.is_file()]
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    cluster = ["--directory", str(WORK / "cluster")]
    start = [BINARY, "lab", "cassandra", "start", *cluster, "--network", NETWORK, "--port", str(PORT),
             "--nodes", str(NODES)]
    figures = {method: [] for method in METHODS}
    try:
        run([*start, "--heap", HEAP])
        session = Cluster([f"{NETWORK}.1"], port=PORT).connect()
        session.default_timeout = 120
        for number in range(1, ROUNDS + 1):
            for method in METHODS:
                progress(f"round {number}: {method}")
                figures[method].append(measured(method, session))
    finally:
        subprocess.run([BINARY, "lab", "cassandra", "stop", *cluster], check=False)
    table(rows, megabytes, figures)
    RESULTS.mkdir(exist_ok=True)
    about = {"rows": rows, "megabytes": megabytes, "nodes": NODES, "machine": platform.platform(),
             "processors": os.cpu_count()}
    (RESULTS / "move.json").write_text(json.dumps({**about, "figures": figures}, indent=2))
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
