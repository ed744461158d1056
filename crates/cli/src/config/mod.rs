//! The configuration file: the keys of cassandra.yaml that have an effect here.

mod authentication;
mod backups;
mod cidr;
pub mod commitlog_archiving;
mod data_encryption;
mod encryption;
mod engine;
#[cfg(test)]
mod fuzz;
mod old_names;
mod printed;
mod problems;
mod query_logs;
#[cfg(test)]
mod tests;
mod timeouts;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use cassette_database::{GUARDRAILS, GuardrailKind, Guardrails, compaction_params};
use cassette_engine::CompactionOptions;
use cassette_rows::schema::CompactionParams;
use cassette_server::ServerConfig;
use cassette_server::query_logs::{AuditSettings, FullQuerySettings};
use cassette_server::tls::Tls;
use cassette_vfs::FileAccess;
use serde::Deserialize;

use crate::address::listen_address;
pub use backups::BackupSettings;
use cassette_tools::units::bytes;
pub use cassette_tools::units::duration;
pub(crate) use encryption::options_of as encryption_options;
pub use printed::printed;

/// Keys of cassandra.yaml without a use here, one per line: accepted with a warning, so that a file
/// for Cassandra can be used unchanged. Those whose protection would be missing are in
/// [`REQUIRED_VALUES`].
const WITHOUT_EFFECT: &str = include_str!("without_effect.txt");

/// Keys without effect, with the only values that match the behaviour of this database. A user who
/// sets another value relies on it.
const REQUIRED_VALUES: &[(&str, &[&str])] = &[
    ("role_manager", &["CassandraRoleManager"]),
    ("partitioner", &["Murmur3Partitioner"]),
    ("incremental_backups", &["false"]),
    ("snapshot_before_compaction", &["false"]),
];

/// The valid range of limits on one response: less would reject single values, and a header
/// announces 2 GiB at most.
const RESPONSE_SIZES: std::ops::RangeInclusive<usize> = 1 << 20..=1 << 30;

/// The default of `slow_query_log_timeout`, as in Cassandra.
const SLOW_QUERY_LOG_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns what to do about a key without effect whose data would be missing.
fn hint(key: &str) -> &'static str {
    match key {
        "data_file_directories" => {
            ": --data is the data directory; `cassette adopt` makes one from directories of Cassandra"
        }
        _ => "",
    }
}

/// The address of the admin endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminAddress {
    /// Disabled.
    Off,
    At(SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl std::fmt::Display for AdminAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => formatter.write_str("off"),
            Self::At(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

impl std::str::FromStr for AdminAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("unix:")) {
            ("off", _) => Ok(Self::Off),
            (_, Some("")) => Err("expected unix:PATH, found no path".to_owned()),
            (_, Some(path)) => Ok(Self::Unix(path.into())),
            (text, None) => listen_address(text)
                .map(Self::At)
                .map_err(|error| format!("{text}: {error}, or unix:PATH, or off")),
        }
    }
}

