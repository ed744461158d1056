//! The database: storage, catalog and prepared statements behind one door.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, TryLockError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use cassette_cql::ast::BatchKind;
use cassette_engine::{
    CompactionOptions, Engine, EngineError, KeyRange, Mutation, PartitionLock, Promise, may_wait,
};
use cassette_rows::interrupt;
use cassette_rows::schema::CompactionParams;
use cassette_rows::{DecoratedKey, PartitionStream, Selection, TableId, TableMetadata, TableParams};
use cassette_vfs::{Clock, FileSystem, RealFileSystem, SystemClock};
use crossbeam::sync::{ShardedLock, ShardedLockReadGuard};
use parking_lot::{Mutex, MutexGuard, RwLock};
use uuid::Uuid;

use crate::catalog::{Catalog, SchemaEvents, Subscription};
use crate::compaction_history;
use crate::embedded::Session;
use crate::error::{DatabaseError, Result, WriteType, bail_invalid};
use crate::execution::Execution;
use crate::guardrails::Guardrails;
use crate::indexes::{self, Builds, Hits, Index, IndexKind, Wanted, Within};
use crate::metrics::{RequestKind, RequestMetrics};
use crate::paging_key::PagingKey;
use crate::plan::{Plan, Planned};
use crate::prepared::{Prepared, PreparedFigures, PreparedStatements};
use crate::request::{BoundValue, StatementOptions, Values};
use crate::response::{Executed, Outcome, RowSink, SchemaChange};
use crate::server_figures::ServerFigures;
use crate::system::{self, local::Node};
use crate::time_uuids::{self, TimeUuids};
use crate::timeouts::{Deadlines, Limited, RequestTimeouts};
use crate::tracing::TraceChance;
use crate::views;
use crate::virtual_tables::engine_settings;
use crate::write_clock::WriteClock;

/// What parsing and planning one statement of a batch counts for, in steps of [`interrupt`].
const PARSING_STEPS: u32 = 64;

/// How a database is to be opened.
#[derive(Clone)]
pub struct Options {
    /// The storage engine's options, the data directory among them.
    pub engine: cassette_engine::Options,
    /// Where files are.
    pub file_system: Arc<dyn FileSystem>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// What `system.local` says of this node. The host id is made at the first start and kept; this one is not looked at.
    pub node: Node,
    /// `prepared_statements_cache_size`, bytes: prepared statements hold about so much memory at most. 10 MiB.
    pub prepared_statements_cache_size: u64,
    /// `materialized_views_enabled`: whether they may be made. No, as in Cassandra.
    pub materialized_views_enabled: bool,
    /// `default_compaction`: the `compaction` of tables and views that are made without one. Size-tiered.
    pub default_compaction: CompactionParams,
    /// How long statements may take. Unlimited, as fits a library; a server sets Cassandra's.
    pub timeouts: RequestTimeouts,
    /// Guardrails that differ from their defaults: texts by the names of cassandra.yaml, empty for null.
    pub guardrails: BTreeMap<String, String>,
    /// What else `system_views.settings` is to show beside the engine's options.
    pub settings: BTreeMap<String, String>,
}

impl Options {
    /// The defaults, in directory `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            engine: cassette_engine::Options::new(path),
            file_system: Arc::new(RealFileSystem),
            clock: Arc::new(SystemClock::new()),
            node: Node::default(),
            prepared_statements_cache_size: 10 << 20,
            materialized_views_enabled: false,
            default_compaction: CompactionParams::default(),
            timeouts: RequestTimeouts::unlimited(),
            guardrails: BTreeMap::new(),
            settings: BTreeMap::new(),
        }
    }
}

impl<P: Into<PathBuf>> From<P> for Options {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

/// One statement of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchStatement<'a> {
    /// The statement.
    pub source: BatchSource<'a>,
    /// Its values by position; batches have no named ones.
    pub values: &'a [BoundValue<'a>],
}

