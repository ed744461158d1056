//! Moves keyspaces between CQL clusters, Cassandra's and Cassette's, and from data directories of
//! Cassette, by rows.
//!
//! ```text
//! source: SELECT columns, writetime, ttl -> rows of cells -> INSERT, UPDATE USING TIMESTAMP, TTL: target
//! ```
//!
//! Every cell keeps its write timestamp and its expiration, so a copy can be repeated: the same
//! cells are written again. Requests bear the time at which remaining lifetimes were read
//! (`now_in_seconds` of protocol version 5), so expirations are exact to the second.
//!
//! [`Move::run`] copies, [`Move::verify`] compares and repairs.

mod cell;
mod client;
mod copy;
mod endpoint;
mod error;
mod event;
mod job;
mod page;
mod plan;
mod progress;
mod schema;
mod statements;
mod throttle;
mod verify;
mod writer;

pub use client::ClusterSettings;
pub use endpoint::Place;
pub use error::MoveError;
pub use event::{Difference, Event, Observer};
pub use job::{Move, Summary, VerifyOptions, VerifySummary};
