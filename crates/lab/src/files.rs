//! Atomic writes of files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::LabError;

/// Writes a file atomically: its name always refers to the complete new content or to the previous
/// one. Writes and syncs a temporary file, renames it, then syncs the directory.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    let write = || -> io::Result<()> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut temporary = name.to_owned();
        temporary.push(".tmp");
        let temporary = path.with_file_name(temporary);
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        if let Err(error) = written.and_then(|()| fs::rename(&temporary, path)) {
            // Leftovers would only be in the way.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => File::open(parent)?.sync_all(),
            None => File::open(".")?.sync_all(),
        }
    };
    write().map_err(|error| LabError::io(format!("writing {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_preserves_the_previous_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("part.json");
        write_atomically(&path, b"before").unwrap();
        // A directory in place of the temporary file: the new content cannot be written.
        fs::create_dir(directory.path().join("part.json.tmp")).unwrap();
        let error = write_atomically(&path, b"after").unwrap_err();
        assert!(error.to_string().contains("part.json"));
        assert_eq!(fs::read(&path).unwrap(), b"before");
    }
}
