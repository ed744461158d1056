//! Files with one line of JSON for each step that is complete.
//!
//! Each line is synced before it counts. A line that a crash has cut off is ignored: its step is
//! repeated.

use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::Serialize;

use crate::error::{MoveError, Result};

/// Maximum length of a file: 2^20 ranges of a thousand tables are a tenth of it.
const LENGTH_MAX: u64 = 1 << 30;

/// An open file, locked against other processes.
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

impl Journal {
    /// Reads the complete lines of a file; `None` if there is no file.
    pub fn read(path: &Path) -> Result<Option<String>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| fail(path, &error))?,
        };
        let mut text = String::new();
        file.take(LENGTH_MAX).read_to_string(&mut text).map_err(|error| fail(path, &error))?;
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        Ok(Some(text))
    }

    /// Opens or creates a file, and returns what `parse` makes of its complete lines; removes a
    /// line that was cut off.
    ///
    /// # Errors
    /// If it is in use, or cannot be read or written. If `parse` fails, the file is unchanged.
    pub fn open<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T>) -> Result<(Self, T)> {
        let failed = |reason: std::io::Error| fail(path, &reason);
        let mut options = File::options();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        file.try_lock().map_err(|_| fail(path, &"another move uses it: wait for its end"))?;
        let text = Self::read(path)?.unwrap_or_default();
        let parsed = parse(&text)?;
        file.set_len(text.len() as u64).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        if text.is_empty() {
            sync_directory(path).map_err(failed)?;
        }
        Ok((Self { path: path.to_owned(), file: Mutex::new(file) }, parsed))
    }

    /// Appends a line durably.
    pub fn append(&self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line).map_err(|error| fail(&self.path, &error))?;
        text.push(b'\n');
        let mut file = self.file.lock();
        let written = file.write_all(&text).and_then(|()| file.sync_data());
        written.map_err(|error| fail(&self.path, &error))
    }
}

fn sync_directory(path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns an error about a file.
pub fn fail(path: &Path, reason: &dyn Display) -> MoveError {
    MoveError::Progress { path: path.display().to_string(), reason: reason.to_string() }
}
