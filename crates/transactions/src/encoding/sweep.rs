//! Format of the sweep queue: writes of transactions, by shard of the cell and partition of the
//! start timestamp.
//!
//! ```text
//! strategy: 'c' conservative, 't' thorough     fine = start / 50,000     coarse = start / 10,000,000
//!
//! table            key                                       column                   value
//! _sweep_queue     strategy | shard | 'e' | fine 8           start % 50,000, 4 bytes  entry
//!                  strategy | shard | 'd' | start 8 | row 4  index, 4 bytes           write
//! _sweep_index     strategy | shard | coarse 8               fine % 200, 2 bytes      1
//! _sweep_progress  strategy | shard                          'p'                      VAR_LONG
//!
//! entry: 0 | write*     up to 50 writes
//!        1 | rows 4     more writes, in that many dedicated rows: 100,000 in each but the last
//! write: kind | length of table | table | length of row 4 | row | length of column 4 | column
//! kind:  1 if a deletion + 2 if the cell had no version before
//! ```
//!
//! Numbers are big-endian, of 1 byte unless a length follows them. The progress is the last
//! completed start timestamp.

use bytes::{BufMut, Bytes};

use super::{DecodeError, var_long};
use crate::store::Cell;
use crate::timestamp::Timestamp;

/// Table of the progress.
pub const PROGRESS: &str = "_sweep_progress";
/// Column of the progress.
pub const LAST_DONE: &[u8] = b"p";
/// Start timestamps per row of entries.
pub const FINE: i64 = 50_000;
/// Start timestamps per row of the index: 200 fine partitions.
pub const COARSE: i64 = 10_000_000;
/// Number of shards.
pub const SHARDS: u8 = 16;
/// Maximum number of writes that are stored in the entry itself.
pub const INLINE_MAX: usize = 50;
/// Number of writes per dedicated row.
pub const DEDICATED_MAX: usize = 100_000;

/// A shard of the queue: the prefix of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    /// Whether its tables are swept thoroughly.
    pub thorough: bool,
    /// 0 to 15.
    pub number: u8,
}

impl Shard {
    /// Returns all shards.
    pub fn all() -> impl Iterator<Item = Self> {
        [false, true]
            .into_iter()
            .flat_map(|thorough| (0..SHARDS).map(move |number| Self { thorough, number }))
    }

    fn prefix(self) -> [u8; 2] {
        [if self.thorough { b't' } else { b'c' }, self.number]
    }

    /// Returns the key of the progress, which is also the name of the lock.
    pub fn key(self) -> Bytes {
        Bytes::copy_from_slice(&self.prefix())
    }

    /// Returns the key of the entries of a fine partition.
    pub fn entries(self, fine: i64) -> Bytes {
        let mut key = Vec::with_capacity(11);
        key.put_slice(&self.prefix());
        key.put_u8(b'e');
        key.put_i64(fine);
        key.into()
    }

    /// Returns the key of a dedicated row, which contains writes of one start timestamp.
    pub fn dedicated(self, start: Timestamp, number: u32) -> Bytes {
        let mut key = Vec::with_capacity(15);
        key.put_slice(&self.prefix());
        key.put_u8(b'd');
        key.put_i64(start.0);
        key.put_u32(number);
        key.into()
    }

    /// Returns the key of an index row.
    pub fn index(self, coarse: i64) -> Bytes {
        let mut key = Vec::with_capacity(10);
        key.put_slice(&self.prefix());
        key.put_i64(coarse);
        key.into()
    }
}

/// Returns the shard of a cell: 64-bit FNV-1a over table, row and column, folded to 32 bits.
pub fn shard_of(table: &str, cell: &Cell) -> u8 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in [table.as_bytes(), &cell.row, &cell.column] {
        for byte in part {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    ((hash ^ (hash >> 32)) % u64::from(SHARDS)) as u8
}

/// Encodes the progress of a shard: its last completed start timestamp.
pub fn encode_progress(last: i64) -> Bytes {
    var_long::encode(last).into()
}

/// Decodes the progress of a shard.
pub fn decode_progress(bytes: &[u8]) -> Result<i64, DecodeError> {
    var_long::decode_non_negative(bytes)
}

/// Returns the column of an entry in its fine partition.
pub fn entry_column(start: i64) -> Bytes {
    number_column((start % FINE) as u32)
}

/// Returns the start timestamp of an entry.
pub fn entry_start(fine: i64, column: &[u8]) -> Result<Timestamp, DecodeError> {
    let offset = <[u8; 4]>::try_from(column).map(u32::from_be_bytes);
    match offset.map(i64::from) {
        Ok(offset) if offset < FINE => Ok(Timestamp(fine * FINE + offset)),
        _ => Err(DecodeError::new(
            "sweep queue column",
            column,
            "not the column of an entry: expected 0 to 49,999",
        )),
    }
}

/// Returns the column of a write in a dedicated row.
pub fn number_column(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Returns the column of a fine partition in the index.
pub fn index_column(fine: i64) -> Bytes {
    Bytes::copy_from_slice(&((fine % (COARSE / FINE)) as u16).to_be_bytes())
}

/// Returns the fine partition of an index column.
pub fn index_fine(coarse: i64, column: &[u8]) -> Result<i64, DecodeError> {
    let place = <[u8; 2]>::try_from(column).map(u16::from_be_bytes);
    match place.map(i64::from) {
        Ok(place) if place < COARSE / FINE => Ok(coarse * (COARSE / FINE) + place),
        _ => Err(DecodeError::new("sweep index column", column, "not a fine partition: expected 0 to 199")),
    }
}

/// A write in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedWrite {
    /// Table of the cell.
    pub table: Box<str>,
    /// Address of the cell.
    pub cell: Cell,
    /// Kind of the write.
    pub kind: WriteKind,
}

/// What the sweeper needs to know about a write besides its cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteKind {
    /// Whether the cell was deleted.
    pub is_delete: bool,
    /// Whether the writer, holding the cell's lock, found no version of any age. `false` means
    /// unknown.
    pub is_first: bool,
}

