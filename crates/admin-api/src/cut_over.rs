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
    /// Check that the server can forward to the target.
    Check {
        /// `host:port`.
        target: String,
    },
    /// Check that, stall the requests of all clients, and wait for those in execution. Answered
    /// with the end of the log, and the number of the stall.
    Stall {
        /// When the server resumes by itself; at most [`STALL_MAX`].
        milliseconds: u64,
        /// Where it forwards to at the end of the stall: `host:port`.
        target: String,
    },
    /// End a stall: execute requests again.
    Release {
        /// The number of the stall.
        stall: u64,
    },
    /// End a stall: forward stalled and later requests to its target, permanently. A repeated
    /// request is answered like the first one.
    Forward {
        /// The number of the stall.
        stall: u64,
    },
}

/// The answer. A server that does not state what its captured changes are has none that can be
/// followed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct CutOverAnswer {
    /// The segment of the position in the commit log.
    pub segment: u64,
    /// The offset of the position in that segment, bytes.
    pub offset: u32,
    /// The segment of the last captured change.
    pub captured_segment: u64,
    /// The offset of its end in that segment, or that of the end of the segment, bytes.
    pub captured_offset: u32,
    /// The number of the chain of captured segments, 32 hexadecimal digits: another one if changes
    /// have not been captured for a time.
    pub chain: String,
    /// `cdc_block_writes`.
    pub blocks_writes: bool,
    /// Another text after a change of the schema, or a truncation of a captured table.
    pub state: String,
    /// The greatest write timestamp that the server has issued, in microseconds.
    pub last_timestamp: i64,
    /// The number of the stall that has begun, which no other one has; 0 if none has begun.
    pub stall: u64,
}
