"""TRUNCATE of a table with views and an index while clients write to it, through the Python driver."""

import threading

from cassandra.concurrent import execute_concurrent_with_args

VIEW = "CREATE MATERIALIZED VIEW by_v AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)"


def create(session):
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v int, w text)")
    return session.prepare("UPDATE t SET v = ?, w = ? WHERE k = ?")


def shown(session, source):
    return sorted(session.execute(f"SELECT k, v, w FROM {source}"))


def test_views_and_indexes_equal_their_base_after_truncations_under_load(session):
    update = create(session)
    session.execute(VIEW)
    session.execute("CREATE INDEX ON t (w)")
    failures = []

    def write(writer):
        for turn in range(4):
            rows = [((writer + i + turn) % 9, str(i % 5), i) for i in range(100)]
            results = execute_concurrent_with_args(session, update, rows, concurrency=32, raise_on_first_error=False)
            failures.extend(result for success, result in results if not success)

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for writer in writers:
        writer.start()
    truncations = 0
    while any(writer.is_alive() for writer in writers):
        session.execute("TRUNCATE t")
        truncations += 1
    for writer in writers:
        writer.join()
    assert not failures and truncations > 1
    assert shown(session, "by_v") == shown(session, "t")
    execute_concurrent_with_args(session, update, [(i % 9, str(i % 5), i) for i in range(100)])
    rows = shown(session, "t")
    assert len(rows) >= 100 and shown(session, "by_v") == rows
    for w in "01234":
        by_index = sorted(session.execute("SELECT k, v, w FROM t WHERE w = %s", (w,)))
        assert by_index == [row for row in rows if row[2] == w]
    session.execute("TRUNCATE t")
    assert shown(session, "t") == shown(session, "by_v") == []


def test_a_view_equals_its_base_after_a_truncation_during_its_build(session):
    update = create(session)
    execute_concurrent_with_args(session, update, [(i % 9, "w", i) for i in range(1500)], concurrency=64)
    session.execute(VIEW)
    session.execute("TRUNCATE t")
    execute_concurrent_with_args(session, update, [(i % 9, "w", i) for i in range(10)])
    in_progress = f"SELECT view_name FROM system.view_builds_in_progress WHERE keyspace_name = '{session.keyspace}'"
    while list(session.execute(in_progress)):
        pass
    assert shown(session, "by_v") == shown(session, "t")
