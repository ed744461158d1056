//! Backups and restores of databases on a real file system.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_backup::{BackupOptions, Error, Repository, RestoreOptions, Transfer};
use cassette_database::{Database, RestoreNames, Session};
use cassette_vfs::RealFileSystem;
use tempfile::TempDir;

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}";

struct Fixture {
    directory: TempDir,
    database: Database,
    session: Session,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path().join("data")).unwrap();
        let session = database.session();
        for cql in [
            KEYSPACE,
            "CREATE TYPE ks.address (street text, zip int)",
            "CREATE TYPE ks.unused (a int)",
            "CREATE TABLE ks.people (id int PRIMARY KEY, name text, home frozen<address>, tags set<text>)",
            "CREATE INDEX by_name ON ks.people (name)",
            "CREATE TABLE ks.counts (id int PRIMARY KEY, n counter)",
            "CREATE TABLE ks.empty (id int PRIMARY KEY)",
        ] {
            session.execute(cql, ()).unwrap();
        }
        for id in 0..100 {
            insert(&session, id);
            session.execute("UPDATE ks.counts SET n = n + 7 WHERE id = ?", (id,)).unwrap();
        }
        Self { directory, database, session }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn repository(&self) -> Repository {
        Repository::open(Arc::new(RealFileSystem), &self.path("backups")).unwrap()
    }

    fn back_up(&self, name: &str) -> cassette_backup::Created {
        let options = BackupOptions { name: Some(name.to_owned()), ..BackupOptions::default() };
        self.repository().back_up(&self.database, &options).unwrap()
    }

    /// Restores into a new data directory and opens it.
    fn restored(&self, backup: &str, name: &str) -> Database {
        let repository = self.repository();
        let backup = repository.find(Some(backup)).unwrap();
        let target = self.path(name);
        repository.restore_into_new(&backup, &target, &RestoreOptions::default()).unwrap();
        Database::open(target).unwrap()
    }
}

fn insert(session: &Session, id: i32) {
    let cql = format!(
        "INSERT INTO ks.people (id, name, home, tags) VALUES ({id}, 'n{}', {{street: 's', zip: {id}}}, {{'a', 'b'}}) \
         USING TIMESTAMP {}",
        id % 10,
        1_000_000 + id
    );
    session.execute(&cql, ()).unwrap();
}

