//! Checksums.db: checksums for the components that Cassandra's format leaves unprotected.
//!
//! In an nb SSTable, Data, Statistics and CRC are protected by checksums; Index, Summary, Filter
//! and CompressionInfo are not, so a flipped bit there can hide a row. This file closes the gap. It
//! is not a component of Cassandra's: listed in TOC.txt, Cassandra treats it as a custom component
//! and ignores it. A table without it is verified completely when it is first opened.
//!
//! ```text
//! u32 version: 1 or 2
//! u32 n, n * (bytes16 component's file name, u64 length, u32 CRC-32)      CompressionInfo, Filter, Summary
//! u64 length of Index.db, u32 block size
//! u32 CRC-32 per block of Index.db
//! u64 length of the rows, u32 block size                                  version 2
//! u32 CRC-32 per block of the rows; 0 in compressed chunks                version 2
//! u32 CRC-32 of all before
//! ```
//!
//! Version 2 is that of SSTables whose rows are mostly stored uncompressed. Cassandra's checksums
//! cover chunks of 16 or 64 KiB there, so a read of one row would read and compare all of a chunk.
//! With its own checksum, a block of a chunk is read alone.

use std::ops::RangeInclusive;

use bytes::BufMut;

use crate::descriptor::Component;
use crate::error::{Malformed, Parsed};
use crate::input::Input;
use crate::output::Output;

/// The version without checksums of blocks of rows.
const VERSION: u32 = 1;
const VERSION_WITH_ROWS: u32 = 2;

/// Bytes of Index.db that are read and verified at once.
pub const INDEX_BLOCK: u32 = 16 << 10;

/// Bytes of uncompressed rows that are read and verified at once, by default.
pub const ROWS_BLOCK: u32 = 4 << 10;
/// Blocks of rows have powers of two in this range.
const ROWS_BLOCKS: RangeInclusive<u32> = 64..=64 << 10;

/// The length and checksum of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileChecksum {
    /// The length in bytes.
    pub length: u64,
    /// Its CRC-32.
    pub crc: u32,
}

impl FileChecksum {
    /// Computes those of this content.
    pub fn of(content: &[u8]) -> Self {
        Self { length: content.len() as u64, crc: crc32fast::hash(content) }
    }
}

/// The content of Checksums.db.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileChecksums {
    /// Files that are read completely.
    pub files: Vec<(Component, FileChecksum)>,
    /// Bytes of Index.db.
    pub index_length: u64,
    /// A checksum for each [`INDEX_BLOCK`] of Index.db.
    pub index_crcs: Vec<u32>,
    /// Those of the rows; `None` if most of them are compressed.
    pub rows: Option<RowsChecksums>,
}

/// Checksums of the rows in Data.db, before compression.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsChecksums {
    /// Bytes of the rows.
    pub length: u64,
    /// Bytes of a block.
    pub block_length: u32,
    /// A checksum for each block, except in chunks that are stored compressed.
    pub crcs: Vec<u32>,
}

impl FileChecksums {
    /// Returns the checksum of a component, if it is listed.
    pub fn of(&self, component: Component) -> Option<FileChecksum> {
        self.files.iter().find(|(of, _)| *of == component).map(|(_, checksum)| *checksum)
    }

    /// Returns the file's content.
    pub fn encode(&self) -> Vec<u8> {
        let of_rows = self.rows.as_ref().map_or(0, |rows| rows.crcs.len());
        let mut out = Vec::with_capacity(128 + 4 * (self.index_crcs.len() + of_rows));
        out.put_u32(if self.rows.is_some() { VERSION_WITH_ROWS } else { VERSION });
        out.put_u32(self.files.len() as u32);
        for (component, checksum) in &self.files {
            out.put_bytes16(component.file_name().as_bytes());
            out.put_u64(checksum.length);
            out.put_u32(checksum.crc);
        }
        put_blocks(self.index_length, INDEX_BLOCK, &self.index_crcs, &mut out);
        if let Some(rows) = &self.rows {
            put_blocks(rows.length, rows.block_length, &rows.crcs, &mut out);
        }
        let crc = crc32fast::hash(&out);
        out.put_u32(crc);
        out
    }

