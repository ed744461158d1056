"""The release packages: built twice with equal bytes, installed and used as on a new machine."""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from server import BINARY, ROOT

sys.path.insert(0, str(ROOT / "packaging" / "build"))

import archive  # noqa: E402
import contents  # noqa: E402
import deb  # noqa: E402
import image  # noqa: E402

PATIENCE = 60
USER = image.USER
#: Brings the loopback interface up in a new network namespace, and executes the arguments.
IN_NAMESPACE = """
import fcntl, os, socket, struct, sys
with socket.socket() as control:
    fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: IFF_UP, IFF_RUNNING
os.execvp(sys.argv[1], sys.argv[1:])
"""

needs_root = pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb")


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    """The binary without symbols, as `make dist` builds it."""
    stripped = tmp_path_factory.mktemp("binary") / "cassette"
    run("strip", "-o", stripped, BINARY)
    return stripped


@pytest.fixture(scope="module", autouse=True)
def quickly():
    """Compresses less, and fixes the time of files, as a release does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "COMPRESSION", 1)
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        yield


def run(*command, **options):
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **options)
    assert ended.returncode == 0, f"{command}:\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def built_twice(build, binary, tmp_path):
    """What `build` builds, after it was built a second time with equal bytes."""
    first, second = (build(binary, tmp_path / name) for name in ("first", "second"))
    assert first.name == second.name
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()
    return first


def test_the_archive_is_reproducible_and_complete(binary, tmp_path):
    built = built_twice(archive.build, binary, tmp_path)
    run("sha256sum", "--check", f"{built.name}.sha256", cwd=built.parent)
    run("tar", "-xzf", built, "-C", tmp_path)
    folder = tmp_path / built.name.removesuffix(".tar.gz")
    version = run(folder / "cassette", "--version")
    assert version == f"cassette {contents.version()}\n"
    assert run(folder / "cassette", "version").startswith(f"{version}commit ")
    completions = folder / "completions"
    script = f"source {completions}/cassette.bash; COMP_WORDS=(cassette serv); COMP_CWORD=1; _cassette cassette serv; echo $COMPREPLY"
    assert run("bash", "-c", script) == "serve\n"
    assert "#compdef cassette" in (completions / "_cassette").read_text()
    assert "complete -c cassette" in (completions / "cassette.fish").read_text()
    pages = {page.name for page in (folder / "man" / "man1").iterdir()}
    assert {"cassette.1", "cassette-serve.1", "cassette-sstable-dump.1"} <= pages
    assert ".SH OPTIONS" in (folder / "man" / "man1" / "cassette-serve.1").read_text()
    monitoring = {file.name: file.read_bytes() for file in (folder / "monitoring").iterdir()}
    assert monitoring == contents.monitoring() and "grafana-dashboard.json" in monitoring
    with tarfile.open(built) as tar:
        assert {(entry.mtime, entry.uid, entry.gid) for entry in tar} == {(1700000000, 0, 0)}
        names = tar.getnames()
    assert names == sorted(names)


def test_the_bill_of_materials_has_the_packages_of_the_binary(binary, tmp_path):
    built = archive.build(binary, tmp_path)
    document = json.loads((tmp_path / f"{built.name.removesuffix('.tar.gz')}.cdx.json").read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    assert document["metadata"]["component"]["purl"] == f"pkg:cargo/cassette-cli@{contents.version()}"
    components = {component["name"]: component for component in document["components"]}
    assert {"tokio", "clap", "cassette-engine", "ring"} <= components.keys()
    assert "criterion" not in components and "cassette-fuzz" not in components, "tests are not in the binary"
    assert all("licenses" in component for component in components.values())
    foreign = [component for name, component in components.items() if not name.startswith("cassette")]
    assert all(len(component["hashes"][0]["content"]) == 64 for component in foreign)
    references = {component["bom-ref"] for component in document["components"]}
    references.add(document["metadata"]["component"]["bom-ref"])
    assert {dependency["ref"] for dependency in document["dependencies"]} == references
    assert all(references.issuperset(dependency["dependsOn"]) for dependency in document["dependencies"])


@needs_dpkg
def test_the_debian_package_is_reproducible_and_describes_itself(binary, tmp_path):
    built = built_twice(deb.build, binary, tmp_path)
    field = {name: run("dpkg-deb", "--field", built, name).strip() for name in ("Package", "Version", "Depends")}
    assert (field["Package"], field["Version"]) == ("cassette", contents.version())
    assert re.fullmatch(r"libc6 \(>= 2\.\d+\), libgcc-s1, adduser", field["Depends"])
    lines = [line.split() for line in run("dpkg-deb", "--contents", built).splitlines()]
    assert {line[1] for line in lines} == {"root/root"}
    paths = {line[-1] for line in lines}
    assert {f"./usr/share/cassette/monitoring/{file}" for file in contents.monitoring()} <= paths
    for script in ("postinst", "prerm", "postrm"):
        run("sh", "-n", ROOT / "packaging" / "debian" / script)


class Machine:
    """This machine's file system with changes that only the test sees."""

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "root"
        for name in ("root", "upper", "work"):
            (folder / name).mkdir()
        options = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
        run("mount", "-t", "overlay", "overlay", "-o", options, self.root)
        # Whether systemd runs here is not what the test is about.
        shutil.rmtree(self.root / "run" / "systemd", ignore_errors=True)

    def run(self, *command):
        return run("chroot", self.root, *command, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"})

    def unmount(self):
        run("umount", "--lazy", self.root)


@pytest.fixture
def machine(tmp_path):
    # An overlay needs a file system that can be its upper layer, which another overlay cannot.
    folder = tmp_path / "machine"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("cannot mount file systems")
    machine = Machine(folder)
    yield machine
    machine.unmount()
    run("umount", "--lazy", folder)


@needs_dpkg
@needs_root
def test_the_debian_package_installs_runs_and_is_removed(binary, tmp_path, machine):
    if not shutil.which("adduser"):
        pytest.skip("needs adduser, which the package depends on")
    built = deb.build(binary, tmp_path)
    shutil.copy(built, machine.root / "tmp")
    package = f"/tmp/{built.name}"
    machine.run("dpkg", "--install", package)
    user, group = machine.run("stat", "--format=%U %G", "/var/lib/cassette").split()
    assert (user, group) == ("cassette", "cassette")
    assert machine.run("stat", "--format=%a %U %G", "/var/lib/cassette").split()[0] == "700"
    assert machine.run("stat", "--format=%a %U %G", "/etc/cassette").split() == ["750", "root", "cassette"]
    assert machine.run("cassette", "--version") == f"cassette {contents.version()}\n"

    served(machine)
    # Changes of the administrator stay in an upgrade, and after a removal.
    configuration = machine.root / "etc" / "cassette" / "cassandra.yaml"
    configuration.write_text(configuration.read_text() + "# changed\n")
    machine.run("dpkg", "--force-confdef", "--force-confold", "--install", package)
    assert "# changed" in configuration.read_text()
    machine.run("dpkg", "--remove", "cassette")
    assert "# changed" in configuration.read_text()
    assert not (machine.root / "usr" / "bin" / "cassette").exists()
    # The database stays even if the package is purged.
    printed = machine.run("dpkg", "--purge", "cassette")
    assert "The database in /var/lib/cassette is kept" in printed
    assert not configuration.parent.exists()
    assert (machine.root / "var" / "lib" / "cassette" / "cassette.version").exists()


def served(machine):
    """Starts the command of the unit as its user, with a service manager that is notified, and stops it."""
    unit = (machine.root / "usr" / "lib" / "systemd" / "system" / "cassette.service").read_text()
    command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1].split()
    manager = "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('/run/notify')\n"
    manager += "import os; os.chmod('/run/notify', 0o777); s.settimeout(60); print(s.recv(99).decode(), flush=True)\n"
    manager += "print(s.recv(99).decode(), flush=True)"
    listener = subprocess.Popen(
        ["chroot", machine.root, sys.executable, "-c", manager], stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + PATIENCE
    while not (machine.root / "run" / "notify").exists():
        assert time.monotonic() < deadline and listener.poll() is None
        time.sleep(0.02)
    user = machine.run("id", "-u", "cassette").strip()
    in_chroot = ["chroot", f"--userspec={user}", machine.root, *command, "--listen", "127.0.0.1:0", "--admin", "off"]
    server = subprocess.Popen(
        [str(part) for part in in_chroot], stdout=subprocess.PIPE, text=True, env=os.environ | {"NOTIFY_SOCKET": "/run/notify"}
    )
    try:
        address = re.search(r"127\.0\.0\.1:\d+", server.stdout.readline())[0]
        assert listener.stdout.readline() == "READY=1\n"
        assert "5.0" in machine.run("cassette", "cql", address, "-e", "SELECT release_version FROM system.local")
        server.terminate()
        assert server.wait(PATIENCE) == 0
        assert listener.stdout.readline() == "STOPPING=1\n"
    finally:
        server.kill()
        listener.kill()
        server.wait()
        listener.wait()


def blob(files, described):
    """The content of a blob, which is verified."""
    data = files[f"blobs/{described['digest'].replace(':', '/')}"]
    assert len(data) == described["size"] and image.digest(data) == described["digest"]
    return data


def read_image(path):
    """(configuration, layer) of an archive of a layout, every blob of which is verified."""
    with tarfile.open(path) as tar:
        files = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (described,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(files, described))
    config = json.loads(blob(files, manifest["config"]))
    layer = gzip.decompress(blob(files, manifest["layers"][0]))
    assert config["rootfs"]["diff_ids"] == [image.digest(layer)]
    (docker,) = json.loads(files["manifest.json"])
    assert docker["Config"] in files and all(part in files for part in docker["Layers"])
    return config["config"], layer


class Container:
    """A container of the image: its root, user and environment, in a network namespace of its own."""

    def __init__(self, config, root, **environment):
        self.root = root
        self.environment = dict(part.split("=", 1) for part in config["Env"]) | environment
        user = ["chroot", f"--userspec={config['User']}", root]
        command = ["unshare", "--net", sys.executable, "-c", IN_NAMESPACE, *user, *config["Entrypoint"]]
        self.user = user
        self.log = open(root.parent / "log", "w+")
        self.process = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=self.log, text=True, env=self.environment | os.environ
        )

    def ready(self):
        line = self.process.stdout.readline()
        assert "listens for CQL on 0.0.0.0:9042" in line, line + self.errors()
        return self

    def errors(self):
        self.log.flush()
        return Path(self.log.name).read_text()

    def execute(self, *command):
        """As `docker exec`."""
        inside = ["nsenter", "--net", "--target", self.process.pid, *self.user]
        return run(*inside, *command, env=self.environment | {"PATH": "/usr/bin:/usr/sbin:/bin:/sbin"})

    def stop(self):
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


