//! Directories are queried without one byte written to them.

use std::path::PathBuf;

use cassette_adopt::open_read_only;
use cassette_database::{Database, ErrorKind};
use cassette_vfs::{FakeFileSystem, OperationKind};

use crate::support::{QUERIES, answers, files, node, options, run, take_in};

/// Lets every operation that changes a file or a name fail.
fn forbid_writes(fs: &FakeFileSystem) {
    use OperationKind::{Lock, Open, Read, ReadDir};
    fs.fail_when(|operation| {
        let reads = matches!(operation.kind, Open | Read | ReadDir | Lock);
        (!reads).then_some(std::io::ErrorKind::ReadOnlyFilesystem)
    });
}

#[test]
fn a_directory_of_cassandra_is_queried_without_writing() {
    let (fs, expected) = node();
    let before = files(&fs, "/cassandra");
    forbid_writes(&fs);
    let opened = open_read_only(options(&fs, "/unused"), &[PathBuf::from("/cassandra")]).unwrap();
    let session = opened.database.session();
    for (i, query) in QUERIES.iter().enumerate() {
        // Secondary indexes are left out.
        let query =
            if [3, 4].contains(&i) { format!("{query} ALLOW FILTERING") } else { (*query).to_owned() };
        let rows = session.execute(&query, ()).unwrap_or_else(|error| panic!("{query}: {error}"));
        let columns = rows.columns().len();
        let mut found: Vec<Vec<_>> =
            rows.iter().map(|row| (0..columns).map(|i| row.bytes(i).map(<[u8]>::to_vec)).collect()).collect();
        let mut expected = expected[i].clone();
        if i == 4 {
            // An index that is sorted by value returns its rows in another order.
            found.sort();
            expected.sort();
        }
        assert_eq!(found, expected, "{query}");
    }
    assert!(opened.warnings.iter().any(|warning| warning.contains("by_name")), "{:?}", opened.warnings);
    for statement in [
        "INSERT INTO app.users (id, at) VALUES (1, 1)",
        "TRUNCATE app.users",
        "DROP TABLE app.users",
        "CREATE TABLE app.more (k int PRIMARY KEY)",
        "UPDATE app.visits SET n = n + 1 WHERE page = 'p1'",
    ] {
        let error = session.execute(statement, ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{statement}: {error}");
    }
    opened.database.close().unwrap();
    fs.fail_when(|_| None);
    assert_eq!(files(&fs, "/cassandra"), before);
}

#[test]
fn a_directory_of_this_program_is_queried_with_what_only_its_log_has() {
    let (fs, _) = node();
    take_in(&fs, &["/cassandra"]).unwrap();
    let database = Database::open(options(&fs, "/target")).unwrap();
    run(&database, &["INSERT INTO app.users (id, at, name) VALUES (99, 1, 'only in the log')"]);
    let expected = answers(&database);
    database.engine().sync_log().unwrap();
    drop(database);
    let before = files(&fs, "/target");
    forbid_writes(&fs);
    let opened = open_read_only(options(&fs, "/unused"), &[PathBuf::from("/target")]).unwrap();
    assert!(answers(&opened.database) == expected);
    opened.database.close().unwrap();
    fs.fail_when(|_| None);
    assert_eq!(files(&fs, "/target"), before);
}

#[test]
fn anything_else_is_refused() {
    let fs = FakeFileSystem::new();
    let Err(error) = open_read_only(options(&fs, "/unused"), &[PathBuf::from("/")]) else { panic!("opened") };
    assert!(error.to_string().contains("neither cassette.version nor schema.cql"), "{error}");
}