/// Appends a write.
pub fn encode_write(table: &str, cell: &Cell, kind: WriteKind, out: &mut Vec<u8>) {
    out.put_u8(u8::from(kind.is_delete) | u8::from(kind.is_first) << 1);
    // Table names have at most 48 bytes.
    out.put_u8(table.len() as u8);
    out.put_slice(table.as_bytes());
    for name in [&cell.row, &cell.column] {
        out.put_u32(name.len() as u32);
        out.put_slice(name);
    }
}

/// Value of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// All writes.
    Inline(Vec<QueuedWrite>),
    /// Number of dedicated rows with the writes.
    Dedicated(u32),
}

/// First byte of an entry that contains its writes.
pub const INLINE: u8 = 0;

/// Encodes an entry whose writes are in dedicated rows.
pub fn dedicated_entry(rows: u32) -> Bytes {
    let mut out = Vec::with_capacity(5);
    out.put_u8(1);
    out.put_u32(rows);
    out.into()
}

/// Decodes an entry.
pub fn decode_entry(value: &Bytes) -> Result<Entry, DecodeError> {
    let fail = |why: &str| DecodeError::new("sweep queue entry", value, why);
    match value.split_first() {
        Some((0, _)) => {
            let mut rest = value.slice(1..);
            let mut writes = Vec::new();
            while !rest.is_empty() {
                writes.push(take_write(&mut rest).ok_or_else(|| fail("truncated write"))?);
            }
            Ok(Entry::Inline(writes))
        }
        Some((1, rows)) => match <[u8; 4]>::try_from(rows) {
            Ok(rows) => Ok(Entry::Dedicated(u32::from_be_bytes(rows))),
            Err(_) => Err(fail("number of rows: expected 4 bytes")),
        },
        _ => Err(fail("neither writes nor a number of rows")),
    }
}

/// Decodes a value of a dedicated row.
pub fn decode_write(value: &Bytes) -> Result<QueuedWrite, DecodeError> {
    let mut rest = value.clone();
    match take_write(&mut rest) {
        Some(write) if rest.is_empty() => Ok(write),
        _ => Err(DecodeError::new("sweep queue write", value, "expected exactly one write")),
    }
}

fn take(rest: &mut Bytes, length: usize) -> Option<Bytes> {
    (length <= rest.len()).then(|| rest.split_to(length))
}

fn take_write(rest: &mut Bytes) -> Option<QueuedWrite> {
    let head = take(rest, 2)?;
    let kind = match head[0] {
        flags @ 0..=3 => WriteKind { is_delete: flags & 1 != 0, is_first: flags & 2 != 0 },
        _ => return None,
    };
    let table = String::from_utf8(take(rest, usize::from(head[1]))?.to_vec()).ok()?;
    let mut name = || {
        let length = <[u8; 4]>::try_from(&take(rest, 4)?[..]).ok().map(u32::from_be_bytes)?;
        take(rest, length as usize)
    };
    let cell = Cell { row: name()?, column: name()? };
    Some(QueuedWrite { table: table.into(), cell, kind })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_and_columns_match_the_documented_layout() {
        let shard = Shard { thorough: false, number: 5 };
        assert_eq!(shard.entries(2)[..], *b"c\x05e\0\0\0\0\0\0\0\x02");
        assert_eq!(shard.index(1)[..], *b"c\x05\0\0\0\0\0\0\0\x01");
        assert_eq!(shard.dedicated(Timestamp(7), 3)[..], *b"c\x05d\0\0\0\0\0\0\0\x07\0\0\0\x03");
        assert_eq!(Shard { thorough: true, number: 15 }.key()[..], *b"t\x0f");
        assert_eq!(entry_start(2, &entry_column(100_017)).unwrap(), Timestamp(100_017));
        assert_eq!(index_fine(1, &index_column(203)).unwrap(), 203);
        assert!(entry_start(0, &number_column(50_000)).is_err() && index_fine(0, &[0, 200]).is_err());
    }

    #[test]
    fn shard_of_a_cell_is_stable() {
        let of = |row: &'static str, column: &'static str| shard_of("accounts", &Cell::new(row, column));
        assert_eq!([of("alice", "balance"), of("bob", "balance"), of("", "")], [1, 10, 12]);
    }

    fn name() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..20)
    }

    proptest! {
        #[test]
        fn entries_round_trip_and_truncated_ones_are_rejected(
            writes in prop::collection::vec(
                ("[a-z]{1,48}", name(), name(), any::<(bool, bool)>()),
                0..5,
            ),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = vec![INLINE];
            let mut expected = Vec::new();
            let mut ends = vec![1];
            for (table, row, column, (is_delete, is_first)) in writes {
                let cell = Cell::new(row, column);
                let kind = WriteKind { is_delete, is_first };
                encode_write(&table, &cell, kind, &mut bytes);
                ends.push(bytes.len());
                expected.push(QueuedWrite { table: table.into(), cell, kind });
            }
            let bytes = Bytes::from(bytes);
            prop_assert_eq!(decode_entry(&bytes).unwrap(), Entry::Inline(expected));
            let cut = cut.index(bytes.len());
            prop_assert_eq!(decode_entry(&bytes.slice(..cut)).is_ok(), ends.contains(&cut));
        }

        #[test]
        fn arbitrary_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let bytes = Bytes::from(bytes);
            let _ = (decode_entry(&bytes), decode_write(&bytes));
        }
    }
}
