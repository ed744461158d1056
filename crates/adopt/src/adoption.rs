//! Makes a data directory from a plan: all of it, or nothing.
//!
//! 1. `<target>.adopting.lock` is created and locked. It is the durable record that
//!    `<target>.adopting` belongs to an adoption: only with it is an existing one removed.
//! 2. The database is made in `<target>.adopting`, closed, and synced.
//! 3. `<target>.adopting` is renamed to `<target>`.
//! 4. The lock file is removed.
//!
//! A crash before step 3 leaves no `<target>`, and the next adoption removes the rest; a crash
//! after it leaves the finished one. Cassandra's directories get no new names and no changes; their
//! files get further links.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_database::{Database, Options};
use cassette_engine::{ImportedSSTable, Transfer};
use cassette_rows::TableMetadata;
use cassette_vfs::{Clock, FileLock, FileSystem};

use crate::error::{AdoptError, Result};
use crate::fill::{Filling, fill};
use crate::foreign;
use crate::layout::list;
use crate::plan::Plan;
use crate::sizes::size_text;

/// The options of an adoption.
#[derive(Debug, Clone)]
pub struct AdoptOptions {
    /// The data directory to make. It must not exist, or be empty.
    pub target: PathBuf,
    /// Whether files are copied. Otherwise they are linked where that is possible.
    pub copy: bool,
    /// Whether all SSTables are read completely, with all their checksums and values. Otherwise
    /// their metadata and indexes are.
    pub verify: bool,
}

/// What was taken in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Adopted {
    /// The number of tables, without views.
    pub tables: u64,
    /// The number of SSTables.
    pub sstables: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// The number of SSTables that were linked; the others were copied.
    pub linked: u64,
}

/// Makes the data directory. Calls `taken` with each table and its SSTables.
///
/// # Errors
/// Then there is no data directory, as before.
pub fn adopt(
    fs: &Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    plan: &Plan,
    options: &AdoptOptions,
    taken: impl FnMut(&TableMetadata, &[ImportedSSTable]),
) -> Result<Adopted> {
    let target = Target::new(&options.target)?;
    let _lock = target.lock(fs.as_ref())?;
    let result = target.prepare(fs.as_ref()).and_then(|()| {
        check_space(fs.as_ref(), plan, &target, options.copy)?;
        let adopted = make(fs, clock, plan, &target, options, taken)?;
        target.publish(fs.as_ref())?;
        Ok(adopted)
    });
    target.clean_up(fs.as_ref());
    result
}

/// The paths of an adoption.
struct Target {
    path: PathBuf,
    parent: PathBuf,
    staging: PathBuf,
    lock: PathBuf,
}

impl Target {
    fn new(path: &Path) -> Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(AdoptError::Refused(format!("{} cannot be a data directory", path.display())));
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let with = |suffix: &str| {
            let mut name = OsString::from(name);
            name.push(suffix);
            parent.join(name)
        };
        Ok(Self {
            path: path.to_owned(),
            parent: parent.to_owned(),
            staging: with(".adopting"),
            lock: with(".adopting.lock"),
        })
    }

    /// Step 1.
    fn lock(&self, fs: &dyn FileSystem) -> Result<Box<dyn FileLock>> {
        foreign::refuse_within(fs, &self.path)?;
        fs.create_dir_all(&self.parent).map_err(AdoptError::io("create", &self.parent))?;
        let has_record = fs.exists(&self.lock).map_err(AdoptError::io("look for", &self.lock))?;
        if !has_record && fs.exists(&self.staging).map_err(AdoptError::io("look for", &self.staging))? {
            return Err(AdoptError::Refused(format!(
                "{} exists, and no interrupted adoption left it: remove it, or choose another --data",
                self.staging.display()
            )));
        }
        let lock = fs.lock(&self.lock).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => AdoptError::Refused(format!(
                "another adoption into {} is running: {} is locked",
                self.path.display(),
                self.lock.display()
            )),
            _ => AdoptError::io("lock", &self.lock)(error),
        })?;
        fs.sync_dir(&self.parent).map_err(AdoptError::io("sync", &self.parent))?;
        Ok(lock)
    }

    /// Removes what an interrupted adoption left, and checks that the target is free.
    fn prepare(&self, fs: &dyn FileSystem) -> Result<()> {
        self.remove_staging(fs)?;
        let entries = list(fs, &self.path)?;
        if entries.iter().any(|entry| entry.name == "cassette.version") {
            return Err(AdoptError::Refused(format!(
                "{} is a data directory of Cassette already: choose one that does not exist, or take single tables \
                 in with `cassette nodetool import`",
                self.path.display()
            )));
        }
        if !entries.is_empty() {
            return Err(AdoptError::Refused(format!(
                "{} is not empty: choose a directory that does not exist",
                self.path.display()
            )));
        }
        Ok(())
    }

    fn remove_staging(&self, fs: &dyn FileSystem) -> Result<()> {
        if fs.exists(&self.staging).map_err(AdoptError::io("look for", &self.staging))? {
            fs.remove_dir_all(&self.staging).map_err(AdoptError::io("remove", &self.staging))?;
            fs.sync_dir(&self.parent).map_err(AdoptError::io("sync", &self.parent))?;
        }
        Ok(())
    }

    /// Step 3.
    fn publish(&self, fs: &dyn FileSystem) -> Result<()> {
        sync_all(fs, &self.staging)?;
        fs.rename(&self.staging, &self.path).map_err(|source| {
            if source.kind() == io::ErrorKind::ResourceBusy {
                return AdoptError::Refused(format!(
                    "{} is a mount point, which cannot be replaced: choose a directory in it",
                    self.path.display()
                ));
            }
            AdoptError::io("rename the finished directory to", &self.path)(source)
        })?;
        fs.sync_dir(&self.parent).map_err(AdoptError::io("sync", &self.parent))
    }

    /// Removes what a failed adoption left, and then the record. What cannot be removed stays for
    /// the next adoption.
    fn clean_up(&self, fs: &dyn FileSystem) {
        let removed = self.remove_staging(fs).and_then(|()| {
            fs.remove_file(&self.lock).map_err(AdoptError::io("remove", &self.lock))?;
            fs.sync_dir(&self.parent).map_err(AdoptError::io("sync", &self.parent))
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "the next adoption into the same directory removes what is left");
        }
    }
}

