//! Reads and writes of rows by their keys, without statements: for callers that own a fixed table
//! layout, where binding values to a plan would cost more than the read or write.
//!
//! As for statements, indexes and views are maintained, a conditional write locks its partition,
//! and metrics are recorded.

use std::iter::once;
use std::sync::Arc;

use cassette_engine::Durability;
use cassette_rows::{
    Clustering, DecoratedKey, PartitionStream, PartitionUpdate, Row, Selection, Slice, Slices, TableMetadata,
    Unfiltered,
};

use crate::api::database::Database;
use crate::basics::error::{DatabaseError, Result, WriteType};
use crate::basics::metrics::RequestKind;
use crate::basics::request::StatementOptions;
use crate::basics::timeouts::Limited;
use crate::execution::Execution;
use crate::execution::modification::Mutations;

impl Database {
    /// Returns the first row of a partition within `slice` that is live at the returned time,
    /// seconds since 1970. `table` is stored, in its version of the current catalog.
    ///
    /// # Errors
    /// ReadFailure; Invalid, if the table has been dropped.
    #[doc(hidden)]
    pub fn first_row(
        &self,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        slice: Slice,
    ) -> Result<Option<(Row, u32)>> {
        self.directly(RequestKind::Read, |execution| {
            let found = self.first_row_of(execution, table, key, slice)?;
            let live_rows = u64::from(found.is_some());
            self.engine().record_partition_read(table.id, key, execution.lap(), live_rows, 0);
            Ok(found.map(|row| (row, execution.now_seconds)))
        })
    }

    /// Applies all changes or none; those of one partition together. `durability` determines when
    /// they are durable. The tables must be as for [`first_row`](Self::first_row), without
    /// counters.
    ///
    /// # Errors
    /// WriteFailure; Invalid, if a table has been dropped, or an index does not support a value.
    #[doc(hidden)]
    pub fn write_rows<'t>(
        &self,
        updates: impl IntoIterator<Item = (&'t Arc<TableMetadata>, PartitionUpdate)>,
        durability: Durability,
    ) -> Result<()> {
        let mut mutations = Mutations::default();
        updates.into_iter().for_each(|(table, update)| mutations.add(update, table));
        let write_type = WriteType::UnloggedBatch;
        self.directly(RequestKind::Write, |execution| mutations.apply_with(execution, write_type, durability))
    }

    /// Writes the row that `make` returns for a write timestamp, unless there is a live row at its
    /// `clustering`: then returns that row, and the time in seconds. Atomic with respect to
    /// conditional writes. The tables must be as for [`write_rows`](Self::write_rows).
    ///
    /// # Errors
    /// Those of both.
    #[doc(hidden)]
    pub fn put_row_unless_exists(
        &self,
        table: &Arc<TableMetadata>,
        key: DecoratedKey,
        clustering: Clustering,
        make: impl Fn(Clustering, i64) -> Row,
    ) -> Result<Option<(Row, u32)>> {
        self.directly(RequestKind::CasWrite, |execution| {
            execution.store.admitted(execution, WriteType::Cas, |admission| {
                let _lock = execution.store.lock_for_condition(execution.started, table.id, &key)?;
                let slice = Slice::prefix(clustering.clone());
                if let Some(row) = self.first_row_of(execution, table, &key, slice)? {
                    return Ok(Some((row, execution.now_seconds)));
                }
                let mut update = PartitionUpdate::new(key.clone());
                let timestamp = execution.default_timestamp(once(&**table))?;
                update.rows.push(make(clustering.clone(), timestamp));
                let mut mutations = Mutations::default();
                mutations.add(update, table);
                mutations.apply_locked(execution, admission)?;
                Ok(None)
            })
        })
    }

