//! The configuration file: the keys of cassandra.yaml that have an effect here.

mod authentication;
mod cidr;
mod data_encryption;
mod encryption;
#[cfg(test)]
mod fuzz;
mod old_names;
mod query_logs;
mod timeouts;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use cassette_database::{GUARDRAILS, GuardrailKind, Guardrails, compaction_params};
use cassette_engine::commitlog::SyncMode;
use cassette_engine::{
    BackpressureOptions, CompactionOptions, DiskAccessMode, DiskFailurePolicy, FlushCompression,
    OverlappingTombstones, SourcesPolicy,
};
use cassette_rows::schema::CompactionParams;
use cassette_server::ServerConfig;
use cassette_server::query_logs::{AuditSettings, FullQuerySettings};
use cassette_server::tls::Tls;
use cassette_vfs::FileAccess;
use serde::Deserialize;

use crate::address::listen_address;
pub use cassette_tools::units::duration;
use cassette_tools::units::{bytes, bytes_per_second};
pub(crate) use encryption::options_of as encryption_options;

/// Keys of cassandra.yaml without a use here, one per line: accepted with a warning, so that a file
/// for Cassandra can be used unchanged. Those whose protection would be missing are in
/// [`REQUIRED_VALUES`].
const WITHOUT_EFFECT: &str = include_str!("without_effect.txt");

