//! Sessions for asynchronous programs (feature `async`).
//!
//! The database itself is synchronous: its calls wait for disks and locks. An [`AsyncSession`]
//! executes a statement on the thread that polls it when memory has the answer, and on a thread of
//! tokio's blocking pool otherwise. The futures need a tokio runtime, and own all that they use, so
//! that they can be spawned.
//!
//! | on the polling thread | on a blocking thread |
//! | --- | --- |
//! | reads of one partition, its key bound to markers, from memtables and caches | reads that need a disk, of several partitions, or by several indexes |
//! | such writes in the mode `Periodic` | writes that wait: for a sync (`Batch`, `Group`), for room in memtables, for a lock |
//! | parsing and planning | schema changes, TRUNCATE, batches, statements with more than 64 KiB of values |
//!
//! A future that is dropped before it is polled has no effect. Dropped later, its statement still
//! runs to its end.

use std::pin::Pin;
use std::sync::Arc;

use cassette_database::embedded::BoundStatement;

use crate::convert::Query;
use crate::convert::{BindValues, FromRow};
use crate::{Error, OwnedRow, Result, RowIter, Rows, Session, Statement, StatementOptions};

/// What the calls of this module return.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A [`Session`] whose calls return futures. Cheap to clone; all clones have the same keyspace.
///
/// ```
/// # use cassette::{AsyncSession, Database};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let session = AsyncSession::new(Database::in_memory()?.session());
/// session.execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ()).await?;
/// session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text)", ()).await?;
/// session.execute("INSERT INTO ks.t (k, v) VALUES (?, ?)", (1, "one")).await?;
/// let (v,): (String,) = session.query_one("SELECT v FROM ks.t WHERE k = ?", (1,)).await?;
/// assert_eq!(v, "one");
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct AsyncSession(Arc<Session>);

impl AsyncSession {
    /// Makes a session asynchronous.
    pub fn new(session: Session) -> Self {
        Self(Arc::new(session))
    }

    /// The synchronous session. Its calls block.
    pub fn session(&self) -> &Session {
        &self.0
    }

    /// Executes a statement: see [`Session::execute`].
    pub fn execute<'q>(&self, query: impl Into<Query<'q>>, values: impl BindValues) -> BoxFuture<Rows> {
        self.execute_with(query, values, &StatementOptions::default())
    }

    /// Executes a statement with options: see [`Session::execute_with`].
    pub fn execute_with<'q>(
        &self,
        query: impl Into<Query<'q>>,
        values: impl BindValues,
        options: &StatementOptions,
    ) -> BoxFuture<Rows> {
        let bound = self.0.bind(query, values, options);
        Box::pin(execute(self.0.clone(), bound))
    }

    /// Executes a statement that returns exactly one row: see [`Session::query_one`].
    pub fn query_one<'q, T: FromRow + 'static>(
        &self,
        query: impl Into<Query<'q>>,
        values: impl BindValues,
    ) -> BoxFuture<T> {
        let rows = self.execute(query, values);
        Box::pin(async move { rows.await?.one() })
    }

    /// Executes a statement that returns one row or none: see [`Session::query_opt`].
    pub fn query_opt<'q, T: FromRow + 'static>(
        &self,
        query: impl Into<Query<'q>>,
        values: impl BindValues,
    ) -> BoxFuture<Option<T>> {
        let rows = self.execute(query, values);
        Box::pin(async move { rows.await?.at_most_one() })
    }

    /// Executes a statement whose rows are read page by page: see [`Session::query_iter`].
    pub fn query_iter<'q>(
        &self,
        query: impl Into<Query<'q>>,
        values: impl BindValues,
    ) -> BoxFuture<AsyncRowIter> {
        let bound = self.0.bind(query, values, &StatementOptions::default());
        let session = self.0.clone();
        Box::pin(async move {
            let bound = bound?;
            let rows = on_blocking_thread(move || session.query_iter_bound(bound)).await?;
            Ok(AsyncRowIter(Some(rows)))
        })
    }

    /// Prepares a statement: see [`Session::prepare`]. Does not wait.
    ///
    /// # Errors
    /// As [`Session::prepare`].
    pub fn prepare(&self, cql: &str) -> Result<Statement> {
        self.0.prepare(cql)
    }

    /// Runs `work` with the synchronous session on a thread that may block: batches, snapshots, and
    /// everything else.
    pub fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Session) -> Result<T> + Send + 'static,
    ) -> BoxFuture<T> {
        let session = self.0.clone();
        Box::pin(on_blocking_thread(move || work(&session)))
    }
}

/// Rows that are read page by page, each page on a thread that may block.
#[derive(Debug)]
pub struct AsyncRowIter(Option<RowIter>);

impl AsyncRowIter {
    /// The next row; `None` at the end. Rows of the present page are returned without waiting.
    ///
    /// When a call that reads a page is dropped before it returns, all later calls return an error.
    pub async fn next(&mut self) -> Option<Result<OwnedRow>> {
        match self.0.take() {
            Some(mut rows) if rows.has_next_in_memory() => {
                let row = rows.next();
                self.0 = Some(rows);
                row
            }
            Some(mut rows) => {
                let read = on_blocking_thread(move || {
                    let row = rows.next();
                    Ok((rows, row))
                });
                match read.await {
                    Ok((rows, row)) => {
                        self.0 = Some(rows);
                        row
                    }
                    Err(error) => Some(Err(error)),
                }
            }
            None => Some(Err(Error::invalid(
                "cannot read more rows: an earlier call was cancelled while it read a page",
            ))),
        }
    }
}

async fn execute(session: Arc<Session>, bound: Result<BoundStatement>) -> Result<Rows> {
    let bound = bound?;
    match session.execute_bound_at_once(&bound) {
        Some(answer) => answer,
        None => on_blocking_thread(move || session.execute_bound(&bound)).await,
    }
}

/// Panics of `work` go on in the caller.
async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => {
                Err(Error::Server("the runtime is shutting down: the statement was not executed".to_owned()))
            }
        },
    }
}
