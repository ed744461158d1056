//! Copies between two Cassettes.

use cassette_database::Database;
use cassette_migration::{Event, Move, Place, VerifyOptions};
use tempfile::TempDir;

use super::random;
use super::support::{Events, Served, in_memory, job, rows};

const SIMPLE: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";

fn no_differences(job: &Move) {
    let events = Events::default();
    let verified = job.verify(VerifyOptions::default(), &events).unwrap();
    assert_eq!((verified.differences, events.differences()), (0, Vec::new()));
}

#[test]
fn random_tables_of_many_types_are_copied_cell_by_cell() {
    for seed in 0..4 {
        let (source, target, directory) = (Served::start(), Served::start(), TempDir::new().unwrap());
        let tables = random::fill(&source.database, seed, 12, 150);
        let job = job(source.place(), target.settings(), &directory);
        job.run(&Events::default()).unwrap();
        for table in &tables {
            let expected = table.content(&source.database);
            assert_eq!(table.content(&target.database), expected, "seed {seed}, {}", table.name());
        }
        no_differences(&job);
        // Another run with another progress file finds all of it, also the elements of lists.
        let again = Move { progress: directory.path().join("again"), ..job };
        again.run(&Events::default()).unwrap();
        for table in &tables {
            let expected = table.content(&source.database);
            assert_eq!(table.content(&target.database), expected, "again, seed {seed}, {}", table.name());
        }
    }
}

#[test]
fn functions_that_the_target_refuses_are_named_and_everything_else_is_moved() {
    let directory = TempDir::new().unwrap();
    let enabled = |options: &mut cassette_database::Options| options.functions.enabled = true;
    let source = Served::with(&directory.path().join("source"), enabled);
    for cql in [
        &format!("CREATE KEYSPACE ks WITH replication = {SIMPLE}"),
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        "INSERT INTO ks.t (k, v) VALUES (1, 2)",
        "CREATE FUNCTION ks.plus(s int, a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS \
         'return (s or 0) + a'",
        "CREATE AGGREGATE ks.total(int) SFUNC plus STYPE int",
    ] {
        source.execute(cql);
    }
    let functions = "DESCRIBE KEYSPACE ks";
    let content = "SELECT k, v FROM ks.t";

    let accepting = Served::with(&directory.path().join("accepting"), enabled);
    let accepted = job(source.place(), accepting.settings(), &directory);
    accepted.run(&Events::default()).unwrap();
    let described = |served: &Served| rows(&served.database, functions).into_iter().map(|row| row[2].clone());
    assert!(described(&accepting).eq(described(&source)));
    assert_eq!(rows(&accepting.database, content), rows(&source.database, content));

    let refusing = Served::start();
    let events = Events::default();
    let progress = directory.path().join("again");
    let refused = Move { progress, ..job(source.place(), refusing.settings(), &directory) };
    refused.run(&events).unwrap();
    let events = events.0.into_inner();
    let warnings: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            Event::Warning { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let named = |name: &str| warnings.iter().any(|text| text.starts_with(&format!("{name} is not moved: ")));
    assert!(named("FUNCTION ks.plus") && named("AGGREGATE ks.total"), "{warnings:?}");
    assert_eq!(rows(&refusing.database, content), rows(&source.database, content));
}

#[test]
fn a_stopped_data_directory_is_a_source_that_stays_unchanged() {
    let (target, directory) = (Served::start(), TempDir::new().unwrap());
    let data = directory.path().join("data");
    let database = Database::open(data.clone()).unwrap();
    let tables = random::fill(&database, 77, 6, 100);
    let expected: Vec<_> = tables.iter().map(|table| table.content(&database)).collect();
    database.close().unwrap();
    let files = |path: &std::path::Path| {
        let mut found: Vec<_> = walk(path);
        found.sort();
        found
    };
    let before = files(&data);
    let job = job(Place::Directory(data.clone()), target.settings(), &directory);
    job.run(&Events::default()).unwrap();
    for (table, expected) in tables.iter().zip(&expected) {
        assert_eq!(&table.content(&target.database), expected, "{}", table.name());
    }
    no_differences(&job);
    assert_eq!(files(&data), before);
}

/// Returns paths and lengths of all files.
fn walk(path: &std::path::Path) -> Vec<(std::path::PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let (path, metadata) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
        if metadata.is_dir() {
            found.extend(walk(&path));
        } else {
            found.push((path, metadata.len()));
        }
    }
    found
}

