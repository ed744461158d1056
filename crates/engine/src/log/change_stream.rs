//! The stream of changes: the captured records of the segments in `cdc_raw`, in the order of the
//! commit log.
//!
//! Dictionaries of captured tables contain the table, so segments are read without a schema, also
//! those of tables that have been altered or dropped since.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_rows::{PartitionUpdate, StorageError, TableMetadata};
use cassette_vfs::FileSystem;
use cassette_vfs::encryption::{Encryption, PieceCipher};
use hashbrown::HashMap;

use crate::log::commitlog::cdc::{CdcIndex, index_name, read_index};
use crate::log::commitlog::chain::Chain;
use crate::log::commitlog::{
    CommitLogOptions, OpenError, Position, SegmentBody, SegmentRecord, TableVersion, cipher_of, first_record,
    read_record, segment_id,
};
use crate::log::mutation_codec::{self, Decoder};

/// A change of one partition.
#[derive(Debug, Clone)]
pub struct Change {
    /// The table, as it was at the time of the change. Only what the commit log has: its names,
    /// columns and types, and a version that grows with each ALTER within a segment. While a table
    /// is being altered, changes of the earlier version can follow those of the later one.
    pub table: Arc<TableMetadata>,
    /// The rows and tombstones that were written.
    pub update: PartitionUpdate,
}

/// The captured changes of one atomic write.
#[derive(Debug, Clone)]
pub struct ChangeRecord {
    /// The end of its record. A stream that is opened here continues after it.
    pub position: Position,
    /// At least one.
    pub changes: Vec<Change>,
}

