//! What the operating system has in memory.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// `struct cachestat_range` of Linux.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// `struct cachestat` of Linux: numbers of pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The number of the system call on all processors; Linux has it from 6.5 on.
const CACHESTAT: libc::c_long = 451;

/// Set once the system has answered that it does not support the call.
static IS_MISSING: AtomicBool = AtomicBool::new(false);

/// Returns how many bytes of the range are in memory, in whole pages; `None` if the system does not
/// report it for this file.
pub(crate) fn cached_bytes(file: &File, offset: u64, length: u64) -> Option<u64> {
    // For the system, no length means the rest of the file.
    if length == 0 {
        return Some(0);
    }
    if IS_MISSING.load(Ordering::Relaxed) {
        return None;
    }
    // The system adds them.
    let range = Range { offset, length: length.min(u64::MAX - offset) };
    let mut pages = Pages::default();
    // SAFETY: the pointers are to structures of the layout that the call expects, which outlive it;
    // the descriptor stays open while `file` is borrowed. Other systems with another call of this
    // number do not compile this module.
    let result =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut pages, 0u32) };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        IS_MISSING.store(error.raw_os_error() == Some(libc::ENOSYS), Ordering::Relaxed);
        return None;
    }
    Some(pages.cached.saturating_mul(page_size()))
}

fn page_size() -> u64 {
    // SAFETY: the call takes a number only.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}
