//! Databases with a seed: the same values in each run, and after each reset of the clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::api::database::{Database, Options};
use crate::api::embedded::{Rows, Session};
use crate::basics::request::{StatementOptions, Values};
use crate::basics::response::Outcome;
use crate::store::seeded::Seed;
use crate::{BatchKind, DatabaseError, without_waiting};

const RESET: &str = "TRUNCATE system_testing.cassette_clock";
const CLOCK: &str = "SELECT CAST(now AS text) FROM system_testing.cassette_clock";

fn open(seed: impl Into<Seed>) -> Session {
    let database = Database::open(Options { seed: Some(seed.into()), ..Options::in_memory() }).unwrap();
    let session = database.session();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE ks",
        "CREATE TABLE t (k int PRIMARY KEY, id uuid, at timestamp, time timeuuid, l list<text>, v int)",
        "CREATE TABLE u (k int PRIMARY KEY, v int)",
        "CREATE TABLE counts (k int PRIMARY KEY, n counter)",
        "CREATE INDEX ON t (v)",
    ] {
        execute(&session, cql);
    }
    session
}

fn execute(session: &Session, cql: &str) -> Rows {
    session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"))
}

/// The only column of a result, as text.
fn texts(session: &Session, cql: &str) -> Vec<String> {
    execute(session, cql).typed::<(String,)>().map(|row| row.unwrap().0).collect()
}

/// Writes in all ways that generate values, and returns what can be observed of them.
fn observed(session: &Session) -> Vec<String> {
    const INSERT: &str = "INSERT INTO t (k, id, at, time, l, v) \
                          VALUES (?, uuid(), toTimestamp(now()), now(), ['a'], 7) USING TTL 60";
    let insert = session.prepare(INSERT).unwrap();
    session.execute(&insert, (1,)).unwrap();
    session.execute(&insert, (2,)).unwrap();
    for cql in [
        "UPDATE t SET l = ['before'] + l, time = currentTimeUUID() WHERE k = 1",
        "UPDATE t SET l = l + ['after'], at = current_timestamp() WHERE k = 1",
        "INSERT INTO t (k, id) VALUES (3, uuid()) IF NOT EXISTS",
        "INSERT INTO t (k, id) VALUES (3, uuid()) IF NOT EXISTS",
        "UPDATE counts SET n = n + 2 WHERE k = 1",
        "BEGIN BATCH INSERT INTO t (k, id, at) VALUES (4, uuid(), current_timestamp()); \
         INSERT INTO u (k, v) VALUES (1, 1) APPLY BATCH",
    ] {
        execute(session, cql);
    }
    let mut batch = session.batch_of_kind(BatchKind::Unlogged);
    batch.add("INSERT INTO t (k, id) VALUES (?, uuid())", (5,)).unwrap();
    batch.add("INSERT INTO u (k, v) VALUES (?, 2)", (2,)).unwrap();
    batch.execute().unwrap();
    let mut seen = texts(session, "SELECT JSON k, id, at, time, l, ttl(id), writetime(id) FROM t");
    seen.extend(texts(session, "SELECT JSON k, v, writetime(v) FROM u"));
    seen.extend(texts(session, "SELECT JSON uuid(), now(), current_date(), current_time() FROM u"));
    seen.extend(texts(session, "SELECT JSON k FROM t WHERE v = 7"));
    seen.extend(texts(session, CLOCK));
    seen
}

#[test]
fn databases_with_the_same_seed_generate_the_same_values() {
    let first = observed(&open(7));
    assert_eq!(first, observed(&open(7)));
    let other = observed(&open(8));
    let uuids = |seen: &[String]| -> Vec<String> {
        let marked = seen.iter().filter_map(|row| row.split("\"id\": \"").nth(1));
        marked.map(|row| row[..36].to_owned()).collect()
    };
    assert_eq!((uuids(&first).len(), uuids(&other).len()), (5, 5));
    assert!(uuids(&first).iter().all(|uuid| !uuids(&other).contains(uuid)), "{other:?}");
    // Nine writes of a millisecond each, since 2025.
    assert_eq!(first.last().unwrap(), "2025-01-01T00:00:00.009Z");
}

