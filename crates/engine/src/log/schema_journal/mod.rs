//! The schema journal: schema changes that no SSTable holds yet, outside the commit log.
//!
//! A lost or damaged commit log must not cost a table, and flushing the schema with every change
//! takes 36 syncs. So
//!
//! 1. the commit log record of a schema change is synced;
//! 2. a copy of the record, with its position in the log, is appended to the journal and synced.
//!    Only then is the change acknowledged. Space for it was reserved before step 1, so that a full
//!    disk refuses the change as a whole;
//! 3. once SSTables hold the change, the journal is replaced by one without it.
//!
//! At the start, records are applied unless [`ReplayPositions`](crate::log::replay_positions) say
//! that SSTables hold them, exactly as those of the log: applying a record from both changes
//! nothing.
//!
//! A tail that cannot be decoded is a torn record, or an acknowledged one that was damaged since.
//! Bytes do not distinguish them, but an intact commit log does: it holds every acknowledged
//! change, so that the tail is not needed. Any other damage marks the schema as incomplete, and the
//! damaged file is kept beside the new one.
//!
//! The file has at most [`LENGTH_MAX`] bytes: a change that would exceed it is refused, and so is a
//! start that finds a longer one. It is read in pieces, and no length in it is trusted before its
//! checksum holds.
//!
//! ```text
//! journal  header record* (zeros up to the reserved size)                                               big-endian
//! header   "CASSTSCH", u32 version, u32 crc32 of both
//! record   u32 n, u32 crc32 of (u64 offset of the record, u32 n), n bytes, u32 crc32 of the bytes
//! bytes    u64 segment, u32 offset, u16 tables, tables * (u128 table, u32 schema version, u32 n, dictionary), mutations
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, BufMut};
use cassette_rows::{Result, StorageError, TableId};
use cassette_vfs::{FileSystem, WritableFile};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::log::commitlog::{Position, Record, TableVersion};

mod reading;
#[cfg(test)]
mod tests;

use reading::Found;

const MAGIC: [u8; 8] = *b"CASSTSCH";
/// Never reuse a number for another layout.
const VERSION: u32 = 1;
/// 8 magic + 4 version + 4 checksum.
const HEADER_LEN: usize = 16;
/// 4 length + 4 checksum of it + 4 checksum of the content.
const FRAMING_LEN: usize = 12;
/// Space is reserved in multiples of this many bytes.
const RESERVED: u64 = 16 << 10;
/// The maximum length of the file; a multiple of [`RESERVED`]. A change takes some kilobytes, and
/// is removed within seconds.
const LENGTH_MAX: u64 = 256 << 20;

/// A schema change as in the commit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalRecord {
    /// The end of its record in the commit log.
    pub position: Position,
    /// The tables it changes, each with its dictionary.
    pub tables: Vec<(TableVersion, Vec<u8>)>,
    /// The mutations.
    pub content: Vec<u8>,
}

impl JournalRecord {
    /// Copies a record that is about to be logged.
    pub fn new(record: &dyn Record) -> Self {
        let dictionary = |table: &TableVersion| {
            let mut out = Vec::new();
            record.encode_dictionary(*table, &mut out);
            (*table, out)
        };
        let mut content = Vec::new();
        record.encode(&mut content);
        let tables = record.tables().iter().map(dictionary).collect();
        Self { position: Position::ZERO, tables, content }
    }

    /// Returns the ids of the tables it changes.
    pub fn table_ids(&self) -> impl Iterator<Item = TableId> {
        self.tables.iter().map(|(table, _)| TableId(Uuid::from_u128(table.table)))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(self.position.segment);
        out.put_u32(self.position.offset);
        out.put_u16(self.tables.len() as u16);
        for (table, dictionary) in &self.tables {
            out.put_u128(table.table);
            out.put_u32(table.schema);
            out.put_u32(dictionary.len() as u32);
            out.put_slice(dictionary);
        }
        out.put_slice(&self.content);
        out
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let position = Position { segment: bytes.try_get_u64().ok()?, offset: bytes.try_get_u32().ok()? };
        let mut tables = Vec::new();
        for _ in 0..bytes.try_get_u16().ok()? {
            let table = TableVersion { table: bytes.try_get_u128().ok()?, schema: bytes.try_get_u32().ok()? };
            let length = bytes.try_get_u32().ok()? as usize;
            let (dictionary, rest) = bytes.split_at_checked(length)?;
            tables.push((table, dictionary.to_vec()));
            bytes = rest;
        }
        Some(Self { position, tables, content: bytes.to_vec() })
    }
}

