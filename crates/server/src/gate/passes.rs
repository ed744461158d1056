//! Requests in execution, counted by thread.
//!
//! A shard is one word on its own cache line:
//!
//! ```text
//! bit 63..33: requests of epoch 1 | 32..2: requests of epoch 0 | 1: the epoch of new requests | 0: closed
//! ```
//!
//! A request enters the shard of its thread. As long as there are no more threads than shards, and
//! the request ends on its thread, it touches no cache line that other threads write.
//!
//! Why no request is missed: all changes of a shard have one order, because it is one word. A
//! request enters by a compare-exchange, which fails if the word has changed since it was read. So
//! it enters either before a change that closes the shard, or begins an epoch, and is counted in
//! every later value of the word until it leaves; or after it, and is refused, or belongs to the
//! new epoch. What a request did is visible to a thread that waited for it: leaving releases, all
//! changes are read-modify-writes and continue its release sequence, and the wait acquires.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::threads::processors;

const CLOSED: u64 = 1;
const EPOCH: u64 = 2;
/// The lowest bit of the count of each epoch.
const COUNT_SHIFTS: [u32; 2] = [2, 33];
const COUNT_MASK: u64 = (1 << 31) - 1;

/// Pause between two checks for requests in execution.
const PAUSE: Duration = Duration::from_micros(500);

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of this thread among those that have executed requests.
    static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// Counts the requests in execution.
#[derive(Debug)]
pub(super) struct Passes {
    /// Their number is a power of two.
    shards: Box<[CachePadded<AtomicU64>]>,
    /// Locked while the epoch changes.
    draining: Mutex<()>,
}

/// Where a request is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    shard: usize,
    epoch: usize,
}

/// Returns the epoch of new requests.
fn epoch(word: u64) -> usize {
    usize::from(word & EPOCH != 0)
}

/// Lets other threads run between two steps, in tests of what may happen there.
#[inline]
fn interleave() {
    #[cfg(test)]
    std::thread::yield_now();
}

fn count(word: u64, epoch: usize) -> u64 {
    word >> COUNT_SHIFTS[epoch] & COUNT_MASK
}

impl Passes {
    pub fn new() -> Self {
        // Twice as many as threads that execute requests directly, because other runtimes of the
        // process have numbers, too.
        let threads = processors();
        let shards = (0..(2 * threads).next_power_of_two()).map(|_| CachePadded::default()).collect();
        Self { shards, draining: Mutex::default() }
    }

