//! Readers of a file in a single pass, which leave the operating system's page cache as it was.
//!
//! A file is divided into pieces. A piece that was not in memory before a reader came near belongs
//! to such readers: the one that leaves it behind has the system drop it. Pieces that others had
//! loaded stay. Which pieces belong to the readers is known for each file, not for each reader:
//! what the system reads ahead beyond the end of one reader's range, the next reader finds in
//! memory, and drops.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use cassette_vfs::RandomAccessFile;

use crate::chunk_cache::buffer;

/// Bytes of a piece: the largest page that Linux uses for files on most processors. Such a page is
/// dropped only as a whole.
const PIECE: u64 = 2 << 20;
/// How far ahead of a reader pieces are examined, in pieces: farther than the system reads ahead,
/// whose own pages would otherwise seem to be another reader's.
const EXAMINED_AHEAD: u64 = 32;
/// The length of a range that is long, bytes. Of a reader without an end, so much must be read
/// before its pass begins: less of a piece is in memory then than makes it another reader's.
pub(crate) const LONG_RUN: u64 = 128 << 10;

/// Bytes that are read at once: a few chunks of default length, which a processor's second-level
/// cache keeps until they are used.
const BLOCK: usize = 64 << 10;

/// The pieces of a file that such readers have loaded, or will load.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// A bit for each piece.
    words: OnceLock<Box<[AtomicU64]>>,
}

impl Loaded {
    fn words(&self, file_length: u64) -> &[AtomicU64] {
        let words = file_length.div_ceil(PIECE).div_ceil(64);
        self.words.get_or_init(|| (0..words).map(|_| AtomicU64::new(0)).collect())
    }

    fn note(&self, piece: u64, file_length: u64) {
        if let Some(word) = self.words(file_length).get((piece / 64) as usize) {
            word.fetch_or(1 << (piece % 64), Ordering::Relaxed);
        }
    }

    /// Returns whether the piece is noted, and removes it.
    fn take(&self, piece: u64, file_length: u64) -> bool {
        let bit = 1 << (piece % 64);
        let word = self.words(file_length).get((piece / 64) as usize);
        word.is_some_and(|word| word.fetch_and(!bit, Ordering::Relaxed) & bit != 0)
    }
}

/// The progress of one reader over a file.
pub(crate) struct Passage {
    /// The reader's descriptor, ahead of which the system reads; `None` where there are none.
    file: Option<Box<dyn RandomAccessFile>>,
    /// The last bytes read from it, and their offset.
    block: Bytes,
    block_start: u64,
    /// The block before, whose memory is used again once no reader has parts of it.
    before: Bytes,
    /// The last decompressed chunks, whose memory is used again likewise. Cursors keep two.
    chunks: [Bytes; 3],
    /// The piece that is read, and before which all are left behind.
    piece: u64,
    /// The end of the pieces that were examined.
    examined: u64,
}

impl std::fmt::Debug for Passage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passage")
            .field("has_file", &self.file.is_some())
            .field("block_start", &self.block_start)
            .field("piece", &self.piece)
            .field("examined", &self.examined)
            .finish_non_exhaustive()
    }
}

impl Passage {
    /// Opens `file` again, for a reader at any offset.
    pub fn over(file: &dyn RandomAccessFile) -> Self {
        Self {
            file: file.open_sequential(),
            block: Bytes::new(),
            block_start: 0,
            before: Bytes::new(),
            chunks: [const { Bytes::new() }; 3],
            piece: 0,
            examined: 0,
        }
    }

    /// Returns `length` bytes at `offset`, of a reader that reads to `end` at most. `None` if the
    /// reader has no descriptor, and if the bytes around them cannot be read: a read of these bytes
    /// alone may succeed.
    pub fn read(&mut self, offset: u64, length: usize, end: u64) -> Option<Bytes> {
        let file = self.file.as_deref()?;
        let in_block = |start: u64, block: &Bytes| {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            let to = from.checked_add(length).filter(|to| *to <= block.len())?;
            Some(block.slice(from..to))
        };
        if let Some(bytes) = in_block(self.block_start, &self.block) {
            return Some(bytes);
        }
        let rest = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let block = length.max(rest.min(BLOCK));
        let last = std::mem::take(&mut self.block);
        let unused = std::mem::replace(&mut self.before, last);
        let mut buffer = unused.try_into_mut().unwrap_or_default();
        buffer.resize(block, 0);
        file.read_exact_at(&mut buffer, offset).ok()?;
        (self.block, self.block_start) = (buffer.freeze(), offset);
        in_block(offset, &self.block)
    }

    /// Returns a buffer of `length` bytes with arbitrary content for a decompressed chunk.
    pub fn buffer(&mut self, length: usize) -> BytesMut {
        match std::mem::take(&mut self.chunks[0]).try_into_mut() {
            Ok(mut buffer) if buffer.capacity() >= length => {
                buffer.resize(length, 0);
                buffer
            }
            _ => buffer(length),
        }
    }

