"""A `cassette serve` process for tests: started on a free port, killed, started again."""

import os
import random
import re
import resource
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("CASSETTE_BINARY", ROOT / "target" / "debug" / "cassette"))
READY_SECONDS = 60
#: Below the ports of outgoing connections, which would take a free port before its server starts.
SERVER_PORTS = range(10_000, 30_000)


def free_port():
    while True:
        port = random.choice(SERVER_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Server:
    """One server over one data directory. `port` stays the same over restarts.

    `descriptors`: its limit of open files, where it is not the test's.
    `command`: what starts the binary, where that is not the binary itself.
    """

    def __init__(self, data, *options, descriptors=None, command=(BINARY,)):
        self.descriptors = descriptors
        self.command = command
        self.data = Path(data)
        self.options = list(options)
        self.port = 0
        self.process = None
        self.log = open(self.data.parent / f"{self.data.name}.log", "ab")

    def start(self):
        place = [] if "--in-memory" in self.options else ["--data", self.data]
        command = [*self.command, "serve", *place, "--listen", f"127.0.0.1:{self.port}", *self.options]
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            preexec_fn=self._limit_descriptors if self.descriptors else None,
        )
        line = self._ready_line()
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)", line).group(1))
        return self

    def _limit_descriptors(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))

    def _ready_line(self):
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            readable, _, _ = select.select([self.process.stdout], [], [], 0.2)
            if readable:
                line = self.process.stdout.readline()
                if "127.0.0.1:" in line:
                    return line
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}; see {self.log.name}")
        raise AssertionError(f"the server was not ready within {READY_SECONDS} s; see {self.log.name}")

    def kill(self):
        """As by `kill -9`: nothing is flushed or said goodbye to."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """As by an operator: SIGTERM, and a clean end."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(timeout=60) == 0