/// Step 2.
fn make(
    fs: &Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    plan: &Plan,
    target: &Target,
    options: &AdoptOptions,
    mut taken: impl FnMut(&TableMetadata, &[ImportedSSTable]),
) -> Result<Adopted> {
    let mut database = Options { file_system: fs.clone(), clock, ..Options::new(&target.staging) };
    // Nothing runs beside this, so nothing is written after it.
    database.engine.background_threads = false;
    database.materialized_views_enabled = true;
    let database = Database::open(database)?;
    let mut adopted = Adopted::default();
    let filling = Filling { copy: options.copy, verify: options.verify, build: true };
    let filled = fill(&database, plan, filling, |table, imported| {
        let is_view = plan.tables.iter().any(|planned| planned.table.id == table.id && planned.is_view);
        adopted.tables += u64::from(!is_view);
        adopted.sstables += imported.len() as u64;
        adopted.bytes += imported.iter().map(|sstable| sstable.bytes).sum::<u64>();
        adopted.linked +=
            imported.iter().filter(|sstable| sstable.transfer == Transfer::Linked).count() as u64;
        taken(table, imported);
    });
    let flushed = filled.and_then(|()| {
        database
            .engine()
            .flush(None)
            .map_err(|source| AdoptError::Table { table: "flush".to_owned(), source })
    });
    let closed = database.close();
    flushed?;
    closed?;
    Ok(adopted)
}

/// Checks that copies fit: the disk of Cassandra must not become full.
fn check_space(fs: &dyn FileSystem, plan: &Plan, target: &Target, copy: bool) -> Result<()> {
    let device = |path: &Path| fs.identity(path).map(|id| id.device);
    let of_target = device(&target.parent).map_err(AdoptError::io("examine", &target.parent))?;
    let mut bytes = 0;
    for table in &plan.tables {
        let is_elsewhere = table.directories.iter().any(|path| device(path).is_ok_and(|of| of != of_target));
        if copy || is_elsewhere {
            bytes += table.bytes;
        }
    }
    let available = fs.available_space(&target.parent);
    let available = available.map_err(AdoptError::io("examine the free space of", &target.parent))?;
    if bytes > available {
        return Err(AdoptError::Refused(format!(
            "copying {} needs more than the {} that are free in {}: choose a directory on the file system of \
             Cassandra's directories, where files are linked, or free some space",
            size_text(bytes),
            size_text(available),
            target.parent.display()
        )));
    }
    Ok(())
}

/// Makes all names in a directory durable, from the top down.
fn sync_all(fs: &dyn FileSystem, directory: &Path) -> Result<()> {
    fs.sync_dir(directory).map_err(AdoptError::io("sync", directory))?;
    for entry in list(fs, directory)?.iter().filter(|entry| entry.is_dir) {
        sync_all(fs, &directory.join(&entry.name))?;
    }
    Ok(())
}
