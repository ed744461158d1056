//! Writes Data.db: cuts the stream into chunks, compresses them, sums them up.

use std::path::PathBuf;

use cassette_rows::{Result, StorageError};
use cassette_vfs::WritableFile;

use crate::checksums::BlockChecksums;
use crate::compression::{ChunkFormat, CompressionInfo, Workspace};
use crate::crc::{BLOCK_SIZE, Checksums};

/// The file gets this many bytes at a time.
const WRITE_LENGTH: usize = 256 << 10;

/// What lies beside Data.db when it is finished.
#[derive(Debug)]
pub enum Chunks {
    /// CompressionInfo.db.
    Compressed(CompressionInfo),
    /// CRC.db.
    Plain(Checksums),
}

/// Data.db in the making. Rows are appended to [`stream`](Self::stream); [`advance`](Self::advance) writes what is whole.
pub struct DataFile {
    path: PathBuf,
    file: Box<dyn WritableFile>,
    /// Bytes of the stream that are not in a chunk yet.
    pub stream: Vec<u8>,
    /// Bytes of the stream before those.
    cut: u64,
    /// Stored bytes that the file has not got yet.
    out: Vec<u8>,
    /// Bytes of the file before those.
    written: u64,
    digest: crc32fast::Hasher,
    way: Way,
}

enum Way {
    Compressed { format: ChunkFormat, workspace: Box<Workspace>, offsets: Vec<u64>, stored: u64 },
    Plain(BlockChecksums),
}

impl DataFile {
    /// Into a file just created.
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
            stream: Vec::with_capacity(WRITE_LENGTH),
            cut: 0,
            out: Vec::with_capacity(2 * WRITE_LENGTH),
            written: 0,
            digest: crc32fast::Hasher::new(),
            way,
        }
    }

    /// Where the next byte of the stream goes.
    #[inline]
    pub fn position(&self) -> u64 {
        self.cut + self.stream.len() as u64
    }

    /// Bytes stored so far, about.
    pub fn stored_bytes(&self) -> u64 {
        self.written + self.out.len() as u64
    }

    /// Cuts whole chunks off the stream.
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        let least = match &self.way {
            Way::Compressed { format, .. } => format.chunk_length as usize,
            Way::Plain(_) => WRITE_LENGTH,
        };
        if self.stream.len() < least { Ok(()) } else { self.cut(least, self.stream.len() / least * least) }
    }

    /// Cuts `length` bytes off the stream, in chunks of `chunk` bytes.
    fn cut(&mut self, chunk: usize, length: usize) -> Result<()> {
        for plain in self.stream[..length].chunks(chunk) {
            let start = self.out.len();
            match &mut self.way {
                Way::Compressed { format, workspace, offsets, stored } => {
                    offsets.push(self.written + start as u64);
                    let compressed = format.compressor.compress(plain, workspace, &mut self.out);
                    compressed.map_err(|e| StorageError::io(&self.path, "compress a chunk", e))?;
                    let limit = format.max_compressed_length as usize;
                    if self.out.len() - start >= limit {
                        self.out.truncate(start);
                        self.out.extend_from_slice(plain);
                        // Readers tell a raw chunk by its length alone, so a short one is padded.
                        self.out.resize(start + plain.len().max(limit), 0);
                    }
                    *stored += (self.out.len() - start) as u64;
                    let crc = crc32fast::hash(&self.out[start..]);
                    self.out.extend_from_slice(&crc.to_be_bytes());
                }
                Way::Plain(checksums) => {
                    checksums.update(plain);
                    self.out.extend_from_slice(plain);
                }
            }
        }
        self.stream.drain(..length);
        self.cut += length as u64;
        if self.out.len() >= WRITE_LENGTH { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.digest.update(&self.out);
        let action = || format!("write {} bytes at {}", self.out.len(), self.written);
        self.file.write_all(&self.out).map_err(|e| StorageError::io(&self.path, action(), e))?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Writes what is left and makes the file durable. Gives what CompressionInfo.db or CRC.db and Digest.crc32 hold,
    /// and the compression ratio.
    pub fn finish(self) -> Result<(Chunks, u32, f64)> {
        self.finish_with(|_| Vec::new())
    }

    /// [`Self::finish`] of a file that has something after its chunks: what `tail` makes of them. The digest does not cover that.
    pub fn finish_with(mut self, tail: impl FnOnce(&Chunks) -> Vec<u8>) -> Result<(Chunks, u32, f64)> {
        let chunk = match &self.way {
            Way::Compressed { format, .. } => format.chunk_length as usize,
            Way::Plain(_) => WRITE_LENGTH,
        };
        self.cut(chunk, self.stream.len())?;
        self.write()?;
        let length = self.position();
        let digest = self.digest.finalize();
        let (chunks, ratio) = match self.way {
            Way::Compressed { format, offsets, stored, .. } => {
                let ratio = stored as f64 / length as f64;
                (Chunks::Compressed(CompressionInfo::new(format, length, offsets)), ratio)
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
        Ok((chunks, digest, ratio))
    }
}
