//! The directory of backups.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_vfs::{FileLock, FileSystem};

use crate::copy::read_small;
use crate::error::{Error, Result};
use crate::log::{LogArchiver, LogRepository, Until, time_text};
use crate::manifest::{Manifest, is_single_name};
use crate::marker::{LOCK, MARKER};
use crate::object_layout::ObjectLayout;
use crate::objects::{DirectoryObjects, Objects};

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
/// The maximum length of the file with its checksum.
const CRC_LENGTH_MAX: u64 = 16;

/// A directory of backups, or their objects in a store. One command at a time changes it.
pub struct Repository {
    pub(crate) fs: Arc<dyn FileSystem>,
    /// The directory, or the address of an object store in messages.
    pub(crate) root: PathBuf,
    /// What the repository consists of, if it is an object store or encrypted.
    pub(crate) objects: Option<ObjectLayout>,
    pub(crate) _lock: Option<Box<dyn FileLock>>,
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

impl Backup {
    /// Sorts backups by their creation.
    fn order(&self) -> (u64, i64, String) {
        (self.manifest.number, self.manifest.started_at_millis, self.name.clone())
    }
}

impl Repository {
    /// Returns all complete backups, the oldest first.
    ///
    /// # Errors
    /// Damaged, if a manifest is unreadable.
    pub fn backups(&self) -> Result<Vec<Backup>> {
        let mut backups = Vec::new();
        for name in self.names()? {
            backups.push(self.backup(&name)?);
        }
        backups.sort_by_cached_key(Backup::order);
        Ok(backups)
    }

    /// [`backups`](Self::backups) without those whose manifest is unreadable, which are logged.
    pub(crate) fn readable(&self) -> Result<Vec<Backup>> {
        let mut backups = Vec::new();
        for name in self.names()? {
            match self.backup(&name) {
                Ok(backup) => backups.push(backup),
                Err(error) => tracing::warn!(%error, backup = name, "a backup is damaged"),
            }
        }
        backups.sort_by_cached_key(Backup::order);
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
        let plain = self.objects.as_ref().map_or_else(|| Arc::clone(&objects), |layout| layout.plain.clone());
        LogRepository { objects, plain }
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
        Ok(self.readable()?.pop())
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
    pub(crate) fn remove_remains(&self) -> Result<()> {
        for name in self.directories()? {
            if name.ends_with(INCOMPLETE) || name.ends_with(REMOVED) {
                self.remove_directory(&self.root.join(name))?;
            }
        }
        Ok(())
    }

    pub(crate) fn names(&self) -> Result<Vec<String>> {
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
        let (path, crc_path) = (directory.join(MANIFEST), directory.join(MANIFEST_CRC));
        let read = |path: &Path, maximum: u64| {
            read_small(self.fs.as_ref(), path, maximum).map_err(|error| match error {
                Error::Storage(error) => Error::damaged(path, error.to_string()),
                error => error,
            })
        };
        let content = read(&path, MANIFEST_LENGTH_MAX)?;
        let found = crc32fast::hash(&content).to_string();
        let expected = read(&crc_path, CRC_LENGTH_MAX)?;
        if expected != found.as_bytes() {
            let expected = String::from_utf8_lossy(&expected).into_owned();
            let detail = format!("expected checksum {expected} as in {MANIFEST_CRC}, found {found}");
            return Err(Error::damaged(&path, detail));
        }
        let manifest = Manifest::decode(&content).map_err(|detail| Error::damaged(&path, detail))?;
        Ok(Backup { name: name.to_owned(), manifest })
    }
}