/// Where a statement of a batch comes from.
#[derive(Debug, Clone, Copy)]
pub enum BatchSource<'a> {
    /// Its text.
    Query(&'a str),
    /// One that was prepared.
    Prepared(&'a Prepared),
}

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
    builds: Builds,
    /// Whether threads may be started.
    background_threads: bool,
    materialized_views_enabled: bool,
    default_params: TableParams,
    events: SchemaEvents,
    node: Node,
    settings: BTreeMap<String, String>,
    deadlines: Deadlines,
    guardrails: Guardrails,
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
    /// Opens the database in a directory, making it if there is none: `Database::open("data")?`.
    ///
    /// # Errors
    /// If another process has it open, or its files cannot be read or written.
    pub fn open(options: impl Into<Options>) -> Result<Self> {
        let options = options.into();
        if let Err(why) = CompactionOptions::parse(&options.default_compaction) {
            return Err(DatabaseError::Config(format!("default_compaction: {why}")));
        }
        let guardrails = Guardrails::configured(&options.guardrails).map_err(DatabaseError::Config)?;
        let mut settings = engine_settings(&options.engine);
        let prepared_size = format!("{}MiB", options.prepared_statements_cache_size >> 20);
        settings.insert("prepared_statements_cache_size".to_owned(), prepared_size);
        settings
            .insert("materialized_views_enabled".to_owned(), options.materialized_views_enabled.to_string());
        settings.insert("cluster_name".to_owned(), options.node.cluster_name.clone());
        settings.extend(options.settings);
        let background_threads = options.engine.background_threads;
        let auto_snapshot = options.engine.auto_snapshot;
        let data_dir = options.engine.data_dir.clone();
        let engine = Engine::open(options.engine, options.file_system.clone(), options.clock.clone())
            .map_err(|error| DatabaseError::Server(error.to_string()))?;
        let paging_key = PagingKey::open(&*options.file_system, &data_dir)?;
        let opened = system::open::open(&engine, &*options.clock, options.node)?;
        let database = Self(Arc::new(Inner {
            engine,
            deadlines: Deadlines::new(options.timeouts, options.clock.clone()),
            clock: options.clock,
            catalog: ArcSwap::new(opened.catalog),
            changing_schema: Mutex::new(()),
            writers: ShardedLock::new(()),
            builds: Builds::default(),
            background_threads,
            materialized_views_enabled: options.materialized_views_enabled,
            default_params: TableParams { compaction: options.default_compaction, ..TableParams::default() },
            events: SchemaEvents::default(),
            node: opened.node,
            settings,
            guardrails,
            prepared: PreparedStatements::new(options.prepared_statements_cache_size),
            metrics: RequestMetrics::default(),
            server: RwLock::new(None),
            auto_snapshot,
            time_uuids: TimeUuids::after(opened.newest_timestamp),
            paging_key,
            write_clock: WriteClock::new(opened.ceilings, opened.newest_timestamp, opened.ceiling),
            trace_chance: TraceChance::default(),
            schema_is_incomplete: opened.schema_is_incomplete,
        }));
        database.engine().load_saved_caches(*database.node().host_id.as_bytes());
        compaction_history::note_compactions(&database);
        for index in &opened.unbuilt {
            database.build_index(index);
        }
        for view in &opened.unbuilt_views {
            database.build_view(view);
        }
        Ok(database)
    }

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

    /// Parses, plans and executes one statement; rows go to `sink`.
    pub fn query(
        &self,
        keyspace: Option<&str>,
        cql: &str,
        values: Values<'_>,
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        let keyspace = options.keyspace.as_deref().or(keyspace);
        let planned = self.limit(Limited::Other, self.0.clock.monotonic(), || self.plan(keyspace, cql))?;
        self.execute_text(planned, keyspace, values, options, sink)
    }

    /// Executes what a client sent as text, and warns of what planning it met.
    pub(crate) fn execute_text(
        &self,
        planned: Planned,
        keyspace: Option<&str>,
        values: Values<'_>,
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        if values.names.is_none() && values.values.len() != planned.markers.len() {
            bail_invalid!("Invalid amount of bind variables");
        }
        if planned.plan.is_request() {
            self.0.metrics.regular_executed.add(1);
        }
        let mut executed = self.execute_planned(&planned, keyspace, values, options, sink)?;
        executed.warnings.splice(0..0, planned.warnings);
        Ok(executed)
    }

    /// Plans a statement, to be executed by its id. The same text in the same keyspace always has the same id.
    pub fn prepare(&self, keyspace: Option<&str>, cql: &str) -> Result<Arc<Prepared>> {
        self.limit(Limited::Other, self.0.clock.monotonic(), || {
            self.0.prepared.prepare(cql, &self.catalog(), keyspace)
        })
    }

    /// The statement with this id, its plan up to date.
    ///
    /// # Errors
    /// Unprepared, if there is none.
    pub fn prepared(&self, id: &[u8]) -> Result<Arc<Prepared>> {
        Ok(self.0.prepared.get(id, &self.catalog())?.0)
    }

    /// Executes a prepared statement; rows go to `sink`.
    pub fn execute(
        &self,
        keyspace: Option<&str>,
        prepared: &Prepared,
        values: Values<'_>,
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        let planned = prepared.planned(&self.catalog())?;
        self.0.metrics.prepared_executed.add(1);
        let keyspace = options.keyspace.as_deref().or(keyspace);
        self.execute_planned(&planned, keyspace, values, options, sink)
    }

    /// Executes a batch; the rows of a conditional one go to `sink`. All changes are made, or none.
    pub fn batch(
        &self,
        keyspace: Option<&str>,
        kind: BatchKind,
        statements: &[BatchStatement<'_>],
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        let catalog = self.catalog();
        let keyspace = options.keyspace.as_deref().or(keyspace);
        let mut warnings = Vec::new();
        let mut planned = Vec::with_capacity(statements.len());
        self.limit(Limited::Other, self.0.clock.monotonic(), || {
            for statement in statements {
                planned.push(match statement.source {
                    BatchSource::Prepared(prepared) => prepared.planned(&catalog)?,
                    BatchSource::Query(cql) => {
                        // Parsing takes some microseconds at least.
                        interrupt::charge(PARSING_STEPS)?;
                        let planned = Planned::new(cql, &catalog, keyspace)?;
                        warnings.extend_from_slice(&planned.warnings);
                        Arc::new(planned)
                    }
                });
            }
            Ok(())
        })?;
        let mut executions = Vec::with_capacity(statements.len());
        for (statement, planned) in statements.iter().zip(&planned) {
            let Plan::Modification(modification) = &planned.plan else {
                bail_invalid!(
                    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."
                );
            };
            let values = statement.values;
            if values.len() != planned.markers.len() {
                bail_invalid!(
                    "There were {} markers(?) in CQL but {} bound variables",
                    planned.markers.len(),
                    values.len()
                );
            }
            executions.push((modification, Execution::new(self, &catalog, values, options, keyspace)));
        }
        let prepared =
            statements.iter().filter(|s| matches!(s.source, BatchSource::Prepared(_))).count() as u64;
        self.0.metrics.prepared_executed.add(prepared);
        self.0.metrics.regular_executed.add(statements.len() as u64 - prepared);
        let conditional = executions.iter().any(|(modification, _)| modification.has_conditions());
        let has_counters = executions.iter().any(|(modification, _)| modification.table().is_counter);
        let mut execute = || crate::modification::execute_batch(kind, &executions, sink);
        let outcome = match executions.first() {
            Some((_, first)) => {
                let write_type = WriteType::of_batch(kind, conditional, has_counters);
                self.limit(Limited::write(write_type, options), first.started, execute)
            }
            None => execute(),
        };
        if let Some((_, first)) = executions.first() {
            let request = if conditional { RequestKind::CasWrite } else { RequestKind::Write };
            self.0.metrics.record(request, self.0.clock.monotonic() - first.started, &outcome);
        }
        let outcome = outcome?;
        for (_, execution) in executions {
            warnings.append(&mut execution.warnings.into_inner());
        }
        Ok(Executed { outcome, warnings })
    }

    /// Parses and plans one statement.
    pub(crate) fn plan(&self, keyspace: Option<&str>, cql: &str) -> Result<Planned> {
        Planned::new(cql, &self.catalog(), keyspace)
    }

    pub(crate) fn execute_planned(
        &self,
        planned: &Planned,
        keyspace: Option<&str>,
        values: Values<'_>,
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        let mut scratch = Vec::new();
        let values =
            values.in_marker_order(planned.markers.iter().map(|marker| &*marker.name), &mut scratch)?;
        let execution = Execution::new(self, &planned.catalog, values, options, keyspace);
        let request = planned.plan.limited(options);
        let outcome = self.limit(request, execution.started, || planned.execute(&execution, sink));
        if let Some(kind) = planned.plan.request_kind(options) {
            let ended = match kind {
                // Read to the end just now.
                RequestKind::Read | RequestKind::Range if outcome.is_ok() => execution.read_until.get(),
                _ => self.0.clock.monotonic(),
            };
            self.0.metrics.record(kind, ended.saturating_sub(execution.started), &outcome);
        }
        Ok(Executed { outcome: outcome?, warnings: execution.warnings.into_inner() })
    }

    /// Runs a request that began at `started` within its time limit.
    pub(crate) fn limit<T>(
        &self,
        request: Limited,
        started: Duration,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.0.deadlines.limit(request, started, work)
    }

    /// Waits for the lock of a partition for a conditional write.
    ///
    /// # Errors
    /// WouldBlock, if this thread may not wait and would have to; Interrupted.
    pub(crate) fn lock_for_condition(
        &self,
        execution: &Execution<'_>,
        table: TableId,
        key: &DecoratedKey,
    ) -> Result<PartitionLock<'_>> {
        if !may_wait() {
            return self.0.engine.try_lock_partition(table, key).ok_or(DatabaseError::WouldBlock);
        }
        Ok(self.0.deadlines.contend(execution.started, || self.0.engine.lock_partition(table, key))?)
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

    /// Whether the table leaves a snapshot when it is truncated or dropped.
    pub(crate) fn leaves_snapshot(&self, table: &TableMetadata) -> bool {
        let is_of_index = table.index_of.is_some();
        self.0.auto_snapshot && table.params.allow_auto_snapshot != Some(false) && !is_of_index
    }

    /// Keeps others from changing the schema while it is held.
    pub(crate) fn lock_schema(&self) -> MutexGuard<'_, ()> {
        self.0.changing_schema.lock()
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

    /// One partition of a table, stored or virtual, under `selection`.
    pub(crate) fn read(
        &self,
        execution: &Execution<'_>,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        self.read_first(execution, table, key, selection, None)
    }

    /// [`Self::read`] by somebody who stops pulling after so many live rows.
    pub(crate) fn read_first(
        &self,
        execution: &Execution<'_>,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        selection: &Selection,
        rows: Option<u32>,
    ) -> Result<Box<dyn PartitionStream>> {
        if let Some(source) = execution.catalog.virtual_table(table) {
            return Ok(crate::virtual_tables::read(&**source, table, self, key, selection));
        }
        let read = self.0.engine.read_first(table.id, key, selection, rows);
        read.map_err(|error| read_error(error, execution))
    }

    /// The partitions of a table, stored or virtual, within `range`, each under `selection`.
    pub(crate) fn scan(
        &self,
        execution: &Execution<'_>,
        table: &Arc<TableMetadata>,
        range: &KeyRange,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        if let Some(source) = execution.catalog.virtual_table(table) {
            return Ok(crate::virtual_tables::scan(&**source, table, self, range, selection));
        }
        self.0.engine.scan(table.id, range, selection).map_err(|error| read_error(error, execution))
    }

    /// Applies all mutations or none, and with them those of the indexes and views of their tables.
    ///
    /// # Errors
    /// WouldBlock, without an effect, where this thread may not wait and would have to: for a disk that old rows are to be read
    /// from, for somebody else's lock, who may be waiting for a disk, or for the commit log.
    pub(crate) fn apply(
        &self,
        execution: &Execution<'_>,
        write_type: WriteType,
        mut mutations: Vec<Mutation>,
        promise: Promise,
    ) -> Result<()> {
        // Of a conditional write the one partition is locked.
        let locks_itself = write_type != WriteType::Cas;
        let (_locked, _writing, catalog) = loop {
            let catalog = self.0.catalog.load();
            let has_views = locks_itself && catalog.has_views();
            // Partitions before anything else: who waits for them holds nothing that others wait for.
            let locked = if has_views {
                views::lock_partitions(&self.0.engine, &catalog, &mutations)?
            } else {
                Vec::new()
            };
            let writing = self.begin_to_write()?;
            let now = self.0.catalog.load();
            if has_views || !locks_itself || !now.has_views() {
                let same = !has_views || Arc::ptr_eq(&catalog, &now);
                if same {
                    break (locked, writing, now);
                }
            }
        };
        let mut writes_views_since = None;
        if catalog.has_views() {
            let (began, of_tables) = (self.0.clock.monotonic(), mutations.len());
            views::add_view_mutations(&self.0.engine, &catalog, &mut mutations, execution)?;
            writes_views_since = (mutations.len() > of_tables).then_some(began);
        }
        indexes::add_index_mutations(&self.0.engine, &catalog, &mut mutations, execution)?;
        if !may_wait() && self.0.engine.apply_would_wait() {
            return Err(DatabaseError::WouldBlock);
        }
        interrupt::charge(u32::try_from(mutations.len()).unwrap_or(u32::MAX))?;
        // From here on the write must not stop halfway.
        let applied = interrupt::shielded(|| self.0.engine.apply_promised(&mutations, promise));
        let applied = applied.map_err(|error| match error {
            EngineError::UnknownTable(_) => DatabaseError::Invalid(error.to_string()),
            error => DatabaseError::WriteFailure {
                consistency: execution.options.consistency,
                write_type,
                message: error.to_string(),
            },
        });
        if let Some(began) = writes_views_since {
            let time = self.0.clock.monotonic().saturating_sub(began);
            self.0.metrics.record(RequestKind::ViewWrite, time, &applied);
        }
        applied
    }

    /// Keeps those waiting who wait for writers, while it is held.
    fn begin_to_write(&self) -> Result<ShardedLockReadGuard<'_, ()>> {
        // A writer that panicked has left nothing behind that others could see.
        if may_wait() {
            return Ok(self.0.writers.read().unwrap_or_else(PoisonError::into_inner));
        }
        match self.0.writers.try_read() {
            Ok(writing) => Ok(writing),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(DatabaseError::WouldBlock),
        }
    }

    /// Removes all of a table's rows, and the entries of its indexes. These go first: what is written between the two keeps
    /// its entries, and so does what is left of the table by a crash, since its indexes are built again after that.
    pub(crate) fn truncate(&self, table: &Arc<TableMetadata>) -> Result<Outcome> {
        let failed = |error: EngineError| {
            DatabaseError::Truncate(format!("Error during truncate: {}: {error}", table.qualified_name()))
        };
        // No index comes or goes meanwhile.
        let _changing = self.lock_schema();
        let catalog = self.catalog();
        let indexes: Vec<_> =
            catalog.indexes_of(table.id).iter().filter(|index| index.state.is_built()).collect();
        for index in &indexes {
            indexes::unbuild(self, index)?;
        }
        let views = catalog.views_of(table.id);
        for view in views {
            views::unbuild(self, view)?;
        }
        // What is written between the truncation of a table and that of its views would be in one of them alone.
        let _alone = match views.is_empty() {
            true => None,
            false => Some(self.0.writers.write().unwrap_or_else(PoisonError::into_inner)),
        };
        let indexes_and_views = catalog.indexes_of(table.id).iter().map(|index| index.storage.id);
        let indexes_and_views = indexes_and_views.chain(views.iter().map(|view| view.table.id));
        let tables = indexes_and_views.chain([table.id]);
        let truncate = |id| match id == table.id && self.leaves_snapshot(table) {
            true => self.0.engine.truncate_with_snapshot(id, &self.schema_cql(table)),
            false => self.0.engine.truncate(id),
        };
        if let Err(error) = { tables }.try_for_each(truncate) {
            for index in &indexes {
                index.state.start_over();
                self.build_index(index);
            }
            return Err(failed(error));
        }
        for index in indexes {
            indexes::mark_built(self, index)?;
        }
        for view in views {
            views::truncated(self, view)?;
        }
        Ok(Outcome::Void)
    }

    /// The entries of a value, or of several, in an index.
    ///
    /// # Errors
    /// ReadFailure, while the index is being built.
    pub(crate) fn search(
        &self,
        execution: &Execution<'_>,
        index: &Arc<Index>,
        wanted: &Wanted<'_>,
        within: &Within<'_>,
    ) -> Result<Hits> {
        if !index.state.is_built() {
            return Err(DatabaseError::ReadFailure {
                consistency: execution.options.consistency,
                message: format!("The secondary index '{}' is not yet available", index.name),
            });
        }
        Hits::new(&self.0.engine, index, wanted, within, execution.now_seconds)
            .map_err(|error| read_error(error, execution))
    }

    /// Removes index entries that were found stale. Nothing depends on it: what fails or would have to wait is left for
    /// the next reader.
    pub(crate) fn remove_stale(&self, removals: &[Mutation]) {
        if removals.is_empty() || self.0.engine.apply_would_wait() {
            return;
        }
        if let Err(error) = interrupt::shielded(|| self.0.engine.apply(removals)) {
            tracing::debug!(%error, "stale index entries stay");
        }
    }
}

/// A database that may have been dropped.
pub(crate) struct WeakDatabase(Weak<Inner>);

impl WeakDatabase {
    pub fn upgrade(&self) -> Option<Database> {
        self.0.upgrade().map(Database)
    }
}

fn read_error(error: EngineError, execution: &Execution<'_>) -> DatabaseError {
    DatabaseError::of_read(execution.options.consistency, error)
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("catalog", &self.0.catalog.load().version()).finish_non_exhaustive()
    }
}