@pytest.fixture
def container(binary, tmp_path):
    """Starts containers of the image over one root."""
    config, layer = read_image(image.build(binary, tmp_path))
    root = tmp_path / "root"
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        tar.extractall(root, numeric_owner=True, filter="fully_trusted")
    for folder in tmp_path.parents:
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    started = []

    def start(**environment):
        started.append(Container(config, root, **environment))
        return started[-1]

    start.root = root
    start.config = config
    yield start
    for one in started:
        one.kill()


def test_the_image_is_reproducible_and_valid(binary, tmp_path):
    config, layer = read_image(built_twice(image.build, binary, tmp_path))
    assert config["User"] == f"{USER}:{USER}"
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        data = tar.getmember("var/lib/cassandra")
        assert (data.uid, data.mode) == (USER, 0o700)
        assert not [entry.name for entry in tar if entry.mode & 0o7000 and entry.name != "tmp"], "no set-uid programs"
        programs = {entry.name for entry in tar if entry.name.startswith("usr/bin/")}
    assert programs == {"usr/bin/cassette", "usr/bin/cqlsh", "usr/bin/nodetool"}


@needs_root
def test_a_container_has_the_settings_of_the_environment(container):
    names = {"CASSANDRA_CLUSTER_NAME": "my cluster", "CASSANDRA_DC": "dc1", "CASSANDRA_RACK": "r1"}
    one = container(**names, CASSANDRA_ENDPOINT_SNITCH="GossipingPropertyFileSnitch", CASSANDRA_SEEDS="other").ready()
    # As the wait strategy of Testcontainers does it.
    select = "SELECT cluster_name, data_center, rack FROM system.local"
    shown = one.execute("cqlsh", "-u", "cassandra", "-p", "cassandra", "-e", select)
    assert re.search(r"my cluster \|\s+dc1 \|\s+r1", shown), shown
    # As compose files for Cassandra's image check its health.
    assert "UN" in one.execute("nodetool", "status")
    one.execute(*container.config["Healthcheck"]["Test"][1:])
    assert "CASSANDRA_SEEDS has no effect" in one.errors()
    one.stop()


