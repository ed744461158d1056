//! Backup and restore of a store: everything that was committed at one timestamp, and nothing else.
//!
//! A backup contains what one read-only transaction reads. It runs beside other transactions, and
//! excludes those that had not committed at its timestamp, whether they were in progress, dead, or
//! committed later. A restore writes all of it as one transaction into an empty store, embedded or
//! on a cluster, regardless of the source. Nothing is visible until that commits. A failed restore
//! is undone by itself or by the next one.

mod format;
mod leftovers;

use std::io::{Read, Write};

use bytes::Bytes;

use crate::Transactions;
use crate::error::Error;
use crate::service::{Recorded, ServiceError};
use crate::store::{Cell, ColumnRange, Put, Store, StoreError, TableKind};
use crate::timelock::TimeLockError;
use crate::timestamp::{Timestamp, TransactionStatus};

pub use format::Header;
use format::{Reader, Record, Writer};

/// Page size in columns and rows.
const PAGE: usize = 1_000;
/// Number of rows that are read at once.
const ROWS: usize = 100;
/// Maximum number of cells written in one call.
const PUTS: usize = 1_000;
const PUT_BYTES: usize = 1 << 20;

/// Contents of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    /// Snapshot timestamp.
    pub timestamp: i64,
    /// Number of tables.
    pub tables: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of cells.
    pub cells: u64,
}

/// Errors of backups and restores.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The backup cannot be written or read.
    #[error("cannot {what}: {error}")]
    Io {
        /// Attempted operation.
        what: &'static str,
        /// Cause.
        error: std::io::Error,
    },
    /// The backup is damaged. Nothing of it is visible in the store.
    #[error(
        "corrupt backup, block at byte {position}: {what}. Nothing was restored: use another \
        copy of the backup"
    )]
    Corrupt {
        /// Offset of the block.
        position: u64,
        /// What is wrong.
        what: String,
    },
    /// The store is not empty.
    #[error("table {table} is not empty: restore into a new keyspace")]
    NotEmpty {
        /// A table with data.
        table: String,
    },
    /// The store has indexes, whose entries a restore does not write.
    #[error(
        "table {table} has index {index}: restore into a new keyspace, then declare the index and \
         build it"
    )]
    Indexed {
        /// A table with an index.
        table: String,
        /// Name of the index.
        index: String,
    },
    /// A step of the reading or writing transaction failed. A restore commits completely or not at
    /// all.
    #[error(transparent)]
    Transaction(#[from] Error),
}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        Self::Transaction(error.into())
    }
}

impl From<TimeLockError> for BackupError {
    fn from(error: TimeLockError) -> Self {
        Self::Transaction(error.into())
    }
}

impl From<ServiceError> for BackupError {
    fn from(error: ServiceError) -> Self {
        Self::Transaction(error.into())
    }
}

impl Transactions {
    /// Writes everything that was committed when the backup began, while other transactions run.
    /// What it reads is not swept until it ends.
    ///
    /// # Errors
    /// The errors of reads, except for the age of the transaction; `Io`.
    pub fn backup(&self, out: impl Write) -> Result<Contents, BackupError> {
        let tx = self.start_for_backup()?;
        let header = Header {
            program: concat!("cassette ", env!("CARGO_PKG_VERSION")).to_owned(),
            timestamp: tx.start_timestamp().0,
        };
        let mut contents = Contents { timestamp: header.timestamp, ..Contents::default() };
        let mut writer = Writer::new(out, &header)?;
        for name in data_tables(self.store())? {
            let table = self.table_for_backup(&name);
            contents.tables += 1;
            writer.write(&Record::Table(name))?;
            let mut after: Option<Bytes> = None;
            loop {
                let rows = self.store().rows(table.name(), after.as_deref(), PAGE)?;
                let is_last = rows.len() < PAGE;
                after = rows.last().cloned();
                for row in rows {
                    let mut from = Bytes::new();
                    let mut cells = 0;
                    loop {
                        let page = tx.columns(&table, &row, from.., PAGE)?;
                        let last = page.len() < PAGE;
                        from = page
                            .last()
                            .map_or(Bytes::new(), |(column, _)| [column, &[0][..]].concat().into());
                        if cells == 0 && !page.is_empty() {
                            contents.rows += 1;
                            writer.write(&Record::Row(row.clone()))?;
                        }
                        cells += page.len() as u64;
                        for (column, value) in page {
                            writer.write(&Record::Cell(column, value))?;
                        }
                        if last {
                            break;
                        }
                    }
                    contents.cells += cells;
                }
                if is_last {
                    break;
                }
            }
        }
        let last = self.timelock().timestamp()?;
        writer.write(&Record::End { last, cells: contents.cells })?;
        writer.finish()?;
        Ok(contents)
    }

