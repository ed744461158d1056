//! Changes of partitions, and how durable they are when a write returns.

use std::sync::Arc;

use cassette_rows::{PartitionUpdate, TableMetadata};

/// The durability of a write when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// As `commitlog_sync` guarantees.
    #[default]
    Configured,
    /// Durable as soon as any later write that has returned is, without waiting for the commit
    /// log's file. Visible to reads at once. For the first of two writes that are only meaningful
    /// together.
    WithLater,
}

/// A change of one partition of a table.
#[derive(Debug, Clone)]
pub struct Mutation {
    /// The table, in the version of the update's columns.
    pub table: Arc<TableMetadata>,
    /// The change.
    pub update: PartitionUpdate,
}