/// Everything in the tables, with write times.
fn content(session: &Session) -> Vec<String> {
    let mut rows = Vec::new();
    for cql in [
        "SELECT JSON id, name, home, tags, writetime(name) AS w FROM ks.people",
        "SELECT JSON id FROM ks.people WHERE name = 'n3'",
        "SELECT JSON id, n FROM ks.counts",
        "SELECT JSON id FROM ks.empty",
    ] {
        let found = session.execute(cql, ()).unwrap();
        rows.extend(found.iter().map(|row| row.get::<String>(0).unwrap()));
        rows.push(format!("-- {}", found.len()));
    }
    rows
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn a_restored_database_has_every_row_type_index_and_counter_of_the_backup() {
    let fixture = Fixture::new();
    let expected = content(&fixture.session);
    fixture.back_up("one");
    fixture.session.execute("TRUNCATE ks.people", ()).unwrap();
    let restored = fixture.restored("one", "restored");
    assert_eq!(content(&restored.session()), expected);
    let described = restored.session().execute("DESCRIBE KEYSPACE ks", ()).unwrap();
    let original = fixture.session.execute("DESCRIBE KEYSPACE ks", ()).unwrap();
    let texts = |rows: &cassette_database::Rows| -> Vec<String> {
        rows.iter().map(|row| row.get::<String>("create_statement").unwrap()).collect()
    };
    assert_eq!(texts(&described), texts(&original));
}

#[test]
fn a_view_is_built_again_by_a_restore() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = cassette_database::Options::new(directory.path().join("data"));
    options.materialized_views_enabled = true;
    let database = Database::open(options).unwrap();
    let session = database.session();
    for cql in [
        KEYSPACE,
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        "CREATE MATERIALIZED VIEW ks.w AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)",
        "INSERT INTO ks.t (k, v) VALUES (1, 2)",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let repository = Repository::open(Arc::new(RealFileSystem), &directory.path().join("backups")).unwrap();
    let created = repository.back_up(&database, &BackupOptions::default()).unwrap();
    let target = directory.path().join("restored");
    repository.restore_into_new(&created.backup, &target, &RestoreOptions::default()).unwrap();
    let restored = Database::open(target).unwrap();
    let session = restored.session();
    let found = || session.execute("SELECT k FROM ks.w WHERE v = 2", ()).unwrap().len();
    while found() == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_backup_without_changes_copies_no_file_and_each_backup_is_complete() {
    let fixture = Fixture::new();
    let first = fixture.back_up("first");
    assert!(first.copied_bytes > 0 && first.linked_bytes == 0, "{first:?}");
    let second = fixture.back_up("second");
    // schema.cql and the snapshot's manifest.json are no part of an SSTable.
    let data: u64 = second
        .backup
        .manifest
        .tables
        .iter()
        .flat_map(|table| &table.files)
        .filter(|file| file.name.ends_with(".db"))
        .map(|file| file.bytes)
        .sum();
    assert!(second.linked_bytes >= data, "{second:?}");
    let expected = content(&fixture.session);
    insert(&fixture.session, 1000);
    let third = fixture.back_up("third");
    assert!(third.linked_bytes > 0 && third.copied_bytes > 0, "{third:?}");
    fixture.repository().remove("first").unwrap();
    let repository = fixture.repository();
    for backup in repository.backups().unwrap() {
        repository.verify(&backup).unwrap();
    }
    drop(repository);
    assert_eq!(content(&fixture.restored("second", "restored-2").session()), expected);
    assert_eq!(content(&fixture.restored("third", "restored-3").session()), content(&fixture.session));
    assert!(
        fixture.database.snapshots().unwrap().iter().all(|snapshot| !snapshot.name.starts_with("backup-"))
    );
}

#[test]
fn a_linked_backup_has_the_same_checksums_as_a_copied_one() {
    let fixture = Fixture::new();
    let copied = fixture.back_up("copied").backup.manifest;
    let linked = Repository::open(Arc::new(RealFileSystem), &fixture.path("linked")).unwrap();
    let options = BackupOptions { transfer: Transfer::Link, ..BackupOptions::default() };
    let created = linked.back_up(&fixture.database, &options).unwrap();
    assert_eq!(created.copied_bytes, 0);
    let sums = |manifest: &cassette_backup::Manifest| -> Vec<_> {
        let files = manifest.tables.iter().flat_map(|table| &table.files);
        files.filter(|file| file.name.ends_with("-Data.db")).cloned().collect()
    };
    assert_eq!(sums(&created.backup.manifest), sums(&copied));
    linked.verify(&created.backup).unwrap();
}

#[test]
fn verification_names_any_file_that_is_damaged_or_missing() {
    let fixture = Fixture::new();
    let backup = fixture.back_up("one").backup;
    let repository = fixture.repository();
    for path in files(&fixture.path("backups").join("one")) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let content = std::fs::read(&path).unwrap();
        let mut damaged = content.clone();
        match damaged.last_mut() {
            Some(byte) => *byte ^= 1,
            None => damaged.push(0),
        }
        for replacement in [Some(damaged), None] {
            match &replacement {
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let is_manifest =
                name.starts_with("manifest.") && path.parent() == Some(&fixture.path("backups").join("one"));
            let found = if is_manifest {
                repository.find(Some("one")).map(drop)
            } else {
                repository.verify(&backup).map(drop)
            };
            match found {
                Err(Error::Damaged { path: named, .. }) => assert_eq!(named.parent(), path.parent()),
                other => panic!("{}: {other:?}", path.display()),
            }
            std::fs::write(&path, &content).unwrap();
        }
    }
    repository.verify(&backup).unwrap();
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let fixture = Fixture::new();
    let backup = fixture.back_up("one").backup;
    let data = files(&fixture.path("backups"))
        .into_iter()
        .find(|path| path.ends_with("nb-1-big-Data.db") || path.to_string_lossy().ends_with("-Data.db"));
    let data = data.unwrap();
    let mut bytes = std::fs::read(&data).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&data, bytes).unwrap();
    let repository = fixture.repository();
    let target = fixture.path("restored");
    let failed = repository.restore_into_new(&backup, &target, &RestoreOptions::default());
    assert!(matches!(failed, Err(Error::Damaged { .. })), "{failed:?}");
    assert!(!target.exists() && !fixture.path("restored.restoring").exists());
    let before = content(&fixture.session);
    let failed = repository.restore(&backup, &fixture.database, &RestoreOptions::default());
    assert!(matches!(failed, Err(Error::Damaged { .. })), "{failed:?}");
    assert_eq!(content(&fixture.session), before);
}

#[test]
fn tables_are_restored_into_an_open_database_alone_or_in_place_of_their_rows() {
    let fixture = Fixture::new();
    let expected = content(&fixture.session);
    let backup = fixture.back_up("one").backup;
    let repository = fixture.repository();
    fixture.session.execute("DROP TABLE ks.people", ()).unwrap();
    let people = RestoreOptions { names: vec!["ks.people".to_owned()], ..RestoreOptions::default() };
    let restored = repository.restore(&backup, &fixture.database, &people).unwrap();
    assert_eq!((restored.tables, content(&fixture.session)), (1, expected.clone()));

    insert(&fixture.session, 2000);
    fixture.session.execute("DELETE FROM ks.people WHERE id = 5", ()).unwrap();
    repository.restore(&backup, &fixture.database, &people).unwrap();
    let count = |session: &Session| session.execute("SELECT id FROM ks.people", ()).unwrap().len();
    assert_eq!(count(&fixture.session), 100, "newer rows and deletions remain effective");
    let truncated = RestoreOptions { truncate: true, ..people };
    repository.restore(&backup, &fixture.database, &truncated).unwrap();
    assert_eq!(content(&fixture.session), expected);
    // Everything, twice: rows are the same, counters are not added.
    for _ in 0..2 {
        repository.restore(&backup, &fixture.database, &RestoreOptions::default()).unwrap();
    }
    assert_eq!(content(&fixture.session), expected);
}

#[test]
fn roles_are_restored_with_everything_and_into_an_open_database_on_request() {
    let fixture = Fixture::new();
    let add = "INSERT INTO system_auth.roles (role, can_login) VALUES ('alice', true)";
    fixture.session.execute(add, ()).unwrap();
    let backup = fixture.back_up("one").backup;
    let roles = |database: &Database| {
        let select = "SELECT role FROM system_auth.roles WHERE role = 'alice'";
        database.session().execute(select, ()).unwrap().len()
    };
    assert_eq!(roles(&fixture.restored("one", "restored")), 1);
    let other = Database::open(fixture.path("other")).unwrap();
    fixture.repository().restore(&backup, &other, &RestoreOptions::default()).unwrap();
    assert_eq!(roles(&other), 0);
    let auth = RestoreOptions { names: vec!["system_auth".to_owned()], ..RestoreOptions::default() };
    fixture.repository().restore(&backup, &other, &auth).unwrap();
    assert_eq!(roles(&other), 1);
}

#[test]
fn a_table_with_a_view_is_not_truncated_by_a_restore() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = cassette_database::Options::new(directory.path().join("data"));
    options.materialized_views_enabled = true;
    let database = Database::open(options).unwrap();
    let session = database.session();
    for cql in [
        KEYSPACE,
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        "CREATE MATERIALIZED VIEW ks.w AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)",
        "INSERT INTO ks.t (k, v) VALUES (1, 2)",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let repository = Repository::open(Arc::new(RealFileSystem), &directory.path().join("backups")).unwrap();
    let backup = repository.back_up(&database, &BackupOptions::default()).unwrap().backup;
    let options = RestoreOptions { truncate: true, ..RestoreOptions::default() };
    let error = repository.restore(&backup, &database, &options).unwrap_err().to_string();
    assert!(error.contains("drop its view w first"), "{error}");
    assert_eq!(session.execute("SELECT k FROM ks.t", ()).unwrap().len(), 1);
}

#[test]
fn two_restores_into_one_directory_do_not_run_at_once() {
    let fixture = Fixture::new();
    let backup = fixture.back_up("one").backup;
    let lock = fixture.path("restored.restoring.lock");
    let other = cassette_vfs::FileSystem::lock(&RealFileSystem, &lock).unwrap();
    let restore = || {
        let repository =
            Repository::open_for_reading(Arc::new(RealFileSystem), &fixture.path("backups")).unwrap();
        repository.restore_into_new(&backup, &fixture.path("restored"), &RestoreOptions::default())
    };
    let error = restore().unwrap_err().to_string();
    assert!(error.starts_with("another restore into "), "{error}");
    drop(other);
    restore().unwrap();
}

#[test]
fn a_damaged_backup_does_not_prevent_the_next() {
    let fixture = Fixture::new();
    fixture.back_up("one");
    std::fs::write(fixture.path("backups/one/manifest.json"), b"{").unwrap();
    let next = fixture.back_up("two");
    fixture.repository().verify(&next.backup).unwrap();
}

#[test]
fn requests_that_cannot_succeed_are_rejected_by_name() {
    let fixture = Fixture::new();
    let backup = fixture.back_up("one").backup;
    let repository = fixture.repository();
    let message = |error: Error| error.to_string();
    let again = BackupOptions { name: Some("one".to_owned()), ..BackupOptions::default() };
    assert!(
        message(repository.back_up(&fixture.database, &again).unwrap_err())
            .ends_with("backup one exists already")
    );
    for name in ["", "..", "a/b", ".a", "x.incomplete", "lock"] {
        let named = BackupOptions { name: Some(name.to_owned()), ..BackupOptions::default() };
        let error = message(repository.back_up(&fixture.database, &named).unwrap_err());
        assert!(error.starts_with("invalid name of a backup"), "{error}");
    }
    for keyspace in ["nope", "system"] {
        let options = BackupOptions { keyspaces: vec![keyspace.to_owned()], ..BackupOptions::default() };
        assert!(message(repository.back_up(&fixture.database, &options).unwrap_err()).contains(keyspace));
    }
    let nope = RestoreOptions { names: vec!["ks.nope".to_owned()], ..RestoreOptions::default() };
    let error = message(repository.restore(&backup, &fixture.database, &nope).unwrap_err());
    assert_eq!(error, "backup one contains no keyspace or table ks.nope");
    let error = message(repository.find(Some("two")).unwrap_err());
    assert!(error.ends_with("backup two does not exist; found one"), "{error}");
    let data = fixture.path("data");
    let error = message(repository.restore_into_new(&backup, &data, &RestoreOptions::default()).unwrap_err());
    assert!(error.contains("expected a missing or empty directory"), "{error}");
    let busy = Repository::open(Arc::new(RealFileSystem), &fixture.path("backups")).unwrap_err();
    assert!(message(busy).contains("another command uses this directory"));
    let foreign = Repository::open(Arc::new(RealFileSystem), &data).unwrap_err();
    assert!(message(foreign).contains("expected an empty directory or one of backups"));
    let nothing = Repository::open_for_reading(Arc::new(RealFileSystem), &data).unwrap_err();
    assert!(message(nothing).contains("found no cassette-backups.json"));
}

#[test]
fn a_table_with_other_columns_is_refused_before_any_table_is_changed() {
    let fixture = Fixture::new();
    let backup = fixture.back_up("one").backup;
    for cql in [
        "DELETE FROM ks.counts WHERE id = 1",
        "DROP TABLE ks.people",
        "CREATE TABLE ks.people (id int PRIMARY KEY, name int)",
        "INSERT INTO ks.people (id, name) VALUES (1, 2)",
    ] {
        fixture.session.execute(cql, ()).unwrap();
    }
    let repository = fixture.repository();
    let rows = |table: &str| {
        let found = fixture.session.execute(&format!("SELECT JSON * FROM ks.{table}"), ()).unwrap();
        found.iter().map(|row| row.get::<String>(0).unwrap()).collect::<Vec<_>>()
    };
    let before = (rows("counts"), rows("people"));
    for truncate in [false, true] {
        let options = RestoreOptions { truncate, ..RestoreOptions::default() };
        let error = repository.restore(&backup, &fixture.database, &options).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot restore ks.people: nothing was changed; expected column home, found none of this name; restore it \
             under another name"
        );
        assert_eq!((rows("counts"), rows("people")), before);
    }
}

