//! Counters that threads increment without contention.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of shards that threads are distributed over.
const SHARDS: usize = 8;

/// Returns the shard of this thread.
#[inline]
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const NONE_YET: usize = usize::MAX;
    thread_local!(static SHARD: Cell<usize> = const { Cell::new(NONE_YET) });
    SHARD.with(|shard| {
        if shard.get() == NONE_YET {
            shard.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        shard.get()
    })
}

/// An array of counters for each shard. A shard is allocated when one of its threads first counts.
pub(super) struct Sharded {
    width: usize,
    shards: [OnceLock<Box<[AtomicU64]>>; SHARDS],
}

impl Sharded {
    /// Creates `width` counters, all zero.
    pub fn new(width: usize) -> Self {
        Self { width, shards: Default::default() }
    }

    /// Returns the counters of this thread's shard.
    #[inline]
    pub fn own(&self) -> &[AtomicU64] {
        let shard = &self.shards[own_shard()];
        shard.get_or_init(|| (0..self.width).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns the sums of the counters.
    pub fn sums(&self) -> Box<[u64]> {
        let mut sums = vec![0u64; self.width].into_boxed_slice();
        for shard in self.shards.iter().filter_map(OnceLock::get) {
            for (sum, counter) in sums.iter_mut().zip(shard) {
                *sum = sum.wrapping_add(counter.load(Ordering::Relaxed));
            }
        }
        sums
    }

    /// Whether nothing was counted.
    pub fn is_unused(&self) -> bool {
        self.shards.iter().all(|shard| shard.get().is_none())
    }
}

impl std::fmt::Debug for Sharded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.sums()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_count_adds_up() {
        let counters = Sharded::new(3);
        assert!(counters.is_unused());
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        counters.own()[1].fetch_add(2, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(*counters.sums(), [0, 4000 * SHARDS as u64, 0]);
    }
}
