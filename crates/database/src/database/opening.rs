//! Options of a database, and opening it with them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use cassette_engine::{CompactionOptions, Engine};
use cassette_rows::TableParams;
use cassette_rows::schema::CompactionParams;
use cassette_vfs::{Clock, FakeFileSystem, FileSystem, RealFileSystem, SystemClock};
use crossbeam_utils::sync::ShardedLock;
use parking_lot::{Mutex, RwLock};

use crate::catalog::SchemaEvents;
use crate::compaction_history;
use crate::error::{DatabaseError, Result};
use crate::guardrails::{DiskUsage, Guardrails};
use crate::indexes::Builds;
use crate::metrics::RequestMetrics;
use crate::paging_key::PagingKey;
use crate::prepared::PreparedStatements;
use crate::system::{self, local::Node};
use crate::time_uuids::TimeUuids;
use crate::timeouts::{Deadlines, RequestTimeouts};
use crate::tracing::TraceChance;
use crate::views::LargeWrites;
use crate::virtual_tables::engine_settings;
use crate::write_clock::WriteClock;

use super::{Database, Inner};

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

    /// The defaults, with all files in memory: see [`Database::in_memory`].
    pub fn in_memory() -> Self {
        Self { file_system: Arc::new(FakeFileSystem::new()), ..Self::new("/cassette") }
    }
}

impl<P: Into<PathBuf>> From<P> for Options {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

impl Database {
    /// Opens an empty database whose files are in memory, for tests. It behaves as one in a directory does, but is gone
    /// with its last clone and session, and holds the content of each file twice.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn in_memory() -> Result<Self> {
        Self::open(Options::in_memory())
    }

    /// Opens the database in a directory, making it if there is none: `Database::open("data")?`.
    ///
    /// # Errors
    /// If another process has it open, or its files cannot be read or written.
    pub fn open(options: impl Into<Options>) -> Result<Self> {
        let mut options = options.into();
        if let Err(why) = CompactionOptions::parse(&options.default_compaction) {
            return Err(DatabaseError::Config(format!("default_compaction: {why}")));
        }
        let guardrails = Guardrails::configured(&options.guardrails).map_err(DatabaseError::Config)?;
        let guardrails = Arc::new(guardrails);
        options.engine.partition_observer = Some(guardrails.clone());
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
            large_view_writes: LargeWrites::default(),
            builds: Builds::default(),
            background_threads,
            materialized_views_enabled: options.materialized_views_enabled,
            default_params: TableParams { compaction: options.default_compaction, ..TableParams::default() },
            events: SchemaEvents::default(),
            node: opened.node,
            settings,
            guardrails,
            disk_usage: DiskUsage::default(),
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
}
