//! The positions up to which SSTables contain each table's log records, which replay skips.
//!
//! Applying a record twice is harmless by itself: versions merge. But a segment can outlive a later
//! one. Replaying a write without the deletion that followed it, which was flushed and purged long
//! ago, would resurrect the write. So each flush records the position in the log where its memtable
//! ended, before the log discards anything.
//!
//! One file for all tables, replaced atomically:
//!
//! ```text
//! "CASSTPOS", u32 version, u32 n, n * (u128 table, u64 segment, u32 offset), u32 crc32 of all before      big-endian
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, BufMut};
use cassette_rows::{Result, StorageError, TableId};
use cassette_vfs::FileSystem;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::log::commitlog::Position;

const MAGIC: [u8; 8] = *b"CASSTPOS";
/// Never reuse a number for another layout.
const VERSION: u32 = 1;
/// 16 table + 8 segment + 4 offset.
const ENTRY_SIZE: usize = 28;

/// The positions, in memory and on disk.
pub(crate) struct ReplayPositions {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    state: Mutex<State>,
}

/// The reason why records were not discarded.
#[derive(Debug)]
pub(crate) enum Discard {
    /// Replay will find them.
    Undone(StorageError),
    /// Replay may or may not find them, until the file is written again.
    Unknown(StorageError),
}

struct State {
    /// Ordered, so that equal positions are written as equal bytes.
    positions: BTreeMap<TableId, Position>,
    /// Whether the file contains all of `positions`.
    is_saved: bool,
}

impl ReplayPositions {
    /// Reads the file, if there is one.
    pub fn open(fs: Arc<dyn FileSystem>, path: PathBuf) -> Result<Self> {
        let exists = fs.exists(&path).map_err(|e| StorageError::io(&path, "look for", e))?;
        let positions = if exists {
            let content = fs.read(&path).map_err(|e| StorageError::io(&path, "read", e))?;
            decode(&content).map_err(|detail| damaged(&path, &detail))?
        } else {
            BTreeMap::new()
        };
        Ok(Self { fs, path, state: Mutex::new(State { positions, is_saved: true }) })
    }

    /// Returns the position from which the table's records are not in its SSTables.
    pub fn get(&self, table: TableId) -> Position {
        self.state.lock().positions.get(&table).copied().unwrap_or(Position::ZERO)
    }

    /// Returns the highest segment of all positions.
    pub fn last_segment(&self) -> u64 {
        self.state.lock().positions.values().map(|position| position.segment).max().unwrap_or(0)
    }

    /// Durably records that the table's records up to `position` are in its SSTables or not needed.
    /// On error it is recorded in memory, and becomes durable with the next change.
    pub fn advance(&self, table: TableId, position: Position) -> Result<()> {
        let mut state = self.state.lock();
        let noted = state.positions.entry(table).or_default();
        *noted = position.max(*noted);
        self.write(&mut state)
    }

    /// [`advance`](Self::advance) for records whose effect is only in memory and not needed. On
    /// error nothing is recorded: later writes of the file must not hide records that are still
    /// read.
    pub fn discard_up_to(&self, table: TableId, position: Position) -> Result<(), Discard> {
        let mut state = self.state.lock();
        let before = state.positions.get(&table).copied().unwrap_or_default();
        state.positions.insert(table, position.max(before));
        let Err(error) = self.write(&mut state) else { return Ok(()) };
        state.positions.insert(table, before);
        // The file may have been replaced before the error, for example when its directory was
        // synced.
        match self.write(&mut state) {
            Ok(()) => Err(Discard::Undone(error)),
            Err(_) => Err(Discard::Unknown(error)),
        }
    }

    /// Writes the file again if the last attempt failed. Required before SSTables are removed whose
    /// records in the log must not be replayed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn ensure_saved(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.is_saved { Ok(()) } else { self.write(&mut state) }
    }

    /// Removes the positions of dropped tables.
    pub fn retain(&self, is_known: impl Fn(TableId) -> bool) -> Result<()> {
        let mut state = self.state.lock();
        let before = state.positions.len();
        state.positions.retain(|table, _| is_known(*table));
        if state.positions.len() == before { Ok(()) } else { self.write(&mut state) }
    }

    /// Called with the lock held, so that an earlier state never overwrites a later one.
    fn write(&self, state: &mut State) -> Result<()> {
        let content = encode(&state.positions);
        let written = self.fs.write_atomically(&self.path, &content);
        state.is_saved = written.is_ok();
        written.map_err(|e| StorageError::io(&self.path, "write", e))
    }
}

fn damaged(path: &Path, detail: &str) -> StorageError {
    let advice = "Remove the file to replay all of the commit log: writes whose deletions have been purged \
        since may return";
    StorageError::corrupt(path, format!("{detail}. {advice}"))
}

