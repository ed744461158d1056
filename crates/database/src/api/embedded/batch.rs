//! Batches of writes.

use cassette_cql::ast::BatchKind;

use super::query::{Resolved, ResolvedPlan, Source};
use super::{BindValues, Encoded, Query, Rows, Session};
use crate::api::database::{BatchSource, BatchStatement};
use crate::basics::error::Result;
use crate::basics::request::{BoundValue, StatementOptions};

/// Writes that are applied together or not at all. Created by [`Session::batch`].
#[derive(Debug)]
pub struct Batch<'s> {
    session: &'s Session,
    kind: BatchKind,
    entries: Vec<Entry>,
    options: StatementOptions,
}

#[derive(Debug)]
struct Entry {
    /// The text; `None` for a prepared statement.
    cql: Option<Box<str>>,
    resolved: Resolved,
    values: Encoded,
}

impl<'s> Batch<'s> {
    pub(crate) fn new(session: &'s Session, kind: BatchKind) -> Self {
        Self { session, kind, entries: Vec::new(), options: StatementOptions::default() }
    }

    /// Adds an INSERT, UPDATE or DELETE with its values, as text or prepared.
    ///
    /// # Errors
    /// If the text is not a statement, or the values do not match its markers. The batch is
    /// unchanged then.
    pub fn add<'q>(&mut self, query: impl Into<Query<'q>>, values: impl BindValues) -> Result<&mut Self> {
        let query = query.into();
        let resolved = self.session.resolve(query, &self.options)?;
        let values = resolved.bind(&values)?;
        let cql = match query.0 {
            Source::Text(cql) => Some(cql.into()),
            Source::Prepared(_) => None,
        };
        self.entries.push(Entry { cql, resolved, values });
        Ok(self)
    }

    /// Sets the write timestamp of statements without USING TIMESTAMP, in microseconds since 1970.
    pub fn timestamp(&mut self, micros: i64) -> &mut Self {
        self.options.timestamp = Some(micros);
        self
    }

    /// Returns the number of statements.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no statements.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Applies all statements. The result of a conditional batch has rows: see [`Rows::applied`].
    ///
    /// # Errors
    /// If nothing was applied; WriteTimeout, if it is unknown whether all or nothing was.
    pub fn execute(&self) -> Result<Rows> {
        let catalog = self.session.database().present_catalog().clone();
        for Entry { cql, resolved, .. } in &self.entries {
            let keyspace = self.options.keyspace.as_deref().or(resolved.keyspace());
            resolved.planned(cql.as_deref(), keyspace, &catalog)?;
        }
        let values: Vec<_> = self.entries.iter().map(|entry| entry.values.values()).collect();
        let statements: Vec<_> = self.entries.iter().zip(&values).map(statement).collect();
        let keyspace = self.session.keyspace();
        let mut rows = Rows::default();
        let executed = self.session.database().batch(
            keyspace.as_deref().map(String::as_str),
            self.kind,
            &statements,
            &self.options,
            &mut rows,
        )?;
        Ok(self.session.finish(executed, rows))
    }
}

fn statement<'a>((entry, values): (&'a Entry, &'a Vec<BoundValue<'a>>)) -> BatchStatement<'a> {
    let source = match (&entry.cql, &entry.resolved.plan) {
        (Some(cql), _) => BatchSource::Query(cql),
        (None, ResolvedPlan::Prepared(prepared, _)) => BatchSource::Prepared(prepared),
        (None, ResolvedPlan::Text(planned)) => BatchSource::Query(&planned.cql),
    };
    BatchStatement { source, values }
}
