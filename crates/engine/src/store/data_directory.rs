//! The directory that holds everything: who may use it, and what lies where.
//!
//! ```text
//! <data_dir>/cassette.version                      "1\n": the layout of this directory
//! <data_dir>/cassette.lock                         locked while an engine is open
//! <data_dir>/replay_positions                      see replay_positions.rs
//! <data_dir>/dropped_tables                        see drop_records.rs
//! <data_dir>/schema_journal                        see schema_journal.rs
//! <data_dir>/commitlog/CommitLog-*.log             see commitlog.rs
//! <data_dir>/commitlog/unclaimed/<id>/*.log        of tables that the schema does not name, see commitlog/unclaimed.rs
//! <data_dir>/cdc_raw/CommitLog-*                   captured segments, see commitlog/cdc.rs; may be elsewhere
//! <data_dir>/cdc_raw/chain                         see commitlog/chain.rs
//! <data_dir>/saved_caches/*-cassette.db            what caches held, see saved_caches.rs; may be elsewhere
//! <data_dir>/saved_caches/vectors-*.db             links of vectors, of the database
//! <data_dir>/data/<keyspace>/<table>-<id>/nb-*     a table's SSTables, see transaction.rs
//! ```

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_rows::{StorageError, TableMetadata};
use cassette_sstable::descriptor::parse_file_name;
use cassette_vfs::{FileAccess, FileLock, FileSystem, LockHeld};
use parking_lot::Mutex;

use crate::basics::error::{EngineError, Result};

/// The version of the layout. Another layout needs another number.
const VERSION: &str = "1";

/// The data directory, locked.
pub(crate) struct DataDirectory {
    fs: Arc<dyn FileSystem>,
    root: PathBuf,
    lock: Mutex<Option<Box<dyn FileLock>>>,
}

impl DataDirectory {
    /// Creates the directory if it does not exist, and locks it.
    pub fn open(fs: Arc<dyn FileSystem>, root: &Path) -> Result<Self> {
        check_is_ours(fs.as_ref(), root)?;
        create_root(fs.as_ref(), root)?;
        warn_if_readable_by_others(fs.as_ref(), root);
        let lock_path = root.join("cassette.lock");
        let lock = fs.lock(&lock_path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                EngineError::Locked { directory: root.to_owned(), holder: LockHeld::holder_in(&error) }
            }
            _ => StorageError::io(&lock_path, "lock", error).into(),
        })?;
        let directory = Self { fs, root: root.to_owned(), lock: Mutex::new(Some(lock)) };
        let is_new = !directory.check_version()?;
        let below = [directory.commitlog(), directory.tables()];
        if is_new {
            // The sync of the version covers these names, too.
            create_below(directory.fs.as_ref(), &below)?;
            directory.write_version()?;
        } else {
            create_durably(directory.fs.as_ref(), &below, root)?;
        }
        Ok(directory)
    }

    /// Returns whether the directory has a version, which must be this one.
    fn check_version(&self) -> Result<bool> {
        let path = self.root.join("cassette.version");
        let io = |action: &str, error| StorageError::io(&path, action, error);
        if self.fs.exists(&path).map_err(|e| io("look for", e))? {
            let found = self.fs.read(&path).map_err(|e| io("read", e))?;
            let found = String::from_utf8_lossy(&found).trim().to_owned();
            if found == VERSION {
                return Ok(true);
            }
            let directory = self.root.clone();
            return Err(EngineError::AnotherVersion { directory, found, expected: VERSION });
        }
        Ok(false)
    }

    fn write_version(&self) -> Result<()> {
        let path = self.root.join("cassette.version");
        let io = |action: &str, error| StorageError::io(&path, action, error);
        let content = format!("{VERSION}\n");
        self.fs.write_atomically(&path, content.as_bytes()).map_err(|e| io("write", e).into())
    }

    /// Releases the lock of the directory. Its files must not be changed from here on.
    pub fn release(&self) {
        self.lock.lock().take();
    }

    /// Returns the directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of the commit log's segments.
    pub fn commitlog(&self) -> PathBuf {
        self.root.join("commitlog")
    }

    /// Returns the directory of captured segments, unless it is configured elsewhere.
    pub fn cdc_raw(&self) -> PathBuf {
        self.root.join("cdc_raw")
    }

    /// Returns the file of the replay positions.
    pub fn replay_positions(&self) -> PathBuf {
        self.root.join("replay_positions")
    }

    /// Returns the file of the drop records.
    pub fn dropped_tables(&self) -> PathBuf {
        self.root.join("dropped_tables")
    }

    /// Returns the file of the schema journal.
    pub fn schema_journal(&self) -> PathBuf {
        self.root.join("schema_journal")
    }

    /// Returns the directory of the keyspaces' directories.
    pub fn tables(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Returns a path below the keyspaces' directories, relative to them.
    pub fn relative(&self, path: &Path) -> String {
        let root = self.tables();
        path.strip_prefix(&root).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Returns the directories of tables, which are created if they do not exist.
    pub fn create_tables(&self, tables: &[Arc<TableMetadata>]) -> Result<Vec<TableDirectory>> {
        let root = self.tables();
        let path = |table: &Arc<TableMetadata>| root.join(&table.keyspace).join(table.directory_name());
        let paths: Vec<PathBuf> = tables.iter().map(path).collect();
        let is_new = |path: &PathBuf| {
            let exists = self.fs.exists(path).map_err(|e| StorageError::io(path, "look for", e))?;
            Ok::<_, StorageError>(!exists)
        };
        let are_new = paths.iter().map(is_new).collect::<Result<Vec<_>, _>>()?;
        create_durably(self.fs.as_ref(), &paths, &root)?;
        let directory = |(path, is_new)| TableDirectory { path, is_new };
        Ok(paths.into_iter().zip(are_new).map(directory).collect())
    }
}

/// The directory of a table.
pub(crate) struct TableDirectory {
    pub path: PathBuf,
    /// Whether it was created, and so is empty.
    pub is_new: bool,
}

/// Checks that a directory without `cassette.version` contains nothing of another program. Nothing
/// is written, not even the lock.
///
/// # Errors
/// [`EngineError::NotOurs`] for SSTables, directories of tables, a snapshot, or a `data` or
/// `commitlog` directory that is not empty.
fn check_is_ours(fs: &dyn FileSystem, root: &Path) -> Result<()> {
    let list = |path: &Path| match fs.read_dir(path) {
        Ok(entries) => Ok(entries),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StorageError::io(path, "list", error)),
    };
    let entries = list(root)?;
    if entries.iter().any(|entry| entry.name == "cassette.version") {
        return Ok(());
    }
    let refused = |found: String| Err(EngineError::NotOurs { directory: root.to_owned(), found });
    for entry in &entries {
        if !entry.is_dir {
            if parse_file_name(&entry.name).is_some() {
                return refused(format!("the SSTable file {}", entry.name));
            }
            continue;
        }
        let below = list(&root.join(&entry.name))?;
        if matches!(entry.name.as_str(), "data" | "commitlog") && !below.is_empty() {
            return refused(format!("a `{}` directory that is not empty", entry.name));
        }
        if let Some(table) = below.iter().find(|below| below.is_dir && is_table_directory(&below.name)) {
            return refused(format!("the directory {}/{} of a table", entry.name, table.name));
        }
    }
    Ok(())
}

