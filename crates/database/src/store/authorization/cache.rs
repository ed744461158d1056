//! Caches of what is read from `system_auth` to log in a client or check a permission.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use crate::basics::error::Result;

/// The settings of a cache, as in cassandra.yaml.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthCacheSettings {
    /// How long an entry is used (`…_validity`); zero disables the cache. Statements on roles and
    /// permissions invalidate entries at once. Other changes of `system_auth` take effect after
    /// this time.
    pub validity: Duration,
    /// The maximum number of entries (`…_cache_max_entries`).
    pub max_entries: usize,
}

impl Default for AuthCacheSettings {
    fn default() -> Self {
        Self { validity: Duration::from_secs(2), max_entries: 1000 }
    }
}

/// Values by the name of a role, or by an identity.
#[derive(Debug)]
pub(crate) struct AuthCache<V> {
    settings: AuthCacheSettings,
    entries: RwLock<HashMap<Box<str>, Entry<V>>>,
    /// Counts invalidations: a value that was read before the last one is not cached.
    generation: AtomicU64,
}

#[derive(Debug)]
struct Entry<V> {
    value: Arc<V>,
    /// When it was read, by the monotonic clock.
    read_at: Duration,
}

impl<V> AuthCache<V> {
    pub fn new(settings: AuthCacheSettings) -> Self {
        Self { settings, entries: RwLock::default(), generation: AtomicU64::new(0) }
    }

    /// Returns the value of `role`, which `read` reads unless it is cached. `now` is monotonic
    /// time.
    pub fn get(&self, role: &str, now: Duration, read: impl FnOnce() -> Result<V>) -> Result<Arc<V>> {
        if let Some(entry) = self.entries.read().get(role)
            && self.is_valid(entry, now)
        {
            return Ok(entry.value.clone());
        }
        let generation = self.generation.load(Ordering::Acquire);
        let value = Arc::new(read()?);
        if self.settings.validity.is_zero() || self.settings.max_entries == 0 {
            return Ok(value);
        }
        let mut entries = self.entries.write();
        if self.generation.load(Ordering::Acquire) == generation {
            if entries.len() >= self.settings.max_entries && !entries.contains_key(role) {
                self.make_room(&mut entries, now);
            }
            entries.insert(role.into(), Entry { value: value.clone(), read_at: now });
        }
        Ok(value)
    }

    /// Removes all entries.
    pub fn invalidate(&self) {
        let mut entries = self.entries.write();
        self.generation.fetch_add(1, Ordering::AcqRel);
        entries.clear();
    }

    /// Removes the entry of `role`.
    pub fn invalidate_key(&self, role: &str) {
        let mut entries = self.entries.write();
        self.generation.fetch_add(1, Ordering::AcqRel);
        entries.remove(role);
    }

    /// Returns the valid entries. `now` is monotonic time.
    pub fn entries(&self, now: Duration) -> Vec<(Box<str>, Arc<V>)> {
        let entries = self.entries.read();
        let valid = entries.iter().filter(|(_, entry)| self.is_valid(entry, now));
        valid.map(|(role, entry)| (role.clone(), entry.value.clone())).collect()
    }

    fn is_valid(&self, entry: &Entry<V>, now: Duration) -> bool {
        now.saturating_sub(entry.read_at) < self.settings.validity
    }

    /// Removes expired entries, or else the oldest one.
    fn make_room(&self, entries: &mut HashMap<Box<str>, Entry<V>>, now: Duration) {
        entries.retain(|_, entry| self.is_valid(entry, now));
        if entries.len() >= self.settings.max_entries {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.read_at);
            if let Some(oldest) = oldest.map(|(role, _)| role.clone()) {
                entries.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(seconds: u64, max_entries: usize) -> AuthCache<u32> {
        AuthCache::new(AuthCacheSettings { validity: Duration::from_secs(seconds), max_entries })
    }

    fn get(cache: &AuthCache<u32>, role: &str, at: u64, value: u32) -> u32 {
        *cache.get(role, Duration::from_secs(at), || Ok(value)).unwrap()
    }

    #[test]
    fn entries_are_used_until_they_expire_or_are_invalidated() {
        let cache = cache(2, 10);
        assert_eq!(get(&cache, "a", 10, 1), 1);
        assert_eq!(get(&cache, "a", 11, 2), 1);
        assert_eq!(get(&cache, "a", 12, 3), 3);
        cache.invalidate();
        assert_eq!(get(&cache, "a", 12, 4), 4);
    }

    #[test]
    fn one_entry_can_be_invalidated_and_only_valid_ones_are_listed() {
        let cache = cache(2, 10);
        for (role, at) in [("a", 10), ("b", 11), ("c", 11)] {
            get(&cache, role, at, 1);
        }
        cache.invalidate_key("b");
        let listed = cache.entries(Duration::from_secs(12));
        assert_eq!(listed.iter().map(|(role, _)| &**role).collect::<Vec<_>>(), ["c"]);
        assert_eq!(get(&cache, "b", 12, 2), 2);
    }

    #[test]
    fn a_validity_of_zero_disables_the_cache() {
        let cache = cache(0, 10);
        assert_eq!(get(&cache, "a", 10, 1), 1);
        assert_eq!(get(&cache, "a", 10, 2), 2);
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let cache = cache(100, 3);
        for i in 0..20 {
            get(&cache, &format!("role {i}"), i, 0);
        }
        assert_eq!(cache.entries.read().len(), 3);
        assert_eq!(get(&cache, "role 19", 20, 1), 0);
    }

    #[test]
    fn a_value_read_before_an_invalidation_is_not_cached() {
        let cache = cache(100, 10);
        let read = cache.get("a", Duration::ZERO, || {
            cache.invalidate();
            Ok(1)
        });
        assert_eq!(*read.unwrap(), 1);
        assert_eq!(get(&cache, "a", 0, 2), 2);
    }
}
