#!/usr/bin/env python3
"""What the laboratory says where the truth is known: the same configuration twice, and one that does a tenth more.

Each of RUNS experiments measures one configuration under two names; the laboratory must say of nearly all of them that
no difference is shown. Then operations of ten reads are compared with operations of eleven: what an operation costs
differs by a tenth, by construction. The laboratory predicts from one experiment of PILOT repeats how many repeats find
that, and FOUND_RUNS experiments of so many (REPEATS_MAX at most) are counted by whether they do.

    RUNS=100 REPEATS=5 SECONDS_OF_RUN=0.5 PILOT=20 FOUND_RUNS=25 REPEATS_MAX=60 ENGINE=embedded benches/same_twice.py

CASSETTE_BINARY is the program, target/release/cassette otherwise; what is measured goes to bench-results/same-twice.
"""

import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("CASSETTE_BINARY", ROOT / "target/release/cassette")
RESULTS = pathlib.Path(os.environ.get("RESULTS", ROOT / "bench-results")) / "same-twice"
ENGINE = os.environ.get("ENGINE", "embedded")
SECONDS = float(os.environ.get("SECONDS_OF_RUN", "0.5"))


def number(name, default):
    return int(os.environ.get(name, default))


# An operation reads so many records by key, one after the other; loads and runs have the same name, so that they are compared.
READS = """
[[engine]]
name = "{name}"
kind = "{kind}"
[[workload]]
name = "{name}"
properties = {{ recordcount = 2000, requestdistribution = "uniform" }}
schema = ["CREATE KEYSPACE IF NOT EXISTS lab WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}", "CREATE TABLE lab.cells (id int PRIMARY KEY, value text)"]
drop = ["DROP TABLE IF EXISTS lab.cells"]
[workload.values]
id = {{ type = "int", from = "number" }}
value = {{ type = "text", length = 100 }}
[workload.insert]
cql = "INSERT INTO lab.cells (id, value) VALUES (:id, :value)"
[[workload.operation]]
name = "reads"
steps = [{steps}]
[[phase]]
name = "load"
engines = ["{name}"]
load = "{name}"
[[phase]]
name = "run"
engines = ["{name}"]
run = "{name}"
seconds = {seconds}
"""
STEP = '{ cql = "SELECT value FROM lab.cells WHERE id = :id", expect = "rows" }'

CORE = """
[[engine]]
kind = "{kind}"
[[configuration]]
name = "one"
[[configuration]]
name = "the same again"
[[workload]]
name = "b"
ycsb = "b"
properties = {{ recordcount = 5000 }}
[[phase]]
load = "b"
[[phase]]
run = "b"
seconds = {seconds}
"""


def reads(name, count):
    return READS.format(name=name, kind=ENGINE, seconds=SECONDS, steps=", ".join([STEP] * count))


def experiment(name, repeats, seed, text):
    """Runs an experiment through the program; gives what it says."""
    kept = RESULTS / name
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    path = kept / "experiment.toml"
    path.write_text(f'name = "{name}"\nrepeats = {repeats}\nseed = {seed}\n{text}')
    done = subprocess.run([BINARY, "lab", "run", path, "--results", kept], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    (report,) = kept.glob("*/report.json")
    analysis = json.loads(report.read_text())["analysis"]
    for whole in report.parent.glob("report.*"):
        whole.unlink()
    return analysis


def comparisons(analysis):
    for phase in analysis["phases"]:
        for metric in phase["metrics"]:
            for comparison in filter(None, metric["comparisons"]):
                yield phase["name"], metric, comparison


def same_twice(runs):
    differ, by_figure, by_itself, noises, blocks = 0, {}, 0, [], []
    for run in range(1, runs + 1):
        analysis = experiment(f"same-{run}", number("REPEATS", 5), run, CORE.format(kind=ENGINE, seconds=SECONDS))
        found = [verdict for verdict in analysis["verdicts"] if "no difference shown" not in verdict]
        differ += bool(found)
        for verdict in found:
            print(f"  {run}: {verdict}", flush=True)
        figures = set()
        for phase, metric, comparison in comparisons(analysis):
            if comparison["p_corrected"] < 0.05:
                figures.add(metric["name"].split(" ")[-1])
            if metric["name"] == "throughput" and phase.startswith("run"):
                noises.append(comparison["noise"])
                by_itself += comparison["p"] < 0.05
        for figure in figures:
            by_figure[figure] = by_figure.get(figure, 0) + 1
    print(f"the same twice: no difference shown in {runs - differ} of {runs} experiments")
    print(f"  of one phase's throughput by itself, p < 0.05 in {by_itself}")
    print(f"  any difference by figure, in so many experiments: {by_figure}")
    print(f"  noise of a run's throughput: median {statistics.median(noises):.1%}, {min(noises):.1%} to {max(noises):.1%}")
    return runs - differ


def a_tenth_more(runs):
    pilot = experiment("pilot", number("PILOT", 20), 1, reads("ten", 10) + reads("ten-again", 10))
    (verdict,) = [verdict for verdict in pilot["verdicts"] if verdict.startswith("run:")]
    print(f"  pilot: {verdict}", flush=True)
    predicted = re.search(r"would need (\d+) repeats", verdict)
    if not predicted:
        sys.exit("the pilot found a difference that is none: run it again")
    repeats = min(int(predicted[1]), number("REPEATS_MAX", 60))
    found, ratios = 0, []
    for run in range(1, runs + 1):
        analysis = experiment(f"tenth-{run}", repeats, run, reads("ten", 10) + reads("eleven", 11))
        (comparison,) = [
            comparison
            for phase, metric, comparison in comparisons(analysis)
            if phase == "run" and metric["name"] == "throughput"
        ]
        ratios.append(comparison["ratio"])
        found += comparison["p_corrected"] < 0.05 and comparison["ratio"] < 1
    print(f"a tenth more: predicted {predicted[1]} repeats; with {repeats}, found in {found} of {runs} experiments")
    print(f"  ratio of throughputs: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}; 10/11 is 0.909")


def main():
    if runs := number("RUNS", 100):
        same_twice(runs)
    if runs := number("FOUND_RUNS", 25):
        a_tenth_more(runs)


if __name__ == "__main__":
    main()
