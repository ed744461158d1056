//! What is known of the segments that exist on disk.

use std::path::PathBuf;
use std::sync::Arc;

use cassette_vfs::SyncHandle;

use super::TableVersion;
use super::cdc::{Captured, CdcIndex};
use super::dirty::DirtyTables;

/// A segment that exists on disk.
pub(super) struct Tracked {
    pub(super) path: PathBuf,
    /// Its bytes on disk.
    pub(super) size: u64,
    pub(super) dirty: DirtyTables,
    /// Present as long as it can have unsynced bytes.
    pub(super) syncer: Option<Arc<dyn SyncHandle>>,
    /// Whether bytes have been written since the last sync began.
    pub(super) unsynced: bool,
    /// Whether a thread is removing it.
    pub(super) going: bool,
    /// Its end, when nothing will be appended.
    pub(super) sealed: Option<u32>,
    pub(super) captured: Captured,
    /// Whether it is linked in the archive.
    pub(super) archived: bool,
}

/// A segment to remove.
pub(super) struct Clean {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    pub(super) captured: Captured,
    pub(super) end: u32,
}

impl Tracked {
    /// Records that a record of `tables` ends at `offset`.
    pub(super) fn note(&mut self, tables: &[TableVersion], offset: u32, is_captured: bool) {
        tables.iter().for_each(|table| self.dirty.mark_dirty(table.table, offset));
        if is_captured && self.captured == Captured::None {
            self.captured = Captured::Some(CdcIndex::default());
        }
    }

    pub(super) fn is_linked(&self) -> bool {
        self.captured != Captured::Unlinked
    }
}
