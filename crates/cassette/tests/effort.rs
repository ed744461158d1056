//! What is executed at once, on the thread that serves connections, and what gets a thread of its own.

use bytes::Bytes;
use cassette_database::{Database, Options};
use cassette_engine::commitlog::SyncMode;
use cassette_protocol::{
    QueryParameters, Request, Value, Version,
    request::{Batch, BatchStatement, BatchType, Execute, Query, StatementSource},
};
use cassette_server::{Answer, Backend, Effort};
use tempfile::TempDir;

/// A database with table `ks.t` in a directory of its own.
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

fn ask(database: &Database, request: &Request, effort: Effort) -> Answer {
    let session = database.open_session("127.0.0.1:1".parse().unwrap());
    Backend::execute(database, &session, request, Version::V4, effort, None, &mut Vec::new()).unwrap()
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

/// Otherwise the requests of a connection would be synced one by one, each holding up a thread that serves others.
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
