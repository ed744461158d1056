//! Key, row and counter caches: their capacities, and saving and loading them.

use super::Engine;
use crate::basics::error::Result;
use crate::basics::options::{CacheKind, Options};

impl Engine {
    /// Empties the key cache.
    pub fn invalidate_key_cache(&self) {
        self.inner.core.key_cache.clear();
    }

    /// Empties the row cache.
    pub fn invalidate_row_cache(&self) {
        self.inner.core.row_cache.clear();
    }

    /// Empties the counter cache.
    pub fn invalidate_counter_cache(&self) {
        self.inner.core.counter_cache.clear();
    }

    /// Sets the capacities of the key, row and counter caches in bytes, until the next start.
    ///
    /// # Errors
    /// If the sizes exceed the available memory.
    pub fn set_cache_capacity(&self, key_cache: u64, row_cache: u64, counter_cache: u64) -> Result<()> {
        let core = &self.inner.core;
        let options = Options {
            key_cache_size: key_cache,
            row_cache_size: row_cache,
            counter_cache_size: counter_cache,
            ..core.options.clone()
        };
        options.check_sizes(cassette_vfs::memory_limit())?;
        core.key_cache.set_capacity(key_cache);
        core.row_cache.set_capacity(row_cache);
        core.counter_cache.set_capacity(counter_cache);
        Ok(())
    }

    /// Sets how many keys of a cache are saved at most, the most frequently used ones; until the
    /// next start.
    pub fn set_cache_keys_to_save(&self, cache: CacheKind, most: usize) {
        self.inner.core.saved_caches.set_keys_to_save(cache, most);
    }

    /// Replaces a file of the caller beside the saved caches, which holds what can be derived from
    /// the tables. The file is complete or absent after a crash.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save_beside_caches(&self, name: &str, content: &[u8]) -> Result<()> {
        Ok(self.inner.core.save_beside_caches(name, content)?)
    }

    /// Reads a file that [`save_beside_caches`](Self::save_beside_caches) has written; `None` if it
    /// does not exist, or has more than 1 GiB.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_beside_caches(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.inner.core.read_beside_caches(name)?)
    }

    /// Removes the files beside the saved caches whose names begin with `prefix`, except those that
    /// are wanted.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn retain_beside_caches(&self, prefix: &str, wanted: impl Fn(&str) -> bool) -> Result<()> {
        Ok(self.inner.core.retain_beside_caches(prefix, wanted)?)
    }

    /// Saves the caches that have a save period, as is done periodically and by
    /// [`close`](Self::close). Errors are logged.
    pub fn save_caches(&self) {
        self.inner.core.save_caches();
    }

    /// Saves the caches whose period has elapsed, in the calling thread. The engine's threads do so
    /// within seconds.
    pub fn save_caches_when_due(&self) {
        self.inner.core.save_caches_when_due();
    }

    /// Loads the saved caches in the background. Call it once after
    /// [`finish_recovery`](Self::finish_recovery). `node` identifies the counts of the counter
    /// cache. Correctness does not depend on the files: damage is logged.
    pub fn load_saved_caches(&self, node: [u8; 16]) {
        self.inner.core.request_saved_caches(node);
    }
}
