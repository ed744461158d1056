//! Remembers conclusions. There is no way to remember that there was none.

use std::collections::HashMap;

use quick_cache::sync::Cache;

use super::{Recorded, ServiceResult, TransactionService};
use crate::timestamp::{Conclusion, Timestamp};

/// A service with a cache of conclusions before it.
pub struct Caching<T> {
    below: T,
    cache: Cache<Timestamp, Conclusion>,
}

impl<T: TransactionService> Caching<T> {
    /// How many conclusions are kept unless something else is said.
    pub const ENTRIES: usize = 1_000_000;

    /// Keeps up to `entries` conclusions.
    pub fn new(below: T, entries: usize) -> Self {
        Self { below, cache: Cache::new(entries.max(1)) }
    }

    /// A conclusion that is known without asking.
    pub fn cached(&self, start: Timestamp) -> Option<Conclusion> {
        if start < Timestamp::FIRST {
            Some(Conclusion::Committed(Timestamp::ATOMIC))
        } else {
            self.cache.get(&start)
        }
    }

    /// What stands after `conclusion` was put.
    fn remember(&self, start: Timestamp, conclusion: Conclusion, result: &ServiceResult<Recorded>) {
        match result {
            Ok(Recorded::Recorded) => self.cache.insert(start, conclusion),
            Ok(Recorded::Exists(existing)) => self.cache.insert(start, *existing),
            Err(_) => {}
        }
    }
}

impl<T: TransactionService> TransactionService for Caching<T> {
    fn get_many(&self, starts: &[Timestamp]) -> ServiceResult<HashMap<Timestamp, Conclusion>> {
        let mut found = HashMap::with_capacity(starts.len());
        let mut missing = Vec::new();
        for start in starts {
            match self.cached(*start) {
                Some(conclusion) => drop(found.insert(*start, conclusion)),
                None => missing.push(*start),
            }
        }
        if !missing.is_empty() {
            for (start, conclusion) in self.below.get_many(&missing)? {
                self.cache.insert(start, conclusion);
                found.insert(start, conclusion);
            }
        }
        Ok(found)
    }

    fn put_many_unless_exists(
        &self,
        conclusions: &[(Timestamp, Conclusion)],
    ) -> Vec<ServiceResult<Recorded>> {
        let results = self.below.put_many_unless_exists(conclusions);
        for ((start, conclusion), result) in conclusions.iter().zip(&results) {
            self.remember(*start, *conclusion, result);
        }
        results
    }

    fn put_unless_exists(&self, start: Timestamp, conclusion: Conclusion) -> ServiceResult<Recorded> {
        let result = self.below.put_unless_exists(start, conclusion);
        self.remember(start, conclusion, &result);
        result
    }
}
