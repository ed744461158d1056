//! Decides which directories and files SSTables may be imported from.
//!
//! The decision rests on identities (device and inode), not on the text of paths: `..`, symbolic
//! links and bind mounts all lead to the live files of a table, and moving those would lose them.

use std::path::{Path, PathBuf};

use cassette_rows::StorageError;
use cassette_sstable::Descriptor;
use cassette_vfs::FileId;
use hashbrown::HashSet;

use crate::admin::snapshots::{self, KEPT};
use crate::basics::error::Result;
use crate::store::core::Core;

/// A directory that SSTables may be imported from.
#[derive(Debug)]
pub(crate) struct ImportSource {
    /// The canonical path.
    pub directory: PathBuf,
    /// Whether the directory is a snapshot or a backup: possibly the only copy of its data, which
    /// an import never removes.
    pub is_backup: bool,
}

/// The location of a path relative to the data directory.
enum Place {
    Outside,
    /// In a table's snapshot or backup.
    Backup,
    Inside,
}

/// The directories of the data directory, by identity.
#[derive(Default)]
struct DataDirectories {
    /// The data directory, and those that hold its files; everything below them counts as inside.
    inside: HashSet<FileId>,
    /// Tables' `backups` and the directories in their `snapshots`.
    backups: HashSet<FileId>,
}

impl Core {
    /// Returns the source that `directory` refers to.
    ///
    /// # Errors
    /// [`StorageError::Unsupported`] if it is not a directory, or is within the data directory and
    /// neither a snapshot nor a backup, or contains the data directory.
    pub(crate) fn import_source(&self, directory: &Path) -> Result<ImportSource> {
        let examining = |error| StorageError::io(directory, "examine the directory", error);
        let refused = |detail: String| StorageError::Unsupported { path: directory.to_owned(), detail };
        if !self.fs.metadata(directory).map_err(examining)?.is_dir {
            return Err(refused("it is no directory".to_owned()).into());
        }
        let canonical = self.fs.canonicalize(directory).map_err(examining)?;
        let id = self.identity(&canonical)?;
        for table in self.tables.load().values() {
            if self.identity(&table.directory)? == id {
                let table = table.metadata().qualified_name();
                let detail =
                    format!("it is the directory of {table}, which is open; a snapshot can be imported");
                return Err(refused(detail).into());
            }
        }
        let root = self.directory.root();
        let canonical_root = self.fs.canonicalize(root).map_err(|e| StorageError::io(root, "resolve", e))?;
        for above in canonical_root.ancestors().skip(1) {
            if self.identity(above)? == id {
                let detail = format!("it contains the data directory {}", root.display());
                return Err(refused(detail).into());
            }
        }
        let is_backup = match self.place(&self.data_directories()?, &canonical)? {
            Place::Inside => {
                let detail = format!(
                    "it is within the data directory {}, of which only snapshots and backups can be imported",
                    root.display()
                );
                return Err(refused(detail).into());
            }
            Place::Backup => true,
            Place::Outside => self.looks_like_backup(&canonical)?,
        };
        Ok(ImportSource { directory: canonical, is_backup })
    }

    /// Returns the files of an SSTable in `source`: names, and the paths to import them from, which
    /// differ from the path of the name for symbolic links.
    ///
    /// # Errors
    /// [`StorageError::Unsupported`] if a symbolic link leads into the data directory.
    pub(crate) fn import_files(&self, sstable: &Descriptor) -> Result<Vec<(String, PathBuf)>> {
        let mut files = Vec::new();
        for file in self.files_of(sstable)? {
            let path = sstable.directory.join(&file.name);
            let leads_to =
                self.fs.canonicalize(&path).map_err(|error| StorageError::io(&path, "resolve", error))?;
            if leads_to != path
                && let Some(directory) = leads_to.parent()
                && let Place::Inside = self.place(&self.data_directories()?, directory)?
            {
                let detail =
                    format!("it is a symbolic link to {}, a file of the data directory", leads_to.display());
                return Err(StorageError::Unsupported { path, detail }.into());
            }
            files.push((file.name, leads_to));
        }
        Ok(files)
    }

