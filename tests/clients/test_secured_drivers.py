"""Passwords, TLS and mutual TLS with the unmodified drivers for Go, Java and Node.js."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cassandra.auth import PlainTextAuthProvider
from conftest import connect
from server import BINARY, ROOT, Server
from test_java_driver import BUILT as JAVA

SOURCES = Path(__file__).resolve().parent / "secured"
BUILT = ROOT / ".cache" / "secured-drivers"
PASSWORD = "correct horse"


def run(*command, **options):
    command = [str(part) for part in command]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, **options)


def built(*command, **options):
    done = run(*command, **options)
    assert done.returncode == 0, done.stdout + done.stderr


def go():
    built("go", "build", "-o", BUILT / "go-check", ".", cwd=SOURCES / "go")
    return [BUILT / "go-check"]


def java():
    if not (JAVA / "done").exists():
        pom = SOURCES.parent / "java" / "pom.xml"
        built("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={JAVA / 'lib'}")
        (JAVA / "done").touch()
    built("javac", "-nowarn", "-cp", f"{JAVA / 'lib'}/*", "-d", BUILT / "java", SOURCES / "java" / "SecuredCheck.java")
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{BUILT / 'java'}:{JAVA / 'lib'}/*", "SecuredCheck"]


def node():
    directory = BUILT / "node"
    directory.mkdir(parents=True, exist_ok=True)
    for file in ("package.json", "package-lock.json", "check.js"):
        shutil.copy(SOURCES / "node" / file, directory)
    if not (directory / "node_modules").exists():
        built("npm", "ci", "--no-audit", "--no-fund", cwd=directory)
    return ["node", directory / "check.js"]


@pytest.fixture(scope="module", params=[go, java, node], ids=lambda driver: driver.__name__)
def driver(request):
    """The command that runs a driver's check."""
    tool = {"go": "go", "java": "mvn", "node": "npm"}[request.param.__name__]
    if not shutil.which(tool) and "CASSETTE_REQUIRE_ORACLE" not in os.environ:
        pytest.skip(f"{tool} is not installed")
    BUILT.mkdir(parents=True, exist_ok=True)
    return request.param()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("secured") / "certificates"
    built(BINARY, "certificates", directory)
    return directory


def serve(folder, certificates, **options):
    options = {"enabled": "true", "keystore": certificates / "server.pem", **options}
    lines = "".join(f"  {key}: {value}\n" for key, value in options.items())
    (folder / "cassandra.yaml").write_text(
        "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n"
        f"client_encryption_options:\n{lines}"
    )
    (folder / "password").write_text(f"{PASSWORD}\n")
    configuration = ["--config", folder / "cassandra.yaml", "--superuser-password-file", folder / "password"]
    return Server(folder / "data", *configuration, "--admin", "off").start()


@pytest.fixture(scope="module")
def optional(certificates, tmp_path_factory):
    """A server with passwords that accepts plaintext and TLS, and has a role for the drivers."""
    server = serve(tmp_path_factory.mktemp("optional"), certificates, optional="true")
    create_role(server)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def mutual(certificates, tmp_path_factory):
    """A server with passwords that requires TLS and certificates of clients."""
    folder = tmp_path_factory.mktemp("mutual")
    server = serve(folder, certificates, optional="true")
    create_role(server)
    server.stop()
    server = serve(folder, certificates, truststore=certificates / "ca.pem", require_client_auth="true")
    yield server
    server.stop()


def create_role(server):
    with connect("127.0.0.1", server.port, auth_provider=PlainTextAuthProvider("cassandra", PASSWORD)) as cluster:
        session = cluster.connect()
        session.execute("CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE app.t (k text PRIMARY KEY, v int)")
        session.execute("CREATE ROLE app WITH PASSWORD = 'app' AND LOGIN = true")
        session.execute("GRANT SELECT, MODIFY ON app.t TO app")


def check(driver, server, *arguments):
    done = run(*driver, "127.0.0.1", server.port, *arguments)
    return done.returncode, done.stdout.strip()


def test_connects_with_a_password(driver, optional):
    assert check(driver, optional, "app", "app") == (0, "ok")


def test_reports_a_wrong_password(driver, optional):
    code, text = check(driver, optional, "app", "wrong")
    assert code == 1
    assert "Provided username app and/or password are incorrect" in text


def test_connects_with_a_password_over_tls(driver, optional, certificates):
    assert check(driver, optional, "app", "app", certificates / "ca.pem") == (0, "ok")


def test_connects_with_a_certificate_of_its_own(driver, mutual, certificates):
    assert check(driver, mutual, "app", "app", certificates / "ca.pem", certificates / "client.pem") == (0, "ok")


def test_is_refused_without_a_certificate(driver, mutual, certificates):
    code, text = check(driver, mutual, "app", "app", certificates / "ca.pem")
    assert code == 1
    assert text.startswith("refused:")
