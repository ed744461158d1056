//! Sessions: statements in a keyspace.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use cassette_cql::ast::BatchKind;

use super::bind::Encoded;
use super::plans::Plans;
use super::query::{Resolved, ResolvedPlan, Source};
use super::row_iter::PAGE_SIZE;
use super::rows::Page;
use super::{Batch, BindValues, FromRow, Query, RowIter, Rows, Statement};
use crate::api::database::Database;
use crate::basics::error::Result;
use crate::basics::request::StatementOptions;
use crate::basics::response::{Executed, Outcome};

/// Executes statements in the keyspace set by USE. Usable from any thread; all threads share the
/// keyspace.
#[derive(Debug)]
pub struct Session {
    database: Database,
    keyspace: ArcSwapOption<String>,
    plans: Plans,
}

impl Session {
    pub(crate) fn new(database: Database) -> Self {
        Self { database, keyspace: ArcSwapOption::empty(), plans: Plans::default() }
    }

    /// Returns the database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the keyspace of unqualified names.
    pub fn keyspace(&self) -> Option<Arc<String>> {
        self.keyspace.load_full()
    }

    /// Executes a statement, text or prepared, and returns all of its rows in memory:
    /// `session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (1, "one"))?`.
    ///
    /// Texts with markers are parsed once: the session caches up to 256 plans.
    ///
    /// # Errors
    /// See [`DatabaseError`](crate::DatabaseError). Nothing was written, unless the error states
    /// otherwise.
    pub fn execute<'q>(&self, query: impl Into<Query<'q>>, values: impl BindValues) -> Result<Rows> {
        self.execute_with(query, values, &StatementOptions::default())
    }

    /// [`execute`](Self::execute) with options: consistency, paging, times.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_with<'q>(
        &self,
        query: impl Into<Query<'q>>,
        values: impl BindValues,
        options: &StatementOptions,
    ) -> Result<Rows> {
        let statement = self.resolve(query.into(), options)?;
        let encoded = statement.bind(&values)?;
        let mut rows = Rows::default();
        let executed = statement.execute(&self.database, &encoded, options, &mut rows)?;
        Ok(self.finish(executed, rows))
    }

    /// Executes a statement that returns exactly one row: `session.query_one::<(i64,)>("SELECT
    /// count(*) FROM t", ())?`.
    ///
    /// # Errors
    /// Invalid, if there is no row or more than one, or it does not convert to `T`.
    pub fn query_one<'q, T: FromRow>(
        &self,
        query: impl Into<Query<'q>>,
        values: impl BindValues,
    ) -> Result<T> {
        self.execute(query, values)?.one()
    }

    /// Executes a statement that returns at most one row.
    ///
    /// # Errors
    /// Invalid, if there is more than one row, or it does not convert to `T`.
    pub fn query_opt<'q, T: FromRow>(
        &self,
        query: impl Into<Query<'q>>,
        values: impl BindValues,
    ) -> Result<Option<T>> {
        self.execute(query, values)?.at_most_one()
    }

    /// Executes a statement whose rows are read page by page, so that a result of any size needs
    /// bounded memory. A page has at most 5,000 rows, and ends early after 1 MiB.
    ///
    /// The first page is read immediately. The iterator borrows neither the session nor the values;
    /// each page contains the rows at the time of its read.
    ///
    /// # Errors
    /// As [`execute`](Self::execute). A SELECT with ORDER BY over several partitions cannot be
    /// paged.
    pub fn query_iter<'q>(&self, query: impl Into<Query<'q>>, values: impl BindValues) -> Result<RowIter> {
        self.query_iter_with(query, values, &StatementOptions::default())
    }

    /// [`query_iter`](Self::query_iter) with options, including the page size.
    ///
    /// # Errors
    /// As [`query_iter`](Self::query_iter).
    pub fn query_iter_with<'q>(
        &self,
        query: impl Into<Query<'q>>,
        values: impl BindValues,
        options: &StatementOptions,
    ) -> Result<RowIter> {
        self.query_iter_bound(self.bind(query, values, options)?)
    }

    /// Reads the first page of a statement.
    pub(super) fn pages(
        &self,
        statement: Resolved,
        cql: Option<Box<str>>,
        values: Encoded,
        mut options: StatementOptions,
    ) -> Result<RowIter> {
        options.page_size = options.page_size.filter(|size| *size > 0).or(Some(PAGE_SIZE));
        let mut page = Page::default();
        let executed = statement.execute(&self.database, &values, &options, &mut page)?;
        let first = self.finish(executed, page.0);
        Ok(RowIter::new(self.database.clone(), statement, cql, values, options, first))
    }

    /// Prepares a statement for repeated execution.
    ///
    /// # Errors
    /// Syntax and Invalid, if the text is not a statement that this database can execute.
    pub fn prepare(&self, cql: &str) -> Result<Statement> {
        let keyspace = self.keyspace();
        self.database.prepare(keyspace.as_deref().map(String::as_str), cql).map(Statement)
    }

    /// Returns an empty logged batch.
    pub fn batch(&self) -> Batch<'_> {
        self.batch_of_kind(BatchKind::Logged)
    }

    /// Returns an empty batch. Counters require [`BatchKind::Counter`]. Unlogged batches are as
    /// atomic as logged ones.
    pub fn batch_of_kind(&self, kind: BatchKind) -> Batch<'_> {
        Batch::new(self, kind)
    }

    /// Plans a statement in the session's keyspace, or that of the options.
    pub(crate) fn resolve(&self, query: Query<'_>, options: &StatementOptions) -> Result<Resolved> {
        let keyspace = self.keyspace();
        let plan = match query.0 {
            Source::Text(cql) => {
                let keyspace = options.keyspace.as_deref().or(keyspace.as_deref().map(String::as_str));
                ResolvedPlan::Text(self.plans.plan(&self.database, keyspace, cql)?)
            }
            Source::Prepared(statement) => {
                let planned = statement.0.planned(&self.database.present_catalog())?;
                ResolvedPlan::Prepared(statement.0.clone(), planned)
            }
        };
        Ok(Resolved { keyspace, plan })
    }

    pub(crate) fn finish(&self, executed: Executed, mut rows: Rows) -> Rows {
        match executed.outcome {
            Outcome::SetKeyspace(keyspace) => self.keyspace.store(Some(Arc::new(keyspace))),
            Outcome::Rows { paging_state } => rows.paging_state = paging_state,
            Outcome::Void | Outcome::SchemaChange(_) => {}
        }
        rows.warnings = executed.warnings;
        rows
    }
}
