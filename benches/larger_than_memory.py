#!/usr/bin/env python3
"""YCSB on data that is larger than memory: the embedded engine, with files read and mapped, and RocksDB.

Loads RECORDS records of 1 KB into each engine without a limit and waits SETTLE seconds for compactions. Then it runs
each of WORKLOADS for DURATION seconds on THREADS threads in a process that may use LIMIT_MB megabytes, the system's
cache of its files included, of which the engine's cache of blocks has CACHE_MB. Before each run the files are dropped
from the system's cache. Prints, for each workload and engine, the median of ROUNDS runs with its range: throughput,
p99, processor time and bytes read from the device per operation.

    RECORDS=5000000 LIMIT_MB=1024 CACHE_MB=256 THREADS=4 DURATION=20 SETTLE=60 ROUNDS=3 WORKLOADS="c b e f" \\
        ENGINES="embedded embedded-mmap rocksdb" DATA=directory benches/larger_than_memory.py

The limit is a control group (version 2 or 1), which mostly requires root, or a scope of systemd. Without either, the
program ends with an error; LIMIT_MB=0 runs without a limit. An engine that CASSETTE_BINARY (target/release/cassette
otherwise) was built without is skipped: `make build-peers` builds RocksDB. Data in DATA is kept and used again.
Prints Markdown and leaves JSON in bench-results/.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BINARY = os.environ.get("CASSETTE_BINARY", str(ROOT / "target/release/cassette"))
RESULTS = Path(os.environ.get("RESULTS", ROOT / "bench-results"))
RECORDS = int(os.environ.get("RECORDS", "5000000"))
LIMIT_MB = int(os.environ.get("LIMIT_MB", "1024"))
CACHE_MB = int(os.environ.get("CACHE_MB", "256"))
THREADS = int(os.environ.get("THREADS", "4"))
DURATION = int(os.environ.get("DURATION", "20"))
SETTLE = int(os.environ.get("SETTLE", "60"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
WORKLOADS = os.environ.get("WORKLOADS", "c b e f").split()
ENGINES = os.environ.get("ENGINES", "embedded embedded-mmap rocksdb").split()
NAMES = {"embedded": "Cassette", "embedded-mmap": "Cassette, mapped", "rocksdb": "RocksDB", "leveldb": "LevelDB",
         "fjall": "fjall"}
GROUP = f"cassette-larger-than-memory-{os.getpid()}"


def progress(text):
    print(f"# {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def memory_mounts():
    """Yields (version, directory) of this process's groups of the memory controller, the root of the hierarchy last."""
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own[controllers] = path
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        mount, (filesystem, _, options) = fields.split()[4], kind.split(None, 2)
        if filesystem == "cgroup2" and "" in own:
            version, path = 2, own[""]
        elif filesystem == "cgroup" and "memory" in options.split(","):
            version, path = 1, next(path for names, path in own.items() if "memory" in names.split(","))
        else:
            continue
        for directory in dict.fromkeys([Path(mount, path.lstrip("/")), Path(mount)]):
            yield version, directory


class ControlGroup:
    """A group of processes with a limit of memory, in either version of control groups."""

    def __init__(self, version, parent):
        limit = LIMIT_MB << 20
        self.directory = parent / GROUP
        self.directory.mkdir()
        self.name = f"control group (version {version})"
        try:
            if version == 2:
                (self.directory / "memory.max").write_text(str(limit))
                self.optional("memory.swap.max", 0)
            else:
                (self.directory / "memory.limit_in_bytes").write_text(str(limit))
                self.optional("memory.memsw.limit_in_bytes", limit)
        except OSError:
            self.remove()
            raise

    def optional(self, name, value):
        """Sets a file that only kernels with accounting of swap have."""
        try:
            (self.directory / name).write_text(str(value))
        except OSError:
            pass

    def start(self, command, **how):
        procs = str(self.directory / "cgroup.procs")
        return subprocess.Popen(["sh", "-c", 'echo $$ >"$0" && exec "$@"', procs, *command], **how)

    def remove(self):
        self.directory.rmdir()


class Scope:
    """A transient scope of systemd, of the user's manager without root."""

    name = "scope of systemd"

    def __init__(self):
        user = [] if os.geteuid() == 0 else ["--user"]
        self.prefix = ["systemd-run", *user, "--scope", "--quiet", "-p", f"MemoryMax={LIMIT_MB}M",
                       "-p", "MemorySwapMax=0", "--"]
        subprocess.run([*self.prefix, "true"], check=True, capture_output=True)

    def start(self, command, **how):
        return subprocess.Popen([*self.prefix, *command], **how)

    def remove(self):
        pass


class NoLimit:
    """The whole machine."""

    name = "no limit"

    def start(self, command, **how):
        return subprocess.Popen(command, **how)

    def remove(self):
        pass


