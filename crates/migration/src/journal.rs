//! Files with one line of JSON for each step that is complete.
//!
//! Each line is synced before it counts. A line that a crash has cut off is ignored: its step is
//! repeated.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::Serialize;

use crate::error::{MoveError, Result};

/// Maximum length of a file: 2^20 ranges of a thousand tables are a tenth of it.
const LENGTH_MAX: u64 = 1 << 30;

/// An open file, locked against other processes.
pub struct Journal {
    path: PathBuf,
    lines: Mutex<Lines<File>>,
}

/// A file that lines are appended to.
trait Appendable: Write + Seek {
    /// Cuts it to `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Makes its content durable.
    fn sync(&mut self) -> io::Result<()>;
}

impl Appendable for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Complete lines, or a file that is appended to no more.
struct Lines<F> {
    file: F,
    /// Bytes of the complete lines.
    length: u64,
    /// Whether a part of a line could not be removed.
    is_damaged: bool,
}

impl<F: Appendable> Lines<F> {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_damaged {
            return Err(io::Error::other(
                "a part of a line could not be removed: start the same command again",
            ));
        }
        let appended = self.file.write_all(line).and_then(|()| self.file.sync());
        if appended.is_err() {
            // A line after a part of one could not be read.
            let cut = self.file.cut(self.length).and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
            self.is_damaged = cut.and_then(|_| self.file.sync()).is_err();
        } else {
            self.length += line.len() as u64;
        }
        appended
    }
}

impl Journal {
    /// Reads the complete lines of a file; `None` if there is no file.
    pub fn read(path: &Path) -> Result<Option<String>> {
        Self::read_within(path, LENGTH_MAX)
    }

    fn read_within(path: &Path, length_max: u64) -> Result<Option<String>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| fail(path, &error))?,
        };
        let length = file.metadata().map_err(|error| fail(path, &error))?.len();
        let too_long = |length: u64| {
            let text = format!("expected at most {length_max} bytes, found {length}: specify another file");
            Err(fail(path, &text))
        };
        if length > length_max {
            return too_long(length);
        }
        let mut text = String::new();
        let read = file.take(length_max.saturating_add(1)).read_to_string(&mut text);
        let length = read.map_err(|error| fail(path, &error))? as u64;
        if length > length_max {
            return too_long(length);
        }
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        Ok(Some(text))
    }

    /// Opens or creates a file, and returns what `parse` makes of its complete lines; removes a
    /// line that was cut off.
    ///
    /// # Errors
    /// If it is in use, or cannot be read or written. If `parse` fails, the file is unchanged.
    pub fn open<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T>) -> Result<(Self, T)> {
        let failed = |reason: io::Error| fail(path, &reason);
        let mut options = File::options();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        file.try_lock().map_err(|_| fail(path, &"another move uses it: wait for its end"))?;
        let text = Self::read(path)?.unwrap_or_default();
        let parsed = parse(&text)?;
        file.set_len(text.len() as u64).map_err(failed)?;
        let length = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if text.is_empty() {
            sync_directory(path).map_err(failed)?;
        }
        let lines = Lines { file, length, is_damaged: false };
        Ok((Self { path: path.to_owned(), lines: Mutex::new(lines) }, parsed))
    }

    /// Appends a line durably.
    ///
    /// # Errors
    /// If it cannot be written. The file has the same lines as before; if it cannot be restored to
    /// that, later lines are refused.
    pub fn append(&self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line).map_err(|error| fail(&self.path, &error))?;
        text.push(b'\n');
        self.lines.lock().append(&text).map_err(|error| fail(&self.path, &error))
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns an error about a file.
pub fn fail(path: &Path, reason: &dyn Display) -> MoveError {
    MoveError::Progress { path: path.display().to_string(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A file with space for some bytes, which fails to sync or to be cut on request.
    #[derive(Default)]
    struct Limited {
        content: Cursor<Vec<u8>>,
        space: usize,
        fails_to_sync: bool,
        fails_to_cut: bool,
    }

    impl Write for Limited {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let left = self.space.saturating_sub(self.content.get_ref().len());
            if left == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.content.write(&bytes[..left.min(bytes.len())])
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Limited {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.content.seek(to)
        }
    }

    impl Appendable for Limited {
        fn cut(&mut self, length: u64) -> io::Result<()> {
            if self.fails_to_cut {
                return Err(io::Error::other("cut"));
            }
            self.content.get_mut().truncate(length as usize);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            if std::mem::take(&mut self.fails_to_sync) { Err(io::Error::other("sync")) } else { Ok(()) }
        }
    }

    fn text(lines: &Lines<Limited>) -> &str {
        std::str::from_utf8(lines.file.content.get_ref()).unwrap()
    }

    #[test]
    fn a_line_that_cannot_be_appended_leaves_no_part_before_later_ones() {
        let file = Limited { space: 8, ..Limited::default() };
        let mut lines = Lines { file, length: 0, is_damaged: false };
        lines.append(b"[1,2]\n").unwrap();
        assert!(lines.append(b"[3,4]\n").is_err(), "2 bytes fit");
        assert_eq!(text(&lines), "[1,2]\n");
        lines.file.space = 100;
        lines.file.fails_to_sync = true;
        assert!(lines.append(b"[5,6]\n").is_err());
        lines.append(b"[7,8]\n").unwrap();
        assert_eq!(text(&lines), "[1,2]\n[7,8]\n");
    }

    #[test]
    fn nothing_is_appended_after_a_part_of_a_line_that_cannot_be_removed() {
        let file = Limited { space: 8, fails_to_cut: true, ..Limited::default() };
        let mut lines = Lines { file, length: 0, is_damaged: false };
        lines.append(b"[1,2]\n").unwrap();
        assert!(lines.append(b"[3,4]\n").is_err());
        lines.file.space = 100;
        assert!(lines.append(b"[5,6]\n").is_err());
        assert_eq!(text(&lines), "[1,2]\n[3");
    }

    #[test]
    fn a_file_that_is_too_long_is_an_error_instead_of_its_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("progress");
        std::fs::write(&path, "[1,2]\n[3,4]\n").unwrap();
        assert_eq!(Journal::read_within(&path, 12).unwrap().unwrap().lines().count(), 2);
        let error = Journal::read_within(&path, 11).unwrap_err().to_string();
        assert!(error.contains("expected at most 11 bytes, found 12"), "{error}");
    }
}
