//! Writes the files of a log: starts new ones, and removes the oldest.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cassette_vfs::{Clock, FileLock, FileSystem, WritableFile};

use crate::file::{self, Header, Kind};
use crate::options::Options;
use crate::reader;

/// The part of the total size at which a file is closed, so that the oldest part is removed in
/// small pieces.
const FILES: u64 = 8;

/// Records are written together up to this length, or a quarter of a file.
const BUFFER_LENGTH: u64 = 1 << 20;

/// The writer of a directory.
pub(crate) struct Writer {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    kind: Kind,
    options: Options,
    current: Option<Current>,
    /// Closed files with their lengths, oldest first.
    closed: VecDeque<(PathBuf, u64)>,
    next_number: u64,
    /// Only one process writes to a directory.
    _lock: Box<dyn FileLock>,
}

/// The file that is being written.
struct Current {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    number: u64,
    period: i64,
    records: u64,
}

impl Writer {
    /// Opens the directory, creates it if it does not exist, and continues after its last file.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        kind: Kind,
        options: Options,
    ) -> io::Result<Self> {
        let directory = &options.directory;
        fs.create_dir_all(directory)?;
        let lock = fs.lock(&directory.join(format!("{}.lock", kind.name())))?;
        let files: Vec<_> =
            reader::files(&*fs, directory)?.into_iter().filter(|file| file.kind == kind).collect();
        let next_number = files.last().map_or(1, |file| file.number.saturating_add(1));
        let closed = files.into_iter().map(|file| (file.path, file.length)).collect();
        let mut writer = Self { fs, clock, kind, options, current: None, closed, next_number, _lock: lock };
        // The first file at once, so that a directory that cannot be written is an error here.
        writer.file_for(0)?;
        Ok(writer)
    }

    /// Writes records in order. Returns how many could not be written, with the first error.
    pub fn write(&mut self, records: &[Vec<u8>]) -> (u64, Option<io::Error>) {
        let (mut lost, mut first_error) = (0, None);
        let together_max = BUFFER_LENGTH.min(self.options.max_log_size / FILES / 4);
        let mut rest = records;
        while !rest.is_empty() {
            let mut length = 0;
            let count = rest
                .iter()
                .take_while(|record| {
                    let fits = length < together_max;
                    length += record.len() as u64;
                    fits
                })
                .count();
            let (together, after) = rest.split_at(count.max(1));
            if let Err(error) = self.write_together(together, length) {
                lost += together.len() as u64;
                first_error.get_or_insert(error);
            }
            rest = after;
        }
        (lost, first_error)
    }

    fn write_together(&mut self, records: &[Vec<u8>], length: u64) -> io::Result<()> {
        let current = self.file_for(length)?;
        let mut bytes = Vec::with_capacity(records.iter().map(|record| record.len() + 8).sum());
        let numbers = current.records..;
        for (number, record) in numbers.zip(records) {
            file::put_record(&mut bytes, current.number, number, record);
        }
        let before = current.file.len();
        if let Err(error) = current.file.write_all(&bytes) {
            // Best effort: the next write overwrites what was written in part.
            let _ = current.file.truncate(before);
            return Err(error);
        }
        current.records += records.len() as u64;
        if let Err(error) = self.remove_oldest() {
            // The records are written. The next write tries again.
            tracing::warn!(%error, "cannot remove the oldest file of the {} log", self.kind.name());
        }
        Ok(())
    }

    /// Returns the file for records of `length` bytes: the current one, or a new one if its time
    /// is over or it has become long.
    fn file_for(&mut self, length: u64) -> io::Result<&mut Current> {
        let now = self.clock.now_micros().div_euclid(1000);
        let period = self.options.roll_cycle.period(now);
        let length_max = self.options.max_log_size / FILES;
        let is_over = self.current.as_ref().is_some_and(|current| {
            current.period != period || current.records > 0 && current.file.len() + length > length_max
        });
        if is_over {
            self.close()?;
        }
        if self.current.is_none() {
            let header = Header { kind: self.kind, created: now, number: self.next_number };
            let path = file::path(&self.options.directory, &header);
            let mut file = self.fs.create(&path)?;
            // A file that exists has been listed, so this one is new; an incomplete one is removed.
            if let Err(error) = file.write_all(&header.encode()) {
                drop(file);
                let _ = self.fs.remove_file(&path);
                return Err(error);
            }
            self.fs.sync_dir(&self.options.directory)?;
            self.next_number += 1;
            self.current = Some(Current { file, path, number: header.number, period, records: 0 });
        }
        self.current.as_mut().ok_or_else(|| io::Error::other("no file is open"))
    }

    /// Marks the end of the current file and makes it durable.
    pub fn close(&mut self) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let mut end = Vec::new();
        file::put_record(&mut end, current.number, current.records, &[]);
        let before = current.file.len();
        let ended = current.file.write_all(&end).and_then(|()| current.file.sync());
        if let Err(error) = ended {
            let _ = current.file.truncate(before);
            return Err(error);
        }
        if let Some(current) = self.current.take() {
            self.closed.push_back((current.path, current.file.len()));
        }
        Ok(())
    }

    /// Removes the oldest files beyond the total size.
    fn remove_oldest(&mut self) -> io::Result<()> {
        let current = self.current.as_ref().map_or(0, |current| current.file.len());
        while current + self.closed.iter().map(|(_, length)| length).sum::<u64>() > self.options.max_log_size
        {
            let Some((path, _)) = self.closed.front() else { break };
            file::remove_if_present(&*self.fs, path)?;
            self.closed.pop_front();
        }
        Ok(())
    }
}
