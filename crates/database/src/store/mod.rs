//! Layer 4, the store: engine, catalog, clock and locks, and their consistency.
//!
//! Statements use the store, which does not depend on them. Reads and writes of tables are in
//! [`data`].

pub(crate) mod admission;
pub(crate) mod authorization;
pub(crate) mod build_notes;
pub(crate) mod build_state;
pub(crate) mod data;
pub(crate) mod faults;
pub(crate) mod indexes;
pub(crate) mod mutation_size;
pub(crate) mod opening;
pub(crate) mod seeded;
pub(crate) mod views;
pub(crate) mod virtual_nodes;
pub(crate) mod write_clock;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use cassette_cql::values::temporal;
use cassette_engine::{Engine, PartitionLock, may_wait};
use cassette_functions::Functions;
use cassette_rows::{DecoratedKey, Interrupted, TableId, TableMetadata, TableParams};
use cassette_vfs::Clock;
use crossbeam_utils::sync::{ShardedLock, ShardedLockWriteGuard};
use parking_lot::{Mutex, MutexGuard, RwLock};
use uuid::Uuid;

use crate::basics::error::{DatabaseError, Result};
use crate::basics::metrics::RequestMetrics;
use crate::basics::paging_key::PagingKey;
use crate::basics::server_metrics::{PreparedMetrics, ServerMetrics};
use crate::basics::slow_queries::{SlowQueries, SlowQuery};
use crate::basics::time_uuids::{self, TimeUuids};
use crate::basics::timeouts::{Deadlines, Limited, RequestTimeouts};
use crate::planning::context::UuidSource;
use crate::schema::catalog::{Catalog, Keyspace, SchemaEvents};
use crate::schema::guardrails::{DiskUsage, Guardrails};
use crate::schema::indexes::Index;
use crate::schema::options::replication::DataCenters;
use crate::schema::system;
use crate::schema::system::local::Node;
use crate::schema::topology::NodePlace;
use crate::schema::views::View;
use crate::store::authorization::{AuthSettings, Authorization};
use crate::store::build_state::BuildStates;
use crate::store::faults::Faults;
use crate::store::opening::open;
use crate::store::seeded::Seeded;
use crate::store::views::LargeWrites;
use crate::store::virtual_nodes::VirtualNodes;
use crate::store::write_clock::WriteClock;

/// The open storage of a database, and the state that its statements share.
pub(crate) struct Store {
    engine: Engine,
    clock: Arc<dyn Clock>,
    catalog: ArcSwap<Catalog>,
    /// Held by schema changes.
    changing_schema: Mutex<()>,
    /// Held shared by writers, from before they load the list of indexes until they have written.
    writers: ShardedLock<()>,
    large_view_writes: LargeWrites,
    build_states: BuildStates,
    authorization: Authorization,
    /// Held by a batch with many plans in memory.
    pub(crate) large_batches: LargeWrites,
    /// Stops running builds of indexes and views.
    builds_are_stopped: AtomicBool,
    /// The user-defined functions, compiled.
    functions: Functions,
    settings: StoreSettings,
    events: SchemaEvents,
    node: Node,
    virtual_nodes: Option<VirtualNodes>,
    deadlines: Deadlines,
    disk_usage: DiskUsage,
    metrics: RequestMetrics,
    slow_queries: SlowQueries,
    server: RwLock<Option<Weak<dyn ServerMetrics>>>,
    time_uuids: TimeUuids,
    write_clock: WriteClock,
    seeded: Option<Seeded>,
    paging_key: PagingKey,
    schema_is_incomplete: bool,
}

/// The parts of a store.
pub(crate) struct StoreParts {
    pub engine: Engine,
    pub clock: Arc<dyn Clock>,
    /// What generates times and UUIDs of a database for snapshot tests.
    pub seeded: Option<Seeded>,
    pub paging_key: PagingKey,
    pub node: Node,
    pub timeouts: RequestTimeouts,
    pub slow_query_log_timeout: Option<Duration>,
    /// The keyspaces of virtual tables.
    pub virtual_keyspaces: Vec<Keyspace>,
    pub settings: StoreSettings,
}

