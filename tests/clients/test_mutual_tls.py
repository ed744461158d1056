"""Logins with certificates: MutualTlsAuthenticator and MutualTlsWithPasswordFallbackAuthenticator."""

import socket
import ssl
import subprocess

import pytest
from cassandra import InvalidRequest, Unauthorized
from cassandra.auth import AuthProvider, Authenticator, PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable

from server import BINARY, Server

IDENTITY = "spiffe://example.com/app"
CLASSES = {"mutual": "MutualTlsAuthenticator", "fallback": "MutualTlsWithPasswordFallbackAuthenticator"}


class Certificate(AuthProvider, Authenticator):
    """Sends an empty token: the certificate is the credential."""

    def new_authenticator(self, host):
        return self

    def initial_response(self):
        return b""


def certificates(directory, *options):
    subprocess.run([BINARY, "certificates", directory, *options], capture_output=True, check=True)
    return directory


@pytest.fixture(scope="module")
def issued(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("mtls") / "certificates", "--client-uri", IDENTITY)


def serve(folder, authenticator, issued, require_client_auth="true", optional="false"):
    text = "client_encryption_options:\n  enabled: true\n"
    text += f"  optional: {optional}\n  require_client_auth: {require_client_auth}\n"
    text += f"  keystore: {issued / 'server.pem'}\n  truststore: {issued / 'ca.pem'}\n"
    text += "authorizer: CassandraAuthorizer\n"
    text += f"authenticator:\n  class_name: org.apache.cassandra.auth.{authenticator}\n"
    if authenticator in CLASSES.values():
        text += "  parameters:\n    validator_class_name: SpiffeCertificateValidator\n"
    (folder / "cassandra.yaml").write_text(text)
    return Server(folder / "data", "--config", folder / "cassandra.yaml", "--admin", "off")


def connect(server, issued, client="client.pem", auth=None):
    context = ssl.create_default_context(cafile=issued / "ca.pem")
    if client:
        context.load_cert_chain(issued / client)
    options = {"ssl_context": context, "ssl_options": {"server_hostname": "localhost"}}
    return Cluster(["127.0.0.1"], port=server.port, connect_timeout=20, auth_provider=auth or Certificate(), **options)


def refusal(*arguments, **options):
    with connect(*arguments, **options) as cluster, pytest.raises(NoHostAvailable) as refused:
        cluster.connect()
    return str(refused.value)


def test_certificate_logs_in_as_the_role_of_its_identity(issued, tmp_path):
    server = serve(tmp_path, "PasswordAuthenticator", issued).start()
    with connect(server, issued, auth=PlainTextAuthProvider("cassandra", "cassandra")) as cluster:
        root = cluster.connect()
        root.execute("CREATE ROLE app WITH LOGIN = true")
        root.execute("CREATE ROLE off")
        root.execute(f"ADD IDENTITY '{IDENTITY}' TO ROLE 'app'")
        with pytest.raises(InvalidRequest, match=f"{IDENTITY} already exists"):
            root.execute(f"ADD IDENTITY '{IDENTITY}' TO ROLE 'off'")
        assert [tuple(row) for row in root.execute("SELECT * FROM system_auth.identity_to_role")] == [(IDENTITY, "app")]
        root.execute("GRANT SELECT ON system_auth.identity_to_role TO app")
        root.execute("GRANT CREATE, ALTER, DROP ON ALL ROLES TO app")
    server.stop()

    server = serve(tmp_path, CLASSES["mutual"], issued).start()
    with connect(server, issued) as cluster:
        app = cluster.connect()
        assert app.execute("LIST ROLES OF app").one().role == "app"
        assert app.execute("SELECT role FROM system_auth.identity_to_role").one().role == "app"
        with pytest.raises(Unauthorized, match="You aren't allowed to alter PASSWORD"):
            app.execute("ALTER ROLE app WITH PASSWORD = 'geheim'")
        # Another login, whatever its token.
        with connect(server, issued, auth=PlainTextAuthProvider("cassandra", "cassandra")) as other:
            other.connect().execute("SELECT key FROM system.local")
        app.execute("ALTER ROLE off WITH LOGIN = false")
        app.execute(f"DROP IDENTITY '{IDENTITY}'")
        unauthorized = f'message="Certificate identity \'{IDENTITY}\' not authorized"'
        assert unauthorized in refusal(server, issued).replace('\\"', '"').replace("\\'", "'")
        app.execute(f"ADD IDENTITY '{IDENTITY}' TO ROLE 'off'")
        assert "off is not permitted to log in" in refusal(server, issued)
        app.execute("DROP ROLE off")
        assert app.execute("SELECT * FROM system_auth.identity_to_role").one() is None
    server.stop()


def test_certificates_without_an_identity_are_refused(issued, tmp_path):
    server = serve(tmp_path, CLASSES["mutual"], issued, optional="true").start()
    plain = Cluster(["127.0.0.1"], port=server.port, connect_timeout=20, auth_provider=Certificate())
    with plain as cluster, pytest.raises(NoHostAvailable, match="Invalid or not supported certificate"):
        cluster.connect()
    server.stop()

    anonymous = certificates(tmp_path / "anonymous", "--client-uri", "https://example.com/app")
    (tmp_path / "other").mkdir()
    server = serve(tmp_path / "other", CLASSES["mutual"], anonymous).start()
    assert "Unable to extract Spiffe from the certificate" in refusal(server, anonymous)
    server.stop()


def test_clients_without_certificate_fall_back_to_passwords(issued, tmp_path):
    server = serve(tmp_path, CLASSES["fallback"], issued, require_client_auth="optional").start()
    passwords = PlainTextAuthProvider("cassandra", "cassandra")
    with connect(server, issued, client=None, auth=passwords) as cluster:
        root = cluster.connect()
        # A certificate that is not authorized is no reason to fall back.
        assert "not authorized" in refusal(server, issued, auth=passwords)
        root.execute("CREATE ROLE app WITH LOGIN = true AND PASSWORD = 'geheim'")
        root.execute(f"ADD IDENTITY '{IDENTITY}' TO ROLE 'app'")
        with connect(server, issued) as app:
            app.connect().execute("SELECT key FROM system.local")
            clients = root.execute("SELECT username FROM system_views.clients")
            assert {row.username for row in clients} >= {"cassandra", "app"}
    wrong = PlainTextAuthProvider("app", "falsch")
    assert "Provided username app and/or password are incorrect" in refusal(server, issued, client=None, auth=wrong)
    server.stop()


@pytest.mark.parametrize("kind", CLASSES)
def test_server_does_not_start_without_certificates_of_clients(kind, issued, tmp_path):
    server = serve(tmp_path, CLASSES[kind], issued, require_client_auth="false")
    command = [BINARY, "serve", "--data", tmp_path / "data", "--listen", "0", *server.options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert f"{CLASSES[kind]} requires client_encryption_options.enabled to be true" in done.stderr


def test_sessions_are_not_resumed_where_certificates_are_verified(issued, tmp_path):
    server = serve(tmp_path, CLASSES["mutual"], issued).start()
    context = ssl.create_default_context(cafile=issued / "ca.pem")
    context.load_cert_chain(issued / "client.pem")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    session = None
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as plain:
            with context.wrap_socket(plain, server_hostname="localhost", session=session) as encrypted:
                assert not encrypted.session_reused
                session = encrypted.session
    server.stop()
