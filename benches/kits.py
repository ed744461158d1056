#!/usr/bin/env python3
"""How long the test kits need from their start to a server and to the first query.

    benches/kits.py BINARY [--rounds 20] [--only python,go,node,jvm]

Each round starts a new process for each kit. Prints medians and ranges, in milliseconds: until
clients can connect, until a query by the shell of the binary has ended, until one by the driver has
ended, all since the call of the kit; and the whole process with its interpreter, the first two
queries and the end of the server. Downloads the drivers to .cache/kits at the first run.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "benches" / "kits"
BUILT = ROOT / ".cache" / "kits" / "benches"


def prepare(*command, cwd=None):
    subprocess.run([str(part) for part in command], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def python():
    environment = BUILT / "python"
    if not environment.exists():
        prepare(sys.executable, "-m", "venv", environment)
        prepare(environment / "bin" / "pip", "install", "--quiet", "cassandra-driver")
    prepare(environment / "bin" / "pip", "install", "--quiet", "--no-deps", "--force-reinstall", ROOT / "kits" / "python")
    return [environment / "bin" / "python", HERE / "start.py"]


def go():
    prepare("go", "build", "-o", BUILT / "go-start", ".", cwd=HERE / "go")
    return [BUILT / "go-start"]


def node():
    project = BUILT / "node"
    if not project.exists():
        project.mkdir(parents=True)
        (project / "package.json").write_text('{"private": true}')
        prepare("npm", "install", "--silent", "cassandra-driver", ROOT / "kits" / "node", cwd=project)
    shutil.copy(HERE / "start.cjs", project)
    return ["node", project / "start.cjs"]


def jvm():
    project = BUILT / "jvm"
    shutil.copytree(ROOT / "kits" / "jvm", project, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target"))
    if not (project / "lib").exists():
        prepare("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", cwd=project)
    prepare("mvn", "-q", "-B", "-DskipTests", "package", cwd=project)
    classpath = f"{project}/target/classes:{project}/lib/*:{project}/bench"
    prepare("javac", "-cp", classpath, "-d", project / "bench", HERE / "Start.java")
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", classpath, "Start"]


KITS = {"python": python, "go": go, "node": node, "jvm": jvm}


def measure(command, binary):
    environment = os.environ | {"CASSETTE_BINARY": str(binary)}
    began = time.perf_counter()
    ended = subprocess.run([str(part) for part in command], env=environment, check=True, capture_output=True, text=True)
    whole = (time.perf_counter() - began) * 1000
    return [*map(float, ended.stdout.split()), whole]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(KITS))
    options = parser.parse_args()
    BUILT.mkdir(parents=True, exist_ok=True)
    commands = {kit: KITS[kit]() for kit in options.only}
    results = {kit: [] for kit in commands}
    for _ in range(options.rounds):
        for kit, command in commands.items():
            results[kit].append(measure(command, options.binary.absolute()))
    print(f"{'':8}{'ready':>22}{'query by shell':>22}{'query by driver':>22}{'whole process':>22}")
    for kit, rounds in results.items():
        cells = (f"{statistics.median(c):.0f} ({min(c):.0f} to {max(c):.0f})" for c in zip(*rounds, strict=True))
        print(f"{kit:8}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
