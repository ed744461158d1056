//! Layer 4, the store: engine, catalog, clock and locks, and what keeps them consistent with one another.
//!
//! Statements work on it; it does not know them. Reads and writes of tables are in [`data`].

pub(crate) mod admission;
pub(crate) mod build_notes;
pub(crate) mod build_state;
mod data;
pub(crate) mod indexes;
mod mutation_size;
pub(crate) mod opening;
pub(crate) mod views;
pub(crate) mod write_clock;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use cassette_engine::{Engine, PartitionLock, may_wait};
use cassette_rows::{DecoratedKey, Interrupted, TableId, TableMetadata, TableParams};
use cassette_vfs::Clock;
use crossbeam_utils::sync::{ShardedLock, ShardedLockWriteGuard};
use parking_lot::{Mutex, MutexGuard, RwLock};
use uuid::Uuid;

use crate::basics::error::{DatabaseError, Result};
use crate::basics::metrics::RequestMetrics;
use crate::basics::paging_key::PagingKey;
use crate::basics::server_figures::{PreparedFigures, ServerFigures};
use crate::basics::time_uuids::{self, TimeUuids};
use crate::basics::timeouts::{Deadlines, Limited, RequestTimeouts};
use crate::planning::context::TimeUuidSource;
use crate::schema::catalog::{Catalog, Keyspace, SchemaEvents};
use crate::schema::guardrails::{DiskUsage, Guardrails};
use crate::schema::indexes::Index;
use crate::schema::system::local::Node;
use crate::schema::views::View;
use crate::store::build_state::BuildStates;
use crate::store::opening::open;
use crate::store::views::LargeWrites;
use crate::store::write_clock::WriteClock;

/// The open storage of a database, and the state that its statements share.
pub(crate) struct Store {
    engine: Engine,
    clock: Arc<dyn Clock>,
    catalog: ArcSwap<Catalog>,
    /// Held while the schema changes.
    changing_schema: Mutex<()>,
    /// Held shared by writers, from before they look which indexes there are until they have written.
    writers: ShardedLock<()>,
    large_view_writes: LargeWrites,
    build_states: BuildStates,
    /// Held by the batch that has many plans in memory.
    pub(crate) large_batches: LargeWrites,
    /// Whether running builds of indexes and views are to end.
    builds_are_stopped: AtomicBool,
    settings: StoreSettings,
    events: SchemaEvents,
    node: Node,
    deadlines: Deadlines,
    disk_usage: DiskUsage,
    metrics: RequestMetrics,
    server: RwLock<Option<Weak<dyn ServerFigures>>>,
    time_uuids: TimeUuids,
    write_clock: WriteClock,
    paging_key: PagingKey,
    schema_is_incomplete: bool,
}

/// What a store is made of.
pub(crate) struct StoreParts {
    pub engine: Engine,
    pub clock: Arc<dyn Clock>,
    pub paging_key: PagingKey,
    pub node: Node,
    pub timeouts: RequestTimeouts,
    /// The keyspaces whose tables are computed.
    pub virtual_keyspaces: Vec<Keyspace>,
    pub settings: StoreSettings,
}

/// The settings of a store.
pub(crate) struct StoreSettings {
    /// Whether threads may be started.
    pub background_threads: bool,
    /// `materialized_views_enabled`.
    pub materialized_views_enabled: bool,
    /// The options of tables that are created without any.
    pub default_params: TableParams,
    /// `auto_snapshot`
    pub auto_snapshot: bool,
    pub guardrails: Arc<Guardrails>,
    /// The configuration, by cassandra.yaml's names.
    pub shown: BTreeMap<String, String>,
    /// Counts the prepared statements.
    pub prepared: Box<dyn Fn() -> PreparedFigures + Send + Sync>,
}

/// What is left to build after opening.
pub(crate) struct Unbuilt {
    pub indexes: Vec<Arc<Index>>,
    pub views: Vec<Arc<View>>,
}

