//! A CQL server under test, Cassette or Apache Cassandra, over the native protocol.
//!
//! Client and server share the machine more often than not, so the client is made cheap: a few
//! connections, each with its own thread, which keeps many requests in flight. One turn of
//! [`pipeline`] takes whatever answers have come, puts a new request in the place of each, and
//! sends those in one go; there are no tasks to switch between and nothing is allocated for a
//! request.

mod connection;
mod executor;
mod metrics_endpoint;
mod pipeline;
mod replication;
mod requests;
mod security;
mod server_counters;
mod stream;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use cassette_protocol::{Consistency, ProtocolError, Version};
use cassette_tls::ClientTls;

use crate::LabError;
use crate::engine::statements;
use crate::results::EngineInfo;
use crate::run::{Action, Driven, Sampler, Target, Worker, drive_together};
use crate::workload::TableShape;
pub(crate) use crate::workload::spec::consistency as parse_consistency;
use crate::workload::stream::share_of;
use connection::{Connection, Text};
pub(crate) use executor::{Outcome, QueryExecutor};
pub use metrics_endpoint::MetricsEndpoint;
pub(crate) use replication::{CONSISTENCY, NODES, REPLICATION, STATEMENT_CONSISTENCY, TOKEN_AWARENESS};
use requests::Requests;
pub use security::ClientSecurity;

/// Settings of the client.
#[derive(Debug, Clone)]
pub struct CqlSettings {
    /// Addresses with ports; connections are distributed over them.
    pub contacts: Vec<String>,
    /// Maximum number of connections; never more than requests in flight.
    pub connections: usize,
    /// Version of the native protocol.
    pub version: Version,
    /// User name and password, if the server requires them.
    pub credentials: Option<(String, String)>,
    /// Encrypts connections. `None`: without TLS.
    pub tls: Option<ClientTls>,
    /// Keyspace; created if needed.
    pub keyspace: String,
    /// Replication factor of a created keyspace.
    pub replication_factor: usize,
    /// Options after `WITH` in CREATE TABLE; empty for the server's defaults.
    pub table_options: String,
    /// Consistency level of all reads and writes.
    pub consistency: Consistency,
}

impl CqlSettings {
    /// One connection with protocol v5, without a login and TLS, that uses no keyspace and the
    /// default consistency level.
    pub fn new(contacts: Vec<String>) -> Self {
        Self {
            contacts,
            connections: 1,
            version: Version::V5,
            credentials: None,
            tls: None,
            keyspace: String::new(),
            replication_factor: 1,
            table_options: String::new(),
            consistency: Consistency::default(),
        }
    }
}

/// Returns the version of the native protocol with this number.
pub(crate) fn protocol_version(number: u8) -> Result<Version, LabError> {
    Version::from_number(number)
        .ok_or_else(|| LabError::Usage(ProtocolError::UnsupportedVersion { version: number }.to_string()))
}

/// Returns the address with CQL's default port unless it has one.
pub fn with_port(contact: &str) -> String {
    with_default_port(contact, 9042)
}

/// Returns the address with this port unless it has one. IPv6 addresses with ports have brackets.
pub(crate) fn with_default_port(address: &str, default: u16) -> String {
    if let Ok(address) = address.parse::<Ipv6Addr>() {
        return format!("[{address}]:{default}");
    }
    match address.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            address.to_owned()
        }
        _ => format!("{address}:{default}"),
    }
}

/// Executes a statement on a server and returns its rows as text, as far as they are UTF-8.
pub(crate) fn query(
    contact: &str,
    settings: &CqlSettings,
    cql: &str,
) -> Result<Vec<Vec<Option<String>>>, LabError> {
    Connection::open(contact, settings)?.query(cql)
}

/// A server, driven by pipelines.
#[derive(Debug)]
pub struct CqlTarget {
    settings: CqlSettings,
    info: EngineInfo,
    shape: Option<TableShape>,
    pids: Vec<u32>,
    metrics: Option<MetricsEndpoint>,
    used: replication::Used,
}

impl CqlTarget {
    /// Executes a statement on the first contact and returns its rows as text, as far as they are
    /// UTF-8.
    pub fn query(&self, cql: &str) -> Result<Vec<Vec<Option<String>>>, LabError> {
        let contact = self.settings.contacts.first();
        let contact = contact.ok_or_else(|| LabError::Usage("no contact to connect to".to_owned()))?;
        query(contact, &self.settings, cql)
    }

    /// Connects to the first contact and reads its version and settings.
    pub fn new(settings: CqlSettings) -> Result<Self, LabError> {
        let Some(first) = settings.contacts.first() else {
            return Err(LabError::Usage("no contact to connect to".into()));
        };
        let identifier = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if settings.keyspace.is_empty() || !identifier(&settings.keyspace) {
            return Err(LabError::Usage(format!(
                "invalid keyspace {:?}: expected letters, digits and _",
                settings.keyspace
            )));
        }
        let mut connection = Connection::open(first, &settings)?;
        let info = describe_server(&mut connection, &settings)?;
        Ok(Self {
            settings,
            info,
            shape: None,
            pids: Vec::new(),
            metrics: None,
            used: replication::Used::default(),
        })
    }

