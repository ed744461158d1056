"""The two servers, in turn on 127.0.0.1:9042, where the suites of drivers expect one."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "clients"))
os.environ.setdefault("CASSETTE_BINARY", str(ROOT / "target" / "release" / "cassette"))

from server import BINARY, Server  # noqa: E402

ADDRESS = ("127.0.0.1", 9042)
SETTINGS = {
    "materialized_views_enabled": "true",
    "sasi_indexes_enabled": "true",
    "user_defined_functions_enabled": "true",
}


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
    place = ["--network", ADDRESS[0].rpartition(".")[0], "--port", ADDRESS[1], "--heap", "2G"]
    start = ["lab", "cassandra", "start", *cluster, *place, *settings]
    subprocess.run([BINARY, *map(str, start)], check=True, stdout=sys.stderr)
    try:
        yield
    finally:
        stop = ["lab", "cassandra", "stop", *cluster]
        subprocess.run([BINARY, *map(str, stop)], check=False, stdout=sys.stderr)


@contextlib.contextmanager
def cassette():
    require_free_port()
    with tempfile.TemporaryDirectory() as directory:
        settings = Path(directory) / "cassette.yaml"
        settings.write_text("".join(f"{name}: {value}\n" for name, value in SETTINGS.items()))
        server = Server(Path(directory) / "data", "--config", settings, "--admin", "off")
        server.port = ADDRESS[1]
        server.start()
        try:
            yield
        finally:
            server.stop()
