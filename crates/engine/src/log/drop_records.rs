//! Drop records: which tables' files may be removed, and which commit log records discarded.
//!
//! A directory that the schema does not name may be that of a dropped table, or of one whose row in
//! `system_schema` was lost. Only a drop record distinguishes them, so that nothing else ever
//! removes a table's files.
//!
//! 1. [`intend`](DropRecords::intend) writes the intent, before the schema change is written.
//! 2. The schema change becomes durable.
//! 3. [`commit`](DropRecords::commit) marks the record as committed. From here on the files are
//!    removed, after a crash by the next start.
//! 4. The record stays until no segment of the commit log can hold records of the table: replay
//!    must not keep them for a table that may come back.
//!
//! A crash between 1 and 3 leaves the intent. The next start resolves it by the schema: void if the
//! schema still names the table, committed if a schema that is complete does not.
//!
//! One file for all tables, replaced atomically:
//!
//! ```text
//! "CASSTDRP", u32 version, u32 n,                                                                        big-endian
//! n * (u128 table, u8 state, u64 segment, u32 offset, u16 length, path below data/), u32 crc32 of all before
//! ```

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, BufMut};
use cassette_rows::{Result, StorageError, TableId};
use cassette_vfs::FileSystem;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::log::commitlog::Position;

const MAGIC: [u8; 8] = *b"CASSTDRP";
/// Never reuse a number for another layout.
const VERSION: u32 = 1;
/// 16 table + 1 state + 8 segment + 4 offset + 2 path length.
const ENTRY_SIZE: usize = 31;

/// How far a drop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropState {
    /// The schema may still name the table.
    Intended,
    /// The schema does not name the table. Its files are to be removed.
    Committed,
    /// The files are removed. The commit log may still hold records.
    Removed,
}

/// The drop of one table, or of an index's hidden table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DropRecord {
    pub state: DropState,
    /// Log records of the table end here or before; meaningless while the drop is intended.
    pub ends: Position,
    /// The table's directory below that of all tables.
    pub path: String,
}

type Records = BTreeMap<TableId, DropRecord>;

/// The records, in memory and on disk.
pub(crate) struct DropRecords {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    records: Mutex<Records>,
}

impl DropRecords {
    /// Reads the file, if it exists. A damaged one is renamed and its records are not used, so that
    /// tables which it named are kept.
    pub fn open(fs: Arc<dyn FileSystem>, path: PathBuf) -> Result<Self> {
        let exists = fs.exists(&path).map_err(|e| StorageError::io(&path, "look for", e))?;
        let mut records = Records::new();
        if exists {
            let content = fs.read(&path).map_err(|e| StorageError::io(&path, "read", e))?;
            match decode(&content) {
                Ok(decoded) => records = decoded,
                Err(detail) => {
                    let kept = path.with_extension("damaged");
                    fs.rename(&path, &kept).map_err(|e| StorageError::io(&path, "rename", e))?;
                    tracing::error!(
                        path = %kept.display(), detail,
                        "the drop records are damaged and not used: files of tables whose DROP was interrupted are kept"
                    );
                }
            }
        }
        Ok(Self { fs, path, records: Mutex::new(records) })
    }

    /// Returns the record of a table.
    pub fn get(&self, table: TableId) -> Option<DropRecord> {
        self.records.lock().get(&table).cloned()
    }

    /// Returns all records, by table.
    pub fn all(&self) -> Vec<(TableId, DropRecord)> {
        self.records.lock().iter().map(|(table, record)| (*table, record.clone())).collect()
    }

    /// Whether a log record of `table` that ends at `position` belongs to a dropped table.
    pub fn covers(&self, table: TableId, position: Position) -> bool {
        let records = self.records.lock();
        records
            .get(&table)
            .is_some_and(|record| record.state != DropState::Intended && position <= record.ends)
    }

    /// Returns the highest segment that any record names.
    pub fn last_segment(&self) -> u64 {
        self.records.lock().values().map(|record| record.ends.segment).max().unwrap_or(0)
    }

