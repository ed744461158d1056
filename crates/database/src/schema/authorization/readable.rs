//! The tables that every role can read, because drivers and cqlsh need them.

use crate::schema::system::{SCHEMA, SYSTEM, SYSTEM_TRACES};

/// The keyspace that describes the virtual tables.
const VIRTUAL_SCHEMA: &str = "system_virtual_schema";

/// The readable tables of `system`.
const OF_SYSTEM: [&str; 5] = ["local", "peers", "peers_v2", "size_estimates", "table_estimates"];

/// Returns whether a SELECT of a table needs no permission, as in Cassandra.
pub(crate) fn is_readable_by_everyone(keyspace: &str, table: &str) -> bool {
    match keyspace {
        SYSTEM => OF_SYSTEM.contains(&table),
        SCHEMA | VIRTUAL_SCHEMA | SYSTEM_TRACES => true,
        _ => false,
    }
}
