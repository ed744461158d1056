//! Exclusive in-memory locks by name.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

/// Number of shards, which keeps contention between threads low.
const SHARDS: usize = 64;

/// Locks without expiry: their holders are threads of this process.
pub(super) struct Locks {
    shards: Vec<Shard>,
    hasher: RandomState,
}

#[derive(Default)]
struct Shard {
    /// Held names with their holder and the number of waiters.
    held: Mutex<HashMap<Bytes, Holder>>,
    /// Notified when a lock with waiters is released.
    freed: Condvar,
}

struct Holder {
    owner: u64,
    waiting: usize,
}

/// The deadline passed.
pub(super) struct TimedOut;

impl Locks {
    pub fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Self { shards, hasher: RandomState::new() }
    }

    fn shard(&self, name: &Bytes) -> &Shard {
        &self.shards[self.hasher.hash_one(name) as usize % SHARDS]
    }

    /// Acquires all of `names`, or none. They are sorted without duplicates, so holders cannot
    /// deadlock.
    pub fn lock(&self, names: &[Bytes], owner: u64, deadline: Instant) -> Result<(), TimedOut> {
        for (index, name) in names.iter().enumerate() {
            if self.acquire(name, Some(owner), deadline).is_err() {
                self.unlock(&names[..index], owner);
                return Err(TimedOut);
            }
        }
        Ok(())
    }

    /// Blocks until each was free at some moment.
    pub fn wait_for(&self, names: &[Bytes], deadline: Instant) -> Result<(), TimedOut> {
        names.iter().try_for_each(|name| self.acquire(name, None, deadline))
    }

    fn acquire(&self, name: &Bytes, owner: Option<u64>, deadline: Instant) -> Result<(), TimedOut> {
        let shard = self.shard(name);
        let mut held = shard.held.lock();
        while let Some(holder) = held.get_mut(name) {
            holder.waiting += 1;
            let timed_out = shard.freed.wait_until(&mut held, deadline).timed_out();
            if let Some(holder) = held.get_mut(name) {
                holder.waiting = holder.waiting.saturating_sub(1);
                if timed_out {
                    return Err(TimedOut);
                }
            }
        }
        if let Some(owner) = owner {
            held.insert(name.clone(), Holder { owner, waiting: 0 });
        }
        Ok(())
    }

    /// Releases those of `names` that `owner` holds.
    pub fn unlock(&self, names: &[Bytes], owner: u64) {
        for name in names {
            let shard = self.shard(name);
            let mut held = shard.held.lock();
            if held.get(name).is_some_and(|holder| holder.owner == owner)
                && let Some(holder) = held.remove(name)
                && holder.waiting > 0
            {
                shard.freed.notify_all();
            }
        }
    }

    /// Revokes all locks.
    pub fn clear(&self) {
        for shard in &self.shards {
            shard.held.lock().clear();
            shard.freed.notify_all();
        }
    }
}
