//! Creates engines from their descriptions in a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cassette_protocol::Consistency;
use cassette_transactions::store::ClusterOptions;

use super::plan::Setup;
use crate::LabError;
use crate::agents::ClientSpec;
use crate::cassandra::{CassandraTarget, ClusterSettings};
use crate::cql::{CqlSettings, CqlTarget, MetricsEndpoint, protocol_version, with_port};
use crate::engine::cells::{Cells, KEYSPACE};
use crate::engine::embedded::{Embedded, EmbeddedSettings};
use crate::engine::noop::Noop;
use crate::engine::{EngineKind, Threads};
use crate::run::Target;
use crate::served::{ServedTarget, ServerSettings};

/// Version of the native protocol by default.
const PROTOCOL: u8 = 5;

/// Options of Cassette's server about its clients.
const OF_SERVERS: [&str; 3] = ["authenticator", "authorizer", "client_encryption_options"];

/// Checks whether a setup can be created, without creating it: the engine is built in, and its
/// options exist.
pub fn check(setup: &Setup) -> Result<(), String> {
    let options = texts(setup);
    let none = |why: &str| match options.keys().next() {
        Some(name) => Err(format!("{name} cannot be set: {why}")),
        None => Ok(()),
    };
    match kind(setup)? {
        EngineKind::Embedded => Embedded::check_options(&options),
        // A server accepts the same options in its configuration file, and checks those that only
        // servers have when it starts.
        EngineKind::Served => {
            let mut options = options;
            options.retain(|name, _| !OF_SERVERS.contains(&name.as_str()));
            Embedded::check_options(&options)
        }
        EngineKind::Noop => none("engine noop has no options"),
        EngineKind::Cql => none("a running server is configured where it was started"),
        EngineKind::Cassandra => Ok(()),
        EngineKind::Cells => Cells::check_options(&options),
        EngineKind::Leveldb => check_leveldb(&options),
        EngineKind::Rocksdb => check_rocksdb(&options),
        EngineKind::Fjall => check_fjall(&options),
    }
}

/// Returns whether it executes CQL.
pub fn speaks_cql(setup: &Setup) -> bool {
    matches!(
        kind(setup),
        Ok(EngineKind::Embedded | EngineKind::Cql | EngineKind::Served | EngineKind::Cassandra)
    )
}

/// Creates the engine of a setup, with its files in the empty directory `data`.
pub fn make(setup: &Setup, data: &Path) -> Result<Box<dyn Target>, LabError> {
    let options = texts(setup);
    match kind(setup).map_err(LabError::Usage)? {
        EngineKind::Embedded => {
            let settings = EmbeddedSettings {
                data: data.join("embedded"),
                options,
                table_options: setup.table.clone(),
                ..EmbeddedSettings::default()
            };
            Ok(Box::new(Threads(Embedded::open(settings)?)))
        }
        EngineKind::Noop => Ok(Box::new(Threads(Noop))),
        EngineKind::Cql => {
            let target = CqlTarget::new(cql_settings(setup, setup.engine.contact.clone())?)?;
            let metrics = setup.engine.metrics.as_deref().map(|address| metrics(setup, address));
            let target = target.with_metrics(metrics.transpose()?);
            Ok(Box::new(target.on_processes(setup.engine.server_pid.into_iter().collect())))
        }
        EngineKind::Served => {
            let server = ServerSettings {
                program: setup.engine.program.as_ref().map(PathBuf::from),
                data: data.join("served"),
                options,
            };
            let token = setup.engine.metrics_token_file.clone();
            Ok(Box::new(ServedTarget::start(server, cql_settings(setup, Vec::new())?, token)?))
        }
        EngineKind::Cassandra => {
            let engine = &setup.engine;
            let defaults = ClusterSettings::default();
            let cluster = ClusterSettings {
                version: engine.version.clone().unwrap_or(defaults.version.clone()),
                nodes: engine.nodes.unwrap_or(1),
                heap: engine.heap.clone().unwrap_or(defaults.heap.clone()),
                directory: data.join("cassandra"),
                yaml: options,
                ..defaults
            };
            let settings = cql_settings(setup, Vec::new())?;
            Ok(Box::new(CassandraTarget::start(cluster, settings)?))
        }
        EngineKind::Cells => {
            let contact = setup.engine.contact.first().cloned();
            let server = contact.map(|contact| {
                Ok::<_, LabError>(ClusterOptions {
                    credentials: setup.engine.security().credentials()?,
                    tls: setup.engine.security().tls()?,
                    ..ClusterOptions::new(with_port(&contact), KEYSPACE)
                })
            });
            Ok(Box::new(Threads(Cells::open(&options, server.transpose()?, &data.join("cells"))?)))
        }
        EngineKind::Leveldb => make_leveldb(data, options),
        EngineKind::Rocksdb => make_rocksdb(data, options),
        EngineKind::Fjall => make_fjall(data, options),
    }
}