fn encode(positions: &BTreeMap<TableId, Position>) -> Vec<u8> {
    let mut out = Vec::with_capacity(20 + positions.len() * ENTRY_SIZE);
    out.put_slice(&MAGIC);
    out.put_u32(VERSION);
    out.put_u32(positions.len() as u32);
    for (table, position) in positions {
        out.put_u128(table.0.as_u128());
        out.put_u64(position.segment);
        out.put_u32(position.offset);
    }
    out.put_u32(crc32fast::hash(&out));
    out
}

fn decode(content: &[u8]) -> Result<BTreeMap<TableId, Position>, String> {
    let Some((mut fields, checksum)) = content.split_last_chunk::<4>() else {
        return Err(format!("{} bytes are too few", content.len()));
    };
    let (stored, computed) = (u32::from_be_bytes(*checksum), crc32fast::hash(fields));
    if stored != computed {
        return Err(format!("checksum {stored:#x}, computed {computed:#x}"));
    }
    if fields.len() < 16 || fields[..8] != MAGIC {
        return Err("no list of replay positions".into());
    }
    fields.advance(8);
    let (version, count) = (fields.get_u32(), fields.get_u32());
    if version != VERSION {
        return Err(format!("version {version}; this is version {VERSION}"));
    }
    if fields.len() != count as usize * ENTRY_SIZE {
        return Err(format!("{} bytes for {count} positions", fields.len()));
    }
    let entry = |fields: &mut &[u8]| {
        let table = TableId(Uuid::from_u128(fields.get_u128()));
        (table, Position { segment: fields.get_u64(), offset: fields.get_u32() })
    };
    Ok((0..count).map(|_| entry(&mut fields)).collect())
}

#[cfg(test)]
mod tests {
    use cassette_vfs::{FakeFileSystem, OperationKind};

    use super::*;

    fn open(fs: &FakeFileSystem) -> Result<ReplayPositions> {
        ReplayPositions::open(Arc::new(fs.clone()), "positions".into())
    }

    fn table(id: u128) -> TableId {
        TableId(Uuid::from_u128(id))
    }

    fn position(segment: u64, offset: u32) -> Position {
        Position { segment, offset }
    }

    #[test]
    fn positions_survive_a_crash_and_never_go_back() {
        let fs = FakeFileSystem::new();
        let positions = open(&fs).unwrap();
        assert_eq!(positions.get(table(1)), Position::ZERO);
        positions.advance(table(1), position(3, 40)).unwrap();
        positions.advance(table(2), position(2, 10)).unwrap();
        positions.advance(table(1), position(3, 20)).unwrap();
        let positions = open(&fs.crash(1)).unwrap();
        assert_eq!(positions.get(table(1)), position(3, 40));
        assert_eq!(positions.last_segment(), 3);
        positions.retain(|id| id == table(2)).unwrap();
        assert_eq!(positions.get(table(1)), Position::ZERO);
        assert_eq!(positions.get(table(2)), position(2, 10));
    }

    #[test]
    fn the_same_positions_are_the_same_bytes_whatever_the_order_of_flushes() {
        let content = |tables: &mut dyn Iterator<Item = u128>| {
            let fs = FakeFileSystem::new();
            let positions = open(&fs).unwrap();
            tables.for_each(|id| positions.advance(table(id), position(id as u64, 1)).unwrap());
            (&fs as &dyn FileSystem).read(Path::new("positions")).unwrap()
        };
        assert_eq!(content(&mut (0..20)), content(&mut (0..20).rev()));
    }

    #[test]
    fn a_discard_that_failed_is_not_saved_by_a_later_change() {
        let fs = FakeFileSystem::new();
        let positions = open(&fs).unwrap();
        positions.advance(table(1), position(1, 10)).unwrap();
        fs.fail_when(|operation| {
            (operation.kind == OperationKind::SyncDir).then_some(std::io::ErrorKind::Other)
        });
        let unknown = positions.discard_up_to(table(1), position(2, 20)).unwrap_err();
        assert!(matches!(unknown, Discard::Unknown(_)));
        fs.heal();
        positions.advance(table(2), position(3, 30)).unwrap();
        assert_eq!(positions.get(table(1)), position(1, 10));
        assert_eq!(open(&fs.crash(1)).unwrap().get(table(1)), position(1, 10));
    }

    #[test]
    fn positions_that_could_not_be_saved_are_saved_on_request() {
        let fs = FakeFileSystem::new();
        let positions = open(&fs).unwrap();
        fs.fail_at(fs.operations() + 1);
        positions.advance(table(1), position(1, 10)).unwrap_err();
        positions.ensure_saved().unwrap();
        assert_eq!(open(&fs.crash(1)).unwrap().get(table(1)), position(1, 10));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let fs = FakeFileSystem::new();
        open(&fs).unwrap().advance(table(1), position(3, 40)).unwrap();
        let content = (&fs as &dyn FileSystem).read(Path::new("positions")).unwrap();
        for bit in 0..content.len() * 8 {
            let mut flipped = content.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped).is_err(), "bit {bit}");
            assert!(decode(&content[..bit / 8]).is_err());
        }
    }
}
