//! The memory of all memtables together.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cassette_rows::interrupt::{self, Interrupted};
use cassette_rows::owner::{self, Owner};
use parking_lot::{Condvar, Mutex};

use crate::memory::admission::{Admission, Found, LARGE};

/// Counts the heap bytes of all memtables, and stalls writers while there are too many.
pub(crate) struct MemtablePool {
    limit: usize,
    flush_above: usize,
    /// Beyond this, memory is for small writes and shared by owners.
    shared_from: usize,
    /// All memtables.
    used: AtomicUsize,
    /// Bytes of memtables that are being flushed or wait for it, which will be freed.
    flushing: AtomicUsize,
    admission: Mutex<Admission>,
    /// Whether large writes are in progress or wait: a copy that can be read without the lock.
    is_busy: AtomicBool,
    /// The owner of the last small write during that time.
    last_small: AtomicU64,
    opened: Instant,
    /// Signaled when memory was freed, or a large write has ended.
    changed: Condvar,
}

/// The admission of one write, which ends when this is dropped.
#[must_use = "the write has ended when this is dropped"]
pub struct WritePermit<'a> {
    pool: &'a MemtablePool,
    owner: Owner,
    covers_large: bool,
    /// Bytes counted as in progress; 0 for small writes.
    in_flight: usize,
    /// When it began to stall others.
    began: Option<Duration>,
}

/// Large writes do not get the last 1 / `SHARED_PART` of the memory.
const SHARED_PART: usize = 8;

impl MemtablePool {
    /// `flush_share` is the fraction of `limit` beyond which the largest memtable is to be flushed.
    /// In any case one is flushed before the pool is full: writers would wait forever otherwise.
    pub fn new(limit: usize, flush_share: f64) -> Self {
        let flush_above = ((limit as f64 * flush_share) as usize).min(limit.saturating_sub(1));
        Self {
            limit,
            flush_above,
            // No writer waits before a flush is due.
            shared_from: (limit - limit / SHARED_PART).max(flush_above + 1),
            used: AtomicUsize::new(0),
            flushing: AtomicUsize::new(0),
            admission: Mutex::default(),
            is_busy: AtomicBool::new(false),
            last_small: AtomicU64::new(0),
            opened: Instant::now(),
            changed: Condvar::new(),
        }
    }

    /// Records that a memtable grew or shrank. Called before a flush can freeze the memtable: a
    /// flush releases all its bytes.
    pub fn grow(&self, bytes: isize) {
        self.used.fetch_add(bytes as usize, Ordering::Relaxed);
    }

    /// Records that a memtable of `bytes` will be flushed.
    pub fn begin_flush(&self, bytes: usize) {
        self.flushing.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records that a memtable was removed after its flush.
    pub fn release(&self, bytes: usize) {
        self.flushing.fetch_sub(bytes, Ordering::Relaxed);
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        // Acquiring the lock orders this after the check of a writer that is about to wait.
        self.admission.lock().age();
        self.changed.notify_all();
    }

    /// Whether active memtables hold so much that one should be flushed.
    pub fn wants_flush(&self) -> bool {
        self.used().saturating_sub(self.flushing.load(Ordering::Relaxed)) > self.flush_above
    }

    /// Whether all writers have to wait.
    pub fn is_full(&self) -> bool {
        self.used() >= self.limit
    }

    /// Whether a small write may have to wait: for memory, or until the commit log has written a
    /// large one.
    pub fn is_contended(&self) -> bool {
        self.is_short() || self.is_busy.load(Ordering::Relaxed)
    }

    /// Whether the remaining memory is shared by owners, so that some writers have to wait.
    pub fn is_short(&self) -> bool {
        self.used() >= self.shared_from
    }

    /// Admits a write of about `bytes`, unless it would have to wait.
    pub fn try_admit(&self, bytes: usize) -> Option<WritePermit<'_>> {
        let owner = owner::current();
        if bytes < LARGE {
            if self.is_busy.load(Ordering::Relaxed) {
                self.last_small.store(owner.0, Ordering::Relaxed);
            }
            if !self.is_short() {
                return Some(self.permit(owner, bytes));
            }
        }
        let mut admission = self.admission.lock();
        let id = admission.enter(owner, bytes);
        let is_admitted = admission.admit(id, self.found());
        if !is_admitted {
            admission.leave(id);
        }
        self.is_busy.store(admission.is_busy(), Ordering::Relaxed);
        drop(admission);
        is_admitted.then(|| self.permit(owner, bytes))
    }