/// Keys without effect, with the only values that match the behaviour of this database. A user who
/// sets another value relies on it.
const REQUIRED_VALUES: &[(&str, &[&str])] = &[
    ("role_manager", &["CassandraRoleManager"]),
    ("partitioner", &["Murmur3Partitioner"]),
    ("cdc_enabled", &["false"]),
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
    transparent_data_encryption_options: Option<data_encryption::DataEncryptionOptions>,
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
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let config = Self::parse(&text).with_context(|| path.display().to_string())?;
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
            bail!("unknown key {unknown}; keys are those of Cassandra 5.0's cassandra.yaml");
        }
        for (key, kept) in REQUIRED_VALUES {
            let Some(value) = config.others.get(*key).and_then(chosen) else { continue };
            if !kept.contains(&value.rsplit('.').next().unwrap_or_default()) {
                bail!("{key}: {value} is not supported: expected {}", kept.join(", "));
            }
        }
        Ok(config)
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
    fn slow_query_log_timeout(&self) -> anyhow::Result<Option<Duration>> {
        let Some(text) = &self.slow_query_log_timeout else { return Ok(Some(SLOW_QUERY_LOG_TIMEOUT)) };
        let timeout = duration(text).context("slow_query_log_timeout")?;
        // As in Cassandra, 0 disables it.
        Ok((!timeout.is_zero()).then_some(timeout))
    }

    /// Returns the settings of the audit log, and whether it is enabled at the start.
    pub fn audit_log(&self, data: &Path) -> anyhow::Result<(AuditSettings, bool)> {
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
        options.timeouts = self.timeouts.timeouts()?;
        options.slow_query_log_timeout = self.slow_query_log_timeout()?;
        options.guardrails.clone_from(&self.guardrails);
        options.auth = self.auth.settings()?;
        options.settings.extend(self.auth.shown()?);
        options.materialized_views_enabled = self.materialized_views_enabled.unwrap_or(false);
        options.dynamic_data_masking_enabled = self.dynamic_data_masking_enabled.unwrap_or(false);
        if let Some(default) = &self.default_compaction {
            options.default_compaction = default.compaction()?;
        }
        self.read_engine(&mut options.engine)?;
        Ok(options)
    }

    fn read_engine(&self, engine: &mut cassette_engine::Options) -> anyhow::Result<()> {
        engine.commitlog_sync = self.sync_mode()?.unwrap_or(engine.commitlog_sync);
        engine.commitlog_encryption =
            data_encryption::commit_log(self.transparent_data_encryption_options.as_ref())?;
        set(&mut engine.commitlog_segment_size, &self.commitlog_segment_size, "commitlog_segment_size")?;
        set(&mut engine.commitlog_total_space, &self.commitlog_total_space, "commitlog_total_space")?;
        set(&mut engine.memtable_heap_space, &self.memtable_heap_space, "memtable_heap_space")?;
        set(&mut engine.file_cache_size, &self.file_cache_size, "file_cache_size")?;
        set(&mut engine.column_index_size, &self.column_index_size, "column_index_size")?;
        set(&mut engine.key_cache_size, &self.key_cache_size, "key_cache_size")?;
        set(&mut engine.row_cache_size, &self.row_cache_size, "row_cache_size")?;
        set(&mut engine.counter_cache_size, &self.counter_cache_size, "counter_cache_size")?;
        self.read_saved_caches(engine)?;
        engine.memtable_cleanup_threshold = self.memtable_cleanup_threshold;
        engine.memtable_flush_writers = self.memtable_flush_writers.unwrap_or(engine.memtable_flush_writers);
        engine.concurrent_compactors = self.concurrent_compactors.unwrap_or(engine.concurrent_compactors);
        if let Some(rate) = &self.compaction_throughput {
            engine.compaction_throughput = bytes_per_second(rate).context("compaction_throughput")?;
        }
        self.read_overlapping_tombstones(engine)?;
        self.read_backpressure(&mut engine.backpressure)?;
        if let Some(compression) = &self.flush_compression {
            engine.flush_compression = match compression.as_str() {
                "none" => FlushCompression::None,
                "fast" => FlushCompression::Fast,
                "table" => FlushCompression::Table,
                other => bail!("flush_compression: {other} is none of none, fast, table"),
            };
        }
        if let Some(mode) = &self.disk_access_mode {
            let Some(known) = DiskAccessMode::of_name(mode) else {
                bail!("disk_access_mode: {mode} is none of auto, standard, mmap_index_only, mmap");
            };
            engine.disk_access_mode = known;
        }
        if let Some(policy) = &self.disk_failure_policy {
            engine.disk_failure_policy = match policy.as_str() {
                "best_effort" => DiskFailurePolicy::BestEffort,
                "stop" | "stop_paranoid" | "die" => DiskFailurePolicy::Stop,
                "ignore" => DiskFailurePolicy::Ignore,
                other => {
                    bail!(
                        "disk_failure_policy: {other} is none of best_effort, stop, stop_paranoid, die, ignore"
                    )
                }
            };
        }
        engine.auto_snapshot = self.auto_snapshot.unwrap_or(engine.auto_snapshot);
        if let Some(ttl) = &self.auto_snapshot_ttl {
            let seconds = duration(ttl).context("auto_snapshot_ttl")?.as_secs();
            engine.auto_snapshot_ttl_seconds =
                Some(u32::try_from(seconds).context("auto_snapshot_ttl: more than an int of seconds")?);
        }
        Ok(())
    }

    fn read_backpressure(&self, pressure: &mut BackpressureOptions) -> anyhow::Result<()> {
        pressure.slowdown_sstables =
            self.compaction_backpressure_slowdown_sstables.unwrap_or(pressure.slowdown_sstables);
        pressure.stop_sstables = self.compaction_backpressure_stop_sstables.unwrap_or(pressure.stop_sstables);
        // A file may lower the second alone.
        let (slowdown, stop) = (pressure.slowdown_sstables, pressure.stop_sstables);
        if self.compaction_backpressure_slowdown_sstables.is_some() && stop > 0 && slowdown > stop {
            bail!(
                "compaction_backpressure_slowdown_sstables of {slowdown} is above \
                 compaction_backpressure_stop_sstables of {stop}: writes slow down before they stop"
            );
        }
        if let Some(timeout) = &self.compaction_backpressure_stop_timeout {
            pressure.stop_timeout = duration(timeout).context("compaction_backpressure_stop_timeout")?;
        }
        Ok(())
    }

    fn read_saved_caches(&self, engine: &mut cassette_engine::Options) -> anyhow::Result<()> {
        engine.key_cache_migrate_during_compaction =
            self.key_cache_migrate_during_compaction.unwrap_or(engine.key_cache_migrate_during_compaction);
        let saved = &mut engine.saved_caches;
        saved.directory.clone_from(&self.saved_caches_directory);
        let caches = [
            (
                &mut saved.key,
                &self.key_cache_save_period,
                "key_cache_save_period",
                self.key_cache_keys_to_save,
            ),
            (
                &mut saved.row,
                &self.row_cache_save_period,
                "row_cache_save_period",
                self.row_cache_keys_to_save,
            ),
            (
                &mut saved.counter,
                &self.counter_cache_save_period,
                "counter_cache_save_period",
                self.counter_cache_keys_to_save,
            ),
        ];
        for (saving, period, name, keys_to_save) in caches {
            if let Some(period) = period {
                saving.period = duration(period).context(name)?;
            }
            // As in Cassandra, 0 means all.
            saving.keys_to_save = keys_to_save.filter(|keys| *keys > 0).unwrap_or(saving.keys_to_save);
        }
        if let Some(timeout) = &self.cache_load_timeout {
            saved.load_timeout = duration(timeout).context("cache_load_timeout")?;
        }
        Ok(())
    }

    fn read_overlapping_tombstones(&self, engine: &mut cassette_engine::Options) -> anyhow::Result<()> {
        let overlapping = &mut engine.overlapping;
        if let Some(provide) = &self.provide_overlapping_tombstones {
            overlapping.provide = OverlappingTombstones::from_name(provide).with_context(|| {
                format!("provide_overlapping_tombstones: {provide} is none of none, row, cell")
            })?;
        }
        if let Some(policy) = &self.overlapping_tombstones_policy {
            overlapping.policy = SourcesPolicy::from_name(policy).with_context(|| {
                format!("overlapping_tombstones_policy: {policy} is none of newest, skip")
            })?;
        }
        overlapping.max_sources = self.overlapping_tombstones_max_sources.unwrap_or(overlapping.max_sources);
        overlapping.threshold = self.overlapping_tombstones_threshold.unwrap_or(overlapping.threshold);
        Ok(())
    }

    fn sync_mode(&self) -> anyhow::Result<Option<SyncMode>> {
        let time = |text: &Option<String>, name: &'static str, default: u64| match text {
            Some(text) => duration(text).context(name),
            None => Ok(Duration::from_millis(default)),
        };
        Ok(match self.commitlog_sync.as_deref() {
            None if self.commitlog_sync_period.is_none() => None,
            None | Some("periodic") => Some(SyncMode::Periodic {
                period: time(&self.commitlog_sync_period, "commitlog_sync_period", 10_000)?,
            }),
            Some("group") => Some(SyncMode::Group {
                window: time(&self.commitlog_sync_group_window, "commitlog_sync_group_window", 1_000)?,
            }),
            Some("batch") => Some(SyncMode::Batch),
            Some(other) => bail!("commitlog_sync: {other} is none of periodic, group, batch"),
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cassandra_yaml_is_taken_as_it_is() {
        let config = Config::parse(
            "cluster_name: 'Test'\nnum_tokens: 16\nseed_provider:\n  - class_name: x\n    parameters: [{seeds: a}]\n\
             commitlog_sync: batch\nmemtable_heap_space: 64MiB\nrpc_address: 127.0.0.2\nnative_transport_port: 9999\n\
             compaction_throughput: 16MiB/s\nprovide_overlapping_tombstones: row\n\
             overlapping_tombstones_max_sources: 10\noverlapping_tombstones_policy: skip\n\
             overlapping_tombstones_threshold: 0.3\n\
             compaction_backpressure_stop_sstables: 500\ncompaction_backpressure_stop_timeout: 3s\n\
             saved_caches_directory: /tmp/caches\nkey_cache_save_period: 4m\nkey_cache_keys_to_save: 100\n\
             row_cache_save_period: 0s\nrow_cache_keys_to_save: 0\ncounter_cache_size: 1MiB\n\
             counter_cache_save_period: 7200s\n\
             default_compaction:\n  class_name: org.apache.cassandra.db.compaction.UnifiedCompactionStrategy\n\
             \x20 parameters:\n    scaling_parameters: T4\n\
             cache_load_timeout: 9s\nkey_cache_migrate_during_compaction: false\n",
        )
        .unwrap();
        let options = config.database(Path::new("x")).unwrap();
        assert_eq!(options.engine.memtable_heap_space, 64 << 20);
        assert_eq!(options.engine.compaction_throughput, 16 << 20);
        assert_eq!(options.engine.overlapping.provide, OverlappingTombstones::Row);
        assert_eq!(options.engine.overlapping.max_sources, 10);
        assert!((options.engine.overlapping.threshold - 0.3).abs() < f64::EPSILON);
        assert_eq!(options.engine.backpressure.stop_sstables, 500);
        assert_eq!(options.engine.backpressure.stop_timeout, Duration::from_secs(3));
        assert!(matches!(options.engine.commitlog_sync, SyncMode::Batch));
        let saved = &options.engine.saved_caches;
        assert_eq!(saved.directory.as_deref(), Some(Path::new("/tmp/caches")));
        assert_eq!((saved.key.period, saved.key.keys_to_save), (Duration::from_secs(240), 100));
        assert_eq!((saved.row.period, saved.row.keys_to_save), (Duration::ZERO, usize::MAX));
        assert_eq!((saved.counter.period, saved.load_timeout.as_secs()), (Duration::from_secs(7200), 9));
        assert_eq!(options.engine.counter_cache_size, 1 << 20);
        assert!(!options.engine.key_cache_migrate_during_compaction);
        assert_eq!(options.default_compaction.class, "UnifiedCompactionStrategy");
        assert_eq!(options.default_compaction.options, [("scaling_parameters".into(), "T4".into())].into());
        assert_eq!(config.server().unwrap().listen_address, "127.0.0.2:9999".parse().unwrap());
    }

    #[test]
    fn what_would_not_be_kept_is_refused_and_what_does_not_matter_is_not() {
        for (text, expected) in [
            (
                "role_manager:\n  class_name: org.example.LdapRoleManager\n",
                "role_manager: org.example.LdapRoleManager is not supported",
            ),
            ("partitioner: org.apache.cassandra.dht.RandomPartitioner\n", "RandomPartitioner"),
            ("incremental_backups: true\n", "incremental_backups: true"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let file = "authenticator:\n  class_name: AllowAllAuthenticator\npartitioner: \
            org.apache.cassandra.dht.Murmur3Partitioner\n\
                    client_encryption_options:\n  enabled: false\ncdc_enabled: false\ntrickle_fsync: false\n\
                    trickle_fsync_interval: 10240KiB\nsstable_preemptive_open_interval: 50MiB\n\
                    commit_failure_policy: stop\n";
        assert_eq!(Config::parse(file).unwrap().others.len(), 6);
    }

    #[test]
    fn a_key_that_nobody_knows_is_an_error_that_names_it() {
        let error = Config::parse("memtable_heep_space: 1GiB\n").unwrap_err();
        assert!(error.to_string().contains("memtable_heep_space"), "{error}");
    }

    #[test]
    fn a_value_that_makes_no_sense_is_an_error_that_names_its_key() {
        let config = Config::parse("memtable_heap_space: plenty\n").unwrap();
        let error = format!("{:#}", config.database(Path::new("x")).err().unwrap());
        assert!(error.contains("memtable_heap_space") && error.contains("plenty"), "{error}");
    }

    #[test]
    fn settings_that_cannot_work_are_refused_by_name() {
        for (text, says) in [
            ("row_cache_size: -5\n", "row_cache_size: -5: expected a size"),
            ("row_cache_size: 5\n", "row_cache_size: 5: expected a size"),
            ("key_cache_save_period: -5s\n", "key_cache_save_period: -5s: expected a duration"),
            (
                "compaction_backpressure_slowdown_sstables: 300\n",
                "compaction_backpressure_slowdown_sstables of 300 is above \
                 compaction_backpressure_stop_sstables of 256",
            ),
            (
                "default_compaction:\n  class_name: NoStrategy\n",
                "default_compaction: Unable to find compaction strategy class \
                 'org.apache.cassandra.db.compaction.NoStrategy'",
            ),
            (
                "default_compaction:\n  class_name: LeveledCompactionStrategy\n  parameters:\n    fanout: 3\n",
                "default_compaction: Properties specified [fanout] are not understood by LeveledCompactionStrategy",
            ),
            ("native_transport_max_threads: 0\n", "native_transport_max_threads must be positive, but was 0"),
            ("native_transport_max_response_size: 2GiB\n", "expected 1MiB to 1GiB, found 2147483648 bytes"),
            ("native_transport_idle_timeout: 5\n", "native_transport_idle_timeout: 5"),
        ] {
            let config = Config::parse(text).unwrap();
            let error = config.database(Path::new("x")).err().or_else(|| config.server().err());
            let error = format!("{:#}", error.expect(text));
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn guardrails_of_the_file_reach_the_database() {
        let text = "tables_warn_threshold: 10\nallow_filtering_enabled: false\ncollection_size_warn_threshold: 1MiB\n\
                    collection_size_fail_threshold:\nread_consistency_levels_warned: [ANY, ALL]\n\
                    table_properties_disallowed: []\nbatch_size_warn_threshold_in_kb: 5\n";
        let options = Config::parse(text).unwrap().database(Path::new("x")).unwrap();
        let guardrail = |name: &str| options.guardrails.get(name).map(String::as_str);
        assert_eq!(guardrail("tables_warn_threshold"), Some("10"));
        assert_eq!(guardrail("allow_filtering_enabled"), Some("false"));
        assert_eq!(guardrail("collection_size_warn_threshold"), Some("1MiB"));
        assert_eq!(guardrail("collection_size_fail_threshold"), Some(""));
        assert_eq!(guardrail("read_consistency_levels_warned"), Some("ANY,ALL"));
        assert_eq!(guardrail("batch_size_warn_threshold"), Some("5KiB"));
        assert_eq!(guardrail("keyspaces_warn_threshold"), None);
    }

    #[test]
    fn every_guardrail_is_documented_and_has_an_effect() {
        let documentation = include_str!("../../../../docs/settings.md");
        for guardrail in GUARDRAILS {
            let name = guardrail.name;
            assert!(documentation.contains(&format!("`{name}`")), "{name} is not in docs/settings.md");
            assert!(!WITHOUT_EFFECT.lines().any(|key| key == name), "{name} is said to have no effect");
        }
    }

    #[test]
    fn configurations_in_the_documents_have_an_effect() {
        let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut blocks = 0;
        for document in std::fs::read_dir(documents).unwrap().map(|entry| entry.unwrap().path()) {
            if document.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = std::fs::read_to_string(&document).unwrap();
            for block in text.split("\n```yaml\n").skip(1) {
                let block = block.split("\n```\n").next().unwrap();
                let config = Config::parse(block).unwrap_or_else(|e| panic!("{}: {e:#}", document.display()));
                let ignored: Vec<&String> = config.others.keys().collect();
                assert!(ignored.is_empty(), "{}: {ignored:?} has no effect", document.display());
                if let Err(error) = config.database(Path::new("x")) {
                    // Files that an administrator creates.
                    let error = format!("{error:#}");
                    assert!(error.contains("cannot read /etc/cassette/"), "{}: {error}", document.display());
                }
                config.server().unwrap();
                blocks += 1;
            }
        }
        assert!(blocks > 0, "no document has a configuration");
    }

    #[test]
    fn guardrails_that_cassandra_refuses_are_refused() {
        for (text, says) in [
            ("tables_warn_threshold: 0\n", "Invalid value for tables_warn_threshold: 0 is not allowed"),
            (
                "tables_warn_threshold: 5\ntables_fail_threshold: 3\n",
                "The warn threshold 5 for tables_warn_threshold should be lower than the fail threshold 3",
            ),
            ("batch_size_warn_threshold: 5\n", "Invalid data storage: 5"),
            ("group_by_enabled: maybe\n", "Use 'true' or 'false' values"),
        ] {
            let error = format!("{:#}", Config::parse(text).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_file_of_comments_sets_nothing() {
        assert!(Config::parse("# nothing\n\n").unwrap().cluster_name.is_none());
    }
}
