//! The open database: storage, catalog and shared state, and access to each.

mod mutation_size;
mod opening;
mod statements;
mod storage;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use cassette_engine::Engine;
use cassette_rows::{Interrupted, TableMetadata, TableParams};
use cassette_vfs::Clock;
use crossbeam_utils::sync::ShardedLock;
use parking_lot::{Mutex, MutexGuard, RwLock};
use uuid::Uuid;

use crate::catalog::{Catalog, SchemaEvents, Subscription};
use crate::embedded::Session;
use crate::error::{DatabaseError, Result};
use crate::guardrails::{DiskUsage, Guardrails};
use crate::indexes::{Builds, Index, IndexKind};
use crate::metrics::RequestMetrics;
use crate::paging_key::PagingKey;
use crate::prepared::{PreparedFigures, PreparedStatements};
use crate::response::SchemaChange;
use crate::server_figures::ServerFigures;
use crate::system::local::Node;
use crate::time_uuids::{self, TimeUuids};
use crate::timeouts::{Deadlines, RequestTimeouts};
use crate::tracing::TraceChance;
use crate::views::LargeWrites;
use crate::write_clock::WriteClock;

pub use self::opening::Options;
pub use self::statements::{BatchSource, BatchStatement};

/// An open database. Cheap to clone; any thread may use it; it is closed when the last clone and session is dropped, or
/// by [`close`](Self::close).
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    engine: Engine,
    clock: Arc<dyn Clock>,
    catalog: ArcSwap<Catalog>,
    /// Held while the schema changes.
    changing_schema: Mutex<()>,
    /// Held shared by writers, from before they look which indexes there are until they have written.
    writers: ShardedLock<()>,
    large_view_writes: LargeWrites,
    builds: Builds,
    /// Whether threads may be started.
    background_threads: bool,
    materialized_views_enabled: bool,
    default_params: TableParams,
    events: SchemaEvents,
    node: Node,
    settings: BTreeMap<String, String>,
    deadlines: Deadlines,
    guardrails: Arc<Guardrails>,
    disk_usage: DiskUsage,
    auto_snapshot: bool,
    prepared: PreparedStatements,
    metrics: RequestMetrics,
    server: RwLock<Option<Weak<dyn ServerFigures>>>,
    time_uuids: TimeUuids,
    write_clock: WriteClock,
    paging_key: PagingKey,
    trace_chance: TraceChance,
    schema_is_incomplete: bool,
}

impl Database {
    /// Whether rows of `system_schema` were missing at the start that others refer to.
    pub(crate) fn schema_is_incomplete(&self) -> bool {
        self.0.schema_is_incomplete
    }

    /// A session: a keyspace of its own to resolve names in.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// Writes down what is only in memory and lets go of the directory. Statements fail from then on.
    pub fn close(&self) -> Result<()> {
        self.0.builds.stop();
        if let Err(error) = self.0.write_clock.settle(self) {
            tracing::warn!(%error, "write timestamps begin above the recorded ceiling at the next start");
        }
        self.0.engine.close().map_err(|error| DatabaseError::Server(error.to_string()))
    }