/// The journal, in memory and on disk.
pub(crate) struct SchemaJournal {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    length_max: u64,
    state: Mutex<State>,
}

struct State {
    /// Records that SSTables may not contain completely.
    records: Vec<JournalRecord>,
    /// Open at the end of the last record. `None` if the file must be written again before
    /// appending.
    file: Option<Box<dyn WritableFile>>,
    /// Space is reserved up to this offset.
    reserved: u64,
    /// The contents found at the start, until the journal is settled.
    unsettled: Option<Found>,
    damage: Option<String>,
    /// Whether the file is damaged and must be kept before it is replaced.
    keeps_damaged: bool,
}

impl SchemaJournal {
    /// Reads the file, if it exists. Changes nothing until [`settle`](Self::settle).
    ///
    /// # Errors
    /// If the file cannot be read or is longer than any journal. Damage is no error.
    pub fn open(fs: Arc<dyn FileSystem>, path: PathBuf) -> Result<Self> {
        Self::open_within(fs, path, LENGTH_MAX)
    }

    fn open_within(fs: Arc<dyn FileSystem>, path: PathBuf, length_max: u64) -> Result<Self> {
        let exists = fs.exists(&path).map_err(|e| StorageError::io(&path, "look for", e))?;
        let mut found = Found::default();
        if exists {
            let io_error = |error| StorageError::io(&path, "read", error);
            let file = fs.open(&path).map_err(io_error)?;
            let length = file.len().map_err(io_error)?;
            if length > length_max {
                let detail = format!(
                    "expected at most {length_max} bytes, found {length}: restore it from a backup, or move it \
                     away to start without schema changes that only it holds"
                );
                return Err(StorageError::corrupt(path, detail));
            }
            found = Found::read(&*file).map_err(io_error)?;
        }
        let records = std::mem::take(&mut found.records);
        let state = State {
            records,
            file: None,
            reserved: 0,
            unsettled: Some(found),
            damage: None,
            keeps_damaged: false,
        };
        Ok(Self { fs, path, length_max, state: Mutex::new(state) })
    }

    /// Passes every record to `apply`, in the order of appending. One that it refuses counts as
    /// damaged.
    pub fn replay(&self, mut apply: impl FnMut(&JournalRecord) -> Result<(), String>) {
        let mut state = self.state.lock();
        let State { records, unsettled, .. } = &mut *state;
        for record in records {
            if let (Err(detail), Some(found)) = (apply(record), unsettled.as_mut()) {
                found.damage.get_or_insert(detail);
            }
        }
    }

    /// Writes the journal again with the records that are intact and needed, after the first replay
    /// of the log. `log_is_intact` means that the log exists and that no damage in it was skipped.
    ///
    /// A failure is logged: the records are applied, stay in the file, and the next change of the
    /// journal writes it again.
    pub fn settle(&self, log_is_intact: bool, is_needed: impl Fn(&JournalRecord) -> bool) {
        let mut state = self.state.lock();
        let Some(found) = state.unsettled.take() else { return };
        state.records.retain(is_needed);
        let torn = found.torn.filter(|_| !log_is_intact);
        if let Some(detail) = found.damage.or(torn) {
            let kept = self.kept_path();
            state.damage = Some(format!(
                "the schema journal is damaged: {detail}; schema changes may be lost (copy: {})",
                kept.display()
            ));
            state.keeps_damaged = true;
        }
        let settled = if found.is_pristine {
            self.reopen(&mut state, HEADER_LEN as u64)
        } else {
            // Also if it was read without errors: the previous process may have crashed, or failed,
            // before it synced the last record.
            self.write(&mut state)
        };
        if let Err(error) = settled {
            tracing::warn!(%error, "the schema journal is written again with the next schema change");
        }
    }

    fn kept_path(&self) -> PathBuf {
        self.path.with_extension("damaged")
    }

    /// Durably links the file under another name, which keeps it when it is replaced.
    fn keep_damaged(&self) -> Result<()> {
        let kept = self.kept_path();
        let link = || {
            match self.fs.remove_file(&kept) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            self.fs.hard_link(&self.path, &kept)?;
            self.fs.sync_dir(kept.parent().unwrap_or(Path::new("")))
        };
        link().map_err(|e| StorageError::io(&kept, "link the damaged schema journal as", e))
    }

