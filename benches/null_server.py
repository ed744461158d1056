#!/usr/bin/env python3
"""YCSB on `cassette serve` beside a server that does nothing: the distance to what sockets allow.

    benches/null_server.py CASSETTE NULL_SERVER [--rounds 3] [--records 1000000] [--operations 500000]
                           [--in-flight 16 256]

CASSETTE and NULL_SERVER are binaries; the latter is `cargo build --release --package cassette-lab --example
null_server`. It answers each execution with a copy of the first result of its statement. Both servers have
the same client, and take turns. Prints, for each workload, the medians of throughput and of the server's
processor time of an operation, with their ranges.
"""

import argparse
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

WORKLOADS = "abcfd"
RUN = re.compile(r"^run (\w): [\d,]+ operations in [\d.]+ s, ([\d,]+) ops/s", re.M)
CPU = re.compile(r"^  server: ([\d.]+) µs CPU an operation", re.M)


def parse(text):
    """Yields (workload, operations a second, µs of the server's processor time an operation)."""
    for part in re.split(r"(?m)^(?=run \w:)", text)[1:]:
        workload, rate = RUN.match(part).groups()
        yield workload, float(rate.replace(",", "")), float(CPU.search(part)[1])



def free_address():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def started(command, address):
    """Starts a server and waits until it accepts connections."""
    server = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    host, port = address.split(":")
    while server.poll() is None:
        try:
            socket.create_connection((host, int(port))).close()
            return server
        except ConnectionRefusedError:
            time.sleep(0.05)
    sys.exit(f"{command[0]} did not start")


def spread(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def ycsb(options, address, pid, in_flight, arguments):
    command = [options.cassette, "lab", "ycsb", "--engine", "cql", "--contact", address, "--server-pid", pid]
    command += ["--threads", in_flight, "--records", options.records, "--operations", options.operations]
    command += ["--no-json", *arguments]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cassette", type=pathlib.Path)
    parser.add_argument("null_server", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--operations", type=int, default=500_000)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[16, 256])
    options = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as data:
        addresses = {"cassette": free_address(), "null": free_address()}
        real = started([options.cassette, "serve", "--data", data, "--listen", addresses["cassette"]],
                       addresses["cassette"])
        null = started([options.null_server, "--listen", addresses["null"], "--upstream",
                        addresses["cassette"]], addresses["null"])
        try:
            ycsb(options, addresses["cassette"], real.pid, 16, ["--workload", "c", "--phase", "load"])
            for round_number in range(options.rounds):
                turns = [("cassette", real), ("null", null)]
                for name, server in turns if round_number % 2 == 0 else reversed(turns):
                    for in_flight in options.in_flight:
                        arguments = ["--workload", ",".join(WORKLOADS), "--phase", "run"]
                        text = ycsb(options, addresses[name], server.pid, in_flight, arguments)
                        for workload, rate, cpu in parse(text):
                            figures.setdefault((in_flight, workload, name), []).append((rate, cpu))
                print(f"round {round_number + 1} of {options.rounds} done", file=sys.stderr)
        finally:
            for server in (null, real):
                server.terminate()
                server.wait()
    print("| in flight | workload | cassette, ops/s | null server, ops/s | share "
          "| cassette, server µs CPU/op | null server, µs CPU/op |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for in_flight in options.in_flight:
        for workload in WORKLOADS:
            rates, cpus = {}, {}
            for name in addresses:
                rates[name], cpus[name] = zip(*figures[in_flight, workload, name])
            medians = {name: statistics.median(rates[name]) for name in rates}
            print(f"| {in_flight} | {workload.upper()} | {spread(rates['cassette'], ',.0f')} "
                  f"| {spread(rates['null'], ',.0f')} | {medians['cassette'] / medians['null']:.0%} "
                  f"| {spread(cpus['cassette'], '.1f')} | {spread(cpus['null'], '.1f')} |")


if __name__ == "__main__":
    main()
