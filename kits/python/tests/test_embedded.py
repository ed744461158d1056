"""Embedded databases: connections and cursors by the DB-API, values of every type, errors, threads, signals.

They need nothing but Python, so that the crate of the module runs them in any interpreter.
"""

import datetime
import importlib.util
import ipaddress
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import unittest
import uuid
import warnings
from decimal import Decimal
from pathlib import Path

import cassette
from cassette import UNSET, Duration, Time

HAS_MODULE = importlib.util.find_spec("cassette._embedded") is not None
KEYSPACE = "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


def has(package):
    return importlib.util.find_spec(package) is not None


@unittest.skipUnless(HAS_MODULE, "the package has no embedded database")
class Embedded(unittest.TestCase):
    def setUp(self):
        self.connection = cassette.connect(":memory:")
        self.addCleanup(self.connection.close)
        self.connection.execute(KEYSPACE)
        self.connection.execute("USE app")

    def fill(self, first, end):
        """Inserts rows from `first` to `end` into a partition of the table `t`."""
        inserts = "".join(f"INSERT INTO t (k, c, v) VALUES (1, {c}, '{c}');" for c in range(first, end))
        self.connection.execute(f"BEGIN UNLOGGED BATCH {inserts} APPLY BATCH")

    def directory(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return Path(directory.name) / "data"


class Documentation(Embedded):
    def test_the_start_of_the_documentation_works(self):
        data = self.directory()
        with cassette.connect(data) as connection:
            connection.execute(KEYSPACE)
            connection.execute("CREATE TABLE app.users (id int PRIMARY KEY, name text)")
            connection.execute("INSERT INTO app.users (id, name) VALUES (?, ?)", (1, "ada"))
            row = connection.execute("SELECT name FROM app.users WHERE id = :id", {"id": 1}).fetchone()
            assert row == ("ada",)

        with cassette.connect(data, keyspace="app", read_only=True) as connection:
            connection.row_factory = cassette.dict_factory
            assert connection.execute("SELECT * FROM users").fetchall() == [{"id": 1, "name": "ada"}]

    def test_errors_have_the_code_and_the_kind_of_cassandra(self):
        connection = self.connection
        try:
            connection.execute("SELECT * FROM missing")
        except cassette.ProgrammingError as error:
            assert (error.code, error.kind) == (0x2200, "Invalid")

        with self.assertRaises(cassette.ProgrammingError) as raised:
            connection.execute("SELECT *\n FORM t")
        error = raised.exception
        self.assertEqual((error.code, error.kind, error.line, error.column), (0x2000, "Syntax", 2, 2))
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(copy), copy.code, copy.line), (str(error), 0x2000, 2))


