//! What the engine holds of one table.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use cassette_rows::{TableId, TableMetadata};

use crate::memtable::Memtable;

/// One table while it is open.
pub(crate) struct Table {
    pub id: TableId,
    metadata: ArcSwap<TableMetadata>,
    view: ArcSwap<View>,
}

/// Where a table's data is at one moment. Immutable; a reader keeps the one it began with.
pub(crate) struct View {
    /// Takes the writes.
    pub memtable: Arc<Memtable>,
}

impl Table {
    pub fn new(metadata: Arc<TableMetadata>) -> Self {
        Self {
            id: metadata.id,
            metadata: ArcSwap::new(metadata),
            view: ArcSwap::from_pointee(View { memtable: Arc::new(Memtable::new()) }),
        }
    }

    /// The table's current schema.
    pub fn metadata(&self) -> Arc<TableMetadata> {
        self.metadata.load_full()
    }

    pub fn set_metadata(&self, metadata: Arc<TableMetadata>) {
        self.metadata.store(metadata);
    }

    /// Where its data is now.
    pub fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    pub fn truncate(&self) {
        self.view.store(Arc::new(View { memtable: Arc::new(Memtable::new()) }));
    }
}
