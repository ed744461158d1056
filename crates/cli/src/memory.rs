//! The allocator, and the return of freed memory to the operating system.
//!
//! The allocator keeps freed pages for a second, in case they are needed again. After that, they
//! are returned when any thread frees another page. A process that is idle after large requests
//! would therefore keep what they took, until its next work.

use std::io;
use std::thread::{Builder, sleep};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often memory is returned: as long as the allocator keeps freed pages.
const PERIOD: Duration = Duration::from_secs(1);

unsafe extern "C" {
    /// Collects the calling thread's pages, and returns those of all threads that were freed at
    /// least a second ago. Does nothing else without `force`.
    fn mi_collect(force: bool);
}

/// Starts a thread that returns freed memory as long as the process runs.
///
/// # Errors
/// If no thread can be created.
pub(crate) fn return_periodically() -> io::Result<()> {
    let run = || {
        loop {
            sleep(PERIOD);
            // SAFETY: the function is mimalloc's, which is linked as the global allocator. It may
            // be called by any thread at any time, and takes a C `bool`, which is Rust's.
            unsafe { mi_collect(false) };
        }
    };
    Builder::new().name("memory".to_owned()).spawn(run).map(drop)
}
