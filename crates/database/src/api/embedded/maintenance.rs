//! Maintenance that applications can request.

use crate::api::database::Database;
use crate::basics::error::{DatabaseError, Result};

impl Database {
    /// Flushes all memtables to SSTables, so that the next start has no commit log to replay.
    /// Blocks until all are written.
    ///
    /// # Errors
    /// If files cannot be written; the commit log still contains all rows.
    pub fn flush(&self) -> Result<()> {
        self.engine().flush(None).map_err(DatabaseError::storage)
    }
}