class DbApi(Embedded):
    def test_the_module_has_the_names_of_the_db_api(self):
        self.assertEqual((cassette.apilevel, cassette.threadsafety, cassette.paramstyle), ("2.0", 2, "qmark"))
        for name in ("InterfaceError", "DatabaseError"):
            self.assertTrue(issubclass(getattr(cassette, name), cassette.Error))
        for name in ("Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"):
            self.assertTrue(issubclass(getattr(cassette, f"{name}Error"), cassette.DatabaseError))
        self.assertEqual(cassette.Date(2020, 1, 2), cassette.DateFromTicks(1_577_923_200.5))
        self.assertEqual(cassette.Time(1, 2, 3.5), 3_723_500_000_000)
        self.assertEqual(cassette.TimeFromTicks(3723.5), 3_723_500_000_000)
        self.assertEqual(cassette.Timestamp(1970, 1, 1, 0, 0, 1), cassette.TimestampFromTicks(1))
        self.assertEqual(cassette.Binary(b"a"), b"a")

    def test_rows_are_read_in_several_ways(self):
        connection = self.connection
        connection.execute("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))")
        cursor = connection.cursor()
        self.assertIsNone(cursor.description)
        self.fill(0, 1200)
        cursor.executemany("INSERT INTO t (k, c, v) VALUES (1, ?, ?)", [(c, str(c)) for c in range(1200, 1250)])
        for page_size in (5000, 7, None):
            cursor.page_size = page_size
            cursor.execute("SELECT c, v FROM t WHERE k = ?", [1])
            self.assertEqual([(name, kind) for name, kind, *_ in cursor.description], [("c", "int"), ("v", "text")])
            self.assertEqual([cassette.NUMBER, cassette.STRING], [kind for _, kind, *_ in cursor.description])
            for other in (cassette.STRING, cassette.BINARY, cassette.DATETIME, cassette.ROWID):
                self.assertNotEqual(other, cursor.description[0][1])
            self.assertEqual(cursor.rowcount, -1)
            self.assertEqual(cursor.fetchone(), (0, "0"))
            self.assertEqual(cursor.fetchmany(), [(1, "1")])
            self.assertEqual(cursor.fetchmany(2), [(2, "2"), (3, "3")])
            self.assertEqual(next(cursor), (4, "4"))
            rest = cursor.fetchall()
            self.assertEqual((len(rest), rest[-1]), (1245, (1249, "1249")))
            self.assertEqual((cursor.fetchone(), cursor.fetchmany(3), cursor.fetchall()), (None, [], []))
        self.assertEqual(sum(c for c, _ in connection.execute("SELECT c, v FROM t")), 1249 * 1250 // 2)

        cursor.row_factory = cassette.named_tuple_factory
        self.assertEqual(cursor.execute("SELECT v FROM t LIMIT 1").fetchone().v, "0")
        applied = connection.execute("INSERT INTO t (k, c) VALUES (1, 1) IF NOT EXISTS").fetchone()
        self.assertIs(applied[0], False)

    def test_order_by_over_several_partitions_needs_no_pages(self):
        connection = self.connection
        connection.execute("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))")
        connection.executemany("INSERT INTO t (k, c) VALUES (?, ?)", [(1, 3), (2, 1), (1, 2)])
        select = "SELECT c FROM t WHERE k IN (1, 2) ORDER BY c"
        cursor = connection.cursor()
        with self.assertRaisesRegex(cassette.ProgrammingError, "disable paging"):
            cursor.execute(select)
        cursor.page_size = None
        self.assertEqual(cursor.execute(select).fetchall(), [(1,), (2,), (3,)])

    def test_values_are_a_sequence_or_a_mapping(self):
        class Names(dict):
            pass

        connection = self.connection
        select = "SELECT key FROM system.local WHERE key = :k"
        for values in (["local"], ("local",), iter(["local"]), {"k": "local", "other": 1}, Names(k="local")):
            self.assertEqual(connection.execute(select, values).fetchall(), [("local",)])
        for values in ((), (1, 2), {"other": 1}, None):
            with self.assertRaisesRegex(cassette.ProgrammingError, "marker"):
                connection.execute(select, values)
        for values in ("local", b"local", 7):
            with self.assertRaises(TypeError):
                connection.execute(select, values)

    def test_a_schema_change_applies_to_statements_that_were_executed_before(self):
        connection = self.connection
        connection.execute("CREATE TABLE t (k int PRIMARY KEY)")
        insert = "INSERT INTO t (k) VALUES (?)"
        connection.execute(insert, (1,))
        self.assertEqual(connection.execute("SELECT * FROM t").fetchall(), [(1,)])
        connection.execute("ALTER TABLE t ADD v text")
        self.assertEqual(connection.execute("SELECT * FROM t").fetchall(), [(1, None)])
        connection.execute("DROP TABLE t")
        connection.execute("CREATE TABLE t (k text PRIMARY KEY)")
        with self.assertRaisesRegex(cassette.DataError, "cannot convert int to text"):
            connection.execute(insert, (1,))
        connection.execute(insert, ("a",))
        self.assertEqual(connection.execute("SELECT * FROM t").fetchall(), [("a",)])

    def test_rows_end_with_an_error_when_the_columns_change_between_pages(self):
        connection = self.connection
        connection.execute("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))")
        self.fill(0, 1500)
        cursor = connection.cursor()
        cursor.page_size = 1000
        cursor.execute("SELECT * FROM t").fetchone()
        connection.execute("ALTER TABLE t ADD a text")
        with self.assertRaisesRegex(cassette.ProgrammingError, "altered the columns"):
            cursor.fetchall()
        with self.assertRaisesRegex(cassette.InterfaceError, "has failed before"):
            cursor.fetchall()


#: Type, value, and the value of the row if it is another one.
VALUES = [
    ("ascii", "abc"),
    ("bigint", -(2**63)),
    ("blob", b"\0\xff"),
    ("blob", bytearray(b"\1"), b"\1"),
    ("blob", memoryview(b"\1"), b"\1"),
    ("boolean", True),
    ("date", datetime.date(1, 1, 1)),
    ("date", datetime.date(9999, 12, 31)),
    ("date", 0, datetime.date(1970, 1, 1)),
    ("decimal", Decimal("-12.340")),
    ("decimal", Decimal("1E+40")),
    ("decimal", Decimal("9" * 5000)),
    ("decimal", 7, Decimal(7)),
    ("double", 0.1),
    ("double", 2, 2.0),
    ("duration", Duration(1, 2, 3)),
    ("duration", (-1, 0, -5), Duration(-1, 0, -5)),
    ("float", 0.5),
    ("float", float("inf")),
    ("inet", "127.0.0.1"),
    ("inet", "2001:db8::1"),
    ("inet", ipaddress.ip_address("::1"), "::1"),
    ("int", 2**31 - 1),
    ("smallint", -7),
    ("text", "ä\0€"),
    ("text", ""),
    ("time", 86_399_999_999_999, Time(86_399_999_999_999)),
    ("time", datetime.time(1, 2, 3, 4), Time(3_723_000_004_000)),
    ("timestamp", datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)),
    (
        "timestamp",
        datetime.datetime(2020, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
        datetime.datetime(2020, 1, 1),
    ),
    ("timestamp", datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)),
    ("timestamp", -1, datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)),
    ("timeuuid", uuid.UUID("5b6962dd-3f90-11ee-be56-0242ac120002")),
    ("tinyint", -128),
    ("uuid", uuid.UUID(int=2**128 - 1)),
    ("uuid", "00000000-0000-0000-0000-000000000001", uuid.UUID(int=1)),
    ("varint", 2**20000),
    ("varint", -1),
    ("varint", 0),
    ("list<int>", [1, 2]),
    ("list<int>", (3,), [3]),
    ("set<text>", {"a", "b"}),
    ("set<text>", ["b", "a", "b"], {"a", "b"}),
    ("map<text, int>", {"a": 1}),
    ("tuple<int, text>", (1, "a")),
    ("tuple<int, text>", (1,), (1, None)),
    ("vector<float, 2>", [1.0, 2.0]),
    ("vector<text, 2>", ["a", ""]),
    ("map<frozen<list<int>>, frozen<map<text, int>>>", {(1, 2): {"a": 1}}),
    ("set<frozen<list<int>>>", [[1, 2]], {(1, 2)}),
    ("set<frozen<map<text, frozen<set<int>>>>>", [(("a", {1}),)], {(("a", frozenset({1})),)}),
    ("list<frozen<set<uuid>>>", [{uuid.UUID(int=1)}]),
]