    /// Checks that no file of an SSTable in a table's own directory is a symbolic link, whose
    /// target others may remove.
    pub(crate) fn check_no_links(&self, sstable: &Descriptor) -> Result<()> {
        let resolving = |path: &Path, error| StorageError::io(path, "resolve", error);
        let directory = &sstable.directory;
        let directory = self.fs.canonicalize(directory).map_err(|error| resolving(directory, error))?;
        for file in self.files_of(sstable)? {
            let path = directory.join(&file.name);
            let leads_to = self.fs.canonicalize(&path).map_err(|error| resolving(&path, error))?;
            if leads_to != path {
                let detail = format!(
                    "it is a symbolic link to {}; copy the file into the directory instead",
                    leads_to.display()
                );
                return Err(StorageError::Unsupported { path, detail }.into());
            }
        }
        Ok(())
    }

    fn identity(&self, path: &Path) -> Result<FileId> {
        Ok(self.fs.identity(path).map_err(|error| StorageError::io(path, "examine", error))?)
    }

    /// Returns the location of a canonical path. The nearest known directory above it decides, so
    /// that a snapshot below a table's directory is a snapshot.
    fn place(&self, known: &DataDirectories, path: &Path) -> Result<Place> {
        for above in path.ancestors() {
            let id = self.identity(above)?;
            if known.backups.contains(&id) {
                return Ok(Place::Backup);
            }
            if known.inside.contains(&id) {
                return Ok(Place::Inside);
            }
        }
        Ok(Place::Outside)
    }

    /// Lists the data directory down to the snapshots of all tables, including dropped ones. Links
    /// are followed: keyspaces may be on other volumes.
    fn data_directories(&self) -> Result<DataDirectories> {
        let mut known = DataDirectories::default();
        let root = self.directory.root();
        known.inside.insert(self.identity(root)?);
        for directory in self.directories_in(root)? {
            known.inside.insert(self.identity(&directory)?);
        }
        for keyspace in self.directories_in(&self.directory.tables())? {
            known.inside.insert(self.identity(&keyspace)?);
            for table in self.directories_in(&keyspace)? {
                known.inside.insert(self.identity(&table)?);
                for kept in KEPT.map(|name| table.join(name)) {
                    let existing = self.fs.exists(&kept);
                    if !existing.map_err(|error| StorageError::io(&kept, "examine", error))? {
                        continue;
                    }
                    if kept.ends_with(snapshots::SNAPSHOTS) {
                        known.inside.insert(self.identity(&kept)?);
                        for snapshot in self.directories_in(&kept)? {
                            known.backups.insert(self.identity(&snapshot)?);
                        }
                    } else {
                        known.backups.insert(self.identity(&kept)?);
                    }
                }
            }
        }
        Ok(known)
    }

    fn directories_in(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let entries =
            self.fs.read_dir(directory).map_err(|error| StorageError::io(directory, "list", error))?;
        let paths = entries.into_iter().map(|entry| directory.join(entry.name));
        // Removed entries and dangling links are not directories.
        Ok(paths.filter(|path| self.fs.metadata(path).is_ok_and(|metadata| metadata.is_dir)).collect())
    }

    /// Whether a directory outside the data directory is a snapshot or a backup, of another node or
    /// moved.
    fn looks_like_backup(&self, canonical: &Path) -> Result<bool> {
        let manifest = canonical.join(snapshots::MANIFEST);
        let names = canonical.components().map(|component| component.as_os_str());
        let has_name = names.into_iter().any(|name| KEPT.iter().any(|kept| name == *kept));
        let examining = |error| StorageError::io(&manifest, "examine", error);
        Ok(has_name || self.fs.exists(&manifest).map_err(examining)?)
    }
}
