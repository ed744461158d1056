//! The memory of view rows between their computation and the memtable.
//!
//! A write brings its view rows in its own commit log record, so all of them are in memory at once: the row, once for each view. A
//! statement of a few bytes can move rows of many megabytes. So one write at a time may hold more than a small share, and none
//! more than the commit log accepts.

use std::time::Duration;

use cassette_engine::commitlog::AppendError;
use cassette_engine::{EngineError, may_wait};
use cassette_rows::interrupt;
use cassette_rows::{PartitionUpdate, Row};
use parking_lot::{Mutex, MutexGuard};

use crate::basics::error::{DatabaseError, Result, WriteType};
use crate::basics::request::Consistency;

/// Bytes of view rows that each write may hold beside others.
const SHARE: usize = 1 << 20;

/// How long a write waits before it checks whether its request is interrupted.
const WAIT: Duration = Duration::from_millis(50);

/// Held by the write whose view rows take more than [`SHARE`] bytes, until they are in memtables. Taken after the locks of
/// partitions and before the engine admits the write; an admitted write waits for neither.
#[derive(Debug, Default)]
pub(crate) struct LargeWrites(Mutex<()>);

/// Counts the view rows of one write.
pub(crate) struct EntryBudget<'a> {
    large: &'a LargeWrites,
    admitted: Option<MutexGuard<'a, ()>>,
    used: usize,
    limit: u32,
    consistency: Consistency,
    write_type: WriteType,
}

impl<'a> EntryBudget<'a> {
    /// A budget of `limit` bytes. The rest is for the error of a write that exceeds it.
    pub fn new(large: &'a LargeWrites, limit: u32, consistency: Consistency, write_type: WriteType) -> Self {
        Self { large, admitted: None, used: 0, limit, consistency, write_type }
    }

    /// Adds the values of an entry. Blocks while another large write is under way, if this is becoming one.
    ///
    /// # Errors
    /// WriteFailure above the limit. WouldBlock, if this thread may not wait and would have to. Those of interrupted requests.
    pub fn charge(&mut self, entry: &PartitionUpdate) -> Result<()> {
        self.used += entry.rows.iter().map(Row::data_size).sum::<usize>();
        if self.used > self.limit as usize {
            let error =
                EngineError::from(AppendError::TooLarge { size: self.used as u64, maximum: self.limit });
            return Err(DatabaseError::write_failure(self.consistency, self.write_type, error));
        }
        if self.used > SHARE && self.admitted.is_none() {
            self.admitted = Some(self.large.lock()?);
        }
        Ok(())
    }
}

impl LargeWrites {
    fn lock(&self) -> Result<MutexGuard<'_, ()>> {
        if let Some(admitted) = self.0.try_lock() {
            return Ok(admitted);
        }
        if !may_wait() {
            return Err(DatabaseError::WouldBlock);
        }
        loop {
            interrupt::check_now()?;
            let wait = interrupt::remaining().map_or(WAIT, |left| left.min(WAIT));
            if let Some(admitted) = self.0.try_lock_for(wait) {
                return Ok(admitted);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cassette_rows::interrupt::Cancellation;
    use cassette_rows::{Cell, Clustering, ColumnId, DecoratedKey, Interrupted, RowBuilder};

    use super::*;

    fn entry(bytes: usize) -> PartitionUpdate {
        let mut row = RowBuilder::new(Clustering::new([]));
        row.cell(Cell {
            column: ColumnId(0),
            path: None,
            value: &vec![7; bytes],
            timestamp: 1,
            ttl: cassette_rows::deletion::NO_TTL,
            local_deletion_time: cassette_rows::deletion::NO_DELETION_TIME,
        });
        let mut update = PartitionUpdate::new(DecoratedKey::new(vec![1].into()));
        update.rows.push(row.finish());
        update
    }

    #[test]
    fn one_large_write_holds_up_other_large_ones_only() {
        let large = LargeWrites::default();
        let budget = || EntryBudget::new(&large, u32::MAX, Consistency::One, WriteType::Simple);
        let mut first = budget();
        first.charge(&entry(SHARE)).unwrap();
        let mut second = budget();
        second.charge(&entry(SHARE)).unwrap();
        first.charge(&entry(1)).unwrap();
        let refused = crate::without_waiting(|| second.charge(&entry(1)));
        assert_eq!(refused, Err(DatabaseError::WouldBlock));
        let gone = Cancellation::new();
        gone.cancel(Interrupted::ClientGone);
        let cancelled = interrupt::cancellable(&gone, || second.charge(&entry(1)));
        assert!(matches!(cancelled, Err(DatabaseError::Interrupted(_))), "{cancelled:?}");
        drop(first);
        second.charge(&entry(1)).unwrap();
    }

    #[test]
    fn more_than_the_limit_is_refused_with_both_sizes() {
        let large = LargeWrites::default();
        let mut budget = EntryBudget::new(&large, 1000, Consistency::One, WriteType::Batch);
        budget.charge(&entry(900)).unwrap();
        let error = budget.charge(&entry(200)).unwrap_err().to_string();
        assert!(error.contains("1100") && error.contains("1000"), "{error}");
    }
}
