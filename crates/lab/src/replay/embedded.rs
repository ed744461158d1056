//! Executes recorded queries in a database of this process.

use std::sync::Arc;

use cassette_database::{
    self as db, BatchSource, BoundValue, Database, DatabaseError, Prepared, ResultMetadata, StatementOptions,
};
use cassette_protocol::Consistency;
use cassette_query_log::{BatchKind, LoggedQuery, LoggedValue, LoggedValues};

use super::ReplayTarget;
use crate::LabError;
use crate::cql::Outcome;

/// A session of a database.
pub(super) struct EmbeddedExecutor {
    database: Database,
    keyspace: Option<String>,
}

/// Collects rows.
#[derive(Default)]
struct Collected {
    rows: Vec<Vec<Option<Vec<u8>>>>,
    row: Vec<Option<Vec<u8>>>,
}

impl db::RowSink for Collected {
    fn begin(&mut self, _: &Arc<ResultMetadata>) {}

    fn value(&mut self, value: Option<&[u8]>) {
        self.row.push(value.map(<[u8]>::to_vec));
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.row.push(Some(value));
    }

    fn end_row(&mut self) -> db::Result<()> {
        self.rows.push(std::mem::take(&mut self.row));
        Ok(())
    }
}

impl EmbeddedExecutor {
    /// Opens the databases of embedded targets.
    pub fn databases(targets: &[ReplayTarget]) -> Result<Vec<Option<Database>>, LabError> {
        let open = |target: &ReplayTarget| match target {
            ReplayTarget::Server(_) => Ok(None),
            ReplayTarget::Embedded(directory) => {
                let open = Database::open(directory.clone());
                open.map(Some).map_err(|error| LabError::engine("embedded", "open", error))
            }
        };
        targets.iter().map(open).collect()
    }

    /// Starts a session.
    pub fn new(database: Database) -> Self {
        Self { database, keyspace: None }
    }

    /// Executes a query. Errors are outcomes.
    pub fn execute(&mut self, query: &LoggedQuery) -> Outcome {
        let mut rows = Collected::default();
        match self.executed(query, &mut rows) {
            Ok(db::Outcome::Rows { .. }) => Outcome::Rows(rows.rows),
            Ok(db::Outcome::SetKeyspace(keyspace)) => {
                self.keyspace = Some(keyspace);
                Outcome::Done
            }
            Ok(_) => Outcome::Done,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    fn executed(&self, query: &LoggedQuery, rows: &mut Collected) -> Result<db::Outcome, DatabaseError> {
        let keyspace = query.keyspace.as_deref().or(self.keyspace.as_deref());
        let options = StatementOptions {
            consistency: Consistency::from_number(query.consistency).unwrap_or_default(),
            serial_consistency: query.serial_consistency.and_then(Consistency::from_number),
            page_size: query.page_size,
            timestamp: Some(query.timestamp.unwrap_or(query.started_micros)),
            now_in_seconds: query.now_in_seconds,
            ..StatementOptions::default()
        };
        let prepare = |cql: &str| self.database.prepare(keyspace, cql);
        let bound: Vec<Bound<'_>> = query.statements.iter().map(|s| Bound::new(&s.values)).collect();
        if let Some(kind) = query.batch {
            let kind = match kind {
                BatchKind::Logged => db::BatchKind::Logged,
                BatchKind::Unlogged => db::BatchKind::Unlogged,
                BatchKind::Counter => db::BatchKind::Counter,
            };
            let prepared: Vec<Option<Arc<Prepared>>> = query
                .statements
                .iter()
                .map(|statement| statement.is_prepared.then(|| prepare(&statement.query)).transpose())
                .collect::<Result<_, _>>()?;
            let statements: Vec<_> = query
                .statements
                .iter()
                .zip(&prepared)
                .zip(&bound)
                .map(|((statement, prepared), bound)| db::BatchStatement {
                    source: match prepared {
                        Some(prepared) => BatchSource::Prepared(prepared),
                        None => BatchSource::Query(&statement.query),
                    },
                    values: &bound.values,
                })
                .collect();
            return Ok(self.database.batch(keyspace, kind, &statements, &options, rows)?.outcome);
        }
        let (Some(statement), Some(bound)) = (query.statements.first(), bound.first()) else {
            return Err(DatabaseError::Invalid("no statement".to_owned()));
        };
        let values = bound.values();
        let executed = if statement.is_prepared {
            let prepared = prepare(&statement.query)?;
            self.database.execute(keyspace, &prepared, values, &options, rows)?
        } else {
            self.database.query(keyspace, &statement.query, values, &options, rows)?
        };
        Ok(executed.outcome)
    }
}

/// The values of a statement in the database's form.
struct Bound<'a> {
    values: Vec<BoundValue<'a>>,
    /// As many as values, or none.
    names: Vec<&'a str>,
}

impl<'a> Bound<'a> {
    fn new(values: &'a LoggedValues) -> Self {
        let bound = |value: &'a LoggedValue| match value {
            LoggedValue::Null => BoundValue::Null,
            LoggedValue::Unset => BoundValue::Unset,
            LoggedValue::Set(bytes) => BoundValue::Set(bytes),
        };
        match values {
            LoggedValues::Positional(values) => {
                Self { values: values.iter().map(bound).collect(), names: Vec::new() }
            }
            LoggedValues::Named(values) => Self {
                values: values.iter().map(|(_, value)| bound(value)).collect(),
                names: values.iter().map(|(name, _)| name.as_str()).collect(),
            },
        }
    }

    fn values(&self) -> db::Values<'_> {
        db::Values { values: &self.values, names: (!self.names.is_empty()).then_some(&*self.names) }
    }
}
