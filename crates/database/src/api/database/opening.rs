//! The options of a database, and opening it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cassette_engine::{CompactionOptions, Engine};
use cassette_rows::schema::CompactionParams;
use cassette_rows::{StorageError, TableParams};
use cassette_vfs::{Clock, FileSystem, MemoryFileSystem, RealFileSystem, SystemClock};

use crate::api::compaction_history;
use crate::api::prepared::PreparedStatements;
use crate::api::tracing::TraceChance;
use crate::basics::error::{DatabaseError, Result};
use crate::basics::paging_key::PagingKey;
use crate::basics::timeouts::RequestTimeouts;
use crate::execution::virtual_tables::{self, engine_settings};
use crate::schema::guardrails::{Guardrails, SETTINGS};
use crate::schema::system::local::Node;
use crate::schema::topology::NodePlace;
use crate::statements::builds::{build_index, build_view, load_graph};
use crate::store::authorization::AuthSettings;
use crate::store::seeded::{Seed, Seeded};
use crate::store::{Store, StoreParts, StoreSettings};

use super::{Database, Inner, cut_over};

/// The options of a database.
#[derive(Clone)]
pub struct Options {
    /// The storage engine's options, including the data directory.
    pub engine: cassette_engine::Options,
    /// The file system.
    pub file_system: Arc<dyn FileSystem>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The description of this node in `system.local`. The host id is generated at the first start
    /// and kept; the one here is ignored.
    pub node: Node,
    /// `prepared_statements_cache_size`, bytes: the approximate maximum memory of prepared
    /// statements. Default: 10 MiB.
    pub prepared_statements_cache_size: u64,
    /// `materialized_views_enabled`: whether views can be created. Default: false, as in Cassandra.
    pub materialized_views_enabled: bool,
    /// `dynamic_data_masking_enabled`: whether columns can be masked, and masks apply. Default:
    /// false, as in Cassandra.
    pub dynamic_data_masking_enabled: bool,
    /// User-defined functions, which are disabled by default, as in Cassandra.
    pub functions: cassette_functions::Settings,
    /// `enforce_replica_counts`: whether consistency levels that need more than one replica of a
    /// keyspace fail, as on one node of Cassandra. Default: false.
    pub enforce_replica_counts: bool,
    /// `sasi_indexes_enabled`: whether SASI indexes can be created. Default: false, as in
    /// Cassandra.
    pub sasi_indexes_enabled: bool,
    /// Whether tests can inject faults: a server compares requests with the rules of
    /// `system_testing.cassette_faults`, which exists then. Default: false.
    pub fault_injection: bool,
    /// The virtual nodes that a server for tests presents, each with its own address; the keyspace
    /// `system_testing` exists then. Default: none, one node.
    pub virtual_nodes: Vec<NodePlace>,
    /// What makes the times and UUIDs of a new database the same in each run, for snapshot tests,
    /// instead of `clock` and random numbers; `system_testing.cassette_clock` exists then. Default:
    /// none.
    pub seed: Option<Seed>,
    /// `drop_compact_storage_enabled`: whether ALTER TABLE … DROP COMPACT STORAGE is allowed.
    /// Default: false, as in Cassandra.
    pub drop_compact_storage_enabled: bool,
    /// `vector_graph_memory`: the maximum memory of the graphs of vector indexes, bytes. Searches
    /// without a graph compare all rows. Default: 1 GiB.
    pub vector_graph_memory: u64,
    /// `default_compaction`: the `compaction` of new tables and views that do not specify one.
    /// Default: size-tiered.
    pub default_compaction: CompactionParams,
    /// The timeouts of statements. Default: unlimited, for embedded databases; a server sets
    /// Cassandra's.
    pub timeouts: RequestTimeouts,
    /// `slow_query_log_timeout`: statements that take longer are logged; `None` for none. Default:
    /// none, for embedded databases; a server sets Cassandra's.
    pub slow_query_log_timeout: Option<Duration>,
    /// Guardrails that differ from their defaults: texts by the names of cassandra.yaml, empty for
    /// null.
    pub guardrails: BTreeMap<String, String>,
    /// Which clients of a server are authenticated and authorized. Cassandra's default is none.
    pub auth: AuthSettings,
    /// Other settings that `system_views.settings` shows besides the engine's options.
    pub settings: BTreeMap<String, String>,
}

