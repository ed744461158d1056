"""TLS with unmodified clients, and certificates of `cassette certificates`."""

import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cassandra.cluster import Cluster, NoHostAvailable

from server import BINARY, ROOT, Server

CQLSH = Path(sys.executable).parent / "cqlsh"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls") / "certificates"
    done = subprocess.run([BINARY, "certificates", directory], capture_output=True, text=True, check=True)
    assert "client_encryption_options:\n  enabled: true\n" in done.stdout
    return directory


def serve(folder, certificates, *arguments, **options):
    options = {"enabled": "true", "keystore": certificates / "server.pem", **options}
    lines = "".join(f"  {key}: {value}\n" for key, value in options.items())
    (folder / "cassandra.yaml").write_text(f"client_encryption_options:\n{lines}")
    return Server(folder / "data", "--config", folder / "cassandra.yaml", *arguments).start()


@pytest.fixture(scope="module")
def server(certificates, tmp_path_factory):
    server = serve(tmp_path_factory.mktemp("required"), certificates)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def mutual(certificates, tmp_path_factory):
    options = {"truststore": certificates / "ca.pem", "require_client_auth": "true"}
    server = serve(tmp_path_factory.mktemp("mutual"), certificates, **options)
    yield server
    server.stop()


def context(certificates, client=False):
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    if client:
        context.load_cert_chain(certificates / "client.pem")
    return context


def connect(server, context=None, **options):
    if context:
        options |= {"ssl_context": context, "ssl_options": {"server_hostname": "localhost"}}
    return Cluster(["127.0.0.1"], port=server.port, connect_timeout=20, **options)


def test_driver_writes_and_reads_large_values_encrypted(server, certificates):
    with connect(server, context(certificates)) as cluster:
        session = cluster.connect()
        session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE k.t (k int PRIMARY KEY, v blob)")
        insert = session.prepare("INSERT INTO k.t (k, v) VALUES (?, ?)")
        values = [os.urandom(length) for length in (1, 16_384, 65_536, 3_000_000)]
        for number, value in enumerate(values):
            session.execute(insert, (number, value))
        rows = {row.k: row.v for row in session.execute("SELECT k, v FROM k.t")}
        assert rows == dict(enumerate(values))
        clients = session.execute("SELECT ssl_enabled, ssl_protocol, ssl_cipher_suite FROM system_views.clients")
        assert {tuple(row) for row in clients} == {(True, "TLSv1.3", "TLS_AES_256_GCM_SHA384")}


def test_plain_client_is_refused(server):
    with pytest.raises(NoHostAvailable):
        connect(server).connect()


def test_client_that_trusts_another_authority_refuses_the_server(server):
    with pytest.raises(NoHostAvailable, match="CERTIFICATE_VERIFY_FAILED"):
        connect(server, ssl.create_default_context()).connect()


