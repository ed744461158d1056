//! The directory of backups.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_vfs::{FileLock, FileSystem};
use serde::{Deserialize, Serialize};

use crate::copy::examine;
use crate::error::{Error, Result};
use crate::log::{LogArchiver, LogRepository, Until, time_text};
use crate::manifest::{Manifest, is_single_name};
use crate::object_layout::ObjectLayout;
use crate::objects::{DirectoryObjects, Objects};

/// The file that makes a directory a repository.
const MARKER: &str = "cassette-backups.json";
const LOCK: &str = "lock";
/// The directory of the archived commit log.
const LOG: &str = "log";
const MANIFEST: &str = "manifest.json";
const MANIFEST_CRC: &str = "manifest.crc32";
/// The suffix of a backup that is being created. It has no manifest that anything reads.
pub(crate) const INCOMPLETE: &str = ".incomplete";
/// The suffix of a backup that is being removed.
const REMOVED: &str = ".removed";
/// The maximum length of a manifest in bytes: about a million files.
const MANIFEST_LENGTH_MAX: u64 = 256 << 20;
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Marker {
    format: u32,
}

/// A directory of backups, or their objects in a store. One command at a time changes it.
pub struct Repository {
    pub(crate) fs: Arc<dyn FileSystem>,
    /// The directory, or the address of an object store in messages.
    pub(crate) root: PathBuf,
    /// What the repository consists of, if it is not a directory.
    pub(crate) objects: Option<ObjectLayout>,
    _lock: Option<Box<dyn FileLock>>,
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository").field("root", &self.root).finish_non_exhaustive()
    }
}

/// A complete backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The name.
    pub name: String,
    /// The contents.
    pub manifest: Manifest,
}

impl Repository {
    /// Opens a repository for changes; creates a missing or empty directory. Removes the remains
    /// of interrupted commands.
    ///
    /// # Errors
    /// Invalid, if the directory has other contents or another command uses it.
    pub fn open(fs: Arc<dyn FileSystem>, root: &Path) -> Result<Self> {
        if !is_repository(fs.as_ref(), root)? {
            initialize(fs.as_ref(), root)?;
        }
        let lock = root.join(LOCK);
        let lock = fs.lock(&lock).map_err(|error| busy(root, error))?;
        let repository = Self { fs, root: root.to_owned(), objects: None, _lock: Some(lock) };
        repository.remove_remains()?;
        Ok(repository)
    }

    /// Opens a repository for reading, without writing to it. Excludes commands that change it.
    ///
    /// # Errors
    /// Invalid, if the directory is not a repository or another command changes it.
    pub fn open_for_reading(fs: Arc<dyn FileSystem>, root: &Path) -> Result<Self> {
        if !is_repository(fs.as_ref(), root)? {
            return Err(Error::invalid(format!(
                "{}: expected a directory of backups, found no {MARKER} in it",
                root.display()
            )));
        }
        let lock = fs.lock_shared(&root.join(LOCK)).map_err(|error| busy(root, error))?;
        Ok(Self { fs, root: root.to_owned(), objects: None, _lock: Some(lock) })
    }

    /// Opens the repository at a location, which is a directory or `s3://bucket/prefix`, for
    /// changes; see [`open`](Self::open). `fs` has the directory, and the files of databases.
    ///
    /// # Errors
    /// As for `open`, or if the store cannot be reached.
    pub fn open_at(fs: Arc<dyn FileSystem>, location: &str) -> Result<Self> {
        match Self::remote(&fs, location, true)? {
            Some(remote) => Ok(remote),
            None => Self::open(fs, Path::new(location)),
        }
    }

    /// [`open_at`](Self::open_at) for reading. Objects that are read can be removed meanwhile by a
    /// command that removes their backup.
    ///
    /// # Errors
    /// As for `open_at`.
    pub fn open_at_for_reading(fs: Arc<dyn FileSystem>, location: &str) -> Result<Self> {
        match Self::remote(&fs, location, false)? {
            Some(remote) => Ok(remote),
            None => Self::open_for_reading(fs, Path::new(location)),
        }
    }

