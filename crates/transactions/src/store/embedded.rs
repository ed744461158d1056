//! The store in this process: prepared statements on an embedded database, without text or network.

use std::sync::Arc;

use bytes::Bytes;
use cassette_database::{
    BatchKind, BatchSource, BatchStatement, BoundValue, Database, DatabaseError, Prepared, ResultMetadata,
    RowSink, StatementOptions, Values as BoundValues,
};

use super::cql::{Attempted, Cql, CqlStore, Frequent, NamedRows, Row, StatementKind, Values, WriteGroup};
use super::shortcuts::Shortcut;
use super::{StoreError, StoreResult, layout};

/// Bytes of values that one write to the database has at most: far below the largest mutation that its commit log takes.
const WRITE_BYTES_MAX: usize = 4 << 20;

/// An embedded database that executes a store's statements.
pub struct Embedded {
    database: Database,
    keyspace: Box<str>,
    options: StatementOptions,
}

/// The store in an embedded database.
pub type EmbeddedStore = CqlStore<Embedded>;

impl EmbeddedStore {
    /// The store in a keyspace of the database, which is made unless it is there.
    ///
    /// # Errors
    /// If the name is none, or the keyspace cannot be made.
    pub fn open(database: Database, keyspace: &str) -> StoreResult<Self> {
        layout::check_name(keyspace)?;
        let embedded = Embedded { database, keyspace: keyspace.into(), options: StatementOptions::default() };
        if embedded.database.catalog().keyspace(keyspace).is_none() {
            embedded.define(&format!(
                "CREATE KEYSPACE IF NOT EXISTS \"{keyspace}\" WITH replication = \
                 {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            ))?;
        }
        Ok(Self::new(embedded))
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.cql().database
    }
}

/// Rows as they come.
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

    fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }
}

fn bind(values: &Values) -> Vec<BoundValue<'_>> {
    values.iter().map(|value| BoundValue::Set(value)).collect()
}

fn error(attempted: Attempted<'_>, error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::Invalid(_)
        | DatabaseError::Syntax(_)
        | DatabaseError::Config(_)
        | DatabaseError::AlreadyExists { .. }
        | DatabaseError::Unauthorized(_)
        | DatabaseError::Unprepared { .. }
        | DatabaseError::Overloaded(_) => StoreError::refused(attempted, error),
        // A write whose sync failed may be there after a restart.
        error => StoreError::unknown(attempted, error),
    }
}

/// A prepared statement, and the shorter way to do the same if there is one.
#[derive(Clone)]
pub struct EmbeddedStatement {
    prepared: Arc<Prepared>,
    shortcut: Option<Arc<Shortcut>>,
}

impl Embedded {
    fn execute(
        &self,
        attempted: Attempted<'_>,
        statement: &EmbeddedStatement,
        values: &Values,
        sink: &mut Sink,
    ) -> StoreResult<()> {
        let bound = bind(values);
        self.database
            .execute(None, &statement.prepared, BoundValues::positional(&bound), &self.options, sink)
            .map(drop)
            .map_err(|e| error(attempted, e))
    }

    /// Executes writes as one batch.
    fn write_batch(
        &self,
        attempted: Attempted<'_>,
        statements: &[(EmbeddedStatement, Values)],
    ) -> StoreResult<()> {
        let update = |(statement, values): &(EmbeddedStatement, Values)| {
            statement.shortcut.as_ref()?.put(&self.database, &self.keyspace, values)
        };
        match statements.iter().map(update).collect::<Option<Vec<_>>>() {
            Some(updates) => self.database.write_rows(updates).map_err(|e| error(attempted, e)),
            None => self.batch(attempted, statements, &mut Sink::default()),
        }
    }

    /// Executes statements as one batch: a single mutation of the engine, seen whole or not at all.
    fn batch(
        &self,
        attempted: Attempted<'_>,
        statements: &[(EmbeddedStatement, Values)],
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
                source: BatchSource::Prepared(&statement.prepared),
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
    type Statement = EmbeddedStatement;

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

    fn prepare(&self, cql: &str, _: StatementKind) -> StoreResult<EmbeddedStatement> {
        let prepared = self.database.prepare(None, cql).map_err(|e| error(format_args!("{cql}"), e))?;
        Ok(EmbeddedStatement { prepared, shortcut: None })
    }

    fn prepare_frequent(&self, cql: &str, what: Frequent, table: &str) -> StoreResult<EmbeddedStatement> {
        let shortcut = Some(Arc::new(Shortcut { what, table: table.into() }));
        Ok(EmbeddedStatement { shortcut, ..self.prepare(cql, StatementKind::Read)? })
    }

    fn read(
        &self,
        attempted: Attempted<'_>,
        requests: Vec<(EmbeddedStatement, Values)>,
    ) -> StoreResult<Vec<Vec<Row>>> {
        let execute = |(statement, values): (EmbeddedStatement, Values)| {
            let shortcut = statement.shortcut.as_ref();
            if let Some(found) = shortcut.and_then(|s| s.get(&self.database, &self.keyspace, &values)) {
                return found.map(|row| row.into_iter().collect()).map_err(|e| error(attempted, e));
            }
            let mut sink = Sink::default();
            self.execute(attempted, &statement, &values, &mut sink)?;
            Ok(sink.rows)
        };
        requests.into_iter().map(execute).collect()
    }

    fn write(
        &self,
        attempted: Attempted<'_>,
        requests: Vec<(WriteGroup, EmbeddedStatement, Values)>,
    ) -> StoreResult<()> {
        let mut batch = Vec::with_capacity(requests.len());
        let mut bytes = 0;
        for (_, statement, values) in requests {
            let length: usize = values.iter().map(Bytes::len).sum();
            if bytes + length > WRITE_BYTES_MAX && !batch.is_empty() {
                self.write_batch(attempted, &batch)?;
                batch.clear();
                bytes = 0;
            }
            bytes += length;
            batch.push((statement, values));
        }
        match batch.is_empty() {
            true => Ok(()),
            false => self.write_batch(attempted, &batch),
        }
    }

    fn conditional(
        &self,
        attempted: Attempted<'_>,
        groups: Vec<Vec<(EmbeddedStatement, Values)>>,
    ) -> Vec<StoreResult<NamedRows>> {
        let execute = |group: Vec<(EmbeddedStatement, Values)>| {
            if let [(EmbeddedStatement { shortcut: Some(shortcut), .. }, values)] = &group[..]
                && let Some(answer) = shortcut.put_unless_exists(&self.database, &self.keyspace, values)
            {
                return answer.map_err(|e| error(attempted, e));
            }
            let mut sink = Sink { with_names: true, ..Sink::default() };
            self.batch(attempted, &group, &mut sink)?;
            Ok((sink.names, sink.rows))
        };
        groups.into_iter().map(execute).collect()
    }

    fn writes_in_order(&self) -> bool {
        // One mutation, or several one after the other.
        true
    }

    fn is_linearizable_after_failures(&self) -> bool {
        true
    }
}
