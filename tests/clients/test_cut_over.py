"""`cassette move --follow` and `--cutover` under load, with recorded histories; `cassette serve --forward`.

With CASSETTE_TARGET=127.0.0.1:port, test_no_acknowledged_write_is_lost_by_a_cut_over_under_load cuts over to that
server, such as an Apache Cassandra, whose keyspace ycsb is dropped before. CASSETTE_RATE is its operations a second.
"""

import http.client
import json
import os
import random
import shutil
import subprocess
import threading
import time

import pytest
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy

from server import BINARY, Server, free_port

KEYS = 200
WORKERS = 6
FIELDS = 10


LOGIN = PlainTextAuthProvider("cassandra", "cassandra")


def connect(port, **options):
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=30)
    return Cluster(["127.0.0.1"], port=port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, **options)


class Load:
    """YCSB A: half reads, half updates of one field, and a history of both.

    Each key has one writer, which counts upwards, so what a read may return is known: at least what was
    acknowledged before it began, at most what was begun before it ended. The server chooses the timestamps.
    """

    def __init__(self, port, rate=None, protocol=None, after=None, prefix="user"):
        self.cluster = connect(port, **({"protocol_version": protocol} if protocol else {}))
        self.session = self.cluster.connect("ycsb")
        self.session.use_client_timestamp = False
        self.update = self.session.prepare("UPDATE usertable SET field0 = ?, field1 = ? WHERE y_id = ?")
        self.read = self.session.prepare("SELECT field0, field1 FROM usertable WHERE y_id = ?")
        # A later load counts on, `after` an earlier one.
        self.begun = list(after.begun) if after else [0] * KEYS
        self.acknowledged = list(after.acknowledged) if after else [0] * KEYS
        self.rate = rate
        self.prefix = prefix
        #: (completion, latency) of each operation.
        self.completed = []
        self.failures = []
        self.violations = []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(WORKERS)]

    def start(self):
        for thread in self.threads:
            thread.start()
        return self

    def run(self, worker):
        choose = random.Random(worker)
        padding = "x" * 100
        operations, start = 0, time.monotonic()
        while not self.stopping.is_set():
            if self.rate:
                due = start + operations * WORKERS / self.rate
                time.sleep(max(0, due - time.monotonic()))
            operations += 1
            key = choose.randrange(KEYS)
            began = time.monotonic()
            try:
                if choose.random() < 0.5:
                    key = key // WORKERS * WORKERS + worker
                    if key >= KEYS:
                        continue
                    self.begun[key] += 1
                    value = self.begun[key]
                    self.session.execute(self.update, (str(value), padding, f"{self.prefix}{key}"))
                    self.acknowledged[key] = value
                else:
                    least = self.acknowledged[key]
                    rows = self.session.execute(self.read, (f"{self.prefix}{key}",)).all()
                    found = int(rows[0].field0) if rows else 0
                    most = self.begun[key]
                    if not least <= found <= most:
                        self.violations.append((key, least, found, most))
            except Exception as error:  # noqa: BLE001: any failure is a result
                self.failures.append(repr(error))
            ended = time.monotonic()
            self.completed.append((ended, ended - began))

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        self.cluster.shutdown()

    def pause(self):
        """The longest operation, and the longest time in which none completed."""
        ends = sorted(end for end, _ in self.completed)
        gap = max(later - end for end, later in zip(ends, ends[1:]))
        return max(latency for _, latency in self.completed), gap

    def check(self, port):
        """Every acknowledged write is at the server on `port`, and no read has missed one."""
        assert not self.violations, self.violations[:5]
        with connect(port) as cluster:
            session = cluster.connect("ycsb")
            for key in range(KEYS):
                row = session.execute("SELECT field0 FROM usertable WHERE y_id = %s", (f"{self.prefix}{key}",)).one()
                found = int(row.field0) if row else 0
                assert self.acknowledged[key] <= found <= self.begun[key], key


class Running:
    """A server that others have started."""

    def __init__(self, address):
        self.port = int(address.rsplit(":", 1)[1])
        with connect(self.port) as cluster:
            cluster.connect().execute("DROP KEYSPACE IF EXISTS ycsb")

    def stop(self):
        pass