def limited():
    """Returns what starts processes within the limit."""
    if LIMIT_MB == 0:
        return NoLimit()
    reasons = []
    for version, parent in memory_mounts():
        try:
            return ControlGroup(version, parent)
        except OSError as error:
            reasons.append(str(error))
    try:
        return Scope()
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stderr", None)
        reasons.append(output.decode().strip() if output else str(error))
    sys.exit("cannot limit memory: no control group and no scope of systemd may be created here:\n  "
             + "\n  ".join(reasons) + "\nRun this as root, or set LIMIT_MB=0 to measure without a limit.")


def drop(directory):
    """Drops the files from the system's cache, and no others: this needs no privileges."""
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDWR)
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def ycsb(engine, data, *arguments, limit=NoLimit()):
    """Runs `cassette lab ycsb`; returns the phases of its report, or `None` without such an engine."""
    output = RESULTS / f"larger-than-memory-{engine}.json"
    command = [BINARY, "lab", "ycsb", "--engine", engine.removesuffix("-mmap"), "--data", data, "--records", RECORDS,
               "--threads", THREADS, "--cache-mib", CACHE_MB, "--json", output, *arguments]
    if engine.endswith("-mmap"):
        command += ["--disk-access", "mmap"]
    child = limit.start(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        text, _ = child.communicate()
    except BaseException:
        child.kill()
        child.wait()
        raise
    if "this was built without" in text:
        return None
    if child.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {child.returncode}\n{text[-3000:]}")
    return json.loads(output.read_text())["phases"]


def measure(phase):
    """What the table shows of a run."""
    process = phase["processes"][0]
    # The kind of operation that is most of the workload, in F the whole of read, modify and write.
    latencies = phase["latencies"]
    kind = max(latencies, key=lambda kind: (kind == "read-modify-write", latencies[kind]["count"]))
    return {"throughput": phase["throughput"], "p99": latencies[kind]["p99_us"],
            "cpu": process["cpu_us_per_operation"],
            "read": (process.get("read_bytes") or 0) / max(phase["operations"], 1) / 1024}


def spread(values, digits=0):
    def text(value):
        return f"{value:,.{digits}f}"
    if len(values) == 1:
        return text(values[0])
    return f"{text(statistics.median(values))} ({text(min(values))}-{text(max(values))})"


def show(measured, limit, gigabytes):
    memory = f"{LIMIT_MB} MB ({limit.name})" if LIMIT_MB else limit.name
    print(f"\n{RECORDS:,} records ({gigabytes}), memory: {memory}, cache of blocks: {CACHE_MB} MB, {THREADS} threads, "
          f"{DURATION} s, {ROUNDS} rounds\n")
    print("| workload | engine | ops/s | p99, µs | µs CPU/op | KiB read/op |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for workload in WORKLOADS:
        for engine in ENGINES:
            runs = measured.get((workload, engine))
            if runs:
                columns = [spread([run[name] for run in runs], digits)
                           for name, digits in (("throughput", 0), ("p99", 0), ("cpu", 1), ("read", 1))]
                print(f"| {workload.upper()} | {NAMES.get(engine, engine)} | {' | '.join(columns)} |")


def main():
    # Also if it is terminated, the group and the data are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = os.environ.get("DATA")
    work = Path(kept) if kept else Path(tempfile.mkdtemp(prefix="larger-than-memory-"))
    limit = limited()
    progress(f"memory of the runs: {limit.name}")
    measured, sizes, missing = {}, {}, set()
    try:
        for engine in ENGINES:
            base = engine.removesuffix("-mmap")
            data = work / base
            if base in sizes or base in missing:
                continue
            if not data.exists():
                progress(f"{base}: loading {RECORDS:,} records")
                # The run only opens what was loaded once more, and waits for compactions.
                if ycsb(base, data, "--phase", "load,run", "--workload", "c", "--operations", 1000,
                        "--settle", SETTLE) is None:
                    progress(f"{base}: skipped, {BINARY} was built without it (`make build-peers`)")
                    missing.add(base)
                    continue
            size = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
            sizes[base] = f"{NAMES[base]}: {size / 1e9:.1f} GB"
        for number in range(ROUNDS):
            engines = [engine for engine in ENGINES if engine.removesuffix("-mmap") not in missing]
            for engine in engines if number % 2 == 0 else reversed(engines):
                data = work / engine.removesuffix("-mmap")
                for workload in WORKLOADS:
                    drop(data)
                    phases = ycsb(engine, data, "--phase", "run", "--workload", workload, "--operations", 0,
                                  "--seconds", DURATION, limit=limit)
                    measured.setdefault((workload, engine), []).append(run := measure(phases[-1]))
                    progress(f"{engine}, {workload}: " + ", ".join(f"{name} {run[name]:,.1f}" for name in run))
    finally:
        limit.remove()
        if not kept:
            shutil.rmtree(work, ignore_errors=True)
    show(measured, limit, ", ".join(sizes.values()))
    summary = {f"{workload} {engine}": runs for (workload, engine), runs in measured.items()}
    (RESULTS / "larger-than-memory.json").write_text(json.dumps(summary, indent=2) + "\n")


if __name__ == "__main__":
    main()