#[test]
fn rows_without_cells_static_rows_and_counters_are_copied() {
    let (source, target, directory) = (Served::start(), Served::start(), TempDir::new().unwrap());
    source.execute(&format!("CREATE KEYSPACE ks WITH replication = {SIMPLE}"));
    source.execute("CREATE TABLE ks.t (k int, c int, s text static, v int, PRIMARY KEY (k, c))");
    source.execute("CREATE TABLE ks.n (k int PRIMARY KEY, a counter, b counter)");
    source.execute("INSERT INTO ks.t (k, c) VALUES (1, 1)");
    source.execute("INSERT INTO ks.t (k, s) VALUES (2, 'only static')");
    source.execute("UPDATE ks.t USING TIMESTAMP 5 SET s = 'old' WHERE k = 3");
    source.execute("UPDATE ks.t USING TIMESTAMP 6 AND TTL 100000 SET v = 3 WHERE k = 3 AND c = 3");
    for key in 0..20 {
        source.execute(&format!("UPDATE ks.n SET a = a + {key}, b = b - 1 WHERE k = {key}"));
    }
    let job = job(source.place(), target.settings(), &directory);
    let copied = job.run(&Events::default()).unwrap();
    assert_eq!(copied.rows, 23);
    for query in ["SELECT k, c, s, v, writetime(s), writetime(v), ttl(v) FROM ks.t", "SELECT * FROM ks.n"] {
        assert_eq!(rows(&target.database, query), rows(&source.database, query), "{query}");
    }
    no_differences(&job);
    // The same progress file: nothing is left to copy, and no counter is incremented again.
    assert_eq!(job.run(&Events::default()).unwrap().rows, 0);
    no_differences(&job);
}

#[test]
fn an_interrupted_move_resumes_without_counting_or_appending_twice() {
    let (source, target, directory) = (Served::start(), Served::start(), TempDir::new().unwrap());
    source.execute(&format!("CREATE KEYSPACE ks WITH replication = {SIMPLE}"));
    source.execute("CREATE TABLE ks.n (k int PRIMARY KEY, a counter)");
    source.execute("CREATE TABLE ks.l (k int, c int, s list<int> static, l list<int>, PRIMARY KEY (k, c))");
    for key in 0..200 {
        source.execute(&format!("UPDATE ks.n SET a = a + {key} WHERE k = {key}"));
        source.execute(&format!(
            "INSERT INTO ks.l (k, c, l, s) VALUES ({}, {key}, [1, {key}], [5, 6])",
            key % 20
        ));
    }
    let job = job(source.place(), target.settings(), &directory);
    job.run(&Events::default()).unwrap();
    let whole = std::fs::read_to_string(&job.progress).unwrap();
    let (done, begun): (Vec<&str>, Vec<&str>) = whole.lines().partition(|line| line.contains("done"));
    assert_eq!((begun.len(), done.len()), (1 + 16, 16), "a header, and start and end of each range");
    // As if it had been killed at any point: ranges are written, but not recorded as complete.
    for keep in [16, 15, 5, 1, 0] {
        // Nothing is recorded as complete, and half of the counters and lists are absent: they are
        // written again, the others are not.
        for key in (0..100).filter(|_| keep == 0) {
            target.execute(&format!("UPDATE ks.n SET a = a - {key} WHERE k = {key}"));
            target
                .execute(&format!("DELETE FROM ks.l USING TIMESTAMP 1 WHERE k = {} AND c = {key}", key % 20));
        }
        let lines = [&begun[..], &done[..keep]].concat();
        std::fs::write(&job.progress, lines.join("\n") + "\n{\"do").unwrap();
        job.run(&Events::default()).unwrap();
        for query in ["SELECT * FROM ks.n", "SELECT k, c, s, l, writetime(l), writetime(s) FROM ks.l"] {
            assert_eq!(rows(&target.database, query), rows(&source.database, query), "{keep}: {query}");
        }
        no_differences(&job);
    }
}

#[test]
fn indexes_views_and_types_are_created_once() {
    let (source, target, directory) = (Served::start(), Served::start(), TempDir::new().unwrap());
    source.execute(&format!("CREATE KEYSPACE \"Ks\" WITH replication = {SIMPLE} AND durable_writes = false"));
    source.execute("CREATE TYPE \"Ks\".address (street text, number int)");
    source.execute(
        "CREATE TABLE \"Ks\".\"T\" (k int PRIMARY KEY, v int, a frozen<address>) WITH comment = 'c'",
    );
    source.execute("CREATE INDEX by_v ON \"Ks\".\"T\" (v)");
    source.execute(
        "CREATE MATERIALIZED VIEW \"Ks\".mv AS SELECT * FROM \"Ks\".\"T\" WHERE v IS NOT NULL AND k IS NOT NULL \
         PRIMARY KEY (v, k)",
    );
    for key in 0..30 {
        source.execute(&format!("INSERT INTO \"Ks\".\"T\" (k, v) VALUES ({key}, {})", key % 3));
    }
    let job = job(source.place(), target.settings(), &directory);
    let planned = Events::default();
    job.dry_run(&planned).unwrap();
    assert!(target.database.catalog().keyspaces().all(|keyspace| keyspace.name != "Ks"));
    assert!(!job.progress.exists());
    let executed = Events::default();
    job.run(&executed).unwrap();
    assert_eq!(executed.statements(), planned.statements());
    let first_words: Vec<String> = executed
        .statements()
        .iter()
        .map(|text| text.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        first_words,
        ["CREATE KEYSPACE", "CREATE TYPE", "CREATE TABLE", "CREATE INDEX", "CREATE MATERIALIZED"]
    );
    let described = |database: &Database| rows(database, "DESCRIBE KEYSPACE \"Ks\"");
    assert_eq!(described(&target.database), described(&source.database));
    let again = Events::default();
    job.run(&again).unwrap();
    assert_eq!(again.statements(), Vec::<String>::new());
    assert_eq!(in_memory().catalog().keyspaces().filter(|keyspace| keyspace.name == "Ks").count(), 0);
}
