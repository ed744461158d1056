//! A log file with a limited size, and its predecessors: `FILE`, `FILE.1` (the newest), `FILE.2`, …

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// The file. Lines that cannot be written to it go to standard error.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    size_max: u64,
    kept: u32,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    file: File,
    length: u64,
    has_failed: bool,
}

impl LogFile {
    /// Opens the file for appending. Only its owner can read a new one: statements that are logged
    /// as slow may contain data.
    pub fn open(path: &Path, size_max: u64, kept: u32) -> io::Result<Self> {
        let current = Mutex::new(Current::open(path)?);
        Ok(Self { path: path.to_owned(), size_max, kept, current })
    }

    /// Appends a line. It is the first one of a new file if the file would become too long.
    fn append(&self, line: &[u8]) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match self.try_append(&mut current, line) {
            Ok(()) => current.has_failed = false,
            Err(error) => {
                let mut stderr = io::stderr().lock();
                // Standard error is the last resort.
                if !std::mem::replace(&mut current.has_failed, true) {
                    let path = self.path.display();
                    let _ = writeln!(stderr, "cassette: cannot write the log file {path}: {error}");
                }
                let _ = stderr.write_all(line);
            }
        }
    }

    fn try_append(&self, current: &mut Current, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if current.length > 0 && current.length.saturating_add(length) > self.size_max {
            self.rotate()?;
            let has_failed = current.has_failed;
            *current = Current { has_failed, ..Current::open(&self.path)? };
        }
        current.file.write_all(line)?;
        current.length += length;
        Ok(())
    }

    /// Renames the file and its predecessors, the oldest first, which the next one replaces.
    fn rotate(&self) -> io::Result<()> {
        // Another program may have moved the file: then no predecessor makes room.
        if !self.path.exists() {
            return Ok(());
        }
        if self.kept == 0 {
            return unless_missing(fs::remove_file(&self.path));
        }
        for number in (0..self.kept).rev() {
            unless_missing(fs::rename(self.numbered(number), self.numbered(number + 1)))?;
        }
        Ok(())
    }

    /// Returns the path of a predecessor; 0 is the file itself.
    fn numbered(&self, number: u32) -> PathBuf {
        if number == 0 {
            return self.path.clone();
        }
        let mut name = OsString::from(&self.path);
        name.push(format!(".{number}"));
        name.into()
    }
}

/// Accepts that a file does not exist.
fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

impl Current {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { file, length, has_failed: false })
    }
}

/// Writes one event: each call of `write` is one whole line.
impl Write for &LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.append(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = &'a LogFile;

    fn make_writer(&'a self) -> &'a LogFile {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_rotated_at_lines_and_the_oldest_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let file = LogFile::open(&path, 20, 2).unwrap();
        for number in 0..9 {
            (&file).write_all(format!("line {number:03}\n").as_bytes()).unwrap();
        }
        let text = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(text("log"), "line 008\n");
        assert_eq!(text("log.1"), "line 006\nline 007\n");
        assert_eq!(text("log.2"), "line 004\nline 005\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
        drop(file);
        let reopened = LogFile::open(&path, 20, 2).unwrap();
        (&reopened).write_all(b"line 009\n").unwrap();
        assert_eq!(text("log"), "line 008\nline 009\n");
        (&reopened).write_all(&[b'x'; 100]).unwrap();
        assert_eq!(text("log").len(), 100, "a line longer than the limit is one file");
    }

    #[test]
    fn a_file_that_another_program_moved_is_created_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let file = LogFile::open(&path, 10, 2).unwrap();
        for _ in 0..2 {
            (&file).write_all(b"line 000\n").unwrap();
        }
        fs::rename(&path, directory.path().join("moved")).unwrap();
        for number in 1..3 {
            (&file).write_all(format!("line 00{number}\n").as_bytes()).unwrap();
        }
        let text = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!([text("log"), text("log.1"), text("log.2")], ["line 002\n", "line 001\n", "line 000\n"]);
    }

    #[test]
    fn without_kept_files_rotation_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let file = LogFile::open(&path, 10, 0).unwrap();
        for _ in 0..3 {
            (&file).write_all(b"line 000\n").unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "line 000\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
