//! Binary format of a backup.
//!
//! ```text
//! file:   magic, 8 bytes | block* | an empty block, which ends the file
//! block:  length of payload, 4 bytes | CRC-32 of payload, 4 bytes | payload
//! first payload:  JSON of the header
//! others:         record*
//! record: 't' | length, 4 bytes | table of the following records
//!         'r' | length, 4 bytes | key of the row of the following records
//!         'c' | length, 4 bytes | column | length, 4 bytes | value
//!         'e' | timestamp, 8 bytes | cells, 8 bytes: the last record
//! ```
//!
//! Numbers are big-endian. Tables without cells are included. Nothing may follow the empty block,
//! so two concatenated backups are rejected.

use std::io::{Read, Write};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::BackupError;
use crate::timestamp::Timestamp;

const MAGIC: &[u8; 8] = b"CASSTXB1";
/// Size at which a block is written; it may exceed it by one record.
const BLOCK_BYTES: usize = 256 << 10;
/// Maximum block size that is read: twice the largest cell that the commit log accepts.
const BLOCK_BYTES_MAX: usize = 128 << 20;

/// Header of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Program that wrote it.
    pub program: String,
    /// Snapshot timestamp: the backup contains exactly the transactions that committed below it.
    pub timestamp: i64,
}

/// A record of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Table of the following records.
    Table(String),
    /// Row of the following records.
    Row(Bytes),
    /// A cell of the row.
    Cell(Bytes, Bytes),
    /// End of the backup.
    End {
        /// A timestamp that was fresh at the end of the backup.
        last: Timestamp,
        /// Number of cells.
        cells: u64,
    },
}

/// Writes a backup.
pub struct Writer<W> {
    out: W,
    block: BytesMut,
}

impl<W: Write> Writer<W> {
    /// Begins a backup.
    pub fn new(mut out: W, header: &Header) -> Result<Self, BackupError> {
        let write = |error| BackupError::Io { what: "write the backup", error };
        out.write_all(MAGIC).map_err(write)?;
        let mut writer = Self { out, block: BytesMut::new() };
        writer.block.put_slice(&serde_json::to_vec(header).unwrap_or_default());
        writer.end_block()?;
        Ok(writer)
    }

    /// Appends a record.
    pub fn write(&mut self, record: &Record) -> Result<(), BackupError> {
        let block = &mut self.block;
        let bytes = |block: &mut BytesMut, bytes: &[u8]| {
            // Names and values come from the store, which uses 4-byte lengths.
            block.put_u32(bytes.len() as u32);
            block.put_slice(bytes);
        };
        match record {
            Record::Table(name) => {
                block.put_u8(b't');
                bytes(block, name.as_bytes());
            }
            Record::Row(row) => {
                block.put_u8(b'r');
                bytes(block, row);
            }
            Record::Cell(column, value) => {
                block.put_u8(b'c');
                bytes(block, column);
                bytes(block, value);
            }
            Record::End { last, cells } => {
                block.put_u8(b'e');
                block.put_i64(last.0);
                block.put_u64(*cells);
            }
        }
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), BackupError> {
        let write = |error| BackupError::Io { what: "write the backup", error };
        let mut header = [0; 8];
        header[..4].copy_from_slice(&(self.block.len() as u32).to_be_bytes());
        header[4..].copy_from_slice(&crc32fast::hash(&self.block).to_be_bytes());
        self.out.write_all(&header).map_err(write)?;
        self.out.write_all(&self.block).map_err(write)?;
        self.block.clear();
        Ok(())
    }

    /// Ends the backup. Flushes the output without syncing it.
    pub fn finish(mut self) -> Result<W, BackupError> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        self.end_block()?;
        self.out.flush().map_err(|error| BackupError::Io { what: "write the backup", error })?;
        Ok(self.out)
    }
}

/// Reads a backup.
pub struct Reader<R> {
    input: R,
    block: Bytes,
    /// Offset of the current block, for errors.
    position: u64,
    next: u64,
}

impl<R: Read> Reader<R> {
    /// Begins to read a backup.
    ///
    /// # Errors
    /// If the input is no backup, or has an unknown version.
    pub fn new(mut input: R) -> Result<(Self, Header), BackupError> {
        let mut magic = [0; 8];
        read(&mut input, &mut magic, 0)?;
        if &magic != MAGIC {
            let what = if magic.starts_with(b"CASSTXB") {
                "the version of the backup is newer than this program"
            } else {
                "the input is not a backup of transactions"
            };
            return Err(BackupError::Corrupt { position: 0, what: what.to_owned() });
        }
        let mut reader = Self { input, block: Bytes::new(), position: 0, next: 8 };
        reader.read_block()?;
        let header =
            serde_json::from_slice(&reader.block).map_err(|error| reader.corrupt(error.to_string()))?;
        reader.block.clear();
        Ok((reader, header))
    }

    fn corrupt(&self, what: impl Into<String>) -> BackupError {
        BackupError::Corrupt { position: self.position, what: what.into() }
    }

