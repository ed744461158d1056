//! How large the row indexes are that a thread reads, for limits on that.
//!
//! A read calls [`take`] before and after it opens partitions: the size in between is that of the largest row index.

use std::cell::Cell;

use crate::index::PromotedIndex;

/// What an entry of a row index is charged for besides its bytes in Index.db: what Cassandra's takes on the heap.
const ENTRY_OVERHEAD: u64 = 88;

thread_local! {
    static LARGEST: Cell<u64> = const { Cell::new(0) };
}

/// Notes that the calling thread has read `index`, which has `length` bytes in Index.db.
#[inline]
pub(crate) fn note(index: &PromotedIndex, length: u32) {
    let size = index.len() as u64 * ENTRY_OVERHEAD + u64::from(length);
    LARGEST.set(LARGEST.get().max(size));
}

/// The size of the largest row index that the calling thread has read since the last call; 0 if it has read none.
pub fn take() -> u64 {
    LARGEST.take()
}
