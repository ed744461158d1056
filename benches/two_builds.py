#!/usr/bin/env python3
"""YCSB on two builds of `cassette`, embedded and served, in turns on one machine.

    benches/two_builds.py BEFORE AFTER [--rounds 5] [--records 200000] [--operations 300000] [--only served|embedded]

BEFORE and AFTER are binaries. Each round measures both, and rounds alternate which goes first. The
client of the served runs is AFTER's. Prints, for each workload, the median of throughput with its
range, and of the processor time of an operation, which background work of the machine disturbs less.
"""

import argparse
import re
import socket
import statistics
import subprocess
import tempfile
import time

RUN = re.compile(r"^(?:run (\w)|(load)): [\d,]+ operations in [\d.]+ s, ([\d,]+) ops/s", re.M)
CPU = re.compile(r"^  (server|laboratory): ([\d.]+) µs CPU an operation", re.M)


def parse(text, who):
    """Yields (workload, operations a second, µs of processor an operation of `who`)."""
    for part in re.split(r"(?m)^(?=run \w:|load:)", text)[1:]:
        run = RUN.match(part)
        cpu = dict(CPU.findall(part)).get(who)
        yield run[1] or run[2], float(run[3].replace(",", "")), float(cpu) if cpu else None


def ycsb(binary, arguments, options):
    command = [binary, "lab", "ycsb", "--records", options.records, "--operations", options.operations]
    command += ["--workload", "a,b,c,f,d", "--no-json", *arguments]
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def embedded(binary, options):
    with tempfile.TemporaryDirectory() as data:
        return ycsb(binary, ["--engine", "embedded", "--data", data, "--threads", 1], options), "laboratory"


def served(binary, options):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    address = f"127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as data:
        command = [binary, "serve", "--data", data, "--listen", address]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                while True:
                    try:
                        socket.create_connection(("127.0.0.1", port)).close()
                        break
                    except ConnectionRefusedError:
                        time.sleep(0.05)
                arguments = ["--engine", "cql", "--contact", address, "--threads", 16]
                arguments += ["--server-pid", server.pid, "--replace"]
                return ycsb(options.after, arguments, options), "server"
            finally:
                server.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--operations", type=int, default=300_000)
    parser.add_argument("--only", choices=["served", "embedded"])
    options = parser.parse_args()
    measured = {}
    for round_number in range(options.rounds):
        builds = [("before", options.before), ("after", options.after)]
        for name, binary in builds if round_number % 2 == 0 else reversed(builds):
            for kind in (embedded, served):
                if options.only in (None, kind.__name__):
                    for workload, rate, cpu in parse(*kind(binary, options)):
                        measured.setdefault((kind.__name__, workload), {}).setdefault(name, []).append((rate, cpu))
    print("                 ops/s: median (min-max)                                   µs CPU an operation: median")
    for (kind, workload), builds in measured.items():
        rates = {name: [rate for rate, _ in runs] for name, runs in builds.items()}
        medians = {name: statistics.median(values) for name, values in rates.items()}
        ranges = {name: f"{medians[name]:>9,.0f} ({min(v):,.0f}-{max(v):,.0f})" for name, v in rates.items()}
        cpu = {name: [cpu for _, cpu in runs if cpu is not None] for name, runs in builds.items()}
        cpu = {name: statistics.median(values) if values else float("nan") for name, values in cpu.items()}
        print(
            f"{kind:8} {workload:5} {ranges['before']:>28} -> {ranges['after']:>28} "
            f"{medians['after'] / medians['before'] - 1:+7.1%}   {cpu['before']:6.2f} -> {cpu['after']:6.2f} "
            f"{cpu['after'] / cpu['before'] - 1:+7.1%}"
        )


if __name__ == "__main__":
    main()
