//! A thread that creates chunks from a stream's pieces while the next pieces are produced.
//!
//! Pieces are sent through a short queue, and their buffers are returned for reuse. The thread ends
//! when no more pieces will come, and returns the [`ChunkWriter`]; or at the first error, which the
//! next call reports. It never outlives the [`Pipeline`].

use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use cassette_rows::{Result, StorageError};

use super::chunk_writer::{ChunkWriter, WRITE_LENGTH};

/// The number of queued pieces, so that neither side idles while the other one is briefly delayed:
/// a write to the file takes as long as producing several pieces. With those in use on both sides
/// that is 1.5 MiB.
const WAITING: usize = 4;

/// Buffers up to this size are reused, so that one large row does not occupy memory.
const BUFFER_KEPT: usize = 2 * WRITE_LENGTH;

/// The producer's handle of the thread. Dropped before [`finish`](Self::finish), it leaves the file
/// incomplete.
pub struct Pipeline {
    path: PathBuf,
    /// `None` when no more pieces will come.
    pieces: Option<SyncSender<Vec<u8>>>,
    emptied: Receiver<Vec<u8>>,
    /// `None` once it was joined. It returns nothing if it never received a writer.
    thread: Option<JoinHandle<Option<Result<Box<ChunkWriter>>>>>,
    stored: Arc<AtomicU64>,
}

impl Pipeline {
    /// Moves the writer of the file at `path` to a thread; returns it if no thread can be created.
    pub fn start(path: PathBuf, writer: Box<ChunkWriter>) -> Result<Self, Box<ChunkWriter>> {
        let (to_thread, given) = channel::<Box<ChunkWriter>>();
        let (pieces, queue) = sync_channel::<Vec<u8>>(WAITING);
        let (empty, emptied) = channel();
        let stored = Arc::new(AtomicU64::new(writer.stored_bytes()));
        let tell = stored.clone();
        let work = move || {
            let mut writer = given.recv().ok()?;
            for mut piece in queue {
                if let Err(error) = writer.append(&piece) {
                    return Some(Err(error));
                }
                tell.store(writer.stored_bytes(), Ordering::Relaxed);
                piece.clear();
                if piece.capacity() <= BUFFER_KEPT {
                    // If the other end was dropped, no more buffers are needed.
                    let _ = empty.send(piece);
                }
            }
            Some(Ok(writer))
        };
        let Ok(thread) = Builder::new().name("data-writer".into()).spawn(work) else { return Err(writer) };
        let pipeline = Self { path, pieces: Some(pieces), emptied, thread: Some(thread), stored };
        to_thread.send(writer).map_err(|unsent| unsent.0)?;
        Ok(pipeline)
    }

    /// Bytes stored so far.
    pub fn stored_bytes(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Returns an empty buffer for a piece.
    pub fn buffer(&self) -> Vec<u8> {
        self.emptied.try_recv().unwrap_or_else(|_| Vec::with_capacity(WRITE_LENGTH + WRITE_LENGTH / 8))
    }

    /// Queues whole chunks for the file. The error is that of an earlier piece.
    pub fn append(&mut self, piece: Vec<u8>) -> Result<()> {
        match &self.pieces {
            Some(pieces) if pieces.send(piece).is_ok() => Ok(()),
            _ => self.join().and(Err(self.ended())),
        }
    }

    /// Waits until the writer has all pieces, and returns it.
    pub fn finish(mut self) -> Result<Box<ChunkWriter>> {
        self.join()
    }

    fn join(&mut self) -> Result<Box<ChunkWriter>> {
        self.pieces = None;
        let Some(thread) = self.thread.take() else { return Err(self.ended()) };
        match thread.join() {
            Ok(ended) => ended.unwrap_or_else(|| Err(self.ended())),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn ended(&self) -> StorageError {
        StorageError::io(&self.path, "write to the file", io::Error::other("its thread has ended already"))
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            // The file is abandoned; its errors are irrelevant.
            let _ = thread.join();
        }
    }
}