    fn read_block(&mut self) -> Result<(), BackupError> {
        self.position = self.next;
        let mut header = [0; 8];
        read(&mut self.input, &mut header, self.position)?;
        let (mut length, mut crc) = ([0; 4], [0; 4]);
        length.copy_from_slice(&header[..4]);
        crc.copy_from_slice(&header[4..]);
        let (length, crc) = (u32::from_be_bytes(length) as usize, u32::from_be_bytes(crc));
        if length > BLOCK_BYTES_MAX {
            return Err(self.corrupt(format!("invalid block length {length}")));
        }
        // Grows with the input, because the length is unverified.
        let mut block = Vec::new();
        let taken = self.input.by_ref().take(length as u64).read_to_end(&mut block);
        taken.map_err(|error| BackupError::Io { what: "read the backup", error })?;
        if block.len() < length {
            return Err(self.corrupt("the input ends within a block"));
        }
        let actual = crc32fast::hash(&block);
        if actual != crc {
            return Err(self.corrupt(format!("checksum: expected 0x{crc:08x}, found 0x{actual:08x}")));
        }
        self.next += 8 + length as u64;
        self.block = block.into();
        Ok(())
    }

    fn bytes(&mut self) -> Result<Bytes, BackupError> {
        let length = self.block.try_get_u32().map_err(|_| self.corrupt("truncated record"))? as usize;
        if length <= self.block.len() {
            Ok(self.block.split_to(length))
        } else {
            Err(self.corrupt(format!("record of {length} bytes: only {} are left", self.block.len())))
        }
    }

    /// Returns the next record; `None` after the last.
    ///
    /// # Errors
    /// If the record cannot be read, is truncated or malformed.
    pub fn next(&mut self) -> Result<Option<Record>, BackupError> {
        if self.block.is_empty() {
            self.read_block()?;
            if self.block.is_empty() {
                let more = self.input.by_ref().take(1).read_to_end(&mut Vec::new());
                return match more.map_err(|error| BackupError::Io { what: "read the backup", error })? {
                    0 => Ok(None),
                    _ => {
                        Err(self.corrupt("data after the end of the backup: a file holds exactly one backup"))
                    }
                };
            }
        }
        let record = match self.block.get_u8() {
            b't' => {
                let name = self.bytes()?;
                Record::Table(
                    String::from_utf8(name.to_vec()).map_err(|error| self.corrupt(error.to_string()))?,
                )
            }
            b'r' => Record::Row(self.bytes()?),
            b'c' => Record::Cell(self.bytes()?, self.bytes()?),
            b'e' if self.block.len() >= 16 => {
                Record::End { last: Timestamp(self.block.get_i64()), cells: self.block.get_u64() }
            }
            other => return Err(self.corrupt(format!("unknown record kind 0x{other:02x}"))),
        };
        Ok(Some(record))
    }
}

fn read(input: &mut impl Read, into: &mut [u8], position: u64) -> Result<(), BackupError> {
    input.read_exact(into).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            BackupError::Corrupt { position, what: "the input ends before the end record".to_owned() }
        }
        _ => BackupError::Io { what: "read the backup", error },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(bytes: &[u8]) -> Result<(Header, Vec<Record>), BackupError> {
        let (mut reader, header) = Reader::new(bytes)?;
        let mut records = Vec::new();
        while let Some(record) = reader.next()? {
            records.push(record);
        }
        Ok((header, records))
    }

    fn write_all(records: &[Record]) -> Vec<u8> {
        let header = Header { program: "test".to_owned(), timestamp: 7 };
        let mut writer = Writer::new(Vec::new(), &header).unwrap();
        records.iter().for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap()
    }

    fn record() -> impl Strategy<Value = Record> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        prop_oneof![
            "[a-z]{1,8}".prop_map(Record::Table),
            bytes().prop_map(Record::Row),
            (bytes(), bytes()).prop_map(|(column, value)| Record::Cell(column, value)),
            (any::<i64>(), any::<u64>())
                .prop_map(|(last, cells)| Record::End { last: Timestamp(last), cells }),
        ]
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(records in prop::collection::vec(record(), 0..60)) {
            prop_assert_eq!(read_all(&write_all(&records)).unwrap().1, records);
        }

        #[test]
        fn truncated_or_changed_backups_are_detected(
            records in prop::collection::vec(record(), 0..20),
            at: prop::sample::Index,
            with in 1u8..,
        ) {
            let whole = write_all(&records);
            let at = at.index(whole.len());
            prop_assert!(read_all(&whole[..at]).is_err());
            let mut changed = whole;
            changed[at] ^= with;
            prop_assert!(read_all(&changed).is_err(), "byte {} of {}", at, changed.len());
        }
    }

    #[test]
    fn records_span_blocks_of_a_backup() {
        let cell = |n: u32| Record::Cell(n.to_be_bytes().to_vec().into(), vec![7; 1000].into());
        let records: Vec<_> = (0..2_000).map(cell).collect();
        assert_eq!(read_all(&write_all(&records)).unwrap().1, records);
    }
}
