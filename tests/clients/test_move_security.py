"""`cassette move` between servers that require TLS and logins, and what it reports if these are wrong."""

import os
import ssl
import subprocess

import pytest
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster

from server import BINARY, Server

ROOT = ("cassandra", "cassandra")


def certificates(folder):
    subprocess.run([BINARY, "certificates", folder], capture_output=True, check=True)
    return folder


class Secured:
    """A server that requires TLS, a certificate of the client if `require_client_auth`, and a password."""

    def __init__(self, folder, require_client_auth=False):
        folder.mkdir()
        self.files = certificates(folder / "certificates")
        self.require_client_auth = require_client_auth
        (folder / "cassandra.yaml").write_text(
            "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n"
            f"client_encryption_options:\n  enabled: true\n  keystore: {self.files / 'server.pem'}\n"
            f"  truststore: {self.files / 'ca.pem'}\n  require_client_auth: {str(require_client_auth).lower()}\n"
        )
        self.server = Server(folder / "data", "--config", folder / "cassandra.yaml", "--admin", "off").start()

    def connect(self):
        context = ssl.create_default_context(cafile=self.files / "ca.pem")
        if self.require_client_auth:
            context.load_cert_chain(self.files / "client.pem")
        return Cluster(
            ["127.0.0.1"],
            port=self.server.port,
            connect_timeout=20,
            auth_provider=PlainTextAuthProvider(*ROOT),
            ssl_context=context,
            ssl_options={"server_hostname": "localhost"},
        )

    def execute(self, *statements):
        with self.connect() as cluster:
            session = cluster.connect()
            return [session.execute(statement).all() for statement in statements][-1]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    source = Secured(tmp_path_factory.mktemp("move") / "source")
    source.execute(
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.orders (id int PRIMARY KEY, what text)",
        *(f"INSERT INTO shop.orders (id, what) VALUES ({n}, 'thing {n}') USING TIMESTAMP {n + 1}" for n in range(20)),
        "CREATE ROLE reader WITH PASSWORD = 'reads' AND LOGIN = true",
        "GRANT SELECT ON KEYSPACE shop TO reader",
        "CREATE ROLE stranger WITH PASSWORD = 'strange' AND LOGIN = true",
    )
    yield source
    source.server.stop()


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    target = Secured(tmp_path_factory.mktemp("move") / "target", require_client_auth=True)
    target.execute(
        "CREATE ROLE writer WITH PASSWORD = 'writes' AND LOGIN = true",
        "GRANT CREATE ON ALL KEYSPACES TO writer",
        "CREATE ROLE powerless WITH PASSWORD = 'none' AND LOGIN = true",
    )
    yield target
    target.server.stop()


@pytest.fixture
def move(source, target, tmp_path):
    """Runs a move: (exit code, output). Options replace those of a move that works."""

    def move(*words, **replaced):
        def private(name, text):
            path = tmp_path / name
            path.touch(mode=0o600)
            path.write_text(text)
            return path

        options = {
            "from": f"localhost:{source.server.port}",
            "from_user": "reader",
            "from_password_file": private("from", "reads\n"),
            "from_tls_ca": source.files / "ca.pem",
            "to": f"localhost:{target.server.port}",
            "user": "writer",
            "password_file": private("to", "writes\n"),
            "tls_ca": target.files / "ca.pem",
            "tls_certificate": target.files / "client.pem",
            "keyspace": "shop",
            "progress": tmp_path / "progress",
            "patience": 2,
            **replaced,
        }
        for name in ("password_file", "from_password_file"):
            if isinstance(options[name], str):
                options[name] = private(f"wrong-{name}", options[name])
        given = [part for name, value in options.items() if value for part in (f"--{name.replace('_', '-')}", value)]
        command = [str(part) for part in (BINARY, "move", *given, *words)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CASSETTE_LOG": "error"})
        return done.returncode, done.stdout + done.stderr

    return move


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"password_file": "wrong"}, "incorrect"),
        ({"from_password_file": "wrong"}, "incorrect"),
        ({"tls_certificate": None}, "certificate"),
        ({"from_user": None, "from_password_file": None}, "it requires a user and a password file"),
        ({"from_user": "stranger", "from_password_file": "strange"}, "SELECT"),
        ({"user": "powerless", "password_file": "none"}, "CREATE"),
    ],
)
def test_wrong_credentials_are_reported_and_nothing_is_created(wrong, message, move, target):
    code, output = move(**wrong)
    assert code != 0 and message in output, output
    assert "panicked" not in output and "wrong\n" not in output
    assert not target.execute("SELECT * FROM system_schema.keyspaces WHERE keyspace_name = 'shop'")


def test_server_of_a_foreign_authority_is_refused(source, target, move):
    code, output = move(tls_ca=source.files / "ca.pem")
    assert code != 0 and "certificate" in output, output
    code, output = move(from_tls_ca=target.files / "ca.pem")
    assert code != 0 and "certificate" in output, output


def test_keyspace_moves_with_the_least_permissions(source, target, move):
    code, output = move()
    assert code == 0, output
    code, output = move("--verify")
    assert code == 0, output
    rows = "SELECT id, what, writetime(what) FROM shop.orders"
    assert sorted(target.execute(rows)) == sorted(source.execute(rows))
