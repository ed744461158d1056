//! A file read in chunks, each verified before it is used.
//!
//! Data of a compressed table consists of compressed chunks, each with a checksum; Data of others,
//! and Index, of blocks whose checksums are in another file.

mod blocks;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use cassette_rows::{Result, StorageError};
use cassette_vfs::RandomAccessFile;

use self::blocks::Blocks;
pub(crate) use self::blocks::Piece;
use crate::chunk_cache::{ChunkCache, buffer};
use crate::compression::{CHUNK_CRC_LENGTH, CompressionInfo, StoredChunk};
use crate::passage::{LONG_RUN, Loaded, Passage};
use crate::read_ahead::{FILE_WINDOW, ReadAhead, SCAN_WINDOW};
use crate::waiting::{may_wait, starts_reads};

/// The longest stored chunk for which a thread keeps a buffer: every chunk of default settings, and
/// most others.
const KEPT_BUFFER: usize = 128 << 10;

thread_local! {
    /// The buffer of a chunk before decompression.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The layout of the stream in the file.
#[derive(Debug)]
pub enum Layout {
    /// In compressed chunks.
    Compressed(CompressionInfo),
    /// Uncompressed.
    Plain {
        /// Bytes per chunk.
        chunk_length: u32,
        /// A checksum per chunk; `None` for an Index without checksums (see `checksums`).
        crcs: Option<Box<[u32]>>,
    },
}

/// An open file and its chunks.
pub struct ChunkedFile {
    path: PathBuf,
    file: Arc<dyn RandomAccessFile>,
    file_length: u64,
    data_length: u64,
    chunk_length: u64,
    layout: Layout,
    cache: Arc<ChunkCache>,
    /// The file's number in the cache.
    number: u64,
    mapped: Option<Mapped>,
    /// Where its rows can be read in blocks.
    blocks: Option<Blocks>,
    loaded: Loaded,
}

/// A mapped file. Uncompressed chunks are slices of it, once verified; the cache does not store
/// them.
struct Mapped {
    bytes: Bytes,
    /// A bit for each chunk that has been verified.
    verified: Box<[AtomicU64]>,
}

impl Mapped {
    fn is_verified(&self, chunk: u64) -> bool {
        let word = self.verified.get((chunk / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (chunk % 64)) != 0)
    }

    fn note_verified(&self, chunk: u64) {
        if let Some(word) = self.verified.get((chunk / 64) as usize) {
            word.fetch_or(1 << (chunk % 64), Ordering::Relaxed);
        }
    }
}

/// Whether a read stores its chunks in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// Look up chunks in the cache, and store missing ones.
    Use,
    /// Look up chunks in the cache without changing it, and have the operating system drop what it
    /// loads, too: for compactions and other readers of long ranges, each of which is read once.
    LeaveAlone,
}

impl std::fmt::Debug for ChunkedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkedFile")
            .field("path", &self.path)
            .field("data_length", &self.data_length)
            .finish()
    }
}

/// Bytes of a stored chunk and its checksum.
fn stored_length(stored: &StoredChunk) -> usize {
    stored.stored_length + CHUNK_CRC_LENGTH as usize
}

impl ChunkedFile {
    /// Returns the cache of its chunks.
    pub fn cache(&self) -> &Arc<ChunkCache> {
        &self.cache
    }

    /// `file_length` is the length against which the layout was checked.
    pub fn new(
        path: PathBuf,
        file: Arc<dyn RandomAccessFile>,
        file_length: u64,
        layout: Layout,
        cache: Arc<ChunkCache>,
    ) -> Self {
        let (data_length, chunk_length) = match &layout {
            Layout::Compressed(info) => (info.data_length, info.format.chunk_length),
            Layout::Plain { chunk_length, .. } => (file_length, *chunk_length),
        };
        let number = cache.register_file();
        // Sequential readers request chunks themselves: see `ReadAhead`.
        file.expect_random_reads();
        Self {
            path,
            file,
            file_length,
            data_length,
            chunk_length: u64::from(chunk_length),
            layout,
            cache,
            number,
            mapped: None,
            blocks: None,
            loaded: Loaded::default(),
        }
    }

    /// Maps the file into memory where that is supported: see
    /// [`RandomAccessFile::map`](cassette_vfs::RandomAccessFile::map).
    pub fn mapped(mut self) -> Result<Self> {
        let bytes = self.file.map().map_err(|e| StorageError::io(&self.path, "map the file", e))?;
        // A file that has become shorter is read instead, which reports the error.
        let bytes = bytes.filter(|bytes| bytes.len() as u64 >= self.file_length);
        let words = self.data_length.div_ceil(self.chunk_length).div_ceil(64);
        self.mapped =
            bytes.map(|bytes| Mapped { bytes, verified: (0..words).map(|_| AtomicU64::new(0)).collect() });
        Ok(self)
    }

