//! The store in this process: prepared statements on an embedded database, without CQL text or
//! network.

use std::sync::Arc;

use bytes::Bytes;
use cassette_database::{
    BatchKind, BatchSource, BatchStatement, BoundValue, Database, DatabaseError, DeferredWrite, Durability,
    ErrorKind, NotApplied, Prepared, ResultMetadata, RowSink, StatementOptions, Values as BoundValues,
};

use super::cql::{Attempted, Cql, CqlStore, NamedRows, Row, StatementKind, Values, WriteGroup};
use super::direct::{self, DirectTable};
use super::{Cell, Effect, Put, PutOutcome, StoreError, StoreResult, Version, layout};
use crate::timestamp::Timestamp;

/// Maximum bytes of values in one write to the database, unless it is a single version.
const WRITE_BYTES_MAX: usize = 4 << 20;
/// Upper bound on the commit log overhead of a version besides its names and value.
const WRITE_OVERHEAD: usize = 100;
/// Upper bound on the additional overhead of a record with one version.
const RECORD_OVERHEAD: usize = 1024;

/// An embedded database that executes a store's statements.
pub struct Embedded {
    database: Database,
    keyspace: Box<str>,
    options: StatementOptions,
    /// Maximum bytes of a commit log record.
    record_max: usize,
}

/// The store in an embedded database.
pub type EmbeddedStore = CqlStore<Embedded>;

impl EmbeddedStore {
    /// Opens the store in a keyspace of the database, creating it if needed.
    ///
    /// # Errors
    /// If the name is invalid or the keyspace cannot be created.
    pub fn open(database: Database, keyspace: &str) -> StoreResult<Self> {
        layout::check_name(keyspace)?;
        // Half a commit log segment, as in Cassandra.
        let record_max = database.engine().options().commitlog_segment_size as usize / 2;
        // A commit is one record, as large as its transaction.
        let options = StatementOptions { is_internal: true, ..StatementOptions::default() };
        let embedded = Embedded { database, keyspace: keyspace.into(), options, record_max };
        if embedded.database.catalog().keyspace(keyspace).is_none() {
            embedded.define(&format!(
                "CREATE KEYSPACE IF NOT EXISTS \"{keyspace}\" WITH replication = \
                 {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            ))?;
        }
        Ok(Self::new(embedded))
    }

    /// Returns the database.
    pub fn database(&self) -> &Database {
        &self.cql().database
    }
}

/// Collects rows.
#[derive(Default)]
struct Sink {
    names: Vec<String>,
    with_names: bool,
    rows: Vec<Row>,
    row: Row,
    columns: usize,
}

impl RowSink for Sink {
    fn begin(&mut self, metadata: &Arc<ResultMetadata>) {
        self.columns = metadata.columns.len();
        if self.with_names {
            self.names = metadata.columns.iter().map(|column| column.name.to_string()).collect();
        }
    }

    fn value(&mut self, value: Option<&[u8]>) {
        if self.row.capacity() == 0 {
            self.row.reserve_exact(self.columns);
        }
        self.row.push(value.map(Bytes::copy_from_slice));
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        write(&mut bytes);
        self.row.push(Some(bytes.into()));
    }

    fn end_row(&mut self) -> Result<(), DatabaseError> {
        self.rows.push(std::mem::take(&mut self.row));
        Ok(())
    }
}

fn bind(values: &Values) -> Vec<BoundValue<'_>> {
    values.iter().map(|value| BoundValue::Set(value)).collect()
}

fn error(attempted: Attempted<'_>, error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::Invalid(_)
        | DatabaseError::Refused(_)
        | DatabaseError::Syntax { .. }
        | DatabaseError::Config(_)
        | DatabaseError::AlreadyExists { .. }
        | DatabaseError::Unauthorized(_)
        | DatabaseError::Unprepared { .. } => StoreError::refused(attempted, error),
        DatabaseError::Overloaded(_) => StoreError::unavailable(attempted, error),
        DatabaseError::ReadFailure { .. }
        | DatabaseError::Server(_)
        | DatabaseError::Failed { .. }
        | DatabaseError::SchemaCorrupt { .. }
        | DatabaseError::Storage { .. }
        | DatabaseError::Protocol(_)
        | DatabaseError::FunctionFailure { .. } => StoreError::broken(attempted, error),
        // A write whose sync failed may be present after a restart.
        error => StoreError::unknown(attempted, error),
    }
}

impl Embedded {
    fn execute(
        &self,
        attempted: Attempted<'_>,
        statement: &Prepared,
        values: &Values,
        sink: &mut Sink,
    ) -> StoreResult<()> {
        let bound = bind(values);
        self.database
            .execute(None, statement, BoundValues::positional(&bound), &self.options, sink)
            .map(drop)
            .map_err(|e| error(attempted, e))
    }

    /// Executes statements as one batch: a single, atomically visible mutation of the engine.
    fn batch(
        &self,
        attempted: Attempted<'_>,
        statements: &[(Arc<Prepared>, Values)],
        sink: &mut Sink,
    ) -> StoreResult<()> {
        if let [(statement, values)] = statements {
            return self.execute(attempted, statement, values, sink);
        }
        let bound: Vec<_> = statements.iter().map(|(_, values)| bind(values)).collect();
        let statements: Vec<_> = statements
            .iter()
            .zip(&bound)
            .map(|((statement, _), values)| BatchStatement {
                source: BatchSource::Prepared(statement),
                values,
            })
            .collect();
        self.database
            .batch(None, BatchKind::Unlogged, &statements, &self.options, sink)
            .map(drop)
            .map_err(|e| error(attempted, e))
    }
}