    /// Opens a repository of objects; `None` if the location is a directory.
    #[cfg(feature = "s3")]
    fn remote(fs: &Arc<dyn FileSystem>, location: &str, changes: bool) -> Result<Option<Self>> {
        if !is_remote(location) {
            return Ok(None);
        }
        let objects = Arc::new(crate::objects::RemoteObjects::open(location)?);
        Self::of_objects(fs, objects, changes).map(Some)
    }

    #[cfg(not(feature = "s3"))]
    fn remote(_: &Arc<dyn FileSystem>, location: &str, _: bool) -> Result<Option<Self>> {
        if !is_remote(location) {
            return Ok(None);
        }
        Err(Error::invalid(format!(
            "{location}: this program was built without object stores; specify a directory"
        )))
    }

    #[cfg(feature = "s3")]
    pub(crate) fn of_objects(
        fs: &Arc<dyn FileSystem>,
        objects: Arc<dyn crate::objects::SharedObjects>,
        changes: bool,
    ) -> Result<Self> {
        let root = objects.describe("");
        let root = PathBuf::from(root.to_string_lossy().trim_end_matches('/'));
        let layout = ObjectLayout::open(objects, changes)?;
        Ok(Self { fs: Arc::clone(fs), root, objects: Some(layout), _lock: None })
    }

    /// Returns all complete backups, the oldest first.
    ///
    /// # Errors
    /// Damaged, if a manifest is unreadable.
    pub fn backups(&self) -> Result<Vec<Backup>> {
        let mut backups = Vec::new();
        for name in self.names()? {
            backups.push(self.backup(&name)?);
        }
        backups.sort_by(|a, b| {
            let key = |backup: &Backup| (backup.manifest.started_at_millis, backup.name.clone());
            key(a).cmp(&key(b))
        });
        Ok(backups)
    }

    /// Returns a backup; without a name, the latest.
    ///
    /// # Errors
    /// Invalid, if it does not exist; Damaged, if its manifest is unreadable.
    pub fn find(&self, name: Option<&str>) -> Result<Backup> {
        if let Some(name) = name {
            let names = self.names()?;
            if names.iter().any(|other| other == name) {
                return self.backup(name);
            }
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(Error::invalid(format!(
                "{}: backup {name} does not exist; found {known}",
                self.root.display()
            )));
        }
        self.backups()?
            .pop()
            .ok_or_else(|| Error::invalid(format!("{}: it contains no backup", self.root.display())))
    }

    /// Returns the newest backup that ended before a moment and that the archived commit log
    /// continues; with a name, that one.
    ///
    /// # Errors
    /// Invalid, if there is none.
    pub fn find_before(&self, name: Option<&str>, until: Until) -> Result<Backup> {
        let is_before = |backup: &Backup| match until {
            Until::Time(micros) => backup.manifest.ended_at_millis.saturating_mul(1000) <= micros,
            Until::Latest => true,
        };
        let until = match until {
            Until::Time(micros) => format!("before {}", time_text(micros)),
            Until::Latest => "for a restore to a point in time".to_owned(),
        };
        let root = self.root.display();
        if name.is_some() {
            let backup = self.find(name)?;
            if !is_before(&backup) {
                let ended = time_text(backup.manifest.ended_at_millis.saturating_mul(1000));
                return Err(Error::invalid(format!(
                    "{root}: expected a backup that ended {until}, and {} ended at {ended}",
                    backup.name
                )));
            }
            if backup.manifest.log.is_none() {
                return Err(Error::invalid(format!(
                    "{root}: the commit log was not archived when backup {} was created, or it does not contain all \
                     keyspaces; restore without --until, or from another backup",
                    backup.name
                )));
            }
            return Ok(backup);
        }
        let mut backups = self.backups()?;
        backups.retain(|backup| backup.manifest.log.is_some() && is_before(backup));
        backups.pop().ok_or_else(|| {
            Error::invalid(format!(
                "{root}: expected a backup {until} of all keyspaces of a server that archives its commit log, \
                 found none"
            ))
        })
    }

    /// Returns the archiver of a database's commit log. Commands on the repository can run beside
    /// it.
    pub fn archiver(&self) -> LogArchiver {
        LogArchiver::new(self.fs.clone(), self.log())
    }