    /// Returns whether the file is mapped.
    pub fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length of the stream.
    pub fn data_length(&self) -> u64 {
        self.data_length
    }

    /// Returns the length of the file.
    pub fn file_length(&self) -> u64 {
        self.file_length
    }

    /// Returns the bytes of the stream in each chunk except the last.
    pub fn chunk_length(&self) -> u64 {
        self.chunk_length
    }

    /// Returns the heap bytes of the checksums of its chunks, if it is uncompressed, and of its
    /// blocks.
    pub(crate) fn checksums_heap_size(&self) -> usize {
        let of_chunks = match &self.layout {
            Layout::Plain { crcs: Some(crcs), .. } => size_of_val::<[u32]>(crcs),
            Layout::Plain { crcs: None, .. } | Layout::Compressed(_) => 0,
        };
        of_chunks + self.blocks.as_ref().map_or(0, Blocks::heap_size)
    }

    /// Returns the layout of the stream in the file.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the verified bytes of chunk `index` of the stream.
    #[inline]
    pub fn chunk(&self, index: u64, caching: Caching) -> Result<Bytes> {
        self.chunk_after(index, caching, &mut ReadAhead::new())
    }

    /// Does [`Self::chunk`] for a reader that may be sequential.
    #[inline]
    pub(crate) fn chunk_after(&self, index: u64, caching: Caching, ahead: &mut ReadAhead) -> Result<Bytes> {
        ahead.reads(index);
        if let Some(mapped) = &self.mapped {
            self.read_ahead(ahead, caching);
            if let Some(chunk) = self.mapped_chunk(mapped, index)? {
                return Ok(chunk);
            }
        }
        if let Some(chunk) = self.cache.get(self.number, index) {
            return Ok(chunk);
        }
        let started = Instant::now();
        let passed = if caching == Caching::LeaveAlone { self.pass(index, ahead)? } else { None };
        let chunk = match passed {
            Some(chunk) => Ok(chunk),
            None => {
                self.read_ahead(ahead, caching);
                self.read_chunk(index)
            }
        };
        if starts_reads() && matches!(chunk, Err(StorageError::WouldBlock { .. })) {
            let (start, end) = (self.offset_of(index), self.offset_of(index + 1));
            self.file.will_need(start, end.saturating_sub(start));
        }
        let chunk = chunk?;
        self.cache.record_miss(started.elapsed());
        if caching == Caching::Use {
            self.cache.insert(self.number, index, chunk.clone());
            if let Some(blocks) = &self.blocks {
                blocks.note_cached_chunk();
            }
        }
        Ok(chunk)
    }

    /// Requests the chunks that a sequential reader will read soon.
    #[inline]
    pub(crate) fn read_ahead(&self, ahead: &mut ReadAhead, caching: Caching) {
        let window = match caching {
            Caching::Use => SCAN_WINDOW,
            Caching::LeaveAlone => FILE_WINDOW,
        };
        // Without a wait nothing is requested, so nothing must be recorded as requested.
        if may_wait()
            && let Some(chunks) = ahead.request(self.chunk_length, window)
        {
            let (start, end) = (self.offset_of(chunks.start), self.offset_of(chunks.end));
            self.file.will_need(start, end.saturating_sub(start));
        }
    }

    /// Reads chunk `index` for a reader of a long range, in its single pass; `None` for others, or
    /// if the chunk must be read for itself.
    fn pass(&self, index: u64, ahead: &mut ReadAhead) -> Result<Option<Bytes>> {
        if self.mapped.is_some() || !may_wait() || !ahead.is_long(self.chunk_length, LONG_RUN) {
            return Ok(None);
        }
        let end = self.offset_of(ahead.end());
        let passage = ahead.passage.get_or_insert_with(|| Passage::over(&*self.file));
        passage.comes_to(self.offset_of(index), &*self.file, self.file_length, &self.loaded);
        match &self.layout {
            Layout::Compressed(info) => {
                let stored = info.chunk(index, self.file_length).ok_or_else(|| self.past_end(index))?;
                let Some(bytes) = passage.read(stored.offset, stored_length(&stored), end) else {
                    return Ok(None);
                };
                let body = self.check_stored(stored.offset, &bytes)?;
                if stored.raw {
                    self.check_raw_length(info, &stored, body)?;
                    return Ok(Some(bytes.slice(..stored.plain_length)));
                }
                let plain = passage.buffer(stored.plain_length);
                let chunk = self.decompressed(info, &stored, body, plain)?;
                passage.keep(&chunk);
                Ok(Some(chunk))
            }
            Layout::Plain { crcs, .. } => {
                let (offset, length) = self.plain_place(index)?;
                let Some(bytes) = passage.read(offset, length, end) else { return Ok(None) };
                if let Some(crcs) = crcs {
                    self.check_crc(offset, self.crc_of(crcs, index)?, crc32fast::hash(&bytes))?;
                }
                Ok(Some(bytes))
            }
        }
    }