    /// Sets the pids of the server on this machine.
    #[must_use]
    pub fn on_processes(mut self, pids: Vec<u32>) -> Self {
        self.pids = pids;
        self
    }

    /// Sets the endpoint of metrics besides those of its virtual tables.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Option<MetricsEndpoint>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Replaces the pids after a restart of the server.
    pub fn set_processes(&mut self, pids: Vec<u32>) {
        self.pids = pids;
    }

    fn open(&self, number: usize) -> Result<Connection, LabError> {
        let contacts = &self.settings.contacts;
        Connection::open(&contacts[number % contacts.len()], &self.settings)
    }
}

impl Target for CqlTarget {
    fn describe(&self) -> EngineInfo {
        self.info.clone()
    }

    fn create_table(&mut self, shape: &TableShape, replace: bool) -> Result<(), LabError> {
        let mut connection = self.open(0)?;
        if let Some(workload) = &shape.statements {
            let dropped = workload.drop.iter().filter(|_| replace);
            for statement in dropped.chain(&workload.create) {
                connection.query(statement)?;
            }
            return Ok(());
        }
        let CqlSettings { keyspace, replication_factor, table_options, .. } = &self.settings;
        connection.query(&statements::create_keyspace(keyspace, *replication_factor))?;
        if replace {
            connection.query(&statements::drop_table(keyspace, shape))?;
        }
        connection.query(&statements::create_table(keyspace, shape, table_options))?;
        Ok(())
    }

    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError> {
        self.used.add(&self.settings, shape);
        self.info.settings.extend(self.used.describe(&mut self.open(0)?));
        self.shape = Some(shape.clone());
        Ok(())
    }

    fn act(&mut self, action: &Action) -> Result<(), LabError> {
        match action {
            Action::Cql(statement) => self.open(0)?.query(statement).map(drop),
            _ => Err(LabError::Usage(format!("cannot {action} a server that `cassette lab` did not start"))),
        }
    }

    fn sampler(&self) -> Option<Sampler<'_>> {
        let mut connection = self.open(0).ok()?;
        Some(Box::new(move || {
            let mut counters = server_counters::sample(&mut connection);
            counters.extend(self.metrics.as_ref().map(MetricsEndpoint::sample).unwrap_or_default());
            counters
        }))
    }

    fn server_pids(&self) -> Vec<u32> {
        self.pids.clone()
    }

    fn worker_count(&self, in_flight: usize) -> usize {
        self.settings.connections.clamp(1, in_flight.max(1))
    }

    fn drive(&self, workers: Vec<Worker>, in_flight: usize) -> Result<Driven, LabError> {
        let shape = self.shape.as_ref().ok_or_else(|| LabError::Usage("no table was chosen".into()))?;
        let count = workers.len();
        let pipelines = workers
            .into_iter()
            .enumerate()
            .map(|(number, worker)| {
                let mut connection = self.open(number)?;
                let requests = Requests::prepare(&mut connection, &self.settings, shape)?;
                let slots = share_of(in_flight as u64, count, number) as usize;
                Ok((worker, pipeline::Pipeline::new(connection, requests, slots)))
            })
            .collect::<Result<Vec<_>, LabError>>()?;
        Ok(drive_together(pipelines, pipeline::Pipeline::work))
    }
}

/// Reads the server's version, and the settings that determine the cost of a write.
fn describe_server(connection: &mut Connection, settings: &CqlSettings) -> Result<EngineInfo, LabError> {
    let local = connection.query("SELECT release_version, partitioner FROM system.local")?;
    let cell = |column: usize| local.first().and_then(|row| row.get(column)?.clone());
    let mut reported = BTreeMap::from([
        ("contact".to_string(), settings.contacts.join(", ")),
        ("protocol".into(), settings.version.to_string()),
        ("connections".into(), settings.connections.to_string()),
        (replication::CONSISTENCY.into(), settings.consistency.to_string()),
        ("partitioner".into(), cell(1).unwrap_or_default()),
    ]);
    if !settings.table_options.is_empty() {
        reported.insert("table options".into(), settings.table_options.clone());
    }
    // Available in Cassandra since 4.0. A server without it is measured all the same.
    for row in connection.query("SELECT name, value FROM system_views.settings").unwrap_or_default() {
        if let [Some(name), Some(value)] = &row[..]
            && affects_cost(name)
        {
            reported.insert(name.clone(), value.clone());
        }
    }
    let version: Text = cell(0);
    Ok(EngineInfo { name: "cql".into(), version: version.unwrap_or_default(), settings: reported })
}

/// Returns whether a setting affects the cost of requests: those of caches, commit log, memtables,
/// compaction, concurrency and disk access, out of hundreds.
fn affects_cost(name: &str) -> bool {
    const PARTS: [&str; 11] = [
        "cache_size",
        "commitlog",
        "memtable",
        "compact",
        "concurrent_",
        "flush",
        "disk_access_mode",
        "num_tokens",
        "file_cache",
        "sstable",
        "trickle",
    ];
    // Cassandra also lists old names of settings, with underscores instead of the dots of nested
    // ones.
    PARTS.iter().any(|part| name.contains(part)) && !name.contains("_in_") && !name.contains("directory")
}
