//! An agent's share of a phase.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cassette_tls::ClientTls;
use serde::{Deserialize, Serialize};

use crate::cql::{CqlSettings, CqlTarget, parse_consistency, protocol_version, with_port};
use crate::recording::LiveCounts;
use crate::run::{Control, Executed, PhasePlan, Rate, Target};
use crate::workload::{KeyBounds, KeySpace, StatementSpec, StreamFactory, TableShape};
use crate::ycsb::CoreWorkload;

/// The maximum number of agents, and of connections of one.
const PROCESSES_MAX: u64 = 1024;
/// The maximum number of requests in flight.
const IN_FLIGHT_MAX: usize = 1 << 20;
/// The maximum number of a key: sums and products of those below do not overflow.
const KEY_MAX: u64 = 1 << 52;
/// The maximum duration of a phase, in seconds: later times can be calculated with.
const SECONDS_MAX: f64 = 1e9;
/// The maximum number of contacts.
const CONTACTS_MAX: usize = 256;

/// How an agent connects to the servers. Contains no secret: agents have their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSpec {
    /// Addresses of the servers, as the agents reach them.
    pub contacts: Vec<String>,
    /// Maximum number of connections of each agent.
    pub connections: usize,
    /// Version of the native protocol.
    pub protocol: u8,
    /// Keyspace of record tables.
    pub keyspace: String,
    /// Consistency level of statements without one.
    pub consistency: String,
    /// Whether the driver logs in.
    pub login: bool,
    /// Whether the driver connects with TLS.
    pub tls: bool,
}

impl ClientSpec {
    /// Checks that an agent has what the servers require.
    fn check(&self, has_credentials: bool, has_tls: bool) -> Result<(), String> {
        let reason = if self.tls && !has_tls {
            "the server requires TLS: start the agent with --tls-ca"
        } else if self.login && !has_credentials {
            "the server requires a login: start the agent with --user and --password-file"
        } else if self.login && !self.tls && has_tls {
            // The driver chooses the server, which could be any.
            "the agent has --tls-ca, so it sends no password without TLS: set tls-ca for the engine"
        } else {
            return Ok(());
        };
        Err(reason.to_owned())
    }
}

/// The keys of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum KeyShare {
    /// A load: new keys from this number on, one for each operation.
    Load {
        /// The first key.
        first: u64,
    },
    /// A run: the existing keys, and new ones by turns.
    Run {
        /// Which keys exist.
        bounds: KeyBounds,
        /// Number of this agent.
        turn: u64,
        /// Number of agents.
        agents: u64,
    },
}

/// A share of a phase, complete: an agent needs no file of the driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Name of the phase.
    pub phase: String,
    /// How to connect.
    pub client: ClientSpec,
    /// The workload, by YCSB's property names.
    pub properties: BTreeMap<String, String>,
    /// Statements instead of the workload's operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statements: Option<StatementSpec>,
    /// The keys.
    pub keys: KeyShare,
    /// Seed of random choices, the same for all agents: workers differ by their number.
    pub seed: u64,
    /// Number of requests in flight.
    pub in_flight: usize,
    /// Number of workers of this agent.
    pub workers: usize,
    /// Number of its first worker among those of all agents.
    pub first_worker: usize,
    /// Number of the workers of all agents.
    pub all_workers: usize,
    /// Maximum number of operations of all agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// Maximum duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Operations of all agents per second in an open loop, at the start and at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<(f64, Option<f64>)>,
}

/// Credentials and certificates of an agent.
#[derive(Clone, Default)]
pub struct AgentLogin {
    /// User and password.
    pub credentials: Option<(String, String)>,
    /// Encrypts connections.
    pub tls: Option<ClientTls>,
}

/// Omits the password.
impl std::fmt::Debug for AgentLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentLogin").finish_non_exhaustive()
    }
}

/// A job whose server is known.
#[derive(Debug)]
pub(super) struct PreparedJob {
    target: CqlTarget,
    factory: StreamFactory,
    keys: KeySpace,
    plan: PhasePlan,
}