    /// Lets the operating system drop the file from memory.
    pub(crate) fn will_not_need(&self) {
        self.file.will_not_need(0, self.file_length);
    }

    /// Returns how many bytes of the file the operating system has in memory; `None` if it does
    /// not report that.
    pub(crate) fn cached_bytes(&self) -> Option<u64> {
        self.file.cached_bytes(0, self.file_length)
    }

    /// Requests the chunks after `index` at intervals, for readers that copy a file from chunk to
    /// chunk.
    pub(crate) fn read_ahead_of_copy(&self, index: u64) {
        const INTERVAL: u64 = 32;
        if index.is_multiple_of(INTERVAL) {
            let chunks = index + 1..index + 1 + 2 * INTERVAL;
            let (start, end) = (self.offset_of(chunks.start), self.offset_of(chunks.end));
            self.file.will_need(start, end.saturating_sub(start));
        }
    }

    /// Requests `length` bytes of the file from chunk `first` on.
    pub(crate) fn request(&self, first: u64, length: u64) {
        let start = self.offset_of(first);
        self.file.will_need(start, length.min(self.file_length - start));
    }

    /// Returns the offset of chunk `index` in the file; the file's length beyond the last one.
    fn offset_of(&self, index: u64) -> u64 {
        let offset = match &self.layout {
            Layout::Compressed(info) => info.chunk(index, self.file_length).map(|stored| stored.offset),
            Layout::Plain { .. } => index.checked_mul(self.chunk_length),
        };
        offset.unwrap_or(self.file_length).min(self.file_length)
    }

    /// Reads and verifies chunk `index`, bypassing the cache.
    pub fn read_chunk(&self, index: u64) -> Result<Bytes> {
        match &self.layout {
            Layout::Compressed(info) => self.read_compressed(info, index),
            Layout::Plain { crcs, .. } => self.read_plain(crcs.as_deref(), index),
        }
    }

    /// Returns chunk `index` of a compressed file as it is stored, followed by its checksum, with
    /// which it has been compared.
    pub fn stored_chunk(&self, index: u64) -> Result<Bytes> {
        let Layout::Compressed(info) = &self.layout else { return self.read_chunk(index) };
        self.read_ahead_of_copy(index);
        let stored = info.chunk(index, self.file_length).ok_or_else(|| self.past_end(index))?;
        let mut bytes = buffer(stored_length(&stored));
        self.read(stored.offset, &mut bytes)?;
        self.check_stored(stored.offset, &bytes)?;
        Ok(bytes.freeze())
    }

    /// Reads the chunks of a compressed file from `first` on, as they are stored, each followed by
    /// its checksum, with which it has been compared: as many as are adjacent and have `room` bytes
    /// together, and at least one. Replaces the content of `buffer`. Returns the number of chunks.
    pub fn stored_chunks(&self, first: u64, room: usize, buffer: &mut Vec<u8>) -> Result<u64> {
        let Layout::Compressed(info) = &self.layout else {
            buffer.clear();
            buffer.extend_from_slice(&self.read_chunk(first)?);
            return Ok(1);
        };
        let start = info.chunk(first, self.file_length).ok_or_else(|| self.past_end(first))?;
        let mut lengths = vec![stored_length(&start)];
        let mut length = lengths[0];
        for index in first + 1.. {
            let Some(next) = info.chunk(index, self.file_length) else { break };
            let of_next = stored_length(&next);
            if next.offset != start.offset + length as u64 || length + of_next > room {
                break;
            }
            lengths.push(of_next);
            length += of_next;
        }
        buffer.resize(length, 0);
        self.read(start.offset, buffer)?;
        let mut rest = &buffer[..];
        let mut offset = start.offset;
        for of_chunk in &lengths {
            let (chunk, after) = rest.split_at(*of_chunk);
            self.check_stored(offset, chunk)?;
            (rest, offset) = (after, offset + *of_chunk as u64);
        }
        Ok(lengths.len() as u64)
    }

