//! Time-window compaction: SSTables of a window of write timestamps are merged, and windows are
//! never mixed.
//!
//! Pure functions from the properties of the SSTables to the next compaction. The rules are
//! Cassandra's:
//!
//! 1. At intervals, SSTables that have expired completely are dropped without being read.
//! 2. An SSTable belongs to the window of its maximum write timestamp. From the newest window down:
//!    the newest window that was ever seen is compacted size-tiered, from `min_threshold` SSTables
//!    on; older ones completely, as soon as they have two, at most `max_threshold` at a time, the
//!    smallest first.
//! 3. If there is none, the smallest SSTable with enough droppable tombstones is compacted alone,
//!    if that is enabled.

use std::collections::BTreeMap;

use super::options::{CompactionOptions, TimeUnit, TimeWindowOptions};
use super::size_tiered;
use super::tree::{Task, Tree};

/// The state of a table's time-window compaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimeWindowState {
    /// The start of the newest window that was ever seen, seconds since 1970.
    newest_window: i64,
    /// The time of the last check for expired SSTables, seconds since 1970.
    expired_checked: u64,
}

/// Returns the next compaction, if there is one.
pub fn next(
    tree: &Tree,
    options: &CompactionOptions,
    own: &TimeWindowOptions,
    state: &mut TimeWindowState,
) -> Option<Task> {
    let mut free: Vec<usize> = tree.free().collect();
    let mut expired = Vec::new();
    if tree.now.saturating_sub(state.expired_checked) > own.expired_check_seconds {
        state.expired_checked = tree.now;
        expired = free.extract_if(.., |i| tree.sstables[*i].is_expired).collect();
    }
    let windows = windows(tree, free.iter().copied(), own);
    if let Some((newest, _)) = windows.last_key_value() {
        state.newest_window = state.newest_window.max(*newest);
    }
    let mut inputs = windows
        .iter()
        .rev()
        .map(|(start, window)| of_window(tree, *start, window, options, own, state.newest_window))
        .find(|inputs| !inputs.is_empty())
        .unwrap_or_default();
    let mut for_tombstones = false;
    if inputs.is_empty() {
        let worth = free.into_iter().filter(|i| tree.sstables[*i].worth_dropping_tombstones);
        inputs.extend(worth.min_by_key(|i| tree.sstables[*i].size));
        for_tombstones = !inputs.is_empty();
    }
    inputs.extend(expired);
    (!inputs.is_empty()).then(|| Task { for_tombstones, ..Task::merge(inputs) })
}

/// Returns the SSTables of a window to compact.
fn of_window(
    tree: &Tree,
    start: i64,
    window: &[usize],
    options: &CompactionOptions,
    own: &TimeWindowOptions,
    newest: i64,
) -> Vec<usize> {
    if start >= newest {
        return if window.len() >= options.min_threshold {
            size_tiered::most_interesting(tree, window, options, &own.size_tiered)
        } else {
            Vec::new()
        };
    }
    if window.len() < 2 {
        return Vec::new();
    }
    let mut by_size = window.to_vec();
    by_size.sort_by_key(|i| tree.sstables[*i].size);
    by_size.truncate(options.max_threshold);
    by_size
}

/// Returns the SSTables by the start of their window in seconds.
fn windows(
    tree: &Tree,
    among: impl Iterator<Item = usize>,
    own: &TimeWindowOptions,
) -> BTreeMap<i64, Vec<usize>> {
    let mut windows: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for i in among {
        windows.entry(window_start(tree.sstables[i].max_timestamp, own)).or_default().push(i);
    }
    windows
}

/// Returns the start of the window of a write timestamp, seconds since 1970. Division truncates
/// towards 0, as in Cassandra.
fn window_start(timestamp: i64, own: &TimeWindowOptions) -> i64 {
    let seconds = match own.timestamp_resolution {
        TimeUnit::Nanoseconds => timestamp / 1_000_000_000,
        TimeUnit::Microseconds => timestamp / 1_000_000,
        TimeUnit::Milliseconds => timestamp / 1000,
        _ => timestamp,
    };
    let unit = match own.window_unit {
        TimeUnit::Minutes => 60,
        TimeUnit::Hours => 3600,
        _ => 86_400,
    };
    seconds - seconds % (unit * i64::from(own.window_size))
}

/// Returns the approximate number of pending compactions.
pub fn pending(
    tree: &Tree,
    options: &CompactionOptions,
    own: &TimeWindowOptions,
    state: &TimeWindowState,
) -> usize {
    let windows = windows(tree, tree.free(), own);
    let newest = windows.last_key_value().map_or(0, |(start, _)| *start).max(state.newest_window);
    let of_window = |(start, window): (&i64, &Vec<usize>)| {
        if of_window(tree, *start, window, options, own, newest).is_empty() {
            return 0;
        }
        let remaining = window.len().saturating_sub(options.max_threshold);
        1 + if remaining > options.min_threshold { remaining.div_ceil(options.max_threshold) } else { 0 }
    };
    windows.iter().map(of_window).sum()
}

