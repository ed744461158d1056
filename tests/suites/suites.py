"""The suites: how each is fetched, executed, and what its output says of each test."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

from servers import ADDRESS, ROOT

CACHE = ROOT / ".cache/suites"
RELEASE = "5.0.8"

GOCQL = "github.com/apache/cassandra-gocql-driver/v2"
GOCQL_VERSION = "v2.1.2"

PYTHON_DRIVER = "https://github.com/apache/cassandra-python-driver"
PYTHON_DRIVER_COMMIT = "6f229a71f38e94f8e1ace9c25d6f753cc987d000"
PYTHON_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
#: They start nodes with other settings or need other products.
PYTHON_LEFT_OUT = [
    "column_encryption", "test_authentication.py", "test_authentication_misconfiguration.py", "test_custom_cluster.py",
    "test_dse.py", "test_single_interface.py",
]


@dataclasses.dataclass
class Outcome:
    """What became of a test: `passed`, `failed` or `skipped`, with its output."""

    result: str
    output: str = ""


def copied_whole(source, target):
    """Copies a directory, whose copy can be written. After an interruption there is no copy."""
    partial = target.with_name(f"{target.name}.partial")
    if partial.exists():
        shutil.rmtree(partial)
    shutil.copytree(source, partial, copy_function=shutil.copyfile)
    # Directories of Go's module cache are read-only.
    for directory in [partial, *(path for path in partial.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)
    partial.rename(target)


class Gocql:
    """Tests of gocql with one of its build tags, from Go's module proxy."""

    def __init__(self, tag):
        self.name = f"gocql {GOCQL_VERSION}, `{tag}`, protocol v5 with LZ4"
        self.tag = tag
        self.source = CACHE / f"gocql-{GOCQL_VERSION}"
        self.binary = CACHE / f"gocql-{GOCQL_VERSION}.{tag}"

    def fetch(self):
        if not self.source.exists():
            download = ["go", "mod", "download", "-json", f"{GOCQL}@{GOCQL_VERSION}"]
            found = json.loads(subprocess.run(download, cwd="/", check=True, capture_output=True, text=True).stdout)
            copied_whole(found["Dir"], self.source)
        if not self.binary.exists():
            build = ["go", "test", "-c", "-tags", f"{self.tag} gocql_debug", "-o", self.binary, "."]
            subprocess.run(list(map(str, build)), cwd=self.source, check=True)

    def run(self):
        flags = ["-test.v", "-test.timeout=15m", "-gocql.timeout=10s", "-rf=1", "-proto=5", "-clusterSize=1"]
        flags += ["-autowait=1000ms", f"-gocql.cversion={RELEASE}", f"-cluster={ADDRESS[0]}", "-compressor=lz4"]
        ran = subprocess.run([self.binary, *flags], cwd=self.source, capture_output=True, text=True, check=False)
        return parse_go(ran.stdout + ran.stderr)


def parse_go(text):
    """Returns the outcomes in the output of `go test -v`. A subtest has its name after that of its test."""
    outcomes, output, current = {}, {}, ""
    for line in text.splitlines():
        if started := re.match(r"=== (?:RUN|CONT|NAME)\s+(\S+)", line):
            current = started[1]
        elif ended := re.match(r"\s*--- (PASS|FAIL|SKIP): (\S+)", line):
            current = ended[2]
            outcomes[current] = Outcome({"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}[ended[1]])
        else:
            output.setdefault(current, []).append(line)
    for name, lines in output.items():
        # Without an end: the run was cut off within it.
        if name:
            outcomes.setdefault(name, Outcome("failed")).output = "\n".join(lines)
    return outcomes


class PythonDriver:
    """A directory of integration tests of the Python driver, with the released driver."""

    def __init__(self, directory):
        self.name = f"Python driver, `{directory}`"
        self.directory = directory
        given = os.environ.get("PYTHON_DRIVER")
        self.given = Path(given) if given else None
        self.source = CACHE / "python-driver"
        self.tests = self.source / "tests"
        self.python = CACHE / "venv/bin/python"

    def fetch(self):
        if not self.tests.exists():
            checkout = self.given or self.cloned()
            copied_whole(checkout / "tests", self.tests)
        # Without its own fork of ccm, the module does not define a name that it uses.
        module = self.tests / "integration/__init__.py"
        before, after = "    CCMClusterFactory = None\n", "    CCMCluster, CCMClusterFactory = object, None\n"
        module.write_text(module.read_text().replace(before, after))
        installed = CACHE / "venv/installed"
        if not installed.exists():
            subprocess.run([sys.executable, "-m", "venv", str(CACHE / "venv")], check=True)
            install = ["-m", "pip", "install", "--quiet", "--requirement", str(PYTHON_REQUIREMENTS)]
            subprocess.run([self.python, *install], check=True)
            installed.touch()

    def cloned(self):
        """Returns a checkout of the pinned commit."""
        checkout = CACHE / "python-driver.git"
        git = ["git", "-C", str(checkout)]
        subprocess.run(["git", "init", "--quiet", str(checkout)], check=True)
        subprocess.run([*git, "fetch", "--quiet", "--depth=1", PYTHON_DRIVER, PYTHON_DRIVER_COMMIT], check=True)
        subprocess.run([*git, "checkout", "--quiet", "FETCH_HEAD"], check=True)
        return checkout

    def run(self):
        report = CACHE / f"{self.directory.replace('/', '-')}.xml"
        report.unlink(missing_ok=True)
        environment = os.environ | {
            "CASSANDRA_VERSION": RELEASE,
            "CLUSTER_IP": ADDRESS[0],
            "PYTHONPATH": ".",
            "USE_CASS_EXTERNAL": "1",
        }
        command = [self.python, "-m", "pytest", "-q", "--timeout=90", "--continue-on-collection-errors"]
        command += [f"--junitxml={report}"]
        command += [f"--ignore-glob=*{left_out}*" for left_out in PYTHON_LEFT_OUT]
        command += [f"tests/integration/{self.directory}"]
        # Failures are in the report.
        ran = subprocess.run(command, cwd=self.source, env=environment, capture_output=True, text=True, check=False)
        if not report.exists():
            sys.exit(f"{self.name} did not run:\n{(ran.stdout + ran.stderr)[-2000:]}")
        return parse_junit(report)


def parse_junit(report):
    outcomes = {}
    for test in xml.parse(report).iter("testcase"):
        outcome = Outcome("passed")
        for part in test:
            if part.tag in ("failure", "error"):
                outcome = Outcome("failed", part.text or part.get("message", ""))
            elif part.tag == "skipped" and outcome.result == "passed":
                outcome = Outcome("skipped")
        name = f"{test.get('classname')}::{test.get('name')}"
        # An error of the teardown is a second entry.
        if name not in outcomes or outcome.result == "failed":
            outcomes[name] = outcome
    return outcomes


SUITES = {
    "gocql": Gocql("cassandra"),
    "gocql-integration": Gocql("integration"),
    "cqlengine": PythonDriver("cqlengine"),
    "python": PythonDriver("standard"),
}
