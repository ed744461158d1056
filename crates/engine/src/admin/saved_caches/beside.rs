//! Files of the caller beside the saved caches: derived data, which is built again without them.

use std::path::PathBuf;

use cassette_rows::{Result as StorageResult, StorageError};

use crate::store::core::Core;

/// The maximum size of such a file.
const SIZE_MAX: u64 = 1 << 30;

impl Core {
    /// Replaces a file.
    pub fn save_beside_caches(&self, name: &str, content: &[u8]) -> StorageResult<()> {
        self.create_saved_caches_directory()?;
        let path = self.beside_caches(name);
        self.fs.write_atomically(&path, content).map_err(|e| StorageError::io(&path, "write", e))
    }

    /// Reads a file; `None` if it does not exist, or is too large.
    pub fn read_beside_caches(&self, name: &str) -> StorageResult<Option<Vec<u8>>> {
        let path = self.beside_caches(name);
        match self.fs.metadata(&path) {
            Ok(metadata) if metadata.len <= SIZE_MAX => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StorageError::io(&path, "look for", error)),
        }
        self.fs.read(&path).map(Some).map_err(|e| StorageError::io(&path, "read", e))
    }

    /// Removes the files whose names begin with `prefix`, except those that are wanted.
    pub fn retain_beside_caches(&self, prefix: &str, wanted: impl Fn(&str) -> bool) -> StorageResult<()> {
        let directory = &self.saved_caches.directory;
        if !self.fs.exists(directory).map_err(|e| StorageError::io(directory, "look for", e))? {
            return Ok(());
        }
        let entries = self.fs.read_dir(directory).map_err(|e| StorageError::io(directory, "list", e))?;
        for entry in entries.iter().filter(|entry| entry.name.starts_with(prefix) && !wanted(&entry.name)) {
            let path = directory.join(&entry.name);
            self.fs.remove_file(&path).map_err(|e| StorageError::io(&path, "remove", e))?;
        }
        Ok(())
    }

    fn beside_caches(&self, name: &str) -> PathBuf {
        self.saved_caches.directory.join(name)
    }
}