/// A configuration file's content.
#[derive(Debug, Default, Deserialize)]
pub struct Config {
    cluster_name: Option<String>,
    rpc_address: Option<String>,
    /// Not in Cassandra, whose JMX port is set elsewhere: the address of the admin endpoint, or
    /// `off`.
    admin_listen: Option<String>,
    native_transport_port: Option<u16>,
    native_transport_max_frame_size: Option<String>,
    native_transport_max_concurrent_connections: Option<i64>,
    native_transport_max_concurrent_connections_per_ip: Option<i64>,
    native_transport_max_threads: Option<usize>,
    native_transport_max_auth_threads: Option<usize>,
    native_transport_max_request_data_in_flight: Option<String>,
    native_transport_max_request_data_in_flight_per_ip: Option<String>,
    native_transport_idle_timeout: Option<String>,
    /// Not in Cassandra, as the next two, which limit memory that Cassandra does not limit.
    native_transport_max_response_size: Option<String>,
    native_transport_max_response_data_in_flight: Option<String>,
    native_transport_max_response_data_in_flight_per_ip: Option<String>,
    audit_logging_options: Option<query_logs::AuditLogging>,
    full_query_logging_options: Option<query_logs::FullQueryLogging>,
    client_encryption_options: Option<encryption::EncryptionOptions>,
    /// Not in Cassandra, as the next one: what protects the admin endpoint.
    admin_encryption_options: Option<encryption::EncryptionOptions>,
    admin_tokens_file: Option<PathBuf>,
    /// Not in Cassandra: scheduled backups, and the archived commit log.
    backup_options: Option<BackupSettings>,
    transparent_data_encryption_options: Option<data_encryption::DataEncryptionOptions>,
    cdc_enabled: Option<bool>,
    cdc_raw_directory: Option<PathBuf>,
    cdc_total_space: Option<String>,
    cdc_block_writes: Option<bool>,
    cdc_free_space_check_interval: Option<String>,
    commitlog_sync: Option<String>,
    commitlog_sync_period: Option<String>,
    commitlog_sync_group_window: Option<String>,
    commitlog_segment_size: Option<String>,
    commitlog_total_space: Option<String>,
    memtable_heap_space: Option<String>,
    memtable_cleanup_threshold: Option<f64>,
    memtable_flush_writers: Option<usize>,
    file_cache_size: Option<String>,
    column_index_size: Option<String>,
    key_cache_size: Option<String>,
    row_cache_size: Option<String>,
    counter_cache_size: Option<String>,
    key_cache_migrate_during_compaction: Option<bool>,
    saved_caches_directory: Option<PathBuf>,
    key_cache_save_period: Option<String>,
    key_cache_keys_to_save: Option<usize>,
    row_cache_save_period: Option<String>,
    row_cache_keys_to_save: Option<usize>,
    counter_cache_save_period: Option<String>,
    counter_cache_keys_to_save: Option<usize>,
    cache_load_timeout: Option<String>,
    concurrent_compactors: Option<usize>,
    compaction_throughput: Option<String>,
    flush_compression: Option<String>,
    disk_access_mode: Option<String>,
    data_file_permissions: Option<String>,
    provide_overlapping_tombstones: Option<String>,
    overlapping_tombstones_max_sources: Option<usize>,
    overlapping_tombstones_policy: Option<String>,
    overlapping_tombstones_threshold: Option<f64>,
    compaction_backpressure_slowdown_sstables: Option<usize>,
    compaction_backpressure_stop_sstables: Option<usize>,
    compaction_backpressure_stop_timeout: Option<String>,
    default_compaction: Option<ClassWithParameters>,
    disk_failure_policy: Option<String>,
    prepared_statements_cache_size: Option<String>,
    slow_query_log_timeout: Option<String>,
    materialized_views_enabled: Option<bool>,
    dynamic_data_masking_enabled: Option<bool>,
    user_defined_functions_enabled: Option<bool>,
    user_defined_functions_warn_timeout: Option<String>,
    user_defined_functions_fail_timeout: Option<String>,
    enforce_replica_counts: Option<bool>,
    drop_compact_storage_enabled: Option<bool>,
    sasi_indexes_enabled: Option<bool>,
    vector_graph_memory: Option<String>,
    auto_snapshot: Option<bool>,
    auto_snapshot_ttl: Option<String>,
    /// Keys of [`cassette_database::GUARDRAILS`] and their values, as text.
    #[serde(skip)]
    guardrails: BTreeMap<String, String>,
    #[serde(flatten)]
    timeouts: timeouts::TimeoutKeys,
    #[serde(flatten)]
    auth: authentication::AuthKeys,
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

/// A class and its parameters, in the notation of Cassandra's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassWithParameters {
    class_name: String,
    #[serde(default)]
    parameters: Option<BTreeMap<String, serde_json::Value>>,
}

