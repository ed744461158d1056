//! An incomplete Data.db: a stream of rows that becomes chunks, here or on another thread.

use std::io;
use std::path::{Path, PathBuf};

use cassette_rows::{Result, StorageError};

use super::chunk_writer::{ChunkWriter, Chunks, FinishedFile, WRITE_LENGTH};
use super::pipeline::Pipeline;

/// An incomplete Data.db, or a file with the same layout. Rows are appended to
/// [`stream`](Self::stream); [`advance`](Self::advance) passes complete pieces on. After an error
/// it cannot be finished any more.
pub struct DataFile {
    path: PathBuf,
    /// Bytes of the stream that were not passed on yet.
    pub stream: Vec<u8>,
    /// Bytes of the stream before those.
    handed_on: u64,
    /// The unit in which bytes are passed on: one chunk or several.
    piece: usize,
    /// The length of the stream at which a thread takes over; `None` if none will, or one already
    /// does.
    pipeline_from: Option<u64>,
    writer: Writer,
}

enum Writer {
    Here(Box<ChunkWriter>),
    Beside(Pipeline),
    /// None: the bytes passed on last may be in the file or not.
    Failed,
}

/// A smaller file is written before a thread would be useful.
const PIPELINE_FROM: u64 = 1 << 20;

impl DataFile {
    /// Writes to a new file. With `pipelined`, a thread compresses and writes once the stream has
    /// become long.
    pub fn new(path: PathBuf, writer: ChunkWriter, pipelined: bool) -> Self {
        let writer = Box::new(writer);
        Self {
            path,
            stream: Vec::with_capacity(WRITE_LENGTH),
            handed_on: 0,
            piece: writer.chunk_length(),
            pipeline_from: pipelined.then_some(PIPELINE_FROM),
            writer: Writer::Here(writer),
        }
    }

    /// Returns the offset of the next byte of the stream.
    #[inline]
    pub fn position(&self) -> u64 {
        self.handed_on + self.stream.len() as u64
    }

    /// Returns the approximate bytes stored so far.
    pub fn stored_bytes(&self) -> u64 {
        match &self.writer {
            Writer::Here(writer) => writer.stored_bytes(),
            Writer::Beside(pipeline) => pipeline.stored_bytes(),
            Writer::Failed => 0,
        }
    }

    /// Passes complete pieces of the stream on.
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        if self.stream.len() < self.piece { Ok(()) } else { self.hand_on() }
    }

    fn hand_on(&mut self) -> Result<()> {
        let length = self.stream.len() / self.piece * self.piece;
        let handed_on = match &mut self.writer {
            Writer::Here(writer) => {
                let appended = writer.append(&self.stream[..length]);
                self.stream.drain(..length);
                appended
            }
            Writer::Beside(pipeline) => {
                let mut next = pipeline.buffer();
                next.extend_from_slice(&self.stream[length..]);
                self.stream.truncate(length);
                pipeline.append(std::mem::replace(&mut self.stream, next))
            }
            Writer::Failed => Err(failed_before(&self.path)),
        };
        self.handed_on += length as u64;
        if handed_on.is_err() {
            self.writer = Writer::Failed;
        } else if self.pipeline_from.is_some_and(|from| self.handed_on >= from) {
            self.begin_pipeline();
        }
        handed_on
    }

    /// Moves the chunks to a thread from now on, if one can be created.
    #[cold]
    fn begin_pipeline(&mut self) {
        self.pipeline_from = None;
        self.writer = match std::mem::replace(&mut self.writer, Writer::Failed) {
            Writer::Here(writer) => match Pipeline::start(self.path.clone(), writer) {
                Ok(pipeline) => {
                    // The length of chunks is a power of two, so a piece consists of whole ones.
                    self.piece = self.piece.max(WRITE_LENGTH);
                    Writer::Beside(pipeline)
                }
                Err(writer) => Writer::Here(writer),
            },
            other => other,
        };
    }

    /// Writes the rest, then the output of `tail` for the chunks, and makes the file durable.
    pub fn finish(self, tail: impl FnOnce(&Chunks) -> Vec<u8>) -> Result<FinishedFile> {
        let mut writer = match self.writer {
            Writer::Here(writer) => writer,
            Writer::Beside(pipeline) => pipeline.finish()?,
            Writer::Failed => return Err(failed_before(&self.path)),
        };
        writer.append(&self.stream)?;
        writer.finish(tail)
    }
}

fn failed_before(path: &Path) -> StorageError {
    StorageError::io(path, "write to the file", io::Error::other("a write has failed before"))
}
