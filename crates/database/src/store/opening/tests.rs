//! A damaged or incomplete schema loses no table, and an interrupted DROP leaves no partial table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_vfs::{FakeFileSystem, FileSystem, ManualClock};

use crate::api::database::{Database, Options};
use crate::api::embedded::Session;

const SETUP: [&str; 8] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE ks.part (x int)",
    "CREATE TABLE ks.t (k int PRIMARY KEY, v int, u frozen<part>)",
    "CREATE TABLE ks.s (k int PRIMARY KEY, v int)",
    "CREATE TABLE other.t (k int PRIMARY KEY, v int)",
    "CREATE INDEX i_v ON ks.t (v)",
    "CREATE MATERIALIZED VIEW ks.by_v AS SELECT k, v FROM ks.t WHERE k IS NOT NULL AND v IS NOT NULL \
     PRIMARY KEY (v, k)",
];
const TABLES: [&str; 3] = ["ks.t", "ks.s", "other.t"];
const ROWS: usize = 6;

pub(crate) fn open(fs: &FakeFileSystem) -> Session {
    let mut options = Options {
        file_system: Arc::new(fs.clone()),
        materialized_views_enabled: true,
        ..Options::new("/data")
    };
    options.engine.background_threads = false;
    options.engine.auto_snapshot = false;
    // The fake file system copies whole files.
    options.engine.commitlog_segment_size = 1 << 20;
    Database::open(options).unwrap().session()
}

pub(crate) fn run(session: &Session, cql: &str) -> usize {
    session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}")).len()
}

pub(crate) fn run_all(session: &Session, statements: &[&str]) {
    for cql in statements {
        run(session, cql);
    }
}

/// A database whose tables have half of their rows in SSTables and half in the commit log.
fn filled() -> FakeFileSystem {
    let fs = FakeFileSystem::new();
    let session = open(&fs);
    run_all(&session, &SETUP);
    for k in 0..ROWS {
        if k == ROWS / 2 {
            session.database().engine().flush(None).unwrap();
        }
        for table in TABLES {
            run(&session, &format!("INSERT INTO {table} (k, v) VALUES ({k}, 1)"));
        }
    }
    session.database().engine().sync_log().unwrap();
    fs
}

pub(crate) fn files_below(fs: &FakeFileSystem, path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs.read_dir(path) else { return Vec::new() };
    let below = |entry: cassette_vfs::DirEntry| {
        let path = path.join(&entry.name);
        if entry.is_dir { files_below(fs, &path) } else { vec![path] }
    };
    entries.into_iter().flat_map(below).collect()
}

/// The table directories of a keyspace whose names begin with `prefix`.
pub(crate) fn directories(fs: &FakeFileSystem, keyspace: &str, prefix: &str) -> Vec<PathBuf> {
    let keyspace = Path::new("/data/data").join(keyspace);
    let entries = fs.read_dir(&keyspace).unwrap_or_default();
    let named = entries.into_iter().filter(|entry| entry.name.starts_with(prefix));
    named.map(|entry| keyspace.join(entry.name)).collect()
}

/// Checks that every table is either complete or removed with its files.
fn check_tables(session: &Session, fs: &FakeFileSystem, what: &str) {
    let catalog = session.database().catalog();
    for name in ["ks.t", "ks.s", "other.t", "ks.by_v"] {
        let (keyspace, table) = name.split_once('.').unwrap();
        if catalog.table(keyspace, table).is_some() {
            assert_eq!(run(session, &format!("SELECT * FROM {name}")), ROWS, "{what}: {name}");
        } else {
            let files: Vec<_> = directories(fs, keyspace, &format!("{table}-"))
                .iter()
                .flat_map(|path| files_below(fs, path))
                .collect();
            assert!(files.is_empty(), "{what}: {files:?}");
        }
    }
    let has_index = catalog.keyspace("ks").is_some_and(|keyspace| keyspace.indexes.contains_key("i_v"));
    if has_index {
        assert_eq!(run(session, "SELECT * FROM ks.t WHERE v = 1"), ROWS, "{what}");
    } else {
        let base = directories(fs, "ks", "t-");
        let files: Vec<_> = base.iter().flat_map(|path| files_below(fs, &path.join(".i_v"))).collect();
        assert!(files.is_empty(), "{what}: {files:?}");
    }
    assert_eq!(session.database().engine().unknown_tables().unwrap(), [], "{what}");
}

