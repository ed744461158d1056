"""Backups in an object store, by a server of S3's interface in this process."""

import json
import os
import socket
import subprocess
import threading
import time

import boto3
import moto.server
import pytest
import werkzeug.serving
from conftest import connect
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from server import BINARY, Server, free_port

SECRET = "a-secret-that-no-file-contains"


@pytest.fixture
def store(monkeypatch):
    port = free_port()
    server = moto.server.ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    endpoint = f"http://127.0.0.1:{port}"
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket="bucket")
    yield client
    server.stop()


def run(*words, ok=True):
    done = subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout + done.stderr


def objects(client, prefix=""):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=prefix)
    return {found["Key"]: found["Size"] for page in pages for found in page.get("Contents", [])}


def session_of(server):
    return connect("127.0.0.1", server.port).connect()


def count(session, table):
    return len(list(session.execute(f"SELECT k FROM {table}")))


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_server_backs_up_to_s3_on_a_schedule_and_is_restored_to_a_moment(store, tmp_path):
    url = "s3://bucket/node one"
    run("backup", "list", url, ok=False)
    admin = free_port()
    options = ["--admin", f"127.0.0.1:{admin}", "--backup-to", "s3://bucket/node", "--backup-every", "3s", "--keep", "2"]
    url = "s3://bucket/node"
    server = Server(tmp_path / "data", *options, "--archive-commitlog").start()
    nodetool = ["nodetool", "-p", admin]
    session = session_of(server)
    session.execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
    # More than one part of a multipart upload: 24 MB that cannot be compressed.
    for k in range(24):
        session.execute("INSERT INTO ks.t (k, v) VALUES (%s, %s)", (k, os.urandom(500_000).hex()))
    wait_until(lambda: len(json.loads(run("backup", "list", "--json", url))) >= 2)
    # Not beside a scheduled one.
    backup = [str(BINARY), *map(str, nodetool), "backup", url, "--name", "mine"]
    wait_until(lambda: subprocess.run(backup, capture_output=True, check=False).returncode == 0)
    session.execute("INSERT INTO ks.t (k, v) VALUES (1000, 'after')")
    assert "archived" in run(*nodetool, "archivecommitlog")
    status = run(*nodetool, "backupstatus")
    assert "every 3 s" in status and url in status, status
    # A scheduled backup is refused while another one, as that above, is made.
    errors = [line for line in status.splitlines() if "last error" in line]
    assert all("another command changes the backups" in line for line in errors), status
    wait_until(lambda: len([name for name in objects(store, "node/backups/") if "auto-" in name]) <= 2)
    session.cluster.shutdown()
    server.stop()
    run("backup", "verify", url)
    run("backup", "restore", url, "--data", tmp_path / "restored", "--until", "latest")
    run("backup", "restore", url, "--data", tmp_path / "as-mine", "--name", "mine")
    for data, expected in [("restored", 25), ("as-mine", 24)]:
        restored = Server(tmp_path / data).start()
        session = session_of(restored)
        assert count(session, "ks.t") == expected
        session.cluster.shutdown()
        restored.stop()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    for name in objects(store):
        assert SECRET.encode() not in store.get_object(Bucket="bucket", Key=name)["Body"].read()
    for backup in json.loads(run("backup", "list", "--json", url)):
        run("backup", "remove", url, backup["name"])
    assert not [name for name in objects(store, "node/") if "/files/" in name or "/backups/" in name]


def test_an_unreachable_store_and_a_missing_bucket_are_one_sentence(store, tmp_path, monkeypatch):
    server = Server(tmp_path / "data").start()
    server.stop()
    error = run("backup", "create", "s3://missing/prefix", "--data", tmp_path / "data", ok=False)
    assert "s3://missing/prefix" in error and SECRET not in error, error
    run("backup", "create", "s3://bucket/prefix", "--data", tmp_path / "data", "--name", "one")
    for name, size in objects(store, "prefix/files/").items():
        body = store.get_object(Bucket="bucket", Key=name)["Body"].read()
        store.put_object(Bucket="bucket", Key=name, Body=bytes([body[0] ^ 1]) + body[1:])
        break
    error = run("backup", "verify", "s3://bucket/prefix", ok=False)
    assert "damaged" in error and name.removeprefix("prefix/") in error, error
    assert not (tmp_path / "restored").exists()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
        error = run("backup", "list", "s3://bucket/prefix", ok=False)
        assert "s3://bucket/prefix" in error and "AWS_ENDPOINT_URL" in error, error


def https_store(certificates, monkeypatch):
    """Starts a store behind TLS, and points the environment to it."""
    # The certificate and its key.
    files = (str(certificates / "server.pem"), str(certificates / "server.pem"))
    application = DomainDispatcherApplication(create_backend_app)
    server = werkzeug.serving.make_server("127.0.0.1", 0, application, threaded=True, ssl_context=files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"https://127.0.0.1:{server.port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    return server, endpoint


def test_a_store_behind_tls_needs_the_authority_that_signed_its_certificate(store, tmp_path, monkeypatch):
    run("certificates", tmp_path / "certificates")
    authority = tmp_path / "certificates" / "ca.pem"
    secure, endpoint = https_store(tmp_path / "certificates", monkeypatch)
    boto3.client("s3", endpoint_url=endpoint, verify=str(authority)).create_bucket(Bucket="secure")
    server = Server(tmp_path / "data").start()
    server.stop()
    url = "s3://secure/prefix"
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    error = run("backup", "create", url, "--data", tmp_path / "data", ok=False)
    assert "signed by an unknown authority: specify its certificate, in PEM, in AWS_CA_BUNDLE" in error, error
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
    run("backup", "create", url, "--data", tmp_path / "data")
    run("backup", "verify", url)
    run("backup", "restore", url, "--data", tmp_path / "restored")
    secure.shutdown()
    run("certificates", tmp_path / "other", "--name", "other.example")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "other" / "ca.pem"))
    secure, _ = https_store(tmp_path / "other", monkeypatch)
    error = run("backup", "list", url, ok=False)
    assert "the server's certificate is not for this name" in error, error
    secure.shutdown()
