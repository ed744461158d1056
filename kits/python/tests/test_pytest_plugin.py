"""The fixtures, in test runs of users."""

TABLE = "CREATE TABLE users (id int PRIMARY KEY, name text);"


def test_the_start_of_the_documentation_works(pytester):
    pytester.makepyfile(
        """
        def test_users(cassette_session):
            cassette_session.execute("CREATE TABLE users (id int PRIMARY KEY, name text)")
            cassette_session.execute("INSERT INTO users (id, name) VALUES (1, 'ada')")
            assert cassette_session.execute("SELECT name FROM users").one().name == "ada"
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_each_test_without_a_schema_has_its_own_keyspace(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_it(cassette_session, number):
            cassette_session.execute("CREATE TABLE users (id int PRIMARY KEY)")

        def test_keyspaces_are_dropped(cassette_server):
            assert "test_" not in cassette_server.execute("DESCRIBE KEYSPACES")
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=3)


def test_a_test_that_uses_another_keyspace_does_not_disturb_the_next(pytester):
    (pytester.path / "users.cql").write_text(TABLE)
    pytester.makeini("[pytest]\ncassette_schema = users.cql")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_it(cassette_session, number):
            cassette_session.execute("SELECT * FROM users")
            cassette_session.set_keyspace("system")
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_tables_of_the_configured_schema_are_empty_for_each_test(pytester):
    pytester.mkdir("schema")
    (pytester.path / "schema" / "users.cql").write_text(TABLE)
    pytester.makeini(
        """
        [pytest]
        cassette_schema = schema/users.cql
        """
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("name", ["ada", "grace", "edsger"])
        def test_one_user(cassette_session, name):
            cassette_session.execute("INSERT INTO users (id, name) VALUES (%s, %s)", (len(name), name))
            assert [row.name for row in cassette_session.execute("SELECT name FROM users")] == [name]
        """
    )
    pytester.runpytest_subprocess("-W", "error::pytest.PytestUnknownMarkWarning").assert_outcomes(passed=3)


def test_tables_of_other_keyspaces_are_truncated_too(pytester):
    (pytester.path / "app.cql").write_text(
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};\n"
        'CREATE TABLE app."Events" (id int PRIMARY KEY);\n'
    )
    pytester.makeini("[pytest]\ncassette_schema = app.cql")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("id", [1, 2])
        def test_one_event(cassette_session, id):
            cassette_session.execute('INSERT INTO app."Events" (id) VALUES (%s)', (id,))
            assert [row.id for row in cassette_session.execute('SELECT id FROM app."Events"')] == [id]
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_a_marker_replaces_the_schema(pytester):
    (pytester.path / "users.cql").write_text(TABLE)
    (pytester.path / "orders.cql").write_text("CREATE TABLE orders (id int PRIMARY KEY);")
    pytester.makeini("[pytest]\ncassette_schema = users.cql")
    pytester.makepyfile(
        """
        import pytest

        def test_users(cassette_session):
            cassette_session.execute("SELECT * FROM users")

        @pytest.mark.cassette_schema("orders.cql")
        def test_orders(cassette_session):
            cassette_session.execute("SELECT * FROM orders")
            with pytest.raises(Exception, match="users"):
                cassette_session.execute("SELECT * FROM users")
        """
    )
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=2)


def test_a_mistake_in_a_schema_is_shown(pytester):
    (pytester.path / "wrong.cql").write_text("CREATE TABLE t (k int);")
    pytester.makeini("[pytest]\ncassette_schema = wrong.cql")
    pytester.makepyfile("def test_it(cassette_session): pass")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*wrong.cql:1:*"])


def test_the_options_of_the_server_can_be_overridden(pytester):
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def cassette_options():
            return {"arguments": ["--cluster-name", "mine"]}
        """
    )
    pytester.makepyfile(
        """
        def test_name(cassette_server):
            assert "mine" in cassette_server.execute("SELECT cluster_name FROM system.local")
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_failure_shows_the_log_of_the_server(pytester):
    pytester.makepyfile("def test_it(cassette_server): cassette_server.stop(); assert False")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*log of cassette*"])


def test_each_test_observes_the_same_uuids_and_times_with_a_seed(pytester):
    (pytester.path / "users.cql").write_text(
        "CREATE TABLE users (id uuid PRIMARY KEY, at timestamp, n int);"
        "INSERT INTO users (id, at) VALUES (uuid(), toTimestamp(now()));"
    )
    pytester.makeini("[pytest]\ncassette_schema = users.cql")
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def cassette_options():
            return {"seed": 7, "in_memory": True}

        seen = []

        @pytest.mark.parametrize("number", [1, 2, 3])
        def test_it(cassette_session, number):
            cassette_session.execute("TRUNCATE users")
            # The driver sends the time of its own clock, which the server ignores.
            insert = cassette_session.prepare("INSERT INTO users (id, at, n) VALUES (uuid(), toTimestamp(now()), ?)")
            # The requests of a connection are executed in the order in which they arrive.
            pending = [cassette_session.execute_async(insert, [n]) for n in range(20)]
            for result in pending:
                result.result()
            rows = cassette_session.execute("SELECT id, at, n, writetime(at) FROM users")
            seen.append([tuple(row) for row in rows])
            assert len(seen[-1]) == 20 and seen[-1] == seen[0]
            assert [n for _, _, n, _ in sorted(seen[-1], key=lambda row: row[1])] == list(range(20))
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=3)
