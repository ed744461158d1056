//! The choices of a table's strategy: the common interface of all strategies.

use super::leveled::{self, LeveledState};
use super::options::{CompactionOptions, Strategy};
use super::size_tiered;
use super::time_window::{self, TimeWindowState};
use super::tree::{Task, Tree};
use super::unified::{self, UnifiedState};

/// The state of a table's strategies. Each has a separate part, so that ALTER may change the
/// strategy back and forth.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// The state of leveled compaction.
    pub leveled: LeveledState,
    time_window: TimeWindowState,
    unified: UnifiedState,
}

/// Returns the next compaction, if there is one.
pub fn next(tree: &Tree, options: &CompactionOptions, state: &mut State) -> Option<Task> {
    match &options.strategy {
        Strategy::SizeTiered(own) => size_tiered::next(tree, options, own),
        Strategy::Leveled(own) => leveled::next(tree, options, own, &mut state.leveled),
        Strategy::TimeWindow(own) => time_window::next(tree, options, own, &mut state.time_window),
        Strategy::Unified(own) => unified::next(tree, own, &mut state.unified),
    }
}

/// Returns the compactions of a command for a whole table.
pub fn major(tree: &Tree, options: &CompactionOptions, split_output: bool) -> Vec<Task> {
    match &options.strategy {
        Strategy::SizeTiered(_) => size_tiered::major(tree, split_output),
        Strategy::Leveled(own) => leveled::major(tree, own),
        // As in Cassandra, all windows are merged into one SSTable.
        Strategy::TimeWindow(_) => size_tiered::major(tree, false),
        Strategy::Unified(own) => unified::major(tree, own),
    }
}

/// Returns the compaction of a command for named SSTables.
pub fn user_defined(tree: &Tree, inputs: Vec<usize>, options: &CompactionOptions) -> Task {
    match &options.strategy {
        Strategy::Unified(own) => unified::merge(tree, inputs, own),
        Strategy::Leveled(own) => leveled::merge(tree, inputs, own),
        _ => Task::merge(inputs),
    }
}

/// Returns the SSTables that are not compacted until others are written: SSTables of L0 soon are,
/// others may remain for long.
pub fn at_rest(tree: &Tree, options: &CompactionOptions) -> Vec<usize> {
    match &options.strategy {
        Strategy::Leveled(_) => {
            let above_l0 = tree.levels().into_iter().skip(1).flatten();
            above_l0.filter(|i| tree.sstables[*i].is_free()).collect()
        }
        _ => tree.free().collect(),
    }
}

/// Returns the approximate number of pending compactions.
pub fn pending(tree: &Tree, options: &CompactionOptions, state: &State) -> usize {
    match &options.strategy {
        Strategy::SizeTiered(own) => size_tiered::pending(tree, options, own),
        Strategy::Leveled(own) => leveled::pending(tree, options, own),
        Strategy::TimeWindow(own) => time_window::pending(tree, options, own, &state.time_window),
        Strategy::Unified(own) => unified::pending(tree, own),
    }
}

/// Returns the number of SSTables that reads would be spared if compaction had caught up.
pub fn debt(tree: &Tree, options: &CompactionOptions) -> usize {
    match &options.strategy {
        Strategy::SizeTiered(own) => size_tiered::debt(tree, options, own),
        Strategy::Leveled(_) => leveled::debt(tree),
        Strategy::TimeWindow(own) => time_window::debt(tree, options, own),
        Strategy::Unified(own) => unified::debt(tree, own),
    }
}