fn crash_at_every_operation_of(before: &[&str], statement: &str, is_gone: impl Fn(&Session) -> bool) {
    let start = filled();
    let session = open(&start);
    run_all(&session, before);
    session.database().engine().sync_log().unwrap();
    drop(session);
    for operation in 0.. {
        let what = format!("{statement}: crash at operation {operation}");
        let fs = start.fork();
        let session = open(&fs);
        fs.fail_from(fs.operations() + operation);
        let acknowledged = session.execute(statement, ()).is_ok();
        let survivor = fs.crash(operation);
        drop(session);
        let session = open(&survivor);
        check_tables(&session, &survivor, &what);
        assert!(!acknowledged || is_gone(&session), "{what}");
        assert!(session.database().catalog().table("other", "t").is_some(), "{what}");
        if acknowledged {
            return;
        }
    }
}

const NO_VIEW: &str = "DROP MATERIALIZED VIEW ks.by_v";

#[test]
fn a_crash_at_any_operation_of_drop_table_leaves_it_whole_or_gone() {
    let gone = |session: &Session| session.database().catalog().table("ks", "t").is_none();
    crash_at_every_operation_of(&[NO_VIEW], "DROP TABLE ks.t", gone);
}

#[test]
fn a_crash_at_any_operation_of_drop_index_leaves_it_whole_or_gone() {
    let gone = |session: &Session| session.database().catalog().keyspace("ks").unwrap().indexes.is_empty();
    crash_at_every_operation_of(&[NO_VIEW], "DROP INDEX ks.i_v", gone);
}

#[test]
fn a_crash_at_any_operation_of_drop_view_leaves_it_whole_or_gone() {
    let gone = |session: &Session| session.database().catalog().table("ks", "by_v").is_none();
    crash_at_every_operation_of(&[], NO_VIEW, gone);
}

#[test]
fn a_crash_at_any_operation_of_drop_keyspace_leaves_it_whole_or_gone() {
    let gone = |session: &Session| session.database().catalog().keyspace("ks").is_none();
    crash_at_every_operation_of(&[], "DROP KEYSPACE ks", gone);
}

#[test]
fn a_drop_that_fails_leaves_its_table_in_use() {
    let fs = filled();
    let session = open(&fs);
    // The commit log accepts no more, and continues afterwards.
    let used = fs.used();
    fs.set_capacity(used);
    let refused =
        (0..100_000).any(|k| session.execute(&format!("INSERT INTO ks.s (k) VALUES ({k})"), ()).is_err());
    let dropped = session.execute("DROP TABLE other.t", ());
    fs.set_capacity(u64::MAX);
    assert!(refused && dropped.is_err());
    assert_eq!(run(&session, "SELECT * FROM other.t"), ROWS);
    drop(session);
    let session = open(&fs.kill());
    assert_eq!(run(&session, "SELECT * FROM other.t"), ROWS);
    run(&session, "DROP TABLE other.t");
}

fn user_files(fs: &FakeFileSystem) -> Vec<PathBuf> {
    ["ks", "other"].iter().flat_map(|name| files_below(fs, &Path::new("/data/data").join(name))).collect()
}

