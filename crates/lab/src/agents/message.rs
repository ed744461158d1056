//! Messages between driver and agents.

use cassette_tls::secret::{Token, is_equal};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::job::Job;
use crate::format::printable;
use crate::recording::{LiveProgress, RecordParts};
use crate::results::{Disturbance, Machine, ProcessReport, ProcessUse};

/// The maximum length of a message before the peer has proved that it has the token.
pub(super) const GREETING_LENGTH_MAX: usize = 4 << 10;
/// The maximum length of a message to an agent: a job with all statements of its workload.
pub(super) const JOB_LENGTH_MAX: usize = 4 << 20;
/// The maximum length of a message to the driver: all histograms of a phase.
pub(super) const RECORDS_LENGTH_MAX: usize = 128 << 20;
/// Why an agent beside a server executes no job.
pub(super) const OBSERVES_ONLY: &str =
    "it observes a process and executes no operations: start one without --observe";
/// The maximum length of a reason as it is shown.
const REASON_LENGTH_MAX: usize = 500;

/// A message to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToAgent {
    /// Answers the greeting.
    Hello {
        /// Version of the messages.
        protocol: u32,
        /// Version of Cassette.
        version: String,
        /// Random text that the agent's proof must contain.
        challenge: String,
        /// Proof that the driver has the token.
        proof: String,
    },
    /// Requests the time of the agent's clock.
    Clock,
    /// Requests what the observed process has used.
    Observe,
    /// Gives the agent its share of a phase.
    Job(Box<Job>),
    /// Starts the workers, once they are ready.
    Start {
        /// The start, in microseconds of the agent's clock.
        at_us: i64,
    },
    /// Ends the phase early.
    Stop {
        /// Why.
        reason: String,
    },
}

/// A message to the driver.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromAgent {
    /// The first message.
    Greeting {
        /// Version of the messages.
        protocol: u32,
        /// Version of Cassette.
        version: String,
        /// Random text that the driver's proof must contain.
        challenge: String,
    },
    /// Accepts the driver.
    Welcome {
        /// Proof that the agent has the token.
        proof: String,
        /// Description of the agent.
        info: Box<AgentInfo>,
    },
    /// Refuses the driver, and closes the connection.
    Refused {
        /// Why.
        reason: String,
    },
    /// The agent's time.
    Clock {
        /// Microseconds since the Unix epoch.
        now_us: i64,
    },
    /// What the observed process has used since its start.
    Observed {
        /// Its usage.
        usage: ProcessUse,
    },
    /// The workers are connected, have prepared their statements, and wait for the start.
    Ready,
    /// What the workers counted since the previous message; also shows that the agent is alive.
    Progress(LiveProgress),
    /// The phase is over.
    Finished(Box<Finished>),
    /// The job could not be executed.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Description of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentInfo {
    /// Name of its machine.
    pub name: String,
    /// The machine.
    pub machine: Machine,
    /// What used the machine when the driver connected; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Disturbance>,
    /// The process that it observes, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observes: Option<u32>,
}

/// Results of an agent's share of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finished {
    /// Records of all its workers.
    pub records: RecordParts,
    /// Time from the start until its last worker ended.
    pub seconds: f64,
    /// Number of new keys that it assigned.
    pub new_keys: u64,
    /// Resources that the agent's process used.
    pub process: ProcessReport,
    /// What else happened on its machine; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Why its workers ended early, if they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// A side of a connection. The proof of one is none of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Driver,
    Agent,
}

impl Side {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Driver => b"cassette lab run",
            Self::Agent => b"cassette lab agent",
        }
    }

    /// Returns this side's proof of the token, which does not reveal it: HMAC-SHA256 of the
    /// challenges of both sides.
    pub fn proof(self, token: &Token, agent_challenge: &str, driver_challenge: &str) -> String {
        let key = token.header();
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("a key has any length");
        for text in [self.label(), agent_challenge.as_bytes(), driver_challenge.as_bytes()] {
            // With their lengths, other texts with the same bytes have another proof.
            mac.update(&(text.len() as u64).to_be_bytes());
            mac.update(text);
        }
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns whether `proof` is this side's, in a time that does not depend on where it differs.
    pub fn verifies(self, token: &Token, agent_challenge: &str, driver_challenge: &str, proof: &str) -> bool {
        is_equal(self.proof(token, agent_challenge, driver_challenge).as_bytes(), proof.as_bytes())
    }
}

/// Returns a peer's reason as it is shown.
pub(super) fn reason(text: &str) -> String {
    printable(text, REASON_LENGTH_MAX)
}

/// Returns a challenge, which no connection had before.
pub(super) fn challenge() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Returns why sides of these versions cannot work together, if they cannot.
pub(super) fn version_conflict(protocol: u32, version: &str) -> Option<String> {
    let own = env!("CARGO_PKG_VERSION");
    (protocol != super::PROTOCOL || version != own).then(|| {
        // A peer's text is shown as far as it can be a version.
        let version: String = version.chars().filter(|c| c.is_ascii_graphic()).take(40).collect();
        format!(
            "version mismatch: the peer is Cassette {version} (protocol {protocol}), this is {own} (protocol {}): \
             run the same build on every machine",
            super::PROTOCOL
        )
    })
}