    /// Returns a permit that is not counted, for use where no thread waits for another.
    pub fn uncounted_permit(&self) -> WritePermit<'_> {
        WritePermit { pool: self, owner: Owner::default(), covers_large: true, in_flight: 0, began: None }
    }

    fn permit(&self, owner: Owner, bytes: usize) -> WritePermit<'_> {
        let is_large = bytes >= LARGE;
        if is_large {
            self.last_small.store(owner.0, Ordering::Relaxed);
        }
        let in_flight = if is_large { bytes } else { 0 };
        WritePermit { pool: self, owner, covers_large: is_large, in_flight, began: None }
    }

    /// Admits a write of about `bytes` in its turn among those of all [owners](owner). Calls `look`
    /// at least every 50 ms while it waits.
    ///
    /// # Errors
    /// Those of `look`; Interrupted, if the request of this thread is interrupted.
    pub fn admit<E: From<Interrupted>>(
        &self,
        bytes: usize,
        mut look: impl FnMut() -> Result<(), E>,
    ) -> Result<WritePermit<'_>, E> {
        if let Some(permit) = self.try_admit(bytes) {
            return Ok(permit);
        }
        let owner = owner::current();
        let mut admission = self.admission.lock();
        let id = admission.enter(owner, bytes);
        self.is_busy.store(true, Ordering::Relaxed);
        while !admission.admit(id, self.found()) {
            drop(admission);
            let wait = interrupt::check_before_wait().map_err(E::from).and_then(|wait| look().map(|()| wait));
            admission = self.admission.lock();
            let wait = match wait {
                Ok(wait) => wait,
                Err(error) => {
                    admission.leave(id);
                    self.is_busy.store(admission.is_busy(), Ordering::Relaxed);
                    // It may have been the turn of this write.
                    self.changed.notify_all();
                    return Err(error);
                }
            };
            if admission.admit(id, self.found()) {
                break;
            }
            let pause = admission.pause_left(self.opened.elapsed());
            let wait = if pause.is_zero() { wait } else { pause.min(wait) };
            self.changed.wait_for(&mut admission, wait);
        }
        self.is_busy.store(admission.is_busy(), Ordering::Relaxed);
        // It may be the turn of another write now.
        self.changed.notify_all();
        drop(admission);
        Ok(self.permit(owner, bytes))
    }

    fn found(&self) -> Found {
        Found {
            used: self.used(),
            shared_from: self.shared_from,
            limit: self.limit,
            now: self.opened.elapsed(),
        }
    }

    /// Returns the heap bytes of all memtables.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl WritePermit<'_> {
    /// Whether it admits a write of about `bytes`. A permit for a large write admits any size.
    pub(crate) fn covers(&self, bytes: usize) -> bool {
        self.covers_large || bytes < LARGE
    }

    /// Begins the write, of about `bytes`: it stalls others from now on.
    pub(crate) fn begin(&mut self, bytes: usize) {
        if self.in_flight == 0 {
            return;
        }
        if let Some(more) = bytes.checked_sub(self.in_flight).filter(|more| *more > 0) {
            self.pool.admission.lock().grow(more);
            self.in_flight = bytes;
        }
        self.began = Some(self.pool.opened.elapsed());
    }
}

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        if self.in_flight == 0 {
            return;
        }
        let now = self.pool.opened.elapsed();
        let has_stalled_others = self.pool.last_small.load(Ordering::Relaxed) != self.owner.0;
        let mut admission = self.pool.admission.lock();
        admission.end(self.in_flight);
        if let Some(began) = self.began.filter(|_| has_stalled_others) {
            admission.pause(now, now.saturating_sub(began));
        }
        self.pool.is_busy.store(admission.is_busy(), Ordering::Relaxed);
        drop(admission);
        self.pool.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pool_has_something_flushed_whatever_the_threshold() {
        for share in [0.01, 0.99, 1.0, 2.0, f64::INFINITY, f64::NAN, -1.0] {
            let pool = MemtablePool::new(1000, share);
            pool.grow(1000);
            assert!(pool.is_full() && pool.wants_flush(), "{share}");
            assert!(pool.flush_above < pool.shared_from && pool.shared_from <= pool.limit, "{share}");
            // Bytes that are being flushed will be freed.
            pool.begin_flush(1000);
            assert!(!pool.wants_flush(), "{share}");
            pool.release(1000);
            assert!(!pool.is_full());
        }
    }
}
