//! Chunks that a sequential reader requests in advance.
//!
//! SSTables are opened for random reads, so the operating system loads exactly the chunks that are
//! read. Its own read-ahead serves short scans badly: two neighboring chunks start a window that
//! grows fourfold with each step, up to the device's limit, which can be megabytes in each SSTable
//! of a scan of a few rows. Here the window is as long as what was read so far, so that a reader
//! that stops early has loaded at most twice the bytes that it used. Readers of long ranges leave
//! it to the system after all, on descriptors for themselves: see `passage`.

use std::ops::Range;

use crate::passage::Passage;

/// The largest window of scans, bytes of the stream.
pub(crate) const SCAN_WINDOW: u64 = 256 << 10;
/// The largest window of readers of whole files, of which there are few.
pub(crate) const FILE_WINDOW: u64 = 1 << 20;
/// Chunks that a sequence may skip: scans of selected rows leave out parts of partitions.
const GAP: u64 = 2;

/// The progress of one reader in one file.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    /// The chunk after the last one read.
    next: u64,
    /// The number of chunks read in sequence up to the last one.
    run: u64,
    /// The end of the chunks that were read or requested.
    requested: u64,
    /// The end of the chunks that the reader needs.
    end: u64,
    /// The pass of a reader of a long range, once it has begun.
    pub passage: Option<Passage>,
}

impl ReadAhead {
    pub fn new() -> Self {
        Self { next: u64::MAX, run: 0, requested: 0, end: u64::MAX, passage: None }
    }

    /// Requests no chunk from number `end` on.
    pub fn end_at(&mut self, end: u64) {
        self.end = end;
    }

    /// Records that chunk `index` is read next.
    #[inline]
    pub fn reads(&mut self, index: u64) {
        // The chunk of the last read again.
        if index.wrapping_add(1) == self.next {
            return;
        }
        if index >= self.next && index - self.next <= GAP {
            self.run += 1;
        } else {
            self.run = 1;
            self.requested = 0;
        }
        self.next = index.saturating_add(1);
        self.requested = self.requested.max(self.next);
    }

    /// Returns the chunks to request before the chunk of the last [`reads`](Self::reads) is read
    /// from the file; mostly none. Chunks have `chunk_length` bytes, a window at most `largest`.
    #[inline]
    pub fn request(&mut self, chunk_length: u64, largest: u64) -> Option<Range<u64>> {
        if self.run < 2 {
            return None;
        }
        let window = self.run.min(largest / chunk_length.max(1)).max(1);
        // The disk loads half of a window while the reader uses the other half.
        if self.requested - self.next >= window.div_ceil(2) {
            return None;
        }
        let start = self.requested;
        let end = self.next.saturating_add(window).min(self.end);
        if end <= start {
            return None;
        }
        self.requested = end;
        Some(start..end)
    }

    /// Returns whether the reader will probably read all of the chunk of the last
    /// [`reads`](Self::reads). One row often extends over two chunks.
    #[inline]
    pub fn reads_whole_chunks(&self) -> bool {
        self.run >= 3
    }

    /// Returns whether the reader has read `length` bytes in sequence, or will, because it has an
    /// end.
    #[inline]
    pub fn is_long(&self, chunk_length: u64, length: u64) -> bool {
        let end = if self.end == u64::MAX { self.next } else { self.end.max(self.next) };
        let chunks = end - self.next.saturating_sub(self.run);
        chunks.saturating_mul(chunk_length) >= length
    }

    /// Returns the end of the chunks that the reader needs.
    pub fn end(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 16 << 10;

    /// Returns what a reader of these chunks requests before each.
    fn requests(chunks: impl IntoIterator<Item = u64>, largest: u64) -> Vec<Option<Range<u64>>> {
        let mut ahead = ReadAhead::new();
        let request = |index| {
            ahead.reads(index);
            ahead.request(CHUNK, largest)
        };
        chunks.into_iter().map(request).collect()
    }

    #[test]
    fn random_reads_and_repeated_ones_request_nothing() {
        let chunks = [0, 0, 9, 5, 5, 1, 100, 96, u64::MAX - 1, 3];
        assert!(requests(chunks, SCAN_WINDOW).iter().all(Option::is_none));
    }

    #[test]
    fn a_short_scan_requests_at_most_what_it_has_read() {
        for length in 1..40 {
            let end = 7 + length;
            let requested = requests(7..end, SCAN_WINDOW).into_iter().flatten().map(|range| range.end).max();
            assert!(requested.is_none_or(|requested| requested - end <= length), "{length}: {requested:?}");
        }
    }

    #[test]
    fn nothing_is_requested_beyond_the_end_of_the_reader() {
        let mut ahead = ReadAhead::new();
        ahead.end_at(40);
        let mut requested = Vec::new();
        for index in 0..43 {
            ahead.reads(index);
            requested.extend(ahead.request(CHUNK, FILE_WINDOW));
        }
        assert!(requested.is_sorted_by(|a, b| a.end == b.start), "{requested:?}");
        assert_eq!(requested.last().map(|range| range.end), Some(40));
    }

    #[test]
    fn a_reader_is_long_by_what_it_has_read_or_by_its_end() {
        let mut ahead = ReadAhead::new();
        let mut long = Vec::new();
        for index in 10..20 {
            ahead.reads(index);
            long.push(ahead.is_long(CHUNK, 8 * CHUNK));
        }
        assert_eq!(long.iter().position(|is_long| *is_long), Some(7));
        ahead.reads(100);
        assert!(!ahead.is_long(CHUNK, 8 * CHUNK));
        for (end, expected) in [(207, false), (208, true), (u64::MAX - 1, true)] {
            let mut ahead = ReadAhead::new();
            ahead.end_at(end);
            ahead.reads(200);
            assert_eq!(ahead.is_long(CHUNK, 8 * CHUNK), expected, "{end}");
        }
    }

    #[test]
    fn a_long_scan_requests_every_chunk_once_and_in_advance() {
        for largest in [SCAN_WINDOW, FILE_WINDOW] {
            let mut end = 5;
            for (index, range) in (3..500).zip(requests(3..500, largest)) {
                if let Some(range) = range {
                    assert_eq!(range.start, end);
                    assert!((range.end - index - 1) * CHUNK <= largest);
                    end = range.end;
                }
                // Only the first two chunks were not requested.
                assert!(index < end, "{index}");
            }
            assert!(end >= 500 + largest / CHUNK / 2);
        }
    }
}
