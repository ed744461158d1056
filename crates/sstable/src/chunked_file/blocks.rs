//! Blocks of chunks that are stored uncompressed, read without the rest of their chunks.
//!
//! A read of one row needs a few hundred bytes of a chunk of 16 or 64 KiB. Where Checksums.db has
//! checksums of blocks, it reads, verifies and caches one block or two instead. Scans read chunks:
//! they need the following blocks, too, and a disk loads four at once as fast as one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use cassette_rows::{Result, StorageError};

use super::{Caching, ChunkedFile, Layout};
use crate::checksums::RowsChecksums;
use crate::chunk_cache::buffer;
use crate::read_ahead::ReadAhead;
use crate::waiting::{may_wait, starts_reads};

/// The checksums of a file's blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Bytes of a block. Chunks are longer.
    length: u64,
    /// The checksum of each block of the stream; arbitrary in compressed chunks.
    crcs: Box<[u32]>,
    /// The number of the blocks in the cache: that of a file.
    number: u64,
    /// The mean length of a partition, at most two blocks.
    partition_length: u64,
    /// Whether a chunk of the file was put into the cache, so that blocks may be found there.
    has_cached_chunks: AtomicBool,
}

/// The place of a block in a file.
struct Place {
    offset: u64,
    length: usize,
    /// The length of the block after it; 0 if the chunk ends.
    next_length: usize,
}

/// Verified bytes of the stream: those of a chunk, or of a block of one.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Offset in the stream.
    pub start: u64,
    /// Never empty.
    pub bytes: Bytes,
}

impl Blocks {
    pub(super) fn heap_size(&self) -> usize {
        size_of_val::<[u32]>(&self.crcs)
    }

    /// Records that a chunk of the file was put into the cache.
    pub(super) fn note_cached_chunk(&self) {
        // Most are not the first: those only read, and do not take the cache line from readers.
        if !self.has_cached_chunks.load(Ordering::Relaxed) {
            self.has_cached_chunks.store(true, Ordering::Relaxed);
        }
    }
}

impl ChunkedFile {
    /// Has the rows of partitions read in blocks, unless partitions, which have `partition_length`
    /// bytes in the mean, are longer than two of these. Fails if `checksums` are those of other
    /// rows.
    pub(crate) fn with_blocks(mut self, checksums: RowsChecksums, partition_length: u64) -> Result<Self> {
        if checksums.length != self.data_length {
            return Err(StorageError::corrupt(
                &self.path,
                format!(
                    "{} bytes of rows expected by Checksums.db, {} found",
                    checksums.length, self.data_length
                ),
            ));
        }
        let length = u64::from(checksums.block_length);
        if self.chunk_length > length && partition_length <= 2 * length {
            let number = self.cache.register_file();
            let has_cached_chunks = AtomicBool::new(false);
            let crcs = checksums.crcs.into();
            self.blocks = Some(Blocks { length, crcs, number, partition_length, has_cached_chunks });
        }
        Ok(self)
    }

    /// Returns the bytes around `offset`, for a reader of a partition, which may turn out to be a
    /// long one.
    #[inline]
    pub(crate) fn piece_of_partition(&self, offset: u64, ahead: &mut ReadAhead) -> Result<Piece> {
        let chunk = offset / self.chunk_length;
        if let Some(blocks) = &self.blocks
            && self.mapped.is_none()
        {
            ahead.reads(chunk);
            if !ahead.reads_whole_chunks()
                && let Some(piece) = self.block(blocks, chunk, offset)?
            {
                return Ok(piece);
            }
        }
        let bytes = self.chunk_after(chunk, Caching::Use, ahead)?;
        Ok(Piece { start: chunk * self.chunk_length, bytes })
    }

    /// Returns whether a piece may end at `offset`.
    #[inline]
    pub(crate) fn may_end_piece(&self, offset: u64) -> bool {
        let shortest = self.blocks.as_ref().map_or(self.chunk_length, |blocks| blocks.length);
        offset.is_multiple_of(shortest) || offset >= self.data_length
    }

