//! Sessions: statements in a keyspace.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use cassette_cql::ast::BatchKind;

use super::bind::Encoded;
use super::plans::Plans;
use super::{BindValues, FromRow, Rows};
use crate::database::{BatchSource, BatchStatement, Database};
use crate::error::{Result, bail_invalid};
use crate::prepared::Prepared;
use crate::request::{StatementOptions, Values};
use crate::response::{Executed, Outcome};

/// Executes statements in a keyspace that USE chooses. Any thread may use it; all see the same keyspace.
#[derive(Debug)]
pub struct Session {
    database: Database,
    keyspace: ArcSwapOption<String>,
    plans: Plans,
}

/// A prepared statement: parsed and planned once.
#[derive(Debug, Clone)]
pub struct Statement(Arc<Prepared>);

impl Statement {
    /// The prepared statement below: its id, markers and columns.
    pub fn prepared(&self) -> &Prepared {
        &self.0
    }
}

/// Statements that are applied together or not at all.
#[derive(Debug)]
pub struct Batch {
    kind: BatchKind,
    statements: Vec<(Statement, Encoded)>,
}

impl Batch {
    /// An empty logged batch.
    pub fn new() -> Self {
        Self::of_kind(BatchKind::Logged)
    }

    /// An empty batch.
    pub fn of_kind(kind: BatchKind) -> Self {
        Self { kind, statements: Vec::new() }
    }

    /// Adds a statement with its values.
    pub fn add(&mut self, statement: &Statement, values: impl BindValues) -> Result<&mut Self> {
        let mut encoded = Encoded::default();
        values.bind(statement.0.description().markers(), &mut encoded)?;
        self.statements.push((statement.clone(), encoded));
        Ok(self)
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    pub(crate) fn new(database: Database) -> Self {
        Self { database, keyspace: ArcSwapOption::empty(), plans: Plans::default() }
    }

    /// The database it belongs to.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The keyspace that names without one are in.
    pub fn keyspace(&self) -> Option<Arc<String>> {
        self.keyspace.load_full()
    }

    /// Executes one statement, all of its rows at once. Texts with markers are parsed once: the session keeps their plans.
    pub fn execute(&self, cql: &str, values: impl BindValues) -> Result<Rows> {
        self.execute_with(cql, values, &StatementOptions::default())
    }

    /// Executes a statement that returns exactly one row: `session.query_one::<(i64,)>("SELECT count(*) FROM t", ())?`.
    ///
    /// # Errors
    /// Invalid, if there is no row or more than one, or it does not convert to `T`.
    pub fn query_one<T: FromRow>(&self, cql: &str, values: impl BindValues) -> Result<T> {
        match self.query_opt(cql, values)? {
            Some(row) => Ok(row),
            None => bail_invalid!("cannot return one row: expected exactly one, found none"),
        }
    }

    /// Executes a statement that returns one row or none.
    ///
    /// # Errors
    /// Invalid, if there is more than one row, or it does not convert to `T`.
    pub fn query_opt<T: FromRow>(&self, cql: &str, values: impl BindValues) -> Result<Option<T>> {
        let rows = self.execute(cql, values)?;
        if rows.len() > 1 {
            bail_invalid!("cannot return one row: expected at most one, found {}", rows.len());
        }
        rows.first().map(|row| T::from_row(&row)).transpose()
    }

    /// Executes one statement with options: consistency, paging, times.
    pub fn execute_with(
        &self,
        cql: &str,
        values: impl BindValues,
        options: &StatementOptions,
    ) -> Result<Rows> {
        let keyspace = self.keyspace();
        let keyspace = options.keyspace.as_deref().or(keyspace.as_deref().map(String::as_str));
        let planned = self.plans.plan(&self.database, keyspace, cql)?;
        let mut encoded = Encoded::default();
        values.bind(&planned.markers, &mut encoded)?;
        let mut rows = Rows::default();
        let bound = encoded.values();
        let values = Values::positional(&bound);
        let executed = self.database.execute_text(&planned, keyspace, values, options, &mut rows)?;
        Ok(self.finish(executed, rows))
    }

    /// Prepares a statement that is to be executed often.
    pub fn prepare(&self, cql: &str) -> Result<Statement> {
        let keyspace = self.keyspace();
        self.database.prepare(keyspace.as_deref().map(String::as_str), cql).map(Statement)
    }

    /// Executes a prepared statement, all of its rows at once.
    pub fn execute_prepared(&self, statement: &Statement, values: impl BindValues) -> Result<Rows> {
        self.execute_prepared_with(statement, values, &StatementOptions::default())
    }

    /// Executes a prepared statement with options: consistency, paging, times.
    pub fn execute_prepared_with(
        &self,
        statement: &Statement,
        values: impl BindValues,
        options: &StatementOptions,
    ) -> Result<Rows> {
        let keyspace = self.keyspace();
        let mut encoded = Encoded::default();
        values.bind(statement.0.description().markers(), &mut encoded)?;
        let mut rows = Rows::default();
        let executed = self.database.execute(
            keyspace.as_deref().map(String::as_str),
            &statement.0,
            Values::positional(&encoded.values()),
            options,
            &mut rows,
        )?;
        Ok(self.finish(executed, rows))
    }

    /// Executes a batch: all of it or nothing.
    pub fn execute_batch(&self, batch: &Batch) -> Result<Rows> {
        let keyspace = self.keyspace();
        let values: Vec<_> = batch.statements.iter().map(|(_, encoded)| encoded.values()).collect();
        let statements: Vec<_> = batch
            .statements
            .iter()
            .zip(&values)
            .map(|((statement, _), values)| BatchStatement {
                source: BatchSource::Prepared(&statement.0),
                values,
            })
            .collect();
        let mut rows = Rows::default();
        let executed = self.database.batch(
            keyspace.as_deref().map(String::as_str),
            batch.kind,
            &statements,
            &StatementOptions::default(),
            &mut rows,
        )?;
        Ok(self.finish(executed, rows))
    }

    fn finish(&self, executed: Executed, mut rows: Rows) -> Rows {
        match executed.outcome {
            Outcome::SetKeyspace(keyspace) => self.keyspace.store(Some(Arc::new(keyspace))),
            Outcome::Rows { paging_state } => rows.paging_state = paging_state,
            Outcome::Void | Outcome::SchemaChange(_) => {}
        }
        rows.warnings = executed.warnings;
        rows
    }
}
