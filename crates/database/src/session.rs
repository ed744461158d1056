//! Sessions: the embedded door.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use crate::database::Database;

/// Executes statements in a keyspace that USE chooses. Any thread may use it; all see the same keyspace.
#[derive(Debug)]
pub struct Session {
    database: Database,
    keyspace: ArcSwapOption<String>,
}

impl Session {
    pub(crate) fn new(database: Database) -> Self {
        Self { database, keyspace: ArcSwapOption::empty() }
    }

    /// The database it belongs to.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The keyspace that names without one are in.
    pub fn keyspace(&self) -> Option<Arc<String>> {
        self.keyspace.load_full()
    }
}