/// The error of a stream of changes.
#[derive(Debug, thiserror::Error)]
pub enum ChangeStreamError {
    /// A file could not be read or removed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A segment is encrypted and its key is not available, or it is damaged.
    #[error(transparent)]
    Segment(#[from] OpenError),
    /// Segments with captured changes were removed before the stream has read them. Not returned
    /// by a stream that was opened at [`Position::ZERO`] before its first record.
    #[error("captured segments {first} to {last} were removed before everything after {after} was read")]
    Missing {
        /// Everything up to here was read.
        after: Position,
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
}

type Result<T> = std::result::Result<T, ChangeStreamError>;

/// Reads the changes in a directory of linked segments, in the order of the commit log. Each is
/// returned at least once: a stream that continues at the position of a record skips that and all
/// before it.
///
/// The directory may belong to a running engine: only what is durable is read, so no change is
/// returned that a crash could undo. That segments have been removed before they were read is an
/// error; [`skip_missing`](Self::skip_missing) continues after them.
pub struct ChangeStream {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    encryption: Option<Arc<dyn Encryption>>,
    position: Position,
    /// The id of the first segment that has not been read completely.
    next: u64,
    segment: Option<Segment>,
    /// The last segment that was reported as missing.
    missing: Option<u64>,
}

/// A segment that is being read.
struct Segment {
    id: u64,
    path: PathBuf,
    index: CdcIndex,
    /// The durable bytes.
    bytes: Vec<u8>,
    /// The offset of the next record.
    offset: usize,
    cipher: Option<Arc<dyn PieceCipher>>,
    versions: HashMap<u16, TableVersion>,
    /// Captured tables.
    decoders: HashMap<TableVersion, Decoder>,
}

impl ChangeStream {
    /// Opens the stream of the segments in `directory`, after `position`. No-op on the files.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        directory: impl Into<PathBuf>,
        encryption: Option<Arc<dyn Encryption>>,
        position: Position,
    ) -> Self {
        let directory = directory.into();
        let is_whole = position.offset == Position::END_OF_SEGMENT;
        let next = if is_whole { position.segment.saturating_add(1) } else { position.segment };
        Self { fs, directory, encryption, position, next, segment: None, missing: None }
    }

    /// The position of the last record that was returned, or that the stream was opened at.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The position before which nothing will be returned any more, so another stream can be
    /// opened here: [`position`](Self::position), or that of a later record without changes, or
    /// the end of the last segment that was read completely.
    pub fn consumed(&self) -> Position {
        let offset = Position::END_OF_SEGMENT;
        let end = self.next.checked_sub(1).map_or(Position::ZERO, |segment| Position { segment, offset });
        let read = self.segment.as_ref().map_or(Position::ZERO, Segment::position);
        self.position.max(end).max(read)
    }

    /// Continues after the segments of the last [`ChangeStreamError::Missing`]. No-op without one.
    pub fn skip_missing(&mut self) {
        if let Some(last) = self.missing.take() {
            self.next = last.saturating_add(1);
            self.segment = None;
        }
    }

    /// Returns the next record; `None` if no more are durable yet. More may be later.
    ///
    /// # Errors
    /// If a segment cannot be read. The stream stays before the record, and can be read again.
    pub fn next_record(&mut self) -> Result<Option<ChangeRecord>> {
        loop {
            let Some(segment) = &mut self.segment else {
                match self.open_next()? {
                    Some(segment) => self.segment = Some(segment),
                    None => return Ok(None),
                }
                continue;
            };
            if let Some(record) = segment.next_record(self.position)? {
                self.position = record.position;
                return Ok(Some(record));
            }
            if segment.index.completed {
                self.next = segment.id.saturating_add(1);
                self.segment = None;
                continue;
            }
            let Some(index) = index_of(self.fs.as_ref(), &segment.path)? else {
                let (id, path) = (segment.id, segment.path.clone());
                let exists = |error| StorageError::io(&path, "look for", error);
                if !self.check_chain(u64::MAX)? || self.fs.exists(&path).map_err(exists)? {
                    return Ok(None);
                }
                // The log has removed it, because the rest has no captured changes.
                self.next = id.saturating_add(1);
                self.segment = None;
                continue;
            };
            if index == segment.index {
                return Ok(None);
            }
            segment.index = index;
            segment.load(self.fs.as_ref())?;
        }
    }

    /// Returns the next segment with captured changes that are durable.
    ///
    /// One without an index has none if a later one has an index, because indexes are written in
    /// the order of segments. So the directory is listed again after that index was read: what
    /// precedes it is visible then.
    fn open_next(&mut self) -> Result<Option<Segment>> {
        let mut found = self.first_indexed()?;
        loop {
            let Some((id, path, index)) = found else {
                self.check_chain(u64::MAX)?;
                return Ok(None);
            };
            let again = self.first_indexed()?;
            if again.as_ref().is_some_and(|(other, ..)| *other != id) {
                found = again;
                continue;
            }
            if !self.check_chain(id)? {
                return Ok(None);
            }
            let mut segment = Segment {
                id,
                path,
                index,
                bytes: Vec::new(),
                offset: 0,
                cipher: None,
                versions: HashMap::new(),
                decoders: HashMap::new(),
            };
            segment.load(self.fs.as_ref())?;
            segment.offset = first_record();
            segment.cipher = cipher_of(id, &segment.path, &segment.bytes, self.encryption.as_deref())?;
            return Ok(Some(segment));
        }
    }

    /// Returns whether no segment of the chain precedes `id` that has not been read.
    ///
    /// # Errors
    /// If one does and was removed. One that exists will get its index, which a crash has lost.
    fn check_chain(&mut self, id: u64) -> Result<bool> {
        // From the beginning: what was removed before does not matter.
        if self.next == 0 {
            return Ok(true);
        }
        let fs = self.fs.as_ref();
        let unread = || -> Result<Vec<u64>> {
            let read = Chain::read(fs, &self.directory);
            let chain =
                read.map_err(|error| StorageError::io(&self.directory, "read the chain of", error))?;
            Ok(chain.map_or_else(Vec::new, |chain| chain.segments.range(self.next..id).copied().collect()))
        };
        let listed = unread()?;
        if listed.is_empty() {
            return Ok(true);
        }
        let existing: BTreeSet<u64> = segments(fs, &self.directory)?.into_iter().map(|(id, _)| id).collect();
        // The log removes a segment without captured changes from the chain first.
        let still_listed = unread()?;
        let is_missing = |id: &&u64| !existing.contains(id) && still_listed.contains(id);
        let missing: Vec<u64> = listed.iter().take_while(|id| is_missing(id)).copied().collect();
        match (missing.first(), missing.last()) {
            (Some(first), Some(last)) => {
                self.missing = Some(*last);
                Err(ChangeStreamError::Missing { after: self.consumed(), first: *first, last: *last })
            }
            _ => Ok(!listed.iter().any(|id| existing.contains(id))),
        }
    }

    /// Returns the first segment with an index that has not been read.
    fn first_indexed(&self) -> Result<Option<(u64, PathBuf, CdcIndex)>> {
        for (id, path) in segments(self.fs.as_ref(), &self.directory)? {
            if id >= self.next
                && let Some(index) = index_of(self.fs.as_ref(), &path)?
            {
                return Ok(Some((id, path, index)));
            }
        }
        Ok(None)
    }
}

impl Segment {
    /// The end of what was read.
    fn position(&self) -> Position {
        Position { segment: self.id, offset: u32::try_from(self.offset).unwrap_or_default() }
    }