impl Options {
    /// Returns the defaults for the directory `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            engine: cassette_engine::Options::new(path),
            file_system: Arc::new(RealFileSystem),
            clock: Arc::new(SystemClock::new()),
            node: Node::default(),
            prepared_statements_cache_size: 10 << 20,
            materialized_views_enabled: false,
            dynamic_data_masking_enabled: false,
            functions: cassette_functions::Settings::default(),
            enforce_replica_counts: false,
            sasi_indexes_enabled: false,
            fault_injection: false,
            virtual_nodes: Vec::new(),
            seed: None,
            drop_compact_storage_enabled: false,
            vector_graph_memory: 1 << 30,
            default_compaction: CompactionParams::default(),
            timeouts: RequestTimeouts::unlimited(),
            slow_query_log_timeout: None,
            guardrails: BTreeMap::new(),
            auth: AuthSettings::default(),
            settings: BTreeMap::new(),
        }
    }

    /// Returns the settings by cassandra.yaml's names, without timeouts and guardrails.
    fn shown_settings(&self) -> BTreeMap<String, String> {
        let mut settings = engine_settings(&self.engine);
        let prepared_size = format!("{}MiB", self.prepared_statements_cache_size >> 20);
        settings.insert("prepared_statements_cache_size".to_owned(), prepared_size);
        settings.extend(switches(self));
        settings.extend(function_settings(&self.functions));
        settings.insert("cluster_name".to_owned(), self.node.cluster_name.clone());
        settings.extend(self.settings.clone());
        settings
    }

    /// Returns the settings that a database opened with these options has at its start, by
    /// cassandra.yaml's names; a value of `None` is null there.
    ///
    /// # Errors
    /// If guardrails are invalid.
    pub fn effective_settings(&self) -> Result<BTreeMap<String, Option<String>>> {
        let guardrails = Guardrails::configured(&self.guardrails).map_err(DatabaseError::Config)?;
        let shown = self.shown_settings().into_iter().map(|(name, value)| (name, Some(value)));
        let timeouts = self.timeouts.settings().map(|(name, value)| (name.to_owned(), Some(value)));
        let limits = SETTINGS.iter().map(|limit| (limit.name.to_owned(), guardrails.text(limit.key)));
        Ok(shown.chain(timeouts).chain(limits).collect())
    }

    /// Returns the defaults with all files in memory: see [`Database::in_memory`].
    pub fn in_memory() -> Self {
        Self { file_system: Arc::new(MemoryFileSystem::new()), ..Self::new("/cassette") }
    }
}

impl<P: Into<PathBuf>> From<P> for Options {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

impl Database {
    /// Opens an empty database whose files are in memory, for tests and caches. It behaves like one
    /// in a directory, but is lost with its last clone and session.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn in_memory() -> Result<Self> {
        Self::open(Options::in_memory())
    }

    /// Opens the database in a directory, which is created if it does not exist:
    /// `Database::open("data")?`.
    ///
    /// # Errors
    /// If another process has it open, its files cannot be read or written, or its server was cut
    /// over to another one.
    pub fn open(options: impl Into<Options>) -> Result<Self> {
        Self::open_for(options.into(), false)
    }

