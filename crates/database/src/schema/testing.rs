//! `system_testing`: the tables that control a server in tests. They exist only if the server was
//! started for tests.

use cassette_rows::TableMetadata;

use crate::basics::error::{Result, bail_invalid};
use crate::schema::authorization::AuthCacheKind;
use crate::schema::system::TESTING;

/// The table of the rules of injected faults.
pub(crate) const FAULTS_TABLE: &str = "cassette_faults";

/// The table of the virtual nodes.
pub(crate) const NODES_TABLE: &str = "cassette_nodes";

/// The table of the clock of a database with a seed.
pub(crate) const CLOCK_TABLE: &str = "cassette_clock";

/// A virtual table that clients can write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WritableTable {
    /// The keys of a cache, which can be deleted.
    CacheKeys(AuthCacheKind),
    /// The rules of injected faults.
    Faults,
    /// The states of virtual nodes.
    Nodes,
    /// The clock of a database with a seed.
    Clock,
}

impl WritableTable {
    /// Returns which of these a table is.
    #[inline]
    pub fn of(table: &TableMetadata) -> Option<Self> {
        if table.keyspace == TESTING {
            return match table.name.as_str() {
                FAULTS_TABLE => Some(Self::Faults),
                NODES_TABLE => Some(Self::Nodes),
                CLOCK_TABLE => Some(Self::Clock),
                _ => None,
            };
        }
        AuthCacheKind::of_table(table).map(Self::CacheKeys)
    }
}

/// Rejects the keyspace of these tables in a server that was not started for tests.
///
/// # Errors
/// Invalid, with what to do.
pub(crate) fn refuse_absent(keyspace: &str) -> Result<()> {
    if keyspace.eq_ignore_ascii_case(TESTING) {
        bail_invalid!(
            "keyspace {TESTING} does not exist: it is for tests; start the server with --fault-injection, \
             --nodes or --seed"
        );
    }
    Ok(())
}