impl Cql for Embedded {
    type Statement = Arc<Prepared>;

    fn keyspace(&self) -> &str {
        &self.keyspace
    }

    fn define(&self, cql: &str) -> StoreResult<()> {
        let values = BoundValues::NONE;
        self.database
            .query(None, cql, values, &self.options, &mut Sink::default())
            .map(drop)
            .map_err(|e| error(format_args!("{cql}"), e))
    }

    fn prepare(&self, cql: &str, _: StatementKind) -> StoreResult<Arc<Prepared>> {
        self.database.prepare(None, cql).map_err(|e| error(format_args!("{cql}"), e))
    }

    fn read(
        &self,
        attempted: Attempted<'_>,
        requests: Vec<(Arc<Prepared>, Values)>,
    ) -> StoreResult<Vec<Vec<Row>>> {
        let execute = |(statement, values): (Arc<Prepared>, Values)| {
            let mut sink = Sink::default();
            self.execute(attempted, &statement, &values, &mut sink)?;
            Ok(sink.rows)
        };
        requests.into_iter().map(execute).collect()
    }

    fn write(
        &self,
        attempted: Attempted<'_>,
        requests: Vec<(WriteGroup, Arc<Prepared>, Values)>,
    ) -> StoreResult<()> {
        let max = WRITE_BYTES_MAX.min(self.record_max / 2);
        let mut batch = Vec::with_capacity(requests.len());
        let mut bytes = 0;
        for (_, statement, values) in requests {
            let length = WRITE_OVERHEAD + values.iter().map(Bytes::len).sum::<usize>();
            if bytes + length > max && !batch.is_empty() {
                self.batch(attempted, &batch, &mut Sink::default())?;
                batch.clear();
                bytes = 0;
            }
            bytes += length;
            batch.push((statement, values));
        }
        if batch.is_empty() { Ok(()) } else { self.batch(attempted, &batch, &mut Sink::default()) }
    }

    fn conditional(
        &self,
        attempted: Attempted<'_>,
        groups: Vec<Vec<(Arc<Prepared>, Values)>>,
    ) -> Vec<StoreResult<NamedRows>> {
        let execute = |group: Vec<(Arc<Prepared>, Values)>| {
            let mut sink = Sink { with_names: true, ..Sink::default() };
            self.batch(attempted, &group, &mut sink)?;
            Ok((sink.names, sink.rows))
        };
        groups.into_iter().map(execute).collect()
    }

    fn get_directly(
        &self,
        attempted: Attempted<'_>,
        table: &str,
        cell: &Cell,
        below: Timestamp,
    ) -> Option<StoreResult<Option<Version>>> {
        let catalog = self.database.present_catalog();
        let found = DirectTable::of(&catalog, &self.keyspace, table)?.get(&self.database, cell, below)?;
        Some(found.map_err(|e| error(attempted, e)))
    }

    fn put_directly(
        &self,
        attempted: Attempted<'_>,
        puts: &[Put<'_>],
        durability: Durability,
    ) -> Option<StoreResult<()>> {
        let catalog = self.database.present_catalog();
        let updates = direct::updates(&catalog, &self.keyspace, puts, self.record_max / 2)?;
        Some(self.database.write_rows(updates, durability).map_err(|e| error(attempted, e)))
    }

    fn put_unless_exists_directly(
        &self,
        attempted: Attempted<'_>,
        table: &str,
        row: &Bytes,
        column: &(Bytes, Bytes),
    ) -> Option<StoreResult<PutOutcome>> {
        let catalog = self.database.present_catalog();
        let table = DirectTable::of(&catalog, &self.keyspace, table)?;
        let outcome = table.put_unless_exists(&self.database, row, column)?;
        Some(outcome.map_err(|e| error(attempted, e)))
    }

    fn put_unless_exists_with(
        &self,
        attempted: Attempted<'_>,
        table: &str,
        row: &Bytes,
        column: &(Bytes, Bytes),
        writes: &[DeferredWrite],
    ) -> Option<StoreResult<PutOutcome>> {
        let catalog = self.database.catalog();
        let table = DirectTable::of(&catalog, &self.keyspace, table)?;
        let outcome = table.put_unless_exists_with(&self.database, row, column, writes)?;
        Some(outcome.map_err(|NotApplied { error: cause, may_be_applied }| match cause.kind() {
            _ if may_be_applied => StoreError { effect: Effect::Unknown, ..error(attempted, cause) },
            // They may pass, and nothing was written.
            ErrorKind::WriteTimeout | ErrorKind::Interrupted => StoreError::unavailable(attempted, cause),
            // The same writes would exceed the same limit, or fail in the same way, again.
            ErrorKind::Invalid | ErrorKind::Internal => StoreError::refused(attempted, cause),
            _ => StoreError { effect: Effect::None, ..error(attempted, cause) },
        }))
    }

    fn embedded_database(&self) -> Option<&Database> {
        Some(&self.database)
    }

    fn database(&self) -> Option<usize> {
        // Shared by all clones.
        Some(std::ptr::from_ref(self.database.engine()).addr())
    }

    fn write_max(&self) -> Option<usize> {
        Some(self.record_max.saturating_sub(RECORD_OVERHEAD))
    }

    fn writes_in_order(&self) -> bool {
        // One mutation, or several in sequence.
        true
    }

    fn is_linearizable_after_failures(&self) -> bool {
        true
    }
}