#[test]
fn each_write_advances_the_clock_by_a_millisecond_and_nothing_else_does() {
    let start = UNIX_EPOCH + Duration::from_secs(1_709_208_000);
    let session = open(Seed::new(1).starting_at(start));
    let now = || texts(&session, CLOCK).remove(0);
    assert_eq!(now(), "2024-02-29T12:00:00.000Z");
    for cql in [
        "SELECT now() FROM system.local",
        "SELECT * FROM t",
        "TRUNCATE t",
        "CREATE TABLE w (k int PRIMARY KEY)",
        "DROP TABLE w",
    ] {
        execute(&session, cql);
        assert_eq!(now(), "2024-02-29T12:00:00.000Z", "{cql}");
    }
    execute(&session, "INSERT INTO u (k, v) VALUES (1, 1)");
    execute(&session, "DELETE FROM u WHERE k = 1");
    session.execute("INSERT INTO u (k, v) VALUES (0x01, 1)", ()).unwrap_err();
    assert_eq!(now(), "2024-02-29T12:00:00.002Z");
    let (at, written): (SystemTime, i64) = {
        execute(&session, "INSERT INTO t (k, at, v) VALUES (1, toTimestamp(now()), 1)");
        session.query_one("SELECT at, writetime(v) FROM t WHERE k = 1", ()).unwrap()
    };
    assert_eq!(at, start + Duration::from_millis(3));
    assert_eq!(written, 1_709_208_000_003_000);
}

#[test]
fn the_text_now_of_a_timestamp_is_the_time_of_the_clock() {
    let session = open(7);
    execute(&session, "UPDATE system_testing.cassette_clock SET now = '1999-12-31' WHERE id = 'clock'");
    let insert = session.prepare("INSERT INTO t (k, at) VALUES (?, 'now')").unwrap();
    execute(&session, "INSERT INTO t (k, at) VALUES (1, 'now')");
    execute(&session, "INSERT INTO t JSON '{\"k\": 2, \"at\": \"NOW\"}'");
    session.execute(&insert, (3,)).unwrap();
    let mut batch = session.batch();
    batch.add("INSERT INTO t (k, at) VALUES (?, 'now')", (4,)).unwrap();
    batch.execute().unwrap();
    let days = texts(&session, "SELECT CAST(toDate(at) AS text) FROM t");
    assert_eq!(days, ["1999-12-31"; 4]);
}

#[test]
fn a_reset_of_tables_and_clock_makes_the_next_test_observe_the_same() {
    let session = open(7);
    let first = observed(&session);
    for _ in 0..2 {
        for table in ["t", "u", "counts"] {
            execute(&session, &format!("TRUNCATE {table}"));
        }
        execute(&session, RESET);
        assert_eq!(observed(&session), first);
    }
    execute(&session, "DROP KEYSPACE ks");
    execute(&session, RESET);
    let database = session.database().clone();
    assert_eq!(texts(&database.session(), CLOCK), ["2025-01-01T00:00:00.000Z"]);
}

#[test]
fn writes_after_a_reset_are_later_than_the_rows_that_remain() {
    let session = open(7);
    let value = || session.query_opt::<(Option<i32>,)>("SELECT v FROM u WHERE k = 1", ()).unwrap();
    for flush in [false, true] {
        for _ in 0..50 {
            execute(&session, "UPDATE u SET v = 1 WHERE k = 1");
        }
        if flush {
            session.database().flush().unwrap();
        }
        execute(&session, RESET);
        execute(&session, "UPDATE u SET v = 2 WHERE k = 1");
        assert_eq!(value(), Some((Some(2),)));
        execute(&session, RESET);
        execute(&session, "UPDATE u SET v = 3 WHERE k = 1 IF v = 2");
        assert_eq!(value(), Some((Some(3),)));
        execute(&session, RESET);
        execute(&session, "BEGIN BATCH UPDATE u SET v = 4 WHERE k = 1; APPLY BATCH");
        assert_eq!(value(), Some((Some(4),)));
        execute(&session, RESET);
        execute(&session, "DELETE FROM u WHERE k = 1");
        assert_eq!(value(), None);
    }
    // As without a seed, a timestamp of the client hides later writes.
    execute(&session, "UPDATE u USING TIMESTAMP 9000000000000000 SET v = 5 WHERE k = 1");
    execute(&session, RESET);
    execute(&session, "UPDATE u SET v = 6 WHERE k = 1");
    assert_eq!(value(), Some((Some(5),)));
}