#[test]
fn tables_are_restored_under_other_names_beside_those_that_exist() {
    let fixture = Fixture::new();
    let backup = fixture.back_up("one").backup;
    fixture.session.execute("DELETE FROM ks.counts WHERE id = 7", ()).unwrap();
    let repository = fixture.repository();
    let restore = |names: &[&str], keyspace: Option<&str>, table: Option<&str>| {
        let options = RestoreOptions {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            rename: RestoreNames { keyspace: keyspace.map(str::to_owned), table: table.map(str::to_owned) },
            ..RestoreOptions::default()
        };
        repository.restore(&backup, &fixture.database, &options)
    };
    restore(&["ks.counts"], None, Some("CountsBefore")).unwrap();
    let count = |table: &str| fixture.session.execute(&format!("SELECT id FROM {table}"), ()).unwrap().len();
    assert_eq!((count("ks.\"CountsBefore\""), count("ks.counts")), (100, 99));
    restore(&["ks.people"], Some("other"), Some("humans")).unwrap();
    assert_eq!(count("other.humans"), 100);
    let by_index = fixture.session.execute("SELECT id FROM other.humans WHERE name = 'n3'", ()).unwrap();
    assert_eq!(by_index.len(), 10);
    let home = fixture.session.execute("SELECT home.zip FROM other.humans WHERE id = 5", ()).unwrap();
    assert_eq!(home.iter().next().unwrap().get::<i32>(0).unwrap(), 5);
    restore(&["ks"], Some("copy"), None).unwrap();
    assert_eq!((count("copy.people"), count("copy.counts"), count("copy.empty")), (100, 100, 0));
    let error = restore(&["ks"], None, Some("x")).unwrap_err().to_string();
    assert_eq!(error, "cannot restore as table x: expected one table as KEYSPACE.TABLE, found 3");
    // The copy is independent of the original, and can be restored into again.
    fixture.session.execute("DROP TABLE ks.people", ()).unwrap();
    assert_eq!(count("copy.people"), 100);
    restore(&["ks"], Some("copy"), None).unwrap();
}

