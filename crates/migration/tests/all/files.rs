//! Moves by files: the SSTables of a data directory are streamed to Apache Cassandra.

use std::path::Path;
use std::time::{Duration, Instant};

use cassette_database::{Database, Options, SnapshotOptions};
use cassette_lab::cql::{CqlSettings, CqlTarget};
use cassette_migration::{By, ClusterSettings, Event, FileOptions, Move, Place, VerifyOptions};
use cassette_protocol::{Consistency, Version};
use tempfile::TempDir;

use super::nodes::{self, Nodes};
use super::random::{self, RandomTable};
use super::support::{Events, Served, execute, job, rows};

/// Opens a data directory, on which nothing is flushed or compacted by itself.
pub fn open(path: &Path) -> Database {
    let mut options = Options::new(path);
    options.materialized_views_enabled = true;
    options.engine.background_threads = false;
    Database::open(options).unwrap()
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.metadata().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn by_files(from: &Path, to: &ClusterSettings, directory: &TempDir) -> Move {
    let by = By::Files(FileOptions::default());
    Move { by, ..job(Place::Directory(from.to_owned()), to.clone(), directory) }
}

pub fn no_differences(job: &Move) {
    let events = Events::default();
    let verified = job.verify(VerifyOptions::default(), &events).unwrap();
    assert_eq!((verified.differences, events.differences()), (0, Vec::new()));
    assert!(verified.rows > 0);
}

pub fn cql(nodes: &Nodes) -> CqlTarget {
    let contacts = nodes.0.settings().contacts();
    CqlTarget::new(CqlSettings {
        contacts,
        connections: 1,
        version: Version::V5,
        credentials: None,
        tls: None,
        keyspace: "ks".into(),
        replication_factor: 1,
        table_options: String::new(),
        consistency: Consistency::All,
    })
    .unwrap()
}

/// Drops `ks` at Cassandra, which sometimes fails because one of its background tasks looks for a
/// table that has just been dropped.
pub fn drop_keyspace(cql: &CqlTarget) {
    let attempt = || cql.query("DROP KEYSPACE IF EXISTS ks");
    let mut dropped = attempt();
    for _ in 0..10 {
        let Err(error) = &dropped else { break };
        assert!(error.to_string().contains("Unknown CF"), "{error}");
        std::thread::sleep(std::time::Duration::from_secs(1));
        dropped = attempt();
    }
    dropped.unwrap();
}

/// Returns SSTables sent whole, and in sections.
pub fn sent(events: &Events) -> (usize, usize) {
    let events = events.0.lock();
    let whole = |event: &Event| match event {
        Event::Sent { whole, .. } => Some(*whole),
        _ => None,
    };
    let all: Vec<bool> = events.iter().filter_map(whole).collect();
    let count = all.iter().filter(|whole| **whole).count();
    (count, all.len() - count)
}

/// Fills random tables, compressed and not, in several overlapping SSTables and the commit log.
pub fn fill(database: &Database, seed: u64) -> Vec<RandomTable> {
    let tables = random::fill(database, seed, 6, 0);
    for (number, table) in tables.iter().enumerate() {
        let compression = match number % 3 {
            0 => "{'enabled': 'false'}",
            1 => "{'class': 'ZstdCompressor', 'chunk_length_in_kb': '4'}",
            _ => "{'class': 'LZ4Compressor', 'chunk_length_in_kb': '4', 'min_compress_ratio': '1.1'}",
        };
        execute(database, &format!("ALTER TABLE ks.{} WITH compression = {compression}", table.name()));
    }
    for round in 0..4 {
        tables.iter().for_each(|table| table.write_and_delete(database, seed * 100 + round, 80));
        if round < 3 {
            database.flush().unwrap();
        }
    }
    tables
}

/// Deletions of every kind, all of which are newer than [`GHOSTS`].
const DELETIONS: &[&str] = &[
    "INSERT INTO ks.d (k, c, s, v, m, l) VALUES (1, 1, 1, 1, {1: 1, 2: 2}, [1, 2]) USING TIMESTAMP 1000",
    "INSERT INTO ks.d (k, c, v) VALUES (9, 9, 9) USING TIMESTAMP 1000",
    "DELETE FROM ks.d USING TIMESTAMP 2000 WHERE k = 2",
    "DELETE FROM ks.d USING TIMESTAMP 2000 WHERE k = 3 AND c > 5 AND c <= 9",
    "DELETE FROM ks.d USING TIMESTAMP 2000 WHERE k = 4 AND c = 1",
    "DELETE v FROM ks.d USING TIMESTAMP 2000 WHERE k = 5 AND c = 1",
    "DELETE s FROM ks.d USING TIMESTAMP 2000 WHERE k = 6",
    "DELETE m[1] FROM ks.d USING TIMESTAMP 2000 WHERE k = 7 AND c = 1",
    "DELETE m, l FROM ks.d USING TIMESTAMP 2000 WHERE k = 8 AND c = 1",
];
const GHOSTS: &[&str] = &[
    "INSERT INTO ks.d (k, c, s, v, m) VALUES (2, 1, 1, 1, {1: 1}) USING TIMESTAMP 1500",
    "INSERT INTO ks.d (k, c, v) VALUES (3, 6, 1) USING TIMESTAMP 1500",
    "INSERT INTO ks.d (k, c, v, m) VALUES (3, 9, 1, {1: 1}) USING TIMESTAMP 1500",
    "INSERT INTO ks.d (k, c, v, l) VALUES (4, 1, 1, [1]) USING TIMESTAMP 1500",
    "UPDATE ks.d USING TIMESTAMP 1500 SET v = 1 WHERE k = 5 AND c = 1",
    "UPDATE ks.d USING TIMESTAMP 1500 SET s = 1 WHERE k = 6",
    "UPDATE ks.d USING TIMESTAMP 1500 SET m = m + {1: 1} WHERE k = 7 AND c = 1",
    "UPDATE ks.d USING TIMESTAMP 1500 SET m = m + {1: 1}, l = l + [1] WHERE k = 8 AND c = 1",
];

/// Tables with what CQL does not show, or shows in another way.
pub fn fill_special(database: &Database) {
    execute(
        database,
        "CREATE TABLE ks.d (k int, c int, s int static, v int, m map<int, int>, l list<int>, PRIMARY KEY (k, c))",
    );
    execute(database, "CREATE TABLE ks.n (k int PRIMARY KEY, a counter, b counter)");
    execute(database, "CREATE TABLE ks.i (k int PRIMARY KEY, a int, b text)");
    execute(database, "CREATE INDEX by_a ON ks.i (a)");
    execute(database, "CREATE INDEX by_b ON ks.i (b) USING 'sai'");
    execute(
        database,
        "CREATE MATERIALIZED VIEW ks.v AS SELECT * FROM ks.i WHERE a IS NOT NULL AND k IS NOT NULL PRIMARY KEY (a, k)",
    );
    execute(database, "CREATE TABLE ks.g (k int PRIMARY KEY, v int, gone set<int>, back int)");
    DELETIONS.iter().for_each(|cql| execute(database, cql));
    for round in 0..3 {
        for key in 0..100 {
            execute(database, &format!("UPDATE ks.n SET a = a + {key}, b = b - 1 WHERE k = {key}"));
            let (a, b) = (key % 10, key % 7);
            execute(database, &format!("INSERT INTO ks.i (k, a, b) VALUES ({key}, {a}, 'b{b}')"));
            execute(
                database,
                &format!("INSERT INTO ks.g (k, v, gone, back) VALUES ({key}, {round}, {{1}}, 1)"),
            );
        }
        execute(database, "UPDATE ks.n SET a = a - 1000 WHERE k = 5");
        database.flush().unwrap();
    }
    for cql in ["DROP gone", "DROP back", "ADD back int"] {
        execute(database, &format!("ALTER TABLE ks.g {cql}"));
    }
    execute(database, "INSERT INTO ks.g (k, back) VALUES (7, 2)");
    execute(database, "INSERT INTO ks.i (k, a, b) VALUES (100, 3, 'b3')");
}

/// Waits until a query of an index or view, which nodes build after its creation, has its rows.
pub fn has_rows(cql: &CqlTarget, query: &str, expected: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = cql.query(query).map(|rows| rows.len());
        if found.as_ref().is_ok_and(|found| *found == expected) {
            return;
        }
        assert!(Instant::now() < deadline, "{query}: {found:?}, expected {expected}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// One replica on two nodes: each gets sections. Nodes build indexes and views from them.
fn arrives_in_sections(out: &Move, cql: &CqlTarget) {
    let planned = Events::default();
    out.dry_run(&planned).unwrap();
    assert!(!out.progress.exists());
    let events = Events::default();
    out.run(&events).unwrap();
    let (whole, sections) = sent(&events);
    assert!(whole < 10 && sections > 30, "one replica on two nodes: {whole} whole, {sections} in sections");
    no_differences(out);
    // Grace periods were raised during the move.
    let graces =
        cql.query("SELECT gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = 'ks'").unwrap();
    let default = String::from_utf8_lossy(&864_000i32.to_be_bytes()).into_owned();
    assert!(graces.iter().all(|row| row[0].as_ref() == Some(&default)), "{graces:?}");
    assert!(events.statements().iter().any(|text| text.contains("gc_grace_seconds = 2147483647")));
    // Indexes and views were built from the files.
    has_rows(cql, "SELECT k FROM ks.i WHERE a = 3", 11);
    has_rows(cql, "SELECT k FROM ks.i WHERE b = 'b3'", 15);
    has_rows(cql, "SELECT k FROM ks.v WHERE a = 3", 11);
    let count = |query: &str| cql.query(query).unwrap().len();
    assert_eq!(count("SELECT k FROM ks.g WHERE back = 1 ALLOW FILTERING"), 0, "dropped, and added again");
    assert_eq!(count("SELECT k FROM ks.g WHERE back = 2 ALLOW FILTERING"), 1);
}

/// Cells that the deletions of the files cover stay invisible when they are written later.
pub fn older_writes_stay_deleted(cassandra: &ClusterSettings, cql: &CqlTarget, directory: &TempDir) {
    let older = Served::start();
    execute(
        &older.database,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    execute(
        &older.database,
        "CREATE TABLE ks.d (k int, c int, s int static, v int, m map<int, int>, l list<int>, PRIMARY KEY (k, c))",
    );
    GHOSTS.iter().for_each(|cql| execute(&older.database, cql));
    let written = job(older.place(), cassandra.clone(), directory).run(&Events::default()).unwrap();
    assert!(written.rows >= 5, "{}", written.rows);
    let live = cql.query("SELECT k, c FROM ks.d WHERE v = 1 ALLOW FILTERING").unwrap();
    assert_eq!(live.len(), 1, "{live:?}");
    let collections = cql.query("SELECT k FROM ks.d WHERE m CONTAINS 1 ALLOW FILTERING").unwrap();
    assert_eq!(collections.len(), 1, "{collections:?}");
    let statics = cql.query("SELECT k FROM ks.d WHERE s = 1 ALLOW FILTERING").unwrap();
    assert_eq!(statics.len(), 1, "{statics:?}");
}

/// A second run finds all of it; sent again, it changes nothing, also where indexes exist.
fn nothing_changes_when_it_is_sent_again(out: &Move, cql: &CqlTarget, directory: &TempDir) {
    let again = Events::default();
    assert_eq!(out.run(&again).unwrap().bytes, 0);
    let repeated = Move { progress: directory.path().join("again"), ..out.clone() };
    repeated.run(&again).unwrap();
    assert!(sent(&again).1 > 30);
    let differences = Events::default();
    out.verify(VerifyOptions::default(), &differences).unwrap();
    // Of `d`, the rows of ghosts are there without cells.
    let of_others = differences
        .0
        .lock()
        .iter()
        .any(|event| matches!(event, Event::Different(found) if found.table != "d"));
    assert!(!of_others, "{:?}", differences.differences());
    assert_eq!(cql.query("SELECT k FROM ks.i WHERE b = 'b3'").unwrap().len(), 15);
}

#[test]
fn sstables_of_a_directory_arrive_exactly_at_cassandra() {
    let directories = [(); 5].map(|()| TempDir::new().unwrap());
    let [data, killed, nodes, progress, ghosts] = &directories;
    let database = open(data.path());
    let tables = fill(&database, 7);
    fill_special(&database);
    let expected: Vec<_> = tables.iter().map(|table| table.content(&database)).collect();
    let counters = rows(&database, "SELECT * FROM ks.n");
    // As after a kill: the last writes are in the commit log only.
    database.engine().sync_log().unwrap();
    copy(data.path(), killed.path());
    database.close().unwrap();
    let views = [("materialized_views_enabled", "true".to_owned())];
    let Some(nodes) = nodes::start(nodes.path(), 2, 202, &views) else { return };
    let contact = nodes.0.settings().contacts().into_iter().next().unwrap();
    let cassandra = ClusterSettings::new(contact);

    let out = by_files(killed.path(), &cassandra, progress);
    let cql = cql(&nodes);
    arrives_in_sections(&out, &cql);
    older_writes_stay_deleted(&cassandra, &cql, ghosts);
    nothing_changes_when_it_is_sent_again(&out, &cql, progress);

    // On all nodes, SSTables are sent whole; and back by rows.
    drop_keyspace(&cql);
    let replication = Some("{'class': 'NetworkTopologyStrategy', 'datacenter1': 2}".to_owned());
    let whole = Move { progress: progress.path().join("whole"), replication, ..out };
    let events = Events::default();
    whole.run(&events).unwrap();
    let (as_they_are, sections) = sent(&events);
    assert!(as_they_are > 50 && sections == 0, "{as_they_are} whole, {sections} in sections");
    no_differences(&whole);
    let last = Served::start();
    let simple = Some("{'class': 'SimpleStrategy', 'replication_factor': 1}".to_owned());
    let back = job(Place::Cluster(cassandra.clone()), last.settings(), ghosts);
    let back = Move { progress: progress.path().join("back"), replication: simple, ..back };
    back.run(&Events::default()).unwrap();
    for (table, expected) in tables.iter().zip(&expected) {
        assert_eq!(&table.content(&last.database), expected, "{}", table.name());
    }
    assert_eq!(rows(&last.database, "SELECT * FROM ks.n"), counters);

    // While a server has the directory open, a snapshot of a table is a source.
    drop_keyspace(&cql);
    let database = open(data.path());
    let options = SnapshotOptions { name: "moved", skip_flush: false, ttl_seconds: None };
    let snapshot = database.snapshot(&["ks.d".to_owned()], &options).unwrap().remove(0);
    let of_snapshot = by_files(&snapshot.directory, &cassandra, killed);
    of_snapshot.run(&Events::default()).unwrap();
    no_differences(&of_snapshot);
}

#[test]
fn a_move_by_files_needs_a_directory_and_nodes() {
    let (source, target, directory) = (Served::start(), Served::start(), TempDir::new().unwrap());
    source.execute(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    let refused = |job: &Move| {
        let error = job.run(&Events::default()).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    let by = By::Files(FileOptions { storage_port: Some(1), ..FileOptions::default() });
    let of_server = Move { by: by.clone(), ..job(source.place(), target.settings(), &directory) };
    let error = refused(&of_server);
    assert!(error.contains("--data") && error.contains("cassette backup"), "{error}");
    let data = directory.path().join("data");
    let database = open(&data);
    execute(
        &database,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    database.close().unwrap();
    let of_directory = Move { by, ..job(Place::Directory(data), target.settings(), &directory) };
    let error = refused(&of_directory);
    assert!(error.contains("storage port") && error.contains("--by rows"), "{error}");
    assert!(target.database.catalog().keyspaces().all(|keyspace| keyspace.name != "ks"));
    assert!(!of_directory.progress.exists());
}
