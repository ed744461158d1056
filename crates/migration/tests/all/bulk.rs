//! Moves in bulk: rows are written into new SSTables, which are streamed to Apache Cassandra.

use cassette_lab::cql::CqlTarget;
use cassette_migration::{BulkOptions, By, ClusterSettings, FileOptions, Move, Place};
use tempfile::TempDir;

use super::files::{
    cql, drop_keyspace, fill, fill_special, has_rows, no_differences, older_writes_stay_deleted, open, sent,
};
use super::nodes;
use super::random;
use super::support::{Events, Served, execute, job, rows};

fn in_bulk(from: Place, to: &ClusterSettings, directory: &TempDir) -> Move {
    Move { by: By::Bulk(BulkOptions::default()), ..job(from, to.clone(), directory) }
}

fn refused(job: &Move) -> String {
    let error = job.run(&Events::default()).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

/// One replica on two nodes: each gets the sections that it replicates. Nodes build indexes and
/// views from them, and see no column that was dropped.
fn arrives(out: &Move, cql: &CqlTarget) {
    let planned = Events::default();
    out.dry_run(&planned).unwrap();
    assert!(!out.progress.exists());
    let events = Events::default();
    let done = out.run(&events).unwrap();
    assert!(done.rows > 300 && done.bytes > 10_000, "{done:?}");
    let (whole, sections) = sent(&events);
    assert!(sections > 10, "one replica on two nodes: {whole} whole, {sections} in sections");
    no_differences(out);
    has_rows(cql, "SELECT k FROM ks.i WHERE a = 3", 11);
    has_rows(cql, "SELECT k FROM ks.i WHERE b = 'b3'", 15);
    has_rows(cql, "SELECT k FROM ks.v WHERE a = 3", 11);
    let count = |query: &str| cql.query(query).unwrap().len();
    assert_eq!(count("SELECT k FROM ks.g WHERE back = 1 ALLOW FILTERING"), 0, "dropped, and added again");
    assert_eq!(count("SELECT k FROM ks.g WHERE back = 2 ALLOW FILTERING"), 1);
}

/// A second run finds all of it; sent again, it changes nothing, also where indexes exist.
fn nothing_changes_when_it_is_sent_again(out: &Move, cql: &CqlTarget, directory: &TempDir) {
    let again = out.run(&Events::default()).unwrap();
    assert_eq!((again.rows, again.bytes), (0, 0));
    let repeated = Move { progress: directory.path().join("again"), ..out.clone() };
    assert!(repeated.run(&Events::default()).unwrap().rows > 300);
    assert_eq!(cql.query("SELECT k FROM ks.i WHERE b = 'b3'").unwrap().len(), 15);
}

/// Tables WITH COMPACT STORAGE, whose rows have the layout of Thrift.
const COMPACT: &[&str] = &[
    "CREATE KEYSPACE old WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE old.s (k int PRIMARY KEY, a int, b text) WITH COMPACT STORAGE",
    "CREATE TABLE old.d (k int, c int, v text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
    "CREATE TABLE old.n (k int, c int, d text, PRIMARY KEY (k, c, d)) WITH COMPACT STORAGE",
    "INSERT INTO old.s (k, a, b) VALUES (1, 2, 'x') USING TIMESTAMP 5 AND TTL 200000000",
    "INSERT INTO old.s (k, b) VALUES (2, 'y')",
    "INSERT INTO old.d (k, c, v) VALUES (1, 2, 'x')",
    "DELETE FROM old.d WHERE k = 1 AND c = 3",
    "INSERT INTO old.n (k, c, d) VALUES (1, 2, 'x') USING TTL 200000000",
];

#[test]
fn rows_arrive_in_bulk_exactly_at_cassandra() {
    let directories = [(); 5].map(|()| TempDir::new().unwrap());
    let [data, nodes, progress, ghosts, server] = &directories;
    let database = open(data.path());
    let tables = fill(&database, 11);
    fill_special(&database);
    COMPACT.iter().for_each(|cql| execute(&database, cql));
    let expected: Vec<_> = tables.iter().map(|table| table.content(&database)).collect();
    let counters = rows(&database, "SELECT * FROM ks.n");
    database.close().unwrap();
    let views = [("materialized_views_enabled", "true".to_owned())];
    let Some(nodes) = nodes::start(nodes.path(), 2, 208, &views) else { return };
    let contact = nodes.0.settings().contacts().into_iter().next().unwrap();
    let cassandra = ClusterSettings::new(contact);
    let cql = cql(&nodes);

    let out = in_bulk(Place::Directory(data.path().to_owned()), &cassandra, progress);
    arrives(&out, &cql);
    older_writes_stay_deleted(&cassandra, &cql, ghosts);
    nothing_changes_when_it_is_sent_again(&out, &cql, progress);

    // On all nodes, parts are sent whole; and back by rows.
    drop_keyspace(&cql);
    let replication = Some("{'class': 'NetworkTopologyStrategy', 'datacenter1': 2}".to_owned());
    let keyspaces = vec!["ks".to_owned()];
    let whole = Move { progress: progress.path().join("whole"), replication, keyspaces, ..out };
    let events = Events::default();
    whole.run(&events).unwrap();
    let (as_they_are, sections) = sent(&events);
    assert!(as_they_are > 10 && sections == 0, "{as_they_are} whole, {sections} in sections");
    no_differences(&whole);
    let last = Served::start();
    let simple = Some("{'class': 'SimpleStrategy', 'replication_factor': 1}".to_owned());
    let back = job(Place::Cluster(cassandra.clone()), last.settings(), ghosts);
    let keyspaces = vec!["ks".to_owned()];
    let back = Move { progress: progress.path().join("back"), replication: simple, keyspaces, ..back };
    back.run(&Events::default()).unwrap();
    for (table, expected) in tables.iter().zip(&expected) {
        assert_eq!(&table.content(&last.database), expected, "{}", table.name());
    }
    assert_eq!(rows(&last.database, "SELECT * FROM ks.n"), counters);

    drop_keyspace(&cql);
    rows_of_a_server_arrive(&cassandra, &cql, server);
}

/// Rows that are selected from a server.
fn rows_of_a_server_arrive(cassandra: &ClusterSettings, cql: &CqlTarget, directory: &TempDir) {
    let source = Served::start();
    let tables = random::fill(&source.database, 2031, 16, 150);
    let move_of = |keyspace: &str| Move {
        progress: directory.path().join(keyspace),
        keyspaces: vec![keyspace.to_owned()],
        ..in_bulk(source.place(), cassandra, directory)
    };
    let out = move_of("ks");
    let events = Events::default();
    let done = out.run(&events).unwrap();
    assert!(done.rows > 100 && sent(&events).1 > 0, "{done:?}");
    no_differences(&out);
    // Sent again, lists have each element once.
    let text = std::fs::read_to_string(&out.progress).unwrap();
    let started: Vec<&str> = text.lines().filter(|line| !line.contains("\"done\"")).collect();
    std::fs::write(&out.progress, started.join("\n") + "\n").unwrap();
    assert_eq!(out.run(&Events::default()).unwrap().rows, done.rows);
    no_differences(&out);
    let another = Move { progress: directory.path().join("another"), ..out };
    let error = refused(&another);
    assert!(error.contains("has lists") && error.contains("--by rows"), "{error}");

    COMPACT.iter().for_each(|cql| source.execute(cql));
    let error = refused(&move_of("old"));
    assert!(
        error.contains("old.") && error.contains("COMPACT STORAGE") && error.contains("--data"),
        "{error}"
    );
    let simple = "replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    source.execute(&format!("CREATE KEYSPACE counts WITH {simple}"));
    source.execute("CREATE TABLE counts.n (k int PRIMARY KEY, a counter)");
    let error = refused(&move_of("counts"));
    assert!(error.contains("counts.n has counters") && error.contains("--by rows"), "{error}");
    assert_eq!(
        cql.query("SELECT * FROM system_schema.keyspaces WHERE keyspace_name = 'counts'").unwrap().len(),
        0
    );
    assert!(!directory.path().join("counts").exists());
    assert!(tables.len() == 16);
}

#[test]
fn a_move_in_bulk_needs_nodes_and_keeps_other_directories() {
    let (target, directory) = (Served::start(), TempDir::new().unwrap());
    let data = directory.path().join("data");
    let database = open(&data);
    execute(
        &database,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    database.close().unwrap();
    let files = FileOptions { storage_port: Some(1), ..FileOptions::default() };
    let by = By::Bulk(BulkOptions { files, ..BulkOptions::default() });
    let of_directory = Move { by, ..job(Place::Directory(data), target.settings(), &directory) };
    let error = refused(&of_directory);
    assert!(error.contains("storage port") && error.contains("--by rows"), "{error}");
    assert!(target.database.catalog().keyspaces().all(|keyspace| keyspace.name != "ks"));
    assert!(!of_directory.progress.exists() && !directory.path().join("progress.parts").exists());
}