class Pair:
    """A source that captures changes, and an empty target."""

    def __init__(self, folder, target=None, login=None, target_login=None):
        secured = ["--authenticator", "PasswordAuthenticator"]
        (folder / "source").mkdir()
        (folder / "target").mkdir()
        (folder / "cassandra.yaml").write_text("cdc_enabled: true\n")
        self.folder = folder
        self.admin = free_port()
        options = ["--config", folder / "cassandra.yaml", "--admin", f"127.0.0.1:{self.admin}"]
        options += secured if login else []
        self.source = Server(folder / "source" / "data", *options).start()
        of_target = ["--admin", "off", *(secured if target_login else [])]
        self.target = Running(target) if target else Server(folder / "target" / "data", *of_target).start()
        with connect(self.source.port, auth_provider=login) as cluster:
            session = cluster.connect()
            session.execute(
                "CREATE KEYSPACE ycsb WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
            fields = ", ".join(f"field{number} text" for number in range(FIELDS))
            session.execute(f"CREATE TABLE ycsb.usertable (y_id text PRIMARY KEY, {fields}) WITH cdc = true")
            insert = session.prepare("INSERT INTO ycsb.usertable (y_id, field0, field9) VALUES (?, '0', ?)")
            for key in range(KEYS):
                session.execute(insert, (f"user{key}", "y" * 500))

    def command(self, *options, target=None, captured=None):
        captured = captured or self.folder / "source" / "data" / "cdc_raw"
        return [
            str(part)
            for part in [
                BINARY, "move", "--from", f"127.0.0.1:{self.source.port}",
                "--to", target or f"127.0.0.1:{self.target.port}",
                "--from-admin", f"127.0.0.1:{self.admin}", "--follow", captured,
                "--progress", self.folder / "progress", "--ranges", "16", *options,
            ]
        ]  # fmt: skip

    def move(self, *options, **others):
        return subprocess.run(self.command(*options, **others), capture_output=True, text=True, timeout=240)

    def step(self, **step):
        """A step of a cut-over, as a move requests it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=60)
        connection.request("POST", "/v1/cut_over", json.dumps(step), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def stop(self):
        for server in (self.source, self.target):
            server.stop()


@pytest.fixture
def pair(tmp_path):
    pair = Pair(tmp_path)
    yield pair
    pair.stop()


def is_forwarded(pair):
    """Whether what is written at the source arrives at the target, by a new connection."""
    with connect(pair.source.port) as cluster:
        cluster.connect().execute("INSERT INTO ycsb.usertable (y_id, field0) VALUES ('new', 'v')")
    with connect(pair.target.port) as cluster:
        return cluster.connect().execute("SELECT y_id FROM ycsb.usertable WHERE y_id = 'new'").one() is not None


@pytest.mark.parametrize("protocol", [4, 5])
def test_no_acknowledged_write_is_lost_by_a_cut_over_under_load(tmp_path, protocol):
    pair = Pair(tmp_path, os.environ.get("CASSETTE_TARGET"))
    try:
        cut_over_under_load(pair, protocol)
    finally:
        pair.stop()


def cut_over_under_load(pair, protocol):
    load = Load(pair.source.port, rate=int(os.environ.get("CASSETTE_RATE", 1000)), protocol=protocol).start()
    time.sleep(1)
    moved = pair.move("--cutover", "--pause-max", "5s")
    time.sleep(1)
    load.stop()
    longest, gap = load.pause()
    ends = [end for end, _ in load.completed]
    pace = len(ends) / (max(ends) - min(ends))
    latencies = f"the longest {longest:.3f} s, the longest gap {gap:.3f} s"
    print(f"v{protocol}: {len(ends)} operations, {pace:.0f} a second, {latencies}")
    print(moved.stderr.splitlines()[-2])
    assert moved.returncode == 0, moved.stderr
    assert "cut over: requests were stalled for" in moved.stderr
    assert not load.failures, load.failures[:5]
    load.check(pair.target.port)
    assert is_forwarded(pair)
    # The source stays a proxy, whatever happens to it.
    pair.source.kill()
    pair.source.start()
    assert is_forwarded(pair)
    load.check(pair.source.port)


def test_a_cut_over_that_takes_too_long_is_given_up_and_nothing_is_lost(pair):
    load = Load(pair.source.port, rate=300).start()
    moved = pair.move("--cutover", "--pause-max", "0ms")
    load.stop()
    assert moved.returncode != 0
    assert "in 5 attempts" in moved.stderr, moved.stderr
    assert not load.failures, load.failures[:5]
    load.check(pair.source.port)
    assert not is_forwarded(pair)


def test_a_stall_whose_mover_is_killed_ends_by_itself(pair):
    load = Load(pair.source.port, rate=300).start()
    time.sleep(0.5)
    target = f"127.0.0.1:{pair.target.port}"
    status, point = pair.step(step="stall", milliseconds=1500, target=target)
    assert status == 200 and point["segment"] > 0, point
    status, refused = pair.step(step="stall", milliseconds=1500, target=target)
    assert status != 200 and "stalled already" in refused["error"]
    time.sleep(2)
    status, refused = pair.step(step="forward", stall=point["stall"])
    assert status != 200 and "the stall has ended" in refused["error"]
    # Its successor is not its own.
    status, later = pair.step(step="stall", milliseconds=500, target=target)
    assert status == 200 and later["stall"] != point["stall"]
    status, refused = pair.step(step="forward", stall=point["stall"])
    assert status != 200 and "another one" in refused["error"]
    time.sleep(1)
    load.stop()
    assert not load.failures, load.failures[:5]
    assert load.pause()[1] > 1, "requests were stalled"
    load.check(pair.source.port)


def test_kill_9_of_mover_source_and_target_while_changes_are_followed_loses_nothing(pair):
    command = pair.command("--cutover", "--pause-max", "5s")
    following = pair.command("--log-json", "-")

    def follow_for(seconds):
        process = subprocess.Popen(following, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        return process

    load = None
    for server in (None, pair.target, pair.source):
        load = Load(pair.source.port, rate=300, after=load).start()
        mover = follow_for(2)
        if server:
            server.kill()
            server.start()
            time.sleep(1)
        mover.kill()
        mover.wait()
        load.stop()
        load.check(pair.source.port)
    load = Load(pair.source.port, rate=300, after=load).start()
    moved = subprocess.run(command, capture_output=True, text=True, timeout=240)
    load.stop()
    assert moved.returncode == 0, moved.stderr
    assert not load.failures, load.failures[:5]
    load.check(pair.target.port)


def test_clients_that_have_logged_in_log_in_again_at_the_target(tmp_path):
    pair = Pair(tmp_path, login=LOGIN, target_login=LOGIN)
    (tmp_path / "password").write_text("cassandra")
    (tmp_path / "password").chmod(0o600)
    try:
        with connect(pair.source.port, auth_provider=LOGIN) as cluster:
            session = cluster.connect("ycsb")
            login = ["--from-user", "cassandra", "--from-password-file", tmp_path / "password"]
            login += ["--user", "cassandra", "--password-file", tmp_path / "password"]
            denied = pair.move("--cutover", "--pause-max", "10s", *login[4:])
            assert denied.returncode != 0
            moved = pair.move("--cutover", "--pause-max", "10s", *login)
            assert moved.returncode == 0, moved.stderr
            with connect(pair.target.port, auth_provider=LOGIN) as direct:
                direct.connect().execute("ALTER ROLE cassandra WITH PASSWORD = 'other'")
            # The connections of the session end, and the target verifies the new ones.
            deadline = time.monotonic() + 30
            ends = "(?i)bootstrapping|authentication|authenticate|credentials|unable to complete"
            with pytest.raises(Exception, match=ends):
                while time.monotonic() < deadline:
                    session.execute("INSERT INTO usertable (y_id) VALUES ('login')")
        other = PlainTextAuthProvider("cassandra", "other")
        with connect(pair.source.port, auth_provider=other) as cluster:
            session = cluster.connect("ycsb")
            assert session.execute("SELECT y_id FROM usertable WHERE y_id = 'login'").one() is None
            assert session.execute("SELECT y_id FROM usertable WHERE y_id = 'user7'").one() is not None
    finally:
        pair.stop()


def test_clients_that_must_log_in_are_not_forwarded_to_a_target_without_logins(tmp_path):
    pair = Pair(tmp_path, login=LOGIN)
    (tmp_path / "password").write_text("cassandra")
    (tmp_path / "password").chmod(0o600)
    try:
        login = ["--from-user", "cassandra", "--from-password-file", tmp_path / "password"]
        copied = pair.move("--until-caught-up", *login)
        assert copied.returncode == 0 and "warning: the source requires its clients to log in" in copied.stderr
        refused = pair.move("--cutover", "--pause-max", "10s", *login)
        assert refused.returncode != 0 and "--accept-target-without-logins" in refused.stderr, refused.stderr
        with connect(pair.source.port, auth_provider=LOGIN) as cluster:
            cluster.connect("ycsb").execute("INSERT INTO usertable (y_id, field0) VALUES ('here', 'v')")
        with connect(pair.target.port) as cluster:
            assert cluster.connect("ycsb").execute("SELECT y_id FROM usertable WHERE y_id = 'here'").one() is None
        moved = pair.move("--cutover", "--pause-max", "10s", "--accept-target-without-logins", *login)
        assert moved.returncode == 0, moved.stderr
    finally:
        pair.stop()


def test_a_directory_without_the_last_changes_ends_a_cut_over_and_the_source_serves(pair, tmp_path):
    assert pair.move("--until-caught-up").returncode == 0
    shutil.copytree(tmp_path / "source" / "data" / "cdc_raw", tmp_path / "copy")
    load = Load(pair.source.port, rate=300).start()
    time.sleep(1)
    moved = pair.move("--cutover", "--pause-max", "5s", captured=tmp_path / "copy")
    load.stop()
    assert moved.returncode != 0 and "lacks captured changes" in moved.stderr, moved.stderr
    assert not load.failures, load.failures[:5]
    load.check(pair.source.port)
    assert not is_forwarded(pair)
    # With the directory itself, the same move continues.
    assert pair.move("--cutover", "--pause-max", "5s").returncode == 0
    load.check(pair.target.port)


def test_undo_serves_the_data_directory_again(pair):
    assert pair.move("--cutover", "--pause-max", "10s").returncode == 0
    assert is_forwarded(pair)
    # A second server must not undo it while this one forwards.
    data = pair.folder / "source" / "data"
    command = [BINARY, "serve", "--data", data, "--listen", f"127.0.0.1:{pair.source.port}", "--admin", "off"]
    second = subprocess.run([*command, "--undo-cut-over"], capture_output=True, text=True, check=False, timeout=60)
    assert second.returncode != 0 and (data / "forwarding.json").exists(), second.stderr
    pair.source.stop()
    pair.source.options.append("--undo-cut-over")
    pair.source.start()
    with connect(pair.source.port) as cluster:
        session = cluster.connect("ycsb")
        assert session.execute("SELECT y_id FROM usertable WHERE y_id = 'new'").one() is None
        assert session.execute("SELECT y_id FROM usertable WHERE y_id = 'user7'").one() is not None
    # The next start would undo another cut-over, too.
    refused = pair.move("--cutover", "--pause-max", "10s")
    assert refused.returncode == 1 and "--undo-cut-over" in refused.stderr, refused.stderr


def test_a_cut_over_to_the_server_itself_is_refused_before_anything_is_stalled_or_recorded(pair):
    own, target = (f"127.0.0.1:{server.port}" for server in (pair.source, pair.target))
    for step in ({"step": "check"}, {"step": "stall", "milliseconds": 30_000}):
        for address in (own, f"{target},{own}"):
            status, refused = pair.step(**step, target=address)
            assert status == 400 and "it is this server" in refused["error"]
    with connect(pair.source.port) as cluster:
        # The target has no such table.
        cluster.connect().execute("INSERT INTO ycsb.usertable (y_id) VALUES ('new')")
    assert not (pair.folder / "source" / "data" / "forwarding.json").exists()


def test_serve_forward_passes_connections_on(tmp_path):
    target = Server(tmp_path / "target", "--admin", "off").start()
    port = free_port()
    command = [BINARY, "serve", "--listen", f"127.0.0.1:{port}", "--forward", f"127.0.0.1:{target.port}"]
    proxy = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    try:
        assert f"127.0.0.1:{port}" in proxy.stdout.readline()
        assert f"127.0.0.1:{target.port}" in proxy.stdout.readline()
        for options in ({}, {"protocol_version": 4}, {"compression": False}):
            with connect(port, **options) as cluster:
                session = cluster.connect()
                assert [host.endpoint.port for host in cluster.metadata.all_hosts()] == [port]
                text = "y" * 300_000
                row = session.execute(f"SELECT key, (text)'{text}' AS big FROM system.local").one()
                assert (row.key, row.big) == ("local", text)
        proxy.terminate()
        assert proxy.wait(timeout=30) == 0
    finally:
        proxy.kill()
        target.stop()


def test_serve_forward_connects_to_another_contact_point_when_one_is_down(tmp_path):
    nodes = [Server(tmp_path / name, "--admin", "off").start() for name in ("first", "second")]
    port = free_port()
    contacts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    command = [BINARY, "serve", "--listen", f"127.0.0.1:{port}", "--forward", contacts]
    proxy = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)

    def host_id(port):
        with connect(port) as cluster:
            return cluster.connect().execute("SELECT host_id FROM system.local").one().host_id

    try:
        proxy.stdout.readline()
        assert host_id(port) == host_id(nodes[0].port)
        nodes[0].kill()
        assert host_id(port) == host_id(nodes[1].port)
    finally:
        proxy.kill()
        for node in nodes:
            node.stop()
