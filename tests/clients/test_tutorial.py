"""The tutorial, as a reader follows it: its commands in order, on free ports, with the output that it shows.

A fenced block is run according to its first words: `sh` by a shell, `sh server` as the server, `sh kill` and `sh stop` as a
signal to it, `cql` by cqlsh (`cql fails` if it must), `python` by Python. A `text` block is the output of the block before
it, where `…` stands for anything. `rust` blocks are compiled by the documentation tests of the
library, and `console` blocks need another machine.
"""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from server import BINARY, ROOT, Server

TUTORIAL = ROOT / "docs" / "tutorial.md"
CQLSH = Path(sys.executable).parent / "cqlsh"


def blocks():
    """(line, info, text) of each fenced block."""
    found, opened = [], None
    for number, line in enumerate(TUTORIAL.read_text().splitlines(), 1):
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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def normalized(text):
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def matches(expected, actual):
    """Whether `actual` is `expected`, where `…` stands for anything."""
    pattern = "(?s:.*)".join(re.escape(part) for part in normalized(expected).split("…"))
    return re.fullmatch(pattern, normalized(actual)) is not None


class Reader:
    """Somebody who enters what the tutorial shows."""

    def __init__(self, directory):
        self.directory = directory
        self.admin = free_port()
        self.server = Server(directory / "shop-data", "--admin", f"127.0.0.1:{self.admin}")
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

    def enter(self, info, text):
        match info.split():
            case ["sh", "server"]:
                assert text == "cassette serve --data shop-data"
                self.server.start()
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
                return self.run(["bash", "-euo", "pipefail"], text.replace("127.0.0.1:7199", f"127.0.0.1:{self.admin}"))
            case ["cql", *fails]:
                cqlsh = [CQLSH, "127.0.0.1", self.server.port, "--no-color"]
                shown = self.run(cqlsh, text, may_fail=fails == ["fails"])
                # About versions of cqlsh and the server; it differs with the version of cqlsh.
                return re.sub(r"^WARNING: cqlsh was built against .*\n", "", shown)
            case ["python"]:
                here = f'Cluster(["127.0.0.1"], port={self.server.port})'
                return self.run([sys.executable, "-"], text.replace('Cluster(["127.0.0.1"])', here))
            case ["rust,no_run"] | ["console"]:
                return ""
        raise AssertionError(f"a block of kind {info!r}")


@pytest.mark.skipif("CASSETTE_CONTACT" in os.environ, reason="the tutorial starts its own server")
def test_the_tutorial_works_as_shown(tmp_path):
    reader = Reader(tmp_path)
    shown = ""
    try:
        for line, info, text in blocks():
            where = f"{TUTORIAL.name}:{line}"
            if info == "text":
                assert matches(text, shown), f"{where}: expected\n{text}\nfound\n{shown}"
            else:
                try:
                    shown = reader.enter(info, text)
                except AssertionError as error:
                    raise AssertionError(f"{where}: {error}") from error
    finally:
        if reader.server.process and reader.server.process.poll() is None:
            reader.server.kill()
