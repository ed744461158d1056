//! Records the size of the row indexes that a thread reads, for limits on them.
//!
//! A read calls [`take`] before and after it opens partitions: the result is the size of the
//! largest row index in between.

use std::cell::Cell;

use crate::index::PromotedIndex;

/// The charge for an entry of a row index in addition to its bytes in Index.db: the size of
/// Cassandra's on the heap.
const ENTRY_OVERHEAD: u64 = 88;

thread_local! {
    static LARGEST: Cell<u64> = const { Cell::new(0) };
}

/// Records that the calling thread has read `index`, which has `length` bytes in Index.db.
#[inline]
pub(crate) fn note(index: &PromotedIndex, length: u32) {
    let size = index.len() as u64 * ENTRY_OVERHEAD + u64::from(length);
    LARGEST.set(LARGEST.get().max(size));
}

/// Returns the size of the largest row index that the calling thread has read since the last call;
/// 0 if none.
pub fn take() -> u64 {
    LARGEST.take()
}
