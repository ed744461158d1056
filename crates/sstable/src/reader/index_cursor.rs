//! Iterates over the entries of Index.db.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cassette_rows::{DecoratedKey, Result, StorageError};

use crate::chunked_file::{Caching, ChunkedFile};
use crate::index::{EntryHead, PromotedIndex};
use crate::input::Input;
use crate::large_partition::PartitionPlace;
use crate::read_ahead::ReadAhead;

/// The length of the longest head: a key with its length, and two variable-length integers.
const HEAD_MAX: usize = 2 + u16::MAX as usize + 2 * 9;

/// Returns the key and the length of the first entry in `bytes`, if it is complete and has no row
/// index.
#[inline]
fn plain_entry(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (key, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let position = 1 + rest.first()?.leading_ones() as usize;
    (rest.get(position) == Some(&0)).then_some((key, 2 + key.len() + position + 1))
}

/// Reads a partition's row index from Index.db, if it has one.
pub(super) fn read_promoted_index(
    file: &ChunkedFile,
    place: PartitionPlace,
    caching: Caching,
) -> Result<Option<PromotedIndex>> {
    if place.promoted_length == 0 {
        return Ok(None);
    }
    let (start, end) = (place.promoted_start, place.promoted_start + u64::from(place.promoted_length));
    let bytes = file.range(start, end, caching)?;
    PromotedIndex::decode(bytes, start).map(Some).map_err(|e| e.at(file.path()))
}

/// A position in Index.db. Reads the blocks of the entries' heads, and skips row indexes.
#[derive(Debug)]
pub struct IndexCursor {
    file: Arc<ChunkedFile>,
    caching: Caching,
    window: Bytes,
    window_start: u64,
    /// The offset of the next entry.
    next: u64,
    /// The current entry.
    entry_start: u64,
    key: Range<usize>,
    position: u64,
    promoted: Range<u64>,
    ahead: ReadAhead,
}

impl IndexCursor {
    /// Creates a cursor before the entry at `start`.
    pub fn new(file: Arc<ChunkedFile>, start: u64, caching: Caching) -> Self {
        Self {
            file,
            caching,
            window: Bytes::new(),
            window_start: 0,
            next: start,
            entry_start: start,
            key: 0..0,
            position: 0,
            promoted: 0..0,
            ahead: ReadAhead::new(),
        }
    }

    /// Moves before the entry at `start`.
    pub fn seek(&mut self, start: u64) {
        self.next = start;
    }

    /// Moves to the next entry; returns `false` at the end.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        let length = self.file.data_length();
        if self.next >= length {
            return Ok(false);
        }
        loop {
            let offset = match self.next.checked_sub(self.window_start) {
                Some(offset) if offset < self.window.len() as u64 => offset as usize,
                _ => {
                    self.load()?;
                    (self.next - self.window_start) as usize
                }
            };
            let mut input = Input::over(&self.window, offset, self.window_start);
            match EntryHead::decode(&mut input) {
                Ok(head) => {
                    let start = offset + 2;
                    self.key = start..start + head.key.len();
                    self.position = head.position;
                    let promoted = self.window_start + input.position() as u64;
                    self.promoted = promoted..promoted + head.promoted_length as u64;
                    self.entry_start = self.next;
                    self.next = self.promoted.end;
                    return if self.next <= length {
                        Ok(true)
                    } else {
                        Err(self.corrupt(self.entry_start, "an entry that ends within the file expected"))
                    };
                }
                Err(malformed) => {
                    let held = self.window.len() - offset;
                    if self.next + held as u64 >= length || held >= HEAD_MAX {
                        return Err(malformed.at(self.file.path()));
                    }
                    self.extend(offset)?;
                }
            }
        }
    }

    /// Adds the next block to the window from `offset` on: the next entry's head continues there.
    /// Thus, a cursor that advances reads every block once.
    #[cold]
    fn extend(&mut self, offset: usize) -> Result<()> {
        let held = &self.window[offset..];
        let block = (self.next + held.len() as u64) / self.file.chunk_length();
        let block = self.file.chunk_after(block, self.caching, &mut self.ahead)?;
        let mut window = BytesMut::with_capacity(held.len() + block.len());
        window.extend_from_slice(held);
        window.extend_from_slice(&block);
        self.window = window.freeze();
        self.window_start = self.next;
        Ok(())
    }

    /// Moves to the entry of `key` if it begins before `end`. Compares keys only for equality,
    /// which needs no tokens.
    pub fn find(&mut self, key: &[u8], end: u64) -> Result<bool> {
        self.find_first(end, |found| found == key)
    }

    /// Moves to the first entry for which `wanted` holds, if one begins before `end`.
    pub fn find_first(&mut self, end: u64, wanted: impl Fn(&[u8]) -> bool) -> Result<bool> {
        loop {
            self.pass_over(end, &wanted);
            if self.next >= end || !self.advance()? {
                return Ok(false);
            }
            if wanted(self.key()) {
                return Ok(true);
            }
        }
    }

    /// Moves to the first entry for which `reached` holds, if there is one; `reached` must be
    /// monotonic.
    pub fn find_from(&mut self, reached: impl Fn(&[u8]) -> bool) -> Result<bool> {
        self.stride(&reached)?;
        self.find_first(self.file.data_length(), reached)
    }

    /// Evaluates `reached` for every n-th entry of the window, up to the first for which it holds,
    /// and stops after the last for which it does not: an evaluation mostly computes a token, which
    /// costs more than skipping some entries.
    fn stride(&mut self, reached: &impl Fn(&[u8]) -> bool) -> Result<()> {
        /// Half of the 128 entries of a sample are skipped on average: 8 + 8 / 2 evaluations
        /// instead of 64.
        const STRIDE: usize = 8;
        if self.next >= self.file.data_length() {
            return Ok(());
        }
        if self.next.checked_sub(self.window_start).is_none_or(|offset| offset >= self.window.len() as u64) {
            self.load()?;
        }
        let mut at = (self.next - self.window_start) as usize;
        let mut passed = 0;
        while let Some((key, length)) = self.window.get(at..).and_then(plain_entry) {
            at += length;
            passed += 1;
            if passed % STRIDE == 0 {
                if reached(key) {
                    break;
                }
                self.next = self.window_start + at as u64;
            }
        }
        Ok(())
    }

    /// Skips entries whose keys are not `wanted` and that are completely in the window, with as
    /// little work as possible: some dozens of them precede the required one. Stops before any
    /// other kind of entry.
    #[inline]
    fn pass_over(&mut self, end: u64, wanted: &impl Fn(&[u8]) -> bool) {
        let Some(mut at) = self.next.checked_sub(self.window_start).map(|offset| offset as usize) else {
            return;
        };
        while self.window_start + (at as u64) < end {
            match self.window.get(at..).and_then(plain_entry) {
                Some((key, length)) if !wanted(key) => at += length,
                _ => break,
            }
            self.next = self.window_start + at as u64;
        }
    }

    /// Loads the block of the next entry as the window.
    fn load(&mut self) -> Result<()> {
        let block = self.next / self.file.chunk_length();
        self.window = self.file.chunk_after(block, self.caching, &mut self.ahead)?;
        self.window_start = block * self.file.chunk_length();
        if self.next - self.window_start >= self.window.len() as u64 {
            return Err(self.corrupt(self.next, "an entry expected"));
        }
        Ok(())
    }

    /// The current entry's key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.window[self.key.clone()]
    }

    /// Returns the current entry's key with its token, in dedicated memory.
    pub fn decorated_key(&self) -> DecoratedKey {
        DecoratedKey::new(Bytes::copy_from_slice(self.key()))
    }

    /// Returns the current entry's key, in the memory of its block.
    pub fn shared_key(&self) -> Bytes {
        self.window.slice(self.key.clone())
    }

    /// Returns the offset of the current partition in Data.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the current partition's row index, if it has one.
    pub fn promoted_index(&self) -> Result<Option<PromotedIndex>> {
        read_promoted_index(&self.file, self.place(), self.caching)
    }

    /// Returns the current entry.
    pub fn place(&self) -> PartitionPlace {
        PartitionPlace {
            position: self.position,
            promoted_start: self.promoted.start,
            // Lengths beyond i32 are rejected when the entry is read.
            promoted_length: (self.promoted.end - self.promoted.start) as u32,
        }
    }

    /// Returns the offset of the current entry in Index.db.
    pub fn entry_start(&self) -> u64 {
        self.entry_start
    }

    /// Returns the offset of the next entry in Index.db.
    pub fn entry_end(&self) -> u64 {
        self.next
    }

    #[cold]
    fn corrupt(&self, offset: u64, detail: &str) -> StorageError {
        StorageError::corrupt(self.file.path(), format!("at {offset}: {detail}"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cassette_vfs::{FakeFileSystem, FileSystem};

    use super::*;
    use crate::chunk_cache::ChunkCache;
    use crate::chunked_file::Layout;

    const BLOCK: u32 = 4 << 10;

    /// Returns an Index with entries of keys of these lengths, and its offsets.
    fn index(keys: &[usize], cache: &Arc<ChunkCache>) -> (Arc<ChunkedFile>, Vec<u64>) {
        let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
        for length in keys {
            offsets.push(bytes.len() as u64);
            bytes.extend_from_slice(&u16::try_from(*length).unwrap().to_be_bytes());
            bytes.extend(std::iter::repeat_n(b'k', *length));
            // Position 5 in Data, no row index.
            bytes.extend([5, 0]);
        }
        let (fs, path) = (FakeFileSystem::new(), Path::new("/nb-1-big-Index.db"));
        let mut file = fs.create(path).unwrap();
        file.write_all(&bytes).unwrap();
        let crcs = bytes.chunks(BLOCK as usize).map(crc32fast::hash).collect();
        let layout = Layout::Plain { chunk_length: BLOCK, crcs: Some(crcs) };
        let (file, length) = (fs.open(path).unwrap(), bytes.len() as u64);
        (Arc::new(ChunkedFile::new(path.into(), file, length, layout, cache.clone())), offsets)
    }

    fn entries(file: &Arc<ChunkedFile>) -> Vec<(u64, usize)> {
        let mut cursor = IndexCursor::new(file.clone(), 0, Caching::LeaveAlone);
        let mut found = Vec::new();
        while cursor.advance().unwrap() {
            found.push((cursor.entry_start(), cursor.key().len()));
        }
        found
    }

    #[test]
    fn each_block_is_read_once_although_entries_cross_blocks() {
        for length in [1, 4, 23, 36, 61, 62, 63, 200] {
            let cache = Arc::new(ChunkCache::new(1 << 20));
            let (file, _) = index(&vec![length; 3_000], &cache);
            assert_eq!(entries(&file).len(), 3_000);
            let blocks = file.data_length().div_ceil(u64::from(BLOCK));
            let stats = cache.stats();
            assert_eq!(stats.hits + stats.misses, blocks, "{length}: {stats:?}");
        }
    }

    #[test]
    fn entries_of_any_length_are_found_wherever_blocks_end() {
        let cache = Arc::new(ChunkCache::new(1 << 20));
        let lengths = [1, 60, 61, 62, 63, 64, 65, 200, 2_000, 4_091, 4_092, 4_093, 5_000, 20_000, 65_535];
        for seed in 0..50usize {
            let keys: Vec<usize> = (0..60).map(|n| lengths[(seed * 7 + n * n * 3 + n * seed) % 15]).collect();
            let (file, offsets) = index(&keys, &cache);
            let expected: Vec<_> = offsets.into_iter().zip(keys).collect();
            assert_eq!(entries(&file), expected, "seed {seed}");
        }
    }
}
