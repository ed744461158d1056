//! The state that an appender polls, without the append lock, while another one writes its record.
//!
//! A write into reserved space takes a microsecond or two. Suspending a thread for that long and
//! waking it takes several times as much, and a woken appender finds that its own record was too
//! late for that write, and sleeps again. So an appender polls a few times, then yields a few
//! times, and sleeps only if the writer is blocked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Polls without yielding the processor: a microsecond or more.
const SPINS: u32 = 100;
/// Polls with yields: with more appenders than processors, the writer may be waiting for a
/// processor.
const YIELDS: u32 = 50;

/// The progress of writing. Changed by the writer, with the append lock held.
#[derive(Default)]
pub(super) struct Progress {
    /// Records up to this number are as durable as the sync mode guarantees, except refused ones.
    acknowledged: AtomicU64,
    /// Some records up to this number were refused.
    refused: AtomicU64,
    writing: AtomicBool,
}

/// What an appender has observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Its record is as durable as the sync mode guarantees.
    Acknowledged,
    /// No thread is writing: the holder of the append lock decides how to continue.
    Nobody,
    /// The write takes long.
    Busy,
}

impl Progress {
    /// Records that a thread is writing.
    pub fn begin(&self) {
        self.writing.store(true, Ordering::Relaxed);
    }

    /// Records that records up to number `upto` may have been refused. Called before any later
    /// write ends.
    pub fn refuse(&self, upto: u64) {
        self.refused.store(upto, Ordering::Relaxed);
    }

    /// Records the end of the write. `acknowledged` is the last record that is as durable as
    /// guaranteed now; with `None`, waiting appenders find out with the append lock held.
    pub fn end(&self, acknowledged: Option<u64>) {
        if let Some(number) = acknowledged {
            self.acknowledged.store(number, Ordering::Release);
        }
        self.writing.store(false, Ordering::Release);
    }

    /// Polls for the end of the write for a limited time. Called without the append lock.
    pub fn wait_a_little(&self, number: u64) -> Seen {
        for look in 0..SPINS + YIELDS {
            // Read first, so that the acknowledgement of a write that has ended is visible.
            let writing = self.writing.load(Ordering::Acquire);
            if self.is_acknowledged(number) {
                return Seen::Acknowledged;
            }
            if !writing {
                return Seen::Nobody;
            }
            if look < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        Seen::Busy
    }

    fn is_acknowledged(&self, number: u64) -> bool {
        // In this order: a thread that sees an acknowledgement after a refusal also sees the
        // refusal.
        self.acknowledged.load(Ordering::Acquire) >= number && self.refused.load(Ordering::Relaxed) < number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_never_taken_for_acknowledged() {
        let progress = Progress::default();
        progress.begin();
        assert_eq!(progress.wait_a_little(1), Seen::Busy);
        progress.refuse(3);
        progress.end(None);
        assert_eq!(progress.wait_a_little(3), Seen::Nobody);
        progress.begin();
        progress.end(Some(5));
        let seen: Vec<Seen> = (1..=6).map(|number| progress.wait_a_little(number)).collect();
        use Seen::*;
        assert_eq!(seen, [Nobody, Nobody, Nobody, Acknowledged, Acknowledged, Nobody]);
    }
}
