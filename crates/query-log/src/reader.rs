//! Reads and verifies the files of a log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_vfs::{FileSystem, RandomAccessFile};

use crate::file::{self, FILE_HEADER_LENGTH, Header, Kind, RECORD_HEADER_LENGTH, RECORD_LENGTH_MAX};

/// A file of a directory, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// The path.
    pub path: PathBuf,
    /// What it records.
    pub kind: Kind,
    /// Its number in the directory.
    pub number: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// Lists the files of logs in a directory, by kind and number.
pub fn files(fs: &dyn FileSystem, directory: &Path) -> io::Result<Vec<LogFile>> {
    let mut files = Vec::new();
    for entry in fs.read_dir(directory)? {
        if let Some((kind, number)) = file::parse_name(&entry.name) {
            let path = directory.join(&entry.name);
            files.push(LogFile { path, kind, number, length: entry.len });
        }
    }
    files.sort_by_key(|file| (file.kind.name(), file.number));
    Ok(files)
}

/// Removes the files of the logs of a kind from a directory, and nothing else. A directory that
/// does not exist has none.
pub fn clear(fs: &dyn FileSystem, directory: &Path, kind: Kind) -> io::Result<()> {
    let files = match files(fs, directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        files => files?,
    };
    for file in files.iter().filter(|file| file.kind == kind) {
        file::remove_if_present(fs, &file.path)?;
    }
    fs.sync_dir(directory)
}

/// Why the rest of a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The file does not begin with a valid header.
    #[error("{path}: damaged file: {reason}")]
    Header {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A record is incomplete or not as it was written.
    #[error("{path}: damaged record {record} at offset {offset}: {reason}")]
    Record {
        /// The file.
        path: String,
        /// The number of the record in the file, from 0.
        record: u64,
        /// The offset of the record in the file.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The file could not be read.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was closed.
    Closed,
    /// It is being written, or its writer ended without closing it.
    Open,
}

/// The records of a file, in order.
pub struct Records {
    file: Arc<dyn RandomAccessFile>,
    path: String,
    header: Header,
    length: u64,
    offset: u64,
    next: u64,
    end: Option<End>,
}

impl Records {
    /// Opens a file and checks its header.
    pub fn open(fs: &dyn FileSystem, path: &Path) -> Result<Self, Damage> {
        let file = fs.open(path)?;
        let length = file.len()?;
        let shown = path.display().to_string();
        let damaged = |reason| Damage::Header { path: shown.clone(), reason };
        if length < FILE_HEADER_LENGTH as u64 {
            return Err(damaged(format!("it has {length} bytes, fewer than a header")));
        }
        let mut header = [0; FILE_HEADER_LENGTH];
        file.read_exact_at(&mut header, 0)?;
        let header = Header::decode(&header).map_err(damaged)?;
        let offset = FILE_HEADER_LENGTH as u64;
        Ok(Self { file, path: shown, header, length, offset, next: 0, end: None })
    }

    /// Returns what the file records.
    pub fn kind(&self) -> Kind {
        self.header.kind
    }

    /// Returns the number of the file, as in its header.
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Returns how the file ends; `None` before its end is reached.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Returns the next record; `None` at the end.
    ///
    /// # Errors
    /// If it is damaged; the rest of the file cannot be read then.
    pub fn next_record(&mut self) -> Result<Option<Vec<u8>>, Damage> {
        if self.end.is_some() {
            return Ok(None);
        }
        let left = self.length.saturating_sub(self.offset);
        if left == 0 {
            self.end = Some(End::Open);
            return Ok(None);
        }
        if left < RECORD_HEADER_LENGTH as u64 {
            return Err(self.damaged("the file ends within its header".to_owned()));
        }
        let mut header = [0; RECORD_HEADER_LENGTH];
        self.file.read_exact_at(&mut header, self.offset)?;
        let [l0, l1, l2, l3, c0, c1, c2, c3] = header;
        let (length, checksum) =
            (u32::from_be_bytes([l0, l1, l2, l3]) as usize, u32::from_be_bytes([c0, c1, c2, c3]));
        if length > RECORD_LENGTH_MAX {
            return Err(
                self.damaged(format!("its length is {length} bytes: expected at most {RECORD_LENGTH_MAX}"))
            );
        }
        let after = left - RECORD_HEADER_LENGTH as u64;
        if length as u64 > after {
            return Err(self.damaged(format!("it has {length} bytes, and the file ends after {after}")));
        }
        let mut record = vec![0; length];
        self.file.read_exact_at(&mut record, self.offset + RECORD_HEADER_LENGTH as u64)?;
        if file::checksum(self.header.number, self.next, &record) != checksum {
            return Err(self.damaged("its checksum is wrong".to_owned()));
        }
        if record.is_empty() {
            if after > 0 {
                return Err(self.damaged(format!("{after} bytes follow the end of the file")));
            }
            self.end = Some(End::Closed);
            return Ok(None);
        }
        self.offset += RECORD_HEADER_LENGTH as u64 + length as u64;
        self.next += 1;
        Ok(Some(record))
    }

    fn damaged(&self, reason: String) -> Damage {
        Damage::Record { path: self.path.clone(), record: self.next, offset: self.offset, reason }
    }
}