    /// Counts a request; `None` while closed.
    pub fn enter(&self) -> Option<Entry> {
        let shard = THREAD.with(|number| number & (self.shards.len() - 1));
        let word = &self.shards[shard];
        let mut found = word.load(Ordering::Relaxed);
        loop {
            if found & CLOSED != 0 {
                return None;
            }
            let epoch = epoch(found);
            let entered = found + (1 << COUNT_SHIFTS[epoch]);
            interleave();
            match word.compare_exchange_weak(found, entered, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Entry { shard, epoch }),
                Err(changed) => found = changed,
            }
        }
    }

    /// Ends a request. Called once for each entry, by any thread.
    pub fn leave(&self, Entry { shard, epoch }: Entry) {
        self.shards[shard].fetch_sub(1 << COUNT_SHIFTS[epoch], Ordering::Release);
    }

    /// Refuses later requests.
    pub fn close(&self) {
        for shard in &self.shards {
            shard.fetch_or(CLOSED, Ordering::AcqRel);
        }
    }

    /// Admits requests again.
    pub fn open(&self) {
        for shard in &self.shards {
            shard.fetch_and(!CLOSED, Ordering::AcqRel);
        }
    }

    /// Waits until no request is in execution, after [`close`](Self::close). Returns `false` at
    /// `deadline`.
    pub fn ended(&self, deadline: Instant) -> bool {
        self.wait(deadline, |word| count(word, 0) + count(word, 1) == 0)
    }

    /// Waits until the requests that are in execution now have ended; others continue. Returns
    /// `false` at `deadline`.
    pub fn drained(&self, deadline: Instant) -> bool {
        let Some(_alone) = self.draining.try_lock_until(deadline) else { return false };
        let is_drained = |word| count(word, 1 - epoch(word)) == 0;
        // Those left by an earlier call that reached its deadline: their epoch is the next one.
        if !self.wait(deadline, is_drained) {
            return false;
        }
        for shard in &self.shards {
            shard.fetch_xor(EPOCH, Ordering::AcqRel);
        }
        self.wait(deadline, is_drained)
    }

    /// Waits until the condition holds for each shard once; it must stay true from then on.
    fn wait(&self, deadline: Instant, has_ended: impl Fn(u64) -> bool) -> bool {
        for shard in &self.shards {
            while !has_ended(shard.load(Ordering::Acquire)) {
                if Instant::now() >= deadline {
                    return false;
                }
                std::thread::sleep(PAUSE);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;

    use super::*;

    const THREADS: usize = 4;
    const ROUNDS: usize = 50;

    /// What each thread executes: the number of its request, or zero between two.
    #[derive(Default)]
    struct Executing {
        now: [CachePadded<AtomicU64>; THREADS],
        begun: AtomicUsize,
    }

    impl Executing {
        fn now(&self) -> [u64; THREADS] {
            // Relaxed: only the counters order what requests did before what drains see.
            std::array::from_fn(|thread| self.now[thread].load(Ordering::Relaxed))
        }

        /// Waits until requests have been executed.
        fn proceed(&self) {
            let begun = self.begun.load(Ordering::Relaxed);
            while self.begun.load(Ordering::Relaxed) < begun + THREADS {
                std::thread::yield_now();
            }
        }
    }

    /// Runs `check` while threads execute requests without pause.
    fn beside_requests(passes: &Passes, check: impl FnOnce(&Executing)) {
        let (executing, is_over) = (Executing::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for now in &executing.now {
                let (begun, is_over) = (&executing.begun, &is_over);
                scope.spawn(move || {
                    let mut number = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let Some(entry) = passes.enter() else {
                            std::thread::yield_now();
                            continue;
                        };
                        number += 1;
                        now.store(number, Ordering::Relaxed);
                        begun.fetch_add(1, Ordering::Relaxed);
                        std::thread::yield_now();
                        now.store(0, Ordering::Relaxed);
                        passes.leave(entry);
                    }
                });
            }
            // Also after a failure, which would wait for the threads otherwise.
            let checked = catch_unwind(AssertUnwindSafe(|| check(&executing)));
            is_over.store(true, Ordering::Relaxed);
            checked.unwrap();
        });
        assert!(passes.ended(Instant::now()), "every request has left");
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn nothing_executes_while_closed_whatever_the_interleaving() {
        let passes = Passes::new();
        beside_requests(&passes, |executing| {
            for _ in 0..ROUNDS {
                executing.proceed();
                passes.close();
                assert!(passes.ended(later()));
                for _ in 0..5 {
                    assert_eq!(executing.now(), [0; THREADS]);
                    std::thread::yield_now();
                }
                passes.open();
            }
        });
    }

    #[test]
    fn a_drain_waits_for_each_request_that_has_begun_before_it() {
        let passes = Passes::new();
        beside_requests(&passes, |executing| {
            for _ in 0..ROUNDS {
                executing.proceed();
                let before = executing.now();
                assert!(passes.drained(later()));
                let after = executing.now();
                for (before, after) in before.into_iter().zip(after) {
                    assert!(before == 0 || before != after, "request {before} still executes");
                }
            }
        });
    }

    #[test]
    fn a_stall_is_not_delayed_by_a_drain_that_waits() {
        let passes = Passes::new();
        let entry = passes.enter().unwrap();
        std::thread::scope(|scope| {
            let draining = scope.spawn(|| passes.drained(later()));
            while passes.draining.try_lock().is_some() && !draining.is_finished() {
                std::thread::yield_now();
            }
            passes.close();
            assert!(passes.enter().is_none());
            passes.leave(entry);
            assert!(passes.ended(later()));
            assert!(draining.join().unwrap());
        });
    }

    #[test]
    fn draining_waits_for_earlier_requests_only() {
        let passes = Passes::new();
        let now = Instant::now();
        let earlier = passes.enter().unwrap();
        assert!(!passes.drained(now));
        let later = passes.enter().unwrap();
        assert!(!passes.drained(now), "the first one is still in execution");
        passes.leave(earlier);
        assert!(!passes.drained(now), "the second one is");
        passes.leave(later);
        passes.leave(passes.enter().unwrap());
        assert!(passes.drained(now));
    }
}
