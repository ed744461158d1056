//! The three statements that commits consist of, on an embedded database without the way of a statement: their rows are read and built here.
//!
//! Each does what its text in [`layout`](super::layout) says. What is out of the common (a key that is none, a table with a default TTL, very
//! many bytes) is left to the statement: then these give `None`.

use std::sync::Arc;

use bytes::Bytes;
use cassette_database::{Catalog, Database, DatabaseError};
use cassette_rows::{
    Bound, Clustering, ColumnId, DecoratedKey, LivenessInfo, NO_TTL, PartitionUpdate, Row, RowBuilder, Slice,
    TableMetadata, key,
};

use super::layout::{self, column2};
use super::{Cell, Put, PutOutcome, Version};
use crate::timestamp::Timestamp;

/// Bytes that are written directly at most: one write then, which the commit log takes.
const BYTES_MAX: usize = 1 << 20;
/// What a version takes of the commit log beside its names and value, and more.
const OVERHEAD: usize = 100;

/// A table of the store, as it is now.
pub(super) struct DirectTable<'c> {
    table: &'c Arc<TableMetadata>,
    value: ColumnId,
}

impl<'c> DirectTable<'c> {
    /// The table, which has the columns of a store's; `None` if its rows are not to be written so.
    pub fn of(catalog: &'c Catalog, keyspace: &str, table: &str) -> Option<Self> {
        let table = catalog.table(keyspace, table)?;
        let value = table.column("value")?.id;
        (table.params.default_time_to_live == NO_TTL).then_some(Self { table, value })
    }

    /// The newest version of a cell below a timestamp.
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

    /// What a put writes.
    pub fn update(&self, put: &Put<'_>) -> Option<PartitionUpdate> {
        // Cassandra's tables cannot tell it from no timestamp.
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
        match database.put_row_unless_exists(self.table, decorated(row)?, at, make) {
            Ok(None) => Some(Ok(PutOutcome::Applied)),
            Ok(Some((standing, now))) => {
                let version = self.version(&standing, now)?;
                Some(Ok(PutOutcome::Exists(vec![(column.clone(), version.value)])))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// What an INSERT makes.
    fn row(&self, clustering: Clustering, value: &[u8], write_time: i64) -> Row {
        let mut row = RowBuilder::with_capacity(clustering, 1, value.len());
        row.liveness(LivenessInfo::new(write_time));
        row.live_cell(self.value, value, write_time);
        row.finish()
    }

    /// `None` for a row without a value, which nobody writes: the statement says what is wrong.
    fn version(&self, row: &Row, now: u32) -> Option<Version> {
        let column2 = <[u8; 8]>::try_from(row.clustering().value(1)?).ok()?;
        let cell = row.cell(self.value).filter(|cell| cell.is_live(now))?;
        let timestamp = layout::timestamp(i64::from_be_bytes(column2));
        Some(Version { timestamp, value: Bytes::copy_from_slice(cell.value) })
    }
}

/// The changes that puts make; `None` if some of them is not to be made so, or they have more than `bytes_max`.
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
