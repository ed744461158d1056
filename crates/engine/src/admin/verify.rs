//! Verification of tables in use.

use std::path::PathBuf;
use std::sync::Arc;

use cassette_rows::{Result, StorageError, TableId};
use cassette_sstable::{Component, SSTableReader};

use crate::store::core::Core;

/// The result of verifying one SSTable.
#[derive(Debug)]
pub struct VerifiedSSTable {
    /// Its Data component.
    pub path: PathBuf,
    /// Bytes of its Data component.
    pub bytes: u64,
    /// The counts, or the first damage.
    pub result: Result<cassette_sstable::Verified>,
}

impl Core {
    /// See [`Engine::flushed_sstables`](crate::Engine::flushed_sstables).
    pub fn flushed_sstables(self: &Arc<Self>, id: TableId) -> crate::Result<Vec<SSTableReader>> {
        self.check_running()?;
        let table = self.table(id)?;
        self.flush(&table)?;
        let view = Arc::clone(&table.view());
        if let Some(unreadable) = view.unreadable.first() {
            return Err(unreadable.error().into());
        }
        if let Some(sstable) = view.quarantined.first() {
            let path = sstable.reader.descriptor().path(Component::Data);
            return Err(StorageError::corrupt(path, "the SSTable is quarantined").into());
        }
        Ok(view.sstables.iter().map(|sstable| sstable.reader.clone()).collect())
    }

    /// See [`Engine::verify`](crate::Engine::verify).
    pub fn verify(self: &Arc<Self>, id: TableId, extended: bool) -> crate::Result<Vec<VerifiedSSTable>> {
        self.check_running()?;
        let view = Arc::clone(&self.table(id)?.view());
        let mut verified = Vec::new();
        for sstable in view.sstables.iter().chain(&*view.quarantined) {
            let reader = &sstable.reader;
            let result = reader.verify().and_then(|verified| {
                if extended {
                    reader.verify_values()?;
                }
                Ok(verified)
            });
            if let Err(error @ StorageError::Corrupt { .. }) = &result {
                self.on_corruption(id, reader.descriptor(), error);
            }
            verified.push(VerifiedSSTable {
                path: reader.descriptor().path(Component::Data),
                bytes: reader.data_bytes_on_disk(),
                result,
            });
        }
        for unreadable in &*view.unreadable {
            let path = unreadable.descriptor.path(Component::Data);
            let bytes = self.fs.metadata(&path).map_or(0, |metadata| metadata.len);
            let result = Err(unreadable.error());
            verified.push(VerifiedSSTable { path, bytes, result });
        }
        Ok(verified)
    }
}
