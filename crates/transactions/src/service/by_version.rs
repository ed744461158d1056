//! Commit records in several layouts side by side. The coordination row determines the layout of
//! each start timestamp.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use cassette_database::DeferredWrite;

use super::coordination::{Coordination, known};
use super::{CommitRecords, Recorded, ServiceError, ServiceResult, TransactionService};
use crate::store::Store;
use crate::timestamp::{Timestamp, TransactionStatus};

/// Commit records of a store in all layouts that its coordination row names.
pub struct ByVersion {
    store: Arc<dyn Store>,
    coordination: Arc<Coordination>,
    /// Versions 1, 2 and 3, each opened on first use.
    layouts: [OnceLock<CommitRecords<Arc<dyn Store>>>; 3],
}

impl ByVersion {
    /// Creates the service of `store`, whose coordination row is `coordination`.
    pub fn new(store: Arc<dyn Store>, coordination: Arc<Coordination>) -> Self {
        Self { store, coordination, layouts: Default::default() }
    }

    /// Returns the service of a layout version.
    fn layout(&self, version: u32) -> ServiceResult<&CommitRecords<Arc<dyn Store>>> {
        let layout = known(version)?;
        let slot = (version as usize).checked_sub(1).and_then(|index| self.layouts.get(index));
        let slot = slot.ok_or(ServiceError::NewerLayout { version })?;
        if let Some(opened) = slot.get() {
            return Ok(opened);
        }
        // If two threads open it at the same time, one is dropped.
        let opened = CommitRecords::open(self.store.clone(), layout)?;
        Ok(slot.get_or_init(|| opened))
    }

    /// Calls `found` for every start timestamp of the range that has a commit record, layout by
    /// layout as [`CommitRecords::enumerate`] does. Timestamps that were not issued yet are
    /// skipped.
    ///
    /// # Errors
    /// As there, and `NewerLayout` if part of the range has an unknown layout.
    pub fn enumerate(
        &self,
        starts: RangeInclusive<Timestamp>,
        mut found: impl FnMut(Timestamp, TransactionStatus) -> ServiceResult<()>,
    ) -> ServiceResult<()> {
        let Some(agreed) = self.coordination.read()? else { return Ok(()) };
        let ranges = agreed.map.ranges();
        let ends = ranges.iter().skip(1).map(|(next, _)| next - 1).chain([agreed.bound.0]);
        for ((first, version), last) in ranges.iter().zip(ends) {
            let (low, high) = (starts.start().0.max(*first), starts.end().0.min(last));
            if low <= high {
                self.layout(*version)?.enumerate(Timestamp(low)..=Timestamp(high), &mut found)?;
            }
        }
        Ok(())
    }
}

/// Items grouped by the layout version of their start timestamp, with their positions. Usually
/// there is one version.
struct Groups<T>(Vec<(u32, Vec<(usize, T)>)>);

impl<T> Groups<T> {
    fn push(&mut self, version: u32, index: usize, item: T) {
        match self.0.iter_mut().find(|(known, _)| *known == version) {
            Some((_, items)) => items.push((index, item)),
            None => self.0.push((version, vec![(index, item)])),
        }
    }
}

fn not_put(start: Timestamp, cause: ServiceError) -> ServiceError {
    ServiceError::NotPut { start, cause: Box::new(cause) }
}

impl TransactionService for ByVersion {
    fn get_many(&self, starts: &[Timestamp]) -> ServiceResult<HashMap<Timestamp, TransactionStatus>> {
        let mut groups = Groups(Vec::new());
        let mut found = HashMap::with_capacity(starts.len());
        for (index, start) in starts.iter().enumerate() {
            // Checked first: the map does not cover these timestamps.
            if *start < Timestamp::FIRST {
                found.insert(*start, TransactionStatus::Committed(Timestamp::ATOMIC));
            } else {
                groups.push(self.coordination.version(*start)?, index, *start)
            }
        }
        for (version, items) in groups.0 {
            let starts: Vec<_> = items.into_iter().map(|(_, start)| start).collect();
            let of_version = self.layout(version)?.get_many(&starts)?;
            if found.is_empty() { found = of_version } else { found.extend(of_version) }
        }
        Ok(found)
    }

    fn put_many_unless_exists(
        &self,
        statuses: &[(Timestamp, TransactionStatus)],
    ) -> Vec<ServiceResult<Recorded>> {
        let mut results: Vec<Option<ServiceResult<Recorded>>> = vec![None; statuses.len()];
        let mut groups = Groups(Vec::new());
        for (index, (start, status)) in statuses.iter().enumerate() {
            let version = if *start < Timestamp::FIRST {
                Err(ServiceError::BeforeTime(*start))
            } else {
                self.coordination.version(*start)
            };
            match version {
                Ok(version) => groups.push(version, index, (*start, *status)),
                Err(error) => results[index] = Some(Err(not_put(*start, error))),
            }
        }
        for (version, items) in groups.0 {
            let (indexes, puts): (Vec<usize>, Vec<_>) = items.into_iter().unzip();
            let of_version = match self.layout(version) {
                Ok(layout) => layout.put_many_unless_exists(&puts),
                Err(error) => puts.iter().map(|(start, _)| Err(not_put(*start, error.clone()))).collect(),
            };
            for (index, result) in indexes.into_iter().zip(of_version) {
                results[index] = Some(result);
            }
        }
        let missing = |start| ServiceError::Broken { start, what: "a put had no result".to_owned() };
        let results = results.into_iter().zip(statuses);
        results.map(|(result, (start, _))| result.unwrap_or_else(|| Err(missing(*start)))).collect()
    }

    fn put_unless_exists(&self, start: Timestamp, status: TransactionStatus) -> ServiceResult<Recorded> {
        if start < Timestamp::FIRST {
            return Err(not_put(start, ServiceError::BeforeTime(start)));
        }
        let version = self.coordination.version(start).map_err(|error| not_put(start, error))?;
        let layout = self.layout(version).map_err(|error| not_put(start, error))?;
        layout.put_unless_exists(start, status)
    }

    fn put_with(
        &self,
        start: Timestamp,
        status: TransactionStatus,
        writes: &[DeferredWrite],
    ) -> ServiceResult<Recorded> {
        if start < Timestamp::FIRST {
            return Err(not_put(start, ServiceError::BeforeTime(start)));
        }
        let version = self.coordination.version(start).map_err(|error| not_put(start, error))?;
        let layout = self.layout(version).map_err(|error| not_put(start, error))?;
        layout.put_with(start, status, writes)
    }
}
