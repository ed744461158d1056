//! Splitting SSTables: each is rewritten as several of at most a size.
//!
//! Each is replaced in its own transaction. Nothing is purged: the outputs have all that the
//! SSTable has, except that expired cells become tombstones.

use std::path::PathBuf;
use std::sync::Arc;

use cassette_sstable::{Component, Descriptor, SSTableId};

use super::run::{Inputs, Work};
use crate::basics::error::{EngineError, Result};
use crate::basics::options::OverlappingTombstones;
use crate::store::core::{Core, Phase};
use crate::store::progress::CompactionKind;
use crate::store::sstable_handle::SSTable;
use crate::store::table::Table;
use crate::strategies::tree::{Cut, Outcome};

/// The result of splitting one SSTable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitSSTable {
    /// Its Data component.
    pub path: PathBuf,
    /// Bytes of its Data component.
    pub bytes: u64,
    /// The ids of its replacements; none if it is not larger than the size, and unchanged.
    pub outputs: Vec<SSTableId>,
    /// The snapshot that contains it, if one was taken before.
    pub snapshot: Option<String>,
}

impl Core {
    /// Splits SSTables of a table: see [`Engine::split`](crate::Engine::split). `snapshot` takes a
    /// snapshot of those that are larger first if one is requested, and returns its name.
    pub fn split(
        self: &Arc<Self>,
        table: &Arc<Table>,
        ids: &[SSTableId],
        size: u64,
        snapshot: impl FnOnce(&[Descriptor]) -> Result<Option<String>>,
    ) -> Result<Vec<SplitSSTable>> {
        self.check_running()?;
        if self.phase() == Phase::Recovering {
            return Err(EngineError::Recovering);
        }
        let _alone = self.alone(table)?;
        let sstables = self.named(table, ids)?;
        let is_larger = |sstable: &Arc<SSTable>| sstable.reader.data_bytes_on_disk() > size;
        let descriptor = |sstable: &Arc<SSTable>| sstable.reader.descriptor().clone();
        let larger: Vec<Descriptor> =
            sstables.iter().filter(|sstable| is_larger(sstable)).map(descriptor).collect();
        let snapshot = if larger.is_empty() { None } else { snapshot(&larger)? };
        let mut split = Vec::with_capacity(sstables.len());
        for sstable in sstables {
            let mut done = SplitSSTable {
                path: sstable.reader.descriptor().path(Component::Data),
                bytes: sstable.reader.data_bytes_on_disk(),
                outputs: Vec::new(),
                snapshot: None,
            };
            if is_larger(&sstable) {
                done.outputs = self.split_one(table, sstable, size)?;
                done.snapshot.clone_from(&snapshot);
            }
            split.push(done);
        }
        self.measure_compaction_debt(table);
        Ok(split)
    }

    /// Returns the SSTables with these ids.
    fn named(&self, table: &Table, ids: &[SSTableId]) -> Result<Vec<Arc<SSTable>>> {
        let view = table.view();
        let find = |id: &SSTableId| {
            let found = view.sstables.iter().find(|sstable| sstable.id() == *id).cloned();
            found.ok_or_else(|| EngineError::UnknownSSTable { table: view.table.qualified_name(), id: *id })
        };
        ids.iter().map(find).collect()
    }

    fn split_one(
        self: &Arc<Self>,
        table: &Arc<Table>,
        sstable: Arc<SSTable>,
        size: u64,
    ) -> Result<Vec<SSTableId>> {
        let inputs = Inputs::mark(table, vec![sstable], &mut table.compaction.lock().compacting);
        let work = Work {
            inputs,
            outcome: Outcome::Merged { level: 0, cut: Cut::AtSize { size, ends: Vec::new() } },
            kind: CompactionKind::Split,
            shadowed_by: Some(OverlappingTombstones::None),
            if_shadowed: None,
            yields: false,
        };
        let mut outputs: Vec<SSTableId> = self.carry_out(table, &work)?.into_iter().collect();
        outputs.sort_unstable();
        Ok(outputs)
    }
}
