"""The Python driver, unmodified: schema, every type, prepared statements, paging, batches, conditions, restarts."""

import datetime
import decimal
import uuid
from collections import namedtuple

import pytest
from cassandra import AlreadyExists, InvalidRequest
from cassandra.query import BatchStatement, BatchType, SimpleStatement
from cassandra.util import Date, Duration, OrderedMapSerializedKey, SortedSet, Time

from conftest import connect
from server import Server

SCALARS = {
    "ascii": "plain",
    "bigint": -(2**63),
    "blob": b"\x00\xff",
    "boolean": True,
    "date": Date("2021-03-04"),
    "decimal": decimal.Decimal("-123.456e-7"),
    "double": 1.5e-300,
    "duration": Duration(14, 3, 5_000_000_000),
    "float": -2.5,
    "inet": "2001:db8::1",
    "int": 2**31 - 1,
    "smallint": -(2**15),
    "text": "ünï ☃",
    "time": Time("08:12:54.123456789"),
    "timestamp": datetime.datetime(2021, 3, 4, 5, 6, 7, 89000),
    "timeuuid": uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f"),
    "tinyint": -128,
    "uuid": uuid.UUID("123e4567-e89b-42d3-a456-426655440000"),
    "varint": -(10**40),
}


def test_every_scalar_comes_back_as_it_was_bound(session):
    columns = ", ".join(f"c_{name} {name}" for name in SCALARS)
    session.execute(f"CREATE TABLE scalars (k int PRIMARY KEY, {columns})")
    names = ", ".join(f"c_{name}" for name in SCALARS)
    marks = ", ".join("?" for _ in SCALARS)
    insert = session.prepare(f"INSERT INTO scalars (k, {names}) VALUES (?, {marks})")
    select = session.prepare(f"SELECT {names} FROM scalars WHERE k = ?")
    session.execute(insert, [1, *SCALARS.values()])
    session.execute(insert, [2, *[None for _ in SCALARS]])
    assert list(session.execute(select, [1]).one()) == list(SCALARS.values())
    assert set(session.execute(select, [2]).one()) == {None}


def test_collections_and_nested_types_come_back_as_they_were_bound(session):
    session.execute("CREATE TYPE place (street text, number int, tags frozen<set<text>>)")
    session.execute(
        "CREATE TABLE nested (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, bigint>, t tuple<int, text, boolean>,"
        " p place, fp frozen<place>, d map<int, frozen<list<frozen<tuple<text, int>>>>>)"
    )
    Place = namedtuple("Place", ["street", "number", "tags"])
    insert = session.prepare("INSERT INTO nested (k, l, s, m, t, p, fp, d) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
    place = Place("Main", 5, SortedSet({"a", "b"}))
    values = [[3, 1, 2], {"y", "x"}, {"b": 2, "a": 1}, (1, "one", True), place, place, {7: [("a", 1), ("b", 2)]}]
    session.execute(insert, [1, *values])
    row = session.execute("SELECT l, s, m, t, p, fp, d FROM nested WHERE k = 1").one()
    assert row[0] == [3, 1, 2]
    assert row[1] == SortedSet({"x", "y"})
    assert dict(row[2]) == {"a": 1, "b": 2}
    assert row[3] == (1, "one", True)
    assert tuple(row[4]) == place and tuple(row[5]) == place
    assert isinstance(row[6], OrderedMapSerializedKey) and dict(row[6]) == {7: [("a", 1), ("b", 2)]}
    update = session.prepare("UPDATE nested SET l = l + ?, s = s - ?, m[?] = ? WHERE k = ?")
    session.execute(update, [[9], {"x"}, "c", 3, 1])
    row = session.execute("SELECT l, s, m FROM nested WHERE k = 1").one()
    assert (row[0], list(row[1]), dict(row[2])) == ([3, 1, 2, 9], ["y"], {"a": 1, "b": 2, "c": 3})


def test_a_column_left_unset_keeps_its_value(session):
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v int, w int)")
    insert = session.prepare("INSERT INTO t (k, v, w) VALUES (:k, :v, :w)")
    session.execute(insert, {"k": 1, "v": 1, "w": 2})
    session.execute(insert, {"k": 1, "w": 3})
    assert session.execute("SELECT v, w FROM t WHERE k = 1").one() == (1, 3)


