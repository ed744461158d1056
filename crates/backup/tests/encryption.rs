//! Encrypted backups in directories: what is stored, and which changes of it are noticed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_backup::{
    BackupKeys, BackupOptions, Created, Error, Location, Repository, RestoreOptions, Result, Transfer, Until,
};
use cassette_database::{Database, Options};
use cassette_vfs::{FakeFileSystem, FileSystem};

const ROOT: &str = "/backups";

fn keys(lines: &[(&str, &str)]) -> BackupKeys {
    let line = |(alias, byte): &(&str, &str)| format!("{alias} {}\n", byte.repeat(32));
    BackupKeys::parse(&lines.iter().map(line).collect::<String>()).unwrap()
}

struct World {
    fs: FakeFileSystem,
    database: Database,
    keys: Option<BackupKeys>,
}

impl World {
    fn new() -> Self {
        let fs = FakeFileSystem::new();
        let mut options = Options::new("/data");
        options.file_system = Arc::new(fs.clone());
        options.engine.background_threads = false;
        options.engine.commitlog_archiving = true;
        options.engine.commitlog_segment_size = 16 << 10;
        let database = Database::open(options).unwrap();
        let world = Self { fs, database, keys: Some(keys(&[("one", "01")])) };
        world.execute(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        world.execute("CREATE TABLE shop.orders (id int PRIMARY KEY, article text)");
        world.insert(0..50);
        world
    }

    fn execute(&self, cql: &str) {
        self.database.session().execute(cql, ()).unwrap();
    }

    fn insert(&self, ids: std::ops::Range<i32>) {
        for id in ids {
            self.execute(&format!("INSERT INTO shop.orders (id, article) VALUES ({id}, 'confidential')"));
        }
    }

    fn location(&self) -> Location {
        Location { address: ROOT.to_owned(), keys: self.keys.clone() }
    }

    fn open(&self) -> Result<Repository> {
        Repository::open_at(Arc::new(self.fs.clone()), &self.location())
    }

    fn back_up(&self, name: &str) -> Result<Created> {
        let options = BackupOptions { name: Some(name.to_owned()), ..BackupOptions::default() };
        self.open()?.back_up(&self.database, &options)
    }

    fn archive(&self) {
        self.open().unwrap().archiver().archive(&self.database).unwrap();
    }

    /// Restores on a copy of the file system, and returns the number of rows.
    fn restore(&self, name: Option<&str>, options: &RestoreOptions) -> Result<usize> {
        let fs = self.fs.fork();
        let repository = Repository::open_at_for_reading(Arc::new(fs.clone()), &self.location())?;
        let backup = match options.until {
            Some(until) => repository.find_before(name, until)?,
            None => repository.find(name)?,
        };
        let restored = repository.restore_into_new(&backup, Path::new("/restored"), options);
        let names: Vec<String> =
            fs.read_dir(Path::new("/")).unwrap().into_iter().map(|entry| entry.name).collect();
        let left = |name: &String| name.contains(".downloads") || name.contains(".restoring");
        assert!(!names.iter().any(left), "{names:?}");
        assert_eq!(names.iter().any(|name| name == "restored"), restored.is_ok());
        restored?;
        let mut opening = Options::new("/restored");
        opening.file_system = Arc::new(fs);
        opening.engine.background_threads = false;
        let restored = Database::open(opening).unwrap();
        Ok(restored.session().execute("SELECT id FROM shop.orders", ()).unwrap().len())
    }

    fn restore_latest_moment(&self) -> Result<usize> {
        self.restore(None, &RestoreOptions { until: Some(Until::Latest), ..RestoreOptions::default() })
    }

    /// The files below a directory, with their contents.
    fn files(&self, directory: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let fs: &dyn FileSystem = &self.fs;
        let (mut found, mut pending) = (BTreeMap::new(), vec![PathBuf::from(directory)]);
        while let Some(directory) = pending.pop() {
            for entry in fs.read_dir(&directory).unwrap() {
                let path = directory.join(&entry.name);
                if entry.is_dir {
                    pending.push(path);
                } else {
                    let content = fs.read(&path).unwrap();
                    found.insert(path, content.to_vec());
                }
            }
        }
        found
    }

    fn write(&self, path: &Path, content: &[u8]) {
        let fs: &dyn FileSystem = &self.fs;
        fs.write_atomically(path, content).unwrap();
    }

    /// Everything that reads the backup `one` and the log after it.
    fn check(&self) -> Result<()> {
        let repository = Repository::open_at_for_reading(Arc::new(self.fs.clone()), &self.location())?;
        let backup = repository.find(Some("one"))?;
        repository.verify(&backup)?;
        repository.verify_log(&backup)?;
        Ok(())
    }
}

#[test]
fn an_encrypted_backup_reveals_no_name_and_no_value_and_restores_also_to_a_moment() {
    let world = World::new();
    world.back_up("one").unwrap();
    world.insert(50..60);
    world.archive();
    for (path, content) in world.files(ROOT) {
        for text in ["confidential", "orders", "shop", "article"] {
            let is_in = content.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!is_in && !path.to_string_lossy().contains(text), "{text} in {}", path.display());
        }
    }
    world.check().unwrap();
    assert_eq!(world.restore(Some("one"), &RestoreOptions::default()).unwrap(), 50);
    assert_eq!(world.restore_latest_moment().unwrap(), 60);
    let some = RestoreOptions { names: vec!["shop.orders".to_owned()], ..RestoreOptions::default() };
    assert_eq!(world.restore(Some("one"), &some).unwrap(), 50);
    // Into a running database.
    let repository = world.open().unwrap();
    let backup = repository.find(Some("one")).unwrap();
    let options = RestoreOptions { truncate: true, ..RestoreOptions::default() };
    repository.restore(&backup, &world.database, &options).unwrap();
    assert_eq!(world.database.session().execute("SELECT id FROM shop.orders", ()).unwrap().len(), 50);
}