#[test]
fn a_column_that_was_dropped_and_added_again_has_the_values_written_since() {
    let session = open(7);
    for _ in 0..30 {
        // Schema changes are later than each other, but do not advance the clock.
        execute(&session, "ALTER TABLE u DROP v");
        execute(&session, "ALTER TABLE u ADD v int");
    }
    execute(&session, "INSERT INTO u (k, v) VALUES (1, 1)");
    assert_eq!(texts(&session, "SELECT JSON * FROM u"), ["{\"k\": 1, \"v\": 1}"]);
}

#[test]
fn rows_expire_when_the_clock_is_set_past_their_time() {
    let session = open(7);
    execute(&session, "INSERT INTO u (k, v) VALUES (1, 1) USING TTL 3600");
    assert_eq!(session.query_one::<(i32,)>("SELECT ttl(v) FROM u", ()).unwrap(), (3600,));
    let set = "UPDATE system_testing.cassette_clock SET now = ? WHERE id = 'clock'";
    let at = UNIX_EPOCH + Duration::from_secs(1_735_689_600 + 3599);
    session.execute(set, (at,)).unwrap();
    assert_eq!(session.query_one::<(i32,)>("SELECT ttl(v) FROM u", ()).unwrap(), (1,));
    session.execute(set, (at + Duration::from_secs(2),)).unwrap();
    assert!(execute(&session, "SELECT v FROM u").is_empty());
    for (cql, reason) in [
        ("UPDATE system_testing.cassette_clock SET now = -1 WHERE id = 'clock'", "from 1970 to 2099"),
        ("UPDATE system_testing.cassette_clock SET now = null WHERE id = 'clock'", "only now can be changed"),
        ("UPDATE system_testing.cassette_clock SET start = 1 WHERE id = 'clock'", "only now can be changed"),
        ("UPDATE system_testing.cassette_clock SET now = 1 WHERE id = 'watch'", "id: expected clock"),
        ("DELETE FROM system_testing.cassette_clock WHERE id = 'clock'", "cannot be deleted"),
    ] {
        let error = session.execute(cql, ()).unwrap_err().to_string();
        assert!(error.contains(reason), "{cql}: {error}");
    }
}

#[test]
fn a_request_that_must_not_wait_generates_nothing() {
    let (session, other) = (open(7), open(7));
    let select = session.prepare("SELECT CAST(uuid() AS text) FROM u").unwrap();
    let insert = session.prepare("INSERT INTO u (k, v) VALUES (1, 1)").unwrap();
    for statement in [&select, &insert] {
        let refused = without_waiting(|| session.execute(statement, ()));
        assert!(matches!(refused, Err(DatabaseError::WouldBlock)));
    }
    assert_eq!(texts(&session, CLOCK), texts(&other, CLOCK));
    assert_eq!(observed(&session), observed(&other));
}

#[test]
fn paging_states_and_the_host_id_follow_from_the_seed() {
    let paged = |seed: u64| {
        let session = open(seed);
        for k in 0..3 {
            session.execute("INSERT INTO u (k, v) VALUES (?, 1)", (k,)).unwrap();
        }
        let options = StatementOptions { page_size: Some(1), ..StatementOptions::default() };
        let mut rows = Rows::default();
        let select = "SELECT * FROM ks.u";
        let page = session.database().query(None, select, Values::NONE, &options, &mut rows).unwrap();
        let Outcome::Rows { paging_state: Some(state) } = page.outcome else { panic!("{page:?}") };
        (state, session.database().node().host_id)
    };
    let (first, same, other) = (paged(7), paged(7), paged(8));
    assert_eq!(first, same);
    assert_ne!(first.0, other.0);
    assert_ne!(first.1, other.1);
}

#[test]
fn a_seed_needs_an_empty_directory() {
    let directory = tempfile::tempdir().unwrap();
    let options = || Options { seed: Some(7.into()), ..Options::new(directory.path()) };
    let database = Database::open(options()).unwrap();
    database.close().unwrap();
    drop(database);
    let error = Database::open(options()).unwrap_err().to_string();
    assert!(error.contains("a seed needs an empty directory"), "{error}");
    // Without a seed, the database continues with the machine's clock.
    let session = Database::open(directory.path()).unwrap().session();
    let error = session.execute(CLOCK, ()).unwrap_err().to_string();
    assert!(error.contains("start the server with --fault-injection, --nodes or --seed"), "{error}");
    let options = Options { fault_injection: true, ..Options::in_memory() };
    let session = Database::open(options).unwrap().session();
    let error = session.execute(RESET, ()).unwrap_err().to_string();
    assert_eq!(error, "there is no clock that can be set: start the server with --seed");
}
