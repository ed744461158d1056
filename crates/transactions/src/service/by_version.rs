//! Conclusions in several layouts side by side: each start in that which the coordination row says.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use super::coordination::{Coordination, known};
use super::{Recorded, ServiceError, ServiceResult, StoredConclusions, TransactionService};
use crate::store::Store;
use crate::timestamp::{Conclusion, Timestamp};

/// Conclusions of a store, wherever its coordination row says they are.
pub struct ByVersion {
    store: Arc<dyn Store>,
    coordination: Arc<Coordination>,
    /// Versions 1, 2 and 3, opened when they are first met.
    layouts: [OnceLock<StoredConclusions<Arc<dyn Store>>>; 3],
}

impl ByVersion {
    /// Conclusions in `store`, whose row `coordination` is.
    pub fn new(store: Arc<dyn Store>, coordination: Arc<Coordination>) -> Self {
        Self { store, coordination, layouts: Default::default() }
    }

    /// The service of a version.
    fn layout(&self, version: u32) -> ServiceResult<&StoredConclusions<Arc<dyn Store>>> {
        let layout = known(version)?;
        let slot = (version as usize).checked_sub(1).and_then(|index| self.layouts.get(index));
        let slot = slot.ok_or(ServiceError::NewerLayout { version })?;
        if let Some(opened) = slot.get() {
            return Ok(opened);
        }
        // Should two threads do it at once, one is dropped.
        let opened = StoredConclusions::open(self.store.clone(), layout)?;
        Ok(slot.get_or_init(|| opened))
    }

    /// Calls `found` with every start of the range that has a conclusion, layout by layout as [`StoredConclusions::enumerate`].
    /// Starts that were not given out yet are left out.
    ///
    /// # Errors
    /// As there; NewerLayout, where a part of the range has one.
    pub fn enumerate(
        &self,
        starts: RangeInclusive<Timestamp>,
        mut found: impl FnMut(Timestamp, Conclusion) -> ServiceResult<()>,
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

/// Items by the version of their start, with their places. Mostly there is one version.
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
    fn get_many(&self, starts: &[Timestamp]) -> ServiceResult<HashMap<Timestamp, Conclusion>> {
        let mut groups = Groups(Vec::new());
        let mut found = HashMap::with_capacity(starts.len());
        for (index, start) in starts.iter().enumerate() {
            // Before the map is asked: it says nothing of them.
            if *start < Timestamp::FIRST {
                drop(found.insert(*start, Conclusion::Committed(Timestamp::ATOMIC)))
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
        conclusions: &[(Timestamp, Conclusion)],
    ) -> Vec<ServiceResult<Recorded>> {
        let mut results: Vec<Option<ServiceResult<Recorded>>> = vec![None; conclusions.len()];
        let mut groups = Groups(Vec::new());
        for (index, (start, conclusion)) in conclusions.iter().enumerate() {
            let version = if *start < Timestamp::FIRST {
                Err(ServiceError::BeforeTime(*start))
            } else {
                self.coordination.version(*start)
            };
            match version {
                Ok(version) => groups.push(version, index, (*start, *conclusion)),
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
        let results = results.into_iter().zip(conclusions);
        results.map(|(result, (start, _))| result.unwrap_or_else(|| Err(missing(*start)))).collect()
    }

    fn put_unless_exists(&self, start: Timestamp, conclusion: Conclusion) -> ServiceResult<Recorded> {
        if start < Timestamp::FIRST {
            return Err(not_put(start, ServiceError::BeforeTime(start)));
        }
        let version = self.coordination.version(start).map_err(|error| not_put(start, error))?;
        let layout = self.layout(version).map_err(|error| not_put(start, error))?;
        layout.put_unless_exists(start, conclusion)
    }
}
