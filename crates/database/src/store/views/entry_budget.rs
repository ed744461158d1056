//! The memory of view rows between their computation and the memtable.
//!
//! The view rows of a write are in its commit log record, so all of them are in memory at once:
//! each row once for each view. A statement of a few bytes can change the keys of rows of many
//! megabytes, and a partition deletion deletes the view rows of all its rows. So only one write at
//! a time may hold more than a small share, and none may hold more than memtables can.

use cassette_engine::commitlog::AppendError;
use cassette_engine::{EngineError, Mutation};
use cassette_rows::interrupt::{self, Interrupted};
use cassette_rows::{PartitionUpdate, Row};
use parking_lot::{Mutex, MutexGuard};

use crate::basics::error::{DatabaseError, WriteType};
use crate::basics::request::Consistency;
use crate::store::admission::{Admission, Need, Unapplied};

/// The bytes of view rows that each write may hold concurrently.
const SHARE: usize = 1 << 20;

/// The lock of the one write that may hold much memory: view rows of more than [`SHARE`] bytes
/// until they are in memtables (see [`admission`](crate::store::admission) for the order of locks),
/// or the plans of a batch of many texts.
#[derive(Debug, Default)]
pub(crate) struct LargeWrites {
    held: Mutex<()>,
    /// The number of writes that have waited for it.
    #[cfg(test)]
    pub waits: std::sync::atomic::AtomicUsize,
}

/// Counts the memory of one write's view rows.
pub(crate) struct EntryBudget<'b, 's> {
    large: &'s LargeWrites,
    admission: &'b mut Admission<'s>,
    used: usize,
    limit: u32,
    consistency: Consistency,
    write_type: WriteType,
}

/// The reason why a write changes an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The write names the row.
    Row,
    /// The write deletes the partition, or a range that contains the row.
    Deletion,
}

impl<'b, 's> EntryBudget<'b, 's> {
    /// Returns a budget of `limit` bytes. The other arguments are for the error of a write that
    /// exceeds it.
    pub fn new(
        large: &'s LargeWrites,
        admission: &'b mut Admission<'s>,
        limit: u32,
        consistency: Consistency,
        write_type: WriteType,
    ) -> Self {
        Self { large, admission, used: 0, limit, consistency, write_type }
    }

    /// Adds the memory of an entry.
    ///
    /// # Errors
    /// MustWait, if the write becomes a large one while another is in progress. WriteFailure above
    /// the limit, or Invalid if a deletion exceeds it.
    pub fn charge(&mut self, entry: &PartitionUpdate, reason: Reason) -> Result<(), Unapplied> {
        self.used += heap_size(entry);
        if self.used > self.limit as usize {
            return Err(self.exceeded(reason).into());
        }
        if self.used > SHARE && self.admission.view_rows.is_none() {
            let admitted = self.large.held.try_lock();
            let admitted = admitted.ok_or_else(|| Unapplied::must_wait(Need::ViewRows))?;
            self.admission.view_rows = Some(admitted);
        }
        Ok(())
    }

    fn exceeded(&self, reason: Reason) -> DatabaseError {
        let maximum = self.limit;
        match reason {
            Reason::Row => {
                let error = EngineError::from(AppendError::TooLarge { size: self.used as u64, maximum });
                DatabaseError::write_failure(self.consistency, self.write_type, error)
            }
            Reason::Deletion => DatabaseError::Invalid(format!(
                "the deletion covers too many rows of a table with materialized views: expected view rows of at most \
                 {maximum} bytes in memory (the larger of half of commitlog_segment_size and memtable_heap_space); \
                 delete smaller ranges of clustering columns one after the other, or raise memtable_heap_space"
            )),
        }
    }
}

/// Returns the heap bytes of an entry until it is in a memtable.
fn heap_size(entry: &PartitionUpdate) -> usize {
    size_of::<Mutation>() + entry.key.key().len() + entry.rows.iter().map(Row::heap_size).sum::<usize>()
}

impl LargeWrites {
    /// Waits until no other large write is in progress. The caller must not hold a lock of a
    /// partition.
    ///
    /// # Errors
    /// Interrupted, if the request of this thread is interrupted first.
    pub fn lock(&self) -> Result<MutexGuard<'_, ()>, Interrupted> {
        #[cfg(test)]
        self.waits.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        loop {
            let wait = interrupt::check_before_wait()?;
            if let Some(admitted) = self.held.try_lock_for(wait) {
                return Ok(admitted);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cassette_rows::interrupt::Cancellation;
    use cassette_rows::{Cell, Clustering, ColumnId, DecoratedKey, RowBuilder};

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

    fn charge<'l>(
        large: &'l LargeWrites,
        admission: &mut Admission<'l>,
        bytes: usize,
    ) -> Result<(), Unapplied> {
        let mut budget = EntryBudget::new(large, admission, u32::MAX, Consistency::One, WriteType::Simple);
        budget.charge(&entry(bytes), Reason::Row)
    }

    #[test]
    fn one_large_write_stalls_other_large_ones_only() {
        let large = LargeWrites::default();
        let [mut of_first, mut of_second, mut of_third] =
            [const { Admission { view_rows: None, permit: None, is_written: false } }; 3];
        charge(&large, &mut of_first, SHARE).unwrap();
        charge(&large, &mut of_second, SHARE / 2).unwrap();
        let stalled = charge(&large, &mut of_second, SHARE);
        assert!(matches!(stalled, Err(Unapplied::MustWait(Need::ViewRows))), "{stalled:?}");
        let refused = crate::without_waiting(|| charge(&large, &mut of_third, SHARE));
        assert!(matches!(refused, Err(Unapplied::Failed(DatabaseError::WouldBlock))), "{refused:?}");
        let gone = Cancellation::new();
        gone.cancel(Interrupted::ClientGone);
        let cancelled = interrupt::cancellable(&gone, || large.lock().map(drop));
        assert_eq!(cancelled, Err(Interrupted::ClientGone));
        drop(of_first);
        charge(&large, &mut of_second, SHARE).unwrap();
        charge(&large, &mut of_second, SHARE).unwrap();
    }

    #[test]
    fn more_than_the_limit_is_refused_with_its_remedy() {
        let large = LargeWrites::default();
        let mut admission = Admission::default();
        let mut budget = EntryBudget::new(&large, &mut admission, 10_000, Consistency::One, WriteType::Batch);
        budget.charge(&entry(9000), Reason::Row).unwrap();
        let mut refusal = |reason| match budget.charge(&entry(2000), reason) {
            Err(Unapplied::Failed(error)) => error,
            other => panic!("{other:?}"),
        };
        let error = refusal(Reason::Row);
        assert!(matches!(error, DatabaseError::WriteFailure { .. }), "{error:?}");
        assert!(error.to_string().contains("expected at most 10000"), "{error}");
        let error = refusal(Reason::Deletion);
        assert!(matches!(error, DatabaseError::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains("10000") && error.to_string().contains("ranges"), "{error}");
    }
}
