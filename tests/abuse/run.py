#!/usr/bin/env python3
"""One client against all others: what each abuse does to another client's latency and to the server's memory.

For every case a server runs with limits of 64 MiB (32 MiB per address) on requests in flight. A healthy client at
another address reads and writes 200 times a second while one abuser sends what the case says. Prints a table, and fails
when the healthy client failed, its p99 was 50 ms or more, or memory passed the limits by more than 150 MB.

    make abuse                     all cases, with the release binary
    tests/abuse/run.py CASE ...    the cases whose names contain one of the words
"""

import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "clients"))
ROOT = HERE.parents[1]
os.environ.setdefault("CASSETTE_BINARY", str(ROOT / "target" / "release" / "cassette"))

import cases  # noqa: E402
from server import Server  # noqa: E402
from wire import Client  # noqa: E402

LIMIT_MB = 64
STOP_SECONDS = 5
MEMTABLE_MB = 128
CACHE_MB = 64
SLACK_MB = 150
P99_MS = 50
HEALTHY = "127.0.0.2"
CONFIGURATION = f"""
native_transport_max_request_data_in_flight: {LIMIT_MB}MiB
native_transport_max_request_data_in_flight_per_ip: {LIMIT_MB // 2}MiB
memtable_heap_space: {MEMTABLE_MB}MiB
file_cache_size: {CACHE_MB}MiB
key_cache_size: 8MiB
"""


def resident_mb(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


class Peak:
    """The most memory that a process held, sampled every 50 ms."""

    def __init__(self, pid):
        self.pid, self.mb, self.ended = pid, resident_mb(pid), threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        while not self.ended.wait(0.05):
            try:
                self.mb = max(self.mb, resident_mb(self.pid))
            except (OSError, StopIteration):
                return

    def stop(self):
        self.ended.set()
        self.thread.join()
        return self.mb


def measure(name, abuse, folder):
    configuration = folder / "cassandra.yaml"
    configuration.write_text(CONFIGURATION)
    descriptors = 1024 if name in cases.WITH_FEW_DESCRIPTORS else None
    server = Server(folder / "data", "--config", configuration, descriptors=descriptors).start()
    cases.setup(Client(server.port))
    before = resident_mb(server.process.pid)
    peak = Peak(server.process.pid)
    command = [sys.executable, HERE / "healthy.py", str(server.port), HEALTHY]
    healthy = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    began = time.monotonic()
    came_to = abuse(server.port)
    seconds = time.monotonic() - began
    time.sleep(max(1.0, 5 - seconds))
    out, _ = healthy.communicate(timeout=300)
    result = json.loads(out)
    result |= {"before": before, "peak": peak.stop(), "after": resident_mb(server.process.pid)}
    result |= {"seconds": seconds, "outcome": came_to, "name": name}
    # A clean end is measured apart, by `measure_stop`.
    server.kill()
    return result


def measure_stop(folder):
    """Seconds from SIGTERM to the end of the process while requests compute."""
    configuration = folder / "cassandra.yaml"
    configuration.write_text(CONFIGURATION)
    server = Server(folder / "data", "--config", configuration, "--stop-timeout", f"{STOP_SECONDS}s").start()
    cases.setup(Client(server.port))
    cases.logarithms(server.port)
    held = cases.busy(server.port)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    code = server.process.wait(timeout=120)
    del held
    return time.monotonic() - began, code


def main():
    words = sys.argv[1:]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The abuser needs more descriptors than the server has.
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    print(f"{platform.machine()}, {os.cpu_count()} processors, descriptors {soft}/{hard}")
    print(f"{'case':42} {'p50':>7} {'p99':>8} {'max':>8} {'failed':>6} {'MB before':>9} {'peak':>6} {'after':>6}  abuser")
    failed = []
    for name, abuse in cases.CASES.items():
        if words and not any(word in name for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            result = measure(name, abuse, Path(folder))
        line = "{name:42} {p50:7.2f} {p99:8.2f} {max:8.1f} {failures:6} {before:9.0f} {peak:6.0f} {after:6.0f}"
        print(f"{line.format(**result)}  {result['outcome']} ({result['seconds']:.1f} s)", flush=True)
        bound = result["before"] + LIMIT_MB + SLACK_MB
        if result["p99"] >= P99_MS or result["failures"] or result["peak"] > bound:
            failed.append(name)
    if not words or any(word in "SIGTERM" for word in words):
        with tempfile.TemporaryDirectory() as folder:
            seconds, code = measure_stop(Path(folder))
        print(f"SIGTERM while requests compute: ended after {seconds:.1f} s with {code} (stop timeout {STOP_SECONDS} s)")
        if seconds > STOP_SECONDS + 2 or code:
            failed.append("SIGTERM")
    if failed:
        sys.exit(f"missed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
