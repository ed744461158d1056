//! Cleans up after failed restores: versions of a transaction that never commits. They are
//! invisible, but occupy space, and a store with them is not empty.
//!
//! They are not in the sweep queue, which would take as long as the restore. Instead a cell of
//! `_metadata` records the start timestamp of the last restore before its first version is stored.
//! A failed restore undoes its writes; the next one undoes those of the last restore once more,
//! because that may have died or its last writes may have arrived late.

use std::time::Duration;

use bytes::Bytes;

use super::{BackupError, PAGE, data_tables};
use crate::Transactions;
use crate::encoding::var_long;
use crate::error::Error;
use crate::service::Recorded;
use crate::store::{Cell, CheckOutcome, ColumnRange, PutOutcome, PutRow, TableKind};
use crate::timelock::{LockToken, Started};
use crate::timestamp::{Timestamp, TransactionStatus};
use crate::transaction::{METADATA, start_lock};

/// Row and column of the last restore's start timestamp. No table has this name.
const ROW: &[u8] = b"_restore";
const COLUMN: &[u8] = b"start";
/// How long to wait for another restore.
const WAIT: Duration = Duration::from_secs(60);

/// A restore in progress, the only writer.
pub(super) struct Begun {
    pub started: Started,
    pub locks: LockToken,
}

impl Transactions {
    /// Undoes what the last restore left, calls `check` to verify that the store is empty, and
    /// begins: B1 to B4, and C2.
    ///
    /// # Errors
    /// The error of `check`; `LockTimeout` while another restore runs; the errors of the store and
    /// the timestamps.
    pub(super) fn begin_restore(
        &self,
        check: impl Fn() -> Result<(), BackupError>,
    ) -> Result<Begun, BackupError> {
        self.store().create_table(METADATA, TableKind::Data)?;
        loop {
            let last = self.last_restore()?;
            if let Some(last) = &last {
                let start = var_long::decode_non_negative(last).map_err(Error::RestoreMark)?;
                // That restore may still run.
                self.timelock().wait_for(&[start_lock(Timestamp(start))], WAIT)?;
                self.undo_restore(Timestamp(start))?;
            }
            check()?;
            let started = self.timelock().start()?;
            let start = started.start;
            let locked = self.timelock().lock(vec![start_lock(start)], WAIT);
            let begun = match locked {
                Ok(locks) => Begun { started, locks },
                Err(error) => {
                    self.timelock().release(started.hold);
                    return Err(error.into());
                }
            };
            match self.name_restore(start, last) {
                Ok(true) => return Ok(begun),
                // Another restore began at the same time.
                Ok(false) => self.end_restore(begun),
                Err(error) => {
                    self.end_restore(begun);
                    return Err(error);
                }
            }
        }
    }

    /// Releases the locks and the hold of a restore.
    pub(super) fn end_restore(&self, begun: Begun) {
        self.timelock().unlock(begun.locks);
        self.timelock().release(begun.started.hold);
    }

    fn last_restore(&self) -> Result<Option<Bytes>, BackupError> {
        let (row, column) = (Bytes::from_static(ROW), Bytes::from_static(COLUMN));
        Ok(self.store().get_serial(METADATA, &row, &[column])?.pop().flatten())
    }

    /// Replaces the last restore's start timestamp by this one's. Returns whether it succeeded.
    fn name_restore(&self, start: Timestamp, last: Option<Bytes>) -> Result<bool, BackupError> {
        let cell = Cell::new(ROW, COLUMN);
        let new: Bytes = var_long::encode(start.0).into();
        Ok(match last {
            Some(last) => self.store().check_and_set(METADATA, &cell, &last, &new)? == CheckOutcome::Applied,
            None => {
                let put = PutRow { row: cell.row, columns: vec![(cell.column, new)] };
                let outcome = self.store().put_unless_exists(METADATA, &[put]).pop().transpose()?;
                outcome == Some(PutOutcome::Applied)
            }
        })
    }

    /// Ensures that the transaction that began at `start` never commits, and removes its versions,
    /// unless it has committed. Returns their number.
    ///
    /// # Errors
    /// The errors of the store, the service and the timestamps; some versions are left then.
    pub(super) fn undo_restore(&self, start: Timestamp) -> Result<u64, BackupError> {
        match self.service().put_unless_exists(start, TransactionStatus::Aborted)? {
            Recorded::Exists(TransactionStatus::Committed(_)) => return Ok(0),
            Recorded::Recorded | Recorded::Exists(TransactionStatus::Aborted) => {}
        }
        let store = self.store();
        let mut removed = 0;
        for table in data_tables(store)? {
            let mut after: Option<Bytes> = None;
            loop {
                let rows = store.rows(&table, after.as_deref(), PAGE)?;
                let is_last = rows.len() < PAGE;
                after = rows.last().cloned();
                for row in rows {
                    removed += self.undo_row(&table, row, start)?;
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(removed)
    }

    /// Removes the versions of `start` in a row.
    fn undo_row(&self, table: &str, row: Bytes, start: Timestamp) -> Result<u64, BackupError> {
        let mut removed = 0;
        let mut from = Bytes::new();
        loop {
            let range =
                ColumnRange { row: row.clone(), start: from, end: None, limit: PAGE, is_reversed: false };
            let page =
                self.store().columns(table, &[range], Timestamp(start.0 + 1))?.pop().unwrap_or_default();
            let is_last = page.len() < PAGE;
            from = page.last().map_or(Bytes::new(), |(column, _)| [column, &[0][..]].concat().into());
            let cells: Vec<Cell> = page
                .into_iter()
                .filter(|(_, version)| version.timestamp == start)
                .map(|(column, _)| Cell::new(row.clone(), column))
                .collect();
            if !cells.is_empty() {
                let versions: Vec<_> = cells.iter().map(|cell| (cell, start)).collect();
                let now = self.timelock().timestamp()?;
                self.store().delete(table, &versions, now.0)?;
                removed += cells.len() as u64;
            }
            if is_last {
                return Ok(removed);
            }
        }
    }
}
