use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cassette_rows::interrupt::{self, Cancellation, Interrupted};
use cassette_rows::{Consistency, DecoratedKey};
use cassette_vfs::{Clock, FakeFileSystem};

use super::Timeout;
use crate::api::database::{Database, Options};
use crate::basics::error::{DatabaseError, WriteType};
use crate::without_waiting;

const MESSAGE: &str = "Operation timed out - received only 0 responses.";

/// A database with a partition of 600 rows and 600 partitions of one row.
fn database() -> Database {
    let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
    let database = Database::open(options).unwrap();
    let session = database.session();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))",
        "CREATE TABLE ks.counts (k int PRIMARY KEY, n counter)",
        "CREATE INDEX ON ks.t (v)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    for n in 0..600 {
        session.execute(&format!("INSERT INTO ks.t (k, c, v) VALUES (0, {n}, 0)"), ()).unwrap();
        session.execute(&format!("INSERT INTO ks.t (k, c, v) VALUES ({n}, 1000, 1)"), ()).unwrap();
    }
    database
}

fn list(count: usize) -> String {
    (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
}

fn execute(database: &Database, statement: &str) -> Result<(), DatabaseError> {
    database.session().execute(statement, ()).map(drop)
}

fn set_all(database: &Database, time: Option<Duration>) {
    for timeout in Timeout::ALL {
        database.timeouts().set(timeout, time);
    }
}

#[test]
fn every_kind_of_read_ends_with_a_read_timeout_after_its_deadline() {
    let database = database();
    let reads = [
        "SELECT * FROM ks.t WHERE k = 0".to_owned(),
        "SELECT count(*) FROM ks.t WHERE k = 0".to_owned(),
        "SELECT c, max(v) FROM ks.t WHERE k = 0 GROUP BY k, c".to_owned(),
        "SELECT * FROM ks.t".to_owned(),
        "SELECT sum(v) FROM ks.t".to_owned(),
        "SELECT k, sum(c) FROM ks.t GROUP BY k".to_owned(),
        "SELECT * FROM ks.t WHERE c = 7 ALLOW FILTERING".to_owned(),
        "SELECT * FROM ks.t WHERE v < 0 ALLOW FILTERING".to_owned(),
        "SELECT sum(v) FROM ks.t WHERE k = 0 AND v < 0 ALLOW FILTERING".to_owned(),
        "SELECT * FROM ks.t WHERE v = 0".to_owned(),
        "SELECT * FROM ks.t WHERE v = 1".to_owned(),
        format!("SELECT * FROM ks.t WHERE k IN ({})", list(600)),
        format!("SELECT * FROM ks.t WHERE k IN ({}) ORDER BY c", list(600)),
    ];
    let check = |place: &str| {
        for read in &reads {
            execute(&database, read).unwrap();
        }
        // Parsing the long statements has its own timeout.
        for timeout in [Timeout::Read, Timeout::Range] {
            database.timeouts().set(timeout, Some(Duration::ZERO));
        }
        for read in &reads {
            let error = execute(&database, read).unwrap_err();
            let expected =
                DatabaseError::ReadTimeout { consistency: Consistency::One, message: MESSAGE.to_owned() };
            assert_eq!((&error, error.code()), (&expected, 0x1200), "{read} in {place}");
        }
        set_all(&database, None);
        for read in &reads {
            execute(&database, read).unwrap();
        }
    };
    check("memtables");
    database.engine().flush(None).unwrap();
    check("SSTables");
}

#[test]
fn reads_of_deleted_rows_honour_the_deadline() {
    let database = database();
    // A memtable drops deleted rows; across SSTables they are read and dropped then.
    database.engine().flush(None).unwrap();
    execute(&database, "DELETE FROM ks.t WHERE k = 0 AND c < 900").unwrap();
    execute(&database, "SELECT * FROM ks.t WHERE k = 0").unwrap();
    set_all(&database, Some(Duration::ZERO));
    let error = execute(&database, "SELECT * FROM ks.t WHERE k = 0").unwrap_err();
    assert_eq!(error.code(), 0x1200, "{error}");
}

fn batch(kind: &str, statement: impl Fn(usize) -> String) -> String {
    let mut batch = format!("BEGIN {kind} BATCH ");
    for n in 0..600 {
        write!(batch, "{}; ", statement(n)).unwrap();
    }
    batch + "APPLY BATCH"
}

#[test]
fn a_write_that_times_out_has_changed_nothing() {
    let database = database();
    database.timeouts().set(Timeout::Write, Some(Duration::ZERO));
    for (kind, write_type) in [("", WriteType::Batch), ("UNLOGGED", WriteType::UnloggedBatch)] {
        let batch = batch(kind, |n| format!("INSERT INTO ks.t (k, c, v) VALUES ({n}, 2000, 0)"));
        let error = execute(&database, &batch).unwrap_err();
        let message = MESSAGE.to_owned();
        let expected = DatabaseError::WriteTimeout { consistency: Consistency::One, write_type, message };
        assert_eq!((&error, error.code()), (&expected, 0x1100));
    }
    let rows = database.session().execute("SELECT * FROM ks.t WHERE c = 2000 ALLOW FILTERING", ()).unwrap();
    assert_eq!(rows.len(), 0);
}

#[test]
fn a_conditional_write_waits_for_others_until_its_contention_timeout() {
    let database = database();
    database.timeouts().set(Timeout::CasContention, Some(Duration::from_millis(5)));
    let table = database.catalog().table("ks", "t").unwrap().id;
    let held =
        database.engine().lock_partition(table, &DecoratedKey::new(0i32.to_be_bytes().to_vec().into()));
    let write = "INSERT INTO ks.t (k, c, v) VALUES (0, 3000, 0) IF NOT EXISTS";
    let error = execute(&database, write).unwrap_err();
    assert!(
        matches!(
            &error,
            DatabaseError::WriteTimeout {
                consistency: Consistency::Serial,
                write_type: WriteType::Cas,
                message,
            } if message.starts_with("CAS operation timed out: received 0 of 1")
        ),
        "{error:?}"
    );
    drop(held);
    execute(&database, write).unwrap();
}

#[test]
fn a_batch_of_counters_that_stops_halfway_reports_a_timeout() {
    let database = database();
    let batch = batch("COUNTER", |n| format!("UPDATE ks.counts SET n = n + 1 WHERE k = {n}"));
    let cancellation = Cancellation::new();
    cancellation.cancel(Interrupted::ClientGone);
    let error = interrupt::cancellable(&cancellation, || execute(&database, &batch)).unwrap_err();
    let is_timeout = matches!(&error, DatabaseError::WriteTimeout { write_type: WriteType::Counter, .. });
    let rows = database.session().execute("SELECT k FROM ks.counts", ()).unwrap();
    assert_eq!(is_timeout, !rows.is_empty(), "{error:?} after {} partitions", rows.len());
}

#[test]
fn a_cancelled_request_ends_with_the_reason() {
    let database = database();
    for reason in [Interrupted::ClientGone, Interrupted::ShuttingDown] {
        let cancellation = Cancellation::new();
        cancellation.cancel(reason);
        let error =
            interrupt::cancellable(&cancellation, || execute(&database, "SELECT * FROM ks.t")).unwrap_err();
        assert_eq!((&error, error.code()), (&DatabaseError::Interrupted(reason), 0x1001));
    }
}

/// A clock that advances 10 ms with each reading.
#[derive(Default)]
struct SlowClock(AtomicU64);

impl Clock for SlowClock {
    fn now_micros(&self) -> i64 {
        1_000_000_000_000
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(10 * self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn long_computations_leave_a_thread_that_serves_others() {
    let options = Options {
        file_system: Arc::new(FakeFileSystem::new()),
        clock: Arc::new(SlowClock::default()),
        ..Options::new("/data")
    };
    let database = Database::open(options).unwrap();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))",
    ] {
        execute(&database, statement).unwrap();
    }
    execute(&database, &batch("UNLOGGED", |n| format!("INSERT INTO ks.t (k, c, v) VALUES (0, {n}, 0)")))
        .unwrap();
    let at_once = |statement: &str| {
        let session = database.session();
        let statement = session.prepare(statement).unwrap();
        without_waiting(|| session.execute(&statement, ()).map(drop))
    };
    assert_eq!(at_once("SELECT * FROM ks.t WHERE k = 0 LIMIT 100"), Ok(()));
    assert_eq!(at_once("SELECT count(*) FROM ks.t WHERE k = 0"), Err(DatabaseError::WouldBlock));
    assert_eq!(execute(&database, "SELECT count(*) FROM ks.t WHERE k = 0"), Ok(()));
}

#[test]
fn schema_changes_begin_in_time_or_not_at_all() {
    let database = database();
    set_all(&database, Some(Duration::ZERO));
    for (statement, code) in [("CREATE TABLE ks.u (k int PRIMARY KEY)", 0x1001), ("TRUNCATE ks.t", 0x1003)] {
        let error = execute(&database, statement).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
    set_all(&database, None);
    execute(&database, "CREATE TABLE ks.u (k int PRIMARY KEY)").unwrap();
    assert!(database.session().execute("SELECT * FROM ks.t LIMIT 1", ()).unwrap().len() == 1);
}

#[test]
fn timeouts_are_settings_that_can_be_changed() {
    let database = database();
    let value = |name: &str| {
        let query = format!("SELECT value FROM system_views.settings WHERE name = '{name}'");
        let rows = database.session().execute(&query, ()).unwrap();
        rows.iter().next().map(|row| String::from_utf8(row.bytes(0).unwrap().to_vec()).unwrap())
    };
    assert_eq!(value("read_request_timeout"), None);
    database.timeouts().set(Timeout::Read, Some(Duration::from_secs(5)));
    assert_eq!(value("read_request_timeout").as_deref(), Some("5000ms"));
    assert_eq!(Timeout::from_key("cas_contention_timeout"), Some(Timeout::CasContention));
}

#[test]
fn timeouts_are_counted_as_timeouts_and_not_as_invalid_requests() {
    let database = database();
    database.timeouts().set(Timeout::Read, Some(Duration::ZERO));
    database.timeouts().set(Timeout::Write, Some(Duration::ZERO));
    execute(&database, &format!("SELECT * FROM ks.t WHERE k IN ({})", list(600))).unwrap_err();
    let inserts: String = (0..600).map(|n| format!("INSERT INTO ks.t (k, c) VALUES ({n}, 1); ")).collect();
    execute(&database, &format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH")).unwrap_err();
    let metrics = database.metrics();
    for of_kind in [&metrics.read, &metrics.write] {
        let counted = (of_kind.timeouts.get(), of_kind.failures.get(), of_kind.invalid.get());
        assert_eq!(counted, (1, 0, 0));
    }
}

#[test]
fn a_schema_change_that_waits_for_another_ends_at_its_deadline() {
    let database = database();
    let locked = database.store().lock_schema();
    set_all(&database, Some(Duration::from_millis(20)));
    let create = "CREATE TABLE ks.u (k int PRIMARY KEY)";
    for (statement, code) in [(create, 0x1001), ("TRUNCATE ks.t", 0x1003)] {
        let error = execute(&database, statement).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
    drop(locked);
    set_all(&database, None);
    execute(&database, create).unwrap();
    assert_eq!(execute(&database, "SELECT * FROM ks.t LIMIT 1"), Ok(()));
}

#[test]
fn parsing_and_planning_of_one_large_statement_end_at_their_deadline() {
    let database = database();
    database.timeouts().set(Timeout::Request, Some(Duration::ZERO));
    let late = DatabaseError::Overloaded("Query timed out before it could start".to_owned());
    let texts = [
        format!("SELECT * FROM ks.t WHERE k IN ({})", list(10_000)),
        // The end of the text is not valid CQL.
        format!("DELETE FROM ks.t WHERE k IN ({}) AND AND", list(10_000)),
        format!("BEGIN BATCH {} APPLY BATCH", "DELETE FROM ks.t WHERE k = 0 ".repeat(1000)),
    ];
    for text in &texts {
        assert_eq!(execute(&database, text), Err(late.clone()), "{}", &text[..40]);
        assert_eq!(database.session().prepare(text).map(drop), Err(late.clone()), "{}", &text[..40]);
    }
    assert_eq!(execute(&database, "SELECT count(*) FROM ks.t"), Ok(()));
}
