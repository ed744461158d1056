//! The open database: its store and its prepared statements, and access to them.

mod opening;
mod statements;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cassette_engine::Engine;

use crate::api::embedded::Session;
use crate::api::prepared::PreparedStatements;
use crate::api::tracing::TraceChance;
use crate::basics::error::{DatabaseError, Result};
use crate::basics::metrics::RequestMetrics;
use crate::basics::response::SchemaChange;
use crate::basics::server_figures::{Pool, PreparedFigures, ServerFigures};
use crate::basics::timeouts::RequestTimeouts;
use crate::execution::virtual_tables;
use crate::schema::catalog::{Catalog, Subscription};
use crate::schema::guardrails::Guardrails;
use crate::schema::indexes::Index;
use crate::schema::system::local::Node;
use crate::store::Store;
use crate::store::indexes::SearchMetrics;

pub use self::opening::Options;
pub use self::statements::{BatchSource, BatchStatement};

/// An open database. Cheap to clone; any thread may use it; it is closed when the last clone and session is dropped, or
/// by [`close`](Self::close).
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    store: Arc<Store>,
    prepared: Arc<PreparedStatements>,
    trace_chance: TraceChance,
    /// Whether statements that write are refused.
    is_read_only: AtomicBool,
}

impl Database {
    /// What statements work on.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.0.store
    }

    /// Refuses statements that write from now on.
    pub(crate) fn refuse_writes(&self) {
        self.0.is_read_only.store(true, Ordering::Release);
    }

    /// Returns an error if statements that write are refused.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.0.is_read_only.load(Ordering::Acquire) {
            return Err(DatabaseError::ReadOnly);
        }
        Ok(())
    }

    /// A session: a keyspace of its own to resolve names in.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// Stops the threads, flushes memtables of more than 1 MiB, closes the commit log, which keeps the rest, and unlocks the
    /// directory. Statements fail afterwards. Dropping the last clone and session does the same, but flushes nothing.
    ///
    /// # Errors
    /// If something could not be written. The commit log has all acknowledged writes: the next start replays them.
    pub fn close(&self) -> Result<()> {
        self.0.store.close()
    }

    /// All keyspaces, tables and types as they are now.
    #[doc(hidden)]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.store.catalog()
    }

    /// [`catalog`](Self::catalog), without a count that all threads share. Callers release it soon.
    #[doc(hidden)]
    pub fn present_catalog(&self) -> impl Deref<Target = Arc<Catalog>> {
        self.0.store.present_catalog()
    }

    /// Calls `listener` after every schema change, until the subscription is dropped.
    #[doc(hidden)]
    pub fn on_schema_change(&self, listener: impl Fn(&SchemaChange) + Send + Sync + 'static) -> Subscription {
        self.0.store.events().subscribe(listener)
    }

    /// Whether queries may use an index.
    #[doc(hidden)]
    pub fn is_built(&self, index: &Index) -> bool {
        self.0.store.is_built(index)
    }

    /// The metrics of queries by the storage-attached indexes of the table of `index`.
    #[doc(hidden)]
    pub fn search_metrics(&self, index: &Index) -> Arc<SearchMetrics> {
        self.0.store.build_states().searches(index.base.id)
    }

    /// The storage engine, for flushes, compactions and metrics. Writing to it bypasses the schema.
    #[doc(hidden)]
    pub fn engine(&self) -> &Engine {
        self.0.store.engine()
    }

    /// How long statements may take. Changes apply to statements that begin afterwards, until the next start.
    #[doc(hidden)]
    pub fn timeouts(&self) -> &RequestTimeouts {
        self.0.store.timeouts()
    }

    /// Updates the recent metrics of requests and of queries by indexes. Call it every few seconds; without calls, rates
    /// are averages since they were last read.
    #[doc(hidden)]
    pub fn tick_figures(&self) {
        self.0.store.tick_figures();
    }

    /// Metrics of requests.
    #[doc(hidden)]
    pub fn metrics(&self) -> &RequestMetrics {
        self.0.store.metrics()
    }

    /// Registers the server in front of the database, for virtual tables to show.
    #[doc(hidden)]
    pub fn set_server(&self, server: &Arc<dyn ServerFigures>) {
        self.0.store.set_server(server);
    }

    /// The server that was registered, while it exists.
    #[doc(hidden)]
    pub fn server(&self) -> Option<Arc<dyn ServerFigures>> {
        self.0.store.server()
    }

    /// How many prepared statements are kept, and how many were evicted for new ones.
    #[doc(hidden)]
    pub fn prepared_statements(&self) -> PreparedFigures {
        self.0.prepared.figures()
    }

    /// The row of `system.local`.
    #[doc(hidden)]
    pub fn node(&self) -> &Node {
        self.0.store.node()
    }

    /// The configuration, by cassandra.yaml's names.
    #[doc(hidden)]
    pub fn settings(&self) -> &BTreeMap<String, String> {
        self.0.store.settings()
    }

    /// The guardrails, which may be changed at any time.
    #[doc(hidden)]
    pub fn guardrails(&self) -> &Guardrails {
        self.0.store.guardrails()
    }

    pub(crate) fn trace_chance(&self) -> &TraceChance {
        &self.0.trace_chance
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = self.present_catalog().version();
        f.debug_struct("Database").field("catalog", &version).finish_non_exhaustive()
    }
}

/// The engine's threads as Cassandra's thread pools.
pub fn pools(database: &Database) -> Vec<Pool> {
    virtual_tables::pools(database.engine())
}