    /// Reads the bytes that have become durable.
    fn load(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let length = usize::try_from(self.index.offset.min(CommitLogOptions::SEGMENT_SIZE_MAX)).unwrap_or(0);
        let from = self.bytes.len();
        if length <= from {
            return Ok(());
        }
        let io_error = |error| StorageError::io(&self.path, "read", error);
        let file = fs.open(&self.path).map_err(io_error)?;
        let available = file.len().map_err(io_error)?;
        if available < length as u64 {
            let damage = format!("its index states {length} bytes, and it has {available}");
            return Err(OpenError::Corrupt { file: self.path.clone(), offset: available, damage }.into());
        }
        let mut bytes = vec![0; length - from];
        file.read_exact_at(&mut bytes, from as u64).map_err(io_error)?;
        self.bytes.extend(bytes);
        Ok(())
    }

    /// Returns the next captured record after `position`; `None` at the end of what was loaded.
    fn next_record(&mut self, position: Position) -> Result<Option<ChangeRecord>> {
        loop {
            let corrupt = |offset: usize, damage: &str| {
                let (file, damage) = (self.path.clone(), damage.to_owned());
                OpenError::Corrupt { file, offset: offset as u64, damage }
            };
            let read = read_record(self.id, &self.bytes, self.offset, self.cipher.as_deref());
            let Some(SegmentRecord { body, end }) = read.map_err(|damage| corrupt(self.offset, damage))?
            else {
                return Ok(None);
            };
            let at = Position { segment: self.id, offset: end as u32 };
            match body {
                SegmentBody::End => {
                    self.offset = self.bytes.len();
                    return Ok(None);
                }
                SegmentBody::Other | SegmentBody::Time(_) | SegmentBody::Event(_) => {}
                SegmentBody::Dictionary { index, table, content } => {
                    let invalid = || corrupt(self.offset, "a dictionary that cannot be decoded");
                    if let Some(captured) =
                        mutation_codec::captured_table(table, &content).ok_or_else(invalid)?
                    {
                        let decoder = Decoder::new(Arc::new(captured), &content).ok_or_else(invalid)?;
                        self.decoders.insert(table, decoder);
                    }
                    self.versions.insert(index, table);
                }
                SegmentBody::Entry { indexes, content } if at > position => {
                    let changes = self.changes(&indexes, &content);
                    let changes =
                        changes.ok_or_else(|| corrupt(self.offset, "a mutation that cannot be decoded"))?;
                    if !changes.is_empty() {
                        self.offset = end;
                        return Ok(Some(ChangeRecord { position: at, changes }));
                    }
                }
                SegmentBody::Entry { .. } => {}
            }
            self.offset = end;
        }
    }