/// Removes the files `lost` after a clean shutdown, and checks that a start removes no file of a
/// user table, and that everything is restored with the directory.
fn lose_and_restore(lost: impl Fn(&FakeFileSystem) -> Vec<PathBuf>) -> Session {
    let fs = filled();
    let session = open(&fs);
    session.database().engine().flush(None).unwrap();
    for table in TABLES {
        run(&session, &format!("INSERT INTO {table} (k, v) VALUES (100, 1)"));
    }
    session.database().close().unwrap();
    drop(session);
    let files = user_files(&fs);
    let intact = fs.fork();
    for directory in lost(&fs) {
        fs.remove_dir_all(&directory).unwrap();
    }
    for _ in 0..2 {
        let session = open(&fs);
        let kept = user_files(&fs);
        assert!(files.iter().all(|path| kept.contains(path)), "{:?}", lost(&intact));
        session.database().engine().flush(None).unwrap();
        session.database().close().unwrap();
    }
    let damaged = open(&fs.fork());
    // Restored from a backup.
    for directory in lost(&intact) {
        if fs.read_dir(&directory).is_ok() {
            fs.remove_dir_all(&directory).unwrap();
        }
        fs.create_dir_all(&directory).unwrap();
        for path in files_below(&intact, &directory) {
            fs.create_dir_all(path.parent().unwrap()).unwrap();
            let content = (&intact as &dyn FileSystem).read(&path).unwrap();
            (&fs as &dyn FileSystem).write_atomically(&path, &content).unwrap();
        }
    }
    let session = open(&fs);
    for table in TABLES {
        assert_eq!(
            run(&session, &format!("SELECT * FROM {table}")),
            ROWS + 1,
            "{table}, {:?}",
            lost(&intact)
        );
    }
    assert_eq!(run(&session, "SELECT * FROM ks.t WHERE v = 1"), ROWS + 1);
    assert_eq!(run(&session, "SELECT * FROM ks.by_v"), ROWS + 1);
    damaged
}

#[test]
fn a_start_without_system_schema_keeps_all_tables_and_a_restored_one_has_them() {
    let damaged = lose_and_restore(|_| vec!["/data/data/system_schema".into()]);
    // Three tables, a view, and the log records of the index's hidden table, which has no
    // directory.
    let unknown = damaged.database().engine().unknown_tables().unwrap();
    assert_eq!(unknown.iter().filter(|unknown| unknown.directory.is_some()).count(), 4);
    assert_eq!(unknown.len(), 5);
}

#[test]
fn a_start_with_one_table_of_system_schema_lost_keeps_all_tables() {
    for (table, unknown) in [
        ("tables-", 3),
        ("columns-", 4),
        ("types-", 1),
        ("views-", 1),
        ("indexes-", 1),
        ("dropped_columns-", 0),
    ] {
        let damaged = lose_and_restore(|fs| directories(fs, "system_schema", table));
        let found = damaged.database().engine().unknown_tables().unwrap();
        assert!(found.len() >= unknown, "{table}: {found:?}");
    }
}

#[test]
fn tables_whose_keyspace_row_is_lost_stay_in_use() {
    let damaged = lose_and_restore(|fs| directories(fs, "system_schema", "keyspaces-"));
    for table in TABLES {
        assert_eq!(run(&damaged, &format!("SELECT * FROM {table}")), ROWS + 1);
    }
    assert!(damaged.database().store().schema_is_incomplete());
}

#[test]
fn alter_keyspace_writes_a_lost_row_again() {
    let fs = filled();
    let session = open(&fs);
    session.database().engine().flush(None).unwrap();
    session.database().close().unwrap();
    drop(session);
    directories(&fs, "system_schema", "keyspaces-").iter().for_each(|path| fs.remove_dir_all(path).unwrap());
    let session = open(&fs);
    for keyspace in ["ks", "other"] {
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        run(&session, &format!("ALTER KEYSPACE {keyspace} WITH replication = {replication}"));
    }
    session.database().close().unwrap();
    drop(session);
    let session = open(&fs);
    assert!(!session.database().store().schema_is_incomplete());
}

#[test]
fn the_commit_log_lost_after_a_kill_costs_no_flushed_row_of_any_table() {
    let fs = filled().kill();
    let files = user_files(&fs);
    fs.remove_dir_all(Path::new("/data/commitlog")).unwrap();
    let session = open(&fs);
    let kept = user_files(&fs);
    assert!(!files.is_empty() && files.iter().all(|path| kept.contains(path)));
    drop(session);
}