    /// Keeps a decompressed chunk, whose memory will be used again.
    pub fn keep(&mut self, chunk: &Bytes) {
        self.chunks.rotate_left(1);
        self.chunks[2] = chunk.clone();
    }

    /// Records that the reader comes to `offset` of `file`, which has `length` bytes. Drops what it
    /// has left behind.
    #[inline]
    pub fn comes_to(&mut self, offset: u64, file: &dyn RandomAccessFile, length: u64, loaded: &Loaded) {
        if offset / PIECE != self.piece || self.examined == 0 {
            self.enters(offset / PIECE, file, length, loaded);
        }
    }

    fn enters(&mut self, piece: u64, file: &dyn RandomAccessFile, length: u64, loaded: &Loaded) {
        if piece < self.piece || piece > self.examined {
            // Another part of the file. The reader of the part before did not leave its last piece.
            (self.piece, self.examined) = (piece.saturating_sub(1), piece);
        }
        for behind in self.piece..piece {
            if loaded.take(behind, length) {
                file.will_not_need(behind * PIECE, PIECE);
            }
        }
        self.piece = piece;
        // Also beyond the end of the reader's range, where the system reads ahead.
        let ahead = length.div_ceil(PIECE).min(piece + EXAMINED_AHEAD);
        for piece in self.examined..ahead {
            let start = piece * PIECE;
            let bytes = PIECE.min(length - start);
            if file.cached_bytes(start, bytes).is_some_and(|cached| cached <= bytes / 8) {
                loaded.note(piece, length);
            }
        }
        self.examined = self.examined.max(ahead);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    const PIECES: u64 = 100;

    /// A file of which pieces are in memory. The tests read whole pieces: each loads some after it.
    #[derive(Clone, Default)]
    struct Cached {
        pieces: Arc<Mutex<Vec<u64>>>,
    }

    impl Cached {
        fn with(pieces: impl IntoIterator<Item = u64>) -> Self {
            Self { pieces: Arc::new(Mutex::new(pieces.into_iter().collect())) }
        }

        fn read(&self, piece: u64) {
            let mut pieces = self.pieces.lock().unwrap();
            for piece in piece..(piece + 4).min(PIECES) {
                if !pieces.contains(&piece) {
                    pieces.push(piece);
                }
            }
        }

        fn sorted(&self) -> Vec<u64> {
            let mut pieces = self.pieces.lock().unwrap().clone();
            pieces.sort_unstable();
            pieces
        }

        /// Reads a range of pieces in quarters.
        fn pass(&self, loaded: &Loaded, range: std::ops::Range<u64>) {
            let mut passage = Passage::over(self);
            for quarter in range.start * 4..range.end * 4 {
                let offset = quarter * PIECE / 4;
                passage.comes_to(offset, self, PIECES * PIECE, loaded);
                self.read(offset / PIECE);
            }
        }
    }

    impl RandomAccessFile for Cached {
        fn read_at(&self, _buffer: &mut [u8], _offset: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn read_exact_at(&self, _buffer: &mut [u8], _offset: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn cached_bytes(&self, offset: u64, length: u64) -> Option<u64> {
            assert!(length <= PIECE && offset + length <= PIECES * PIECE);
            Some(if self.pieces.lock().unwrap().contains(&(offset / PIECE)) { length } else { 0 })
        }

        fn will_not_need(&self, offset: u64, length: u64) {
            assert_eq!((offset % PIECE, length), (0, PIECE));
            self.pieces.lock().unwrap().retain(|piece| *piece != offset / PIECE);
        }

        fn len(&self) -> io::Result<u64> {
            Ok(PIECES * PIECE)
        }
    }

    #[test]
    fn what_a_reader_loads_is_dropped_and_what_others_loaded_stays() {
        for others in [vec![], vec![3], vec![0, 40, 41, 98], (20..60).collect()] {
            let (file, loaded) = (Cached::with(others.clone()), Loaded::default());
            file.pass(&loaded, 0..PIECES);
            // No reader has left the last piece behind.
            let mut left = others;
            left.push(PIECES - 1);
            assert_eq!(file.sorted(), left);
        }
    }

    #[test]
    fn what_is_read_ahead_of_one_reader_is_dropped_by_the_next() {
        let (file, loaded) = (Cached::with([50]), Loaded::default());
        for start in (0..PIECES).step_by(10) {
            file.pass(&loaded, start..start + 10);
            assert!(file.sorted().len() <= 6, "{:?}", file.sorted());
        }
        assert_eq!(file.sorted(), [50, PIECES - 1]);
    }

    #[test]
    fn a_reader_that_moves_back_or_far_ahead_drops_nothing_it_has_not_read() {
        let (file, loaded) = (Cached::default(), Loaded::default());
        let mut passage = Passage::over(&file);
        let mut comes_to = |piece: u64| {
            passage.comes_to(piece * PIECE, &file, PIECES * PIECE, &loaded);
            file.read(piece);
        };
        comes_to(0);
        comes_to(80);
        comes_to(81);
        comes_to(10);
        assert_eq!(file.sorted(), [0, 1, 2, 3, 10, 11, 12, 13, 81, 82, 83, 84]);
    }
}
