#!/usr/bin/env python3
"""What passwords and TLS cost: new connections, and another client's latency while one guesses passwords.

    benches/security.py [BINARY] [--rounds 5] [--guesses 1000] [--seconds 10]

Prints medians with their range over the rounds. A guess is a connection of its own, with a wrong password, from one
address; the other client, at another address, reads and writes 200 times a second as in `make abuse`.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "abuse"), str(ROOT / "tests" / "clients")]

import server as served  # noqa: E402
from wire import Client  # noqa: E402

GUESSER, HEALTHY = "127.0.0.1", "127.0.0.2"
THREADS = 4
CONNECTIONS = 200
PASSWORD = "correct horse"
LOGIN = ("cassandra", PASSWORD)
PASSWORDS = "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n"


def start(binary, folder, configuration):
    (folder / "cassandra.yaml").write_text(configuration)
    (folder / "password").write_text(f"{PASSWORD}\n")
    options = ["--config", folder / "cassandra.yaml", "--admin", "off"]
    if PASSWORDS in configuration:
        options += ["--superuser-password-file", folder / "password"]
    return served.Server(folder / "data", *options, command=(binary,)).start()


def connecting(port, **options):
    """The median time of a new connection until it can send requests, in milliseconds."""
    times = []
    for _ in range(CONNECTIONS):
        began = time.perf_counter()
        Client(port, HEALTHY, **options).close()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def frame(opcode, body):
    """A frame of version 4: version, flags, stream (2 bytes), opcode, length of the body, body."""
    return struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body


VERSION, TOKEN = b"\0\1\0\x0bCQL_VERSION\0\x053.0.0", b"\0cassandra\0wrong"
STARTUP, AUTH_RESPONSE = frame(1, VERSION), frame(15, struct.pack(">i", len(TOKEN)) + TOKEN)
ERROR, AUTHENTICATE = 0, 3


def exchange(connection, request):
    """Sends a request. Returns the opcode of the answer."""
    connection.sendall(request)
    answer = connection.recv(4096)
    return answer[4] if len(answer) >= 9 else None


def guess(port, rate, seconds):
    """Sends wrong passwords at a steady rate. Returns the number."""
    began, sent = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        time.sleep(max(0, began + sent / rate - time.monotonic()))
        with socket.create_connection(("127.0.0.1", port), source_address=(GUESSER, 0)) as connection:
            assert exchange(connection, STARTUP) == AUTHENTICATE
            assert exchange(connection, AUTH_RESPONSE) == ERROR
        sent += 1
    return sent


def guess_from_threads(port, rate, seconds, counts):
    """Sends wrong passwords from several connections at a time. Puts the number into `counts`.

    An attacker has a machine of its own: the threads use only processor time that nothing else wants.
    """
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        guesses = [threads.submit(guess, port, rate / THREADS, seconds) for _ in range(THREADS)]
        counts.put(sum(guess.result() for guess in guesses))


def healthy(port, guesses, seconds):
    """p50 and p99 of the other client, in milliseconds, and the guesses a second that were made meanwhile."""
    command = [sys.executable, ROOT / "tests" / "abuse" / "healthy.py", str(port), HEALTHY, *LOGIN]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    counts = multiprocessing.Queue()
    guesser = multiprocessing.Process(target=guess_from_threads, args=(port, guesses, seconds, counts))
    if guesses:
        guesser.start()
    time.sleep(seconds)
    made = counts.get() if guesses else 0
    if guesses:
        guesser.join()
    out, _ = client.communicate(timeout=60)
    result = json.loads(out)
    assert not result["failures"], result
    return result["p50"], result["p99"], made / seconds


def shown(values, unit):
    return f"{statistics.median(values):.2f} {unit} ({min(values):.2f}-{max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default=ROOT / "target" / "release" / "cassette")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--guesses", type=int, default=1000, help="a second")
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        certificates = folder / "certificates"
        subprocess.run([options.binary, "certificates", certificates], check=True, stdout=subprocess.DEVNULL)
        context = ssl.create_default_context(cafile=certificates / "ca.pem")
        encryption = (
            f"client_encryption_options:\n  enabled: true\n  optional: true\n  keystore: {certificates}/server.pem\n"
        )
        for name in ("open", "secured"):
            (folder / name).mkdir()
        open_server = start(options.binary, folder / "open", encryption)
        secured = start(options.binary, folder / "secured", PASSWORDS + encryption)
        setup = Client(secured.port, HEALTHY, login=LOGIN)
        setup.query("CREATE KEYSPACE abuse WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        setup.query("CREATE TABLE abuse.healthy (k int PRIMARY KEY, v blob)")
        kinds = {
            "plaintext": (open_server, {}),
            "TLS 1.3": (open_server, {"tls": context}),
            "plaintext, password": (secured, {"login": LOGIN}),
            "TLS 1.3, password": (secured, {"login": LOGIN, "tls": context}),
        }
        times = {kind: [] for kind in kinds}
        latencies = {0: [], options.guesses: []}
        for _ in range(options.rounds):
            for kind, (server, how) in kinds.items():
                times[kind].append(connecting(server.port, **how))
            for guesses, results in latencies.items():
                results.append(healthy(secured.port, guesses, options.seconds))
        for kind, values in times.items():
            print(f"new connection, {kind:20} {shown(values, 'ms')}")
        for results in latencies.values():
            p50, p99, made = zip(*results)
            print(f"{statistics.median(made):6.0f} failed logins/s: p50 {shown(p50, 'ms')}, p99 {shown(p99, 'ms')}")
        open_server.stop()
        secured.stop()


if __name__ == "__main__":
    main()