@needs_root
def test_scripts_are_executed_before_the_first_start_alone(container):
    scripts = container.root / "docker-entrypoint-initdb.d"
    keyspace = "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};\n"
    (scripts / "1.cql").write_text(keyspace)
    (scripts / "2.cql").write_text("CREATE TABLE app.t (k int PRIMARY KEY);\nINSERT INTO app.t (k) VALUES (7);\n")
    first = container().ready()
    assert re.search(r"\b7\b", first.execute("cqlsh", "-e", "SELECT k FROM app.t"))
    first.execute("cqlsh", "-e", "TRUNCATE app.t")
    first.stop()
    again = container().ready()
    assert "(0 rows)" in again.execute("cqlsh", "-e", "SELECT k FROM app.t")
    again.stop()


@needs_root
def test_a_script_that_fails_ends_the_container(container):
    (container.root / "docker-entrypoint-initdb.d" / "wrong.cql").write_text("CREATE TABLE nowhere.t (k int);\n")
    one = container()
    assert one.process.wait(PATIENCE) == 1
    assert "wrong.cql failed" in one.errors() and "nowhere" in one.errors()


@needs_root
def test_a_container_requires_passwords_if_the_superuser_has_one(container):
    secret = container.root / "password"
    secret.write_text("correct horse\n")
    os.chown(secret, USER, USER)
    one = container(CASSETTE_SUPERUSER_PASSWORD_FILE="/password").ready()
    assert "5.0" in one.execute("cqlsh", "-u", "cassandra", "-p", "correct horse", "-e", "SHOW VERSION")
    with pytest.raises(AssertionError, match="are incorrect"):
        one.execute("cqlsh", "-u", "cassandra", "-p", "wrong", "-e", "SHOW VERSION")
    # The health check needs no password.
    one.execute(*container.config["Healthcheck"]["Test"][1:])
    one.stop()


@needs_root
def test_a_container_whose_server_does_not_answer_is_not_healthy(container):
    one = container().ready()
    os.kill(one.process.pid, signal.SIGSTOP)
    with pytest.raises(AssertionError, match="no answer from 127.0.0.1:9042"):
        one.execute(*container.config["Healthcheck"]["Test"][1:])
    os.kill(one.process.pid, signal.SIGCONT)
    one.stop()


@needs_root
def test_a_mounted_configuration_applies(container):
    (container.root / "etc" / "cassandra" / "cassandra.yaml").write_text("cluster_name: 'of the file'\nnum_tokens: 16\n")
    one = container().ready()
    assert "of the file" in one.execute("cqlsh", "-e", "SELECT cluster_name FROM system.local")
    one.stop()
