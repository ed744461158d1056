"""The server as a container or service runs it: no privileges, a read-only root, its data alone."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from cassandra.auth import PlainTextAuthProvider
from conftest import connect
from server import BINARY, ROOT, Server

USER = 65532


@pytest.fixture
def folder():
    """A directory that other users can reach, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="cassette-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_server_works_without_privileges_and_writes_to_its_data_directory_alone(folder):
    data = folder / "data"
    data.mkdir(mode=0o700)
    os.chown(data, USER, USER)
    binary = shutil.copy(BINARY, folder / "cassette")
    password = folder / "password"
    password.write_text("correct horse\n")
    os.chown(password, USER, USER)
    password.chmod(0o400)
    configuration = shutil.copy(ROOT / "packaging" / "container" / "cassandra.yaml", folder)
    # What `docker run --read-only --cap-drop ALL --security-opt no-new-privileges` does.
    confined = (
        f"mount --bind {data} {data} && mount -o remount,bind,ro / && exec setpriv --reuid {USER} --regid {USER} "
        f'--clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all {binary} "$@"'
    )
    options = ["--config", configuration, "--superuser-password-file", password, "--admin", "127.0.0.1:0"]
    command = ["unshare", "--mount", "sh", "-c", confined, "sh"]
    server = Server(data, *options, command=command).start()
    try:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        assert f"Uid:\t{USER}\t{USER}" in status
        assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status
        provider = PlainTextAuthProvider("cassandra", "correct horse")
        with connect("127.0.0.1", server.port, auth_provider=provider) as cluster:
            session = cluster.connect()
            session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
            session.execute("CREATE TABLE k.t (k int PRIMARY KEY)")
            session.execute("INSERT INTO k.t (k) VALUES (1)")
            assert session.execute("SELECT k FROM k.t").one() == (1,)
    finally:
        server.stop()
    modes = {oct(path.stat().st_mode & 0o077) for path in data.rglob("*")}
    assert modes == {"0o0"}, "nobody else can read the files"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_service_is_confined():
    unit = ROOT / "packaging" / "systemd" / "cassette.service"
    # The threshold is in tenths: 0 is fully confined, 100 is not at all.
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", unit]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
