//! Reading rows of `system_auth`.

use std::sync::Arc;

use cassette_engine::{EngineError, KeyRange};
use cassette_rows::{PartitionStream, Selection, TableMetadata, Unfiltered};

use crate::basics::error::{DatabaseError, Result};
use crate::schema::system::SYSTEM_AUTH;
use crate::schema::system::encode::{StoredRow, seconds, text_key};
use crate::store::Store;

impl Store {
    /// Returns a table of `system_auth`.
    pub(super) fn auth_table(&self, name: &str) -> Result<Arc<TableMetadata>> {
        self.present_catalog().require_table(SYSTEM_AUTH, name).cloned()
    }

    /// Calls `visit` with the key and the live rows of one partition of a table of `system_auth`,
    /// or of all partitions.
    ///
    /// # Errors
    /// WouldBlock, if this thread may not wait for a disk and would have to.
    pub(super) fn visit_auth_rows(
        &self,
        table: &Arc<TableMetadata>,
        key: Option<&str>,
        mut visit: impl FnMut(&str, &StoredRow<'_>),
    ) -> Result<()> {
        let failed = |error: EngineError| match DatabaseError::of_read(Default::default(), error) {
            failure @ (DatabaseError::WouldBlock | DatabaseError::Interrupted(_)) => failure,
            error => DatabaseError::Server(format!("cannot read {}: {error}", table.qualified_name())),
        };
        let now = seconds(self.clock().now_micros());
        let mut stream = match key {
            Some(key) => self.engine().read(table.id, &text_key(key), &Selection::all()),
            None => self.engine().scan(table.id, &KeyRange::ALL, &Selection::all()),
        }
        .map_err(failed)?;
        while let Some(header) = stream.next_partition().map_err(|error| failed(error.into()))? {
            let Ok(key) = std::str::from_utf8(header.key.key()) else { continue };
            while let Some(next) = stream.next_unfiltered().map_err(|error| failed(error.into()))? {
                let Unfiltered::Row(row) = next else { continue };
                // Rows that UPDATE makes have no liveness, and live by their cells.
                if row.is_live_in(table, now) {
                    visit(key, &StoredRow { table, row: &row, now });
                }
            }
        }
        Ok(())
    }
}