#[test]
fn unchanged_files_are_stored_once_and_removed_with_the_last_backup_that_has_them() {
    let world = World::new();
    world.back_up("one").unwrap();
    world.insert(50..60);
    let second = world.back_up("two").unwrap();
    assert!(second.linked_bytes > 0 && second.copied_bytes > 0, "{second}");
    let of_both = world.files("/backups/files").len();
    let repository = world.open().unwrap();
    repository.remove("one").unwrap();
    repository.verify(&repository.find(Some("two")).unwrap()).unwrap();
    assert!(world.files("/backups/files").len() < of_both);
    repository.remove("two").unwrap();
    assert!(world.files("/backups/files").is_empty() && world.files("/backups/backups").is_empty());
    drop(repository);
    let link = BackupOptions { transfer: Transfer::Link, ..BackupOptions::default() };
    let error = world.open().unwrap().back_up(&world.database, &link).unwrap_err().to_string();
    assert!(error.contains("files cannot be linked into encrypted backups"), "{error}");
}

#[test]
fn another_key_no_key_and_a_needless_key_are_named() {
    let mut world = World::new();
    world.back_up("one").unwrap();
    let failed =
        |world: &World| world.restore(Some("one"), &RestoreOptions::default()).unwrap_err().to_string();
    world.keys = Some(keys(&[("one", "02")]));
    assert!(failed(&world).contains("key \"one\" is not the one"), "{}", failed(&world));
    world.keys = Some(keys(&[("two", "01")]));
    assert!(failed(&world).contains("key \"one\" is not in the specified file"), "{}", failed(&world));
    world.keys = None;
    assert!(
        failed(&world).contains("the backups here are encrypted; specify the file"),
        "{}",
        failed(&world)
    );
    assert!(world.back_up("two").is_err());
    world.keys = Some(keys(&[("new", "02"), ("one", "01")]));
    assert_eq!(world.restore(Some("one"), &RestoreOptions::default()).unwrap(), 50);
    // Plain backups in another directory.
    let plain = World { keys: None, ..World::new() };
    plain.back_up("one").unwrap();
    let with_key = World { keys: Some(keys(&[("one", "01")])), ..plain };
    assert!(
        failed(&with_key).contains("are not encrypted, but a key was specified"),
        "{}",
        failed(&with_key)
    );
}

