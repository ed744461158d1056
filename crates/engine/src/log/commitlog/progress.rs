//! What an appender looks at, without the append lock, while another one writes its record.
//!
//! One write into reserved space takes a microsecond or two. To put a thread to sleep for that long
//! and wake it up again takes several times as much, and an appender that is woken finds that its
//! own record came too late for that write, and sleeps again. So an appender looks a few times,
//! then lets others run a few times, and sleeps only when the writer is blocked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Looks without giving the processor away: a microsecond or more.
const SPINS: u32 = 100;
/// Looks with giving it away in between: on a machine with more appenders than processors the
/// writer may be one that waits for one.
const YIELDS: u32 = 50;

/// How far writing is. Changed by the one who writes, with the append lock held.
#[derive(Default)]
pub(super) struct Progress {
    /// Records up to this number are as durable as the sync mode guarantees, but for those that
    /// were refused.
    acknowledged: AtomicU64,
    /// Among the records up to this number are some that were refused.
    refused: AtomicU64,
    writing: AtomicBool,
}

/// What an appender has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Its record is as durable as the sync mode guarantees.
    Acknowledged,
    /// No thread writes: the holder of the append lock decides what is to be done.
    Nobody,
    /// The writer takes long.
    Busy,
}

impl Progress {
    /// A thread writes.
    pub fn begin(&self) {
        self.writing.store(true, Ordering::Relaxed);
    }

    /// Records up to number `upto` may have been refused. Before any later write ends.
    pub fn refuse(&self, upto: u64) {
        self.refused.store(upto, Ordering::Relaxed);
    }

    /// The write has ended. `acknowledged` is the last record of those that are as safe as promised
    /// now; `None` leaves it to those who wait to find out with the append lock held.
    pub fn end(&self, acknowledged: Option<u64>) {
        if let Some(number) = acknowledged {
            self.acknowledged.store(number, Ordering::Release);
        }
        self.writing.store(false, Ordering::Release);
    }

    /// Waits for the one who writes, a little. Called without the append lock.
    pub fn wait_a_little(&self, number: u64) -> Seen {
        for look in 0..SPINS + YIELDS {
            // Read first: what has ended before is seen to have been acknowledged.
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
