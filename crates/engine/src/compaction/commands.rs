//! Compactions requested by commands.

use std::sync::Arc;

use cassette_sstable::{SSTableId, Version};

use super::run::{Inputs, Pause, Work};
use crate::basics::error::{EngineError, Result};
use crate::basics::options::OverlappingTombstones;
use crate::store::core::Core;
use crate::store::progress::CompactionKind;
use crate::store::table::{Table, View};
use crate::strategies::choose;
use crate::strategies::options::CompactionOptions;
use crate::strategies::tree::{Cut, Outcome, Task};

/// What `upgradesstables` rewrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upgraded {
    /// SSTables with another version than `nb`, the one that is written.
    OtherVersions,
    /// All.
    All,
}

impl Core {
    /// Pauses the table's compactions for a command that compacts.
    ///
    /// # Errors
    /// If compactions of the table are forbidden, or it was dropped meanwhile.
    pub(super) fn alone<'a>(&self, table: &'a Table) -> Result<Pause<'a>> {
        self.check_running()?;
        let pause = self.pause_compactions(table);
        if table.is_dropped() {
            return Err(EngineError::UnknownTable(table.id));
        }
        if let Some(reason) = &table.compaction.lock().forbidden {
            return Err(EngineError::CompactionsForbidden { reason: reason.clone() });
        }
        Ok(pause)
    }

    /// Executes the tasks that `choose` returns for the table, one after the other.
    fn do_tasks(
        self: &Arc<Self>,
        table: &Arc<Table>,
        kind: CompactionKind,
        shadowed_by: Option<OverlappingTombstones>,
        choose: impl FnOnce(&View, &crate::strategies::tree::Tree, &CompactionOptions) -> Vec<Task>,
    ) -> Result<()> {
        let work: Vec<Work> = {
            let mut state = table.compaction.lock();
            let view = table.view();
            let options = CompactionOptions::parse(&view.table.params.compaction).unwrap_or_default();
            let tree = self.tree(table, &view, &state, &options);
            let tasks = choose(&view, &tree, &options);
            let work = |task: Task| {
                let sstables = task.inputs.iter().map(|i| view.sstables[*i].clone()).collect();
                let inputs = Inputs::mark(table, sstables, &mut state.compacting);
                Work { inputs, outcome: task.outcome, kind, shadowed_by, if_shadowed: None, yields: false }
            };
            tasks.into_iter().map(work).collect()
        };
        // Each releases its inputs when it ends.
        let done = work.into_iter().try_for_each(|work| self.run_compaction(table, &work));
        self.measure_compaction_debt(table);
        done
    }

    /// See [`Engine::compact`](crate::Engine::compact).
    pub fn compact(self: &Arc<Self>, table: &Arc<Table>, split_output: bool) -> Result<()> {
        let _alone = self.alone(table)?;
        self.do_tasks(table, CompactionKind::Major, None, |_, tree, options| {
            choose::major(tree, options, split_output)
        })
    }

    /// See [`Engine::compact_sstables`](crate::Engine::compact_sstables).
    pub fn compact_sstables(self: &Arc<Self>, table: &Arc<Table>, sstables: &[SSTableId]) -> Result<()> {
        let _alone = self.alone(table)?;
        let unknown = {
            let view = table.view();
            sstables.iter().find(|id| !view.sstables.iter().any(|sstable| sstable.id() == **id)).copied()
        };
        if let Some(id) = unknown {
            return Err(EngineError::UnknownSSTable { table: table.metadata().qualified_name(), id });
        }
        self.do_tasks(table, CompactionKind::Compaction, None, |view, tree, options| {
            let named = |i: &usize| sstables.contains(&view.sstables[*i].id());
            let inputs: Vec<usize> = tree.free().filter(named).collect();
            if inputs.is_empty() { Vec::new() } else { vec![choose::user_defined(tree, inputs, options)] }
        })
    }

    /// See [`Engine::upgrade_sstables`](crate::Engine::upgrade_sstables).
    pub fn upgrade_sstables(self: &Arc<Self>, table: &Arc<Table>, which: Upgraded) -> Result<()> {
        let _alone = self.alone(table)?;
        self.rewrite_each(table, CompactionKind::Upgrade, None, |version| {
            which == Upgraded::All || version != Version::Nb
        })
    }

    /// See [`Engine::garbage_collect`](crate::Engine::garbage_collect).
    pub fn garbage_collect(self: &Arc<Self>, table: &Arc<Table>, by: OverlappingTombstones) -> Result<()> {
        let _alone = self.alone(table)?;
        self.rewrite_each(table, CompactionKind::GarbageCollect, Some(by), |_| true)
    }

    /// Rewrites each SSTable of the selected versions separately, the oldest first. It keeps its
    /// level.
    fn rewrite_each(
        self: &Arc<Self>,
        table: &Arc<Table>,
        kind: CompactionKind,
        shadowed_by: Option<OverlappingTombstones>,
        wanted: impl Fn(Version) -> bool,
    ) -> Result<()> {
        self.do_tasks(table, kind, shadowed_by, |view, tree, _| {
            let is_wanted = |i: &usize| wanted(view.sstables[*i].reader.descriptor().version);
            let mut each: Vec<usize> = tree.free().filter(is_wanted).collect();
            each.sort_by_key(|i| tree.sstables[*i].max_timestamp);
            let task = |i: usize| {
                let outcome = Outcome::Merged { level: view.sstables[i].level(), cut: Cut::Never };
                Task { outcome, ..Task::merge(vec![i]) }
            };
            each.into_iter().map(task).collect()
        })
    }

    /// See [`Engine::set_autocompaction`](crate::Engine::set_autocompaction).
    pub fn set_autocompaction(&self, table: &Table, on: bool) {
        table.compaction.lock().autocompaction = Some(on);
        self.measure_compaction_debt(table);
        self.compaction_wanted.raise();
    }
}