#[test]
fn changed_cut_off_and_exchanged_files_are_noticed_by_every_reader() {
    let world = World::new();
    world.back_up("one").unwrap();
    world.back_up("two").unwrap();
    world.insert(50..60);
    world.archive();
    world.check().unwrap();
    let all = world.files(ROOT);
    let is_encrypted = |path: &Path| {
        !path.ends_with("cassette-backups.json") && !path.ends_with("lock") && !path.ends_with("two.json")
    };
    // What `check` reads, by the name of its object and by its content.
    let mut noticed = 0;
    for (path, content) in all.iter().filter(|(path, _)| is_encrypted(path)) {
        let mut changed = content.clone();
        *changed.last_mut().unwrap() ^= 1;
        let mut start = content.clone();
        start[10] ^= 1;
        let directory = path.parent().unwrap();
        let other = all.iter().find(|(other, _)| other.parent() == Some(directory) && *other != path);
        let attempts = [
            ("changed", Some(changed)),
            ("another salt", Some(start)),
            ("cut off", Some(content[..content.len() - 1].to_vec())),
            ("empty", Some(Vec::new())),
            ("exchanged", other.map(|(_, content)| content.clone())),
        ];
        for (what, content) in attempts {
            let Some(content) = content else { continue };
            world.write(path, &content);
            // The files of the schema, of the second backup alone, and of segments before the first
            // backup are not read by all.
            if let Err(error) = world.check() {
                assert!(matches!(error, Error::Damaged { .. } | Error::Invalid(_)), "{what}: {error}");
                noticed += 1;
                assert!(!error.to_string().contains("confidential"));
            } else {
                assert!(!is_read(&world, path), "{what}: {}", path.display());
            }
        }
        world.write(path, content);
    }
    world.check().unwrap();
    assert!(noticed > 50, "{noticed}");
}

/// Whether a file belongs to the backup `one`, or to the log after it.
fn is_read(world: &World, path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    let repository = Repository::open_at_for_reading(Arc::new(world.fs.clone()), &world.location()).unwrap();
    let Ok(backup) = repository.find(Some("one")) else { return true };
    let tables = backup.manifest.tables.iter().flat_map(|table| &table.files);
    let objects = tables.chain(&backup.manifest.keyspaces).filter_map(|file| file.object.as_deref());
    let position = backup.manifest.log.clone().unwrap();
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let segment = cassette_engine::commitlog::segment_id(&format!("{stem}.log"));
    objects.into_iter().any(|object| object == name) || segment.is_some_and(|id| id >= position.segment)
}

#[test]
fn a_plain_manifest_in_place_of_an_encrypted_one_is_rejected() {
    let world = World::new();
    world.back_up("one").unwrap();
    let plain = World { keys: None, ..World::new() };
    plain.back_up("one").unwrap();
    let manifest = plain.files("/backups/one").remove(Path::new("/backups/one/manifest.json")).unwrap();
    let with_checksum =
        [&manifest[..], format!("\ncrc32 {}\n", crc32fast::hash(&manifest)).as_bytes()].concat();
    let path = Path::new("/backups/backups/one.json");
    for content in [&manifest, &with_checksum] {
        world.write(path, content);
        let error = world.restore(Some("one"), &RestoreOptions::default()).unwrap_err();
        assert!(matches!(&error, Error::Damaged { path: found, .. } if found == path), "{error}");
        assert!(error.to_string().contains("it is not encrypted"), "{error}");
    }
    // A whole directory of plain backups in its place.
    world.write(Path::new("/backups/cassette-backups.json"), b"{\"format\":1}");
    let error = world.restore(Some("one"), &RestoreOptions::default()).unwrap_err().to_string();
    assert!(error.contains("are not encrypted, but a key was specified"), "{error}");
    // A manifest under another name.
    let world = World::new();
    world.back_up("one").unwrap();
    let content = world.files("/backups/backups").remove(path).unwrap();
    world.write(Path::new("/backups/backups/two.json"), &content);
    let error = world.restore(Some("two"), &RestoreOptions::default()).unwrap_err().to_string();
    assert!(error.contains("it cannot be decrypted"), "{error}");
}
