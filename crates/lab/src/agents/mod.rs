//! Load from several machines: agents execute the operations of a phase, and one driver merges
//! their records.
//!
//! An agent ([`host`]) is a process that listens for a driver. The driver ([`driver`]) proves that
//! it has the agent's token, checks versions and clocks, and gives each agent a [`job`]: its share
//! of the workers of a phase. All agents start together and return complete records, so that the
//! merged results equal those of one process with all workers. Both exchange lines of JSON
//! ([`message`], [`link`]); a peer's messages are claims, which are bounded and checked.

pub mod clock;
pub mod driver;
pub mod host;
pub mod job;
mod link;
mod member;
pub mod message;
mod session;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use driver::{AgentWork, Agents, Keys};
pub use host::{Agent, AgentSettings};
pub use job::ClientSpec;

/// Version of the messages. Both sides also have to be of the same version of Cassette: other
/// versions may measure differently.
pub(crate) const PROTOCOL: u32 = 1;

/// The port of agents by default.
pub const PORT: u16 = 7299;

/// The agents of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentList {
    /// Their addresses, with ports.
    pub addresses: Vec<String>,
    /// Addresses of those that observe processes of servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observers: Vec<String>,
    /// File with the token that they share with the driver.
    pub token_file: PathBuf,
}

/// Returns the address with the port of agents by default unless it has one.
pub fn with_port(address: &str) -> String {
    crate::cql::with_default_port(address, PORT)
}