    pub(crate) fn log(&self) -> LogRepository {
        let objects: Arc<dyn Objects> = match &self.objects {
            Some(layout) => Arc::clone(&layout.objects),
            None => Arc::new(DirectoryObjects::new(self.fs.clone(), &self.root)),
        };
        LogRepository { objects }
    }

    /// Removes archived segments of the commit log that no backup needs.
    fn remove_unneeded_log(&self) -> Result<()> {
        let mut needed: BTreeMap<String, u64> = BTreeMap::new();
        // An unreadable backup may need any of them.
        for backup in self.backups()? {
            if let Some(log) = backup.manifest.log {
                let first = needed.entry(log.chain).or_insert(log.segment);
                *first = log.segment.min(*first);
            }
        }
        self.log().remove_unneeded(&needed)
    }

    /// Returns the latest backup whose manifest is readable: a damaged one must not prevent the
    /// next.
    pub(crate) fn latest_readable(&self) -> Result<Option<Backup>> {
        let mut latest: Option<Backup> = None;
        for name in self.names()? {
            match self.backup(&name) {
                Ok(backup) => {
                    let started = |backup: &Backup| backup.manifest.started_at_millis;
                    if latest.as_ref().is_none_or(|other| started(other) <= started(&backup)) {
                        latest = Some(backup);
                    }
                }
                Err(error) => tracing::warn!(%error, backup = name, "a backup is damaged"),
            }
        }
        Ok(latest)
    }

    /// Removes a backup. Other backups do not change.
    ///
    /// # Errors
    /// Invalid, if it does not exist.
    pub fn remove(&self, name: &str) -> Result<()> {
        if !self.names()?.iter().any(|other| other == name) {
            return Err(Error::invalid(format!("{}: backup {name} does not exist", self.root.display())));
        }
        if let Some(layout) = &self.objects {
            layout.remove(name)?;
            return self.remove_unneeded_log();
        }
        // The new name records the removal: after a crash, the next command completes it.
        let removed = self.root.join(format!("{name}{REMOVED}"));
        let from = self.root.join(name);
        self.fs.rename(&from, &removed).map_err(Error::io(&from, "rename"))?;
        self.sync(&self.root)?;
        self.remove_directory(&removed)?;
        self.remove_unneeded_log()
    }

    /// Returns the directory of a table in a backup.
    pub fn table_directory(&self, backup: &str, keyspace: &str, directory: &str) -> PathBuf {
        self.root.join(backup).join(keyspace).join(directory)
    }