/// The settings of a store.
pub(crate) struct StoreSettings {
    /// Whether threads may be started.
    pub background_threads: bool,
    /// `materialized_views_enabled`.
    pub materialized_views_enabled: bool,
    /// `dynamic_data_masking_enabled`.
    pub dynamic_data_masking_enabled: bool,
    /// User-defined functions.
    pub functions: cassette_functions::Settings,
    /// `enforce_replica_counts`.
    pub enforces_replica_counts: bool,
    /// `sasi_indexes_enabled`.
    pub sasi_indexes_enabled: bool,
    /// The rules of injected faults, in a server for tests.
    pub faults: Option<Arc<Faults>>,
    /// The places of virtual nodes, in a server for tests; otherwise empty.
    pub virtual_nodes: Vec<NodePlace>,
    /// `drop_compact_storage_enabled`.
    pub drop_compact_storage_enabled: bool,
    /// `vector_graph_memory`, bytes.
    pub vector_graph_memory: u64,
    /// The default options of new tables.
    pub default_params: TableParams,
    /// `auto_snapshot`
    pub auto_snapshot: bool,
    pub guardrails: Arc<Guardrails>,
    /// Authentication and authorization.
    pub auth: AuthSettings,
    /// The configuration, by cassandra.yaml's names.
    pub shown: BTreeMap<String, String>,
    /// Returns the metrics of prepared statements.
    pub prepared: Box<dyn Fn() -> PreparedMetrics + Send + Sync>,
}

/// The indexes and views that have to be built after opening.
pub(crate) struct Unbuilt {
    pub indexes: Vec<Arc<Index>>,
    pub views: Vec<Arc<View>>,
}

impl Store {
    /// Recovers the tables of the engine, and loads the catalog from them.
    ///
    /// # Errors
    /// If the schema or the commit log cannot be read, or the data directory belongs to another
    /// cluster.
    pub fn open(parts: StoreParts) -> Result<(Self, Unbuilt)> {
        let StoreParts { engine, clock, seeded, paging_key, node, timeouts, .. } = parts;
        let (virtual_keyspaces, mut settings) = (parts.virtual_keyspaces, parts.settings);
        let slow_queries = SlowQueries::new(parts.slow_query_log_timeout);
        let build_states = BuildStates::new(settings.vector_graph_memory);
        let opened = open(&engine, &*clock, node, virtual_keyspaces, &build_states, seeded.as_ref())?;
        let places = std::mem::take(&mut settings.virtual_nodes);
        let virtual_nodes = (!places.is_empty()).then(|| VirtualNodes::new(places, opened.node.host_id));
        let store = Self {
            engine,
            deadlines: Deadlines::new(timeouts, clock.clone()),
            clock,
            catalog: ArcSwap::new(opened.catalog),
            changing_schema: Mutex::new(()),
            writers: ShardedLock::new(()),
            large_view_writes: LargeWrites::default(),
            build_states,
            authorization: Authorization::new(settings.auth),
            large_batches: LargeWrites::default(),
            builds_are_stopped: AtomicBool::new(false),
            functions: Functions::new(settings.functions.clone()),
            settings,
            events: SchemaEvents::default(),
            node: opened.node,
            virtual_nodes,
            disk_usage: DiskUsage::default(),
            metrics: RequestMetrics::default(),
            slow_queries,
            server: RwLock::new(None),
            time_uuids: TimeUuids::after(opened.newest_timestamp),
            seeded,
            paging_key,
            write_clock: WriteClock::new(opened.ceilings, opened.newest_timestamp, opened.ceiling),
            schema_is_incomplete: opened.schema_is_incomplete,
        };
        if store.settings.auth.cidr.is_some() {
            store.reload_cidr_groups()?;
        }
        store.engine.load_saved_caches(*store.node.host_id.as_bytes());
        Ok((store, Unbuilt { indexes: opened.unbuilt, views: opened.unbuilt_views }))
    }

