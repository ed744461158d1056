"""The admin endpoint with passwords, tokens and TLS: `cassette nodetool`, and a scrape as by Prometheus."""

import base64
import http.client
import re
import socket
import ssl
import subprocess

import pytest
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster

from server import BINARY, Server

READER = "reader-0123456789abcdef"
OPERATOR = "operator-0123456789abcdef"
OPTIONS = ["--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer"]


def private(path, text):
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def certificates(folder, *options):
    subprocess.run([BINARY, "certificates", folder, *options], capture_output=True, check=True)
    return folder


def serve(folder, *options, yaml=""):
    (folder / "cassandra.yaml").write_text(f"admin_tokens_file: {folder / 'tokens'}\n{yaml}")
    private(folder / "tokens", f"# Prometheus\nread-only {READER}\noperator {OPERATOR}\n")
    config = ["--config", folder / "cassandra.yaml", "--admin", "127.0.0.1:0"]
    server = Server(folder / "data", *config, *options).start()
    line = server.process.stdout.readline()
    server.scheme, server.admin_port = re.search(r"(https?)://127\.0\.0\.1:(\d+)/", line).groups()
    return server


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("admin") / "certificates")


@pytest.fixture(scope="module")
def server(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured")
    yaml = f"admin_encryption_options:\n  enabled: true\n  keystore: {files / 'server.pem'}\n"
    server = serve(folder, *OPTIONS, yaml=yaml)
    yield server
    server.stop()


@pytest.fixture
def nodetool(server, files):
    """Runs a command: (exit code, output)."""

    def nodetool(*words, ca=files / "ca.pem", port=server.admin_port, host="127.0.0.1", password=None):
        tls = ["--tls-ca", ca] if ca else []
        command = [BINARY, "nodetool", "-h", host, "-p", port, *tls, *words]
        environment = {"CASSETTE_PASSWORD": password} if password else {}
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
        return done.returncode, done.stdout + done.stderr

    return nodetool


def request(server, files, method, path, authorization=None, body=None):
    context = ssl.create_default_context(cafile=files / "ca.pem") if server.scheme == "https" else None
    make = http.client.HTTPSConnection if context else http.client.HTTPConnection
    connection = make("127.0.0.1", int(server.admin_port), timeout=60, **({"context": context} if context else {}))
    headers = {"Content-Type": "application/json"} if body else {}
    if authorization:
        headers["Authorization"] = authorization
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def test_nodetool_over_tls_with_a_password(nodetool, tmp_path):
    passwords = private(tmp_path / "passwords", "other x\ncassandra cassandra\n")
    for credentials in (["-u", "cassandra", "-pw", "cassandra"], ["-u", "cassandra", "-pwf", passwords]):
        code, output = nodetool(*credentials, "statusbinary")
        assert (code, output) == (0, "running\n")
        assert nodetool(*credentials, "flush") == (0, "")
    assert nodetool("-u", "cassandra", "flush", password="cassandra") == (0, "")
    assert nodetool("-u", "cassandra", "flush", password="cassandra", host="localhost") == (0, "")


def test_nodetool_without_access_says_why(nodetool, server, tmp_path):
    code, output = nodetool("info")
    assert code == 1 and "denies access" in output and "--password-file" in output
    code, output = nodetool("-u", "cassandra", "-pw", "falsch", "info")
    assert code == 1 and "wrong user name, password or token" in output
    assert nodetool("-u", "nobody", "-pw", "falsch", "info") == (code, output)
    reader = private(tmp_path / "reader", READER)
    assert nodetool("--token-file", reader, "statusbinary") == (0, "running\n")
    code, output = nodetool("--token-file", reader, "flush")
    assert code == 1 and "requires the level operator" in output
    operator = private(tmp_path / "operator", OPERATOR)
    assert nodetool("--token-file", operator, "flush") == (0, "")
    operator.chmod(0o644)
    code, output = nodetool("--token-file", operator, "flush")
    assert code == 1 and "chmod 600" in output


def test_nodetool_and_node_without_the_same_tls_say_what_is_wrong(nodetool, server, tmp_path):
    code, output = nodetool("info", ca=None)
    assert code == 1 and "does the node use TLS at this port?" in output, output
    foreign = certificates(tmp_path / "foreign") / "ca.pem"
    code, output = nodetool("-u", "cassandra", "-pw", "cassandra", "info", ca=foreign)
    assert code == 1 and "signed by an unknown authority" in output and "--tls-ca" in output
    plain = serve(tmp_path)
    code, output = nodetool("info", port=plain.admin_port)
    assert code == 1 and "does not use TLS" in output, output
    plain.stop()


def test_prometheus_scrapes_with_a_read_only_token(server, files):
    answer, text = request(server, files, "GET", "/metrics", f"Bearer {READER}")
    assert answer.status == 200 and "cassette_build_info" in text
    flush = '{"operation": "flush"}'
    assert request(server, files, "POST", "/v1/operations", f"Bearer {READER}", flush)[0].status == 403
    assert request(server, files, "POST", "/v1/operations", f"Bearer {OPERATOR}", flush)[0].status == 200
    failed = int(re.search(r"^cassette_logins_failed_total (\d+)$", text, re.M).group(1))
    assert request(server, files, "GET", "/metrics", f"Bearer {READER}x")[0].status == 401
    text = request(server, files, "GET", "/metrics", f"Bearer {READER}")[1]
    assert f"\ncassette_logins_failed_total {failed + 1}\n" in text


def test_browser_is_asked_for_a_password(server, files):
    answer, _ = request(server, files, "GET", "/")
    assert answer.status == 401
    assert 'Basic realm="Cassette", charset="UTF-8"' in answer.getheader("WWW-Authenticate")
    token = base64.b64encode(b"cassandra:cassandra").decode()
    answer, page = request(server, files, "GET", "/", f"Basic {token}")
    assert answer.status == 200 and "page.js" in page


def test_unfinished_and_plain_handshakes_are_counted_and_keep_nobody_out(server, files):
    idle = [socket.create_connection(("127.0.0.1", int(server.admin_port))) for _ in range(20)]
    for connection in idle[:10]:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.settimeout(60)
        while connection.recv(4096):
            pass
        connection.close()
    text = request(server, files, "GET", "/metrics", f"Bearer {READER}")[1]
    failed = int(re.search(r"^cassette_tls_handshakes_failed_total (\d+)$", text, re.M).group(1))
    assert failed >= 10
    for connection in idle[10:]:
        connection.close()


def test_certificate_of_a_client_permits_what_its_line_says(files, nodetool, tmp_path):
    printed = subprocess.run(
        ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", files / "client.pem"],
        capture_output=True,
        text=True,
        check=True,
    )
    fingerprint = printed.stdout.strip().split("=", 1)[1]
    yaml = (
        f"admin_encryption_options:\n  enabled: true\n  keystore: {files / 'server.pem'}\n"
        f"  truststore: {files / 'ca.pem'}\n  require_client_auth: true\n"
    )
    (tmp_path / "tokens").touch(mode=0o600)
    server = serve(tmp_path, *OPTIONS, yaml=yaml)
    port = server.admin_port
    client = ["--tls-certificate", files / "client.pem"]
    code, output = nodetool(*client, "flush", port=port)
    assert code == 1 and "denies access" in output
    server.stop()
    with open(tmp_path / "tokens", "a") as tokens:
        tokens.write(f"operator certificate:{fingerprint}\n")
    server = Server(tmp_path / "data", "--config", tmp_path / "cassandra.yaml", "--admin", "127.0.0.1:0", *OPTIONS)
    server.start()
    port = re.search(r"127\.0\.0\.1:(\d+)/", server.process.stdout.readline()).group(1)
    assert nodetool(*client, "flush", port=port) == (0, "")
    code, output = nodetool("flush", port=port)
    assert code == 1 and "requires a certificate of the client" in output, output
    foreign = certificates(tmp_path / "foreign") / "client.pem"
    code, output = nodetool("--tls-certificate", foreign, "flush", port=port)
    assert code == 1 and "does not accept the certificate" in output, output
    server.stop()


def test_certificate_has_the_access_of_its_identitys_role(nodetool, tmp_path):
    identity = "spiffe://example.com/operations"
    issued = certificates(tmp_path / "certificates", "--client-uri", identity)
    encryption = f"  keystore: {issued / 'server.pem'}\n  truststore: {issued / 'ca.pem'}\n  require_client_auth: true\n"
    yaml = (
        f"client_encryption_options:\n  enabled: true\n  optional: true\n{encryption}"
        f"admin_encryption_options:\n  enabled: true\n{encryption}authorizer: CassandraAuthorizer\n"
        "authenticator:\n  class_name: MutualTlsWithPasswordFallbackAuthenticator\n"
        "  parameters:\n    validator_class_name: SpiffeCertificateValidator\n"
    )
    server = serve(tmp_path, yaml=yaml)

    def run(command):
        client = ["--tls-certificate", issued / "client.pem"]
        return nodetool(*client, command, ca=issued / "ca.pem", port=server.admin_port)

    code, output = run("statusbinary")
    assert code == 1 and "denies access" in output, output
    login = PlainTextAuthProvider("cassandra", "cassandra")
    with Cluster(["127.0.0.1"], port=server.port, auth_provider=login, connect_timeout=20) as cluster:
        root = cluster.connect()
        root.execute("CREATE ROLE operations WITH LOGIN = true")
        root.execute(f"ADD IDENTITY '{identity}' TO ROLE 'operations'")
        code, output = run("statusbinary")
        assert code == 1 and "operations is no superuser" in output, output
        root.execute("GRANT SELECT ON ALL MBEANS TO operations")
        assert run("statusbinary") == (0, "running\n")
        code, output = run("flush")
        assert code == 1 and "requires the level operator" in output, output
        root.execute("GRANT EXECUTE ON ALL MBEANS TO operations")
        assert run("flush") == (0, "")
        root.execute(f"DROP IDENTITY '{identity}'")
        code, output = run("statusbinary")
        assert code == 1 and "denies access" in output, output
    server.stop()


def test_unix_socket_needs_no_password(tmp_path):
    path = tmp_path / "admin.sock"
    config = ["--admin", f"unix:{path}", *OPTIONS]
    server = Server(tmp_path / "data", *config).start()
    assert server.process.stdout.readline() == f"the admin endpoint is at unix:{path}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    for address in (["--socket", path], ["-h", f"unix:{path}"]):
        command = [str(word) for word in [BINARY, "nodetool", *address]]
        done = subprocess.run([*command, "statusbinary"], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "running\n"), done.stderr
        assert subprocess.run([*command, "flush"]).returncode == 0
        tables = subprocess.run([*command, "tablestats"], capture_output=True, text=True)
        assert tables.returncode == 0 and "Keyspace: system" in tables.stdout
    server.stop()
    assert not path.exists()
    done = subprocess.run([*command, "flush"], capture_output=True, text=True)
    assert done.returncode == 1 and str(path) in done.stderr


def test_files_of_tokens_that_others_can_read_are_refused(tmp_path):
    (tmp_path / "tokens").write_text(f"operator {OPERATOR}\n")
    (tmp_path / "tokens").chmod(0o644)
    command = [BINARY, "serve", "--data", tmp_path / "data", "--listen", "0", "--admin", "127.0.0.1:0"]
    done = subprocess.run(
        [*command, "--admin-tokens-file", tmp_path / "tokens"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "admin_tokens_file" in done.stderr and "chmod 600" in done.stderr and OPERATOR not in done.stderr