    /// Checks the name of a new backup.
    pub(crate) fn check_new(&self, name: &str) -> Result<()> {
        let is_valid = is_single_name(name)
            && name.len() <= 100
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c))
            && ![INCOMPLETE, REMOVED].iter().any(|suffix| name.ends_with(suffix))
            && ![LOCK, MARKER, LOG].contains(&name);
        if !is_valid {
            return Err(Error::invalid(format!(
                "invalid name of a backup: expected up to 100 letters, digits, '-', '_', '.' and ':', found {name:?}"
            )));
        }
        if self.names()?.iter().any(|other| other == name) {
            return Err(Error::invalid(format!("{}: backup {name} exists already", self.root.display())));
        }
        Ok(())
    }

    /// Writes the manifest of a backup in `directory`, synced.
    pub(crate) fn write_manifest(&self, directory: &Path, manifest: &Manifest) -> Result<()> {
        let content = manifest.encode();
        let crc = crate::copy::write(self.fs.as_ref(), &directory.join(MANIFEST), &content)?.crc32;
        crate::copy::write(self.fs.as_ref(), &directory.join(MANIFEST_CRC), crc.to_string().as_bytes())?;
        self.sync(directory)
    }

    pub(crate) fn create_directory(&self, path: &Path) -> Result<()> {
        self.fs.create_dir_all(path).map_err(Error::io(path, "create the directory"))
    }

    pub(crate) fn sync(&self, directory: &Path) -> Result<()> {
        self.fs.sync_dir(directory).map_err(Error::io(directory, "sync the directory"))
    }

    /// Removes a directory, if it exists.
    pub(crate) fn remove_directory(&self, path: &Path) -> Result<()> {
        match self.fs.remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => {
                removed.map_err(Error::io(path, "remove"))?;
                self.sync(&self.root)
            }
        }
    }

    /// Removes what interrupted commands left: their names record that it is not needed.
    fn remove_remains(&self) -> Result<()> {
        for name in self.directories()? {
            if name.ends_with(INCOMPLETE) || name.ends_with(REMOVED) {
                self.remove_directory(&self.root.join(name))?;
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>> {
        if let Some(layout) = &self.objects {
            return layout.names();
        }
        let mut names = self.directories()?;
        names.retain(|name| {
            is_single_name(name)
                && name != LOG
                && ![INCOMPLETE, REMOVED].iter().any(|suffix| name.ends_with(suffix))
        });
        Ok(names)
    }

    fn directories(&self) -> Result<Vec<String>> {
        let entries = self.fs.read_dir(&self.root).map_err(Error::io(&self.root, "list"))?;
        Ok(entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect())
    }

    fn backup(&self, name: &str) -> Result<Backup> {
        if let Some(layout) = &self.objects {
            return Ok(Backup { name: name.to_owned(), manifest: layout.manifest(name)? });
        }
        let directory = self.root.join(name);
        let path = directory.join(MANIFEST);
        let length = self.fs.metadata(&path).map_err(|error| Error::damaged(&path, error.to_string()))?.len;
        if length > MANIFEST_LENGTH_MAX {
            let detail = format!("expected at most {MANIFEST_LENGTH_MAX} bytes, found {length}");
            return Err(Error::damaged(&path, detail));
        }
        let content = self.fs.read(&path).map_err(Error::io(&path, "read"))?;
        let crc_path = directory.join(MANIFEST_CRC);
        let found = examine(self.fs.as_ref(), &path)?.crc32.to_string();
        let expected =
            self.fs.read(&crc_path).map_err(|error| Error::damaged(&crc_path, error.to_string()))?;
        if expected != found.as_bytes() {
            let expected = String::from_utf8_lossy(&expected).into_owned();
            let detail = format!("expected checksum {expected} as in {MANIFEST_CRC}, found {found}");
            return Err(Error::damaged(&path, detail));
        }
        let manifest = Manifest::decode(&content).map_err(|detail| Error::damaged(&path, detail))?;
        Ok(Backup { name: name.to_owned(), manifest })
    }
}

/// Whether a location is an object store, and not a directory.
pub fn is_remote(location: &str) -> bool {
    location.contains("://")
}

fn busy(root: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        return Error::invalid(format!(
            "{}: another command uses this directory of backups; try again when it is done",
            root.display()
        ));
    }
    Error::io(&root.join(LOCK), "lock")(error)
}

/// Whether the directory is a repository of a known format.
fn is_repository(fs: &dyn FileSystem, root: &Path) -> Result<bool> {
    let path = root.join(MARKER);
    let content = match fs.read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        content => content.map_err(Error::io(&path, "read"))?,
    };
    match serde_json::from_slice::<Marker>(&content) {
        Ok(Marker { format: FORMAT }) => Ok(true),
        Ok(Marker { format }) => Err(Error::invalid(format!(
            "{}: expected format {FORMAT}, found {format}: use the version of cassette that wrote it",
            path.display()
        ))),
        Err(error) => Err(Error::damaged(&path, error.to_string())),
    }
}

fn initialize(fs: &dyn FileSystem, root: &Path) -> Result<()> {
    match fs.read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs.create_with_parents(root).map_err(Error::io(root, "create the directory"))?;
        }
        entries => {
            let entries = entries.map_err(Error::io(root, "list"))?;
            // What an interrupted `initialize` leaves, and nothing else.
            let is_own = |name: &str| name == LOCK || name.strip_suffix(".tmp") == Some(MARKER);
            if let Some(other) = entries.iter().find(|entry| !is_own(&entry.name)) {
                return Err(Error::invalid(format!(
                    "{}: expected an empty directory or one of backups, found {}; specify another directory",
                    root.display(),
                    other.name
                )));
            }
        }
    }
    let lock = root.join(LOCK);
    drop(fs.lock(&lock).map_err(|error| busy(root, error))?);
    let path = root.join(MARKER);
    let content = serde_json::to_vec(&Marker { format: FORMAT }).expect("a number can be encoded");
    fs.write_atomically(&path, &content).map_err(Error::io(&path, "write"))
}