@pytest.mark.parametrize("page", [1, 7, 100, 5000])
def test_pages_hold_every_row_once(session, page):
    session.execute("CREATE TABLE p (k int, c int, v text, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO p (k, c, v) VALUES (?, ?, ?)")
    rows = [(k, c, f"{k}-{c}") for k in range(11) for c in range(13)]
    for row in rows:
        session.execute(insert, row)
    everything = SimpleStatement("SELECT k, c, v FROM p", fetch_size=page)
    assert sorted(session.execute(everything)) == rows
    slice_ = SimpleStatement("SELECT c FROM p WHERE k = 3 ORDER BY c DESC", fetch_size=page)
    assert [row[0] for row in session.execute(slice_)] == list(range(12, -1, -1))
    some = SimpleStatement("SELECT k, c FROM p PER PARTITION LIMIT 2", fetch_size=page)
    assert sorted(session.execute(some)) == [(k, c) for k in range(11) for c in range(2)]
    limited = SimpleStatement("SELECT k FROM p LIMIT 20", fetch_size=page)
    assert len(list(session.execute(limited))) == 20
    several = SimpleStatement("SELECT k, c FROM p WHERE k IN (1, 5, 9) AND c > 10", fetch_size=page)
    assert sorted(session.execute(several)) == [(k, c) for k in (1, 5, 9) for c in (11, 12)]


def test_batches_of_prepared_and_simple_statements_apply_whole(session):
    session.execute("CREATE TABLE b (k int, c int, v int, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO b (k, c, v) VALUES (?, ?, ?)")
    for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
        batch = BatchStatement(batch_type=kind)
        for c in range(50):
            batch.add(insert, (kind.value, c, c))
        batch.add(SimpleStatement("INSERT INTO b (k, c, v) VALUES (%s, %s, %s)"), (kind.value, 50, 50))
        session.execute(batch)
        assert session.execute(f"SELECT count(*) FROM b WHERE k = {kind.value}").one()[0] == 51


def test_conditional_writes_say_whether_they_applied(session):
    session.execute("CREATE TABLE c (k int PRIMARY KEY, v int)")
    insert = session.prepare("INSERT INTO c (k, v) VALUES (?, ?) IF NOT EXISTS")
    assert session.execute(insert, [1, 1]).was_applied
    refused = session.execute(insert, [1, 2])
    assert refused.one() == (False, 1, 1) and not refused.was_applied
    update = session.prepare("UPDATE c SET v = ? WHERE k = ? IF v = ?")
    assert session.execute(update, [5, 1, 1]).was_applied
    assert not session.execute(update, [6, 1, 1]).was_applied
    assert session.execute("SELECT v FROM c").one() == (5,)


def test_the_driver_learns_the_schema_and_its_changes(session, cluster):
    session.execute("CREATE TYPE place (street text, number int)")
    session.execute(
        "CREATE TABLE meta (a int, b text, c timeuuid, d int, s set<int> static, v map<text, frozen<place>>,"
        " PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'noted'"
    )
    table = cluster.metadata.keyspaces[session.keyspace].tables["meta"]
    assert [c.name for c in table.partition_key] == ["a", "b"]
    assert [(c.name, c.is_reversed) for c in table.clustering_key] == [("c", True), ("d", False)]
    assert table.columns["s"].is_static and table.columns["v"].cql_type == "map<text, frozen<place>>"
    assert table.options["comment"] == "noted"
    session.execute("ALTER TABLE meta ADD extra blob")
    cluster.refresh_table_metadata(session.keyspace, "meta")
    assert "extra" in cluster.metadata.keyspaces[session.keyspace].tables["meta"].columns
    assert cluster.metadata.keyspaces[session.keyspace].user_types["place"].field_names == ["street", "number"]
    session.execute("DROP TABLE meta")
    cluster.refresh_keyspace_metadata(session.keyspace)
    assert "meta" not in cluster.metadata.keyspaces[session.keyspace].tables


