//! Timestamps and locks of this process, for a store that only this process writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use super::locks::Locks;
use super::{Hold, LockToken, Started, TimeLock, TimeLockError, Timestamps};
use crate::store::Store;
use crate::timestamp::Timestamp;

/// In-process timestamps and locks. Exactly one instance may use a store at a time.
pub struct LocalTimeLock<S> {
    timestamps: Timestamps<S>,
    locks: Locks,
    owners: AtomicU64,
    /// Locks and holds of earlier epochs are lost.
    epoch: AtomicU64,
    /// Number of clients that requested a residue.
    residues: AtomicU64,
    /// Held timestamps and their counts.
    held: Mutex<BTreeMap<Timestamp, usize>>,
}

impl<S: Store> LocalTimeLock<S> {
    /// Continues above the bound of the previous instance on this store.
    pub fn open(store: S) -> Result<Self, TimeLockError> {
        Ok(Self {
            timestamps: Timestamps::open(store)?,
            locks: Locks::new(),
            owners: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            residues: AtomicU64::new(0),
            held: Mutex::default(),
        })
    }

    /// Returns the timestamps, to fast-forward them after a restore.
    pub fn timestamps(&self) -> &Timestamps<S> {
        &self.timestamps
    }

    /// Revokes all locks and holds, as a new leader of a lock service does. Transactions that
    /// commit fail at the last check and can be run again.
    pub fn revoke_all(&self) {
        let mut held = self.held.lock();
        self.epoch.fetch_add(1, Ordering::SeqCst);
        held.clear();
        self.locks.clear();
    }
}

impl<S: Store> TimeLock for LocalTimeLock<S> {
    /// The caller that opened it chose its store.
    fn check_store(&self, _: &dyn Store) -> Result<(), TimeLockError> {
        Ok(())
    }

    fn start(&self) -> Result<Started, TimeLockError> {
        self.start_with_residue(0, 1)
    }

    fn start_with_residue(&self, residue: i64, modulus: i64) -> Result<Started, TimeLockError> {
        // B1.
        let (timestamp, _) = self.timestamps.take(1)?;
        let (immutable, hold) = {
            let mut held = self.held.lock();
            let epoch = self.epoch.load(Ordering::SeqCst);
            // B2.
            *held.entry(timestamp).or_insert(0) += 1;
            // B3.
            let smallest = held.first_key_value().map_or(timestamp, |(smallest, _)| *smallest);
            (smallest, Hold { timestamp, epoch })
        };
        // B4.
        match self.timestamps.take_residue(residue, modulus) {
            Ok(start) => Ok(Started { start, immutable, hold }),
            Err(error) => {
                self.release(hold);
                Err(error)
            }
        }
    }

    fn next_residue(&self, modulus: i64) -> Option<i64> {
        let client = self.residues.fetch_add(1, Ordering::Relaxed).cast_signed();
        Some(client.rem_euclid(modulus.max(1)))
    }

    fn timestamp(&self) -> Result<Timestamp, TimeLockError> {
        Ok(self.timestamps.take(1)?.0)
    }

    fn immutable(&self) -> Result<Timestamp, TimeLockError> {
        // Taken first: later holders start above it.
        let (fresh, _) = self.timestamps.take(1)?;
        Ok(self.held.lock().first_key_value().map_or(fresh, |(smallest, _)| fresh.min(*smallest)))
    }

    fn lock(&self, mut names: Vec<Bytes>, timeout: Duration) -> Result<LockToken, TimeLockError> {
        names.sort_unstable();
        names.dedup();
        let owner = self.owners.fetch_add(1, Ordering::Relaxed);
        // Read first: if everything is revoked while the request waits, the token is lost although
        // the locks are held.
        let epoch = self.epoch.load(Ordering::SeqCst);
        self.locks
            .lock(&names, owner, Instant::now() + timeout)
            .map_err(|_| TimeLockError::LockTimeout { waited: timeout })?;
        Ok(LockToken { names: names.into(), owner, epoch, fence: None })
    }

    fn wait_for(&self, names: &[Bytes], timeout: Duration) -> Result<(), TimeLockError> {
        self.locks
            .wait_for(names, Instant::now() + timeout)
            .map_err(|_| TimeLockError::LockTimeout { waited: timeout })
    }

    fn is_held(&self, locks: Option<&LockToken>, hold: Hold) -> Result<bool, TimeLockError> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        Ok(hold.epoch == epoch && locks.is_none_or(|locks| locks.epoch == epoch))
    }

    fn unlock(&self, locks: LockToken) {
        self.locks.unlock(&locks.names, locks.owner);
    }

    fn release(&self, hold: Hold) {
        let mut held = self.held.lock();
        if hold.epoch == self.epoch.load(Ordering::SeqCst)
            && let Some(count) = held.get_mut(&hold.timestamp)
        {
            *count -= 1;
            if *count == 0 {
                held.remove(&hold.timestamp);
            }
        }
    }

    fn fast_forward(&self, timestamp: Timestamp) -> Result<(), TimeLockError> {
        self.timestamps.fast_forward(timestamp)
    }
}

impl<T: TimeLock + ?Sized> TimeLock for Arc<T> {
    fn check_store(&self, store: &dyn Store) -> Result<(), TimeLockError> {
        (**self).check_store(store)
    }

    fn start(&self) -> Result<Started, TimeLockError> {
        (**self).start()
    }

    fn start_with_residue(&self, residue: i64, modulus: i64) -> Result<Started, TimeLockError> {
        (**self).start_with_residue(residue, modulus)
    }

    fn next_residue(&self, modulus: i64) -> Option<i64> {
        (**self).next_residue(modulus)
    }

    fn timestamp(&self) -> Result<Timestamp, TimeLockError> {
        (**self).timestamp()
    }

    fn immutable(&self) -> Result<Timestamp, TimeLockError> {
        (**self).immutable()
    }

    fn lock(&self, names: Vec<Bytes>, timeout: Duration) -> Result<LockToken, TimeLockError> {
        (**self).lock(names, timeout)
    }

    fn wait_for(&self, names: &[Bytes], timeout: Duration) -> Result<(), TimeLockError> {
        (**self).wait_for(names, timeout)
    }

    fn is_held(&self, locks: Option<&LockToken>, hold: Hold) -> Result<bool, TimeLockError> {
        (**self).is_held(locks, hold)
    }

    fn unlock(&self, locks: LockToken) {
        (**self).unlock(locks);
    }

    fn release(&self, hold: Hold) {
        (**self).release(hold);
    }

    fn fast_forward(&self, timestamp: Timestamp) -> Result<(), TimeLockError> {
        (**self).fast_forward(timestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(60);

    fn timelock() -> LocalTimeLock<MemoryStore> {
        LocalTimeLock::open(MemoryStore::new()).unwrap()
    }

    fn names(names: &[&'static str]) -> Vec<Bytes> {
        names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect()
    }

    #[test]
    fn the_immutable_timestamp_stays_below_every_open_transaction() {
        let timelock = timelock();
        let (a, b) = (timelock.start().unwrap(), timelock.start().unwrap());
        assert!(a.immutable < a.start && b.immutable < a.start && a.start < b.start);
        assert_eq!(timelock.immutable().unwrap(), a.immutable);
        timelock.release(a.hold);
        assert_eq!(timelock.immutable().unwrap(), b.hold.timestamp);
        timelock.release(b.hold);
        assert!(timelock.immutable().unwrap() > b.start);
    }

    #[test]
    fn clients_get_distinct_residues_while_enough_are_left() {
        let timelock = timelock();
        let mut residues: Vec<_> = (0..16).filter_map(|_| timelock.next_residue(16)).collect();
        residues.sort_unstable();
        assert_eq!(residues, (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn locks_are_acquired_all_or_none() {
        let timelock = timelock();
        let held = timelock.lock(names(&["b", "b"]), SHORT).unwrap();
        assert!(timelock.lock(names(&["a", "b", "c"]), SHORT).is_err());
        let others = timelock.lock(names(&["c", "a"]), SHORT).unwrap();
        assert!(timelock.wait_for(&names(&["x", "b"]), SHORT).is_err());
        timelock.unlock(held);
        timelock.wait_for(&names(&["x", "b"]), SHORT).unwrap();
        timelock.unlock(others);
        timelock.lock(names(&["a", "b", "c"]), SHORT).unwrap();
    }

    #[test]
    fn locks_are_exclusive() {
        let (timelock, counter) = (timelock(), Mutex::new((0, ())));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let token = timelock.lock(names(&["a", "b"]), LONG).unwrap();
                        counter.lock().0 += 1;
                        assert_eq!(counter.lock().0, 1);
                        counter.lock().0 = 0;
                        timelock.unlock(token);
                    }
                });
            }
        });
    }

    #[test]
    fn revoked_locks_and_holds_stay_lost() {
        let timelock = timelock();
        let started = timelock.start().unwrap();
        let old = timelock.lock(names(&["a"]), SHORT).unwrap();
        assert!(timelock.is_held(Some(&old), started.hold).unwrap());
        timelock.revoke_all();
        assert!(!timelock.is_held(Some(&old), started.hold).unwrap());
        assert!(!timelock.is_held(None, started.hold).unwrap());
        let new = timelock.lock(names(&["a"]), SHORT).unwrap();
        timelock.unlock(old);
        assert!(timelock.lock(names(&["a"]), SHORT).is_err(), "the old holder cannot free the new one's");
        timelock.unlock(new);
    }
}