    /// Decodes the captured mutations of a record; `None` if it is malformed.
    fn changes(&self, indexes: &[u16], content: &[u8]) -> Option<Vec<Change>> {
        let versions: Option<Vec<TableVersion>> =
            indexes.iter().map(|index| self.versions.get(index).copied()).collect();
        let versions = versions?;
        if !versions.iter().any(|version| self.decoders.contains_key(version)) {
            return Some(Vec::new());
        }
        let mut changes = Vec::new();
        for (place, update) in mutation_codec::split_record(content)? {
            let Some(decoder) = self.decoders.get(versions.get(place)?) else { continue };
            let update = decoder.update(update)?;
            if !update.is_empty() {
                changes.push(Change { table: decoder.table().clone(), update });
            }
        }
        Some(changes)
    }
}

/// Returns the number of the chain of captured segments in a directory: another one if changes
/// have not been captured for a time, or are captured by another database. `None` if the directory
/// has none.
///
/// # Errors
/// If it cannot be read.
pub fn captured_chain(fs: &dyn FileSystem, directory: &Path) -> Result<Option<u128>> {
    let read = Chain::read(fs, directory);
    let chain = read.map_err(|error| StorageError::io(directory, "read the chain of", error))?;
    Ok(chain.map(|chain| chain.number))
}

/// A linked segment, as `cassette cdc list` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedSegment {
    /// Its id.
    pub id: u64,
    /// Its file.
    pub path: PathBuf,
    /// The length of the file, bytes.
    pub length: u64,
    /// Bytes that are durable and can be read; `None` if it has no captured changes yet.
    pub durable: Option<u32>,
    /// Whether nothing will be appended.
    pub completed: bool,
}

/// Lists the linked segments in a directory by id.
///
/// # Errors
/// If the directory or an index cannot be read.
pub fn captured_segments(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<CapturedSegment>> {
    let mut found = Vec::new();
    for (id, path) in segments(fs, directory)? {
        let index = index_of(fs, &path)?;
        let length = match fs.metadata(&path) {
            Ok(metadata) => metadata.len,
            // Removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(StorageError::io(&path, "read the length of", error).into()),
        };
        let (durable, completed) =
            (index.map(|index| index.offset), index.is_some_and(|index| index.completed));
        found.push(CapturedSegment { id, path, length, durable, completed });
    }
    Ok(found)
}

/// Durably removes the completed segments before that of `position`, for a consumer that needs them
/// no more, and that one as well if the position is [`consumed`](ChangeStream::consumed) of a
/// stream that has read all of it. Returns their number.
///
/// # Errors
/// If a file cannot be removed; earlier ones may have been.
pub fn remove_captured(fs: &dyn FileSystem, directory: &Path, position: Position) -> Result<usize> {
    let mut removed = 0;
    for segment in captured_segments(fs, directory)? {
        // A stream that is opened in the middle of a segment needs it, also if nothing follows.
        let is_whole = segment.id == position.segment && position.offset == Position::END_OF_SEGMENT;
        if !segment.completed || segment.id >= position.segment && !is_whole {
            continue;
        }
        // The segment first: an index alone is not read.
        for path in [segment.path.clone(), index_path(&segment.path)] {
            match fs.remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StorageError::io(&path, "remove", error).into());
                }
                _ => {}
            }
        }
        removed += 1;
    }
    if removed > 0 {
        fs.sync_dir(directory).map_err(|error| StorageError::io(directory, "sync", error))?;
    }
    Ok(removed)
}

/// Lists the segments in a directory by id. A missing directory has none.
fn segments(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries = match fs.read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| StorageError::io(directory, "list", error))?,
    };
    let segment = |name: &str| Some((segment_id(name)?, directory.join(name)));
    let mut found: Vec<_> = entries.iter().filter_map(|entry| segment(&entry.name)).collect();
    found.sort_unstable();
    Ok(found)
}

fn index_path(segment: &Path) -> PathBuf {
    let name = segment.file_name().unwrap_or_default().to_string_lossy();
    segment.with_file_name(index_name(&name))
}

/// Returns the index of a segment; `None` if it has none, or an incomplete one that a crash left.
fn index_of(fs: &dyn FileSystem, segment: &Path) -> Result<Option<CdcIndex>> {
    let path = index_path(segment);
    read_index(fs, &path).map_err(|error| StorageError::io(&path, "read", error).into())
}