    /// Durably records that tables are about to be dropped. On error nothing is recorded.
    pub fn intend(&self, tables: impl Iterator<Item = (TableId, String)>) -> Result<()> {
        let mut records = self.records.lock();
        let mut changed = records.clone();
        for (table, path) in tables {
            let record = DropRecord { state: DropState::Intended, ends: Position::ZERO, path };
            changed.insert(table, record);
        }
        self.write(&changed)?;
        *records = changed;
        Ok(())
    }

    /// Durably records that the schema does not name the tables any more and that the log holds
    /// none of their records behind `ends`. On error the records stay as they were.
    pub fn commit(&self, tables: impl Iterator<Item = (TableId, String)>, ends: Position) -> Result<()> {
        let mut records = self.records.lock();
        let mut changed = records.clone();
        for (table, path) in tables {
            changed.insert(table, DropRecord { state: DropState::Committed, ends, path });
        }
        self.write(&changed)?;
        *records = changed;
        Ok(())
    }

    /// Records that the files of a table are removed. Durable with the next change: until then the
    /// next start finds nothing to remove.
    pub fn removed(&self, table: TableId) {
        if let Some(record) = self.records.lock().get_mut(&table) {
            record.state = DropState::Removed;
        }
    }

    /// Durably forgets the records for which `is_void` returns true. On error they are forgotten in
    /// memory, and on disk with the next change.
    pub fn forget(&self, is_void: impl Fn(TableId, &DropRecord) -> bool) -> Result<()> {
        let mut records = self.records.lock();
        let before = records.len();
        records.retain(|table, record| !is_void(*table, record));
        if records.len() == before { Ok(()) } else { self.write(&records) }
    }

    /// Called with the lock held, so that an earlier state never overwrites a later one.
    fn write(&self, records: &Records) -> Result<()> {
        let content = encode(records);
        self.fs.write_atomically(&self.path, &content).map_err(|e| StorageError::io(&self.path, "write", e))
    }
}

/// Whether a path is that of a table or of an index's hidden table, below the directory of all
/// tables.
fn is_valid(path: &str) -> bool {
    let parts: Vec<_> = Path::new(path).components().collect();
    matches!(parts.len(), 2 | 3) && parts.iter().all(|part| matches!(part, Component::Normal(_)))
}

fn encode(records: &Records) -> Vec<u8> {
    let paths: usize = records.values().map(|record| record.path.len()).sum();
    let mut out = Vec::with_capacity(20 + records.len() * ENTRY_SIZE + paths);
    out.put_slice(&MAGIC);
    out.put_u32(VERSION);
    out.put_u32(records.len() as u32);
    for (table, record) in records {
        out.put_u128(table.0.as_u128());
        out.put_u8(match record.state {
            DropState::Intended => 0,
            DropState::Committed => 1,
            DropState::Removed => 2,
        });
        out.put_u64(record.ends.segment);
        out.put_u32(record.ends.offset);
        // Names of keyspaces, tables and indexes are far shorter.
        out.put_u16(record.path.len() as u16);
        out.put_slice(record.path.as_bytes());
    }
    out.put_u32(crc32fast::hash(&out));
    out
}

fn decode(content: &[u8]) -> Result<Records, String> {
    let Some((mut fields, checksum)) = content.split_last_chunk::<4>() else {
        return Err(format!("expected at least 4 bytes, found {}", content.len()));
    };
    let (stored, computed) = (u32::from_be_bytes(*checksum), crc32fast::hash(fields));
    if stored != computed {
        return Err(format!("expected checksum {stored:#x}, found {computed:#x}"));
    }
    if fields.len() < 16 || fields[..8] != MAGIC {
        return Err("not a list of drop records".into());
    }
    fields.advance(8);
    let (version, count) = (fields.get_u32(), fields.get_u32());
    if version != VERSION {
        return Err(format!("expected version {VERSION}, found {version}"));
    }
    let mut records = Records::new();
    for _ in 0..count {
        let (table, record) = decode_entry(&mut fields).ok_or("an entry cannot be decoded")?;
        records.insert(table, record);
    }
    if fields.is_empty() { Ok(records) } else { Err(format!("{} bytes after the last entry", fields.len())) }
}

