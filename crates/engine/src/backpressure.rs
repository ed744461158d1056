//! Holding writers up while compaction is behind.

use std::sync::atomic::Ordering;

use crate::compaction::{CompactionOptions, choose};
use crate::core::Core;
use crate::table::Table;

impl Core {
    /// Notes how far the table's compactions are behind.
    pub fn measure_behind(&self, table: &Table) {
        let state = table.compaction.lock();
        let view = table.view();
        let off = table.autocompaction_off.load(Ordering::Relaxed) || state.forbidden.is_some();
        let behind = match CompactionOptions::parse(&view.table.params.compaction) {
            Ok(options) if options.enabled && !off => {
                choose::behind(&self.tree(table, &view, &state, &options), &options)
            }
            _ => 0,
        };
        table.behind.store(behind, Ordering::Relaxed);
    }
}