impl Config {
    /// Reads a file, and warns of keys without effect.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::read_with(path, |text| Self::parse(text).map(drop).map_err(|error| format!("{error:#}")))
    }

    /// Reads the file of a server with data directory `data`, lets `adjust` override settings, and
    /// checks all of them.
    ///
    /// # Errors
    /// All mistakes, with their lines.
    pub fn read_checked(
        path: &Path,
        data: &Path,
        adjust: impl Fn(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let mut config = Self::read_with(path, |text| Self::check_text(text, data, &adjust))?;
        adjust(&mut config)?;
        Ok(config)
    }

    fn read_with(path: &Path, check: impl Fn(&str) -> Result<(), String>) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        // What the checks log is logged again when the settings are used.
        let silent = tracing::subscriber::NoSubscriber::new();
        let problems = tracing::subscriber::with_default(silent, || problems::find(&text, check));
        if !problems.is_empty() {
            bail!("{}", problems::describe(path, &problems));
        }
        let config = Self::parse(&text)?;
        for key in config.others.keys() {
            tracing::warn!("{}: {key} has no effect here{}", path.display(), hint(key));
        }
        for key in config.auth.without_effect() {
            tracing::warn!("{}: {key} has no effect here", path.display());
        }
        Ok(config)
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Self::default());
        }
        let mut config: Self = serde_saphyr::from_str(&old_names::modernized(text)?)?;
        config.take_guardrails()?;
        let is_known = |key: &String| WITHOUT_EFFECT.lines().any(|known| known == key);
        if let Some(unknown) = config.others.keys().find(|key| !is_known(key)) {
            let similar = problems::similar(unknown).map(|key| format!(" (did you mean {key}?)"));
            let similar = similar.unwrap_or_default();
            bail!("unknown key {unknown}{similar}; keys are those of Cassandra 5.0's cassandra.yaml");
        }
        for (key, kept) in REQUIRED_VALUES {
            let Some(value) = config.others.get(*key).and_then(chosen) else { continue };
            if !kept.contains(&value.rsplit('.').next().unwrap_or_default()) {
                bail!("{key}: {value} is not supported: expected {}", kept.join(", "));
            }
        }
        Ok(config)
    }

    /// Returns the first mistake of a text.
    fn check_text(
        text: &str,
        data: &Path,
        adjust: impl Fn(&mut Self) -> anyhow::Result<()>,
    ) -> Result<(), String> {
        let checked = Self::parse(text).and_then(|mut config| {
            adjust(&mut config)?;
            config.check(data)
        });
        checked.map_err(|error| format!("{error:#}"))
    }

    /// Checks all settings, as the start of a server with data directory `data` does.
    fn check(&self, data: &Path) -> anyhow::Result<()> {
        self.server()?;
        self.admin()?;
        self.file_access()?;
        self.database(data)?;
        self.backups()?;
        self.audit_log(Some(data))?;
        self.full_query_log()?;
        self.tls()?;
        self.admin_tls()?;
        Ok(())
    }

    /// Returns the keys that have a group of keys, and are set.
    fn groups(&self) -> Vec<&'static str> {
        [
            ("admin_encryption_options", self.admin_encryption_options.is_some()),
            ("audit_logging_options", self.audit_logging_options.is_some()),
            ("backup_options", self.backup_options.is_some()),
            ("client_encryption_options", self.client_encryption_options.is_some()),
            ("default_compaction", self.default_compaction.is_some()),
            ("full_query_logging_options", self.full_query_logging_options.is_some()),
            ("transparent_data_encryption_options", self.transparent_data_encryption_options.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, is_set)| is_set.then_some(key))
        .collect()
    }

    /// Moves the keys of guardrails from the others.
    fn take_guardrails(&mut self) -> anyhow::Result<()> {
        let is_guardrail = |key: &str| GUARDRAILS.iter().any(|guardrail| guardrail.name == key);
        let (guardrails, others): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.others).into_iter().partition(|(key, _)| is_guardrail(key));
        self.others = others;
        for (key, value) in guardrails {
            // Null disables a size or a duration; for anything else it selects the default.
            let has_null = GUARDRAILS.iter().any(|guardrail| {
                guardrail.name == key
                    && matches!(guardrail.kind, GuardrailKind::Size | GuardrailKind::Duration)
            });
            if value.is_null() && !has_null {
                continue;
            }
            let text = plain_text(&value).with_context(|| {
                format!("invalid {key}: expected a value or a list of names, found {value}")
            })?;
            self.guardrails.insert(key, text);
        }
        // Checked here, so that the message includes the name of the file.
        Guardrails::configured(&self.guardrails)
            .map_err(|why| anyhow::anyhow!("invalid guardrails: {why}"))?;
        Ok(())
    }

    /// Replaces the authenticator and the authorizer by those of the command line.
    pub fn choose_auth(&mut self, authenticator: Option<&str>, authorizer: Option<&str>) {
        self.auth.choose(authenticator, authorizer);
    }

    /// Chooses defaults for a data directory that is removed at the end: TRUNCATE and DROP create
    /// no snapshots.
    pub fn choose_temporary(&mut self) {
        self.auto_snapshot.get_or_insert(false);
    }

    /// Returns the permissions of new files.
    pub fn file_access(&self) -> anyhow::Result<FileAccess> {
        let access = self.data_file_permissions.as_deref().unwrap_or("owner");
        access.parse().map_err(|error| anyhow::anyhow!("data_file_permissions: {error}"))
    }

    /// Returns the address of the admin endpoint, if the file contains one.
    pub fn admin(&self) -> anyhow::Result<Option<AdminAddress>> {
        let address = self.admin_listen.as_deref().map(str::parse::<AdminAddress>);
        address.transpose().map_err(|reason| anyhow::anyhow!("admin_listen: {reason}"))
    }

    /// Returns the listener's settings.
    pub fn server(&self) -> anyhow::Result<ServerConfig> {
        let mut server = ServerConfig::default();
        let address = match self.rpc_address.as_deref() {
            None | Some("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(address) => {
                address.parse().with_context(|| format!("rpc_address: {address} is no IP address"))?
            }
        };
        server.listen_address =
            SocketAddr::new(address, self.native_transport_port.unwrap_or(server.listen_address.port()));
        set(
            &mut server.max_frame_size,
            &self.native_transport_max_frame_size,
            "native_transport_max_frame_size",
        )?;
        set(
            &mut server.max_request_data_in_flight,
            &self.native_transport_max_request_data_in_flight,
            "native_transport_max_request_data_in_flight",
        )?;
        set(
            &mut server.max_request_data_in_flight_per_ip,
            &self.native_transport_max_request_data_in_flight_per_ip,
            "native_transport_max_request_data_in_flight_per_ip",
        )?;
        set(
            &mut server.max_response_size,
            &self.native_transport_max_response_size,
            "native_transport_max_response_size",
        )?;
        if !RESPONSE_SIZES.contains(&server.max_response_size) {
            bail!(
                "native_transport_max_response_size: expected 1MiB to 1GiB, found {} bytes",
                server.max_response_size
            );
        }
        set(
            &mut server.max_response_data_in_flight,
            &self.native_transport_max_response_data_in_flight,
            "native_transport_max_response_data_in_flight",
        )?;
        set(
            &mut server.max_response_data_in_flight_per_ip,
            &self.native_transport_max_response_data_in_flight_per_ip,
            "native_transport_max_response_data_in_flight_per_ip",
        )?;
        if let Some(timeout) = &self.native_transport_idle_timeout {
            let timeout = duration(timeout).context("native_transport_idle_timeout")?;
            // As in Cassandra, 0 means none.
            server.idle_timeout = (!timeout.is_zero()).then_some(timeout);
        }
        // -1 means no limit.
        let limit = |n: Option<i64>| n.and_then(|n| usize::try_from(n).ok());
        server.max_concurrent_connections = limit(self.native_transport_max_concurrent_connections);
        server.max_concurrent_connections_per_ip =
            limit(self.native_transport_max_concurrent_connections_per_ip);
        server.max_threads = match self.native_transport_max_threads {
            Some(0) => bail!("native_transport_max_threads must be positive, but was 0"),
            threads => threads.unwrap_or(server.max_threads),
        };
        server.max_auth_threads = match self.native_transport_max_auth_threads {
            Some(0) => bail!("native_transport_max_auth_threads must be positive, but was 0"),
            threads => threads.unwrap_or(server.max_auth_threads),
        };
        Ok(server)
    }

    /// Reads the private key and the certificates for connections of clients. `None` if these are
    /// not encrypted.
    pub fn tls(&self) -> anyhow::Result<Option<Tls>> {
        let tls = encryption::tls("client_encryption_options", self.client_encryption_options.as_ref())?;
        self.auth.check_certificates(tls.as_ref())?;
        Ok(tls)
    }

    /// Does the same for the admin endpoint.
    pub fn admin_tls(&self) -> anyhow::Result<Option<Tls>> {
        encryption::tls("admin_encryption_options", self.admin_encryption_options.as_ref())
    }

    /// Returns the file with the tokens for the admin endpoint.
    pub fn admin_tokens_file(&self) -> Option<&Path> {
        self.admin_tokens_file.as_deref()
    }

    /// Returns the duration beyond which statements are logged; `None` for none.
    fn functions(&self) -> anyhow::Result<cassette_database::FunctionSettings> {
        let defaults = cassette_database::FunctionSettings::default();
        let timeout = |name: &'static str, text: &Option<String>, default| match text {
            Some(text) => duration(text).context(name),
            None => Ok(default),
        };
        let settings = cassette_database::FunctionSettings {
            enabled: self.user_defined_functions_enabled.unwrap_or(false),
            warn_timeout: timeout(
                "user_defined_functions_warn_timeout",
                &self.user_defined_functions_warn_timeout,
                defaults.warn_timeout,
            )?,
            fail_timeout: timeout(
                "user_defined_functions_fail_timeout",
                &self.user_defined_functions_fail_timeout,
                defaults.fail_timeout,
            )?,
            ..defaults
        };
        if settings.warn_timeout > settings.fail_timeout {
            bail!(
                "user_defined_functions_warn_timeout: expected at most user_defined_functions_fail_timeout ({}ms), \
                 found {}ms",
                settings.fail_timeout.as_millis(),
                settings.warn_timeout.as_millis()
            );
        }
        Ok(settings)
    }

    fn slow_query_log_timeout(&self) -> anyhow::Result<Option<Duration>> {
        let Some(text) = &self.slow_query_log_timeout else { return Ok(Some(SLOW_QUERY_LOG_TIMEOUT)) };
        let timeout = duration(text).context("slow_query_log_timeout")?;
        // As in Cassandra, 0 disables it.
        Ok((!timeout.is_zero()).then_some(timeout))
    }

    /// Returns the settings of the audit log, and whether it is enabled at the start.
    pub fn audit_log(&self, data: Option<&Path>) -> anyhow::Result<(AuditSettings, bool)> {
        query_logs::audit(self.audit_logging_options.as_ref(), data)
    }

    /// Returns the settings of the full query log.
    pub fn full_query_log(&self) -> anyhow::Result<FullQuerySettings> {
        query_logs::full_query(self.full_query_logging_options.as_ref())
    }

    /// Returns the database's settings, in directory `data`.
    pub fn database(&self, data: &Path) -> anyhow::Result<cassette_database::Options> {
        let mut options = cassette_database::Options::new(data);
        if let Some(name) = &self.cluster_name {
            options.node.cluster_name.clone_from(name);
        }
        set(
            &mut options.prepared_statements_cache_size,
            &self.prepared_statements_cache_size,
            "prepared_statements_cache_size",
        )?;
        set(&mut options.vector_graph_memory, &self.vector_graph_memory, "vector_graph_memory")?;
        options.timeouts = self.timeouts.timeouts()?;
        options.slow_query_log_timeout = self.slow_query_log_timeout()?;
        options.guardrails.clone_from(&self.guardrails);
        options.auth = self.auth.settings()?;
        options.settings.extend(self.auth.shown()?);
        options.materialized_views_enabled = self.materialized_views_enabled.unwrap_or(false);
        options.dynamic_data_masking_enabled = self.dynamic_data_masking_enabled.unwrap_or(false);
        options.functions = self.functions()?;
        options.enforce_replica_counts = self.enforce_replica_counts.unwrap_or(false);
        options.sasi_indexes_enabled = self.sasi_indexes_enabled.unwrap_or(false);
        options.drop_compact_storage_enabled = self.drop_compact_storage_enabled.unwrap_or(false);
        if let Some(default) = &self.default_compaction {
            options.default_compaction = default.compaction()?;
        }
        self.read_engine(&mut options.engine)?;
        Ok(options)
    }
}

