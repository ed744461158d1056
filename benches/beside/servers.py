"""Cassette and Apache Cassandra as processes: started, told what to do by nodetool, their processor time and files looked at."""

import base64
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("CASSETTE_BINARY", ROOT / "target/release/cassette"))
WORK = Path(os.environ.get("WORK", ROOT / ".cache/beside"))
KEYSPACE = "beside"

# What both are told: nothing is flushed until it is asked for, compactions go as fast as they can.
COMMON = {
    "memtable_heap_space": "1024MiB",
    "memtable_cleanup_threshold": "0.9",
    "commitlog_total_space": "8192MiB",
    "commitlog_sync": "periodic",
    "commitlog_sync_period": "10000ms",
    "compaction_throughput": "0MiB/s",
    "auto_snapshot": "false",
}
# Cassandra's memtables lie beside its heap, which they would fill; and it is not to write a warning for every batch.
OF_CASSANDRA = {
    "memtable_allocation_type": "offheap_objects",
    "memtable_offheap_space": "1024MiB",
    "batch_size_warn_threshold": "1024KiB",
    "batch_size_fail_threshold": "2048KiB",
}

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 60
SETTLE_SECONDS_MAX = 120
QUIET_SHARE_MAX = 0.1  # of one processor


class Failed(Exception):
    """What went wrong, and what to do about it."""


class Server:
    """One of the servers. `contact` is where it speaks CQL, `data` where its keyspaces' directories are."""

    name = ""
    pid = 0
    idle = 0.0  # share of a processor that it takes without work
    contact = ("", 0)
    data = Path()
    cluster = None

    def start(self):
        """Starts the process on an empty directory and waits until it listens."""
        raise NotImplementedError

    def stop(self):
        """Ends the process in order, as far as it was started."""
        raise NotImplementedError

    def connect(self):
        """A session; the keyspace is made anew."""
        profile = ExecutionProfile(WhiteListRoundRobinPolicy([self.contact[0]]), request_timeout=120)
        self.cluster = Cluster(
            [self.contact[0]],
            port=self.contact[1],
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            # A Cassandra that has just started is slow.
            connect_timeout=START_SECONDS_MAX,
            control_connection_timeout=START_SECONDS_MAX,
            schema_metadata_enabled=False,
            token_metadata_enabled=False,
        )
        self.session = self.cluster.connect()
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        self.session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}")

    def execute_nodetool(self, words):
        """Exit code, seconds and text of a command of nodetool."""
        raise NotImplementedError

    def nodetool(self, *words):
        """Seconds and text of a command that must succeed."""
        code, seconds, text = self.execute_nodetool([str(word) for word in words])
        if code != 0:
            raise Failed(f"{self.name}: nodetool {' '.join(map(str, words))} ended with {code}: {text.strip()}")
        return seconds, text

    def cpu_seconds(self):
        """Processor time of the process so far, all threads, those that have ended too: utime + stime to the nanosecond."""
        return time.clock_gettime((~self.pid << 3) | 2)  # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of the kernel

    def directory(self, table):
        """Where the table's SSTables are."""
        (directory,) = (self.data / KEYSPACE).glob(f"{table}-*")
        return directory

    def sstables(self, table):
        """The Data.db files of the table, full paths."""
        return {str(path) for path in self.directory(table).glob("*-Data.db")}


class Cassette(Server):
    """`cassette serve`."""

    name = "Cassette"
    contact = ("127.0.0.1", 9261)
    admin = 7261
    process = None

    def start(self):
        home = fresh(WORK / "cassette")
        self.data = home / "node/data"
        config = home / "cassandra.yaml"
        config.write_text("".join(f"{name}: {value}\n" for name, value in COMMON.items()))
        listen = ["--listen", "%s:%d" % self.contact, "--admin", f"127.0.0.1:{self.admin}"]
        with open(home / "serve.log", "wb") as log:
            command = [BINARY, "serve", "--config", config, "--data", home / "node", *listen]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.pid = self.process.pid
        # The first line says that it is ready; nothing, that it ended.
        if not self.process.stdout.readline():
            raise Failed(f"cassette serve did not start: see {home / 'serve.log'}")

    def execute_nodetool(self, words):
        command = [BINARY, "nodetool", "-p", str(self.admin), *words]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, time.monotonic() - began, done.stdout + done.stderr

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(timeout=STOP_SECONDS_MAX)


