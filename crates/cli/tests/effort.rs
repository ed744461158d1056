//! Requests executed directly, on the thread that serves connections, and requests on dedicated
//! threads.

use std::sync::Arc;

use bytes::Bytes;
use cassette_database::{Database, Options};
use cassette_engine::commitlog::SyncMode;
use cassette_protocol::{
    QueryParameters, Request, Value, Version,
    request::{Batch, BatchStatement, BatchType, Execute, Prepare, Query, StatementSource},
};
use cassette_server::{Answer, Backend, Body, Effort};
use cassette_vfs::FakeFileSystem;
use tempfile::TempDir;

/// A database with table `ks.t` in a temporary directory.
fn open(sync: SyncMode) -> (TempDir, Database) {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::new(directory.path());
    options.engine.commitlog_sync = sync;
    let database = Database::open(options).unwrap();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
    ] {
        let parameters = QueryParameters::default();
        let query = Request::Query(Query { query: cql.into(), parameters });
        assert!(matches!(ask(&database, &query, Effort::MayBlock), Answer::Result(_)));
    }
    (directory, database)
}

/// A database with these tables on a file system that caches nothing before the first read.
fn open_cold(tables: &[&str]) -> Database {
    let mut options = Options::new("data");
    options.file_system = Arc::new(FakeFileSystem::new());
    options.engine.commitlog_sync = SyncMode::Periodic { period: std::time::Duration::from_secs(10) };
    options.materialized_views_enabled = true;
    // Increments must read stored data.
    options.engine.counter_cache_size = 0;
    let database = Database::open(options).unwrap();
    let session = database.session();
    let keyspace =
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    for cql in [keyspace].iter().chain(tables) {
        session.execute(cql, ()).unwrap();
    }
    database
}

fn ask(database: &Database, request: &Request, effort: Effort) -> Answer {
    let session = database.open_session("127.0.0.1:1".parse().unwrap());
    Backend::execute(database, &session, request, Version::V4, effort, None, Body::new(&mut Vec::new()))
        .unwrap()
}

fn is_executed_at_once(database: &Database, request: &Request) -> bool {
    let answer = ask(database, request, Effort::MemoryOnly);
    assert!(matches!(ask(database, request, Effort::MayBlock), Answer::Result(_)));
    answer != Answer::WouldBlock
}

fn prepared(database: &Database, cql: &str) -> (Bytes, QueryParameters) {
    let id = Bytes::copy_from_slice(database.prepare(None, cql).unwrap().id().as_ref());
    let values = [Value::Set(&[0, 0, 0, 1])].into_iter().collect();
    (id, QueryParameters { values, ..QueryParameters::default() })
}

fn execute(database: &Database, cql: &str) -> Request {
    let (id, parameters) = prepared(database, cql);
    Request::Execute(Execute { id, result_metadata_id: None, parameters })
}

fn batch(database: &Database, cql: &str) -> Request {
    let (id, QueryParameters { values, .. }) = prepared(database, cql);
    Request::Batch(Batch {
        batch_type: BatchType::Logged,
        statements: vec![BatchStatement { source: StatementSource::Prepared(id), values }],
        parameters: QueryParameters::default(),
    })
}

const INSERT: &str = "INSERT INTO ks.t (k, v) VALUES (?, 1)";
const CONDITION: &str = "UPDATE ks.t SET v = 2 WHERE k = ? IF EXISTS";
const SELECT: &str = "SELECT v FROM ks.t WHERE k = ?";

#[test]
fn writes_that_are_acknowledged_from_memory_are_executed_at_once() {
    let (_directory, database) = open(SyncMode::Periodic { period: std::time::Duration::from_secs(10) });
    for cql in [INSERT, CONDITION, SELECT] {
        assert!(is_executed_at_once(&database, &execute(&database, cql)), "{cql}");
    }
    assert!(is_executed_at_once(&database, &batch(&database, INSERT)));
}

/// Otherwise the requests of a connection would be synced one by one, each blocking a thread that
/// serves others.
#[test]
fn writes_that_wait_for_a_sync_get_threads_of_their_own_and_reads_go_on() {
    let group = SyncMode::Group { window: std::time::Duration::from_millis(1) };
    for sync in [SyncMode::Batch, group] {
        let (_directory, database) = open(sync);
        for cql in [INSERT, CONDITION] {
            assert!(!is_executed_at_once(&database, &execute(&database, cql)), "{cql}");
        }
        assert!(!is_executed_at_once(&database, &batch(&database, INSERT)));
        assert!(is_executed_at_once(&database, &execute(&database, SELECT)));
    }
}