    /// Opens a database whose file system keeps changes in memory, if it is for reading only.
    pub(crate) fn open_for(mut options: Options, is_read_only: bool) -> Result<Self> {
        if let Err(why) = CompactionOptions::parse(&options.default_compaction) {
            return Err(DatabaseError::Config(format!("default_compaction: {why}")));
        }
        let guardrails = Guardrails::configured(&options.guardrails).map_err(DatabaseError::Config)?;
        let guardrails = Arc::new(guardrails);
        options.engine.partition_observer = Some(guardrails.clone());
        let settings = options.shown_settings();
        let seeded = options.seed.map(Seeded::new).transpose()?;
        if let Some(seeded) = &seeded {
            check_empty(&*options.file_system, &options.engine.data_dir)?;
            options.clock = seeded.clock();
        }
        let is_for_tests = options.fault_injection || !options.virtual_nodes.is_empty() || seeded.is_some();
        let background_threads = options.engine.background_threads;
        let auto_snapshot = options.engine.auto_snapshot;
        let data_dir = options.engine.data_dir.clone();
        let engine = Engine::open(options.engine, options.file_system.clone(), options.clock.clone())
            .map_err(DatabaseError::storage)?;
        cut_over::check(&*options.file_system, &data_dir, is_read_only)?;
        let new_key = seeded.as_ref().map(Seeded::paging_key);
        let paging_key = PagingKey::open(&*options.file_system, &data_dir, new_key)?;
        let prepared = Arc::new(PreparedStatements::new(options.prepared_statements_cache_size));
        let counted = prepared.clone();
        let (store, unbuilt) = Store::open(StoreParts {
            engine,
            clock: options.clock,
            seeded,
            paging_key,
            node: options.node,
            timeouts: options.timeouts,
            slow_query_log_timeout: options.slow_query_log_timeout,
            virtual_keyspaces: virtual_tables::keyspaces(is_for_tests),
            settings: StoreSettings {
                background_threads,
                materialized_views_enabled: options.materialized_views_enabled,
                dynamic_data_masking_enabled: options.dynamic_data_masking_enabled,
                functions: options.functions,
                enforces_replica_counts: options.enforce_replica_counts,
                sasi_indexes_enabled: options.sasi_indexes_enabled,
                faults: options.fault_injection.then(Arc::default),
                virtual_nodes: options.virtual_nodes,
                drop_compact_storage_enabled: options.drop_compact_storage_enabled,
                vector_graph_memory: options.vector_graph_memory,
                default_params: TableParams {
                    compaction: options.default_compaction,
                    ..TableParams::default()
                },
                auto_snapshot,
                guardrails,
                auth: options.auth,
                shown: settings,
                prepared: Box::new(move || counted.metrics()),
            },
        })?;
        let store = Arc::new(store);
        compaction_history::note_compactions(&store);
        for index in &unbuilt.indexes {
            build_index(&store, index);
        }
        for view in &unbuilt.views {
            build_view(&store, view);
        }
        load_graphs(&store);
        let database = Self(Arc::new(Inner {
            store,
            prepared,
            trace_chance: TraceChance::default(),
            is_read_only: AtomicBool::new(false),
        }));
        Ok(database)
    }
}

/// Rejects a seed for a directory with files. A database that is opened again has rows that are
/// later than the clock of a seed, which hide what is written then.
fn check_empty(fs: &dyn FileSystem, directory: &Path) -> Result<()> {
    match fs.read_dir(directory) {
        Ok(entries) if entries.is_empty() => Ok(()),
        Ok(_) => Err(DatabaseError::Config(format!(
            "a seed needs an empty directory, and {} has files: use another one, or memory",
            directory.display()
        ))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(DatabaseError::storage(StorageError::io(directory, "list", error))),
    }
}

/// Loads the graphs of vector indexes, and removes those of indexes that were dropped.
fn load_graphs(store: &Arc<Store>) {
    store.remove_unwanted_graphs();
    let catalog = store.catalog();
    for index in catalog.keyspaces().flat_map(|keyspace| keyspace.indexes.values()) {
        load_graph(store, index);
    }
}

/// Returns what can be enabled, by cassandra.yaml's names.
fn switches(options: &Options) -> [(String, String); 4] {
    let switches = [
        ("materialized_views_enabled", options.materialized_views_enabled),
        ("dynamic_data_masking_enabled", options.dynamic_data_masking_enabled),
        ("sasi_indexes_enabled", options.sasi_indexes_enabled),
        ("drop_compact_storage_enabled", options.drop_compact_storage_enabled),
    ];
    switches.map(|(name, is_on)| (name.to_owned(), is_on.to_string()))
}

/// Returns the settings of user-defined functions by cassandra.yaml's names.
fn function_settings(settings: &cassette_functions::Settings) -> [(String, String); 3] {
    let millis = |timeout: Duration| format!("{}ms", timeout.as_millis());
    [
        ("user_defined_functions_enabled".to_owned(), settings.enabled.to_string()),
        ("user_defined_functions_warn_timeout".to_owned(), millis(settings.warn_timeout)),
        ("user_defined_functions_fail_timeout".to_owned(), millis(settings.fail_timeout)),
    ]
}