/// Returns the number of SSTables that reads would be spared if compaction had caught up: those
/// beyond one in each older window, and beyond `min_threshold` in the newest.
pub fn debt(tree: &Tree, options: &CompactionOptions, own: &TimeWindowOptions) -> usize {
    let windows = windows(tree, 0..tree.sstables.len(), own);
    let newest = windows.last_key_value().map_or(0, |(start, _)| *start);
    let kept = |start: i64| if start == newest { options.min_threshold } else { 1 };
    windows.iter().map(|(start, window)| window.len().saturating_sub(kept(*start))).sum()
}

#[cfg(test)]
mod tests {
    use super::super::tree::picture;
    use super::*;

    /// Windows of ten minutes; timestamps in seconds.
    fn options() -> (CompactionOptions, TimeWindowOptions) {
        let own = TimeWindowOptions {
            window_unit: TimeUnit::Minutes,
            window_size: 10,
            timestamp_resolution: TimeUnit::Seconds,
            ..TimeWindowOptions::default()
        };
        (CompactionOptions::default(), own)
    }

    #[test]
    fn pictures_of_windows() {
        let (options, own) = options();
        let checked = TimeWindowState { expired_checked: 1_000_000, ..TimeWindowState::default() };
        for (text, expected) in [
            ("a=1@100 b=1@200 c=1@300", "nothing"),
            ("a=1@100 b=1@200 c=1@300 d=1@599", "a b c d -> L0"),
            // The window ends at 600.
            ("a=1@100 b=1@200 c=1@300 d=1@600", "a b c -> L0"),
            ("a=1@100 d=1@600", "nothing"),
            // Older windows one by one, the newest first.
            ("a=1@100 b=1@200 c=900@700 d=1@800 e=1@1300", "c d -> L0"),
            ("a=1@100 b=1@200 c=900@700 d=1@800* e=1@1300", "a b -> L0"),
            // The newest is size-tiered.
            ("a=100@1 b=100@2 c=100@3 d=400@4", "nothing"),
            ("a=100@1 b=100@2 c=100@3 d=400@4 e=100@5", "a b c e -> L0"),
            // Nothing else: the smallest with enough tombstones.
            ("a=100@1! b=40@700!", "b -> L0 (tombstones)"),
            // The next check for expired SSTables is not due.
            ("a=1@100x b=1@200x e=1@1300", "a b -> L0"),
            ("a=1@100x e=1@1300", "nothing"),
        ] {
            let (tree, names) = picture::tree(text);
            let task = next(&tree, &options, &own, &mut checked.clone());
            assert_eq!(picture::task(&task, &names), expected, "{text}");
        }
    }

    #[test]
    fn a_window_is_no_longer_the_newest_once_a_newer_one_was_seen() {
        let (options, own) = options();
        let mut state = TimeWindowState::default();
        let (tree, _) = picture::tree("a=1@100 e=1@700");
        assert_eq!(next(&tree, &options, &own, &mut state), None);
        let (tree, names) = picture::tree("a=1@100 b=1@200 e=1@700*");
        assert_eq!(picture::task(&next(&tree, &options, &own, &mut state), &names), "a b -> L0");
    }

    #[test]
    fn expired_sstables_go_along_every_so_often() {
        let (options, own) = options();
        let mut state = TimeWindowState::default();
        let (mut tree, names) = picture::tree("a=1@100x b=1@1000 c=1@1001x e=1@1300");
        assert_eq!(picture::task(&next(&tree, &options, &own, &mut state), &names), "a c -> L0");
        tree.now += 600;
        assert_eq!(picture::task(&next(&tree, &options, &own, &mut state), &names), "b c -> L0");
        tree.now += 1;
        assert_eq!(picture::task(&next(&tree, &options, &own, &mut state), &names), "a c -> L0");
    }

    #[test]
    fn windows_follow_unit_size_and_resolution() {
        let (_, own) = options();
        assert_eq!(window_start(1799, &own), 1200);
        let micros = TimeWindowOptions { timestamp_resolution: TimeUnit::Microseconds, ..own };
        assert_eq!(window_start(1_799_999_999, &micros), 1200);
        let days = TimeWindowOptions { window_unit: TimeUnit::Days, window_size: 2, ..micros };
        assert_eq!(window_start(86_400_000_000 * 3, &days), 86_400 * 2);
        let hours = TimeWindowOptions { window_unit: TimeUnit::Hours, ..days };
        assert_eq!(window_start(3_600_000_000 * 3, &hours), 7200);
    }

    #[test]
    fn what_is_pending_is_counted_by_window() {
        let (options, own) = options();
        let state = TimeWindowState::default();
        let pending = |text: &str| pending(&picture::tree(text).0, &options, &own, &state);
        assert_eq!(pending("1@1 1@2 1@700 1@1300"), 1);
        let older = " 1@1".repeat(70);
        assert_eq!(pending(&format!("{older} 1@700")), 3);
    }
}