    /// Whether rows of `system_schema` that others refer to were missing at the start.
    pub fn schema_is_incomplete(&self) -> bool {
        self.schema_is_incomplete
    }

    /// Stops builds, flushes memtables and releases the directory. Later statements fail.
    pub fn close(&self) -> Result<()> {
        self.builds_are_stopped.store(true, Ordering::Release);
        self.save_graphs(true);
        if let Err(error) = self.write_clock.settle(self) {
            tracing::warn!(%error, "write timestamps begin above the recorded ceiling at the next start");
        }
        self.engine.close().map_err(DatabaseError::storage)
    }

    /// Returns the current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Returns the [`catalog`](Self::catalog) without incrementing a reference count that all
    /// threads share. Callers must release it soon.
    pub fn present_catalog(&self) -> impl Deref<Target = Arc<Catalog>> {
        self.catalog.load()
    }

    /// Returns the storage engine, for flushes, compactions and metrics. Its writes bypass indexes
    /// and views.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the request timeouts. Changes apply to later statements, until the next start.
    pub fn timeouts(&self) -> &RequestTimeouts {
        &self.deadlines.timeouts
    }

    /// Returns the metrics of requests.
    pub fn metrics(&self) -> &RequestMetrics {
        &self.metrics
    }

    /// Sets the server in front of the database, whose metrics virtual tables show.
    pub fn set_server(&self, server: &Arc<dyn ServerMetrics>) {
        *self.server.write() = Some(Arc::downgrade(server));
    }

    /// Returns the server that was set, if it still exists.
    pub fn server(&self) -> Option<Arc<dyn ServerMetrics>> {
        self.server.read().as_ref().and_then(Weak::upgrade)
    }

