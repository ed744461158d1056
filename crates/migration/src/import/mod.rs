//! A move by import: the nodes add SSTables from directories that this machine and they can reach.
//!
//! ```text
//! DIR/cassette-move-<source and target>/<content>/<keyspace>/<table>/nb-<number>-big-<component>
//! ```
//!
//! The SSTables of a table are linked there, or copied, and then added by `nodetool import`, which
//! compares them with their checksums and renames them into the node's data directories: all
//! SSTables of the table, or none. A directory without SSTables is one that has been imported, so
//! that a repeated run finds out how far an interrupted one came.

mod directories;
mod job;
mod nodetool;
mod placing;

pub use job::{dry_run, run};
