use std::sync::Arc;

use cassette_vfs::FakeFileSystem;

use crate::api::database::{Database, Options};
use crate::api::embedded::Session;
use crate::basics::error::DatabaseError;
use crate::basics::request::{Consistency, StatementOptions};

fn session() -> Session {
    let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
    let session = Database::open(options).unwrap().session();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE ks",
        "CREATE TABLE t (k int, c int, v vector<float, 2>, i int, s int static, PRIMARY KEY (k, c))",
        "CREATE INDEX ON t (v) USING 'sai' WITH OPTIONS = {'similarity_function': 'euclidean'}",
        "CREATE INDEX ON t (i) USING 'sai'",
    ] {
        session.execute(statement, ()).unwrap();
    }
    session
}

fn insert(session: &Session, k: i32, c: i32, x: f32, y: f32) {
    let cql = format!("INSERT INTO t (k, c, v, i) VALUES ({k}, {c}, [{x}, {y}], {})", (k + c) % 3);
    session.execute(&cql, ()).unwrap();
}

/// The keys of the rows nearest to the origin, under `restrictions`.
fn nearest(session: &Session, restrictions: &str, limit: usize) -> Vec<(i32, i32)> {
    let cql = format!("SELECT k, c FROM t {restrictions} ORDER BY v ANN OF [0, 0] LIMIT {limit}");
    let rows = session.execute(&cql, ()).unwrap();
    rows.iter().map(|row| (row.get("k").unwrap(), row.get("c").unwrap())).collect()
}

#[test]
fn the_nearest_rows_are_those_of_all_comparisons() {
    let session = session();
    let mut distances = Vec::new();
    for n in 0..300i32 {
        let (k, c) = (n % 20, n / 20);
        let (x, y) = ((n * 37 % 101) as f32 / 7.0, (n * 53 % 97) as f32 / 11.0);
        insert(&session, k, c, x, y);
        distances.push((x * x + y * y, k, c));
    }
    distances.sort_by(|a, b| a.0.total_cmp(&b.0));
    let expected = |holds: &dyn Fn(i32, i32) -> bool| -> Vec<(i32, i32)> {
        let matching = distances.iter().filter(|(_, k, c)| holds(*k, *c));
        matching.map(|(_, k, c)| (*k, *c)).take(10).collect()
    };
    assert_eq!(nearest(&session, "", 10), expected(&|_, _| true));
    assert_eq!(nearest(&session, "WHERE i = 1", 10), expected(&|k, c| (k + c) % 3 == 1));
    assert_eq!(nearest(&session, "WHERE k = 7", 10), expected(&|k, _| k == 7));
    assert_eq!(nearest(&session, "WHERE k = 7 AND c > 4", 10), expected(&|k, c| k == 7 && c > 4));
    let both = expected(&|k, c| k == 7 && (k + c) % 3 == 2);
    assert_eq!(nearest(&session, "WHERE k = 7 AND i = 2", 10), both);
}

#[test]
fn replaced_deleted_and_expired_vectors_are_not_found() {
    let session = session();
    for k in 0..6 {
        insert(&session, k, 0, k as f32, 0.0);
    }
    for statement in [
        "UPDATE t SET v = [100, 0] WHERE k = 0 AND c = 0",
        "DELETE v FROM t WHERE k = 1 AND c = 0",
        "DELETE FROM t WHERE k = 2",
        "UPDATE t USING TIMESTAMP 1 SET v = [0, 0] WHERE k = 3 AND c = 0",
    ] {
        session.execute(statement, ()).unwrap();
    }
    assert_eq!(nearest(&session, "", 10), [(3, 0), (4, 0), (5, 0), (0, 0)]);
    session.execute("TRUNCATE t", ()).unwrap();
    assert!(nearest(&session, "", 10).is_empty());
    insert(&session, 9, 9, 1.0, 1.0);
    assert_eq!(nearest(&session, "", 10), [(9, 9)]);
}

#[test]
fn equally_similar_rows_are_in_the_order_of_the_table() {
    let session = session();
    for (k, c) in [(1, 2), (1, 1), (3, 1), (2, 1)] {
        insert(&session, k, c, 5.0, 5.0);
    }
    let rows = session.execute("SELECT k, c FROM t", ()).unwrap();
    let stored: Vec<(i32, i32)> =
        rows.iter().map(|row| (row.get("k").unwrap(), row.get("c").unwrap())).collect();
    assert_eq!(nearest(&session, "", 3), stored[..3]);
}

#[test]
fn pages_and_consistency_levels_are_ignored_with_a_warning() {
    let session = session();
    for k in 0..5 {
        insert(&session, k, 0, k as f32, 0.0);
    }
    let cql = "SELECT k FROM t ORDER BY v ANN OF [0, 0] LIMIT 4";
    let options = StatementOptions { page_size: Some(3), ..StatementOptions::default() };
    let rows = session.execute_with(cql, (), &options).unwrap();
    assert_eq!(rows.iter().count(), 4);
    let serial = StatementOptions { consistency: Consistency::Serial, ..StatementOptions::default() };
    assert!(matches!(session.execute_with(cql, (), &serial), Err(DatabaseError::Invalid(_))));
}

#[test]
fn vectors_that_cannot_be_compared_are_neither_written_nor_searched() {
    let session = session();
    let failed = session.execute("INSERT INTO t (k, c, v) VALUES (1, 1, [NaN, 1])", ()).unwrap_err();
    assert_eq!(failed.code(), 0x1500);
    assert_eq!(failed.to_string(), "non-finite value at vector[0]=NaN");
    session.execute("INSERT INTO t (k, c, v) VALUES (1, 1, [0, 0])", ()).unwrap();
    let failed = session.execute("SELECT k FROM t ORDER BY v ANN OF [1, Infinity] LIMIT 1", ()).unwrap_err();
    assert_eq!(failed.code(), 0x1300);
    assert_eq!(nearest(&session, "", 5), [(1, 1)]);
}