#[test]
fn a_table_created_under_the_name_of_a_lost_one_has_only_its_own_columns() {
    let fs = filled();
    let session = open(&fs);
    run(&session, "ALTER TABLE ks.s DROP v");
    run(&session, "ALTER TABLE ks.s ADD w int");
    session.database().engine().flush(None).unwrap();
    session.database().close().unwrap();
    drop(session);
    directories(&fs, "system_schema", "tables-").iter().for_each(|path| fs.remove_dir_all(path).unwrap());
    let session = open(&fs);
    run(&session, "CREATE TABLE ks.s (k int PRIMARY KEY, x int)");
    run(&session, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)");
    session.database().close().unwrap();
    drop(session);
    let session = open(&fs);
    let catalog = session.database().catalog();
    let table = catalog.table("ks", "s").unwrap();
    let columns: Vec<_> = table.all_columns().map(|column| column.name.as_str()).collect();
    assert_eq!(columns, ["k", "x"]);
    assert!(table.dropped_columns.is_empty());
    assert!(catalog.keyspace("ks").unwrap().indexes.is_empty());
}

#[test]
fn the_commit_log_lost_after_a_clean_stop_costs_no_table() {
    let fs = FakeFileSystem::new();
    let session = open(&fs);
    run_all(&session, &SETUP);
    session.database().close().unwrap();
    drop(session);
    fs.remove_dir_all(Path::new("/data/commitlog")).unwrap();
    let session = open(&fs);
    let catalog = session.database().catalog();
    for table in ["t", "s", "by_v"] {
        assert!(catalog.table("ks", table).is_some(), "{table}");
    }
    assert_eq!(session.database().engine().unknown_tables().unwrap(), []);
    assert!(!session.database().store().schema_is_incomplete());
}

#[test]
fn schema_changes_are_flushed_with_each_but_at_most_once_a_second() {
    let fs = FakeFileSystem::new();
    let clock = Arc::new(ManualClock::at_micros(1_700_000_000_000_000));
    let mut options =
        Options { file_system: Arc::new(fs.clone()), clock: clock.clone(), ..Options::new("/data") };
    options.engine.background_threads = false;
    options.engine.commitlog_segment_size = 1 << 20;
    let session = Database::open(options).unwrap().session();
    let sstables = || {
        let files =
            directories(&fs, "system_schema", "tables-").into_iter().flat_map(|path| files_below(&fs, &path));
        files.filter(|path| path.to_string_lossy().ends_with("-Data.db")).count()
    };
    run(&session, SETUP[0]);
    run(&session, "CREATE TABLE ks.a (k int PRIMARY KEY)");
    assert_eq!(sstables(), 0, "within a second of the start");
    for n in 1..=3 {
        clock.advance(std::time::Duration::from_secs(1));
        run(&session, &format!("CREATE TABLE ks.b{n} (k int PRIMARY KEY)"));
        assert_eq!(sstables(), n);
        run(&session, &format!("CREATE TABLE ks.c{n} (k int PRIMARY KEY)"));
        assert_eq!(sstables(), n);
    }
    drop(session);
    // The schema journal contains all changes since the last flush.
    fs.remove_dir_all(Path::new("/data/commitlog")).unwrap();
    let catalog = open(&fs).database().catalog();
    assert!(catalog.table("ks", "b3").is_some() && catalog.table("ks", "c3").is_some());
}

/// A database that lost the schema of `ks.t`, whose rows are in an SSTable and in the log; column
/// `u` in both, or only in the log.
fn without_t(fs: &FakeFileSystem, in_sstables: bool) -> (Session, uuid::Uuid) {
    let session = open(fs);
    let id = session.database().catalog().table("ks", "t").unwrap().id.0;
    if in_sstables {
        run(&session, "INSERT INTO ks.t (k, v, u) VALUES (100, 1, {x: 6})");
    }
    session.database().engine().flush(None).unwrap();
    run(&session, "INSERT INTO ks.t (k, v, u) VALUES (100, 1, {x: 7})");
    session.database().close().unwrap();
    drop(session);
    for table in ["tables-", "columns-", "types-", "views-", "indexes-", "keyspaces-"] {
        directories(fs, "system_schema", table).iter().for_each(|path| fs.remove_dir_all(path).unwrap());
    }
    (open(fs), id)
}