    /// Decodes the file.
    pub fn decode(bytes: &[u8]) -> Parsed<Self> {
        let Some((body, crc)) = bytes.split_last_chunk::<4>() else {
            return Err(Malformed::new(0, "a checksum expected"));
        };
        let (expected, found) = (u32::from_be_bytes(*crc), crc32fast::hash(body));
        if expected != found {
            let detail = format!("checksum {expected:#010x} expected, {found:#010x} found");
            return Err(Malformed::new(body.len() as u64, detail));
        }
        let mut input = Input::new(body);
        let version = input.u32()?;
        if version != VERSION && version != VERSION_WITH_ROWS {
            let detail = format!("version {VERSION} or {VERSION_WITH_ROWS} expected, {version} found");
            return Err(Malformed::new(0, detail));
        }
        let mut files = Vec::new();
        for _ in 0..input.count32(14)? {
            let name = input.utf()?;
            let checksum = FileChecksum { length: input.u64()?, crc: input.u32()? };
            if let Some(component) = Component::from_file_name(name) {
                files.push((component, checksum));
            }
        }
        let (index_length, _, index_crcs) = blocks(&mut input, INDEX_BLOCK..=INDEX_BLOCK)?;
        let rows = if version == VERSION_WITH_ROWS {
            let (length, block_length, crcs) = blocks(&mut input, ROWS_BLOCKS)?;
            Some(RowsChecksums { length, block_length, crcs })
        } else {
            None
        };
        input.end()?;
        Ok(Self { files, index_length, index_crcs, rows })
    }
}

fn put_blocks(length: u64, block: u32, crcs: &[u32], out: &mut Vec<u8>) {
    out.put_u64(length);
    out.put_u32(block);
    crcs.iter().for_each(|crc| out.put_u32(*crc));
}

/// Reads a length, that of a block, and a checksum for each block.
fn blocks(input: &mut Input<'_>, block_lengths: RangeInclusive<u32>) -> Parsed<(u64, u32, Vec<u32>)> {
    let length = input.u64()?;
    let at = input.offset();
    let block = input.u32()?;
    if !block.is_power_of_two() || !block_lengths.contains(&block) {
        return Err(Malformed::new(
            at,
            format!("a length of blocks in {block_lengths:?} expected, {block} found"),
        ));
    }
    let blocks = length.div_ceil(u64::from(block));
    if (input.remaining() as u64) < blocks.saturating_mul(4) {
        let detail = format!("checksums of {blocks} blocks expected, {} bytes left", input.remaining());
        return Err(Malformed::new(at, detail));
    }
    let crcs = (0..blocks).map(|_| input.u32()).collect::<Parsed<_>>()?;
    Ok((length, block, crcs))
}

/// Computes the checksums of a file's blocks while it is written.
#[derive(Debug)]
pub struct BlockChecksums {
    block_length: u64,
    length: u64,
    current: crc32fast::Hasher,
    crcs: Vec<u32>,
}

impl BlockChecksums {
    /// Creates checksums of blocks of `block_length` bytes.
    pub fn new(block_length: u32) -> Self {
        Self {
            block_length: u64::from(block_length),
            length: 0,
            current: crc32fast::Hasher::new(),
            crcs: Vec::new(),
        }
    }

    /// Adds bytes appended to the file.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.block_length - self.length % self.block_length;
            let (now, later) = bytes.split_at((room.min(bytes.len() as u64)) as usize);
            self.current.update(now);
            self.length += now.len() as u64;
            if self.length.is_multiple_of(self.block_length) {
                self.crcs.push(std::mem::take(&mut self.current).finalize());
            }
            bytes = later;
        }
    }

    /// Returns the file's length, and a checksum per block; the last block can be short.
    pub fn finish(mut self) -> (u64, Vec<u32>) {
        if !self.length.is_multiple_of(self.block_length) {
            self.crcs.push(self.current.finalize());
        }
        (self.length, self.crcs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_and_every_flipped_bit_is_seen() {
        for rows in [None, Some(RowsChecksums { length: 8193, block_length: 4096, crcs: vec![3, 0, 5] })] {
            let checksums = FileChecksums {
                files: vec![
                    (Component::Filter, FileChecksum::of(b"abc")),
                    (Component::Summary, FileChecksum::of(b"")),
                ],
                index_length: 20_000,
                index_crcs: vec![1, 2],
                rows,
            };
            let bytes = checksums.encode();
            assert_eq!(FileChecksums::decode(&bytes).unwrap(), checksums);
            for bit in 0..bytes.len() * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(FileChecksums::decode(&bad).is_err());
            }
        }
    }

    #[test]
    fn blocks_do_not_depend_on_how_the_file_was_written() {
        let content: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
        for piece in [1, 7, 64, 100, 1000] {
            let mut blocks = BlockChecksums::new(64);
            content.chunks(piece).for_each(|bytes| blocks.update(bytes));
            let (length, crcs) = blocks.finish();
            assert_eq!(length, 1000);
            assert_eq!(crcs, content.chunks(64).map(crc32fast::hash).collect::<Vec<_>>());
        }
    }
}
