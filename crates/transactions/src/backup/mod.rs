//! Backup and restore of a store: everything that was committed at one timestamp, and nothing else.
//!
//! A backup is what one read-only transaction reads: it runs beside all others, and what has not committed at its timestamp is not
//! in it, whether it was in progress, is dead, or has committed since. Restoring writes all of it as one transaction into an empty store: embedded, or on a
//! cluster, whatever it came from. Until that commits, nothing of it is seen; what a restore that failed leaves is undone by itself or by the next.

mod format;
mod leftovers;

use std::io::{Read, Write};

use bytes::Bytes;

use crate::Transactions;
use crate::error::Error;
use crate::service::{Recorded, ServiceError};
use crate::store::{Cell, ColumnRange, Put, Store, StoreError, TableKind};
use crate::timelock::TimeLockError;
use crate::timestamp::{Conclusion, Timestamp};

pub use format::Header;
use format::{Reader, Record, Writer};

/// Columns, and rows, read in one page.
const PAGE: usize = 1_000;
/// Rows that are looked into at once.
const ROWS: usize = 100;
/// Cells, and their bytes, that are written in one call.
const PUTS: usize = 1_000;
const PUT_BYTES: usize = 1 << 20;

/// What was backed up, or restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    /// The timestamp of the snapshot.
    pub timestamp: i64,
    /// Tables.
    pub tables: u64,
    /// Rows.
    pub rows: u64,
    /// Cells.
    pub cells: u64,
}

/// Why a backup was not made or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The backup itself cannot be written or read.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why not.
        error: std::io::Error,
    },
    /// It is not what was written. Nothing of it is seen in the store.
    #[error("the backup is damaged in the block at byte {position}: {what}. Nothing was restored")]
    Corrupt {
        /// Where the block begins.
        position: u64,
        /// What is wrong.
        what: String,
    },
    /// There is something in the store.
    #[error("table {table} of the store is not empty: restore into a new keyspace")]
    NotEmpty {
        /// The table.
        table: String,
    },
    /// A step of the transaction that reads or writes failed. A restore is committed whole or not at all.
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
    /// Writes everything that was committed when it began, while others run on. What it reads is kept from sweeping until it ends.
    ///
    /// # Errors
    /// Those of reads, but for the age of the transaction; Io.
    pub fn backup(&self, out: impl Write) -> Result<Contents, BackupError> {
        let mut tx = self.start_for_backup()?;
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

    /// Puts what is in a backup into this store, which must be empty, as one transaction; before, all timestamps are made greater than
    /// those of the store that it is of.
    ///
    /// # Errors
    /// NotEmpty, Corrupt, and those of a commit: after them nothing of it is seen, unless [`Error::outcome`] says that this is not known.
    pub fn restore(&self, input: impl Read) -> Result<Contents, BackupError> {
        let (mut reader, header) = Reader::new(input)?;
        self.timelock().fast_forward(Timestamp(header.timestamp))?;
        // C2: a reader that meets a version waits.
        let begun = self.begin_restore(|| match self.first_table_in_use()? {
            Some(table) => Err(BackupError::NotEmpty { table }),
            None => Ok(()),
        })?;
        let start = begun.started.start;
        // However long it takes, locks and hold are kept as long as it asks for them; without them it need not go on.
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
            match self.service().put_unless_exists(start, Conclusion::Committed(commit)) {
                Ok(Recorded::Recorded) => Ok(Contents { timestamp: header.timestamp, ..contents }),
                Ok(Recorded::Exists(Conclusion::Aborted)) => Err(Error::RolledBack { start }.into()),
                Ok(Recorded::Exists(found)) => Err(Error::TwoCommits { start, commit, found }.into()),
                Err(cause @ ServiceError::NotPut { .. }) => Err(Error::from(cause).into()),
                Err(cause) => Err(Error::OutcomeUnknown { start, commit, cause }.into()),
            }
        });
        if let Err(error) = &restored {
            match self.undo_restore(start) {
                Ok(_) => tracing::debug!(%error, %start, "a restore failed, and was undone"),
                Err(left) => {
                    tracing::warn!(%error, %left, %start, "what a restore left is undone by the next one");
                }
            }
        }
        // C11.
        self.end_restore(begun);
        restored
    }

    /// A table of applications that has versions.
    fn first_table_in_use(&self) -> Result<Option<String>, StoreError> {
        let store = self.store();
        for table in data_tables(store)? {
            let mut after: Option<Bytes> = None;
            loop {
                // Rows of which all was removed may be among them.
                let rows = store.rows(&table, after.as_deref(), ROWS)?;
                after = rows.last().cloned();
                let is_last = rows.len() < ROWS;
                let range = |row| ColumnRange { row, start: Bytes::new(), end: None, limit: 1 };
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

    /// C5 and C6: writes all cells as versions of `start`, and takes the commit timestamp.
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
                return Err(corrupt("a record behind the end"));
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
                        return Err(corrupt("a row before all tables"));
                    }
                    contents.rows += 1;
                    row = Some(key);
                }
                Record::Cell(column, value) => {
                    let Some(row) = &row else { return Err(corrupt("a cell before all rows")) };
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
        let Some((last, cells)) = end else { return Err(corrupt("it has no end")) };
        if cells != contents.cells {
            return Err(corrupt(&format!("{} cells, and its end says {cells}", contents.cells)));
        }
        self.timelock().fast_forward(last)?;
        Ok((contents, self.timelock().timestamp()?))
    }
}

/// The tables of applications, in order.
fn data_tables(store: &dyn Store) -> Result<Vec<String>, StoreError> {
    let mut tables = store.tables()?;
    tables.retain(|table| !table.starts_with('_'));
    tables.sort_unstable();
    for table in &tables {
        store.create_table(table, TableKind::Data)?;
    }
    Ok(tables)
}
