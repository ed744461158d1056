//! Writes a stream as chunks: splits it, compresses them, computes checksums.

use std::path::PathBuf;

use cassette_rows::{Result, StorageError};
use cassette_vfs::WritableFile;

use crate::checksums::{BlockChecksums, RowsChecksums};
use crate::compression::{ChunkFormat, CompressionInfo, Workspace};
use crate::crc::{BLOCK_SIZE, Checksums};

/// The file is written in units of this many bytes.
pub const WRITE_LENGTH: usize = 256 << 10;

/// The companion of a finished file of chunks.
#[derive(Debug)]
pub enum Chunks {
    /// CompressionInfo.db.
    Compressed(CompressionInfo),
    /// CRC.db.
    Plain(Checksums),
}

/// What remains to be stored of a finished file of chunks.
#[derive(Debug)]
pub struct FinishedFile {
    /// The content of CompressionInfo.db or CRC.db.
    pub chunks: Chunks,
    /// The content of Digest.crc32. Does not cover the tail.
    pub digest: u32,
    /// Stored bytes per byte of the stream; -1 without compression.
    pub ratio: f64,
    /// The checksums of blocks, if they were wanted; `None` if most chunks are compressed, or are
    /// no longer than a block.
    pub blocks: Option<RowsChecksums>,
}

/// An incomplete file of chunks.
pub struct ChunkWriter {
    path: PathBuf,
    file: Box<dyn WritableFile>,
    /// Bytes of the stream so far.
    length: u64,
    /// Stored bytes that are not yet written to the file.
    out: Vec<u8>,
    /// Bytes already in the file.
    written: u64,
    digest: crc32fast::Hasher,
    /// The checksums of its blocks, 0 in compressed chunks; `None` if none are needed.
    blocks: Option<RowsChecksums>,
    /// Bytes of the stream in chunks that are stored as they are.
    raw: u64,
    way: Way,
}

enum Way {
    Compressed { format: ChunkFormat, workspace: Box<Workspace>, offsets: Vec<u64>, stored: u64 },
    Plain(BlockChecksums),
}

impl ChunkWriter {
    /// Writes to a new file.
    pub fn new(path: PathBuf, file: Box<dyn WritableFile>, format: Option<ChunkFormat>) -> Self {
        let way = match format {
            Some(format) => {
                Way::Compressed { format, workspace: Box::default(), offsets: Vec::new(), stored: 0 }
            }
            None => Way::Plain(BlockChecksums::new(BLOCK_SIZE)),
        };
        Self {
            path,
            file,
            length: 0,
            out: Vec::with_capacity(2 * WRITE_LENGTH),
            written: 0,
            digest: crc32fast::Hasher::new(),
            blocks: None,
            raw: 0,
            way,
        }
    }

    /// Has checksums computed of blocks of this length, a power of two, if chunks are longer. Must
    /// be called before [`append`](Self::append).
    pub fn with_blocks(mut self, block_length: u32) -> Self {
        let is_useful = self.chunk_length() > block_length as usize;
        self.blocks = is_useful.then(|| RowsChecksums { block_length, ..RowsChecksums::default() });
        self
    }

    /// Returns the bytes of the stream per chunk; without compression, as many as justify a write.
    /// A power of two.
    pub fn chunk_length(&self) -> usize {
        match &self.way {
            Way::Compressed { format, .. } => format.chunk_length as usize,
            Way::Plain(_) => WRITE_LENGTH,
        }
    }

    /// Bytes stored so far.
    pub fn stored_bytes(&self) -> u64 {
        self.written + self.out.len() as u64
    }

    /// Appends bytes of the stream: whole chunks, or the last ones.
    pub fn append(&mut self, plain: &[u8]) -> Result<()> {
        for plain in plain.chunks(self.chunk_length()) {
            let start = self.out.len();
            let is_raw = match &mut self.way {
                Way::Compressed { format, workspace, offsets, stored } => {
                    offsets.push(self.written + start as u64);
                    let compressed = format.compressor.compress(plain, workspace, &mut self.out);
                    compressed.map_err(|e| StorageError::io(&self.path, "compress a chunk", e))?;
                    let limit = format.max_compressed_length as usize;
                    let is_raw = self.out.len() - start >= limit;
                    if is_raw {
                        self.out.truncate(start);
                        self.out.extend_from_slice(plain);
                        // Readers identify a raw chunk by its length alone, so a short one is
                        // padded.
                        self.out.resize(start + plain.len().max(limit), 0);
                    }
                    *stored += (self.out.len() - start) as u64;
                    let crc = crc32fast::hash(&self.out[start..]);
                    self.out.extend_from_slice(&crc.to_be_bytes());
                    is_raw
                }
                Way::Plain(checksums) => {
                    checksums.update(plain);
                    self.out.extend_from_slice(plain);
                    true
                }
            };
            if let Some(of_blocks) = &mut self.blocks {
                let blocks = plain.chunks(of_blocks.block_length as usize);
                if is_raw {
                    self.raw += plain.len() as u64;
                    of_blocks.crcs.extend(blocks.map(crc32fast::hash));
                } else {
                    of_blocks.crcs.extend(blocks.map(|_| 0));
                }
                of_blocks.length += plain.len() as u64;
            }
            self.length += plain.len() as u64;
            if self.out.len() >= WRITE_LENGTH {
                self.write()?;
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.digest.update(&self.out);
        let action = || format!("write {} bytes at {}", self.out.len(), self.written);
        self.file.write_all(&self.out).map_err(|e| StorageError::io(&self.path, action(), e))?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Writes the rest, then the output of `tail` for the chunks, and makes the file durable.
    pub fn finish(mut self, tail: impl FnOnce(&Chunks) -> Vec<u8>) -> Result<FinishedFile> {
        self.write()?;
        let blocks = self.blocks();
        let digest = self.digest.finalize();
        let (chunks, ratio) = match self.way {
            Way::Compressed { format, offsets, stored, .. } => {
                let ratio = stored as f64 / self.length as f64;
                (Chunks::Compressed(CompressionInfo::new(format, self.length, offsets)), ratio)
            }
            Way::Plain(checksums) => {
                let checksums = Checksums { block_size: BLOCK_SIZE, crcs: checksums.finish().1 };
                (Chunks::Plain(checksums), -1.0)
            }
        };
        let io = |action: &'static str| move |e| (action, e);
        let ended = self.file.write_all(&tail(&chunks)).map_err(io("write the file's end"));
        let synced = ended.and_then(|()| self.file.sync().map_err(io("sync the file")));
        synced.map_err(|(action, e)| StorageError::io(&self.path, action, e))?;
        Ok(FinishedFile { chunks, digest, ratio, blocks })
    }

    /// Returns the checksums of blocks if blocks will be read.
    fn blocks(&mut self) -> Option<RowsChecksums> {
        let is_mostly_raw = self.raw > self.length / 2;
        self.blocks.take().filter(|_| is_mostly_raw)
    }
}
