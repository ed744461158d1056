//! Repositories in object stores: in memory, and with failures.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use cassette_database::{Database, Session};
use cassette_vfs::{FileSystem, RealFileSystem};
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;

use crate::objects::{RemoteObjects, SharedObjects};
use crate::{BackupKeys, BackupOptions, Error, Repository, RestoreOptions, Result, Transfer, Until};

struct Fixture {
    keys: Option<BackupKeys>,
    directory: TempDir,
    store: Arc<InMemory>,
    database: Database,
    session: Session,
}

impl Fixture {
    fn new() -> Self {
        Self::with_keys(None)
    }

    fn with_keys(keys: Option<BackupKeys>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut options = cassette_database::Options::new(directory.path().join("data"));
        options.engine.commitlog_archiving = true;
        let database = Database::open(options).unwrap();
        let session = database.session();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
            "CREATE INDEX i ON ks.t (v)",
        ] {
            session.execute(cql, ()).unwrap();
        }
        let fixture = Self { keys, directory, store: Arc::new(InMemory::new()), database, session };
        fixture.insert(0..100);
        fixture
    }

    fn insert(&self, keys: std::ops::Range<i32>) {
        for k in keys {
            self.session
                .execute("INSERT INTO ks.t (k, v) VALUES (?, ?)", (k, format!("v{}", k % 7)))
                .unwrap();
        }
    }

    fn open(&self, changes: bool) -> Result<Repository> {
        let store: Arc<dyn ObjectStore> = Arc::clone(&self.store) as _;
        let objects: Arc<dyn SharedObjects> =
            Arc::new(RemoteObjects::with_store(store, "s3://bucket/p", "p")?);
        let fs: Arc<dyn FileSystem> = Arc::new(RealFileSystem);
        Repository::of_objects(&fs, objects, changes, self.keys.as_ref())
    }

    fn back_up(&self, name: &str) -> Result<crate::Created> {
        let options = BackupOptions { name: Some(name.to_owned()), ..BackupOptions::default() };
        self.open(true)?.back_up(&self.database, &options)
    }

    fn objects(&self, prefix: &str) -> Vec<String> {
        let objects = RemoteObjects::with_store(Arc::clone(&self.store) as _, "s3://bucket/p", "p").unwrap();
        let entries = crate::objects::Objects::list(&objects, prefix).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }

    fn restore(&self, backup: &str, options: &RestoreOptions) -> Result<Database> {
        let target = self.directory.path().join(format!("restored-{backup}"));
        let repository = self.open(false)?;
        let found = match options.until {
            Some(until) => repository.find_before(None, until)?,
            None => repository.find(Some(backup))?,
        };
        repository.restore_into_new(&found, &target, options)?;
        let left: Vec<String> = names(self.directory.path());
        assert!(left.iter().all(|name| name == "data" || name.starts_with("restored-")), "{left:?}");
        assert!(
            left.iter().all(|name| !name.contains(".downloads") && !name.contains(".restoring")),
            "{left:?}"
        );
        Ok(Database::open(target).unwrap())
    }
}

fn names(directory: &Path) -> Vec<String> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn count(database: &Database, condition: &str) -> usize {
    database.session().execute(&format!("SELECT k FROM ks.t {condition}"), ()).unwrap().len()
}

#[test]
fn a_backup_in_an_object_store_stores_each_content_once_and_restores() {
    let fixture = Fixture::new();
    let first = fixture.back_up("first").unwrap();
    assert!(first.copied_bytes > 0, "{first}");
    fixture.insert(100..150);
    let second = fixture.back_up("second").unwrap();
    assert!(second.linked_bytes > 0 && second.copied_bytes > 0, "{second}");
    let files = fixture.objects("files");
    let third = fixture.back_up("third").unwrap();
    // Only descriptions of the snapshots, which contain its time.
    assert!(third.copied_bytes < 20_000, "{third}");
    let repository = fixture.open(false).unwrap();
    let listed: Vec<String> = repository.backups().unwrap().into_iter().map(|backup| backup.name).collect();
    assert_eq!(listed, ["first", "second", "third"]);
    repository.verify(&repository.find(None).unwrap()).unwrap();
    let restored = fixture.restore("second", &RestoreOptions::default()).unwrap();
    assert_eq!((count(&restored, ""), count(&restored, "WHERE v = 'v3'")), (150, 21));
    let writing = fixture.open(true).unwrap();
    writing.remove("second").unwrap();
    writing.remove("third").unwrap();
    drop(writing);
    assert!(fixture.objects("files").len() < files.len());
    let restored = fixture.restore("first", &RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored, ""), 100);
    fixture.open(true).unwrap().remove("first").unwrap();
    assert_eq!(fixture.objects("files"), [""; 0]);
    assert_eq!(fixture.objects("backups"), [""; 0]);
}

#[test]
fn an_open_database_and_a_moment_are_restored_from_an_object_store() {
    let fixture = Fixture::new();
    fixture.back_up("first").unwrap();
    fixture.insert(100..130);
    let mut archiver = fixture.open(true).unwrap().archiver();
    let archived = archiver.archive(&fixture.database).unwrap();
    assert!(archived.segments > 0, "{archived}");
    let options = RestoreOptions { until: Some(Until::Latest), ..RestoreOptions::default() };
    let restored = fixture.restore("latest", &options).unwrap();
    assert_eq!(count(&restored, ""), 130);
    let repository = fixture.open(false).unwrap();
    let backup = repository.find(Some("first")).unwrap();
    let options = RestoreOptions { truncate: true, ..RestoreOptions::default() };
    repository.restore(&backup, &fixture.database, &options).unwrap();
    assert_eq!(count(&fixture.database, ""), 100);
}

