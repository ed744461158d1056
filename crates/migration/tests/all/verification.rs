//! Differences are found and repaired.

use cassette_database::Database;
use cassette_migration::{TargetFiles, VerifyOptions};
use tempfile::TempDir;

use super::support::{Events, Served, execute, job, rows};

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

#[test]
fn differences_are_found_row_by_row_and_repaired_with_the_cells_of_the_source() {
    let (source, target, directory) = (Served::start(), Served::start(), TempDir::new().unwrap());
    source.execute(KEYSPACE);
    source.execute(
        "CREATE TABLE ks.t (k text, c text, s text static, v text, l list<int>, PRIMARY KEY (k, c))",
    );
    source.execute("CREATE TABLE ks.n (k text PRIMARY KEY, a counter)");
    for key in 0..40 {
        source.execute(&format!(
            "INSERT INTO ks.t (k, c, s, v, l) VALUES ('k{key}', 'c', 's', 'v', [1, 2]) USING TIMESTAMP 100"
        ));
        source.execute(&format!("UPDATE ks.n SET a = a + 7 WHERE k = 'n{key}'"));
    }
    let job = job(source.place(), target.settings(), &directory);
    job.run(&Events::default()).unwrap();
    let verify = |repair: bool| {
        let events = Events::default();
        let summary = job.verify(VerifyOptions { repair, target_files: None }, &events).unwrap();
        assert_eq!(summary.rows, 80);
        assert_eq!(summary.differences, events.differences().len() as u64);
        events.differences()
    };
    assert_eq!(verify(false), []);

    // Lost: a row, a static cell, an element of a list, an increment.
    target.execute("DELETE FROM ks.t USING TIMESTAMP 99 WHERE k = 'k1' AND c = 'c'");
    source.execute("UPDATE ks.t USING TIMESTAMP 101 SET v = 'newer' WHERE k = 'k2' AND c = 'c'");
    source.execute("UPDATE ks.t USING TIMESTAMP 101 AND TTL 100000 SET s = 'newer' WHERE k = 'k3'");
    // The same value, later.
    source.execute("UPDATE ks.t USING TIMESTAMP 102 SET v = 'v' WHERE k = 'k4' AND c = 'c'");
    source.execute("INSERT INTO ks.t (k, c, v) VALUES ('k5', 'd', 'new') USING TIMESTAMP 103");
    target.execute("UPDATE ks.n SET a = a - 2 WHERE k = 'n1'");
    // Newer at the target.
    target.execute("UPDATE ks.t USING TIMESTAMP 200 SET v = 'target' WHERE k = 'k6' AND c = 'c'");
    target.execute("INSERT INTO ks.t (k, c, v) VALUES ('k7', 'only', 'target') USING TIMESTAMP 200");
    source.execute("DELETE FROM ks.t USING TIMESTAMP 300 WHERE k = 'k8'");
    source.execute("INSERT INTO ks.t (k, c, s, v) VALUES ('k8', 'c', 's', 'v') USING TIMESTAMP 301");
    let events = Events::default();
    let summary = job.verify(VerifyOptions::default(), &events).unwrap();
    let found = events.differences();
    let expected = |repaired: [bool; 8]| {
        let rows = [
            ("k2/c", "both"),
            ("k3/c", "both"),
            ("k4/c", "both"),
            ("k5/d", "source"),
            ("k6/c", "both"),
            ("k7/only", "target"),
            ("k8/c", "both"),
            ("n1", "both"),
        ];
        let row =
            |((key, found), repaired): ((&str, &str), bool)| (key.to_owned(), found.to_owned(), repaired);
        rows.into_iter().zip(repaired).map(row).collect::<Vec<_>>()
    };
    assert_eq!(found, expected([false; 8]));
    assert_eq!((summary.differences, summary.repaired), (8, 0));

    let events = Events::default();
    let summary = job.verify(VerifyOptions { repair: true, target_files: None }, &events).unwrap();
    // The list of k8 was deleted at the source, which CQL does not show.
    assert_eq!(events.differences(), expected([true, true, true, true, false, false, false, true]));
    assert_eq!(summary.repaired, 5);
    let left = Events::default();
    job.verify(VerifyOptions::default(), &left).unwrap();
    let keys: Vec<_> = left.differences().into_iter().map(|(key, ..)| key).collect();
    assert_eq!(keys, ["k6/c", "k7/only", "k8/c"]);
    let query = "SELECT v, writetime(v) FROM ks.t WHERE k = 'k4'";
    assert_eq!(rows(&target.database, query), rows(&source.database, query));
}

#[test]
fn files_of_the_target_are_compared_instead_of_its_answers_and_repaired_through_it() {
    let (source, target, directory) = (Served::start(), Served::start(), TempDir::new().unwrap());
    let table = "CREATE TABLE ks.t (k int PRIMARY KEY, v text)";
    let files = directory.path().join("files");
    let written = Database::open(files.clone()).unwrap();
    for text in [KEYSPACE, table] {
        source.execute(text);
        execute(&written, text);
    }
    for key in 0..40 {
        let insert = format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'v{key}') USING TIMESTAMP 100");
        source.execute(&insert);
        // The files lack a row and contain an older value; the server has everything.
        match key {
            7 => {}
            9 => execute(&written, &insert.replace("'v9'", "'old'").replace("100", "99")),
            _ => execute(&written, &insert),
        }
    }
    written.close().unwrap();
    let job = job(source.place(), target.settings(), &directory);
    job.run(&Events::default()).unwrap();
    target.execute("DELETE FROM ks.t USING TIMESTAMP 100 WHERE k = 7");
    let target_files = || {
        let database = Database::open_read_only(&files).unwrap();
        Some(TargetFiles { database, name: files.display().to_string() })
    };
    let events = Events::default();
    let options = VerifyOptions { repair: false, target_files: target_files() };
    let summary = job.verify(options, &events).unwrap();
    let difference = |key: &str, found: &str| (key.to_owned(), found.to_owned(), false);
    assert_eq!(events.differences(), [difference("0x00000007", "source"), difference("0x00000009", "both")]);
    assert_eq!((summary.rows, summary.differences), (40, 2));
    // Nothing repairs a row that the target has deleted; the other one is written to its nodes.
    let events = Events::default();
    let options = VerifyOptions { repair: true, target_files: target_files() };
    let summary = job.verify(options, &events).unwrap();
    assert_eq!((summary.differences, summary.repaired), (2, 1));
}