    /// Returns the block with `offset` of chunk `chunk`; `None` if the chunk is compressed.
    fn block(&self, blocks: &Blocks, chunk: u64, offset: u64) -> Result<Option<Piece>> {
        let number = offset / blocks.length;
        let start = number * blocks.length;
        if let Some(bytes) = self.cache.peek(blocks.number, number) {
            return Ok(Some(Piece { start, bytes }));
        }
        let Some(place) = self.place_of_block(blocks, chunk, start)? else { return Ok(None) };
        // A scan may have read the whole chunk. For most files none has, and the lookup of a random
        // chunk would wait for memory.
        if !blocks.has_cached_chunks.load(Ordering::Relaxed) {
            self.cache.count_miss();
        } else if let Some(bytes) = self.cache.get(self.number, chunk) {
            return Ok(Some(Piece { start: chunk * self.chunk_length, bytes }));
        }
        let started = Instant::now();
        let needs_next = offset - start + blocks.partition_length > blocks.length;
        let mut bytes = buffer(place.length);
        let mut next = buffer(if needs_next { place.next_length } else { 0 });
        let length = bytes.len() + next.len();
        let read = self.file.read_pair_at((&mut bytes, &mut next), place.offset, may_wait());
        let read = self.check_read(read, place.offset, length);
        if starts_reads() && matches!(read, Err(StorageError::WouldBlock { .. })) {
            self.file.will_need(place.offset, length as u64);
        }
        read?;
        let bytes = self.verified_block(blocks, number, place.offset, bytes.freeze())?;
        self.cache.record_miss(started.elapsed());
        self.cache.insert(blocks.number, number, bytes.clone());
        if !next.is_empty() {
            let at = place.offset + bytes.len() as u64;
            let next = self.verified_block(blocks, number + 1, at, next.freeze())?;
            self.cache.insert(blocks.number, number + 1, next);
        }
        Ok(Some(Piece { start, bytes }))
    }

    fn verified_block(&self, blocks: &Blocks, number: u64, offset: u64, bytes: Bytes) -> Result<Bytes> {
        self.check_crc(offset, self.crc_of(&blocks.crcs, number)?, crc32fast::hash(&bytes))?;
        Ok(bytes)
    }

    /// Returns the place of the block at `start` of the stream; `None` in a compressed chunk.
    fn place_of_block(&self, blocks: &Blocks, chunk: u64, start: u64) -> Result<Option<Place>> {
        let (offset, chunk_length) = match &self.layout {
            Layout::Compressed(info) => {
                let stored = info.chunk(chunk, self.file_length).ok_or_else(|| self.past_end(chunk))?;
                if !stored.raw {
                    return Ok(None);
                }
                (stored.offset, stored.plain_length)
            }
            Layout::Plain { .. } => self.plain_place(chunk)?,
        };
        let within = start - chunk * self.chunk_length;
        let rest = (chunk_length as u64).saturating_sub(within);
        let length = rest.min(blocks.length);
        if length == 0 {
            return Err(self.past_end(chunk));
        }
        Ok(Some(Place {
            offset: offset.saturating_add(within),
            length: length as usize,
            next_length: (rest - length).min(blocks.length) as usize,
        }))
    }

    /// Compares all blocks with their checksums.
    pub(crate) fn verify_blocks(&self) -> Result<()> {
        let Some(blocks) = &self.blocks else { return Ok(()) };
        for chunk in 0..self.data_length.div_ceil(self.chunk_length) {
            let first = chunk * self.chunk_length;
            let Some(place) = self.place_of_block(blocks, chunk, first)? else { continue };
            self.read_ahead_of_copy(chunk);
            let bytes = self.read_chunk(chunk)?;
            let crcs = blocks.crcs.iter().skip((first / blocks.length) as usize);
            for (index, (block, expected)) in bytes.chunks(blocks.length as usize).zip(crcs).enumerate() {
                let at = place.offset + index as u64 * blocks.length;
                self.check_crc(at, *expected, crc32fast::hash(block))?;
            }
        }
        Ok(())
    }
}
