use std::sync::Arc;

use cassette_vfs::{FakeFileSystem, FileSystem};

use crate::api::database::{Database, Options};
use crate::api::embedded::Session;
use crate::basics::error::DatabaseError;
use crate::basics::request::{Consistency, StatementOptions};

fn open(files: &Arc<FakeFileSystem>) -> Database {
    let mut options = Options { file_system: files.clone(), ..Options::new("/data") };
    // Graphs are loaded and extended by the statements themselves.
    options.engine.background_threads = false;
    Database::open(options).unwrap()
}

fn session() -> Session {
    session_of(&open(&Arc::new(FakeFileSystem::new())))
}

fn session_of(database: &Database) -> Session {
    let session = database.session();
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

/// The number of living and of dead vectors in the graph of the index, which must be complete.
fn vectors(database: &Database) -> (usize, usize) {
    let catalog = database.catalog();
    let table = catalog.table("ks", "t").unwrap();
    let index = catalog.indexes_of(table.id).iter().find(|index| index.similarity.is_some()).unwrap();
    let graph = database.store().build_states().graphs.of(index).unwrap();
    assert!(graph.is_complete());
    graph.counts()
}

#[test]
fn a_graph_is_loaded_from_the_entries_at_the_next_start() {
    let files = Arc::new(FakeFileSystem::new());
    let database = open(&files);
    let session = session_of(&database);
    for n in 0..200 {
        insert(&session, n % 10, n, n as f32, 1.0);
    }
    let expected = nearest(&session, "", 5);
    assert_eq!(vectors(&database), (200, 0));
    drop(session);
    database.close().unwrap();
    drop(database);
    let directory = std::path::Path::new("/data/saved_caches");
    let saved = || {
        let entries = files.read_dir(directory).unwrap();
        entries.into_iter().find(|entry| entry.name.starts_with("vectors-")).map(|entry| entry.name)
    };
    let database = open(&files);
    assert_eq!(vectors(&database), (200, 0));
    drop(database);
    // Damaged links are found again.
    let path = directory.join(saved().unwrap());
    let files_dyn: &dyn FileSystem = &*files;
    let mut bytes = files_dyn.read(&path).unwrap();
    bytes[40] ^= 1;
    files_dyn.write_atomically(&path, &bytes).unwrap();
    let database = open(&files);
    assert_eq!(vectors(&database), (200, 0));
    let session = database.session();
    session.execute("USE ks", ()).unwrap();
    assert_eq!(nearest(&session, "", 5), expected);
    session.execute("DROP INDEX t_v_idx", ()).unwrap();
    drop((session, database));
    drop(open(&files));
    assert_eq!(saved(), None);
}

#[test]
fn the_graph_of_an_index_on_a_table_with_rows_contains_them() {
    let database = open(&Arc::new(FakeFileSystem::new()));
    let session = session_of(&database);
    session.execute("DROP INDEX t_v_idx", ()).unwrap();
    for n in 0..100 {
        insert(&session, n % 10, n, n as f32, 1.0);
    }
    session.execute("CREATE INDEX ON t (v) USING 'sai'", ()).unwrap();
    assert_eq!(vectors(&database), (100, 0));
    session.execute("TRUNCATE t", ()).unwrap();
    assert_eq!(vectors(&database), (0, 0));
    insert(&session, 1, 1, 1.0, 1.0);
    assert_eq!(vectors(&database), (1, 0));
}

#[test]
fn vectors_without_entries_are_forgotten_and_found_again_when_written() {
    let database = open(&Arc::new(FakeFileSystem::new()));
    let session = session_of(&database);
    for n in 0..40 {
        insert(&session, n, 0, n as f32, 0.0);
    }
    session.execute("DELETE FROM t WHERE k = 0", ()).unwrap();
    session.execute("UPDATE t SET v = [1000, 0] WHERE k = 1 AND c = 0", ()).unwrap();
    assert_eq!(nearest(&session, "", 3), [(2, 0), (3, 0), (4, 0)]);
    let (alive, dead) = vectors(&database);
    assert_eq!((alive, dead), (39, 2));
    insert(&session, 77, 7, 0.0, 0.0);
    insert(&session, 1, 0, 1.0, 0.0);
    assert_eq!(nearest(&session, "", 3), [(77, 7), (1, 0), (2, 0)]);
}

#[test]
fn equal_vectors_are_one_node_with_all_their_rows() {
    let database = open(&Arc::new(FakeFileSystem::new()));
    let session = session_of(&database);
    for n in 0..100 {
        insert(&session, n % 10, n, (n % 2) as f32, 0.0);
    }
    assert_eq!(vectors(&database), (2, 0));
    assert_eq!(nearest(&session, "", 70).iter().filter(|(_, c)| c % 2 == 0).count(), 50);
    assert_eq!(nearest(&session, "WHERE token(k) > token(3)", 100).len(), {
        let rows = session.execute("SELECT k FROM t WHERE token(k) > token(3)", ()).unwrap();
        rows.iter().count()
    });
}

#[test]
fn a_search_finds_rows_that_few_vectors_of_the_graph_have() {
    let session = session();
    for n in 0..600 {
        insert(&session, n, 0, n as f32, 0.0);
    }
    session.execute("UPDATE t SET i = 9 WHERE k = 599 AND c = 0", ()).unwrap();
    session.execute("UPDATE t SET i = 9 WHERE k = 598 AND c = 0", ()).unwrap();
    assert_eq!(nearest(&session, "WHERE i = 9", 5), [(598, 0), (599, 0)]);
    for n in 300..598 {
        session.execute(&format!("UPDATE t SET i = 9 WHERE k = {n} AND c = 0"), ()).unwrap();
    }
    assert_eq!(nearest(&session, "WHERE i = 9", 3), [(300, 0), (301, 0), (302, 0)]);
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

#[test]
fn a_graph_whose_vectors_were_mostly_replaced_is_loaded_again() {
    let database = open(&Arc::new(FakeFileSystem::new()));
    let session = session_of(&database);
    for n in 0..60 {
        insert(&session, n, 0, n as f32, 0.0);
    }
    database.tick_metrics();
    for n in 0..60 {
        insert(&session, n, 0, 100.0 - n as f32, 0.0);
    }
    // 19 vectors are among the earlier ones, and 41 are new.
    let (alive, dead) = vectors(&database);
    assert_eq!(alive + dead, 60 + 41);
    let expected = nearest(&session, "", 60);
    assert_eq!(expected[..3], [(59, 0), (58, 0), (57, 0)]);
    database.tick_metrics();
    assert_eq!(vectors(&database), (60, 0));
    assert_eq!(nearest(&session, "", 60), expected);
    // Removals are counted from 0 again.
    session.execute("DELETE FROM t WHERE k = 59", ()).unwrap();
    database.tick_metrics();
    assert_eq!(vectors(&database), (60, 0));
    assert_eq!(nearest(&session, "", 60), expected[1..]);
}

#[test]
fn a_graph_is_not_loaded_again_without_memory_for_both() {
    let mut options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
    options.engine.background_threads = false;
    // One block of 1,024 vectors and its links, but not two.
    options.vector_graph_memory = 250_000;
    let database = Database::open(options).unwrap();
    let session = session_of(&database);
    for round in [0.0, 1000.0] {
        for n in 0..60 {
            insert(&session, n, 0, round + n as f32, 0.0);
        }
    }
    let catalog = database.catalog();
    let table = catalog.table("ks", "t").unwrap();
    let index = catalog.indexes_of(table.id).iter().find(|index| index.similarity.is_some()).unwrap();
    let graphs = &database.store().build_states().graphs;
    assert!(graphs.of(index).unwrap().is_stale());
    assert!(graphs.begin_renewal(index).is_none());
    assert_eq!(nearest(&session, "", 3), [(0, 0), (1, 0), (2, 0)]);
}

#[test]
fn writes_during_a_renewal_are_found_before_and_after_it() {
    let mut options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
    options.engine.background_threads = true;
    let database = Database::open(options).unwrap();
    let session = session_of(&database);
    for n in 0..200 {
        insert(&session, n, 0, 1000.0 + n as f32, 0.0);
    }
    for round in 0..2000 {
        let k = round % 200;
        insert(&session, k, 0, 0.0, 1000.0 - round as f32 / 4.0);
        assert_eq!(nearest(&session, "", 1), [(k, 0)], "round {round}");
        if round % 20 == 0 {
            database.tick_metrics();
        }
    }
    let mut latest = nearest(&session, "", 200);
    latest.sort_unstable();
    assert_eq!(latest, (0..200).map(|k| (k, 0)).collect::<Vec<_>>());
}

#[test]
fn without_memory_for_a_graph_all_rows_are_compared() {
    let mut options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
    options.engine.background_threads = false;
    options.vector_graph_memory = 1;
    let database = Database::open(options).unwrap();
    let session = session_of(&database);
    for n in 0..100 {
        insert(&session, n, 0, (n * 37 % 101) as f32, 0.0);
    }
    let graph = {
        let catalog = database.catalog();
        let table = catalog.table("ks", "t").unwrap();
        let index = catalog.indexes_of(table.id).iter().find(|index| index.similarity.is_some()).unwrap();
        database.store().build_states().graphs.of(index).unwrap()
    };
    assert!(graph.is_too_large());
    assert_eq!(nearest(&session, "", 3), [(0, 0), (71, 0), (41, 0)]);
    database.tick_metrics();
    assert_eq!(nearest(&session, "WHERE i = 1", 1), [(82, 0)]);
}