/// Tables, a row of each, and a statement that reads it before it writes.
const READ_FIRST: [(&[&str], &str, &str); 8] = [
    (
        &["CREATE TABLE ks.t (k int PRIMARY KEY, v int)"],
        "INSERT INTO ks.t (k, v) VALUES (1, 0)",
        "UPDATE ks.t SET v = 2 WHERE k = ? IF EXISTS",
    ),
    (
        &["CREATE TABLE ks.t (k int PRIMARY KEY, v int)"],
        "INSERT INTO ks.t (k, v) VALUES (1, 0)",
        "INSERT INTO ks.t (k, v) VALUES (?, 5) IF NOT EXISTS",
    ),
    (
        &["CREATE TABLE ks.t (k int PRIMARY KEY, v counter)"],
        "UPDATE ks.t SET v = v + 1 WHERE k = 1",
        "UPDATE ks.t SET v = v + 1 WHERE k = ?",
    ),
    (
        &["CREATE TABLE ks.t (k int PRIMARY KEY, v int)", "CREATE INDEX ON ks.t (v)"],
        "INSERT INTO ks.t (k, v) VALUES (1, 0)",
        "UPDATE ks.t SET v = 2 WHERE k = ?",
    ),
    (
        &["CREATE TABLE ks.t (k int PRIMARY KEY, v int)", "CREATE INDEX ON ks.t (v) USING 'sai'"],
        "INSERT INTO ks.t (k, v) VALUES (1, 0)",
        "DELETE FROM ks.t WHERE k = ?",
    ),
    (
        &[
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
            "CREATE MATERIALIZED VIEW ks.w AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL \
             PRIMARY KEY (v, k)",
        ],
        "INSERT INTO ks.t (k, v) VALUES (1, 0)",
        "UPDATE ks.t SET v = 2 WHERE k = ?",
    ),
    (
        &["CREATE TABLE ks.t (k int PRIMARY KEY, v list<int>)"],
        "INSERT INTO ks.t (k, v) VALUES (1, [7, 8])",
        "UPDATE ks.t SET v[1] = 2 WHERE k = ?",
    ),
    (
        &["CREATE TABLE ks.t (k int PRIMARY KEY, v list<int>)"],
        "INSERT INTO ks.t (k, v) VALUES (1, [7, 8])",
        "UPDATE ks.t SET v = v - [8] WHERE k = ?",
    ),
];

/// Operations on the memtables of the keyspace; the database's internal tables may be written at
/// any time.
fn written(database: &Database) -> u64 {
    let engine = database.engine();
    let tables = engine.tables().into_iter().filter(|(_, table)| table.keyspace == "ks");
    tables.map(|(id, _)| engine.table_stats(id).unwrap().memtable_operations).sum()
}

#[test]
fn writes_that_read_first_get_threads_of_their_own_when_they_have_to_wait_and_have_done_nothing_by_then() {
    for (tables, row, statement) in READ_FIRST {
        let database = open_cold(tables);
        let session = database.session();
        for in_batch in [false, true] {
            if in_batch && tables[0].contains("counter") {
                continue;
            }
            session.execute(row, ()).unwrap();
            database.engine().flush(None).unwrap();
            let request = if in_batch { batch(&database, statement) } else { execute(&database, statement) };
            let before = written(&database);
            assert_eq!(ask(&database, &request, Effort::MemoryOnly), Answer::WouldBlock, "{statement}");
            assert_eq!(written(&database), before, "{statement}");
            assert!(matches!(ask(&database, &request, Effort::MayBlock), Answer::Result(_)), "{statement}");
            let again = ask(&database, &request, Effort::MemoryOnly);
            assert!(matches!(again, Answer::Result(_)), "{statement}: what it reads is in memory now");
        }
    }
}

/// With CREATE INDEX on one column and with storage-attached indexes on two.
const INDEXED: [&str; 4] = [
    "CREATE TABLE ks.t (k int PRIMARY KEY, v int, w int, x int)",
    "CREATE INDEX ON ks.t (v)",
    "CREATE INDEX ON ks.t (w) USING 'sai'",
    "CREATE INDEX ON ks.t (x) USING 'sai'",
];

#[test]
fn reads_by_one_index_are_executed_at_once_if_they_find_few_rows_in_memory() {
    let database = open_cold(&INDEXED);
    let session = database.session();
    let at_once = |cql: &str| ask(&database, &execute(&database, cql), Effort::MemoryOnly);
    let few = ["SELECT k FROM ks.t WHERE v = ?", "SELECT k FROM ks.t WHERE w = ?"];
    session.execute("INSERT INTO ks.t (k, v, w, x) VALUES (1, 1, 1, 1)", ()).unwrap();
    for cql in few {
        assert!(is_executed_at_once(&database, &execute(&database, cql)), "{cql}");
    }
    let may_find_much = [
        "SELECT k FROM ks.t WHERE w > ?",
        "SELECT k FROM ks.t WHERE w = ? AND x = 1",
        "SELECT k FROM ks.t WHERE v > ? ALLOW FILTERING",
        "SELECT k FROM ks.t WHERE w > 0 AND k = ?",
    ];
    for cql in may_find_much {
        assert!(!is_executed_at_once(&database, &execute(&database, cql)), "{cql}");
    }
    database.engine().flush(None).unwrap();
    for cql in few {
        assert_eq!(at_once(cql), Answer::WouldBlock, "{cql}: on the disk");
        assert!(matches!(ask(&database, &execute(&database, cql), Effort::MayBlock), Answer::Result(_)));
        assert!(matches!(at_once(cql), Answer::Result(_)), "{cql}: what it reads is in memory now");
    }
    for k in 2..40 {
        session.execute("INSERT INTO ks.t (k, v, w, x) VALUES (?, 1, 1, 1)", (k,)).unwrap();
    }
    for cql in few {
        let all = execute(&database, cql);
        assert!(!is_executed_at_once(&database, &all), "{cql}");
        assert_eq!(at_once(cql), Answer::WouldBlock, "{cql}: too many at once, though in memory");
        assert_eq!(session.execute(cql, (1,)).unwrap().len(), 39);
    }
}