#: Type, and a value that it does not have.
MISMATCHES = [
    ("ascii", "ä"),
    ("int", 2**31),
    ("int", 1.0),
    ("int", "1"),
    ("text", 1),
    ("text", b"a"),
    ("boolean", 1),
    ("blob", 3),
    ("blob", "a"),
    ("date", datetime.datetime(2020, 1, 1)),
    ("date", "2020-01-01"),
    ("date", 2**31),
    ("float", 1e300),
    ("uuid", "no uuid"),
    ("uuid", 1),
    ("inet", "localhost"),
    ("time", -1),
    ("time", datetime.time(1, tzinfo=datetime.timezone.utc)),
    ("timestamp", "now"),
    ("timestamp", 2**63),
    ("decimal", Decimal("NaN")),
    ("decimal", 0.5),
    ("varint", Decimal(1)),
    ("list<int>", "12"),
    ("list<int>", b"12"),
    ("list<int>", ["1"]),
    ("map<text, int>", ["a"]),
    ("tuple<int, int>", (1, 2, 3)),
    ("tuple<int, int>", {1, 2}),
    ("duration", (1, 2)),
]


class Values(Embedded):
    def test_a_value_is_read_as_it_was_written(self):
        connection = self.connection
        for number, (kind, value, *others) in enumerate(VALUES):
            with self.subTest(kind=kind, value=str(value)[:40] if kind != "varint" else number):
                expected = others[0] if others else value
                connection.execute(f"CREATE TABLE t{number} (k int PRIMARY KEY, v {kind})")
                insert, select = f"INSERT INTO t{number} (k, v) VALUES (1, ?)", f"SELECT v FROM t{number}"
                connection.execute(insert, (value,))
                (found,) = connection.execute(select).fetchone()
                self.assertEqual(found, expected)
                self.assertIs(type(found), type(expected))
                # What was read can be written.
                connection.execute(insert, (found,))
                self.assertEqual(connection.execute(select).fetchone(), (expected,))
                connection.execute(insert, (UNSET,))
                self.assertEqual(connection.execute(select).fetchone(), (expected,))
                connection.execute(insert, (None,))
                self.assertEqual(connection.execute(select).fetchone(), (None,))

    def test_a_value_of_another_type_is_an_error_that_names_the_column(self):
        for number, (kind, value) in enumerate(MISMATCHES):
            with self.subTest(kind=kind, value=value):
                self.connection.execute(f"CREATE TABLE t{number} (k int PRIMARY KEY, val {kind})")
                with self.assertRaisesRegex(cassette.DataError, "^val: cannot convert"):
                    self.connection.execute(f"INSERT INTO t{number} (k, val) VALUES (1, ?)", (value,))

    def test_values_that_the_database_rejects_are_errors(self):
        connection = self.connection
        connection.execute("CREATE TABLE t (k int PRIMARY KEY, l list<int>, v vector<float, 2>, d duration)")
        for column, value in (("l", [None]), ("l", [UNSET]), ("v", [1.0]), ("d", (1, -1, 0))):
            with self.subTest(column=column, value=value), self.assertRaises(cassette.DatabaseError):
                connection.execute(f"INSERT INTO t (k, {column}) VALUES (1, ?)", (value,))
        self.assertEqual(connection.execute("SELECT * FROM t").fetchall(), [])

    def test_counters_are_numbers(self):
        connection = self.connection
        connection.execute("CREATE TABLE c (k int PRIMARY KEY, n counter)")
        connection.executemany("UPDATE c SET n = n + ? WHERE k = 1", [(2,), (3,)])
        self.assertEqual(connection.execute("SELECT n FROM c").fetchone(), (5,))

    def test_a_user_defined_type_is_a_named_tuple(self):
        connection = self.connection
        connection.execute('CREATE TYPE address (street text, zip int, "a b" int)')
        connection.execute("CREATE TABLE t (k int PRIMARY KEY, v frozen<address>)")
        insert = "INSERT INTO t (k, v) VALUES (1, ?)"

        class Address:
            street, zip = "Main", 7

        for value in ({"street": "Main", "zip": 7}, ("Main", 7), ["Main", 7, None], Address()):
            connection.execute(insert, (value,))
            (found,) = connection.execute("SELECT v FROM t").fetchone()
            self.assertEqual((found.street, found.zip, found[2], type(found).__name__), ("Main", 7, None, "address"))
            connection.execute(insert, (found,))
            self.assertEqual(connection.execute("SELECT v FROM t").fetchone(), (found,))
        for value in ({"zap": 1}, (1, 2, 3, 4), 7):
            with self.assertRaisesRegex(cassette.DataError, "^v: cannot convert"):
                connection.execute(insert, (value,))
        connection.execute('CREATE TYPE "class" (a int)')
        connection.execute('CREATE TABLE u (k int PRIMARY KEY, v "class")')
        connection.execute("INSERT INTO u (k, v) VALUES (1, ?)", ({"a": 1},))
        self.assertEqual(connection.execute("SELECT v FROM u").fetchone()[0].a, 1)

    def test_an_exception_of_a_value_is_not_hidden(self):
        class Broken:
            def __index__(self):
                raise KeyError("broken")

        self.connection.execute("CREATE TABLE t (k int PRIMARY KEY)")
        with self.assertRaisesRegex(KeyError, "broken"):
            self.connection.execute("INSERT INTO t (k) VALUES (?)", (Broken(),))

    def test_a_date_beyond_those_of_python_is_an_error(self):
        connection = self.connection
        connection.execute("CREATE TABLE t (k int PRIMARY KEY, d date, s timestamp)")
        connection.execute("INSERT INTO t (k, d, s) VALUES (1, ?, ?)", (10**7, 10**15))
        for column in "ds":
            with self.assertRaisesRegex(cassette.DataError, "since 1970 is beyond datetime"):
                connection.execute(f"SELECT {column} FROM t").fetchone()
            (text,) = connection.execute(f"SELECT CAST({column} AS text) FROM t").fetchone()
            self.assertIsInstance(text, str)


