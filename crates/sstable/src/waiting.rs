//! Whether this thread may wait for a disk.
//!
//! A thread that serves many does not: what it needs and memory does not have, a thread of its own gets for it. How far
//! a read comes without the disk shows only on the way, so it is tried, and fails when it would have to wait.

use std::cell::Cell;

thread_local! {
    static MAY_WAIT: Cell<bool> = const { Cell::new(true) };
}

/// Does `work`, on this thread, without waiting for a disk to read from: chunks that neither a cache nor the system has
/// in memory fail with [`StorageError::WouldBlock`](cassette_rows::StorageError::WouldBlock).
///
/// Streams made in `work` may wait again once it has ended.
pub fn without_waiting<T>(work: impl FnOnce() -> T) -> T {
    /// Also when the work panics: the thread goes on to serve others.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MAY_WAIT.set(self.0);
        }
    }
    let _restore = Restore(MAY_WAIT.replace(false));
    work()
}

/// Whether this thread may wait for a disk now.
pub fn may_wait() -> bool {
    MAY_WAIT.get()
}
