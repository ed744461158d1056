//! Directories of several nodes, and several data directories of one node.

use std::path::Path;
use std::sync::Arc;

use cassette_database::Database;
use cassette_vfs::{FakeFileSystem, FileSystem};

use crate::support::{SCHEMA, answers, copy, leave, node, options, request, run, take_in, write};

/// Returns two nodes with one schema, `/a` and `/b`; each has rows that the other lacks.
fn two_nodes(change: &[&str]) -> FakeFileSystem {
    let fs = FakeFileSystem::new();
    let first = Database::open(options(&fs, "/first")).unwrap();
    run(&first, &SCHEMA);
    let second = Database::open(options(&fs, "/second")).unwrap();
    second.put_keyspaces(&[(**first.catalog().keyspace("app").unwrap()).clone()]).unwrap();
    write(&first, 0);
    write(&second, 1);
    run(&second, change);
    leave(first, &fs, "/first", "/a");
    leave(second, &fs, "/second", "/b");
    fs
}

#[test]
fn replicas_are_merged_by_their_timestamps() {
    let fs = two_nodes(&[]);
    take_in(&fs, &["/a", "/b"]).unwrap();
    let database = Database::open(options(&fs, "/target")).unwrap();
    let one = Database::open(options(&fs, "/one")).unwrap();
    one.put_keyspaces(&[(**database.catalog().keyspace("app").unwrap()).clone()]).unwrap();
    write(&one, 0);
    write(&one, 1);
    let (merged, expected) = (answers(&database), answers(&one));
    // Write times of statements without TIMESTAMP and counts of separate nodes differ.
    for query in [2, 3, 4, 6] {
        assert_eq!(merged[query], expected[query], "{query}");
    }
    let total = |database: &Database| -> i64 {
        let rows = database.session().execute("SELECT n FROM app.visits", ()).unwrap();
        rows.iter().map(|row| row.get::<i64>(0).unwrap()).sum()
    };
    assert_eq!(total(&database), total(&one), "each node counted on its own");
}

#[test]
fn different_schemas_and_clusters_are_refused_with_the_difference() {
    let fs = two_nodes(&["ALTER TABLE app.users ADD more int"]);
    let error = take_in(&fs, &["/a", "/b"]).unwrap_err().to_string();
    assert!(error.contains("table app.users") && error.contains("/a") && error.contains("/b"), "{error}");
}

#[test]
fn tables_in_further_data_directories_belong_to_the_node() {
    let (fs, expected) = node();
    let tables = fs.read_dir(Path::new("/cassandra/data/app")).unwrap();
    let users = &tables.iter().find(|table| table.name.starts_with("users-")).unwrap().name;
    let (from, to) = (Path::new("/cassandra/data/app").join(users), Path::new("/disk2/app").join(users));
    copy(&fs, &from, &to);
    fs.remove_dir_all(&from).unwrap();
    for path in ["/", "/disk2", "/disk2/app", "/cassandra/data/app"] {
        fs.sync_dir(Path::new(path)).unwrap();
    }
    for order in [["/cassandra", "/disk2"], ["/disk2", "/cassandra/data"]] {
        take_in(&fs, &order).unwrap();
        let database = Database::open(options(&fs, "/target")).unwrap();
        assert!(answers(&database) == expected, "{order:?}");
        database.close().unwrap();
        fs.remove_dir_all(Path::new("/target")).unwrap();
    }
    let shared: Arc<dyn FileSystem> = Arc::new(fs);
    let error = cassette_adopt::Plan::of(&shared, &request(&["/disk2"])).unwrap_err().to_string();
    assert!(error.contains("no SSTables of system_schema"), "{error}");
}