impl ClassWithParameters {
    /// Returns the default `compaction` of tables.
    fn compaction(&self) -> anyhow::Result<CompactionParams> {
        let parameters = self.parameters.iter().flatten().map(|(name, value)| match value {
            serde_json::Value::String(text) => (name.clone(), text.clone()),
            other => (name.clone(), other.to_string()),
        });
        let options = parameters.chain([("class".to_owned(), self.class_name.clone())]).collect();
        let params =
            compaction_params(options).map_err(|why| anyhow::anyhow!("default_compaction: {why}"))?;
        CompactionOptions::parse(&params).map_err(|why| anyhow::anyhow!("default_compaction: {why}"))?;
        Ok(params)
    }
}

/// Returns the value of an option: itself, or the class or switch of a value with parameters.
fn chosen(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Bool(on) => Some(on.to_string()),
        serde_json::Value::Object(map) => {
            map.get("class_name").or_else(|| map.get("enabled")).and_then(chosen)
        }
        _ => None,
    }
}

/// Returns a value as one text; the items of a list separated by commas.
fn plain_text(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::Null => Some(String::new()),
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Bool(_) | serde_json::Value::Number(_) => Some(value.to_string()),
        serde_json::Value::Array(items) => {
            Some(items.iter().map(plain_text).collect::<Option<Vec<_>>>()?.join(","))
        }
        serde_json::Value::Object(_) => None,
    }
}

/// Applies a size of the file.
fn set<N: TryFrom<u64>>(to: &mut N, text: &Option<String>, name: &'static str) -> anyhow::Result<()> {
    let Some(text) = text else { return Ok(()) };
    *to = match N::try_from(bytes(text).context(name)?) {
        Ok(size) => size,
        Err(_) => bail!("{name}: {text} is too large"),
    };
    Ok(())
}
