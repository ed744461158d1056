//! Deletions.db: the deletions of an SSTable without its data.
//!
//! A compaction that checks which of its rows newer SSTables delete would read all of their data
//! for the few deletions in it. Therefore a writer that encounters deletions of partitions, ranges
//! or rows stores them a second time, as partitions and rows in the format of Data without any
//! other content. It is not a component of Cassandra's: listed in TOC.txt, Cassandra treats it as a
//! custom component and ignores it. It is optional: an SSTable without it is read through its Data,
//! and so is one whose deletions would take more than a [share](MOST) of its data.
//!
//! ```text
//! compressed chunks, as in Data.db; each is followed by its CRC-32
//! the offsets of the chunks: CompressionInfo.db's content
//! u32 version = 1
//! u64 bytes of the uncompressed Data, u32 CRC-32 of Data.db (as in Digest.crc32)     identify the SSTable
//! u32 length of the offsets of the chunks
//! u32 CRC-32 of everything from the offsets of the chunks on
//! ```

use std::sync::Arc;

use bytes::BufMut;
use cassette_rows::{DecoratedKey, PartitionHeader, Result, StorageError, Unfiltered};

use crate::chunked_file::{Caching, ChunkedFile};
use crate::compression::CompressionInfo;
use crate::data::{Cursor, RowFormat};
use crate::error::{Malformed, Parsed};
use crate::input::Input;

const VERSION: u32 = 1;

/// Bytes after the offsets of the chunks.
pub(crate) const TAIL: u64 = 4 + 8 + 4 + 4 + 4;

/// The limit for deletions: one byte per this many of the data, and this many in any case: an
/// SSTable of tombstones is not stored twice.
pub(crate) const MOST: (u64, u64) = (4, 64 << 10);

/// Identifies a Data component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Belongs {
    /// Bytes of the uncompressed stream.
    pub data_length: u64,
    /// The checksum of the file.
    pub digest: u32,
}

/// Encodes the part after the chunks.
pub(crate) fn encode_end(chunks: &CompressionInfo, belongs: Belongs) -> Vec<u8> {
    let mut out = chunks.encode();
    let length = out.len() as u32;
    out.put_u32(VERSION);
    out.put_u64(belongs.data_length);
    out.put_u32(belongs.digest);
    out.put_u32(length);
    let crc = crc32fast::hash(&out);
    out.put_u32(crc);
    out
}

/// Returns the length of the offsets of the chunks, from the last bytes of a file of `file_length`
/// bytes.
pub(crate) fn decode_tail(tail: &[u8], file_length: u64) -> Parsed<u64> {
    let mut input = Input::at(tail, file_length - TAIL);
    let version = input.u32()?;
    if version != VERSION {
        return Err(input.malformed(format!("version {VERSION} before this expected, {version} found")));
    }
    input.bytes(12)?;
    let length = u64::from(input.u32()?);
    if length <= file_length - TAIL {
        Ok(length)
    } else {
        Err(input.malformed(format!("the places of chunks before this expected, {length} bytes found")))
    }
}

/// Decodes the offsets of the chunks and the identification from everything that follows the
/// chunks, which begins at `chunks_length`.
pub(crate) fn decode_end(end: &[u8], chunks_length: u64) -> Parsed<(CompressionInfo, Belongs)> {
    let Some((body, crc)) = end.split_last_chunk::<4>() else {
        return Err(Malformed::new(chunks_length, "a checksum expected"));
    };
    let (expected, found) = (u32::from_be_bytes(*crc), crc32fast::hash(body));
    if expected != found {
        let detail = format!("checksum {expected:#010x} expected, {found:#010x} found");
        return Err(Malformed::new(chunks_length + body.len() as u64, detail));
    }
    let places = body.len().saturating_sub(TAIL as usize - 4);
    let info = CompressionInfo::decode(&body[..places], chunks_length)?;
    let mut input = Input::at(&body[places..], chunks_length + places as u64);
    input.u32()?;
    Ok((info, Belongs { data_length: input.u64()?, digest: input.u32()? }))
}

/// Iterates over the deletions of an SSTable; partitions are requested in ascending order.
#[derive(Debug)]
pub struct Deletions {
    cursor: Cursor,
    /// The next partition; its rows follow.
    next: Option<PartitionHeader>,
    /// Whether rows of a partition are still to be read or skipped.
    in_partition: bool,
    /// Partitions read so far, including `next`.
    met: u64,
}

impl Deletions {
    /// Reads from `file`, the decompressed component.
    pub(crate) fn new(file: Arc<ChunkedFile>, format: Arc<RowFormat>) -> Result<Self> {
        let mut deletions = Self {
            cursor: Cursor::new(file, format, Caching::LeaveAlone),
            next: None,
            in_partition: false,
            met: 0,
        };
        deletions.read_next()?;
        Ok(deletions)
    }

    fn read_next(&mut self) -> Result<()> {
        if std::mem::take(&mut self.in_partition) {
            self.cursor.skip_partition()?;
        }
        self.next = None;
        if !self.cursor.at_end() {
            self.next = Some(self.cursor.partition_header()?);
            self.in_partition = true;
            self.met += 1;
        }
        Ok(())
    }

    /// Returns whether this partition has deletions. Partitions must be requested in ascending
    /// order.
    #[inline]
    pub fn has(&mut self, key: &DecoratedKey) -> Result<bool> {
        loop {
            match &self.next {
                Some(next) if next.key < *key => self.read_next()?,
                Some(next) => return Ok(next.key == *key),
                None => return Ok(false),
            }
        }
    }

    /// Returns the head of the partition, if it has deletions; in the order of [`has`](Self::has).
    pub fn open(&mut self, key: &DecoratedKey) -> Result<Option<PartitionHeader>> {
        Ok(if self.has(key)? { self.next.clone() } else { None })
    }

    /// Returns the next deleted row or marker of the opened partition.
    pub fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        if !self.in_partition {
            return Ok(None);
        }
        let next = self.cursor.next_unfiltered()?;
        self.in_partition = next.is_some();
        Ok(next)
    }

    /// Returns the number of partitions read so far, including the next one.
    pub fn partitions(&self) -> u64 {
        self.met
    }

    /// Returns its position in the file's uncompressed stream, for errors.
    #[cold]
    pub(crate) fn corrupt(&self, detail: &str) -> StorageError {
        self.cursor.corrupt(self.cursor.offset(), detail)
    }

    /// Returns the bytes read so far, before compression.
    pub fn position(&self) -> u64 {
        self.cursor.offset()
    }
}
