//! Results that are read page by page.

use std::sync::Arc;

use super::query::{Resolved, ResolvedPlan, same_markers};
use super::rows::Page;
use super::{Encoded, FromRow, OwnedRow, Rows};
use crate::api::database::Database;
use crate::basics::error::{Result, bail_invalid};
use crate::basics::request::StatementOptions;
use crate::basics::response::{ColumnSpec, Outcome};

/// The number of rows of a page, unless the options specify another.
pub(crate) const PAGE_SIZE: i32 = 5000;

/// The rows of a statement, one page of which is in memory at a time. Created by
/// [`Session::query_iter`](super::Session::query_iter).
///
/// It borrows neither the session nor the values, so it can be returned and moved to other threads.
/// Between pages it holds no lock and no snapshot: each page contains the rows at the time of its
/// read. It ends after an error.
#[derive(Debug)]
pub struct RowIter {
    database: Database,
    statement: Resolved,
    /// The text, unless the statement is prepared.
    cql: Option<Box<str>>,
    values: Encoded,
    /// The options, with the position of the next page.
    options: StatementOptions,
    page: Arc<Rows>,
    next: usize,
    is_last_page: bool,
}

impl RowIter {
    /// Creates an iterator from the first page.
    pub(crate) fn new(
        database: Database,
        statement: Resolved,
        cql: Option<Box<str>>,
        values: Encoded,
        options: StatementOptions,
        first: Rows,
    ) -> Self {
        let mut iter = Self {
            database,
            statement,
            cql,
            values,
            options,
            page: Arc::default(),
            next: 0,
            is_last_page: false,
        };
        iter.turn_to(first);
        iter
    }

    /// Returns the columns of the rows.
    pub fn columns(&self) -> &[ColumnSpec] {
        self.page.columns()
    }

    /// Converts the rows to tuples or structs:
    /// `session.query_iter("SELECT k, v FROM t", ())?.typed::<(i32, String)>()`.
    pub fn typed<T: FromRow>(self) -> impl Iterator<Item = Result<T>> + use<T> {
        self.map(|row| T::from_row(&row?.as_row()))
    }

    /// Whether the next row is in memory.
    pub fn has_next_in_memory(&self) -> bool {
        self.next < self.page.len() || self.is_last_page
    }

    fn turn_to(&mut self, page: Rows) {
        self.options.paging_state = page.paging_state().cloned();
        self.is_last_page = self.options.paging_state.is_none();
        self.page = Arc::new(page);
        self.next = 0;
    }

    fn read_page(&mut self) -> Result<()> {
        self.plan_again_if_outdated()?;
        let mut page = Page::default();
        let executed = self.statement.execute(&self.database, &self.values, &self.options, &mut page)?;
        let mut rows = page.0;
        if let Outcome::Rows { paging_state } = executed.outcome {
            rows.paging_state = paging_state;
        }
        self.turn_to(rows);
        Ok(())
    }

    /// Plans the statement again if the schema has changed since the last page. Prepared statements
    /// do so themselves.
    fn plan_again_if_outdated(&mut self) -> Result<()> {
        let (ResolvedPlan::Text(planned), Some(cql)) = (&self.statement.plan, &self.cql) else {
            return Ok(());
        };
        if Arc::ptr_eq(&planned.catalog, &self.database.present_catalog()) {
            return Ok(());
        }
        let keyspace = self.options.keyspace.as_deref().or(self.statement.keyspace());
        let present = self.database.plan(keyspace, cql)?;
        if !same_markers(&planned.markers, &present.markers) {
            bail_invalid!("cannot read the next page: the schema change altered the types of the values");
        }
        self.statement.plan = ResolvedPlan::Text(Arc::new(present));
        Ok(())
    }
}

impl Iterator for RowIter {
    type Item = Result<OwnedRow>;

    fn next(&mut self) -> Option<Self::Item> {
        // A page may be empty although more follow, if a filter excludes its rows.
        while self.next >= self.page.len() {
            if self.is_last_page {
                return None;
            }
            if let Err(error) = self.read_page() {
                self.is_last_page = true;
                return Some(Err(error));
            }
        }
        self.next += 1;
        Some(Ok(OwnedRow::new(self.page.clone(), self.next - 1)))
    }
}

impl std::iter::FusedIterator for RowIter {}