    /// Returns chunk `index` as a slice of the mapped file; `None` if it is compressed, has no
    /// checksum, or has not been verified yet and this thread may not wait for a disk.
    fn mapped_chunk(&self, mapped: &Mapped, index: u64) -> Result<Option<Bytes>> {
        match &self.layout {
            Layout::Compressed(info) => {
                let stored = info.chunk(index, self.file_length).ok_or_else(|| self.past_end(index))?;
                if !stored.raw {
                    return Ok(None);
                }
                self.verified_once(mapped, index, (stored.offset, stored.plain_length), || {
                    let bytes = self.mapped_bytes(mapped, stored.offset, stored_length(&stored))?;
                    self.check_raw_length(info, &stored, self.check_stored(stored.offset, bytes)?)
                })
            }
            Layout::Plain { crcs: Some(crcs), .. } => {
                let (offset, length) = self.plain_place(index)?;
                self.verified_once(mapped, index, (offset, length), || {
                    let bytes = self.mapped_bytes(mapped, offset, length)?;
                    self.check_crc(offset, self.crc_of(crcs, index)?, crc32fast::hash(bytes))
                })
            }
            Layout::Plain { crcs: None, .. } => Ok(None),
        }
    }

    fn verified_once(
        &self,
        mapped: &Mapped,
        index: u64,
        (offset, length): (u64, usize),
        verify: impl FnOnce() -> Result<()>,
    ) -> Result<Option<Bytes>> {
        if !mapped.is_verified(index) {
            if !may_wait() {
                return Ok(None);
            }
            // The checksum accesses every page, and each would be loaded by its own fault.
            self.file.will_need(offset, length as u64);
            verify()?;
            mapped.note_verified(index);
        }
        Ok(Some(mapped.bytes.slice_ref(self.mapped_bytes(mapped, offset, length)?)))
    }