class Opening(Embedded):
    def test_errors_have_the_classes_of_the_db_api(self):
        connection, data = self.connection, self.directory()
        for statement in ("SELEC 1", "SELECT * FROM missing", KEYSPACE, "DELETE FROM system.local WHERE key = 'local'"):
            with self.subTest(statement=statement), self.assertRaises(cassette.ProgrammingError):
                connection.execute(statement)
        with self.assertRaises(cassette.NotSupportedError):
            connection.rollback()
        connection.commit()
        with self.assertRaisesRegex(cassette.InterfaceError, "there are no rows"):
            connection.cursor().fetchone()
        cursor = connection.execute("SELECT key FROM system.local")
        cursor.close()
        with self.assertRaisesRegex(cassette.InterfaceError, "the cursor is closed"):
            cursor.fetchone()
        with cassette.connect(data), self.assertRaises(cassette.OperationalError) as raised:
            cassette.connect(data)
        self.assertEqual(raised.exception.kind, "Locked")
        with cassette.connect(data) as connection:
            connection.execute(KEYSPACE)
        with cassette.connect(data, read_only=True) as connection:
            with self.assertRaises(cassette.ProgrammingError) as raised:
                connection.execute("CREATE TABLE app.t (k int PRIMARY KEY)")
            self.assertEqual(raised.exception.kind, "ReadOnly")
        with self.assertRaises(cassette.ProgrammingError):
            cassette.connect(data, keyspace="missing")

    def test_options_have_the_names_of_cassandra(self):
        data = self.directory()
        options = {"commitlog_sync": "batch", "memtable_heap_space": 64 << 20, "materialized_views_enabled": True}
        with cassette.connect(data, options=options) as connection:
            connection.execute(KEYSPACE)
        with self.assertRaisesRegex(cassette.ProgrammingError, "commitlog_sync"):
            cassette.connect(data, options={"commitlog_sync": "never"})
        with self.assertRaises(cassette.ProgrammingError):
            cassette.connect(":memory:", options={"no_option": 1})
        for arguments in ({"read_only": True}, {"read_only": True, "options": options}):
            with self.assertRaises(cassette.InterfaceError):
                cassette.connect(":memory:", **arguments)
        with self.assertRaises(cassette.InterfaceError):
            cassette.connect("")

    def test_a_closed_connection_executes_nothing(self):
        connection = self.connection
        cursor = connection.execute("SELECT key FROM system.local")
        connection.close()
        connection.close()
        calls = (connection.cursor, connection.commit, cursor.fetchone, lambda: cursor.execute("SELECT 1"))
        for call in (*calls, connection.flush, lambda: connection.keyspace):
            with self.assertRaisesRegex(cassette.InterfaceError, "the connection is closed"):
                call()

    def test_a_connection_is_closed_with_its_last_reference(self):
        data = self.directory()
        connection = cassette.connect(data)
        connection.execute(KEYSPACE)
        connection.flush()
        del connection
        with cassette.connect(data, keyspace="app") as again:
            self.assertEqual(again.keyspace, "app")


