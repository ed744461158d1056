//! Requests of a move that follows the changes of a server, and takes over its clients.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest stall.
pub const STALL_MAX: Duration = Duration::from_secs(30);

/// A request of a move.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum CutOverRequest {
    /// Wait for the requests in execution, and sync the commit log. Answered with the end of the
    /// log from before.
    Point,
    /// Stall the requests of all clients, and wait for those in execution. Answered with the end of
    /// the log.
    Stall {
        /// When the server resumes by itself.
        milliseconds: u64,
    },
    /// Resume after a stall.
    Release,
    /// Forward stalled and later requests, permanently.
    Forward {
        /// `host:port`.
        target: String,
    },
}

/// The answer. A server that does not state what its captured changes are has none that can be
/// followed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct CutOverAnswer {
    /// The position in the commit log: its segment.
    pub segment: u64,
    /// And the offset in that.
    pub offset: u32,
    /// The end of the last captured change, or of the segment that it is in: its segment.
    pub captured_segment: u64,
    /// And the offset in that.
    pub captured_offset: u32,
    /// The number of the chain of captured segments, 32 hexadecimal digits: another one if changes
    /// have not been captured for a time.
    pub chain: String,
    /// `cdc_block_writes`.
    pub blocks_writes: bool,
    /// Changes with the schema, and with truncations of captured tables.
    pub state: String,
    /// The greatest write timestamp that the server has issued, in microseconds.
    pub last_timestamp: i64,
}
