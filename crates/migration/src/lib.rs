//! Moves keyspaces between CQL clusters, Cassandra's and Cassette's, and from data directories of
//! Cassette: by rows, or as SSTables.
//!
//! ```text
//! by rows    source: SELECT columns, writetime, ttl -> rows of cells -> INSERT, UPDATE USING TIMESTAMP, TTL: target
//! by files   data directory: SSTables -> sections for each replica -> streams to the nodes of Cassandra
//! by import  data directory: SSTables -> links or copies in a directory -> `nodetool import` of the nodes of Cassandra
//! in bulk    source: merged rows -> new SSTables, part by part -> streams to the nodes of Cassandra
//! ```
//!
//! By rows:
//!
//!
//! Every cell keeps its write timestamp and its expiration, so a copy can be repeated: the same
//! cells are written again. Requests bear the time at which remaining lifetimes were read
//! (`now_in_seconds` of protocol version 5), so expirations are exact to the second.
//!
//! [`Move::run`] copies, [`Move::verify`] compares and repairs. With [`Follow`], a move also
//! applies the changes that are captured meanwhile, and can cut over: the source's server then
//! forwards its clients to the target.

mod bulk;
mod cell;
mod client;
mod compact_storage;
mod control;
mod copy;
mod cut_over;
mod digest;
mod endpoint;
mod error;
mod event;
mod files;
mod follow;
mod following;
mod import;
mod job;
mod journal;
mod page;
mod plan;
mod progress;
mod schema;
mod settings;
mod statements;
mod stored;
mod streaming;
mod table_options;
mod throttle;
mod token_range;
mod verify;
mod writer;

/// Decoders of what nodes send, for the fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::streaming::messages::Message;
}

pub use client::ClusterSettings;
pub use control::{ForwardError, LogPoint, SourceControl, Stall, StallError};
pub use endpoint::{Place, TargetFiles};
pub use error::MoveError;
pub use event::{Difference, Event, Observer};
pub use follow::{Captured, Lag};
pub use following::{CutOver, Follow, Until};
pub use settings::{
    BulkOptions, By, FileOptions, ImportDirectory, ImportOptions, Move, Summary, VerifyOptions, VerifySummary,
};
