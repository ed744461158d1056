//! The statements of sessions: texts and prepared statements, with their values.

use std::sync::Arc;

use super::Encoded;
use crate::api::database::Database;
use crate::api::prepared::Prepared;
use crate::basics::error::Result;
use crate::basics::request::{StatementOptions, Values};
use crate::basics::response::{ColumnSpec, Executed, RowSink};
use crate::statements::plan::Planned;

/// A prepared statement: parsed and planned once.
#[derive(Debug, Clone)]
pub struct Statement(pub(crate) Arc<Prepared>);

impl Statement {
    /// Returns the underlying statement: its id, markers and columns.
    #[doc(hidden)]
    pub fn prepared(&self) -> &Prepared {
        &self.0
    }
}

/// A statement to execute: its text (`&str`, `&String`), or a prepared one (`&Statement`).
#[derive(Debug, Clone, Copy)]
pub struct Query<'a>(pub(crate) Source<'a>);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    Text(&'a str),
    Prepared(&'a Statement),
}

impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for Query<'a> {
    fn from(cql: &'a T) -> Self {
        Self(Source::Text(cql.as_ref()))
    }
}

impl<'a> From<&'a Statement> for Query<'a> {
    fn from(statement: &'a Statement) -> Self {
        Self(Source::Prepared(statement))
    }
}

/// A planned statement, with the keyspace of its unqualified names.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub keyspace: Option<Arc<String>>,
    pub plan: ResolvedPlan,
}

#[derive(Debug)]
pub(crate) enum ResolvedPlan {
    Text(Arc<Planned>),
    Prepared(Arc<Prepared>),
}

impl Resolved {
    /// Writes the values for the statement's markers.
    pub fn bind(&self, values: &(impl crate::api::embedded::BindValues + ?Sized)) -> Result<Encoded> {
        let mut encoded = Encoded::default();
        match &self.plan {
            ResolvedPlan::Text(planned) => values.bind(&planned.markers, &mut encoded)?,
            ResolvedPlan::Prepared(prepared) => {
                values.bind(prepared.description().markers(), &mut encoded)?;
            }
        }
        Ok(encoded)
    }

    pub fn execute(
        &self,
        database: &Database,
        encoded: &Encoded,
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        let values = encoded.values();
        let values = Values::positional(&values);
        let keyspace = options.keyspace.as_deref().or(self.keyspace());
        match &self.plan {
            ResolvedPlan::Text(planned) => database.execute_text(planned, keyspace, values, options, sink),
            ResolvedPlan::Prepared(prepared) => database.execute(keyspace, prepared, values, options, sink),
        }
    }

    /// Whether it may read much, or many partitions, before it has to wait; true for schema
    /// changes, too.
    pub fn may_take_long(&self) -> bool {
        match &self.plan {
            ResolvedPlan::Text(planned) => planned.may_take_long(),
            ResolvedPlan::Prepared(prepared) => prepared.description().may_take_long(),
        }
    }

    pub fn keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref().map(String::as_str)
    }
}

/// Whether values for the markers `before` are valid for the markers `now`, in the same order.
pub(crate) fn same_markers(before: &[ColumnSpec], now: &[ColumnSpec]) -> bool {
    before.iter().map(|marker| &marker.data_type).eq(now.iter().map(|marker| &marker.data_type))
}