    fn mapped_bytes<'m>(&self, mapped: &'m Mapped, offset: u64, length: usize) -> Result<&'m [u8]> {
        let rest = usize::try_from(offset).ok().and_then(|offset| mapped.bytes.get(offset..));
        rest.and_then(|rest| rest.get(..length))
            .ok_or_else(|| self.corrupt(offset, format!("{length} bytes expected, the file ends before")))
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len();
        let read = if may_wait() {
            self.file.read_exact_at(buffer, offset).map(|()| true)
        } else {
            self.file.read_exact_at_once(buffer, offset)
        };
        self.check_read(read, offset, length)
    }

    fn check_read(&self, read: std::io::Result<bool>, offset: u64, length: usize) -> Result<()> {
        match read {
            Ok(true) => Ok(()),
            Ok(false) => Err(StorageError::WouldBlock { path: self.path.clone() }),
            Err(e) => Err(StorageError::io(&self.path, format!("read {length} bytes at {offset}"), e)),
        }
    }

    fn corrupt(&self, offset: u64, detail: String) -> StorageError {
        StorageError::corrupt(&self.path, format!("chunk at {offset}: {detail}"))
    }

    fn past_end(&self, index: u64) -> StorageError {
        StorageError::corrupt(&self.path, format!("chunk {index} expected, the file has fewer"))
    }

    fn read_compressed(&self, info: &CompressionInfo, index: u64) -> Result<Bytes> {
        let stored = info.chunk(index, self.file_length).ok_or_else(|| self.past_end(index))?;
        let length = stored_length(&stored);
        if stored.raw {
            // Without the checksum, for which allocators would use a quarter more memory as long as
            // the chunk is cached.
            let mut buffer = buffer(stored.stored_length);
            let mut crc = [0; CHUNK_CRC_LENGTH as usize];
            let read = self.file.read_pair_at((&mut buffer, &mut crc), stored.offset, may_wait());
            self.check_read(read, stored.offset, length)?;
            self.check_crc(stored.offset, u32::from_be_bytes(crc), crc32fast::hash(&buffer))?;
            self.check_raw_length(info, &stored, &buffer)?;
            buffer.truncate(stored.plain_length);
            return Ok(buffer.freeze());
        }
        let decompress = |stored_bytes: &[u8]| {
            let body = self.check_stored(stored.offset, stored_bytes)?;
            self.decompressed(info, &stored, body, buffer(stored.plain_length))
        };
        if let Some(mapped) = self.mapped.as_ref().filter(|_| may_wait()) {
            self.file.will_need(stored.offset, length as u64);
            return decompress(self.mapped_bytes(mapped, stored.offset, length)?);
        }
        let read_and_decompress = |stored_bytes: &mut [u8]| {
            self.read(stored.offset, stored_bytes)?;
            decompress(stored_bytes)
        };
        if length > KEPT_BUFFER {
            return read_and_decompress(&mut vec![0; length]);
        }
        STORED.with_borrow_mut(|buffer| {
            // Zeros are written once per thread, not for each chunk.
            if buffer.len() < length {
                buffer.resize(length, 0);
            }
            read_and_decompress(&mut buffer[..length])
        })
    }

    /// `plain` has the length of the decompressed chunk.
    fn decompressed(
        &self,
        info: &CompressionInfo,
        stored: &StoredChunk,
        body: &[u8],
        mut plain: BytesMut,
    ) -> Result<Bytes> {
        let done = info.format.compressor.decompress(body, &mut plain);
        done.map_err(|e| self.corrupt(stored.offset, e))?;
        Ok(plain.freeze())
    }

    /// Returns the chunk within a stored chunk followed by its checksum.
    fn check_stored<'b>(&self, offset: u64, stored: &'b [u8]) -> Result<&'b [u8]> {
        let Some((body, crc)) = stored.split_last_chunk::<4>() else {
            return Err(self.corrupt(offset, "a chunk with its checksum expected".into()));
        };
        self.check_crc(offset, u32::from_be_bytes(*crc), crc32fast::hash(body))?;
        Ok(body)
    }

    /// Raw chunks are as long as their data, except that the last one may be padded to the minimum
    /// length of a raw chunk.
    fn check_raw_length(&self, info: &CompressionInfo, stored: &StoredChunk, found: &[u8]) -> Result<()> {
        let padded = stored.plain_length.max(info.format.max_compressed_length as usize);
        if found.len() != padded && found.len() != stored.plain_length {
            let detail = format!("{padded} raw bytes expected, {} found", found.len());
            return Err(self.corrupt(stored.offset, detail));
        }
        Ok(())
    }

    /// Returns offset and length of chunk `index` of an uncompressed file.
    fn plain_place(&self, index: u64) -> Result<(u64, usize)> {
        let offset = index.saturating_mul(self.chunk_length);
        match self.data_length.saturating_sub(offset).min(self.chunk_length) {
            0 => Err(self.past_end(index)),
            length => Ok((offset, length as usize)),
        }
    }

    fn crc_of(&self, crcs: &[u32], index: u64) -> Result<u32> {
        let expected = usize::try_from(index).ok().and_then(|index| crcs.get(index));
        expected.copied().ok_or_else(|| self.past_end(index))
    }

    fn read_plain(&self, crcs: Option<&[u32]>, index: u64) -> Result<Bytes> {
        let (offset, length) = self.plain_place(index)?;
        let mut buffer = buffer(length);
        self.read(offset, &mut buffer)?;
        if let Some(crcs) = crcs {
            self.check_crc(offset, self.crc_of(crcs, index)?, crc32fast::hash(&buffer))?;
        }
        Ok(buffer.freeze())
    }

    fn check_crc(&self, offset: u64, expected: u32, found: u32) -> Result<()> {
        if expected == found {
            Ok(())
        } else {
            Err(self.corrupt(offset, format!("checksum {expected:#010x} expected, {found:#010x} found")))
        }
    }

    /// Returns bytes `start..end` of the stream in one piece: a slice of a chunk, or a copy from
    /// several. Fails beyond the stream's end.
    pub fn range(&self, start: u64, end: u64, caching: Caching) -> Result<Bytes> {
        if start > end || end > self.data_length {
            return Err(StorageError::corrupt(
                &self.path,
                format!("bytes {start}..{end} expected, the file has {}", self.data_length),
            ));
        }
        if start == end {
            return Ok(Bytes::new());
        }
        let (first, last) = (start / self.chunk_length, (end - 1) / self.chunk_length);
        let within = |chunk: &Bytes, index: u64| {
            let base = index * self.chunk_length;
            let from = start.saturating_sub(base) as usize;
            let to = (end - base).min(chunk.len() as u64) as usize;
            chunk.slice(from..to)
        };
        if first == last {
            return Ok(within(&self.chunk(first, caching)?, first));
        }
        let mut out = Vec::with_capacity((end - start) as usize);
        for index in first..=last {
            out.extend_from_slice(&within(&self.chunk(index, caching)?, index));
        }
        Ok(out.into())
    }
}