impl Store {
    /// Recovers the tables of the engine, and the catalog from them.
    ///
    /// # Errors
    /// If the schema or the commit log cannot be read, or the data directory belongs to another cluster.
    pub fn open(parts: StoreParts) -> Result<(Self, Unbuilt)> {
        let StoreParts { engine, clock, paging_key, node, timeouts, virtual_keyspaces, settings } = parts;
        let build_states = BuildStates::default();
        let opened = open(&engine, &*clock, node, virtual_keyspaces, &build_states)?;
        let store = Self {
            engine,
            deadlines: Deadlines::new(timeouts, clock.clone()),
            clock,
            catalog: ArcSwap::new(opened.catalog),
            changing_schema: Mutex::new(()),
            writers: ShardedLock::new(()),
            large_view_writes: LargeWrites::default(),
            build_states,
            large_batches: LargeWrites::default(),
            builds_are_stopped: AtomicBool::new(false),
            settings,
            events: SchemaEvents::default(),
            node: opened.node,
            disk_usage: DiskUsage::default(),
            metrics: RequestMetrics::default(),
            server: RwLock::new(None),
            time_uuids: TimeUuids::after(opened.newest_timestamp),
            paging_key,
            write_clock: WriteClock::new(opened.ceilings, opened.newest_timestamp, opened.ceiling),
            schema_is_incomplete: opened.schema_is_incomplete,
        };
        store.engine.load_saved_caches(*store.node.host_id.as_bytes());
        Ok((store, Unbuilt { indexes: opened.unbuilt, views: opened.unbuilt_views }))
    }

    /// Whether rows of `system_schema` were missing at the start that others refer to.
    pub fn schema_is_incomplete(&self) -> bool {
        self.schema_is_incomplete
    }

    /// Stops builds, flushes what is in memory and releases the directory. Statements fail from then on.
    pub fn close(&self) -> Result<()> {
        self.builds_are_stopped.store(true, Ordering::Release);
        if let Err(error) = self.write_clock.settle(self) {
            tracing::warn!(%error, "write timestamps begin above the recorded ceiling at the next start");
        }
        self.engine.close().map_err(DatabaseError::storage)
    }

    /// All keyspaces, tables and types as they are now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// [`catalog`](Self::catalog), without a count that all threads share. Callers release it soon.
    pub fn present_catalog(&self) -> impl Deref<Target = Arc<Catalog>> {
        self.catalog.load()
    }

    /// The storage engine: for flushing, compacting and figures. Writing to it goes round the schema.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How long statements may take. Changes apply to statements that begin afterwards, until the next start.
    pub fn timeouts(&self) -> &RequestTimeouts {
        &self.deadlines.timeouts
    }

    /// Figures of requests.
    pub fn metrics(&self) -> &RequestMetrics {
        &self.metrics
    }

    /// Says which server is in front of the database, for virtual tables to show.
    pub fn set_server(&self, server: &Arc<dyn ServerFigures>) {
        *self.server.write() = Some(Arc::downgrade(server));
    }

    /// The server that was set, while it is there.
    pub fn server(&self) -> Option<Arc<dyn ServerFigures>> {
        self.server.read().as_ref().and_then(Weak::upgrade)
    }

