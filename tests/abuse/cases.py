"""The abuse: each case is what one client can do with small requests. All were found to stop an early version."""

import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from wire import EXECUTE, PREPARE, QUERY, Client, ServerError, execute_body, frame, long_string, query_body

ABUSER = "127.0.0.3"
ANSWER_SECONDS = 60


def setup(client):
    client.query(
        "CREATE KEYSPACE abuse WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    client.query("CREATE TABLE abuse.healthy (k int PRIMARY KEY, v blob)")
    client.query("CREATE TABLE abuse.product (k int, a int, b int, c int, PRIMARY KEY (k, a, b, c))")
    client.query("CREATE TABLE abuse.large (k int, c int, v blob, PRIMARY KEY (k, c))")
    client.query("CREATE TABLE abuse.numbers (k int PRIMARY KEY, d decimal, i varint, t text)")
    client.query("INSERT INTO abuse.product (k, a, b, c) VALUES (1, 1, 1, 1)")
    insert = client.prepare("INSERT INTO abuse.large (k, c, v) VALUES (?, ?, ?)")
    row = bytes(range(256)) * 4096
    for number in range(400):
        client.execute(insert, [struct.pack(">i", 1), struct.pack(">i", number), row])


def outcome(work):
    """What became of a request: `ok`, the error's code, or that the connection ended."""
    try:
        work()
        return "ok"
    except ServerError as error:
        return f"0x{error.code:04x}"
    except socket.timeout:
        return f"no answer in {ANSWER_SECONDS} s"
    except (ConnectionError, OSError):
        return "closed"


def at_once(works):
    with ThreadPoolExecutor(len(works)) as pool:
        outcomes = list(pool.map(outcome, works))
    return ", ".join(f"{outcomes.count(each)} x {each}" for each in dict.fromkeys(outcomes))


def client(port, **options):
    return Client(port, ABUSER, timeout=ANSWER_SECONDS, **options)


def int_list(count):
    return struct.pack(">i", count) + b"".join(struct.pack(">ii", 4, number) for number in range(count))


def products(port, count, clients):
    def one():
        mine = client(port)
        select = mine.prepare("SELECT * FROM abuse.product WHERE k = ? AND a IN ? AND b IN ? AND c IN ?")
        mine.execute(select, [struct.pack(">i", 1)] + [int_list(count)] * 3)

    return at_once([one] * clients)


def compressed_requests(port):
    """150 connections that each send 62 kB, which are 15 MiB of zeros."""
    insert = client(port).prepare("INSERT INTO abuse.healthy (k, v) VALUES (?, ?)")
    request = frame(EXECUTE, execute_body(insert, [struct.pack(">i", 1), bytes(15 << 20)]), compress=True)

    def one():
        mine = client(port, lz4=True)
        mine.socket.sendall(request)
        mine.receive()

    return at_once([one] * 150)


def unread_answers(port):
    """Twelve clients that select 400 MB unpaged and read nothing."""
    clients = [client(port) for _ in range(12)]
    for mine in clients:
        mine.send(QUERY, query_body("SELECT * FROM abuse.large"))
    time.sleep(10)
    for mine in clients:
        mine.close()
    return "12 closed unread"


def unread_pages(port):
    """60 clients that pipeline 21 pages of 8 MB and read nothing."""
    clients = [client(port) for _ in range(60)]
    for mine in clients:
        for stream in range(21):
            body = query_body("SELECT * FROM abuse.large LIMIT 8", page_size=8)
            mine.send(QUERY, body, stream=stream)
    time.sleep(10)
    for mine in clients:
        mine.close()
    return "60 closed unread"


def logarithms(port):
    """Eight logarithms of a decimal of 100 kB."""
    mine = client(port)
    insert = mine.prepare("INSERT INTO abuse.numbers (k, d) VALUES (?, ?)")
    inserted = outcome(
        lambda: mine.execute(insert, [struct.pack(">i", 1), struct.pack(">i", 3) + b"\x7f" * 100_000])
    )

    def one():
        client(port).query("SELECT log(d) FROM abuse.numbers WHERE k = 1")

    return f"insert {inserted}; {at_once([one] * 8)}"


def literals(port):
    """Three PREPAREs of a number of two million digits."""
    text = f"INSERT INTO abuse.numbers (k, i) VALUES (1, {'7' * 2_000_000})"
    return at_once([lambda: client(port).prepare(text)] * 3)


def nested_json(port):
    """A JSON document of 6 MB, nested three million deep."""
    document = "[" * 3_000_000 + "]" * 3_000_000
    text = f"INSERT INTO abuse.numbers JSON '{{\"k\": 1, \"t\": {document}}}'"
    return at_once([lambda: client(port).query(text)] * 3)


def wide_table(port):
    """CREATE TABLE with 100,000 columns."""
    columns = ", ".join(f"c{number} int" for number in range(100_000))
    text = f"CREATE TABLE abuse.wide (k int PRIMARY KEY, {columns})"
    return at_once([lambda: client(port).query(text)])


def long_batches(port, texts=1):
    """Three batches of 60,000 statements as text, so many of them different."""
    statements = [
        b"\x00" + long_string(f"INSERT INTO abuse.healthy (k, v) VALUES ({number}, 0x00)") + b"\x00\x00"
        for number in range(texts)
    ]
    body = b"\x01" + struct.pack(">H", 60_000) + b"".join(statements * (60_000 // texts)) + struct.pack(">HB", 1, 0)

    def one():
        mine = client(port)
        mine.send(0x0D, body)
        mine.receive()

    return at_once([one] * 3)


def idle_connections(port):
    """1,100 connections that say nothing, and 400 in the middle of a message."""
    sockets = []
    refused = 0
    for number in range(1500):
        try:
            one = socket.create_connection(("127.0.0.1", port), 5, (ABUSER, 0))
            if number >= 1100:
                one.sendall(frame(PREPARE, bytes(16 << 20))[:9])
            sockets.append(one)
        except OSError:
            refused += 1
    time.sleep(5)
    for one in sockets:
        one.close()
    return f"{len(sockets)} accepted by the kernel, {refused} refused"


CASES = {
    "IN product of 300 x 300 x 300": lambda port: products(port, 300, 1),
    "three IN products of 180 x 180 x 180": lambda port: products(port, 180, 3),
    "150 requests that decompress to 15 MiB": compressed_requests,
    "12 unpaged answers of 400 MB, unread": unread_answers,
    "60 clients with 21 pages of 8 MB, unread": unread_pages,
    "8 logarithms of a decimal of 100 kB": logarithms,
    "3 literals of 2,000,000 digits": literals,
    "3 JSON documents nested 3,000,000 deep": nested_json,
    "a table of 100,000 columns": wide_table,
    "3 batches of 60,000 texts": long_batches,
    "3 batches of 60,000 different texts": lambda port: long_batches(port, 60_000),
    "1,500 idle connections": idle_connections,
}

#: The cases whose server may open 1,024 files.
WITH_FEW_DESCRIPTORS = {"1,500 idle connections"}


def busy(port):
    """Requests that still run when SIGTERM comes. The connections are held by what is returned."""
    mine = [client(port) for _ in range(4)]
    for one in mine:
        one.send(QUERY, query_body("SELECT log(d) FROM abuse.numbers WHERE k = 1"))
    products_client = client(port)
    select = products_client.prepare("SELECT * FROM abuse.product WHERE k = ? AND a IN ? AND b IN ? AND c IN ?")
    products_client.send(EXECUTE, execute_body(select, [struct.pack(">i", 1)] + [int_list(100)] * 3))
    threading.Event().wait(0.5)
    return [*mine, products_client]
