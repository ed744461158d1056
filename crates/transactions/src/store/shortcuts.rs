//! The three statements that commits consist of, on an embedded database without the way of a statement: their rows are read and built here.
//!
//! Each does what its text in [`layout`](super::layout) says. What is out of the common (a key that is none, a table with a default TTL) is left to the
//! statement.

use std::sync::Arc;

use bytes::Bytes;
use cassette_database::{Database, DatabaseError};
use cassette_rows::{
    Bound, Clustering, ColumnId, DecoratedKey, LivenessInfo, NO_TTL, PartitionUpdate, Row as StoredRow,
    RowBuilder, Slice, TableMetadata, key,
};

use super::cql::{Frequent, NamedRows, Row, Values};

/// A statement that is known.
pub(super) struct Shortcut {
    pub what: Frequent,
    pub table: Box<str>,
}

/// A table of the store as it is now.
struct Known {
    table: Arc<TableMetadata>,
    value: ColumnId,
}

impl Shortcut {
    fn known(&self, database: &Database, keyspace: &str) -> Option<Known> {
        let catalog = database.catalog();
        let table = catalog.table(keyspace, &self.table)?;
        let value = table.column("value")?.id;
        (table.params.default_time_to_live == NO_TTL).then(|| Known { table: table.clone(), value })
    }

    /// The newest version of a cell; `None` if that is for the statement to find.
    pub fn get(
        &self,
        database: &Database,
        keyspace: &str,
        values: &Values,
    ) -> Option<Result<Option<Row>, DatabaseError>> {
        let (Frequent::Get, [key, column1, column2]) = (self.what, &values[..]) else { return None };
        let known = self.known(database, keyspace)?;
        let key = decorated(key)?;
        let slice = Slice {
            start: Bound::after(Clustering::of(&[column1, bigint(column2)?])),
            end: Bound::after(Clustering::of(&[column1])),
        };
        let found = database.first_row(&known.table, &key, slice);
        Some(found.map(|found| {
            found.map(|(row, now)| {
                let column2 = row.clustering().value(1).map(Bytes::copy_from_slice);
                vec![Some(column1.clone()), column2, known.value_of(&row, now)]
            })
        }))
    }

    /// The row that a put writes, and of which partition.
    pub fn put(
        &self,
        database: &Database,
        keyspace: &str,
        values: &Values,
    ) -> Option<(Arc<TableMetadata>, PartitionUpdate)> {
        let (Frequent::Put, [key, column1, column2, value, write_time]) = (self.what, &values[..]) else {
            return None;
        };
        let known = self.known(database, keyspace)?;
        let mut update = PartitionUpdate::new(decorated(key)?);
        let write_time = i64::from_be_bytes(bigint(write_time)?.try_into().ok()?);
        if write_time == i64::MIN {
            return None;
        }
        let clustering = Clustering::of(&[column1, bigint(column2)?]);
        update.rows.push(known.row(clustering, value, write_time));
        Some((known.table, update))
    }

    /// What a put unless something exists answers, as the statement does.
    pub fn put_unless_exists(
        &self,
        database: &Database,
        keyspace: &str,
        values: &Values,
    ) -> Option<Result<NamedRows, DatabaseError>> {
        let (Frequent::PutUnlessExists, [key, column1, column2, value]) = (self.what, &values[..]) else {
            return None;
        };
        let known = self.known(database, keyspace)?;
        let key = decorated(key)?;
        let clustering = Clustering::of(&[column1, bigint(column2)?]);
        let make = |clustering, write_time| known.row(clustering, value, write_time);
        let standing = database.put_row_unless_exists(&known.table, key, clustering, make);
        Some(standing.map(|standing| match standing {
            None => (vec!["[applied]".to_owned()], vec![vec![Some(Bytes::from_static(&[1]))]]),
            Some((row, now)) => {
                let names = ["[applied]", "column1", "value"].map(str::to_owned).to_vec();
                let refused = Some(Bytes::from_static(&[0]));
                (names, vec![vec![refused, Some(column1.clone()), known.value_of(&row, now)]])
            }
        }))
    }
}

impl Known {
    /// What an INSERT makes.
    fn row(&self, clustering: Clustering, value: &[u8], write_time: i64) -> StoredRow {
        let mut row = RowBuilder::with_capacity(clustering, 1, value.len());
        row.liveness(LivenessInfo::new(write_time));
        row.live_cell(self.value, value, write_time);
        row.finish()
    }

    fn value_of(&self, row: &StoredRow, now: u32) -> Option<Bytes> {
        let cell = row.cell(self.value).filter(|cell| cell.is_live(now))?;
        Some(Bytes::copy_from_slice(cell.value))
    }
}

fn decorated(bytes: &Bytes) -> Option<DecoratedKey> {
    (1..=key::MAX_KEY_LENGTH).contains(&bytes.len()).then(|| DecoratedKey::new(bytes.clone()))
}

fn bigint(bytes: &Bytes) -> Option<&[u8]> {
    (bytes.len() == 8).then_some(bytes)
}
