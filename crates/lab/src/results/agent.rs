//! Agents in results.

use serde::{Deserialize, Serialize};

use super::{Disturbance, Machine, ProcessReport};

/// An agent's share of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Name of its machine.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Version of Cassette.
    pub version: String,
    /// Its machine.
    pub machine: Machine,
    /// What used its machine when the run began; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Disturbance>,
    /// How far its clock was ahead of the driver's before the phase.
    pub clock_ahead_ms: f64,
    /// Maximum error of that.
    pub clock_uncertainty_ms: f64,
    /// Number of requests in flight.
    pub in_flight: usize,
    /// Successful operations.
    pub operations: u64,
    /// Failed operations.
    pub failed: u64,
    /// Time until its last operation ended.
    pub seconds: f64,
    /// Resources that its process used.
    pub process: ProcessReport,
    /// What else happened on its machine; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
}

#[cfg(test)]
impl AgentReport {
    /// Creates the report of an idle agent at an address with a port.
    pub fn of(address: &str) -> Self {
        let machine =
            Machine { processor: "CPU".into(), processors: 4, memory_bytes: 1 << 33, system: "Linux".into() };
        Self {
            name: address.split(':').next().unwrap_or_default().to_owned(),
            address: address.into(),
            version: "1.0".into(),
            machine,
            load: None,
            clock_ahead_ms: 0.0,
            clock_uncertainty_ms: 0.25,
            in_flight: 8,
            operations: 1500,
            failed: 1,
            seconds: 2.0,
            process: ProcessReport::default(),
            disturbance: None,
        }
    }
}