fn decode_entry(fields: &mut &[u8]) -> Option<(TableId, DropRecord)> {
    let table = TableId(Uuid::from_u128(fields.try_get_u128().ok()?));
    let state = match fields.try_get_u8().ok()? {
        0 => DropState::Intended,
        1 => DropState::Committed,
        2 => DropState::Removed,
        _ => return None,
    };
    let ends = Position { segment: fields.try_get_u64().ok()?, offset: fields.try_get_u32().ok()? };
    let length = usize::from(fields.try_get_u16().ok()?);
    let (path, rest) = fields.split_at_checked(length)?;
    *fields = rest;
    let path = std::str::from_utf8(path).ok().filter(|path| is_valid(path))?.to_owned();
    Some((table, DropRecord { state, ends, path }))
}

#[cfg(test)]
mod tests {
    use cassette_vfs::FakeFileSystem;

    use super::*;

    fn open(fs: &FakeFileSystem) -> DropRecords {
        DropRecords::open(Arc::new(fs.clone()), "dropped_tables".into()).unwrap()
    }

    fn table(id: u128) -> TableId {
        TableId(Uuid::from_u128(id))
    }

    fn one(id: u128) -> impl Iterator<Item = (TableId, String)> {
        std::iter::once((table(id), format!("ks/t-{id:032x}")))
    }

    #[test]
    fn a_record_survives_a_crash_at_every_state() {
        let ends = Position { segment: 3, offset: 40 };
        for seed in 0..20 {
            let fs = FakeFileSystem::new();
            let records = open(&fs);
            records.intend(one(1).chain(one(2))).unwrap();
            records.commit(one(2), ends).unwrap();
            let survivor = fs.crash(seed);
            let records = open(&survivor);
            assert_eq!(records.get(table(1)).unwrap().state, DropState::Intended);
            assert!(!records.covers(table(1), Position::ZERO));
            let committed = records.get(table(2)).unwrap();
            assert_eq!((committed.state, committed.ends), (DropState::Committed, ends));
            assert!(records.covers(table(2), ends));
            assert!(!records.covers(table(2), Position { offset: 41, ..ends }));
            assert_eq!(records.last_segment(), 3);
            records.removed(table(2));
            records.forget(|id, _| id == table(1)).unwrap();
            let records = open(&survivor);
            assert_eq!(records.all().len(), 1);
            assert_eq!(records.get(table(2)).unwrap().state, DropState::Removed);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_detected() {
        let fs = FakeFileSystem::new();
        open(&fs).commit(one(1), Position { segment: 3, offset: 40 }).unwrap();
        let content = (&fs as &dyn FileSystem).read(Path::new("dropped_tables")).unwrap();
        assert_eq!(decode(&content).unwrap().len(), 1);
        for bit in 0..content.len() * 8 {
            let mut flipped = content.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped).is_err(), "bit {bit}");
            assert!(decode(&content[..bit / 8]).is_err());
        }
    }

    #[test]
    fn damaged_records_are_renamed_and_name_no_table() {
        let fs = FakeFileSystem::new();
        open(&fs).commit(one(1), Position::ZERO).unwrap();
        (&fs as &dyn FileSystem).write_atomically(Path::new("dropped_tables"), b"damaged").unwrap();
        assert!(open(&fs).all().is_empty());
        assert_eq!((&fs as &dyn FileSystem).read(Path::new("dropped_tables.damaged")).unwrap(), b"damaged");
    }

    #[test]
    fn paths_that_lead_out_of_the_tables_directory_are_refused() {
        for path in ["ks", "../t", "/ks/t", "ks/../t", "ks/t/.i/x", ""] {
            assert!(!is_valid(path), "{path}");
        }
        assert!(is_valid("ks/t-1") && is_valid("ks/t-1/.i"));
    }
}