class Threads(Embedded):
    def test_threads_execute_statements_at_the_same_time(self):
        connection = self.connection
        connection.execute("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))")

        def write(key):
            connection.executemany("INSERT INTO t (k, c) VALUES (?, ?)", [(key, c) for c in range(200)])

        threads = [threading.Thread(target=write, args=(key,)) for key in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(connection.execute("SELECT count(*) FROM t").fetchone(), (800,))

    def test_other_threads_run_while_a_statement_is_executed(self):
        connection = self.connection
        state = {"executing": False, "seen": False}
        is_over = threading.Event()

        def watch():
            while not is_over.is_set() and not state["seen"]:
                state["seen"] = state["executing"]
                time.sleep(0)

        # No thread has to release the lock of the interpreter while it executes instructions.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        watcher = threading.Thread(target=watch)
        try:
            watcher.start()
            for _ in range(100_000):
                state["executing"] = True
                connection.execute("SELECT key FROM system.local")
                state["executing"] = False
                if state["seen"]:
                    break
        finally:
            is_over.set()
            sys.setswitchinterval(interval)
            watcher.join()
        self.assertTrue(state["seen"])

    def test_a_connection_is_closed_while_threads_execute_statements(self):
        data = self.directory()
        connection = cassette.connect(data)
        connection.execute(KEYSPACE)
        connection.execute("CREATE TABLE app.t (k int, c int, PRIMARY KEY (k, c))")
        acknowledged, unexpected = [0] * 3, []
        have_written = threading.Barrier(4)

        def write(key):
            try:
                while True:
                    connection.execute("INSERT INTO app.t (k, c) VALUES (?, ?)", (key, acknowledged[key]))
                    acknowledged[key] += 1
                    if acknowledged[key] == 10:
                        have_written.wait()
                    if key == 0:
                        connection.execute("SELECT * FROM app.t").fetchall()
            except cassette.InterfaceError:
                pass
            except BaseException as error:
                unexpected.append(error)
                have_written.abort()

        threads = [threading.Thread(target=write, args=(key,)) for key in range(3)]
        for thread in threads:
            thread.start()
        have_written.wait()
        connection.close()
        for thread in threads:
            thread.join()
        self.assertEqual(unexpected, [])
        with cassette.connect(data) as connection:
            for key, count in enumerate(acknowledged):
                (found,) = connection.execute("SELECT count(*) FROM app.t WHERE k = ?", (key,)).fetchone()
                self.assertIn(found, (count, count + 1))

    def test_a_forked_process_does_not_use_the_database(self):
        connection = self.connection
        cursor = connection.execute("SELECT key FROM system.local")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            status = 1
            try:
                for call in (lambda: connection.execute("SELECT key FROM system.local"), cursor.fetchone):
                    try:
                        call()
                        os._exit(2)
                    except cassette.InterfaceError as error:
                        assert "forked" in str(error)
                connection.close()
                del connection, cursor
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(cursor.fetchone(), ("local",))


class Signals(Embedded):
    def test_the_handler_of_a_signal_interrupts_a_statement(self):
        connection = self.connection
        connection.execute("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))")
        select = "SELECT c FROM t WHERE v = '' ALLOW FILTERING"
        rows, took = 0, 0.0
        # Handlers run after 10 ms.
        while took < 0.03:
            self.fill(rows, rows + 500)
            rows += 500
            started = time.perf_counter()
            connection.execute(select)
            took = time.perf_counter() - started
        calls = []

        class Stop(Exception):
            pass

        def handler(number, frame):
            calls.append(number)
            try:
                connection.execute("SELECT key FROM system.local")
            except cassette.InterfaceError as error:
                # Within the statement.
                assert "a handler of a signal" in str(error)
                raise Stop from None

        previous = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
            with self.assertRaises(Stop):
                for _ in range(1000):
                    connection.execute(select)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        self.assertTrue(calls)
        self.assertEqual(connection.execute("SELECT count(*) FROM t").fetchone(), (rows,))


class Tables(Embedded):
    COLUMNS = {
        "k": ("int", 1),
        "t": ("text", "a"),
        "l": ("list<bigint>", [1, 2]),
        "s": ("set<uuid>", {uuid.UUID(int=2), uuid.UUID(int=1)}),
        "m": ("map<text, frozen<tuple<int, varint>>>", {"a": (1, 2**70)}),
        "d": ("date", datetime.date(2020, 1, 2)),
        "ts": ("timestamp", datetime.datetime(2020, 1, 2)),
        "ti": ("time", Time(5)),
        "de": ("decimal", Decimal("1.50")),
        "du": ("duration", Duration(1, 2, 3)),
        "v": ("vector<float, 2>", [1.0, 0.5]),
        "a": ("frozen<address>", ("Main", 7)),
        "b": ("boolean", True),
        "f": ("float", 0.5),
        "bl": ("blob", b"\0"),
    }

    def setUp(self):
        super().setUp()
        self.connection.execute("CREATE TYPE address (street text, zip int)")
        columns = ", ".join(f"{name} {kind}" for name, (kind, _) in self.COLUMNS.items())
        self.connection.execute(f"CREATE TABLE t ({columns}, PRIMARY KEY (k))")
        names, markers = ", ".join(self.COLUMNS), ", ".join("?" * len(self.COLUMNS))
        values = [value for _, value in self.COLUMNS.values()]
        self.connection.execute(f"INSERT INTO t ({names}) VALUES ({markers})", values)
        self.connection.execute("INSERT INTO t (k) VALUES (2)")
        self.select = f"SELECT {names} FROM t"

    @unittest.skipUnless(has("pyarrow"), "pyarrow is not installed")
    def test_rows_are_a_table_of_arrow_whose_schema_does_not_depend_on_them(self):
        import pyarrow

        table = self.connection.execute(self.select).to_arrow()
        empty = self.connection.execute("SELECT " + ", ".join(self.COLUMNS) + " FROM t WHERE k = 3").to_arrow()
        self.assertEqual((table.schema, empty.num_rows), (empty.schema, 0))
        kinds = dict(zip(table.column_names, table.schema.types))
        self.assertEqual((kinds["k"], kinds["l"]), (pyarrow.int32(), pyarrow.list_(pyarrow.int64())))
        self.assertEqual((kinds["ts"], kinds["ti"]), (pyarrow.timestamp("ms", tz="UTC"), pyarrow.time64("ns")))
        struct = pyarrow.struct([("0", pyarrow.int32()), ("1", pyarrow.string())])
        self.assertEqual(kinds["m"], pyarrow.map_(pyarrow.string(), struct))
        first, second = table.sort_by("k").to_pylist()
        for name in ("k", "t", "l", "d", "v", "b", "f", "bl"):
            self.assertEqual(first[name], self.COLUMNS[name][1], name)
        self.assertEqual(first["s"], [str(uuid.UUID(int=1)), str(uuid.UUID(int=2))])
        self.assertEqual(first["m"], [("a", {"0": 1, "1": str(2**70)})])
        self.assertEqual((first["de"], tuple(first["du"])), ("1.50", (1, 2, 3)))
        self.assertEqual(first["a"], {"street": "Main", "zip": 7})
        self.assertEqual(first["ts"].replace(tzinfo=None), datetime.datetime(2020, 1, 2))
        self.assertEqual(table["ti"].cast(pyarrow.int64()).to_pylist().count(5), 1)
        self.assertEqual(second, dict.fromkeys(table.column_names) | {"k": 2})

    @unittest.skipUnless(has("pandas"), "pandas is not installed")
    def test_rows_are_a_frame_of_pandas_whose_types_do_not_depend_on_them(self):
        frame = self.connection.execute(self.select).to_pandas()
        empty = self.connection.execute("SELECT " + ", ".join(self.COLUMNS) + " FROM t WHERE k = 3").to_pandas()
        self.assertEqual(list(frame.dtypes), list(empty.dtypes))
        self.assertEqual((list(frame.columns), len(frame), len(empty)), (list(self.COLUMNS), 2, 0))
        kinds = [str(frame[name].dtype) for name in ("k", "b", "f", "t")]
        self.assertEqual(kinds, ["Int32", "boolean", "float32", "object"])
        first = frame[frame.k == 1].iloc[0]
        for name in ("k", "t", "l", "s", "d", "ts", "de", "a", "b", "f"):
            self.assertEqual(first[name], self.COLUMNS[name][1], name)
        self.assertTrue(frame[frame.k == 2].iloc[0].drop("k").isna().all())


if __name__ == "__main__":
    unittest.main()
