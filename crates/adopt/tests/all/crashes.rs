//! A crash or a full disk at any moment leaves no data directory, or the complete one.

use std::io;
use std::path::Path;

use cassette_database::Database;
use cassette_vfs::{FakeFileSystem, FileSystem};

use crate::support::{answers, files, node, options, take_in, take_into};

fn exists(fs: &FakeFileSystem, path: &str) -> bool {
    (fs as &dyn FileSystem).exists(Path::new(path)).unwrap()
}

fn check_complete(fs: &FakeFileSystem, target: &str, expected: &crate::support::Answers) {
    let database = Database::open(options(fs, target)).unwrap();
    assert!(answers(&database) == *expected);
    database.close().unwrap();
}

#[test]
fn an_adopted_directory_answers_alike_after_restarts_and_compactions() {
    let (fs, expected) = node();
    let before = files(&fs, "/cassandra");
    let adopted = take_in(&fs, &["/cassandra"]).unwrap();
    assert_eq!((adopted.tables, adopted.linked), (2, adopted.sstables));
    assert_eq!(files(&fs, "/cassandra"), before);
    for _ in 0..2 {
        check_complete(&fs, "/target", &expected);
    }
    let database = Database::open(options(&fs, "/target")).unwrap();
    for (id, table) in database.engine().tables() {
        if table.keyspace == "app" {
            database.engine().compact(id).unwrap();
        }
    }
    assert!(answers(&database) == expected);
    assert_eq!(files(&fs, "/cassandra"), before, "compactions remove links only");
}

#[test]
fn a_crash_leaves_nothing_or_everything_and_the_next_adoption_completes_it() {
    const STEP: u64 = 331;
    let (mut fs, expected) = node();
    let before = files(&fs, "/cassandra");
    let start = fs.operations();
    take_in(&fs, &["/cassandra"]).unwrap();
    let operations = fs.operations() - start;
    let (mut unfinished, mut at) = (0, 1);
    while at < operations + STEP {
        let target = format!("/target{at}");
        let last = fs.operations() + at;
        fs.fail_when(move |operation| (operation.number > last).then_some(io::ErrorKind::Other));
        let done = take_into(&fs, &["/cassandra"], &target).is_ok();
        fs = fs.crash(at);
        assert_eq!(files(&fs, "/cassandra"), before, "operation {at}");
        assert!(!done || exists(&fs, &target), "operation {at}: an adoption that succeeded is durable");
        if !exists(&fs, &target) {
            unfinished += 1;
            take_into(&fs, &["/cassandra"], &target)
                .unwrap_or_else(|error| panic!("operation {at}: {error}"));
            assert!(!exists(&fs, &format!("{target}.adopting")), "operation {at}");
            assert!(!exists(&fs, &format!("{target}.adopting.lock")), "operation {at}");
        }
        check_complete(&fs, &target, &expected);
        at += STEP;
    }
    assert!(unfinished > 5, "{unfinished} of {operations} operations");
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let (fs, expected) = node();
    let (before, used) = (files(&fs, "/cassandra"), fs.used());
    for free in [0, 1_000, 20_000, 100_000] {
        fs.set_capacity(used + free);
        let error = take_in(&fs, &["/cassandra"]).unwrap_err();
        assert!(error.to_string().contains("no space"), "{error}");
        assert!(!exists(&fs, "/target") && !exists(&fs, "/target.adopting"), "{error}");
        assert!(!exists(&fs, "/target.adopting.lock"), "{error}");
        assert_eq!(files(&fs, "/cassandra"), before);
    }
    fs.set_capacity(u64::MAX);
    take_in(&fs, &["/cassandra"]).unwrap();
    check_complete(&fs, "/target", &expected);
}