impl Job {
    /// Checks what does not depend on the server: counts within bounds, and consistent ones.
    pub fn check(&self) -> Result<(), String> {
        let Self { client, in_flight, workers, first_worker, all_workers, .. } = self;
        if !(1..=CONTACTS_MAX).contains(&client.contacts.len())
            || !(1..=PROCESSES_MAX as usize).contains(&client.connections)
            || !(1..=IN_FLIGHT_MAX).contains(in_flight)
            || !(1..=client.connections.min(*in_flight)).contains(workers)
            || *all_workers > IN_FLIGHT_MAX
            || first_worker.checked_add(*workers).is_none_or(|end| end > *all_workers)
        {
            return Err(format!(
                "a job of {in_flight} requests in flight, {workers} of {all_workers} workers from {first_worker} on, \
                 {} connections to {} contacts is out of bounds",
                client.connections,
                client.contacts.len()
            ));
        }
        let keys_fit = match self.keys {
            KeyShare::Load { first } => first <= KEY_MAX,
            KeyShare::Run { bounds, turn, agents } => {
                bounds.end <= bounds.next
                    && bounds.next <= KEY_MAX
                    && turn < agents
                    && agents <= PROCESSES_MAX
            }
        };
        if !keys_fit || self.operations.is_some_and(|operations| operations > KEY_MAX) {
            return Err(format!(
                "keys {:?} or operations {:?} are out of bounds",
                self.keys, self.operations
            ));
        }
        let (from, to) = self.rate.unzip();
        for value in [self.seconds, from, to.flatten()].into_iter().flatten() {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("a duration or rate of {value}: expected above 0"));
            }
        }
        if self.seconds.is_some_and(|seconds| seconds > SECONDS_MAX) {
            return Err(format!("a phase of {:?} s: expected at most {SECONDS_MAX} s", self.seconds));
        }
        Ok(())
    }

    /// Returns the workload, whose keys must be those of the job.
    fn core(&self) -> Result<CoreWorkload, String> {
        let mut core = CoreWorkload::default();
        for (name, value) in &self.properties {
            core.set(name, value).map_err(|error| error.to_string())?;
        }
        let counts = [core.record_count, core.operation_count, core.insert_start, core.insert_count()];
        if let Some(count) = counts.into_iter().find(|count| *count > KEY_MAX) {
            return Err(format!("a workload of {count} records or operations: expected at most {KEY_MAX}"));
        }
        match self.keys {
            // Choosing among keys that do not exist would not end.
            KeyShare::Run { bounds, .. } if bounds.end < core.record_count => Err(format!(
                "a workload of {} records, of which {} exist: load them first",
                core.record_count, bounds.end
            )),
            _ => Ok(core),
        }
    }

    /// Connects to the server and builds the workload.
    pub(super) fn prepare(&self, login: &AgentLogin) -> Result<PreparedJob, String> {
        self.check()?;
        let core = self.core()?;
        let statements = self.statements.as_ref().map(StatementSpec::build).transpose()?.map(Arc::new);
        let (keys, factory) = match self.keys {
            KeyShare::Load { first } => {
                let keys = KeySpace::starting_at(first);
                (keys.clone(), StreamFactory::load(&core, keys, self.seed))
            }
            KeyShare::Run { bounds, turn, agents } => {
                let keys = KeySpace::interleaved(bounds, turn, agents);
                (keys.clone(), StreamFactory::run(&core, keys, self.seed))
            }
        };
        let factory = factory.and_then(|factory| match &statements {
            Some(statements) => factory.with_statements(Arc::clone(statements)),
            None => Ok(factory),
        });
        let factory = factory.map_err(|error| error.to_string())?;
        let mut target = CqlTarget::new(self.settings(login)?).map_err(|error| error.to_string())?;
        let shape = TableShape { table: core.table.clone(), field_names: core.field_names(), statements };
        target.use_table(&shape).map_err(|error| error.to_string())?;
        let time = self.seconds.map(Duration::try_from_secs_f64).transpose();
        let plan = PhasePlan {
            name: self.phase.clone(),
            repeat: 1,
            in_flight: self.in_flight,
            operations: self.operations,
            time: time.map_err(|error| error.to_string())?,
            rate: self.rate.map(|(from, to)| Rate { from, to }),
            spin: false,
            server_pids: Vec::new(),
            remote_servers: Vec::new(),
            series: false,
        };
        Ok(PreparedJob { target, factory, keys, plan })
    }

    /// Returns the settings of the client.
    fn settings(&self, login: &AgentLogin) -> Result<CqlSettings, String> {
        let ClientSpec { contacts, connections, protocol, keyspace, consistency, login: logs_in, tls } =
            &self.client;
        self.client.check(login.credentials.is_some(), login.tls.is_some())?;
        Ok(CqlSettings {
            contacts: contacts.iter().map(|contact| with_port(contact)).collect(),
            connections: *connections,
            version: protocol_version(*protocol).map_err(|error| error.to_string())?,
            credentials: login.credentials.clone().filter(|_| *logs_in),
            tls: login.tls.clone().filter(|_| *tls),
            keyspace: keyspace.clone(),
            // The driver creates keyspaces and tables.
            replication_factor: 1,
            table_options: String::new(),
            consistency: parse_consistency(consistency)?,
        })
    }
}

