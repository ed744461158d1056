//! Whether this thread may wait for a disk.
//!
//! A thread that serves many clients may not: reads that need the disk move to a dedicated thread.
//! Whether a read needs the disk is known only while it runs, so it is tried, and fails if it would
//! have to wait.

use std::cell::Cell;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Wait for the disk.
    Wait,
    /// Fail if they would have to wait.
    Fail,
    /// Fail if they would have to wait, but start to read.
    Start,
}

thread_local! {
    static READS: Cell<Reads> = const { Cell::new(Reads::Wait) };
}

/// Runs `work` on this thread without waiting for reads from a disk: chunks that neither a cache
/// nor the system has in memory fail with
/// [`StorageError::WouldBlock`](cassette_rows::StorageError::WouldBlock).
///
/// Streams created in `work` may wait again once it has ended.
pub fn without_waiting<T>(work: impl FnOnce() -> T) -> T {
    with(Reads::Fail, work)
}

/// Does [`without_waiting`] for a caller that repeats `work` soon, and may wait then: the system
/// loads the chunk that `work` failed for in the meantime.
pub fn starting_reads<T>(work: impl FnOnce() -> T) -> T {
    with(Reads::Start, work)
}

fn with<T>(reads: Reads, work: impl FnOnce() -> T) -> T {
    /// Also if the work panics: the thread serves other requests afterwards.
    struct Restore(Reads);
    impl Drop for Restore {
        fn drop(&mut self) {
            READS.set(self.0);
        }
    }
    let _restore = Restore(READS.replace(reads));
    work()
}

/// Returns whether this thread may wait for a disk now.
pub fn may_wait() -> bool {
    READS.get() == Reads::Wait
}

/// Returns whether reads that would wait for a disk start now, and fail.
pub(crate) fn starts_reads() -> bool {
    READS.get() == Reads::Start
}