/// Whether a name is that of a table's directory: `users-5a1c395be41f11eb9b3a0d3f7a3d2a6f`.
fn is_table_directory(name: &str) -> bool {
    let id = name.rsplit_once('-').map(|(_, id)| id);
    id.is_some_and(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Warns about a data directory that other users can read, for historical reasons or by its
/// administrator's choice; it is not changed.
fn warn_if_readable_by_others(fs: &dyn FileSystem, root: &Path) {
    let wanted = FileAccess::current().directory_mode();
    if let Ok(Some(mode)) = fs.mode(root)
        && mode & !wanted != 0
    {
        tracing::warn!(
            directory = %root.display(),
            mode = format!("{mode:o}"),
            wanted = format!("{wanted:o}"),
            "other users of this machine can read the data directory. Run chmod on it, or set data_file_permissions"
        );
    }
}

/// Creates the root and missing directories above it, and makes their names durable. Also the
/// root's own name if it exists: the process that created it may have crashed before it synced
/// that.
fn create_root(fs: &dyn FileSystem, root: &Path) -> Result<()> {
    let mut named = Vec::new();
    for directory in root.ancestors().take_while(|directory| !directory.as_os_str().is_empty()) {
        let exists = || fs.exists(directory).map_err(|e| StorageError::io(directory, "look for", e));
        if directory != root && exists()? {
            break;
        }
        named.push(directory);
    }
    fs.create_dir_all(root).map_err(|e| StorageError::io(root, "create the directory", e))?;
    named.into_iter().rev().try_for_each(|directory| match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(fs, parent),
        Some(_) => sync_dir(fs, Path::new(".")),
        None => Ok(()),
    })
}

/// Creates directories and those missing between them and `above`, whose own name is durable, and
/// makes all these names durable. Also those of existing directories: the process that created them
/// may have crashed before it synced them. Each directory is synced once, however many names were
/// added.
fn create_durably(fs: &dyn FileSystem, paths: &[PathBuf], above: &Path) -> Result<()> {
    let mut parents = BTreeSet::new();
    create_below(fs, paths)?;
    for path in paths {
        parents.extend(path.ancestors().skip(1).take_while(|parent| parent.starts_with(above)));
    }
    // In lexical order: each comes after its parent.
    parents.into_iter().try_for_each(|parent| sync_dir(fs, parent))
}

/// Creates directories. The caller makes their names durable.
fn create_below(fs: &dyn FileSystem, paths: &[PathBuf]) -> Result<()> {
    paths.iter().try_for_each(|path| {
        fs.create_dir_all(path).map_err(|e| StorageError::io(path, "create the directory", e).into())
    })
}

fn sync_dir(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    fs.sync_dir(path).map_err(|e| StorageError::io(path, "sync the directory", e).into())
}

#[cfg(test)]
mod tests {
    use cassette_vfs::{FakeFileSystem, OperationKind};

    use super::*;
    use crate::engine_tests::testing;

    fn open(fs: &FakeFileSystem) -> Result<DataDirectory> {
        DataDirectory::open(Arc::new(fs.clone()), Path::new("/var/db"))
    }

    #[test]
    fn a_directory_opens_again_after_a_crash_with_everything_in_it() {
        for seed in 0..20 {
            let fs = FakeFileSystem::new();
            let table = open(&fs).unwrap().create_tables(&[testing::table()]).unwrap().remove(0);
            assert!(table.is_new);
            let fs = fs.crash(seed);
            assert!((&fs as &dyn FileSystem).exists(&table.path).unwrap());
            let tables = open(&fs).unwrap().create_tables(&[testing::table()]).unwrap();
            assert!(!tables[0].is_new);
        }
    }

    #[test]
    fn names_that_a_killed_process_left_unsynced_are_synced_by_the_next() {
        let fs = FakeFileSystem::new();
        fs.create_dir_all(Path::new("/var/db")).unwrap();
        fs.sync_dir(Path::new("/")).unwrap();
        let path = open(&fs).unwrap().root.join("data/ks").join(testing::table().directory_name());
        fs.create_dir_all(&path).unwrap();
        let fs = fs.kill();
        open(&fs).unwrap().create_tables(&[testing::table()]).unwrap().remove(0);
        for seed in 0..20 {
            let survivor = fs.kill().crash(seed);
            assert!((&survivor as &dyn FileSystem).exists(&path).unwrap(), "seed {seed}");
        }
    }

    #[test]
    fn each_directory_is_synced_once_however_many_tables_it_gets() {
        let fs = FakeFileSystem::new();
        let directory = open(&fs).unwrap();
        let tables: Vec<_> =
            (0..50).map(|n| testing::table_with(&format!("t{n}"), Default::default())).collect();
        let synced = Arc::new(Mutex::new(Vec::new()));
        let seen = synced.clone();
        fs.fail_when(move |operation| {
            if operation.kind == OperationKind::SyncDir {
                seen.lock().push(operation.path.clone());
            }
            None
        });
        directory.create_tables(&tables).unwrap();
        let expected = ["var/db/data", "var/db/data/ks"].map(PathBuf::from);
        assert_eq!(*synced.lock(), expected);
    }

    #[test]
    fn a_second_process_is_told_that_the_directory_is_locked() {
        let fs = FakeFileSystem::new();
        let first = open(&fs).unwrap();
        assert!(matches!(open(&fs), Err(EngineError::Locked { .. })));
        drop(first);
        open(&fs).unwrap();
    }

    #[test]
    fn the_directory_of_another_version_or_program_is_left_alone() {
        let fs = FakeFileSystem::new();
        drop(open(&fs).unwrap());
        let version = Path::new("/var/db/cassette.version");
        (&fs as &dyn FileSystem).write_atomically(version, b"2\n").unwrap();
        let Err(EngineError::AnotherVersion { found, .. }) = open(&fs) else { panic!("another version") };
        assert_eq!(found, "2");

        let fs = FakeFileSystem::new();
        fs.create_dir_all(Path::new("/var/db/data/system")).unwrap();
        assert!(matches!(open(&fs), Err(EngineError::NotOurs { .. })));
    }

    #[test]
    fn nothing_is_written_into_a_directory_of_foreign_tables_or_a_snapshot() {
        let table = "users-5a1c395be41f11eb9b3a0d3f7a3d2a6f";
        for (below, file) in [
            (format!("app/{table}"), "nb-1-big-Data.db"),
            (format!("app/{table}"), "other"),
            (".".to_owned(), "nb-1-big-Data.db"),
            (".".to_owned(), "me-1-big-Statistics.db"),
            ("commitlog".to_owned(), "CommitLog-7-1.log"),
        ] {
            let fs = FakeFileSystem::new();
            let directory = Path::new("/var/db").join(&below);
            fs.create_dir_all(&directory).unwrap();
            fs.create(&directory.join(file)).unwrap().write_all(b"x").unwrap();
            let before = fs.read_dir(Path::new("/var/db")).unwrap();
            assert!(matches!(open(&fs), Err(EngineError::NotOurs { .. })), "{below}/{file}");
            assert_eq!(fs.read_dir(Path::new("/var/db")).unwrap(), before);
        }
    }
}