#[test]
fn damaged_and_missing_objects_are_named_and_nothing_is_restored() {
    let fixture = Fixture::new();
    let backup = fixture.back_up("one").unwrap().backup;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (number, file) in fixture.objects("files").into_iter().enumerate() {
        let path = ObjectPath::from(format!("p/{file}"));
        let original =
            runtime.block_on(async { fixture.store.get(&path).await.unwrap().bytes().await.unwrap() });
        let mut damaged = original.to_vec();
        match damaged.last_mut() {
            Some(byte) => *byte ^= 1,
            None => damaged.push(0),
        }
        for replacement in [Some(damaged), None] {
            runtime.block_on(async {
                match replacement {
                    Some(bytes) => drop(fixture.store.put(&path, bytes.into()).await.unwrap()),
                    None => fixture.store.delete(&path).await.unwrap(),
                }
            });
            let found = fixture.open(false).unwrap().verify(&backup);
            assert!(
                matches!(&found, Err(Error::Damaged { path, .. }) if path.ends_with(&file)),
                "{file}: {found:?}"
            );
            if number % 16 > 0 {
                continue;
            }
            let options = RestoreOptions { skip_verification: true, ..RestoreOptions::default() };
            let restored = fixture.restore("one", &options);
            assert!(matches!(restored, Err(Error::Damaged { .. }) | Ok(_)), "{restored:?}");
            if let Ok(database) = restored {
                // The files of the schema are read for restores to a moment only.
                drop(database);
                std::fs::remove_dir_all(fixture.directory.path().join("restored-one")).unwrap();
            }
        }
        runtime.block_on(fixture.store.put(&path, original.into())).unwrap();
    }
    fixture.open(false).unwrap().verify(&backup).unwrap();
}

#[test]
fn one_command_at_a_time_changes_an_object_store_and_foreign_objects_are_kept() {
    let fixture = Fixture::new();
    let held = fixture.open(true).unwrap();
    let error = fixture.open(true).map(drop).unwrap_err().to_string();
    assert!(error.contains("another command changes the backups"), "{error}");
    fixture.open(false).map(drop).unwrap();
    drop(held);
    drop(fixture.open(true).unwrap());
    let link = BackupOptions { transfer: Transfer::Link, ..BackupOptions::default() };
    let error = fixture.open(true).unwrap().back_up(&fixture.database, &link).unwrap_err().to_string();
    assert!(error.contains("files cannot be linked into an object store"), "{error}");
    let other = Fixture::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let path = ObjectPath::from("p/notes.txt");
    runtime.block_on(other.store.put(&path, "mine".into())).unwrap();
    let error = other.open(true).map(drop).unwrap_err().to_string();
    assert!(error.contains("expected an empty prefix or one of backups, found notes.txt"), "{error}");
    let error = other.open(false).map(drop).unwrap_err().to_string();
    assert!(error.contains("found no cassette-backups.json"), "{error}");
}

#[test]
fn a_directory_of_another_origin_beside_the_data_directory_is_kept() {
    let fixture = Fixture::new();
    let backup = fixture.back_up("one").unwrap().backup;
    let downloads = fixture.directory.path().join("data.downloads");
    std::fs::create_dir(&downloads).unwrap();
    std::fs::write(downloads.join("mine"), "mine").unwrap();
    let repository = fixture.open(false).unwrap();
    let error = repository.restore(&backup, &fixture.database, &RestoreOptions::default()).unwrap_err();
    assert!(error.to_string().contains("was not created by a restore"), "{error}");
    assert_eq!(std::fs::read(downloads.join("mine")).unwrap(), b"mine");
    std::fs::remove_dir_all(&downloads).unwrap();
    repository.restore(&backup, &fixture.database, &RestoreOptions::default()).unwrap();
    assert!(!downloads.exists());
}

fn keys(lines: &[(&str, &str)]) -> BackupKeys {
    let line = |(alias, byte): &(&str, &str)| format!("{alias} {}\n", byte.repeat(32));
    BackupKeys::parse(&lines.iter().map(line).collect::<String>()).unwrap()
}

#[test]
fn encrypted_backups_in_an_object_store_are_shared_restored_and_moved_to_a_new_key() {
    let mut fixture = Fixture::with_keys(Some(keys(&[("old", "01")])));
    fixture.back_up("first").unwrap();
    fixture.insert(100..130);
    let second = fixture.back_up("second").unwrap();
    assert!(second.linked_bytes > 0, "unchanged files are not stored again: {second}");
    let mut archiver = fixture.open(true).unwrap().archiver();
    archiver.archive(&fixture.database).unwrap();
    let latest = RestoreOptions { until: Some(Until::Latest), ..RestoreOptions::default() };
    assert_eq!(count(&fixture.restore("latest", &latest).unwrap(), "WHERE v = 'v3'"), 19);
    // A new key: everything is stored again, and the old key is needed for the old backups alone.
    fixture.keys = Some(keys(&[("new", "02"), ("old", "01")]));
    let third = fixture.back_up("third").unwrap();
    assert_eq!(third.backup.manifest.key.as_deref(), Some("new"));
    let objects = |created: &crate::Created| -> HashSet<String> {
        created.backup.manifest.files().filter_map(|file| file.object.clone()).collect()
    };
    assert!(objects(&third).is_disjoint(&objects(&second)));
    assert_eq!(count(&fixture.restore("first", &RestoreOptions::default()).unwrap(), ""), 100);
    for name in ["first", "second"] {
        fixture.open(true).unwrap().remove(name).unwrap();
    }
    fixture.keys = Some(keys(&[("new", "02")]));
    assert_eq!(count(&fixture.restore("third", &RestoreOptions::default()).unwrap(), ""), 130);
    fixture.open(true).unwrap().remove("third").unwrap();
    assert_eq!(fixture.objects("files"), [""; 0]);
}