    /// All keyspaces, tables and types as they are now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog.load_full()
    }

    /// [`catalog`](Self::catalog), without a count that all threads share: to be let go of soon.
    pub fn present_catalog(&self) -> impl Deref<Target = Arc<Catalog>> {
        self.0.catalog.load()
    }

    /// Calls `listener` after every schema change, until the subscription is dropped.
    pub fn on_schema_change(&self, listener: impl Fn(&SchemaChange) + Send + Sync + 'static) -> Subscription {
        self.0.events.subscribe(listener)
    }

    /// The storage engine: for flushing, compacting and figures. Writing to it goes round the schema.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// How long statements may take. Changes apply to statements that begin afterwards, until the next start.
    pub fn timeouts(&self) -> &RequestTimeouts {
        &self.0.deadlines.timeouts
    }

    /// Brings recent figures of requests and of queries by indexes up to date. To be called every few seconds; where nobody does,
    /// the figures are still right, but rates are averages since they were last looked at.
    pub fn tick_figures(&self) {
        let now = self.0.engine.stats().now;
        self.0.metrics.tick(now);
        let catalog = self.0.catalog.load();
        for keyspace in catalog.keyspaces() {
            for table in keyspace.tables.values() {
                // Those of a table have them together.
                let mut indexes = catalog.indexes_of(table.id).iter();
                if let Some(index) = indexes.find(|index| index.kind == IndexKind::StorageAttached) {
                    index.searches().tick(now);
                }
            }
        }
    }

    /// Figures of requests.
    pub fn metrics(&self) -> &RequestMetrics {
        &self.0.metrics
    }

    /// Says which server is in front of the database, for virtual tables to show.
    pub fn set_server(&self, server: &Arc<dyn ServerFigures>) {
        *self.0.server.write() = Some(Arc::downgrade(server));
    }

    /// The server that was set, while it is there.
    pub fn server(&self) -> Option<Arc<dyn ServerFigures>> {
        self.0.server.read().as_ref().and_then(Weak::upgrade)
    }

    /// How many prepared statements are kept, and how many were thrown away for new ones.
    pub fn prepared_statements(&self) -> PreparedFigures {
        self.0.prepared.figures()
    }

    /// What `system.local` says of this node.
    pub fn node(&self) -> &Node {
        &self.0.node
    }

    /// What the database was configured with, by cassandra.yaml's names.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.0.settings
    }

    /// The guardrails, which may be changed at any time.
    pub fn guardrails(&self) -> &Guardrails {
        &self.0.guardrails
    }

    /// How full the disk is, for the guardrail on that.
    pub(crate) fn disk_usage(&self) -> &DiskUsage {
        &self.0.disk_usage
    }

    /// Whether the table leaves a snapshot when it is truncated or dropped.
    pub(crate) fn leaves_snapshot(&self, table: &TableMetadata) -> bool {
        let is_of_index = table.index_of.is_some();
        self.0.auto_snapshot && table.params.allow_auto_snapshot != Some(false) && !is_of_index
    }

    /// Keeps others from changing the schema while it is held.
    pub(crate) fn lock_schema(&self) -> MutexGuard<'_, ()> {
        self.0.changing_schema.lock()
    }

    /// [`Self::lock_schema`] for a request that waits no longer than `patience`; `None` for any time.
    ///
    /// # Errors
    /// If others change the schema for so long.
    pub(crate) fn lock_schema_within(&self, patience: Option<Duration>) -> Result<MutexGuard<'_, ()>> {
        match patience {
            Some(patience) => {
                let locked = self.0.changing_schema.try_lock_for(patience);
                locked.ok_or(DatabaseError::Interrupted(Interrupted::TimedOut))
            }
            None => Ok(self.lock_schema()),
        }
    }

    /// Puts a catalog into force. The schema must be locked.
    pub(crate) fn swap_catalog(&self, catalog: Arc<Catalog>) {
        self.0.catalog.store(catalog);
    }

    /// Waits until those are done who began to write before.
    pub(crate) fn wait_for_writers(&self) {
        drop(self.0.writers.write());
    }

    /// Builds an index, unless it is built: the smaller part at once, the rest in the background. What goes wrong is logged, and
    /// tried again at the next start.
    pub(crate) fn build_index(&self, index: &Arc<Index>) {
        if let Err(error) = self.0.builds.begin(self, index, self.0.background_threads) {
            tracing::error!(%error, "an index stays unbuilt until the next start");
        }
    }

    /// Whether threads may be started.
    pub(crate) fn has_background_threads(&self) -> bool {
        self.0.background_threads
    }

    /// `materialized_views_enabled`.
    pub(crate) fn materialized_views_enabled(&self) -> bool {
        self.0.materialized_views_enabled
    }

    /// The options of tables that are made without any.
    pub(crate) fn default_params(&self) -> &TableParams {
        &self.0.default_params
    }

    /// What paging states are authenticated with.
    pub(crate) fn paging_key(&self) -> &PagingKey {
        &self.0.paging_key
    }

    pub(crate) fn builds(&self) -> &Builds {
        &self.0.builds
    }

    pub(crate) fn trace_chance(&self) -> &TraceChance {
        &self.0.trace_chance
    }

    pub(crate) fn downgrade(&self) -> WeakDatabase {
        WeakDatabase(Arc::downgrade(&self.0))
    }

    pub(crate) fn events(&self) -> &SchemaEvents {
        &self.0.events
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    /// A write time that no earlier call has given, not even before a restart: `now_micros`, or a microsecond after the
    /// last one.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub(crate) fn next_timestamp(&self, now_micros: i64) -> Result<i64> {
        self.0.write_clock.issue(self, now_micros)
    }

    /// Issues no timestamp up to `upto_micros` from now on.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub(crate) fn withhold_timestamps(&self, upto_micros: i64) -> Result<()> {
        self.0.write_clock.cover(self, upto_micros)
    }

    /// A version 1 UUID of now, later than all before.
    pub(crate) fn next_time_uuid(&self) -> Uuid {
        let uuid = self.0.time_uuids.next(self.0.clock.now_micros());
        if let Err(error) = self.0.write_clock.cover(self, time_uuids::micros(uuid)) {
            // It is unique among those of this run all the same; no stored order depends on it.
            tracing::debug!(%error, "a time UUID is above the recorded ceiling");
        }
        uuid
    }

    /// The path of an element put behind all others of a list.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub(crate) fn list_append_id(&self) -> Result<Uuid> {
        let uuid = self.0.time_uuids.next(self.0.clock.now_micros());
        self.0.write_clock.cover(self, time_uuids::micros(uuid))?;
        Ok(uuid)
    }

    /// Ascending paths for `count` elements put before all others of a list.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub(crate) fn list_prepend_ids(&self, count: usize) -> Result<impl Iterator<Item = [u8; 16]> + use<>> {
        let ids = self.0.time_uuids.prepended(self.0.clock.now_micros(), count);
        self.0.write_clock.cover(self, self.0.time_uuids.prepended_upto())?;
        Ok(ids)
    }
}

/// A database that may have been dropped.
pub(crate) struct WeakDatabase(Weak<Inner>);

impl WeakDatabase {
    pub fn upgrade(&self) -> Option<Database> {
        self.0.upgrade().map(Database)
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("catalog", &self.0.catalog.load().version()).finish_non_exhaustive()
    }
}
