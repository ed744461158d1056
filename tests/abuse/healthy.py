"""The other client: prepared reads and writes at a steady rate from an address of its own.

Arguments: the port, the address, and, if the server requires them, a name and a password. Prints one JSON line when its
standard input closes: operations, failures, and latency percentiles in milliseconds. A latency counts from when its
request was due, so that a stalled server shows in every request it delayed.
"""

import json
import struct
import sys
import threading
import time

from wire import Client

RATE = 200


def main():
    port, source, login = int(sys.argv[1]), sys.argv[2], sys.argv[3:] or None
    client = Client(port, source, login=login)
    select = client.prepare("SELECT v FROM abuse.healthy WHERE k = ?")
    insert = client.prepare("INSERT INTO abuse.healthy (k, v) VALUES (?, ?)")
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    latencies, failures = [], 0
    started, operations = time.monotonic(), 0
    while not ended.is_set():
        due = started + operations / RATE
        time.sleep(max(0, due - time.monotonic()))
        key = struct.pack(">i", operations % 1000)
        try:
            if operations % 2:
                client.execute(select, [key])
            else:
                client.execute(insert, [key, b"x" * 100])
        except Exception as error:  # noqa: BLE001 - every failure counts, whatever it is
            failures += 1
            print(f"healthy client: {error}", file=sys.stderr)
            client = Client(port, source, login=login)
        operations += 1
        latencies.append((time.monotonic() - due) * 1000)
    latencies.sort()
    at = lambda share: round(latencies[min(len(latencies) - 1, int(len(latencies) * share))], 2)
    print(
        json.dumps(
            {"operations": operations, "failures": failures, "p50": at(0.5), "p99": at(0.99), "max": at(1.0)}
        )
    )


main()
