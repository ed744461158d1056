//! Whether this thread may wait for a disk.
//!
//! A thread that serves many clients may not: reads that need the disk move to a dedicated thread.
//! Whether a read needs the disk is known only while it runs, so it is tried, and fails if it would
//! have to wait.

use std::cell::Cell;

thread_local! {
    static MAY_WAIT: Cell<bool> = const { Cell::new(true) };
}

/// Runs `work` on this thread without waiting for reads from a disk: chunks that neither a cache
/// nor the system has in memory fail with
/// [`StorageError::WouldBlock`](cassette_rows::StorageError::WouldBlock).
///
/// Streams created in `work` may wait again once it has ended.
pub fn without_waiting<T>(work: impl FnOnce() -> T) -> T {
    /// Also if the work panics: the thread serves other requests afterwards.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MAY_WAIT.set(self.0);
        }
    }
    let _restore = Restore(MAY_WAIT.replace(false));
    work()
}

/// Returns whether this thread may wait for a disk now.
pub fn may_wait() -> bool {
    MAY_WAIT.get()
}
