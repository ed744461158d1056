"""The documents, as a reader follows them: their commands in order, on free ports, with the output that they show.

A fenced block is run according to its first words: `sh` by a shell, `sh server` as the server, `sh background` as another
process that the page stops later, `sh kill` and `sh stop` as a signal to the server, `cql` and `sql` by `cassette cql` (`cql fails`
if it must), `python` by Python. A `text` block is the output of the block before it, where `…` stands for anything. The
targets of `sh make` are compared with the Makefile. `rust` and `toml` blocks are tested by the crates that they belong to,
and `console` blocks need another machine. `crates/cli/tests/code_blocks.rs` checks that a test covers every block.
"""

import os
import re
import select
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cassandra.auth import PlainTextAuthProvider
from conftest import connect
from server import BINARY, READY_SECONDS, ROOT, Server, free_port

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def blocks(page):
    """(line, info, text) of each fenced block."""
    found, opened = [], None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if opened is None:
            if line.startswith("```"):
                opened = (number, line[3:].strip(), [])
        elif line == "```":
            found.append((opened[0], opened[1], "\n".join(opened[2])))
            opened = None
        else:
            opened[2].append(line)
    assert opened is None, f"the block of line {opened[0]} has no end"
    return found


def normalized(text):
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def matches(expected, actual):
    """Whether `actual` is `expected`, where `…` stands for anything."""
    pattern = "(?s:.*)".join(re.escape(part) for part in normalized(expected).split("…"))
    return re.fullmatch(pattern, normalized(actual)) is not None


