//! A move in bulk: rows are merged, written into new SSTables, and these are streamed to the nodes
//! of a cluster.
//!
//! ```text
//! source          rows in token order, merged: one version of each row, and deletions
//! slices          token ranges of a table, read by several threads
//! parts           SSTables of a limited size, written into a temporary directory
//! deliveries      a part, or the sections that a node replicates, to each node
//! progress        the token range of a part that all its replicas have added to their tables
//! ```
//!
//! A part is removed once its token range is recorded. An interrupted move leaves parts behind; the
//! next run removes them and writes the ranges without a record again. That repeats cells with the
//! same timestamps, which changes nothing.

mod job;
mod partitions;
mod parts;
mod pool;
mod progress;
mod selected;
mod slice_writer;
mod slices;
mod source;

pub use job::{dry_run, run};

#[cfg(test)]
mod tests;