    /// Restores a backup into this store, which must be empty, as one transaction. First advances
    /// all timestamps above those of the backed-up store.
    ///
    /// # Errors
    /// `NotEmpty`, `Indexed`, `Corrupt`, and the errors of a commit: afterwards nothing of the
    /// backup is visible, unless [`Error::outcome`] is unknown.
    pub fn restore(&self, input: impl Read) -> Result<Contents, BackupError> {
        let (mut reader, header) = Reader::new(input)?;
        self.timelock().fast_forward(Timestamp(header.timestamp))?;
        // C2: readers that find a version wait.
        let begun = self.begin_restore(|| {
            if let Some((table, index)) = self.first_index()? {
                return Err(BackupError::Indexed { table, index });
            }
            match self.first_table_in_use()? {
                Some(table) => Err(BackupError::NotEmpty { table }),
                None => Ok(()),
            }
        })?;
        let start = begun.started.start;
        // Locks and hold last as long as they are checked, however long the restore takes. Without
        // them there is no point in continuing.
        let check_held = || {
            if self.timelock().is_held(Some(&begun.locks), begun.started.hold)? {
                Ok(())
            } else {
                Err(BackupError::from(Error::LocksLost { start }))
            }
        };
        let restored = self.restore_at(start, &mut reader, &check_held).and_then(|(contents, commit)| {
            // C9.
            check_held()?;
            // C10.
            match self.service().put_unless_exists(start, TransactionStatus::Committed(commit)) {
                Ok(Recorded::Recorded) => Ok(Contents { timestamp: header.timestamp, ..contents }),
                Ok(Recorded::Exists(TransactionStatus::Aborted)) => Err(Error::RolledBack { start }.into()),
                Ok(Recorded::Exists(found)) => Err(Error::TwoCommits { start, commit, found }.into()),
                Err(cause @ ServiceError::NotPut { .. }) => Err(Error::from(cause).into()),
                Err(cause) => Err(Error::OutcomeUnknown { start, commit, cause }.into()),
            }
        });
        if let Err(error) = &restored {
            match self.undo_restore(start) {
                Ok(_) => tracing::debug!(%error, %start, "a restore failed and was undone"),
                Err(left) => {
                    tracing::warn!(%error, %left, %start, "the next restore undoes what this one left");
                }
            }
        }
        // C11.
        self.end_restore(begun);
        restored
    }

    /// Returns a table of applications with versions.
    pub(crate) fn first_table_in_use(&self) -> Result<Option<String>, StoreError> {
        let store = self.store();
        for table in data_tables(store)? {
            let mut after: Option<Bytes> = None;
            loop {
                // May include rows whose versions were all removed.
                let rows = store.rows(&table, after.as_deref(), ROWS)?;
                after = rows.last().cloned();
                let is_last = rows.len() < ROWS;
                let range =
                    |row| ColumnRange { row, start: Bytes::new(), end: None, limit: 1, is_reversed: false };
                let ranges: Vec<ColumnRange> = rows.into_iter().map(range).collect();
                if store.columns(&table, &ranges, Timestamp::MAX)?.iter().any(|found| !found.is_empty()) {
                    return Ok(Some(table));
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Writes all cells as versions of `start`, and takes the commit timestamp: C5 and C6.
    fn restore_at(
        &self,
        start: Timestamp,
        reader: &mut Reader<impl Read>,
        check_held: &dyn Fn() -> Result<(), BackupError>,
    ) -> Result<(Contents, Timestamp), BackupError> {
        let corrupt = |what: &str| BackupError::Corrupt { position: 0, what: what.to_owned() };
        let mut contents = Contents::default();
        let mut table: Option<String> = None;
        let mut row: Option<Bytes> = None;
        let mut end = None;
        let mut pending: Vec<(Cell, Bytes)> = Vec::new();
        let mut bytes = 0;
        let write = |table: Option<&String>, pending: &mut Vec<(Cell, Bytes)>| -> Result<(), BackupError> {
            if let Some(table) = table.filter(|_| !pending.is_empty()) {
                let puts: Vec<Put<'_>> = pending
                    .iter()
                    .map(|(cell, value)| Put {
                        table,
                        cell,
                        timestamp: start,
                        value: value.clone(),
                        write_time: start.0,
                    })
                    .collect();
                self.store().put(&puts)?;
                check_held()?;
                pending.clear();
            }
            Ok(())
        };
        while let Some(record) = reader.next()? {
            if end.is_some() {
                return Err(corrupt("a record after the end record"));
            }
            match record {
                Record::Table(name) => {
                    write(table.as_ref(), &mut pending)?;
                    if name.starts_with('_') {
                        return Err(Error::ReservedTable(name).into());
                    }
                    self.store().create_table(&name, TableKind::Data)?;
                    contents.tables += 1;
                    (table, row) = (Some(name), None);
                }
                Record::Row(key) => {
                    if table.is_none() {
                        return Err(corrupt("a row before the first table"));
                    }
                    contents.rows += 1;
                    row = Some(key);
                }
                Record::Cell(column, value) => {
                    let Some(row) = &row else { return Err(corrupt("a cell before the first row")) };
                    if value.is_empty() {
                        return Err(corrupt("a cell without a value"));
                    }
                    contents.cells += 1;
                    bytes += row.len() + column.len() + value.len();
                    pending.push((Cell::new(row.clone(), column), value));
                    if pending.len() >= PUTS || bytes >= PUT_BYTES {
                        write(table.as_ref(), &mut pending)?;
                        bytes = 0;
                    }
                }
                Record::End { last, cells } => end = Some((last, cells)),
            }
        }
        write(table.as_ref(), &mut pending)?;
        let Some((last, cells)) = end else { return Err(corrupt("the end record is missing")) };
        if cells != contents.cells {
            return Err(corrupt(&format!("expected {cells} cells, found {}", contents.cells)));
        }
        self.timelock().fast_forward(last)?;
        Ok((contents, self.timelock().timestamp()?))
    }
}

/// Returns the tables of applications, in order.
pub(crate) fn data_tables(store: &dyn Store) -> Result<Vec<String>, StoreError> {
    let mut tables = store.tables()?;
    tables.retain(|table| !table.starts_with('_'));
    tables.sort_unstable();
    for table in &tables {
        store.create_table(table, TableKind::Data)?;
    }
    Ok(tables)
}