def test_cqlsh_connects(server, certificates):
    done = subprocess.run(
        [CQLSH, "127.0.0.1", str(server.port), "--ssl", "-e", "SELECT ssl_enabled FROM system_views.clients"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HOME": "/nonexistent", "SSL_CERTFILE": str(certificates / "ca.pem"), "SSL_VALIDATE": "true"},
    )
    # The name in the certificate covers the address.
    assert done.returncode == 0, done.stderr
    assert "True" in done.stdout


def test_client_needs_a_certificate_of_the_authority(mutual, certificates, tmp_path):
    with connect(mutual, context(certificates, client=True)) as cluster:
        assert cluster.connect().execute("SELECT key FROM system.local").one().key == "local"
    with pytest.raises(NoHostAvailable):
        connect(mutual, context(certificates)).connect()
    subprocess.run([BINARY, "certificates", tmp_path / "foreign"], capture_output=True, check=True)
    foreign = context(certificates)
    foreign.load_cert_chain(tmp_path / "foreign" / "client.pem")
    with pytest.raises(NoHostAvailable):
        connect(mutual, foreign).connect()


@pytest.mark.parametrize("store", ["java.p12", "java-legacy.p12", "java.jks", "openssl.p12"])
def test_keystores_of_java_and_openssl_are_read(store, certificates, tmp_path):
    stores = ROOT / "crates" / "tls" / "testdata" / "keystores"
    (tmp_path / "password").write_text("changeit\n")
    server = serve(
        tmp_path,
        certificates,
        keystore=stores / store,
        keystore_password_file=tmp_path / "password",
        truststore=stores / "java-trust.jks",
        truststore_password="changeit",
        require_client_auth="true",
    )
    trusting = ssl.create_default_context(cafile=stores / "ca.pem")
    trusting.load_cert_chain(stores / "certificate.pem", stores / "key.pem")
    with connect(server, trusting) as cluster:
        assert cluster.connect().execute("SELECT key FROM system.local").one().key == "local"
    server.stop()


def test_wrong_password_of_a_keystore_is_an_error_that_names_the_key(tmp_path):
    keystore = ROOT / "crates" / "tls" / "testdata" / "keystores" / "java.p12"
    (tmp_path / "cassandra.yaml").write_text(
        f"client_encryption_options:\n  enabled: true\n  keystore: {keystore}\n  keystore_password: changed\n"
    )
    command = [BINARY, "serve", "--data", tmp_path / "data", "--listen", "0", "--config", tmp_path / "cassandra.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "the password does not open the keystore; set it with keystore_password" in done.stderr
    assert "changed" not in done.stderr + done.stdout


def test_reloadssl_uses_replaced_certificates_at_once(certificates, tmp_path):
    subprocess.run([BINARY, "certificates", tmp_path / "new"], capture_output=True, check=True)
    (tmp_path / "server.pem").write_bytes((certificates / "server.pem").read_bytes())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        admin = free.getsockname()[1]
    server = serve(tmp_path, certificates, "--admin", f"127.0.0.1:{admin}", keystore=tmp_path / "server.pem")
    with connect(server, context(certificates)) as cluster:
        cluster.connect()
    (tmp_path / "server.pem").write_bytes((tmp_path / "new" / "server.pem").read_bytes())
    done = subprocess.run([BINARY, "nodetool", "-p", str(admin), "reloadssl"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with connect(server, context(tmp_path / "new")) as cluster:
        cluster.connect()
    (tmp_path / "server.pem").write_text("damaged")
    done = subprocess.run([BINARY, "nodetool", "-p", str(admin), "reloadssl"], capture_output=True, text=True)
    assert done.returncode != 0 and "server.pem: expected a private key" in done.stderr
    with connect(server, context(tmp_path / "new")) as cluster:
        cluster.connect()
    server.stop()


def test_lab_measures_encrypted_connections(mutual, certificates, tmp_path):
    files = ["--tls-ca", certificates / "ca.pem", "--tls-certificate", certificates / "client.pem"]
    sizes = ["--records", "200", "--operations", "2000", "--workload", "a", "--threads", "8"]

    def lab(*options):
        command = [BINARY, "lab", "ycsb", "--no-json", "--engine", "cql", "--contact", f"127.0.0.1:{mutual.port}"]
        words = [str(word) for word in [*command, *sizes, *options]]
        return subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=tmp_path)

    done = lab(*files)
    assert done.returncode == 0, done.stderr
    subprocess.run([BINARY, "certificates", tmp_path / "foreign"], capture_output=True, check=True)
    refused = lab("--tls-ca", tmp_path / "foreign" / "ca.pem")
    assert refused.returncode != 0 and "signed by an unknown authority" in refused.stderr
    refused = lab("--tls-ca", certificates / "ca.pem")
    assert refused.returncode != 0 and "requires a certificate of the client" in refused.stderr, refused.stderr


def test_optional_encryption_serves_both(certificates, tmp_path):
    server = serve(tmp_path, certificates, optional="true")
    for encryption in (None, context(certificates)):
        with connect(server, encryption) as cluster:
            row = cluster.connect().execute("SELECT ssl_enabled FROM system_views.clients").one()
            assert row.ssl_enabled is (encryption is not None)
    server.stop()


def test_certificates_are_never_overwritten(certificates):
    before = (certificates / "ca-key.pem").read_bytes()
    assert oct((certificates / "ca-key.pem").stat().st_mode)[-3:] == "600"
    done = subprocess.run([BINARY, "certificates", certificates], capture_output=True, text=True)
    assert done.returncode != 0 and "cannot create" in done.stderr
    assert (certificates / "ca-key.pem").read_bytes() == before


def test_unfinished_and_false_handshakes_do_not_keep_others_out(server, certificates):
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    for number, connection in enumerate(idle):
        connection.sendall(os.urandom(600) if number % 2 else b"\x16\x03\x01\x02\x00")
    with connect(server, context(certificates)) as cluster:
        assert cluster.connect().execute("SELECT key FROM system.local").one().key == "local"
    for connection in idle:
        connection.close()


def test_damaged_keystore_is_an_error_that_names_the_file(certificates, tmp_path):
    (tmp_path / "cassandra.yaml").write_text(
        f"client_encryption_options:\n  enabled: true\n  keystore: {certificates / 'ca.pem'}\n"
    )
    command = [BINARY, "serve", "--data", tmp_path / "data", "--listen", "0", "--config", tmp_path / "cassandra.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "client_encryption_options" in done.stderr and "expected a private key" in done.stderr