class Reader:
    """Enters what a page shows. `nodes` are the addresses of the page's cluster: they lead to the server."""

    def __init__(self, directory, nodes=(), locks=()):
        self.directory = directory
        self.nodes = nodes
        self.locks = {address: f"127.0.0.1:{free_port()}" for address in locks}
        self.admin = free_port()
        self.server = None
        self.background = []
        commands = directory / "bin"
        commands.mkdir()
        # The reader's server has the default ports, this one has not.
        (commands / "cassette").write_text(
            "#!/bin/sh\n"
            f'if [ "$1" = nodetool ]; then shift; set -- nodetool -p {self.admin} "$@"; fi\n'
            f'exec "{BINARY}" "$@"\n'
        )
        (commands / "cassette").chmod(0o755)
        self.environment = os.environ | {"PATH": f"{commands}:{os.environ['PATH']}"}

    def serve(self, data, *options):
        data = (self.directory / data).resolve()
        if self.server is None or self.server.data != data:
            self.server = Server(data, "--admin", f"127.0.0.1:{self.admin}", *options)
        self.server.start()

    def with_addresses(self, text):
        for address in self.nodes:
            text = text.replace(address, f"127.0.0.1:{self.server.port}")
        for address, here in self.locks.items():
            text = text.replace(address, here)
        return text.replace("127.0.0.1:7199", f"127.0.0.1:{self.admin}")

    def run(self, command, text, may_fail=False):
        ended = subprocess.run(
            [str(part) for part in command],
            cwd=self.directory,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (ended.returncode == 0) != may_fail, ended.stdout + ended.stderr
        return ended.stdout + (ended.stderr if may_fail else "")

    def start_in_background(self, text):
        process = subprocess.Popen(
            ["bash", "-euc", f"exec {self.with_addresses(text)}"],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.background.append(process)
        readable, _, _ = select.select([process.stdout], [], [], READY_SECONDS)
        line = process.stdout.readline() if readable else ""
        assert line, f"not ready within {READY_SECONDS} s, or ended: {process.poll()}"

    def enter(self, info, text):
        match info.split():
            case ["sh", "make"]:
                for line in text.splitlines():
                    make, *targets = line.split()
                    assert make == "make" and targets and TARGETS.issuperset(targets), line
                return ""
            case ["sh", "server"]:
                program, serve, option, data, *rest = shlex.split(text)
                assert Path(program).name == "cassette" and (serve, option) == ("serve", "--data"), text
                # The default; the test has a free port instead.
                assert rest in ([], ["--listen", "127.0.0.1:9042"]), text
                self.serve(data)
                return ""
            case ["sh", "background"]:
                self.start_in_background(text)
                return ""
            case ["sh", "kill"]:
                assert text == "pkill -9 -f 'cassette serve'"
                self.server.kill()
                return ""
            case ["sh", "stop"]:
                assert text == "pkill -f 'cassette serve'"
                self.server.stop()
                return ""
            case ["sh"]:
                return self.run(["bash", "-euo", "pipefail"], self.with_addresses(text))
            case ["cql" | "sql", *fails]:
                shell = [BINARY, "cql", f"127.0.0.1:{self.server.port}", "--no-color"]
                return self.run(shell, text, may_fail=fails == ["fails"])
            case ["python"]:
                here = f'Cluster(["127.0.0.1"], port={self.server.port})'
                return self.run([sys.executable, "-"], text.replace('Cluster(["127.0.0.1"])', here))
            case ["rust" | "rust,no_run" | "toml" | "yaml" | "console"]:
                return ""
        raise AssertionError(f"a block of kind {info!r}")

    def follow(self, page):
        shown = ""
        for line, info, text in blocks(page):
            where = f"{page.name}:{line}"
            if info == "text":
                assert matches(text, shown), f"{where}: expected\n{text}\nfound\n{shown}"
            else:
                try:
                    shown = self.enter(info, text)
                except AssertionError as error:
                    raise AssertionError(f"{where}: {error}") from error

    def end(self):
        for process in self.background:
            process.kill()
            process.wait()
        if self.server and self.server.process and self.server.process.poll() is None:
            self.server.kill()


@pytest.fixture
def reader(tmp_path):
    readers = []

    def make(**addresses):
        readers.append(Reader(tmp_path, **addresses))
        return readers[-1]

    yield make
    for one in readers:
        one.end()


own_server = pytest.mark.skipif("CASSETTE_CONTACT" in os.environ, reason="the page starts its own server")


@own_server
def test_the_tutorial_works_as_shown(reader):
    reader().follow(ROOT / "docs" / "tutorial.md")


@own_server
def test_the_quick_start_of_the_front_page_works_as_shown(reader):
    reader().follow(ROOT / "README.md")


@own_server
def test_the_page_of_backups_works_as_shown(reader):
    reader().follow(ROOT / "docs" / "backup.md")


@own_server
def test_the_commands_of_the_page_of_operations_work_as_shown(reader, tmp_path):
    one = reader(nodes=["10.0.0.1:9042", "10.0.0.2:9042"], locks=["10.0.0.5:8421", "10.0.0.6:8421"])
    # As the page requires it of nodes that store transactions.
    (tmp_path / "cassandra.yaml").write_text("commitlog_sync: batch\n")
    one.serve("data", "--config", tmp_path / "cassandra.yaml")
    one.follow(ROOT / "docs" / "operations.md")
    stopped, standby = one.background
    assert stopped.wait(timeout=60) == 0, "the last command of the page stops it"
    assert standby.poll() is None


@own_server
def test_the_page_of_change_data_capture_works_as_shown(reader, tmp_path):
    page = ROOT / "docs" / "cdc.md"
    (settings,) = (text for _, info, text in blocks(page) if info == "yaml")
    (tmp_path / "cassandra.yaml").write_text(settings + "\n")
    one = reader()
    one.serve("data", "--config", tmp_path / "cassandra.yaml")
    one.follow(page)


@own_server
def test_the_statements_of_the_page_of_security_are_valid(tmp_path):
    (tmp_path / "cassandra.yaml").write_text(
        "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\ndynamic_data_masking_enabled: true\n"
    )
    server = Server(tmp_path / "data", "--admin", "off", "--config", tmp_path / "cassandra.yaml").start()
    texts = [text for _, info, text in blocks(ROOT / "docs" / "security.md") if info == "sql"]
    assert texts
    try:
        provider = PlainTextAuthProvider("cassandra", "cassandra")
        with connect("127.0.0.1", server.port, auth_provider=provider) as cluster:
            session = cluster.connect()
            session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
            session.set_keyspace("k")
            session.execute("CREATE ROLE auditor")
            session.execute("CREATE ROLE support")
            for statement in filter(str.strip, ";".join(texts).split(";")):
                session.execute(statement)
    finally:
        server.stop()


@own_server
def test_the_statements_of_the_page_of_testing_work_as_shown(reader):
    one = reader()
    # Three nodes share a port.
    options = ["--fault-injection", "--nodes", "3", "--in-memory", "--seed", "7"]
    one.server = Server(one.directory / "data", "--admin", "off", *options)
    one.server.start()
    shown = ""
    for line, info, text in blocks(ROOT / "docs" / "testing.md"):
        if info == "text":
            assert matches(text, shown), f"testing.md:{line}: expected\n{text}\nfound\n{shown}"
        elif info.startswith("cql"):
            shown = one.enter(info, text)


@own_server
def test_the_statements_of_the_page_of_vector_search_are_valid(tmp_path):
    server = Server(tmp_path / "data").start()
    session = connect("127.0.0.1", server.port).connect()
    session.execute("CREATE KEYSPACE d WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.set_keyspace("d")
    texts = [text for _, info, text in blocks(ROOT / "docs" / "vector-search.md") if info == "sql"]
    statements = [s for text in texts for s in text.split(";") if s.strip()]
    assert len(statements) > 3
    for statement in statements:
        if "?" in statement:
            vector = [0.5] * 384
            session.execute(session.prepare(statement), (vector, vector))
        else:
            session.execute(statement)
    server.stop()


@own_server
def test_the_statements_of_the_page_of_functions_work_as_shown(tmp_path):
    page = blocks(ROOT / "docs" / "functions.md")
    (settings,) = (text for _, info, text in page if info == "yaml")
    authorization = "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n"
    (tmp_path / "cassandra.yaml").write_text(authorization + settings + "\n")
    server = Server(tmp_path / "data", "--admin", "off", "--config", tmp_path / "cassandra.yaml").start()
    try:
        provider = PlainTextAuthProvider("cassandra", "cassandra")
        with connect("127.0.0.1", server.port, auth_provider=provider) as cluster:
            session = cluster.connect()
            session.execute("CREATE ROLE reader")
            session.execute(
                "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
            session.set_keyspace("shop")
            shown = []
            for text in (text for _, info, text in page if info == "sql"):
                for statement in filter(str.strip, text.split(";")):
                    rows = session.execute(statement)
                    if statement.strip().startswith("SELECT"):
                        shown.append([tuple(row) for row in rows])
            assert shown == [[(1, "Tea", True), (2, "Cake", False)], [("cake",)]]
    finally:
        server.stop()