/// Returns how agents connect to the servers of a setup.
pub(super) fn agent_client(setup: &Setup) -> Result<ClientSpec, LabError> {
    let settings = cql_settings(setup, setup.engine.contact.clone())?;
    Ok(ClientSpec {
        contacts: settings.contacts,
        connections: settings.connections,
        protocol: setup.engine.protocol.unwrap_or(PROTOCOL),
        keyspace: settings.keyspace,
        consistency: settings.consistency.to_string(),
        login: settings.credentials.is_some(),
        tls: settings.tls.is_some(),
    })
}

fn kind(setup: &Setup) -> Result<EngineKind, String> {
    setup.engine.kind().ok_or_else(|| format!("unknown kind of engine {:?}", setup.engine.kind.get_ref()))
}

fn texts(setup: &Setup) -> BTreeMap<String, String> {
    setup.options.iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
}

fn cql_settings(setup: &Setup, contacts: Vec<String>) -> Result<CqlSettings, LabError> {
    let engine = &setup.engine;
    let consistency = match &engine.consistency {
        Some(level) => super::file::consistency(level).map_err(|(_, message)| LabError::Usage(message))?,
        None => Consistency::Quorum,
    };
    Ok(CqlSettings {
        contacts: contacts.iter().map(|contact| with_port(contact)).collect(),
        connections: engine.connections.unwrap_or(2),
        version: protocol_version(engine.protocol.unwrap_or(PROTOCOL))?,
        credentials: engine.security().credentials()?,
        tls: engine.security().tls()?,
        keyspace: "ycsb".into(),
        replication_factor: engine.replication_factor.unwrap_or(1),
        table_options: setup.table.clone(),
        consistency,
    })
}

/// Returns the endpoint of metrics of a server that `cassette lab` did not start.
fn metrics(setup: &Setup, address: &str) -> Result<MetricsEndpoint, LabError> {
    let engine = &setup.engine;
    let mut endpoint = MetricsEndpoint::new(address);
    if let (true, Some(tls)) = (address.starts_with("https://"), engine.security().tls()?) {
        endpoint = endpoint.with_tls(tls);
    }
    endpoint.with_access(engine.metrics_token_file.as_deref(), engine.security().credentials()?)
}

/// Declares the functions of an engine behind a feature: with it, and without.
macro_rules! peer {
    ($feature:literal, $store:ident, $module:ident, $check:ident, $make:ident) => {
        #[cfg(feature = $feature)]
        fn $check(options: &BTreeMap<String, String>) -> Result<(), String> {
            use crate::engine::key_value::KeyValueStore;
            crate::engine::$module::$store::check_options(options)
        }

        #[cfg(feature = $feature)]
        fn $make(data: &Path, options: BTreeMap<String, String>) -> Result<Box<dyn Target>, LabError> {
            use crate::engine::key_value::{KeyValueEngine, StoreSettings};
            let settings = StoreSettings { options, ..StoreSettings::default() };
            Ok(Box::new(Threads(KeyValueEngine::<crate::engine::$module::$store>::new(data, settings))))
        }

        #[cfg(not(feature = $feature))]
        fn $check(_: &BTreeMap<String, String>) -> Result<(), String> {
            Err(concat!(
                "this was built without ",
                $feature,
                "; build it with `--features ",
                $feature,
                "` to measure that"
            )
            .into())
        }

        #[cfg(not(feature = $feature))]
        fn $make(_: &Path, options: BTreeMap<String, String>) -> Result<Box<dyn Target>, LabError> {
            Err(LabError::Usage($check(&options).err().unwrap_or_default()))
        }
    };
}

peer!("leveldb", LevelDb, leveldb, check_leveldb, make_leveldb);
peer!("rocksdb", RocksDb, rocksdb, check_rocksdb, make_rocksdb);
peer!("fjall", Fjall, fjall, check_fjall, make_fjall);
