//! The file of a segment, and bytes for it that have not been written.

use std::path::PathBuf;
use std::sync::Arc;

use cassette_vfs::encryption::PieceCipher;
use cassette_vfs::{SyncHandle, WritableFile};
use parking_lot::Mutex;

use super::Position;
use super::format::{self, Encoder};

/// Buffers up to this size are reused, so that one large record does not occupy memory permanently.
pub(super) const BUFFER_KEPT: usize = 1 << 20;

/// The file of a segment that can still be written.
pub(super) struct SegmentFile {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    /// Bytes reserved for it.
    pub(super) size: u32,
    /// The offset of its first record, after its header and the parameters of its cipher.
    pub(super) first: u32,
    /// Whether it is linked for change data capture.
    pub(super) linked: bool,
    /// What encrypts its records.
    pub(super) cipher: Option<Arc<dyn PieceCipher>>,
    /// Locked only by the writer, so never contended.
    pub(super) writer: Mutex<Box<dyn WritableFile>>,
    pub(super) syncer: Arc<dyn SyncHandle>,
}

/// Encoded bytes that have not been written.
pub(super) struct Chunk {
    pub(super) file: Arc<SegmentFile>,
    /// The offset of the first of `bytes` in the file.
    pub(super) start: u32,
    /// Complete records up to `committed`, followed by the bytes of a failed encoder.
    pub(super) bytes: Vec<u8>,
    pub(super) committed: usize,
    /// Whether it is one large record, to which nothing is appended.
    pub(super) is_whole: bool,
}

impl Chunk {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.committed]
    }

    /// Returns an encoder that appends to its bytes.
    pub(super) fn encoder(&mut self) -> Encoder<'_> {
        let encrypted = self.file.cipher.is_some();
        Encoder { segment: self.file.id, base: self.start, encrypted, out: &mut self.bytes }
    }

    /// Encrypts its records, if the segment is encrypted. Called once, before they are written.
    pub(super) fn seal(&mut self) {
        if let Some(cipher) = &self.file.cipher {
            let records = &mut self.bytes[..self.committed];
            format::seal(self.file.id, self.start, records, cipher.as_ref());
        }
    }

    pub(super) fn position(&self) -> Position {
        Position { segment: self.file.id, offset: self.start }
    }

    /// Discards the bytes of a failed encoder. The chunk may exist for long, and keeps no memory
    /// for a large record that was appended elsewhere.
    pub(super) fn give_up(&mut self) {
        self.bytes.truncate(self.committed);
        self.bytes.shrink_to(BUFFER_KEPT);
    }
}
