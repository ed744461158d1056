//! The bytes of one file, in chunks.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::space::Space;

/// The length of a chunk.
const CHUNK: usize = 64 << 10;

/// The bytes of one file. They are counted in its space until it is dropped.
pub(super) struct Content {
    /// Chunk `n` has the bytes from `n * CHUNK`. Bytes below `length` that a chunk lacks are zero,
    /// so that reserved space takes no memory.
    chunks: Vec<Vec<u8>>,
    length: u64,
    modified_millis: i64,
    space: Arc<Space>,
}

impl Content {
    pub(super) fn new(space: Arc<Space>) -> Self {
        Self { chunks: Vec::new(), length: 0, modified_millis: now_millis(), space }
    }

    pub(super) fn len(&self) -> u64 {
        self.length
    }

    pub(super) fn modified_millis(&self) -> i64 {
        self.modified_millis
    }

    /// Reads bytes from `offset`, and returns their number, which is less than those of `buffer`
    /// only at the end.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let length = self.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (mut at, mut rest) = (offset, &mut buffer[..length]);
        while !rest.is_empty() {
            let (chunk, start) = position(at);
            let (part, behind) = rest.split_at_mut(rest.len().min(CHUNK - start));
            let stored = self.chunks.get(chunk).and_then(|chunk| chunk.get(start..)).unwrap_or_default();
            let (copied, zeros) = part.split_at_mut(part.len().min(stored.len()));
            copied.copy_from_slice(&stored[..copied.len()]);
            zeros.fill(0);
            at += part.len() as u64;
            rest = behind;
        }
        length
    }

    /// Replaces bytes from `offset`, and extends the file where they exceed it. Returns the limit,
    /// without an effect, if that would be exceeded.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), u64> {
        self.reserve(offset.saturating_add(bytes.len() as u64))?;
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (chunk, start) = position(at);
            let (part, behind) = rest.split_at(rest.len().min(CHUNK - start));
            if chunk >= self.chunks.len() {
                self.chunks.resize_with(chunk + 1, Vec::new);
            }
            let chunk = &mut self.chunks[chunk];
            if chunk.len() < start {
                chunk.resize(start, 0);
            }
            let replaced = part.len().min(chunk.len() - start);
            chunk[start..start + replaced].copy_from_slice(&part[..replaced]);
            let appended = &part[replaced..];
            // A chunk that reaches this size will be full; doubling a smaller one copies little.
            if chunk.len() + appended.len() > CHUNK / 2 {
                chunk.reserve_exact(CHUNK - chunk.len());
            }
            chunk.extend_from_slice(appended);
            at += part.len() as u64;
            rest = behind;
        }
        self.modified_millis = now_millis();
        Ok(())
    }

    /// Extends the file to `length` with zeros, if it is shorter. Returns the limit, without an
    /// effect, if that would be exceeded.
    pub(super) fn reserve(&mut self, length: u64) -> Result<(), u64> {
        let growth = length.saturating_sub(self.length);
        self.space.take(growth)?;
        self.length += growth;
        Ok(())
    }

    /// Sets the length, which removes the bytes beyond, or adds nothing.
    pub(super) fn truncate(&mut self, length: u64) {
        let removed = self.length.saturating_sub(length);
        self.space.give_back(removed);
        self.length -= removed;
        let (chunk, start) = position(self.length);
        if let Some(last) = self.chunks.get_mut(chunk) {
            last.truncate(start);
        }
        self.chunks.truncate(if start == 0 { chunk } else { chunk + 1 });
        self.modified_millis = now_millis();
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.space.give_back(self.length);
    }
}

/// Returns the chunk of an offset, and the offset in it.
fn position(offset: u64) -> (usize, usize) {
    // Offsets below the length of a file in memory fit.
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    (offset / CHUNK, offset % CHUNK)
}

fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