    /// What `system.local` says of this node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// What the database was configured with, by cassandra.yaml's names.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings.shown
    }

    /// The guardrails, which may be changed at any time.
    pub fn guardrails(&self) -> &Guardrails {
        &self.settings.guardrails
    }

    /// How full the disk is, for the guardrail on that.
    pub fn disk_usage(&self) -> &DiskUsage {
        &self.disk_usage
    }

    /// Whether the table leaves a snapshot when it is truncated or dropped.
    pub fn leaves_snapshot(&self, table: &TableMetadata) -> bool {
        let is_of_index = table.index_of.is_some();
        self.settings.auto_snapshot && table.params.allow_auto_snapshot != Some(false) && !is_of_index
    }

    /// Keeps others from changing the schema while it is held.
    pub fn lock_schema(&self) -> MutexGuard<'_, ()> {
        self.changing_schema.lock()
    }

    /// [`Self::lock_schema`] for a request that waits no longer than `patience`; `None` for any time.
    ///
    /// # Errors
    /// If others change the schema for so long.
    pub fn lock_schema_within(&self, patience: Option<Duration>) -> Result<MutexGuard<'_, ()>> {
        match patience {
            Some(patience) => {
                let locked = self.changing_schema.try_lock_for(patience);
                locked.ok_or(DatabaseError::Interrupted(Interrupted::TimedOut))
            }
            None => Ok(self.lock_schema()),
        }
    }

    /// Keeps other batches from having many plans in memory while it is held.
    ///
    /// # Errors
    /// WouldBlock, if this thread may not wait; if its request is interrupted first.
    pub fn lock_large_batches(&self) -> Result<MutexGuard<'_, ()>> {
        if may_wait() { Ok(self.large_batches.lock()?) } else { Err(DatabaseError::WouldBlock) }
    }

    /// Puts a catalog into force. The schema must be locked.
    pub fn swap_catalog(&self, catalog: Arc<Catalog>) {
        self.catalog.store(catalog.clone());
        self.build_states.retain(&catalog);
    }

    /// How far indexes and views are built, and the metrics of queries by indexes.
    pub fn build_states(&self) -> &BuildStates {
        &self.build_states
    }

    /// Whether queries may use an index: it has the entries of all rows that were there before it.
    pub fn is_built(&self, index: &Index) -> bool {
        self.build_states.index(index).is_built()
    }

    /// Waits until those are done who began to write before.
    pub fn wait_for_writers(&self) {
        drop(self.writers.write());
    }

    /// Whether threads may be started.
    pub fn has_background_threads(&self) -> bool {
        self.settings.background_threads
    }

    /// `materialized_views_enabled`.
    pub fn materialized_views_enabled(&self) -> bool {
        self.settings.materialized_views_enabled
    }

    /// The options of tables that are made without any.
    pub fn default_params(&self) -> &TableParams {
        &self.settings.default_params
    }

    /// What paging states are authenticated with.
    pub fn paging_key(&self) -> &PagingKey {
        &self.paging_key
    }

    pub fn events(&self) -> &SchemaEvents {
        &self.events
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// A write time that no earlier call has given, not even before a restart: `now_micros`, or a microsecond after the
    /// last one.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub fn next_timestamp(&self, now_micros: i64) -> Result<i64> {
        self.write_clock.issue(self, now_micros)
    }

    /// Issues no timestamp up to `upto_micros` from now on.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub fn withhold_timestamps(&self, upto_micros: i64) -> Result<()> {
        self.write_clock.cover(self, upto_micros)
    }

    /// The path of an element put behind all others of a list.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub fn list_append_id(&self) -> Result<Uuid> {
        let uuid = self.time_uuids.next(self.clock.now_micros());
        self.write_clock.cover(self, time_uuids::micros(uuid))?;
        Ok(uuid)
    }

    /// Ascending paths for `count` elements put before all others of a list.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub fn list_prepend_ids(&self, count: usize) -> Result<impl Iterator<Item = [u8; 16]> + use<>> {
        let ids = self.time_uuids.prepended(self.clock.now_micros(), count);
        self.write_clock.cover(self, self.time_uuids.prepended_upto())?;
        Ok(ids)
    }

    /// Brings recent figures of requests and of queries by indexes up to date. To be called every few seconds; where nobody does,
    /// the figures are still right, but rates are averages since they were last looked at.
    pub fn tick_figures(&self) {
        let now = self.engine.stats().now;
        self.metrics.tick(now);
        self.build_states.tick(now);
    }

    /// Counts the prepared statements.
    pub fn prepared_statements(&self) -> PreparedFigures {
        (self.settings.prepared)()
    }

    /// Whether running builds of indexes and views are to end.
    pub fn builds_are_stopped(&self) -> bool {
        self.builds_are_stopped.load(Ordering::Acquire)
    }

    /// Keeps all from writing while it is held.
    pub fn stop_writers(&self) -> ShardedLockWriteGuard<'_, ()> {
        self.writers.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Runs a request that began at `started` within its time limit.
    pub fn limit<T>(
        &self,
        request: Limited,
        started: Duration,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.deadlines.limit(request, started, work)
    }

    /// Waits for the lock of a partition for a conditional write that began at `started`.
    ///
    /// # Errors
    /// WouldBlock, if this thread may not wait and would have to; Interrupted.
    pub fn lock_for_condition(
        &self,
        started: Duration,
        table: TableId,
        key: &DecoratedKey,
    ) -> Result<PartitionLock<'_>> {
        if !may_wait() {
            return self.engine.try_lock_partition(table, key).ok_or(DatabaseError::WouldBlock);
        }
        Ok(self.deadlines.contend(started, || self.engine.lock_partition(table, key))?)
    }
}

impl TimeUuidSource for Store {
    fn next_time_uuid(&self) -> Uuid {
        let uuid = self.time_uuids.next(self.clock.now_micros());
        if let Err(error) = self.write_clock.cover(self, time_uuids::micros(uuid)) {
            // It is unique among those of this run all the same; no stored order depends on it.
            tracing::debug!(%error, "a time UUID is above the recorded ceiling");
        }
        uuid
    }
}
