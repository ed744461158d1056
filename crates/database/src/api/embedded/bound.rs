//! Statements that own their values, for callers that execute them on another thread.

use std::sync::Arc;

use cassette_engine::without_waiting;

use super::bind::Encoded;
use super::query::{Resolved, Source};
use super::{BindValues, Query, RowIter, Rows, Session};
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::request::StatementOptions;
use crate::schema::catalog::Catalog;
use crate::statements::plan::Planned;

/// The maximum bytes of values of a statement that is executed on the polling thread: larger values
/// take long to check and copy.
const AT_ONCE_VALUES_MAX: usize = 64 << 10;

/// A statement with its values and options. It borrows nothing.
#[derive(Debug)]
pub struct BoundStatement {
    statement: Resolved,
    cql: Option<Box<str>>,
    values: Encoded,
    options: StatementOptions,
}

impl BoundStatement {
    /// Returns the plan against `catalog`, made again if it was made against another one.
    ///
    /// # Errors
    /// Those of planning; Invalid if the markers have other types than when the values were
    /// written.
    pub(crate) fn planned(&self, catalog: &Arc<Catalog>) -> Result<Arc<Planned>> {
        let planned = self.statement.planned(self.cql.as_deref(), self.keyspace(), catalog)?;
        if planned.markers.len() != self.values.count() {
            bail_invalid!("the schema has changed since the values were bound: bind them again");
        }
        Ok(planned)
    }

    pub(crate) fn values(&self) -> &Encoded {
        &self.values
    }

    pub(crate) fn options(&self) -> &StatementOptions {
        &self.options
    }

    /// Returns the keyspace of names without one.
    pub(crate) fn keyspace(&self) -> Option<&str> {
        self.options.keyspace.as_deref().or(self.statement.keyspace())
    }
}

impl Session {
    /// Resolves a statement and writes its values, without blocking.
    ///
    /// # Errors
    /// Those of [`execute`](Self::execute) that concern the text and the values.
    pub fn bind<'q>(
        &self,
        query: impl Into<Query<'q>>,
        values: impl BindValues,
        options: &StatementOptions,
    ) -> Result<BoundStatement> {
        let query = query.into();
        let statement = self.resolve(query, options)?;
        let values = statement.bind(&values)?;
        let cql = match query.0 {
            Source::Text(cql) => Some(cql.into()),
            Source::Prepared(_) => None,
        };
        Ok(BoundStatement { statement, cql, values, options: options.clone() })
    }

    /// Executes a bound statement.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_bound(&self, bound: &BoundStatement) -> Result<Rows> {
        let mut rows = Rows::default();
        let executed = bound.statement.execute(self.database(), &bound.values, &bound.options, &mut rows)?;
        Ok(self.finish(executed, rows))
    }

    /// Executes a bound statement if that neither takes long nor waits for a disk or a lock: reads
    /// and writes of one partition whose rows are in memory. Otherwise returns `None`, and nothing
    /// was done.
    pub fn execute_bound_at_once(&self, bound: &BoundStatement) -> Option<Result<Rows>> {
        if bound.values.len() > AT_ONCE_VALUES_MAX || bound.statement.may_take_long() {
            return None;
        }
        match without_waiting(|| self.execute_bound(bound)) {
            Err(DatabaseError::WouldBlock) => None,
            answer => Some(answer),
        }
    }

    /// [`query_iter`](Self::query_iter) of a bound statement.
    ///
    /// # Errors
    /// As [`query_iter`](Self::query_iter).
    pub fn query_iter_bound(&self, bound: BoundStatement) -> Result<RowIter> {
        self.pages(bound.statement, bound.cql, bound.values, bound.options)
    }
}
