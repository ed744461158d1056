"""A server for tests: a process that ends with this one."""

from __future__ import annotations

import json
import os
import re
import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from cassette._binary import find_binary
from cassette._faults import Faults
from cassette._nodes import Nodes

#: The line that the server prints when clients can connect.
_READY = re.compile(rb"listens for CQL on (\S+):(\d+)")
#: Lets UUIDs and times of a server with a seed start again.
_RESET_CLOCK = "TRUNCATE system_testing.cassette_clock;"
#: After the end of its input, the server waits 10 s for requests, and 2 s for files.
_STOP_SECONDS = 15.0


class ServerError(RuntimeError):
    """The server did not start, or ended. The message contains its log."""


class StatementError(RuntimeError):
    """A statement failed. The message is that of the shell."""


class Server:
    """A server on a free port of 127.0.0.1, with its data in a temporary directory.

    The server ends with this process, however that ends, and removes its data then.

    data: a directory to keep the data in, instead of a temporary one.
    in_memory: whether to keep all files in memory, instead of a temporary directory.
    config: a configuration file with keys of cassandra.yaml.
    fault_injection: whether `faults` can be added.
    nodes: a number of virtual nodes, or their places, as in `--nodes`.
    seed: a number that makes UUIDs and times the same in each run, and after each `truncate`.
    arguments: further arguments of `cassette serve`.
    binary: the binary to start, instead of the one that `find_binary` finds.
    ready_seconds: how long to wait for the server.
    """

    def __init__(
        self,
        *,
        data: str | os.PathLike[str] | None = None,
        in_memory: bool = False,
        config: str | os.PathLike[str] | None = None,
        fault_injection: bool = False,
        nodes: int | str | None = None,
        seed: int | None = None,
        arguments: Sequence[str] = (),
        binary: str | os.PathLike[str] | None = None,
        ready_seconds: float = 30.0,
    ) -> None:
        self._binary = Path(binary) if binary is not None else find_binary()
        if data is not None and in_memory:
            raise ValueError("expected data or in_memory, found both")
        if in_memory:
            self._arguments = ["--in-memory"]
        else:
            self._arguments = ["--temporary"] if data is None else ["--data", os.fspath(data)]
        if config is not None:
            self._arguments += ["--config", os.fspath(config)]
        if fault_injection:
            self._arguments.append("--fault-injection")
        if nodes is not None:
            self._arguments += ["--nodes", str(nodes)]
        if seed is not None:
            self._arguments += ["--seed", str(seed)]
        self._has_seed = seed is not None
        self._arguments += arguments
        #: The rules of injected faults, with `fault_injection`.
        self.faults = Faults(self.execute)
        #: The virtual nodes, with `nodes`.
        self.nodes = Nodes(self.execute)
        self._ready_seconds = ready_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._ended_log = ""
        self._address: tuple[str, int] | None = None

    def start(self) -> Server:
        """Starts the server, and returns when clients can connect.

        Raises ServerError if it does not start.
        """
        if self._process is not None:
            raise ServerError("the server was started already")
        # A file, so that the server never waits for a reader.
        self._log = tempfile.TemporaryFile()
        command = [os.fspath(self._binary), "serve", "--listen", "127.0.0.1:0", "--admin", "off"]
        self._process = subprocess.Popen(
            [*command, "--stop-with-stdin", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        try:
            self._address = self._wait_until_ready(self._process)
            threading.Thread(target=_discard, args=(self._process.stdout,), daemon=True).start()
        except BaseException:
            self._process.kill()
            self._end()
            raise
        return self

    def stop(self) -> None:
        """Stops the server and removes its temporary data. Does nothing if it does not run."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        self._end()

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def host(self) -> str:
        """The address of the server."""
        return self._running()[0]

    @property
    def port(self) -> int:
        """The port for CQL."""
        return self._running()[1]

    @property
    def pid(self) -> int:
        """The id of the process."""
        self._running()
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What the server has logged since its last start."""
        if self._log is None:
            return self._ended_log
        file = self._log.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def execute(self, statements: str, *, keyspace: str | None = None, format: str = "table") -> str:
        """Executes statements with `cassette cql`, and returns what it prints.

        format: that of rows: table, json, csv or markdown.

        Raises StatementError if one fails.
        """
        return self._shell(["--format", format, "--execute", statements], keyspace)

    def execute_file(self, path: str | os.PathLike[str], *, keyspace: str | None = None) -> str:
        """Executes the statements of a file, as `execute` does."""
        return self._shell(["--file", os.fspath(path)], keyspace)

    def truncate(self) -> None:
        """Truncates all tables of all keyspaces, except those of the system.

        With `seed`, UUIDs and times start again.
        """
        rows = self.execute("SELECT keyspace_name, table_name FROM system_schema.tables", format="json")
        tables = [json.loads(line) for line in rows.splitlines() if line]
        names = [(table["keyspace_name"], table["table_name"]) for table in tables]
        truncations = [f'TRUNCATE "{k}"."{t}";' for k, t in names if not k.startswith("system")]
        if self._has_seed:
            truncations.append(_RESET_CLOCK)
        if truncations:
            self.execute("".join(truncations))

    def _shell(self, arguments: list[str], keyspace: str | None) -> str:
        host, port = self._running()
        command = [os.fspath(self._binary), "cql", f"{host}:{port}", "--no-color", "--cqlshrc", os.devnull]
        if keyspace is not None:
            command += ["--keyspace", keyspace]
        ended = subprocess.run([*command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if ended.returncode != 0:
            raise StatementError(ended.stderr.strip() or f"cassette cql ended with {ended.returncode}")
        return ended.stdout

    def _running(self) -> tuple[str, int]:
        if self._address is None:
            raise ServerError("the server does not run: call start() first")
        return self._address

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> tuple[str, int]:
        assert process.stdout is not None
        deadline = time.monotonic() + self._ready_seconds
        printed = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                chunk = os.read(process.stdout.fileno(), 4096)
                if not chunk:
                    raise ServerError(f"the server ended with {process.wait()}:\n{self.log}")
                printed += chunk
                ready = _READY.search(printed) if b"\n" in printed else None
                if ready:
                    return ready[1].decode(), int(ready[2].decode())
        raise ServerError(f"the server was not ready within {self._ready_seconds} s:\n{self.log}")

    def _end(self) -> None:
        assert self._process is not None
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._address is None:
            assert self._process.stdout is not None
            self._process.stdout.close()
        self._process = None
        self._address = None
        self._ended_log = self.log
        if self._log is not None:
            self._log.close()
            self._log = None


def _discard(output: IO[bytes]) -> None:
    """Reads an output to its end, so that the server never waits, as with an audit log there."""
    with output:
        while output.read1(65536):  # type: ignore[attr-defined]
            pass