    /// Returns a description of the damage that may have affected the schema.
    pub fn damage(&self) -> Option<String> {
        self.state.lock().damage.clone()
    }

    /// Returns the highest segment that any record names.
    pub fn last_segment(&self) -> u64 {
        self.state.lock().records.iter().map(|record| record.position.segment).max().unwrap_or(0)
    }

    /// Returns the ids of all tables that records change.
    pub fn table_ids(&self) -> Vec<TableId> {
        self.state.lock().records.iter().flat_map(JournalRecord::table_ids).collect()
    }

    /// Reserves the space for appending `record`. Rejects a record that would make the file longer
    /// than a start reads.
    pub fn reserve(&self, record: &JournalRecord) -> Result<()> {
        let mut state = self.state.lock();
        if state.file.is_none() {
            self.write(&mut state)?;
        }
        let State { file: Some(file), reserved, .. } = &mut *state else { return Ok(()) };
        let end = file.len() + (FRAMING_LEN + record.encode().len()) as u64;
        if end > self.length_max {
            let error = format!(
                "expected at most {} bytes of schema changes that no SSTable holds, found {end}: flush the tables of \
                 system_schema and try again",
                self.length_max
            );
            let error = io::Error::new(io::ErrorKind::FileTooLarge, error);
            return Err(StorageError::io(&self.path, "append a schema change", error));
        }
        if end > *reserved {
            let wanted = end.next_multiple_of(RESERVED);
            file.allocate(wanted).map_err(|e| StorageError::io(&self.path, "reserve space in", e))?;
            *reserved = wanted;
        }
        Ok(())
    }

    /// Appends a record durably. After an error the next change of the journal writes it, too.
    pub fn append(&self, record: JournalRecord) -> Result<()> {
        let mut state = self.state.lock();
        let content = record.encode();
        state.records.push(record);
        let Some(file) = &mut state.file else { return self.write(&mut state) };
        let mut framed = Vec::new();
        frame(&content, file.len(), &mut framed);
        let written = file.write_all(&framed).and_then(|()| file.sync());
        if written.is_err() {
            // The contents of the file are unknown from here on.
            state.file = None;
        }
        written.map_err(|e| StorageError::io(&self.path, "write", e))
    }

    /// Durably forgets the records that are not needed. On error they stay in the file, and the
    /// next change removes them.
    pub fn retain(&self, is_needed: impl Fn(&JournalRecord) -> bool) -> Result<()> {
        let mut state = self.state.lock();
        let before = state.records.len();
        state.records.retain(is_needed);
        if state.records.len() == before { Ok(()) } else { self.write(&mut state) }
    }

    /// Replaces the file by one with all records.
    fn write(&self, state: &mut State) -> Result<()> {
        state.file = None;
        if state.keeps_damaged {
            self.keep_damaged()?;
            state.keeps_damaged = false;
        }
        let mut content = header();
        for record in &state.records {
            let offset = content.len() as u64;
            frame(&record.encode(), offset, &mut content);
        }
        let written = self.fs.write_atomically(&self.path, &content);
        written.map_err(|e| StorageError::io(&self.path, "write", e))?;
        self.reopen(state, content.len() as u64)
    }

    fn reopen(&self, state: &mut State, end: u64) -> Result<()> {
        let opened = self.fs.open_writable(&self.path, end);
        state.file = Some(opened.map_err(|e| StorageError::io(&self.path, "open", e))?);
        state.reserved = end;
        Ok(())
    }
}

fn header() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.put_u32(VERSION);
    out.put_u32(crc32fast::hash(&out));
    out
}

/// Appends `content`, framed as a record that begins at `offset` of the file.
fn frame(content: &[u8], offset: u64, out: &mut Vec<u8>) {
    // The record is in the commit log, whose limit is less than 4 GiB.
    let length = content.len() as u32;
    out.put_u32(length);
    out.put_u32(length_checksum(offset, length));
    out.put_slice(content);
    out.put_u32(crc32fast::hash(content));
}

/// Includes the offset, so that bytes of an older journal, or within a record, are not read as a
/// record.
fn length_checksum(offset: u64, length: u32) -> u32 {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&offset.to_be_bytes());
    bytes[8..].copy_from_slice(&length.to_be_bytes());
    crc32fast::hash(&bytes)
}
