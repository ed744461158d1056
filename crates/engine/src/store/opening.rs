//! Opening SSTables.

use std::sync::{Arc, Weak};

use cassette_rows::{StorageError, TableId, TableMetadata};
use cassette_sstable::reader::OpenOptions;
use cassette_sstable::{Component, Descriptor, SSTableReader};

use super::core::Core;
use super::sstable_handle::SSTable;

impl Core {
    /// Opens an SSTable. One from another source is verified, and from then on protected like those
    /// of this engine.
    pub fn open_sstable(
        self: &Arc<Self>,
        descriptor: Descriptor,
        metadata: &Arc<TableMetadata>,
    ) -> cassette_rows::Result<SSTable> {
        let options = OpenOptions::default();
        let reader =
            SSTableReader::open(self.fs.clone(), descriptor, metadata.clone(), self.cache.clone(), options)?;
        Ok(self.handle(reader.adopted()?))
    }

    /// Returns the engine's state of an SSTable, around its reader.
    pub fn handle(self: &Arc<Self>, reader: SSTableReader) -> SSTable {
        let (core, id): (Weak<Core>, TableId) = (Arc::downgrade(self), reader.table().id);
        let on_corruption = move |descriptor: &Descriptor, error: &StorageError| {
            if let Some(core) = core.upgrade() {
                core.on_corruption(id, descriptor, error);
            }
        };
        let data = reader.descriptor().path(Component::Data);
        let modified = self.fs.metadata(&data).map_or(0, |metadata| metadata.modified_millis / 1000);
        let created = u32::try_from(modified).ok().filter(|at| *at > 0).unwrap_or(self.now_seconds());
        SSTable::new(reader.with_key_cache(self.key_cache.clone()), created, Arc::new(on_corruption))
    }
}
