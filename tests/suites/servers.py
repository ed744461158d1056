"""The two servers, in turn on 127.0.0.1:9042, where the suites of drivers expect one."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("CASSETTE_BINARY", ROOT / "target/release/cassette"))
ADDRESS = ("127.0.0.1", 9042)
SETTINGS = {
    "materialized_views_enabled": "true",
    "sasi_indexes_enabled": "true",
    "user_defined_functions_enabled": "true",
}
READY_SECONDS = 60


def require_free_port():
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(ADDRESS)
        except OSError as error:
            sys.exit(f"{ADDRESS[0]}:{ADDRESS[1]} is in use ({error}): stop the server there")


@contextlib.contextmanager
def cassandra():
    """Apache Cassandra, which the laboratory fetches and starts."""
    require_free_port()
    cluster = ["--directory", ROOT / ".cache/suites/cluster"]
    settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    start = ["lab", "cassandra", "start", *cluster, "--network", "127.0.0", "--port", ADDRESS[1], "--heap", "2G", *settings]
    subprocess.run([BINARY, *map(str, start)], check=True, stdout=sys.stderr)
    try:
        yield
    finally:
        subprocess.run([BINARY, "lab", "cassandra", "stop", *map(str, cluster)], check=False, stdout=sys.stderr)


@contextlib.contextmanager
def cassette():
    require_free_port()
    with tempfile.TemporaryDirectory() as directory:
        settings = Path(directory) / "cassette.yaml"
        settings.write_text("".join(f"{name}: {value}\n" for name, value in SETTINGS.items()))
        listen = ["--listen", f"{ADDRESS[0]}:{ADDRESS[1]}", "--admin", "off"]
        with open(Path(directory) / "log", "wb") as log:
            command = [BINARY, "serve", "--data", Path(directory) / "data", "--config", settings, *listen]
            server = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
            try:
                await_listener(server, log.name)
                yield
            finally:
                server.terminate()
                server.wait()


def await_listener(server, log):
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit(f"cassette serve ended:\n{Path(log).read_text()}")
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(ADDRESS).close()
            return
        time.sleep(0.05)
    sys.exit(f"cassette serve does not listen after {READY_SECONDS} s")
