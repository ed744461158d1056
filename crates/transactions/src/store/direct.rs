//! The three statements that commits consist of, executed on an embedded database without the CQL
//! path: rows are read and built here.
//!
//! Each is equivalent to its text in [`layout`](super::layout). Unusual cases (an invalid key, a
//! table with a default TTL, large values) are left to the statement: these functions then return
//! `None`.

use std::sync::Arc;

use bytes::Bytes;
use cassette_database::{Catalog, Database, DatabaseError, DeferredWrite, NotApplied};
use cassette_rows::{
    Bound, Clustering, ColumnId, DecoratedKey, LivenessInfo, NO_TTL, PartitionUpdate, Row, RowBuilder, Slice,
    TableMetadata, key,
};

use super::layout::{self, column2};
use super::{Cell, Put, PutOutcome, Version};
use crate::timestamp::Timestamp;

/// Maximum bytes of a direct write: a single mutation that the commit log accepts.
const BYTES_MAX: usize = 1 << 20;
/// Upper bound on the commit log overhead of a version besides its names and value.
const OVERHEAD: usize = 100;

/// Current definition of a table of the store.
pub(super) struct DirectTable<'c> {
    table: &'c Arc<TableMetadata>,
    value: ColumnId,
}

impl<'c> DirectTable<'c> {
    /// Returns the table if it has a store's columns and can be written directly.
    pub fn of(catalog: &'c Catalog, keyspace: &str, table: &str) -> Option<Self> {
        let table = catalog.table(keyspace, table)?;
        let value = table.column("value")?.id;
        (table.params.default_time_to_live == NO_TTL).then_some(Self { table, value })
    }

    /// Returns the newest version of a cell below a timestamp.
    pub fn get(
        &self,
        database: &Database,
        cell: &Cell,
        below: Timestamp,
    ) -> Option<Result<Option<Version>, DatabaseError>> {
        let slice = Slice {
            start: Bound::after(clustering(&cell.column, below)),
            end: Bound::after(Clustering::of(&[&cell.column])),
        };
        let found = database.first_row(self.table, &decorated(&cell.row)?, slice);
        match found {
            Ok(Some((row, now))) => self.version(&row, now).map(|version| Ok(Some(version))),
            Ok(None) => Some(Ok(None)),
            Err(error) => Some(Err(error)),
        }
    }

    /// Builds the mutation of a put.
    pub fn update(&self, put: &Put<'_>) -> Option<PartitionUpdate> {
        // Cassandra's tables cannot distinguish it from a missing timestamp.
        if put.write_time == i64::MIN {
            return None;
        }
        let mut update = PartitionUpdate::new(decorated(&put.cell.row)?);
        update.rows.push(self.row(clustering(&put.cell.column, put.timestamp), &put.value, put.write_time));
        Some(update)
    }

    /// Puts an atomic cell unless there is one.
    pub fn put_unless_exists(
        &self,
        database: &Database,
        row: &Bytes,
        (column, value): &(Bytes, Bytes),
    ) -> Option<Result<PutOutcome, DatabaseError>> {
        let make = |clustering, write_time| self.row(clustering, value, write_time);
        let at = clustering(column, Timestamp::ATOMIC);
        self.outcome(column, database.put_row_unless_exists(self.table, decorated(row)?, at, make))
    }

    /// Puts an atomic cell unless there is one, and with it writes to CQL tables.
    pub fn put_unless_exists_with(
        &self,
        database: &Database,
        row: &Bytes,
        (column, value): &(Bytes, Bytes),
        writes: &[DeferredWrite],
    ) -> Option<Result<PutOutcome, NotApplied>> {
        let make = |clustering, write_time| self.row(clustering, value, write_time);
        let (key, at) = (decorated(row)?, clustering(column, Timestamp::ATOMIC));
        self.outcome(column, database.put_row_with(self.table, &key, &at, make, writes))
    }

    /// Returns the outcome of a conditional put of `column`, which found `standing` if there is
    /// one.
    fn outcome<E>(
        &self,
        column: &Bytes,
        standing: Result<Option<(Row, u32)>, E>,
    ) -> Option<Result<PutOutcome, E>> {
        Some(match standing {
            Ok(None) => Ok(PutOutcome::Applied),
            Ok(Some((standing, now))) => {
                let version = self.version(&standing, now)?;
                Ok(PutOutcome::Exists(vec![(column.clone(), version.value)]))
            }
            Err(error) => Err(error),
        })
    }

    /// Builds the row of an INSERT.
    fn row(&self, clustering: Clustering, value: &[u8], write_time: i64) -> Row {
        let mut row = RowBuilder::with_capacity(clustering, 1, value.len());
        row.liveness(LivenessInfo::new(write_time));
        row.live_cell(self.value, value, write_time);
        row.finish()
    }

    /// Returns `None` for a row without a value, which is never written: the statement then reports
    /// the error.
    fn version(&self, row: &Row, now: u32) -> Option<Version> {
        let column2 = <[u8; 8]>::try_from(row.clustering().value(1)?).ok()?;
        let cell = row.cell(self.value).filter(|cell| cell.is_live(now))?;
        let timestamp = layout::timestamp(i64::from_be_bytes(column2));
        Some(Version { timestamp, value: Bytes::copy_from_slice(cell.value) })
    }
}

/// Builds the mutations of puts; `None` if any of them cannot be written directly, or if they
/// exceed `bytes_max`.
pub(super) fn updates<'c>(
    catalog: &'c Catalog,
    keyspace: &str,
    puts: &[Put<'_>],
    bytes_max: usize,
) -> Option<Vec<(&'c Arc<TableMetadata>, PartitionUpdate)>> {
    let bytes = |put: &Put<'_>| OVERHEAD + put.cell.row.len() + put.cell.column.len() + put.value.len();
    if puts.iter().map(bytes).sum::<usize>() > BYTES_MAX.min(bytes_max) {
        return None;
    }
    let mut updates = Vec::with_capacity(puts.len());
    for of_table in puts.chunk_by(|a, b| a.table == b.table) {
        let table = DirectTable::of(catalog, keyspace, of_table.first()?.table)?;
        for put in of_table {
            updates.push((table.table, table.update(put)?));
        }
    }
    Some(updates)
}

fn clustering(column: &[u8], timestamp: Timestamp) -> Clustering {
    Clustering::of(&[column, &column2(timestamp).to_be_bytes()])
}

fn decorated(bytes: &Bytes) -> Option<DecoratedKey> {
    (1..=key::MAX_KEY_LENGTH).contains(&bytes.len()).then(|| DecoratedKey::new(bytes.clone()))
}
