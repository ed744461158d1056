//! A file read in chunks, each verified before it is used.
//!
//! Data of a compressed table comes in compressed chunks with a checksum each; Data of others, and Index, in blocks of
//! the plain file whose checksums lie in another file.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use cassette_rows::{Result, StorageError};
use cassette_vfs::RandomAccessFile;

use crate::chunk_cache::{ChunkCache, buffer};
use crate::compression::{CHUNK_CRC_LENGTH, CompressionInfo, StoredChunk};
use crate::waiting::may_wait;

/// The longest stored chunk for which a thread keeps a buffer: all that defaults make, and most others.
const KEPT_BUFFER: usize = 128 << 10;

thread_local! {
    /// Where chunks are read before they are decompressed.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How the stream lies in the file.
#[derive(Debug)]
pub enum Layout {
    /// In compressed chunks.
    Compressed(CompressionInfo),
    /// As it is.
    Plain {
        /// Bytes in a chunk.
        chunk_length: u32,
        /// A checksum per chunk; `None` for an Index that has none (see `checksums`).
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
    /// What the cache calls this file.
    number: u64,
    mapped: Option<Mapped>,
}

/// A file in the system's memory. Chunks that are stored as they are read are slices of it, once verified there, and the
/// cache has nothing to do with them.
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

/// Whether a read leaves its chunks in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// Look into the cache, and put there what is read.
    Use,
    /// Look into the cache, but leave it as it is: for compactions and other reads of everything.
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
    /// Where its chunks are kept.
    pub fn cache(&self) -> &Arc<ChunkCache> {
        &self.cache
    }

    /// `file_length` is the length that the layout was checked against.
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
        }
    }

    /// Has the system hold the file in memory, where it can: see
    /// [`RandomAccessFile::map`](cassette_vfs::RandomAccessFile::map).
    pub fn mapped(mut self) -> Result<Self> {
        let bytes = self.file.map().map_err(|e| StorageError::io(&self.path, "map the file", e))?;
        // One that is shorter by now is read, which says so.
        let bytes = bytes.filter(|bytes| bytes.len() as u64 >= self.file_length);
        let words = self.data_length.div_ceil(self.chunk_length).div_ceil(64);
        self.mapped =
            bytes.map(|bytes| Mapped { bytes, verified: (0..words).map(|_| AtomicU64::new(0)).collect() });
        Ok(self)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the stream.
    pub fn data_length(&self) -> u64 {
        self.data_length
    }

    /// Bytes of the file.
    pub fn file_length(&self) -> u64 {
        self.file_length
    }

    /// Bytes of the stream in each chunk but the last.
    pub fn chunk_length(&self) -> u64 {
        self.chunk_length
    }

    /// How the stream lies in the file.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The verified bytes of chunk `index` of the stream.
    #[inline]
    pub fn chunk(&self, index: u64, caching: Caching) -> Result<Bytes> {
        if let Some(mapped) = &self.mapped
            && let Some(chunk) = self.mapped_chunk(mapped, index)?
        {
            return Ok(chunk);
        }
        if let Some(chunk) = self.cache.get(self.number, index) {
            return Ok(chunk);
        }
        let started = Instant::now();
        let chunk = self.read_chunk(index)?;
        self.cache.record_miss(started.elapsed());
        if caching == Caching::Use {
            self.cache.insert(self.number, index, chunk.clone());
        }
        Ok(chunk)
    }

    /// Reads and verifies chunk `index`, whatever the cache holds.
    pub fn read_chunk(&self, index: u64) -> Result<Bytes> {
        match &self.layout {
            Layout::Compressed(info) => self.read_compressed(info, index),
            Layout::Plain { crcs, .. } => self.read_plain(crcs.as_deref(), index),
        }
    }

    /// Chunk `index` as a slice of the mapped file; `None` if it is compressed, has no checksum, or has not been verified
    /// yet and this thread may not wait for a disk.
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
        let read = match may_wait() {
            true => self.file.read_exact_at(buffer, offset).map(|()| true),
            false => self.file.read_exact_at_once(buffer, offset),
        };
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
            // Without the checksum, for which allocators would give a quarter more memory for as long as the chunk is cached.
            let mut buffer = buffer(stored.stored_length);
            let mut crc = [0; CHUNK_CRC_LENGTH as usize];
            self.read(stored.offset, &mut buffer)?;
            self.read(stored.offset + stored.stored_length as u64, &mut crc)?;
            self.check_crc(stored.offset, u32::from_be_bytes(crc), crc32fast::hash(&buffer))?;
            self.check_raw_length(info, &stored, &buffer)?;
            buffer.truncate(stored.plain_length);
            return Ok(buffer.freeze());
        }
        let decompress = |stored_bytes: &[u8]| {
            let body = self.check_stored(stored.offset, stored_bytes)?;
            let mut plain = buffer(stored.plain_length);
            let done = info.format.compressor.decompress(body, &mut plain);
            done.map_err(|e| self.corrupt(stored.offset, e))?;
            Ok(plain.freeze())
        };
        if let Some(mapped) = self.mapped.as_ref().filter(|_| may_wait()) {
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
            // Zeros are written once a thread, not for each chunk.
            if buffer.len() < length {
                buffer.resize(length, 0);
            }
            read_and_decompress(&mut buffer[..length])
        })
    }

    /// The chunk of a stored chunk with its checksum behind it.
    fn check_stored<'b>(&self, offset: u64, stored: &'b [u8]) -> Result<&'b [u8]> {
        let Some((body, crc)) = stored.split_last_chunk::<4>() else {
            return Err(self.corrupt(offset, "a chunk with its checksum expected".into()));
        };
        self.check_crc(offset, u32::from_be_bytes(*crc), crc32fast::hash(body))?;
        Ok(body)
    }

    /// Raw chunks are as long as their data, unless the last one was padded up to where "raw" begins.
    fn check_raw_length(&self, info: &CompressionInfo, stored: &StoredChunk, found: &[u8]) -> Result<()> {
        let padded = stored.plain_length.max(info.format.max_compressed_length as usize);
        if found.len() != padded && found.len() != stored.plain_length {
            let detail = format!("{padded} raw bytes expected, {} found", found.len());
            return Err(self.corrupt(stored.offset, detail));
        }
        Ok(())
    }

    /// Where chunk `index` of a plain file lies, and its length.
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
        match expected == found {
            true => Ok(()),
            false => {
                Err(self.corrupt(offset, format!("checksum {expected:#010x} expected, {found:#010x} found")))
            }
        }
    }

    /// Bytes `start..end` of the stream in one piece: a slice of a chunk, or an assembly of several. Refused beyond the
    /// stream's end.
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