#[test]
fn a_column_that_was_added_again_since_the_backup_keeps_its_values_in_a_restore() {
    let fixture = Fixture::new();
    let execute = |cql: &str| fixture.session.execute(cql, ()).map(drop).unwrap();
    execute("ALTER TABLE ks.people ADD note text");
    execute("ALTER TABLE ks.people DROP note");
    let backup = fixture.back_up("one").backup;
    let options = RestoreOptions { names: vec!["ks.people".to_owned()], ..RestoreOptions::default() };
    let repository = fixture.repository();
    // The table exists and has no such column.
    repository.restore(&backup, &fixture.database, &options).unwrap();
    execute("ALTER TABLE ks.people ADD note text");
    execute("INSERT INTO ks.people (id, note) VALUES (1, 'kept')");
    repository.restore(&backup, &fixture.database, &options).unwrap();
    let found = fixture.session.execute("SELECT note FROM ks.people WHERE id = 1", ()).unwrap();
    assert_eq!(found.iter().next().unwrap().get::<String>(0).unwrap(), "kept");
}

#[test]
fn definitions_of_a_backup_execute_no_other_statements_and_create_no_other_table() {
    let fixture = Fixture::new();
    let backup = fixture.back_up("one").backup;
    let table = backup.manifest.tables.iter().find(|table| table.table == "counts").unwrap();
    let directory = fixture.path("backups/one/ks");
    let schema = directory.join(&table.directory).join("schema.cql");
    let (table_text, keyspace_text) = (
        std::fs::read_to_string(&schema).unwrap(),
        std::fs::read_to_string(directory.join("keyspace.cql")).unwrap(),
    );
    // Who can write to the backups can also write the checksums.
    let options = RestoreOptions {
        names: vec!["ks.counts".to_owned()],
        skip_verification: true,
        ..RestoreOptions::default()
    };
    let repository = fixture.repository();
    let restore = || repository.restore(&backup, &fixture.database, &options).unwrap_err().to_string();
    let hostile = "\nDROP TABLE ks.people;\n";
    std::fs::write(&schema, format!("{table_text}{hostile}")).unwrap();
    assert!(restore().contains("a statement that is not part of a table's definition"), "{}", restore());
    std::fs::write(&schema, table_text.replace("ks.counts", "ks.people")).unwrap();
    assert!(restore().contains("was expected to create ks.counts, and creates ks.people"), "{}", restore());
    std::fs::write(&schema, &table_text).unwrap();
    std::fs::write(directory.join("keyspace.cql"), format!("{keyspace_text}{hostile}")).unwrap();
    assert!(restore().contains("expected statements that create keyspace ks and its types"), "{}", restore());
    assert_eq!(fixture.session.execute("SELECT id FROM ks.people", ()).unwrap().len(), 100);
}

#[test]
fn a_file_that_was_cut_off_in_a_backup_is_copied_into_the_next_one() {
    let fixture = Fixture::new();
    fixture.back_up("one");
    let data =
        files(&fixture.path("backups/one/ks")).into_iter().find(|path| path.ends_with("nb-1-big-Data.db"));
    std::fs::OpenOptions::new().write(true).open(data.unwrap()).unwrap().set_len(3).unwrap();
    let next = fixture.back_up("two").backup;
    fixture.repository().verify(&next).unwrap();
}
