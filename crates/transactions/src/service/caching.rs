//! Caches commit records. The absence of a record cannot be cached.

use std::collections::HashMap;

use cassette_database::DeferredWrite;
use quick_cache::sync::Cache;

use super::{Recorded, ServiceResult, TransactionService};
use crate::timestamp::{Timestamp, TransactionStatus};

/// A service with a cache in front of it.
pub struct Caching<T> {
    below: T,
    cache: Cache<Timestamp, TransactionStatus>,
}

impl<T: TransactionService> Caching<T> {
    /// Default number of cached commit records.
    pub const ENTRIES: usize = 1_000_000;

    /// Creates a cache of up to `entries` commit records.
    pub fn new(below: T, entries: usize) -> Self {
        Self { below, cache: Cache::new(entries.max(1)) }
    }

    /// Returns a status from the cache only.
    pub fn cached(&self, start: Timestamp) -> Option<TransactionStatus> {
        if start < Timestamp::FIRST {
            Some(TransactionStatus::Committed(Timestamp::ATOMIC))
        } else {
            self.cache.get(&start)
        }
    }

    /// Caches the status that stands after `status` was put.
    fn remember(&self, start: Timestamp, status: TransactionStatus, result: &ServiceResult<Recorded>) {
        match result {
            Ok(Recorded::Recorded) => self.cache.insert(start, status),
            Ok(Recorded::Exists(existing)) => self.cache.insert(start, *existing),
            Err(_) => {}
        }
    }
}

impl<T: TransactionService> TransactionService for Caching<T> {
    fn get_many(&self, starts: &[Timestamp]) -> ServiceResult<HashMap<Timestamp, TransactionStatus>> {
        let mut found = HashMap::with_capacity(starts.len());
        let mut missing = Vec::new();
        for start in starts {
            match self.cached(*start) {
                Some(status) => drop(found.insert(*start, status)),
                None => missing.push(*start),
            }
        }
        if !missing.is_empty() {
            for (start, status) in self.below.get_many(&missing)? {
                self.cache.insert(start, status);
                found.insert(start, status);
            }
        }
        Ok(found)
    }

    fn put_many_unless_exists(
        &self,
        statuses: &[(Timestamp, TransactionStatus)],
    ) -> Vec<ServiceResult<Recorded>> {
        let results = self.below.put_many_unless_exists(statuses);
        for ((start, status), result) in statuses.iter().zip(&results) {
            self.remember(*start, *status, result);
        }
        results
    }

    fn put_unless_exists(&self, start: Timestamp, status: TransactionStatus) -> ServiceResult<Recorded> {
        let result = self.below.put_unless_exists(start, status);
        self.remember(start, status, &result);
        result
    }

    fn put_with(
        &self,
        start: Timestamp,
        status: TransactionStatus,
        writes: &[DeferredWrite],
    ) -> ServiceResult<Recorded> {
        let result = self.below.put_with(start, status, writes);
        self.remember(start, status, &result);
        result
    }
}
