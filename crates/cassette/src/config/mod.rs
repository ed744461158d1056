//! The configuration file: cassandra.yaml's keys, those that mean something here.

#[allow(dead_code, reason = "rates and durations come with the keys of the engine")]
mod units;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, bail};
use cassette_server::ServerConfig;
use serde::Deserialize;

use units::bytes;

/// Keys of cassandra.yaml that a database of one machine has no use for: accepted with a warning, so that a file made
/// for Cassandra can be given as it is.
const WITHOUT_EFFECT: &[&str] = &[
    "allocate_tokens_for_local_replication_factor",
    "auto_bootstrap",
    "auto_hints_cleanup_enabled",
    "auto_snapshot",
    "authenticator",
    "authorizer",
    "batchlog_replay_throttle",
    "broadcast_address",
    "broadcast_rpc_address",
    "cas_contention_timeout",
    "cdc_enabled",
    "cdc_raw_directory",
    "commitlog_directory",
    "commitlog_disk_access_mode",
    "concurrent_counter_writes",
    "concurrent_materialized_view_writes",
    "concurrent_reads",
    "concurrent_writes",
    "counter_cache_save_period",
    "counter_cache_size",
    "counter_write_request_timeout",
    "credentials_validity",
    "data_file_directories",
    "diagnostic_events_enabled",
    "dynamic_snitch_badness_threshold",
    "dynamic_snitch_reset_interval",
    "dynamic_snitch_update_interval",
    "endpoint_snitch",
    "hinted_handoff_enabled",
    "hinted_handoff_throttle",
    "hints_directory",
    "hints_flush_period",
    "incremental_backups",
    "initial_token",
    "inter_dc_tcp_nodelay",
    "internode_compression",
    "key_cache_save_period",
    "key_cache_size",
    "listen_address",
    "listen_interface",
    "max_hint_window",
    "max_hints_delivery_threads",
    "max_hints_file_size",
    "memtable_allocation_type",
    "network_authorizer",
    "num_tokens",
    "partitioner",
    "permissions_validity",
    "range_request_timeout",
    "read_request_timeout",
    "request_timeout",
    "role_manager",
    "roles_validity",
    "row_cache_save_period",
    "row_cache_size",
    "saved_caches_directory",
    "seed_provider",
    "server_encryption_options",
    "slow_query_log_timeout",
    "snapshot_before_compaction",
    "ssl_storage_port",
    "start_native_transport",
    "storage_compatibility_mode",
    "storage_port",
    "tombstone_failure_threshold",
    "tombstone_warn_threshold",
    "truncate_request_timeout",
    "user_defined_functions_enabled",
    "write_request_timeout",
];

/// A configuration file's content.
#[derive(Debug, Default, Deserialize)]
pub struct Config {
    cluster_name: Option<String>,
    rpc_address: Option<String>,
    native_transport_port: Option<u16>,
    native_transport_max_frame_size: Option<String>,
    native_transport_max_concurrent_connections: Option<i64>,
    native_transport_max_concurrent_connections_per_ip: Option<i64>,
    native_transport_max_threads: Option<usize>,
    native_transport_max_request_data_in_flight: Option<String>,
    native_transport_max_request_data_in_flight_per_ip: Option<String>,
    memtable_heap_space: Option<String>,
    #[serde(flatten)]
    others: BTreeMap<String, serde::de::IgnoredAny>,
}

impl Config {
    /// Reads a file, warning of keys without effect.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let config = Self::parse(&text).with_context(|| path.display().to_string())?;
        for key in config.others.keys() {
            tracing::warn!("{}: {key} has no effect here", path.display());
        }
        Ok(config)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Self::default());
        }
        let config: Self = serde_saphyr::from_str(text)?;
        if let Some(unknown) = config.others.keys().find(|key| !WITHOUT_EFFECT.contains(&key.as_str())) {
            bail!("unknown key {unknown}; keys are those of Cassandra 5.0's cassandra.yaml");
        }
        Ok(config)
    }

    /// The listener's settings.
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
        // -1 stands for any number.
        let limit = |n: Option<i64>| n.and_then(|n| usize::try_from(n).ok());
        server.max_concurrent_connections = limit(self.native_transport_max_concurrent_connections);
        server.max_concurrent_connections_per_ip =
            limit(self.native_transport_max_concurrent_connections_per_ip);
        server.max_threads = self.native_transport_max_threads.unwrap_or(server.max_threads);
        Ok(server)
    }

    /// The database's settings, in directory `data`.
    pub fn database(&self, data: &Path) -> anyhow::Result<cassette_database::Options> {
        let mut options = cassette_database::Options::new(data);
        if let Some(name) = &self.cluster_name {
            options.node.cluster_name.clone_from(name);
        }
        let engine = &mut options.engine;
        set(&mut engine.memtable_heap_space, &self.memtable_heap_space, "memtable_heap_space")?;
        Ok(options)
    }
}

/// Sets a size that the file gives.
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
             memtable_heap_space: 64MiB\nrpc_address: 127.0.0.2\nnative_transport_port: 9999\n",
        )
        .unwrap();
        let options = config.database(Path::new("x")).unwrap();
        assert_eq!(options.engine.memtable_heap_space, 64 << 20);
        assert_eq!(config.server().unwrap().listen_address, "127.0.0.2:9999".parse().unwrap());
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
    fn a_file_of_comments_sets_nothing() {
        assert!(Config::parse("# nothing\n\n").unwrap().cluster_name.is_none());
    }
}