    /// Returns this node as described by `system.local`.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the configuration, by cassandra.yaml's names.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings.shown
    }

    /// Returns the guardrails, which can be changed at any time.
    pub fn guardrails(&self) -> &Guardrails {
        &self.settings.guardrails
    }

    /// Returns the disk usage for its guardrail.
    pub fn disk_usage(&self) -> &DiskUsage {
        &self.disk_usage
    }

    /// Whether a snapshot of the table is taken when it is truncated or dropped.
    pub fn leaves_snapshot(&self, table: &TableMetadata) -> bool {
        let is_of_index = table.index_of.is_some();
        self.settings.auto_snapshot && table.params.allow_auto_snapshot != Some(false) && !is_of_index
    }

    /// Locks out other schema changes until the guard is dropped.
    pub fn lock_schema(&self) -> MutexGuard<'_, ()> {
        self.changing_schema.lock()
    }

    /// [`Self::lock_schema`] for a request that waits at most `patience`; `None` for no limit.
    ///
    /// # Errors
    /// If other schema changes take longer.
    pub fn lock_schema_within(&self, patience: Option<Duration>) -> Result<MutexGuard<'_, ()>> {
        match patience {
            Some(patience) => {
                let locked = self.changing_schema.try_lock_for(patience);
                locked.ok_or(DatabaseError::Interrupted(Interrupted::TimedOut))
            }
            None => Ok(self.lock_schema()),
        }
    }

    /// Locks out other batches with many plans in memory until the guard is dropped.
    ///
    /// # Errors
    /// WouldBlock, if this thread must not wait; Interrupted, if its request is interrupted first.
    pub fn lock_large_batches(&self) -> Result<MutexGuard<'_, ()>> {
        if may_wait() { Ok(self.large_batches.lock()?) } else { Err(DatabaseError::WouldBlock) }
    }

    /// Replaces the catalog. The caller must hold the schema lock.
    pub fn swap_catalog(&self, catalog: Arc<Catalog>) {
        self.catalog.store(catalog.clone());
        self.build_states.retain(&catalog);
        self.functions.retain(|function| {
            let keyspace = catalog.keyspace(&function.keyspace);
            keyspace.is_some_and(|own| own.functions.values().any(|current| *current == *function))
        });
    }

    /// Returns the user-defined functions, compiled.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Returns the progress of builds, and the metrics of queries by indexes.
    pub fn build_states(&self) -> &BuildStates {
        &self.build_states
    }

    /// Whether queries may use an index: it has entries of all rows that existed before it.
    pub fn is_built(&self, index: &Index) -> bool {
        self.build_states.index(index).is_built()
    }

    /// Waits until all writers that began before are done.
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

    /// `enforce_replica_counts`: whether consistency levels that need more replicas than one fail.
    pub fn enforces_replica_counts(&self) -> bool {
        self.settings.enforces_replica_counts
    }

    /// Returns the rules of injected faults, in a server for tests.
    #[inline]
    pub fn faults(&self) -> Option<&Faults> {
        self.settings.faults.as_deref()
    }

    /// Returns the virtual nodes, in a server for tests that has any.
    #[inline]
    pub fn virtual_nodes(&self) -> Option<&VirtualNodes> {
        self.virtual_nodes.as_ref()
    }

    /// Returns what generates times and UUIDs, in a database for snapshot tests.
    #[inline]
    pub fn seeded(&self) -> Option<&Seeded> {
        self.seeded.as_ref()
    }

    /// Whether it is that of a server for tests, which has the keyspace `system_testing`.
    #[inline]
    pub fn is_for_tests(&self) -> bool {
        self.settings.faults.is_some() || self.virtual_nodes.is_some() || self.seeded.is_some()
    }

    /// Returns the data centers of the cluster.
    pub fn data_centers(&self) -> DataCenters {
        match &self.virtual_nodes {
            Some(nodes) => DataCenters::of(nodes.nodes().iter().map(|node| node.place.data_center.as_str())),
            None => DataCenters::of(std::iter::once(self.node.data_center.as_str())),
        }
    }

    /// `dynamic_data_masking_enabled`.
    pub fn dynamic_data_masking_enabled(&self) -> bool {
        self.settings.dynamic_data_masking_enabled
    }

    /// `sasi_indexes_enabled`.
    pub fn sasi_indexes_enabled(&self) -> bool {
        self.settings.sasi_indexes_enabled
    }

    /// `drop_compact_storage_enabled`.
    pub fn drop_compact_storage_enabled(&self) -> bool {
        self.settings.drop_compact_storage_enabled
    }

    /// Returns the default options of new tables.
    pub fn default_params(&self) -> &TableParams {
        &self.settings.default_params
    }

    /// Returns the state of authentication and authorization.
    pub fn authorization(&self) -> &Authorization {
        &self.authorization
    }

    /// Returns the key that authenticates paging states.
    pub fn paging_key(&self) -> &PagingKey {
        &self.paging_key
    }

    pub fn events(&self) -> &SchemaEvents {
        &self.events
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Returns a write timestamp that no earlier call has returned, including calls before a
    /// restart: `now_micros`, or a microsecond after the last timestamp.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub fn next_timestamp(&self, now_micros: i64) -> Result<i64> {
        self.write_clock.issue(self, now_micros)
    }

    /// Returns the write timestamp of a request at `now_micros` that writes to `tables`, and does
    /// not specify one. It is later than those of earlier requests, but with a seed only than those
    /// in these tables: its clock can be set back.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub fn write_timestamp<'t>(
        &self,
        tables: impl Iterator<Item = &'t TableMetadata> + Clone,
        now_micros: i64,
    ) -> Result<i64> {
        let Some(seeded) = &self.seeded else { return self.next_timestamp(now_micros) };
        if tables.clone().any(|table| system::comes_with_database(&table.keyspace)) {
            return self.next_timestamp(now_micros);
        }
        // The time of a drop is that of a schema change, which may be later than the clock.
        let dropped = tables.clone().flat_map(|table| table.dropped_columns.values());
        let dropped_at = dropped.map(|dropped| dropped.dropped_at).max();
        let now_micros = now_micros.max(dropped_at.map_or(i64::MIN, |at| at.saturating_add(1)));
        let newest = || tables.filter_map(|table| self.engine.newest_timestamp(table.id)).max();
        let issued = seeded.issue(now_micros, || newest().unwrap_or(i64::MIN));
        self.write_clock.cover(self, issued)?;
        Ok(issued)
    }

    /// Begins a request; `writes_rows` returns whether it writes rows of users.
    ///
    /// # Errors
    /// WouldBlock, with a seed, if this thread must not wait.
    #[inline]
    pub fn begin_request(&self, writes_rows: impl FnOnce() -> bool) -> Result<()> {
        self.seeded.as_ref().map_or(Ok(()), |seeded| seeded.begin(writes_rows()))
    }

    /// Calls `work`, in which the text `now` of a timestamp is the time of the clock.
    #[inline]
    pub fn at_present<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.seeded {
            Some(seeded) => temporal::with_now(seeded.times().0, work),
            None => work(),
        }
    }

    /// Returns the greatest write timestamp that was issued.
    pub fn last_timestamp(&self) -> i64 {
        self.write_clock.last()
    }

    /// Issues only timestamps above `upto_micros` from now on.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub fn withhold_timestamps(&self, upto_micros: i64) -> Result<()> {
        self.write_clock.cover(self, upto_micros)
    }

    /// Returns a time UUID later than all earlier ones, for ids of the database itself.
    pub fn new_time_uuid(&self) -> Uuid {
        let uuid = self.time_uuids.next(self.clock.now_micros());
        if let Err(error) = self.write_clock.cover(self, time_uuids::micros(uuid)) {
            // The UUID is still unique in this process, and no stored order depends on it.
            tracing::debug!(%error, "a time UUID is above the recorded ceiling");
        }
        uuid
    }

    /// Returns the path of an element appended to a list.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub fn list_append_id(&self) -> Result<Uuid> {
        let uuid = self.time_uuids.next(self.clock.now_micros());
        self.write_clock.cover(self, time_uuids::micros(uuid))?;
        Ok(uuid)
    }

    /// Returns ascending paths for `count` elements prepended to a list.
    ///
    /// # Errors
    /// See [`WriteClock::issue`].
    pub fn list_prepend_ids(&self, count: usize) -> Result<impl Iterator<Item = [u8; 16]> + use<>> {
        let ids = self.time_uuids.prepended(self.clock.now_micros(), count);
        self.write_clock.cover(self, self.time_uuids.prepended_upto())?;
        Ok(ids)
    }

    /// Updates moving averages of the metrics of requests and of queries by indexes, and saves the
    /// links of vectors when due. Expected every
    /// few seconds; without these calls, counts remain exact, and rates are averages since the last
    /// call.
    pub fn tick_metrics(&self) {
        let now = self.engine.stats().now;
        self.metrics.tick(now);
        self.build_states.tick(now);
        self.save_graphs(false);
        if let Some(message) = self.slow_queries.report(now) {
            tracing::info!("{message}");
        }
    }

    /// Returns the latest slow statements.
    pub fn slow_queries(&self) -> Vec<SlowQuery> {
        self.slow_queries.latest()
    }

    /// Records an execution if it was slow.
    #[inline]
    pub fn note_if_slow(&self, elapsed: Duration, text: impl FnOnce() -> String) {
        if self.slow_queries.is_slow(elapsed) {
            self.slow_queries.record(&text(), elapsed, self.clock().now_micros().div_euclid(1000));
        }
    }

    /// Returns the metrics of prepared statements.
    pub fn prepared_statements(&self) -> PreparedMetrics {
        (self.settings.prepared)()
    }

    /// Whether running builds of indexes and views must stop.
    pub fn builds_are_stopped(&self) -> bool {
        self.builds_are_stopped.load(Ordering::Acquire)
    }

    /// Locks out all writers until the guard is dropped.
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
    /// WouldBlock, if this thread must not wait and would have to; Interrupted.
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

impl UuidSource for Store {
    fn next_time_uuid(&self) -> Uuid {
        self.seeded.as_ref().map_or_else(|| self.new_time_uuid(), Seeded::time_uuid)
    }

    fn random_uuid(&self) -> Uuid {
        self.seeded.as_ref().map_or_else(Uuid::new_v4, Seeded::uuid)
    }
}
