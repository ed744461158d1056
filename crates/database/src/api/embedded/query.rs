//! The statements of sessions: texts and prepared statements, with their values.

use std::sync::Arc;

use super::Encoded;
use crate::api::database::Database;
use crate::api::prepared::Prepared;
use crate::basics::error::{Result, bail_invalid};
use crate::basics::request::{StatementOptions, Values};
use crate::basics::response::{ColumnSpec, Executed, RowSink};
use crate::schema::catalog::Catalog;
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
    /// With the plan whose markers values are written for.
    Prepared(Arc<Prepared>, Arc<Planned>),
}

impl Resolved {
    /// Writes the values for the statement's markers.
    pub fn bind(&self, values: &(impl crate::api::embedded::BindValues + ?Sized)) -> Result<Encoded> {
        let mut encoded = Encoded::default();
        match &self.plan {
            ResolvedPlan::Text(planned) => values.bind(&planned.markers, &mut encoded)?,
            ResolvedPlan::Prepared(_, planned) => values.bind(&planned.markers, &mut encoded)?,
        }
        Ok(encoded)
    }

    /// Returns the plan against `catalog`, made again if it was made against another one. `cql` is
    /// the text of a statement that was not prepared, `keyspace` that of its unqualified names.
    ///
    /// # Errors
    /// Those of planning; Invalid if the markers have other types than when values were written.
    pub fn planned(
        &self,
        cql: Option<&str>,
        keyspace: Option<&str>,
        catalog: &Arc<Catalog>,
    ) -> Result<Arc<Planned>> {
        let bound = match &self.plan {
            ResolvedPlan::Text(planned) | ResolvedPlan::Prepared(_, planned) => planned,
        };
        if Arc::ptr_eq(&bound.catalog, catalog) {
            return Ok(bound.clone());
        }
        let present = match (&self.plan, cql) {
            (ResolvedPlan::Prepared(prepared, _), _) => prepared.planned(catalog)?,
            (ResolvedPlan::Text(_), Some(cql)) => Arc::new(Planned::new(cql, catalog, keyspace)?),
            (ResolvedPlan::Text(_), None) => bound.clone(),
        };
        if !same_markers(&bound.markers, &present.markers) {
            bail_invalid!("the schema has changed since the values were bound: bind them again");
        }
        Ok(present)
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
            ResolvedPlan::Prepared(..) => {
                let planned = self.planned(None, keyspace, &database.present_catalog())?;
                database.execute_prepared(&planned, keyspace, values, options, sink)
            }
        }
    }

    /// Whether it may read much, or many partitions, before it has to wait; true for schema
    /// changes, too.
    pub fn may_take_long(&self) -> bool {
        match &self.plan {
            ResolvedPlan::Text(planned) => planned.may_take_long(),
            ResolvedPlan::Prepared(_, planned) => planned.may_take_long(),
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