#[test]
fn a_counter_counts_what_had_to_wait_once() {
    let database = open_cold(READ_FIRST[2].0);
    let session = database.session();
    session.execute(READ_FIRST[2].1, ()).unwrap();
    database.engine().flush(None).unwrap();
    assert!(!is_executed_at_once(&database, &execute(&database, READ_FIRST[2].2)));
    // Each partition is counted separately: a write to one could not be undone.
    let id = Bytes::copy_from_slice(database.prepare(None, READ_FIRST[2].2).unwrap().id().as_ref());
    let statement = |k: u8| BatchStatement {
        source: StatementSource::Prepared(id.clone()),
        values: [Value::Set(&[0, 0, 0, k])].into_iter().collect(),
    };
    let request = Request::Batch(Batch {
        batch_type: BatchType::Counter,
        statements: vec![statement(1), statement(2)],
        parameters: QueryParameters::default(),
    });
    assert!(!is_executed_at_once(&database, &request));
    let counted = session.execute("SELECT v FROM ks.t WHERE k = 1", ()).unwrap();
    assert_eq!(counted.first().unwrap().get::<i64>(0).unwrap(), 3);
}

#[test]
fn nobody_waits_for_the_lock_of_a_partition_on_a_thread_that_serves_others() {
    for (tables, row, statement) in [READ_FIRST[0], READ_FIRST[2], READ_FIRST[5]] {
        let database = open_cold(tables);
        database.session().execute(row, ()).unwrap();
        let table = database.catalog().table("ks", "t").unwrap().id;
        let key = cassette_rows::DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]));
        let request = execute(&database, statement);
        let lock = database.engine().lock_partition(table, &key).unwrap();
        assert_eq!(ask(&database, &request, Effort::MemoryOnly), Answer::WouldBlock, "{statement}");
        drop(lock);
        assert!(matches!(ask(&database, &request, Effort::MemoryOnly), Answer::Result(_)), "{statement}");
    }
}

#[test]
fn long_texts_and_large_values_leave_the_threads_that_serve_others() {
    let (_directory, database) = open(SyncMode::Periodic { period: std::time::Duration::from_secs(10) });
    let session = database.session();
    session.execute("CREATE TABLE ks.b (k int PRIMARY KEY, v blob)", ()).unwrap();
    let prepare = |length: usize| {
        // As in Cassandra, a comment must end with a line break.
        let query = format!("SELECT v FROM ks.t WHERE k = 0 -- {}\n", "x".repeat(length));
        Request::Prepare(Prepare { query: query.into(), keyspace: None })
    };
    assert!(is_executed_at_once(&database, &prepare(100)));
    assert!(!is_executed_at_once(&database, &prepare(10_000)));

    let text = |count: usize| {
        let query = "INSERT INTO ks.t (k, v) VALUES (1, 1)";
        let statement = || BatchStatement {
            source: StatementSource::Query(query.into()),
            values: std::iter::empty::<Value<'_>>().collect(),
        };
        let statements = std::iter::repeat_with(statement).take(count).collect();
        let parameters = QueryParameters::default();
        Request::Batch(Batch { batch_type: BatchType::Logged, statements, parameters })
    };
    assert!(is_executed_at_once(&database, &text(2)));
    assert!(!is_executed_at_once(&database, &text(500)));

    let insert = |length: usize| {
        let id = database.prepare(None, "INSERT INTO ks.b (k, v) VALUES (?, ?)").unwrap().id();
        let value = vec![0; length];
        let values = [Value::Set(&[0, 0, 0, 1]), Value::Set(&value)].into_iter().collect();
        let parameters = QueryParameters { values, ..QueryParameters::default() };
        let id = Bytes::copy_from_slice(&id);
        Request::Execute(Execute { id, result_metadata_id: None, parameters })
    };
    assert!(is_executed_at_once(&database, &insert(1_000)));
    assert!(!is_executed_at_once(&database, &insert(1_000_000)));
}