#[test]
fn a_table_adopted_by_its_headers_has_its_rows_and_keeps_them() {
    let fs = filled();
    let (session, id) = without_t(&fs, true);
    assert!(session.execute("SELECT * FROM ks.t", ()).is_err());
    let adopted = session.database().adopt_table(id).unwrap();
    assert_eq!(adopted, ("ks.t".to_owned(), crate::api::unknown_tables::AdoptedSchema::Headers));
    let check = |session: &Session| {
        assert_eq!(run(session, "SELECT key, v, u FROM ks.t"), ROWS + 1);
        let rows = session.execute("SELECT u.x FROM ks.t WHERE key = 100", ()).unwrap();
        assert_eq!(rows.first().unwrap().get::<i32>(0).unwrap(), 7);
    };
    check(&session);
    run(&session, "INSERT INTO ks.t (key, v) VALUES (100, 2)");
    run(&session, "ALTER TABLE ks.t RENAME key TO k");
    run(&session, "ALTER TABLE ks.t RENAME k TO key");
    drop(session);
    let session = open(&fs.kill());
    check(&session);
    let left = session.database().unknown_tables().unwrap();
    assert!(left.iter().all(|unknown| unknown.id.map(|id| id.0) != Some(id)), "{left:?}");
    run(&session, "DROP TABLE ks.t");
}

#[test]
fn a_table_adopted_by_a_snapshot_has_its_own_columns_and_options() {
    let fs = filled();
    let session = open(&fs);
    let options = crate::SnapshotOptions { name: "s", skip_flush: false, ttl_seconds: None };
    run(&session, "ALTER TABLE ks.t WITH comment = 'kept'");
    session.database().snapshot(&["ks.t".to_owned()], &options).unwrap();
    drop(session);
    let (session, id) = without_t(&fs, true);
    let adopted = session.database().adopt_table(id).unwrap();
    assert_eq!(adopted, ("ks.t".to_owned(), crate::api::unknown_tables::AdoptedSchema::Snapshot));
    assert_eq!(run(&session, "SELECT k, v, u FROM ks.t"), ROWS + 1);
    assert_eq!(session.database().catalog().table("ks", "t").unwrap().params.comment, "kept");
    assert_eq!(session.database().catalog().table("ks", "t").unwrap().id.0, id);
}

#[test]
fn a_create_table_statement_with_the_id_adopts_the_table() {
    let fs = filled();
    let (session, id) = without_t(&fs, true);
    run(&session, SETUP[0]);
    run(&session, SETUP[2]);
    run(&session, &format!("CREATE TABLE ks.t (k int PRIMARY KEY, v int, u frozen<part>) WITH id = {id}"));
    assert_eq!(run(&session, "SELECT k, v, u FROM ks.t"), ROWS + 1);
}

#[test]
fn a_table_is_not_adopted_without_columns_that_its_log_records_have() {
    let fs = filled();
    let (session, id) = without_t(&fs, false);
    let error = session.database().adopt_table(id).unwrap_err().to_string();
    assert!(error.contains("columns that it lacks: u; create it with them"), "{error}");
    run(&session, SETUP[2]);
    run(&session, &format!("CREATE TABLE ks.t (k int PRIMARY KEY, v int, u frozen<part>) WITH id = {id}"));
    assert_eq!(run(&session, "SELECT u FROM ks.t WHERE k = 100"), 1);
    assert_eq!(run(&session, "SELECT * FROM ks.t"), ROWS + 1);
}

#[test]
fn unknown_data_is_removed_by_id_and_other_tables_cannot_be() {
    let fs = filled();
    let (session, id) = without_t(&fs, true);
    let database = session.database();
    let error = database.remove_unknown_table(&uuid::Uuid::nil().to_string()).unwrap_err();
    assert!(error.to_string().contains("no unknown table has the id"), "{error}");
    database.remove_unknown_table(&id.to_string()).unwrap();
    assert!(database.adopt_table(id).is_err());
    let files: Vec<_> = directories(&fs, "ks", "t-").iter().flat_map(|path| files_below(&fs, path)).collect();
    assert!(files.is_empty(), "{files:?}");
    let own = database.catalog().table("system", "local").unwrap().id.0;
    assert!(database.remove_unknown_table(&own.to_string()).is_err());
}