impl PreparedJob {
    /// Executes the operations. Returns their records, and the number of new keys.
    pub(super) fn run(
        self,
        job: &Job,
        control: &Arc<Control>,
        live: &[Arc<LiveCounts>],
    ) -> Result<(Executed, u64), String> {
        let range = (job.first_worker, job.all_workers);
        let workers = self.plan.workers(&self.factory, control, live, range);
        let driven = self.target.drive(workers, job.in_flight).map_err(|error| error.to_string())?;
        Ok((driven.into(), self.keys.assigned()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a valid job.
    pub fn job() -> Job {
        let contacts = vec!["127.0.0.1".into()];
        let (keyspace, consistency) = ("ycsb".into(), "ONE".into());
        Job {
            phase: "run a".into(),
            client: ClientSpec {
                contacts,
                connections: 2,
                protocol: 5,
                keyspace,
                consistency,
                login: false,
                tls: false,
            },
            properties: BTreeMap::from([("recordcount".into(), "100".into())]),
            statements: None,
            keys: KeyShare::Run { bounds: KeyBounds::dense(100), turn: 0, agents: 2 },
            seed: 1,
            in_flight: 8,
            workers: 2,
            first_worker: 0,
            all_workers: 4,
            operations: Some(1000),
            seconds: Some(1.0),
            rate: Some((100.0, None)),
        }
    }

    #[test]
    fn jobs_out_of_bounds_are_refused() {
        assert_eq!(job().check(), Ok(()));
        let bounds = KeyBounds { end: 101, next: 100 };
        let changes: [fn(&mut Job); 12] = [
            |job| job.client.contacts.clear(),
            |job| job.client.connections = usize::MAX,
            |job| job.in_flight = usize::MAX,
            |job| job.workers = 3,
            |job| job.first_worker = usize::MAX,
            |job| job.all_workers = 1,
            |job| job.operations = Some(u64::MAX),
            |job| job.seconds = Some(1e19),
            |job| job.rate = Some((0.0, None)),
            |job| job.rate = Some((1.0, Some(-1.0))),
            |job| job.keys = KeyShare::Load { first: u64::MAX },
            |job| job.keys = KeyShare::Run { bounds: KeyBounds::dense(1), turn: 2, agents: 2 },
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut job = job();
            change(&mut job);
            assert!(job.check().is_err(), "change {index}");
        }
        assert!(Job { keys: KeyShare::Run { bounds, turn: 0, agents: 2 }, ..job() }.check().is_err());
    }

    #[test]
    fn workloads_with_too_many_or_missing_records_are_refused() {
        let core = |name: &str, value: &str| {
            let mut job = job();
            job.properties.insert(name.into(), value.into());
            job.core().map(|core| core.record_count)
        };
        assert_eq!(core("fieldcount", "3"), Ok(100));
        assert!(core("recordcount", "101").unwrap_err().contains("of which 100 exist"));
        for name in ["recordcount", "operationcount", "insertstart", "insertcount"] {
            assert!(core(name, "18446744073709551615").unwrap_err().contains("expected at most"), "{name}");
        }
        assert!(core("recordcounts", "1").is_err());
    }

    #[test]
    fn an_agent_sends_its_password_without_tls_only_if_it_has_no_tls() {
        let check = |login, tls, has_credentials, has_tls| {
            let client = ClientSpec { login, tls, ..job().client };
            client.check(has_credentials, has_tls)
        };
        assert!(check(false, true, true, false).unwrap_err().contains("--tls-ca"));
        assert!(check(true, true, false, true).unwrap_err().contains("--user"));
        assert!(check(true, false, true, true).unwrap_err().contains("no password without TLS"));
        for accepted in
            [check(true, false, true, false), check(true, true, true, true), check(false, false, true, true)]
        {
            assert_eq!(accepted, Ok(()));
        }
    }
}
