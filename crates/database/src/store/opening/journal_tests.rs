//! Acknowledged schema changes survive the loss of the commit log.

use std::path::Path;

use cassette_vfs::{FakeFileSystem, FileSystem, OperationKind};

use super::tests::{files_below, open, run, run_all};
use crate::api::embedded::Session;

const JOURNAL: &str = "/data/schema_journal";
const BEFORE: [&str; 4] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE ks.old (k int PRIMARY KEY, v int, w int)",
    "CREATE TABLE ks.gone (k int PRIMARY KEY)",
    "INSERT INTO ks.old (k, v, w) VALUES (1, 2, 3)",
];

/// A schema change, and a check that a schema contains it.
type Step = (&'static str, fn(&Session) -> bool);

fn has_table(session: &Session, table: &str) -> bool {
    session.database().catalog().table("ks", table).is_some()
}

fn has_column(session: &Session, table: &str, column: &str) -> bool {
    session.database().catalog().table("ks", table).is_some_and(|table| table.column(column).is_some())
}

/// Changes that all remain visible after the later ones.
const BURST: [Step; 7] = [
    ("CREATE TABLE ks.a (k int PRIMARY KEY, v int)", |s| has_table(s, "a")),
    ("ALTER TABLE ks.old DROP w", |s| !has_column(s, "old", "w")),
    ("CREATE INDEX i ON ks.old (v)", |s| {
        s.database().catalog().keyspace("ks").unwrap().indexes.contains_key("i")
    }),
    ("DROP TABLE ks.gone", |s| !has_table(s, "gone")),
    (
        "CREATE MATERIALIZED VIEW ks.by_v AS SELECT k, v FROM ks.old WHERE k IS NOT NULL AND v IS NOT NULL \
      PRIMARY KEY (v, k)",
        |s| has_table(s, "by_v"),
    ),
    ("CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", |s| {
        s.database().catalog().keyspace("other").is_some()
    }),
    ("CREATE TABLE ks.b (k int PRIMARY KEY)", |s| has_table(s, "b")),
];

/// A database whose row of `ks.old` is flushed, and whose schema is not.
fn start() -> FakeFileSystem {
    let fs = FakeFileSystem::new();
    let session = open(&fs);
    run_all(&session, &BEFORE);
    let old = session.database().catalog().table("ks", "old").unwrap().id;
    session.database().engine().flush(Some(old)).unwrap();
    fs
}

fn lose_log(fs: &FakeFileSystem) {
    fs.remove_dir_all(Path::new("/data/commitlog")).unwrap();
}

fn check_rows(session: &Session, what: &str) {
    assert_eq!(run(session, "SELECT k, v FROM ks.old"), 1, "{what}");
    if session.database().catalog().keyspace("ks").unwrap().indexes.contains_key("i") {
        assert_eq!(run(session, "SELECT k FROM ks.old WHERE v = 2"), 1, "{what}");
    }
    if has_table(session, "by_v") {
        assert_eq!(run(session, "SELECT k FROM ks.by_v WHERE v = 2"), 1, "{what}");
    }
}

#[test]
fn a_crash_at_any_operation_of_a_burst_without_the_log_keeps_acknowledged_changes() {
    let base = start().kill();
    for operation in 0.. {
        let what = format!("operation {operation}");
        let fs = base.fork();
        let session = open(&fs);
        fs.fail_from(fs.operations() + operation);
        let acknowledged =
            BURST.iter().take_while(|(statement, _)| session.execute(statement, ()).is_ok()).count();
        let survivor = fs.crash(operation);
        drop(session);
        lose_log(&survivor);
        let session = open(&survivor);
        check_rows(&session, &what);
        for (statement, holds) in &BURST[..acknowledged] {
            assert!(holds(&session), "{what}: {statement}");
        }
        for (statement, holds) in BURST.iter().skip(acknowledged + 1) {
            assert!(!holds(&session), "{what}: {statement}");
        }
        if acknowledged == BURST.len() {
            return;
        }
    }
}

#[test]
fn a_dropped_column_stays_dropped_for_older_rows_without_the_log() {
    let fs = start();
    let session = open(&fs);
    run_all(&session, &["ALTER TABLE ks.old DROP w", "ALTER TABLE ks.old ADD w int"]);
    drop(session);
    let survivor = fs.crash(1);
    lose_log(&survivor);
    let session = open(&survivor);
    let value = |session: &Session| {
        let rows = session.execute("SELECT w FROM ks.old WHERE k = 1", ()).unwrap();
        rows.first().unwrap().get::<Option<i32>>(0).unwrap()
    };
    assert_eq!(value(&session), None);
    // Later than the drop, independent of the clock and the lost ceiling.
    run(&session, "INSERT INTO ks.old (k, w) VALUES (1, 9)");
    assert_eq!(value(&session), Some(9));
}

#[test]
fn an_index_created_again_is_built_again_without_the_log() {
    let fs = start();
    let session = open(&fs);
    run(&session, "CREATE INDEX i ON ks.old (v)");
    session.database().engine().flush(None).unwrap();
    run_all(&session, &["DROP INDEX ks.i", "CREATE INDEX i ON ks.old (v)"]);
    drop(session);
    let survivor = fs.crash(3);
    lose_log(&survivor);
    let session = open(&survivor);
    check_rows(&session, "created again");
    assert!(!session.database().store().schema_is_incomplete());
}

#[test]
fn a_full_disk_refuses_a_schema_change_as_a_whole() {
    let fs = start();
    let session = open(&fs);
    let create = |n: usize| {
        let columns: String = (0..40).map(|c| format!(", column_{c} int")).collect();
        format!("CREATE TABLE ks.t{n} (k int PRIMARY KEY{columns})")
    };
    run(&session, &create(0));
    // Space is reserved in the commit log, and some in the journal.
    fs.set_capacity(fs.used());
    let created = (1..1000).take_while(|n| session.execute(&create(*n), ()).is_ok()).count();
    assert!(created < 100, "{created}");
    fs.set_capacity(u64::MAX);
    let check = |session: &Session| {
        assert!(
            has_table(session, &format!("t{created}")) && !has_table(session, &format!("t{}", created + 1))
        );
    };
    check(&session);
    drop(session);
    let survivor = fs.crash(5);
    check(&open(&survivor.fork()));
    lose_log(&survivor);
    let session = open(&survivor);
    check(&session);
    run(&session, &create(created + 1));
}

#[test]
fn a_change_that_cannot_be_journaled_is_flushed() {
    let fs = start();
    let session = open(&fs);
    fs.fail_when(|operation| {
        let is_write = matches!(operation.kind, OperationKind::Write | OperationKind::Sync);
        (is_write && operation.path.ends_with("schema_journal")).then_some(std::io::ErrorKind::Other)
    });
    run(&session, BURST[0].0);
    let survivor = fs.crash(1);
    lose_log(&survivor);
    assert!(has_table(&open(&survivor), "a"));
}

#[test]
fn a_change_that_is_only_in_the_log_is_reported_and_written_later() {
    let fs = start();
    let session = open(&fs);
    fs.fail_when(|operation| {
        let is_schema = operation.path.starts_with("data/data/system_schema");
        let is_write = matches!(operation.kind, OperationKind::Write | OperationKind::Sync);
        (is_write && (is_schema || operation.path.ends_with("schema_journal")))
            .then_some(std::io::ErrorKind::Other)
    });
    let error = session.execute(BURST[0].0, ()).unwrap_err().to_string();
    assert!(error.contains("took effect, but only the commit log holds it"), "{error}");
    assert!(has_table(&session, "a"));
    fs.heal();
    run(&session, BURST[6].0);
    let survivor = fs.crash(1);
    lose_log(&survivor);
    let session = open(&survivor);
    assert!(has_table(&session, "a") && has_table(&session, "b"));
}

#[test]
fn a_damaged_journal_and_a_lost_log_remove_no_file() {
    let fs = start();
    let session = open(&fs);
    run_all(&session, &["INSERT INTO ks.gone (k) VALUES (1)", BURST[0].0]);
    session.database().engine().flush(None).unwrap();
    run_all(&session, &[BURST[1].0, BURST[6].0]);
    drop(session);
    let fs = fs.kill();
    let journal = (&fs as &dyn FileSystem).read(Path::new(JOURNAL)).unwrap();
    // The rest is reserved space.
    let length = journal.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    let files = files_below(&fs, Path::new("/data/data/ks"));
    for offset in (0..length).step_by(251) {
        let fs = fs.fork();
        fs.corrupt(Path::new(JOURNAL), offset, 0xff);
        // With the commit log, nothing is lost.
        let with_log = open(&fs.fork());
        assert!(has_table(&with_log, "b") && !has_column(&with_log, "old", "w"), "byte {offset}");
        lose_log(&fs);
        let session = open(&fs);
        let kept = files_below(&fs, Path::new("/data/data/ks"));
        assert!(files.iter().all(|file| kept.contains(file)), "byte {offset}");
        let is_whole = has_table(&session, "b") && !has_column(&session, "old", "w");
        assert!(is_whole || session.database().store().schema_is_incomplete(), "byte {offset}");
        assert_eq!(run(&session, "SELECT k FROM ks.gone"), 1);
    }
}

#[test]
fn a_create_table_in_a_burst_takes_four_syncs() {
    let fs = start();
    let session = open(&fs);
    // Space in the journal is reserved after this.
    run(&session, "CREATE TABLE ks.first (k int PRIMARY KEY)");
    let synced = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let seen = synced.clone();
    fs.fail_when(move |operation| {
        if matches!(operation.kind, OperationKind::Sync | OperationKind::SyncDir) {
            seen.lock().push(operation.path.to_string_lossy().into_owned());
        }
        None
    });
    run(&session, BURST[0].0);
    let synced = synced.lock();
    assert_eq!(synced[..2], ["data/data", "data/data/ks"]);
    assert!(synced[2].starts_with("data/commitlog/"));
    assert_eq!(synced[3..], ["data/schema_journal"]);
}
