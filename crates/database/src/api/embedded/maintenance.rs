//! What an application may want to happen now rather than later.

use crate::api::database::Database;
use crate::basics::error::{DatabaseError, Result};

impl Database {
    /// Writes all memtables to SSTables, so that the next start has no commit log to replay. Blocks
    /// until that is done.
    ///
    /// # Errors
    /// If files cannot be written; the commit log still has all rows.
    pub fn flush(&self) -> Result<()> {
        self.engine().flush(None).map_err(DatabaseError::storage)
    }
}
