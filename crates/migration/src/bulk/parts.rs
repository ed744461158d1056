//! The temporary directory of parts.
//!
//! ```text
//! <directory>/<number>/nb-1-big-*      a part
//! ```
//!
//! The progress file names the directory before it is created, so that a later run removes what an
//! interrupted one has left there. Nothing else is removed: neither other files in it, nor another
//! directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cassette_rows::TableMetadata;
use cassette_sstable::{ChunkCache, Component, Descriptor, OpenOptions, SSTableId, SSTableReader, Version};
use cassette_vfs::{FileSystem, RealFileSystem, UnsyncedFileSystem};

use super::progress::Progress;
use crate::error::{MoveError, Result, unsuitable};

/// Bytes of chunks that are cached; parts are read once.
const CACHE_BYTES: u64 = 1 << 20;

/// The directory, while a move runs. Dropped, it is removed if it is empty.
pub struct PartsDirectory {
    path: PathBuf,
    pub files: Arc<dyn FileSystem>,
    cache: Arc<ChunkCache>,
    next: AtomicU64,
}

/// Returns an error about the directory of parts.
pub fn failed(path: &Path, error: &dyn std::fmt::Display) -> MoveError {
    MoveError::Unsuitable(format!(
        "directory of parts, {}: {error}; --parts specifies another one, and the move resumes with the same command",
        path.display()
    ))
}

impl PartsDirectory {
    /// Removes the parts of earlier runs, and prepares a directory, which `progress` then names.
    ///
    /// # Errors
    /// If it contains something else, or cannot be written.
    pub fn claim(path: &Path, progress: &Progress) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|error| failed(path, &error))?;
        for directory in &progress.directories {
            remove_parts(directory).map_err(|error| failed(directory, &error))?;
        }
        match std::fs::read_dir(&path).map(|mut entries| entries.next().is_none()) {
            Ok(false) => {
                return unsuitable(format!(
                    "directory of parts, {}: expected an empty or missing directory, found other files in it: \
                     remove them, or specify another directory with --parts",
                    path.display()
                ));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path, &error)),
            _ => {}
        }
        if !progress.directories.contains(&path) {
            progress.record_directory(&path)?;
        }
        std::fs::create_dir_all(&path).map_err(|error| failed(&path, &error))?;
        let files = Arc::new(UnsyncedFileSystem::new(Arc::new(RealFileSystem)));
        Ok(Self { path, files, cache: Arc::new(ChunkCache::new(CACHE_BYTES)), next: AtomicU64::new(1) })
    }

    /// Creates the directory of the next part.
    pub fn create(&self) -> Result<PartFiles> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let directory = self.path.join(number.to_string());
        std::fs::create_dir(&directory).map_err(|error| failed(&directory, &error))?;
        let descriptor = Descriptor { directory, version: Version::Nb, id: SSTableId::Sequence(1) };
        Ok(PartFiles { number, descriptor })
    }

    /// Opens a complete part.
    pub fn open(&self, files: &PartFiles, table: &Arc<TableMetadata>) -> Result<SSTableReader> {
        let (descriptor, cache) = (files.descriptor.clone(), self.cache.clone());
        let opened =
            SSTableReader::open(self.files.clone(), descriptor, table.clone(), cache, OpenOptions::default());
        opened.map_err(|error| failed(&files.descriptor.directory, &error))
    }
}

impl Drop for PartsDirectory {
    fn drop(&mut self) {
        // It is not empty after a failure; the next run removes what is left.
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// The files of a part. Dropped, they are removed; what cannot be removed stays for the next run.
pub struct PartFiles {
    pub number: u64,
    pub descriptor: Descriptor,
}

impl Drop for PartFiles {
    fn drop(&mut self) {
        for component in Component::ALL {
            let _ = std::fs::remove_file(self.descriptor.path(component));
        }
        let _ = std::fs::remove_dir(&self.descriptor.directory);
    }
}

/// Removes the parts in a directory, and the directory itself if nothing else is in it.
fn remove_parts(directory: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let is_number = name.to_str().is_some_and(|name| name.parse::<u64>().is_ok());
        if !is_number || !entry.file_type()?.is_dir() {
            continue;
        }
        let (directory, id) = (entry.path(), SSTableId::Sequence(1));
        let descriptor = Descriptor { directory, version: Version::Nb, id };
        for component in Component::ALL {
            match std::fs::remove_file(descriptor.path(component)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        // Something else in it keeps it, which the caller reports.
        let _ = std::fs::remove_dir(&descriptor.directory);
    }
    let _ = std::fs::remove_dir(directory);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_interrupted_run_are_removed_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let (progress, parts) = (directory.path().join("progress"), directory.path().join("progress.parts"));
        let open = || Progress::open(&progress, "a", "b", 1).unwrap();
        // As after a kill: neither the part nor the directory was dropped.
        let first = PartsDirectory::claim(&parts, &open()).unwrap();
        let part = first.create().unwrap();
        std::fs::write(part.descriptor.path(Component::Data), b"rows").unwrap();
        std::mem::forget((first, part));
        let foreign = parts.join("1/notes");
        std::fs::write(&foreign, b"").unwrap();
        let error = PartsDirectory::claim(&parts, &open()).err().unwrap().to_string();
        assert!(error.contains("--parts"), "{error}");
        assert!(foreign.exists());
        assert_eq!(std::fs::read_dir(parts.join("1")).unwrap().count(), 1);
        std::fs::remove_file(foreign).unwrap();
        let second = PartsDirectory::claim(&parts, &open()).unwrap();
        assert_eq!(std::fs::read_dir(&parts).unwrap().count(), 0);
        let part = second.create().unwrap();
        std::fs::write(part.descriptor.path(Component::Data), b"rows").unwrap();
        drop(part);
        drop(second);
        assert!(!parts.exists());
    }

    #[test]
    fn a_directory_of_something_else_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let parts = directory.path().join("parts");
        std::fs::create_dir_all(parts.join("1")).unwrap();
        let file = parts.join("1/nb-1-big-Data.db");
        std::fs::write(&file, b"rows of a table").unwrap();
        let progress = Progress::open(&directory.path().join("progress"), "a", "b", 1).unwrap();
        let error = PartsDirectory::claim(&parts, &progress).err().unwrap().to_string();
        assert!(error.contains("expected an empty or missing directory"), "{error}");
        assert!(file.exists());
        assert!(Progress::open(&directory.path().join("other"), "a", "b", 1).unwrap().directories.is_empty());
    }
}