    /// Executes an operation without a statement, and records its metrics.
    pub(super) fn directly<T>(
        &self,
        kind: RequestKind,
        execute: impl FnOnce(&Execution<'_>) -> Result<T>,
    ) -> Result<T> {
        self.store().begin_request(|| matches!(kind, RequestKind::Write | RequestKind::CasWrite))?;
        let (catalog, options) = (self.present_catalog(), StatementOptions::default());
        let execution = Execution::new(self.store(), &catalog, &[], &options, None);
        let request = match kind {
            RequestKind::Write => Limited::write(WriteType::UnloggedBatch, &options),
            RequestKind::CasWrite => Limited::write(WriteType::Cas, &options),
            _ => Limited::Read(options.consistency),
        };
        let outcome = self.store().limit(request, execution.started, || execute(&execution));
        let ended = match kind {
            RequestKind::Read if outcome.is_ok() => execution.read_until.get(),
            _ => self.store().clock().monotonic(),
        };
        self.metrics().record(kind, ended.saturating_sub(execution.started), &outcome);
        outcome
    }

    pub(super) fn first_row_of(
        &self,
        execution: &Execution<'_>,
        table: &TableMetadata,
        key: &DecoratedKey,
        slice: Slice,
    ) -> Result<Option<Row>> {
        let consistency = execution.options.consistency;
        let selection = Selection { slices: Slices::new(vec![slice], &table.comparator), reversed: false };
        let read = self.engine().read_first(table.id, key, &selection, Some(1));
        let mut stream = read.map_err(|error| DatabaseError::of_read(consistency, error))?;
        let failed = |error| DatabaseError::read_failure(consistency, error);
        if stream.next_partition().map_err(failed)?.is_none() {
            return Ok(None);
        }
        while let Some(next) = stream.next_unfiltered().map_err(failed)? {
            if let Unfiltered::Row(row) = next
                && row.is_live_in(table, execution.now_seconds)
            {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use cassette_rows::{Bound, LivenessInfo, RowBuilder};
    use cassette_vfs::FakeFileSystem;

    use super::*;
    use crate::api::database::Options;

    fn database() -> Database {
        let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
        let database = Database::open(options).unwrap();
        let session = database.session();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k text, c int, v text, PRIMARY KEY (k, c))",
            "CREATE INDEX ON ks.t (v)",
        ] {
            session.execute(cql, ()).unwrap();
        }
        database
    }

    fn row(table: &TableMetadata, clustering: Clustering, value: &str, time: i64) -> Row {
        let mut row = RowBuilder::new(clustering);
        row.liveness(LivenessInfo::new(time));
        row.live_cell(table.column("v").unwrap().id, value.as_bytes(), time);
        row.finish()
    }

    fn clustering(c: i32) -> Clustering {
        Clustering::of(&[&c.to_be_bytes()])
    }

    #[test]
    fn rows_written_directly_are_those_of_statements_and_their_indexes_too() {
        let database = database();
        let table = database.catalog().table("ks", "t").unwrap().clone();
        let key = DecoratedKey::new("k".into());
        let updates = [3, 1].map(|c| {
            let mut update = PartitionUpdate::new(key.clone());
            update.rows.push(row(&table, clustering(c), &format!("v{c}"), 10));
            (&table, update)
        });
        database.write_rows(updates, Durability::Configured).unwrap();
        let session = database.session();
        let selected = |cql: &str| -> Vec<i32> {
            let rows = session.execute(cql, ()).unwrap();
            rows.iter().map(|row| row.get::<i32>("c").unwrap()).collect()
        };
        assert_eq!(selected("SELECT c FROM ks.t WHERE k = 'k'"), [1, 3]);
        assert_eq!(selected("SELECT c FROM ks.t WHERE v = 'v3'"), [3]);

        session.execute("DELETE FROM ks.t WHERE k = 'k' AND c = 1", ()).unwrap();
        let all = Slice { start: Bound::bottom(), end: Bound::top() };
        let (found, _) = database.first_row(&table, &key, all).unwrap().unwrap();
        assert_eq!(*found.clustering(), clustering(3));
        let none = Slice { start: Bound::after(clustering(3)), end: Bound::top() };
        assert!(database.first_row(&table, &key, none).unwrap().is_none());
    }

    #[test]
    fn of_two_who_put_a_row_unless_it_exists_the_second_gets_that_of_the_first() {
        let database = database();
        let table = database.catalog().table("ks", "t").unwrap().clone();
        let put = |value: &str| {
            let key = DecoratedKey::new("k".into());
            let make = |clustering, time| row(&table, clustering, value, time);
            database.put_row_unless_exists(&table, key, clustering(7), make).unwrap()
        };
        assert!(put("first").is_none());
        let (standing, _) = put("second").unwrap();
        assert_eq!(standing.data()[..], *b"first");
        assert_eq!(database.metrics().cas_write.latency.count(), 2);
    }
}