class Cassandra(Server):
    """Apache Cassandra of `cassette lab cassandra`, with a Java that stays for the commands of its nodetool."""

    name = "Cassandra"
    contact = ("127.0.79.1", 9262)
    java = None

    def __init__(self, heap):
        self.heap = heap
        self.home = WORK / "cassandra"

    def laboratory(self, command, *words):
        """A command of `cassette lab cassandra`."""
        words = [BINARY, "lab", "cassandra", command, "--directory", self.home, *words]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"cassette lab cassandra {command}: {done.stderr.strip()}")

    def start(self):
        settings = [f"--set={name}={value}" for name, value in {**COMMON, **OF_CASSANDRA}.items()]
        self.laboratory("start", "--network", "127.0.79", "--port", str(self.contact[1]), "--heap", self.heap, *settings)
        self.data = self.home / "node1/data"
        self.pid = int((self.home / "node1/pid").read_text())
        self.java = self.start_nodetool()

    def start_nodetool(self):
        """A Java with the jars that the node has; says where the node listens for JMX."""
        words = Path(f"/proc/{self.pid}/cmdline").read_text().split("\0")
        port = "-Dcassandra.jmx.local.port="
        (self.jmx,) = (word.removeprefix(port) for word in words if word.startswith(port))
        jars = words[words.index("-cp") + 1]
        opens = ("--add-opens", "--add-exports")
        opened = [word for pair in zip(words, words[1:]) if pair[0] in opens for word in pair]
        own = fresh(self.home / "nodetool")
        command = ["java", *opened, "-Xmx256m", f"-Duser.home={own}", "-Dlogback.configurationFile=logback.xml"]
        with open(own / "errors.log", "wb") as errors:
            command += ["-cp", jars, ROOT / "benches/beside/Nodetool.java"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            return subprocess.Popen(command, cwd=own, text=True, **pipes)

    def execute_nodetool(self, words):
        self.java.stdin.write("\t".join(["-h", "127.0.0.1", "-p", self.jmx, *words]) + "\n")
        self.java.stdin.flush()
        answer = self.java.stdout.readline().split()
        if len(answer) < 2:
            raise Failed(f"Cassandra's nodetool does not answer: see {self.home / 'nodetool/errors.log'}")
        text = base64.b64decode(answer[2]).decode() if len(answer) > 2 else ""
        return int(answer[0]), int(answer[1]) / 1e9, text

    def stop(self):
        if self.java:
            self.java.stdin.close()
            self.java.wait(timeout=STOP_SECONDS_MAX)
        self.laboratory("stop")


def start(heap):
    """Both servers, each with a session."""
    if not BINARY.is_file():
        raise Failed(f"{BINARY} is not there: `make build` makes it, or set CASSETTE_BINARY")
    if BINARY.name != "cassette":
        raise Failed(f"{BINARY} must be named cassette")
    servers = [Cassette(), Cassandra(heap)]
    try:
        for server in servers:
            server.start()
            server.connect()
        return servers
    except BaseException:
        stop(servers)
        raise


def stop(servers):
    """Stops all, each tried even if another cannot be stopped. Their logs stay, kept SSTables go."""
    shutil.rmtree(WORK / "kept", ignore_errors=True)
    for server in servers:
        try:
            if server.cluster:
                server.cluster.shutdown()
            server.stop()
        except Exception as error:  # noqa: BLE001 - the others want to be stopped, too
            print(f"stopping {server.name}: {error}", file=sys.stderr)


def settle(servers, seconds=0.5):
    """Waits until what is dirty is on the disk and no server does anything; the share of a processor that each takes then."""
    os.sync()
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while time.monotonic() < deadline:
        before, began = [server.cpu_seconds() for server in servers], time.monotonic()
        time.sleep(seconds)
        lasted = time.monotonic() - began
        shares = [(server.cpu_seconds() - cpu) / lasted for server, cpu in zip(servers, before)]
        if max(shares) <= QUIET_SHARE_MAX:
            return shares
    busy = ", ".join(f"{server.name} {share:.0%}" for server, share in zip(servers, shares))
    raise Failed(f"servers still work after {SETTLE_SECONDS_MAX} s ({busy} of a processor): see their logs in {WORK}")


def fresh(directory):
    """The directory, empty."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory
