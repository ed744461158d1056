//! Locks on files.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::error;
use crate::FileLock;

/// The locks that are held: exclusive, or by how many.
pub(super) type Locks = HashMap<PathBuf, Holders>;

pub(super) enum Holders {
    Exclusive,
    Shared(usize),
}

/// A lock, released on drop.
pub(super) struct HeldLock {
    locks: Arc<Mutex<Locks>>,
    path: PathBuf,
}

impl HeldLock {
    pub(super) fn exclusive(locks: &Arc<Mutex<Locks>>, path: PathBuf) -> io::Result<Self> {
        let mut held = locks.lock();
        if held.contains_key(&path) {
            return Err(error(io::ErrorKind::WouldBlock, "lock", &path, "the lock is held"));
        }
        held.insert(path.clone(), Holders::Exclusive);
        Ok(Self { locks: Arc::clone(locks), path })
    }

    pub(super) fn shared(locks: &Arc<Mutex<Locks>>, path: PathBuf) -> io::Result<Self> {
        match locks.lock().entry(path.clone()).or_insert(Holders::Shared(0)) {
            Holders::Exclusive => {
                return Err(error(io::ErrorKind::WouldBlock, "lock", &path, "the lock is held"));
            }
            Holders::Shared(count) => *count += 1,
        }
        Ok(Self { locks: Arc::clone(locks), path })
    }
}

impl FileLock for HeldLock {}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let mut held = self.locks.lock();
        match held.get_mut(&self.path) {
            Some(Holders::Shared(count)) if *count > 1 => *count -= 1,
            _ => drop(held.remove(&self.path)),
        }
    }
}