def test_the_driver_learns_of_indexes_and_finds_rows_by_them(session, cluster):
    session.execute("CREATE TABLE users (id text PRIMARY KEY, email text, status int, tags set<text>)")
    session.execute("CREATE INDEX by_email ON users (email)")
    session.execute("CREATE INDEX by_tag ON users (tags)")
    session.execute("CREATE CUSTOM INDEX by_status ON users (status) USING 'StorageAttachedIndex'")
    table = cluster.metadata.keyspaces[session.keyspace].tables["users"]
    assert {name: index.kind for name, index in table.indexes.items()} == {
        "by_email": "COMPOSITES",
        "by_tag": "COMPOSITES",
        "by_status": "CUSTOM",
    }
    assert f"CREATE INDEX by_email ON {session.keyspace}.users (email);" in table.export_as_string()
    assert "USING 'StorageAttachedIndex'" in table.export_as_string()

    insert = session.prepare("INSERT INTO users (id, email, status, tags) VALUES (?, ?, ?, ?)")
    for i in range(100):
        session.execute(insert, (f"u{i}", f"{i % 10}@example.org", i, {"even" if i % 2 == 0 else "odd"}))
    by_email = session.prepare("SELECT id FROM users WHERE email = ?")
    by_email.fetch_size = 3
    assert {row[0] for row in session.execute(by_email, ("7@example.org",))} == {f"u{i}" for i in range(7, 100, 10)}
    assert len(list(session.execute("SELECT id FROM users WHERE tags CONTAINS 'odd'"))) == 50
    assert len(list(session.execute("SELECT id FROM users WHERE status >= 90"))) == 10
    session.execute("UPDATE users SET email = 'new@example.org' WHERE id = 'u7'")
    assert [row[0] for row in session.execute(by_email, ("new@example.org",))] == ["u7"]

    session.execute("DROP INDEX by_email")
    assert "by_email" not in cluster.metadata.keyspaces[session.keyspace].tables["users"].indexes
    with pytest.raises(InvalidRequest, match="ALLOW FILTERING"):
        session.execute(by_email, ("new@example.org",))


def test_a_prepared_statement_follows_an_altered_table(session):
    session.execute("CREATE TABLE alt (k int PRIMARY KEY, v int)")
    insert = session.prepare("INSERT INTO alt (k, v) VALUES (?, ?)")
    select = session.prepare("SELECT * FROM alt WHERE k = ?")
    session.execute(insert, [1, 2])
    assert session.execute(select, [1]).one() == (1, 2)
    session.execute("ALTER TABLE alt ADD w text")
    session.execute(insert, [1, 3])
    assert session.execute(select, [1]).one() == (1, 3, None)
    # The driver was told to prepare it again, so it has the metadata of the current columns.
    assert [column[2] for column in select.result_metadata] == ["k", "v", "w"]


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_prepared_statements_stay_prepared_over_a_restart(own_server, end):
    cluster = connect("127.0.0.1", own_server.port)
    session = cluster.connect()
    session.execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
    insert = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
    cluster.shutdown()
    getattr(own_server, end)()
    own_server.start()
    cluster = connect("127.0.0.1", own_server.port)
    session = cluster.connect()
    kept = session.execute("SELECT prepared_id, query_string FROM system.prepared_statements")
    assert list(kept) == [(insert.query_id, insert.query_string)]
    cluster.shutdown()


def test_errors_have_their_class(session):
    with pytest.raises(InvalidRequest):
        session.execute("SELECT * FROM nosuch")
    session.execute("CREATE TABLE twice (k int PRIMARY KEY)")
    with pytest.raises(AlreadyExists):
        session.execute("CREATE TABLE twice (k int PRIMARY KEY)")


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("compression", [False, "lz4", "snappy"])
def test_every_protocol_version_and_compression_carries_large_values(contact, version, compression):
    if version == 5 and compression == "snappy":
        pytest.skip("protocol v5 has no Snappy")
    cluster = connect(*contact, protocol_version=version, compression=compression)
    session = cluster.connect()
    keyspace = f"t{uuid.uuid4().hex[:16]}"
    session.execute(
        f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )
    session.execute(f"CREATE TABLE {keyspace}.big (k int PRIMARY KEY, v blob)")
    insert = session.prepare(f"INSERT INTO {keyspace}.big (k, v) VALUES (?, ?)")
    for size in (0, 1, 100, 70_000, 1_000_000):
        value = bytes(i % 251 for i in range(size))
        session.execute(insert, [1, value])
        assert session.execute(f"SELECT v FROM {keyspace}.big WHERE k = 1").one() == (value,)
    session.execute(f"DROP KEYSPACE {keyspace}")
    cluster.shutdown()


