//! The open database: its store and its prepared statements.

mod batches;
mod cut_over;
mod opening;
mod statements;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cassette_engine::Engine;
use cassette_engine::cdc::ChangeStream;
use cassette_engine::commitlog::Position;

use crate::api::embedded::Session;
use crate::api::prepared::PreparedStatements;
use crate::api::tracing::TraceChance;
use crate::basics::error::{DatabaseError, Result};
use crate::basics::metrics::RequestMetrics;
use crate::basics::response::SchemaChange;
use crate::basics::server_metrics::{Pool, PreparedMetrics, ServerMetrics};
use crate::basics::slow_queries::SlowQuery;
use crate::basics::timeouts::RequestTimeouts;
use crate::execution::virtual_tables;
use crate::schema::catalog::{Catalog, Subscription};
use crate::schema::guardrails::Guardrails;
use crate::schema::indexes::Index;
use crate::schema::system::local::Node;
use crate::statements::builds::renew_graphs;
use crate::store::Store;
use crate::store::indexes::SearchMetrics;

pub use self::batches::{BatchSource, BatchStatement};
pub use self::cut_over::FORWARDING_FILE;
pub use self::opening::Options;

/// An open database. Cheap to clone and usable from any thread. It is closed when the last clone
/// and session is dropped, or by [`close`](Self::close).
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    store: Arc<Store>,
    prepared: Arc<PreparedStatements>,
    trace_chance: TraceChance,
    /// Whether statements that write are rejected.
    is_read_only: AtomicBool,
}

impl Database {
    /// Returns the store.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.0.store
    }

    /// Rejects statements that write from now on.
    pub(crate) fn refuse_writes(&self) {
        self.0.is_read_only.store(true, Ordering::Release);
    }

    /// Returns an error if statements that write are rejected.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.0.is_read_only.load(Ordering::Acquire) {
            return Err(DatabaseError::ReadOnly);
        }
        Ok(())
    }

    /// Returns a session, which has its own current keyspace.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// Stops the threads, flushes memtables of more than 1 MiB, closes the commit log, which keeps
    /// the rest, and unlocks the directory. Later statements fail. Dropping the last clone and
    /// session does the same without flushing.
    ///
    /// # Errors
    /// If a file could not be written. The commit log contains all acknowledged writes; the next
    /// start replays them.
    pub fn close(&self) -> Result<()> {
        self.0.store.close()
    }

    /// Returns the current catalog: all keyspaces, tables and types.
    #[doc(hidden)]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.store.catalog()
    }

    /// Returns the [`catalog`](Self::catalog) without incrementing a reference count that all
    /// threads share. Callers must release it soon.
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

    /// Returns the metrics of queries by the storage-attached indexes of the table of `index`.
    #[doc(hidden)]
    pub fn search_metrics(&self, index: &Index) -> Arc<SearchMetrics> {
        self.0.store.build_states().searches(index.base.id)
    }

    /// Whether times and UUIDs follow from a seed.
    #[doc(hidden)]
    pub fn is_seeded(&self) -> bool {
        self.0.store.seeded().is_some()
    }

    /// Returns the time of the database's clock, microseconds since 1970.
    #[doc(hidden)]
    pub fn now_micros(&self) -> i64 {
        self.0.store.clock().now_micros()
    }

    /// Returns the storage engine, for flushes, compactions and metrics. Its writes bypass indexes
    /// and views.
    #[doc(hidden)]
    pub fn engine(&self) -> &Engine {
        self.0.store.engine()
    }

    /// Returns the stream of changes of tables with `cdc = true`, after `position`: that of a
    /// record of an earlier stream, or [`Position::ZERO`]. It stays valid when the database is
    /// closed.
    pub fn change_stream(&self, position: Position) -> ChangeStream {
        self.engine().change_stream(position)
    }

    /// Returns the request timeouts. Changes apply to later statements, until the next start.
    #[doc(hidden)]
    pub fn timeouts(&self) -> &RequestTimeouts {
        self.0.store.timeouts()
    }

    /// Updates moving averages of the metrics of requests and of queries by indexes. Expected every
    /// few seconds; without these calls, rates are averages since the last call.
    #[doc(hidden)]
    pub fn tick_metrics(&self) {
        self.0.store.tick_metrics();
        renew_graphs(&self.0.store);
    }

    /// Returns the metrics of requests.
    #[doc(hidden)]
    pub fn metrics(&self) -> &RequestMetrics {
        self.0.store.metrics()
    }

    /// Returns the latest statements that took longer than `slow_query_log_timeout`, the newest
    /// first.
    #[doc(hidden)]
    pub fn slow_queries(&self) -> Vec<SlowQuery> {
        self.0.store.slow_queries()
    }

    /// Sets the server in front of the database, whose metrics virtual tables show.
    #[doc(hidden)]
    pub fn set_server(&self, server: &Arc<dyn ServerMetrics>) {
        self.0.store.set_server(server);
    }

    /// Returns the server that was set, if it still exists.
    #[doc(hidden)]
    pub fn server(&self) -> Option<Arc<dyn ServerMetrics>> {
        self.0.store.server()
    }

    /// Returns the prepared statements.
    pub(crate) fn prepared_cache(&self) -> &PreparedStatements {
        &self.0.prepared
    }

    /// Returns the numbers of cached and evicted prepared statements.
    #[doc(hidden)]
    pub fn prepared_statements(&self) -> PreparedMetrics {
        self.0.prepared.metrics()
    }

    /// Returns this node as described by `system.local`.
    #[doc(hidden)]
    pub fn node(&self) -> &Node {
        self.0.store.node()
    }

    /// Returns the configuration, by cassandra.yaml's names.
    #[doc(hidden)]
    pub fn settings(&self) -> &BTreeMap<String, String> {
        self.0.store.settings()
    }

    /// Returns the guardrails, which can be changed at any time.
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

/// Returns the engine's threads in the form of Cassandra's thread pools.
pub fn pools(database: &Database) -> Vec<Pool> {
    virtual_tables::pools(database.engine())
}