def test_many_requests_in_flight_are_answered_each_with_its_own(session):
    session.execute("CREATE TABLE flight (k int PRIMARY KEY, v text)")
    insert = session.prepare("INSERT INTO flight (k, v) VALUES (?, ?)")
    select = session.prepare("SELECT v FROM flight WHERE k = ?")
    for future in [session.execute_async(insert, [k, f"value {k}"]) for k in range(1000)]:
        future.result()
    futures = [(k, session.execute_async(select, [k])) for k in range(1000)]
    assert all(future.result().one() == (f"value {k}",) for k, future in futures)


@pytest.fixture
def own_server(tmp_path):
    server = Server(tmp_path / "data").start()
    yield server
    server.stop()


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_what_was_acknowledged_is_there_after_a_restart(own_server, end):
    cluster = connect("127.0.0.1", own_server.port)
    session = cluster.connect()
    session.execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text, m map<text, int>)")
    insert = session.prepare("INSERT INTO ks.t (k, v, m) VALUES (?, ?, ?)")
    for k in range(500):
        session.execute(insert, [k, f"v{k}", {"a": k}])
    session.execute("DELETE FROM ks.t WHERE k = 7")
    session.execute("ALTER TABLE ks.t ADD w int")
    session.execute("INSERT INTO ks.t (k, w) VALUES (8, 88)")
    cluster.shutdown()
    getattr(own_server, end)()
    own_server.start()
    cluster = connect("127.0.0.1", own_server.port)
    session = cluster.connect("ks")
    assert session.execute("SELECT count(*) FROM t").one()[0] == 499
    assert session.execute("SELECT v, m, w FROM t WHERE k = 8").one() == ("v8", {"a": 8}, 88)
    assert session.execute("SELECT * FROM t WHERE k = 7").one() is None
    cluster.shutdown()


def test_a_client_goes_on_after_the_server_was_killed_and_started_again(own_server):
    cluster = connect("127.0.0.1", own_server.port)
    session = cluster.connect()
    session.execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
    insert = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
    session.execute(insert, [1, 1])
    own_server.kill()
    own_server.start()
    deadline = datetime.datetime.now() + datetime.timedelta(seconds=30)
    while True:
        try:
            session.execute(insert, [2, 2])
            break
        except Exception:  # noqa: BLE001 - until the driver has connected again
            assert datetime.datetime.now() < deadline
    assert sorted(session.execute("SELECT k, v FROM ks.t")) == [(1, 1), (2, 2)]
    cluster.shutdown()


def test_a_paging_state_is_good_after_a_restart(own_server):
    cluster = connect("127.0.0.1", own_server.port)
    session = cluster.connect()
    session.execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE ks.t (k int, c int, PRIMARY KEY (k, c))")
    for k in range(5):
        for c in range(10):
            session.execute(f"INSERT INTO ks.t (k, c) VALUES ({k}, {c})")
    statement = SimpleStatement("SELECT k, c FROM ks.t", fetch_size=7)
    first = session.execute(statement)
    seen, state = list(first.current_rows), first.paging_state
    cluster.shutdown()
    own_server.stop()
    own_server.start()
    cluster = connect("127.0.0.1", own_server.port)
    session = cluster.connect()
    seen += list(session.execute(statement, paging_state=state))
    assert sorted(seen) == [(k, c) for k in range(5) for c in range(10)]
    cluster.shutdown()


def test_nonsense_on_the_socket_harms_nobody_else(session, contact):
    import socket

    for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\x04" + b"\xff" * 8, b"\x05\x00\x00\x00\x05\x7f\xff\xff\xff", bytes(64)):
        with socket.create_connection(contact) as connection:
            connection.sendall(junk)
            connection.settimeout(5)
            try:
                while connection.recv(4096):
                    pass
            except (TimeoutError, ConnectionError):
                pass
    assert session.execute("SELECT key FROM system.local").one() == ("local",)
