//! Unified compaction: levels by density, each compacted when so many of its SSTables overlap as
//! its scaling parameter says; outputs are split at the boundaries of shards, which are the same
//! for all.
//!
//! Pure functions from what is known of the SSTables to those to compact next. The rules are
//! Cassandra's:
//!
//! 1. Density is size by share of the ring covered. Level n holds densities up to
//!    `flush size * (1 - 0.9 / fanout) * fanout_0 * … * fanout_n`. A fanout is `2 + |w|`, the
//!    threshold `2 + w` for tiered levels (w > 0), 2 for others, w being the level's scaling
//!    parameter.
//! 2. In each level the sets of SSTables are found that overlap at one place; sets of at least the
//!    threshold, with those that overlap them, are buckets. Of the levels that have any, the one
//!    with the greatest overlap is compacted, of its buckets one with that overlap. (In Cassandra a
//!    level below its threshold can hold up one above it that has less overlap.)
//! 3. Of a bucket with more overlap than a fanout, as many of the oldest are taken as make whole
//!    levels.
//! 4. The output is split into shards: a power of two times `base_shard_count`, as its density
//!    says.

use super::options::{Inclusion, UnifiedOptions};
use super::tree::{Cut, Outcome, Task, Tree};

/// The state of a table's unified compaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UnifiedState {
    /// The time of the last check for expired SSTables, seconds since 1970.
    expired_checked: u64,
    /// Counts choices, so that equal buckets take turns.
    turn: usize,
}

/// SSTables that cover less of the ring than this count as covering all of it: they contain few
/// tokens.
const LEAST_COVERAGE: f64 = 1.0 / (1u64 << 48) as f64;
/// The maximum number of shards is the base count times two to this power.
const MAX_SHARD_SHIFT: u32 = 20;

/// Returns the ratio of the densities of consecutive levels.
fn fanout(w: i32) -> usize {
    2 + w.unsigned_abs() as usize
}

/// Returns the number of overlapping SSTables of a level that cause a compaction.
fn threshold(w: i32) -> usize {
    2 + w.max(0) as usize
}

impl UnifiedOptions {
    fn scaling_parameter(&self, level: usize) -> i32 {
        self.scaling_parameters.get(level).or(self.scaling_parameters.last()).copied().unwrap_or(2)
    }

    /// Returns the number of shards for data of this density.
    pub fn shards(&self, density: f64) -> u32 {
        let base = self.base_shard_count;
        if self.min_sstable_size > 0 {
            let count = density / self.min_sstable_size as f64;
            if count.is_nan() || count < f64::from(base) {
                let highest = 1 << ((count as u32) | 1).ilog2();
                // The greatest power of two that divides the base count.
                return highest.min(base & base.wrapping_neg());
            }
        }
        let target = self.target_sstable_size as f64;
        let growth = self.sstable_growth;
        if growth == 1.0 {
            return base;
        }
        if growth == 0.0 {
            let count = density / (target * 0.5f64.sqrt() * f64::from(base));
            let count = count.min(f64::from(1 << MAX_SHARD_SHIFT)) as u32;
            return base * (1 << (count | 1).ilog2());
        }
        let count = density / (target * f64::from(base));
        let power = count.log2() * (1.0 - growth) + 0.5;
        if power >= 0.0 { base << (power as u32).min(MAX_SHARD_SHIFT) } else { base }
    }
}

/// Returns the fraction of the ring between two tokens.
fn coverage((first, last): (i64, i64)) -> f64 {
    let share = (i128::from(last) - i128::from(first) + 1) as f64 / 2f64.powi(64);
    if share >= LEAST_COVERAGE { share } else { 1.0 }
}

fn density(tree: &Tree, i: usize) -> f64 {
    let sstable = &tree.sstables[i];
    sstable.size as f64 / coverage((sstable.first, sstable.last))
}

/// Returns the last tokens of all `count` shards but the last.
fn boundaries(count: u32) -> Vec<i64> {
    let step = (1u128 << 64) / u128::from(count.max(1));
    (1..i128::from(count)).map(|n| (i128::from(i64::MIN) + n * step as i128) as i64).collect()
}

/// Returns the boundaries between outputs of a compaction of these inputs.
fn cut(tree: &Tree, inputs: &[usize], own: &UnifiedOptions) -> Cut {
    let Some(span) = tree.span(inputs.iter().copied()) else { return Cut::Never };
    let density = tree.bytes(inputs.iter().copied()) as f64 / coverage(span);
    Cut::Shards(boundaries(own.shards(density)))
}

/// A merge of these, split as their density says.
pub fn merge(tree: &Tree, inputs: Vec<usize>, own: &UnifiedOptions) -> Task {
    let outcome = Outcome::Merged { level: 0, cut: cut(tree, &inputs, own) };
    Task { outcome, ..Task::merge(inputs) }
}

/// A level: SSTables of like density.
struct Level {
    index: usize,
    sstables: Vec<usize>,
}

fn levels(tree: &Tree, mut among: Vec<usize>, own: &UnifiedOptions) -> Vec<Level> {
    among.sort_by(|a, b| density(tree, *a).total_cmp(&density(tree, *b)));
    let flush = match own.flush_size_override {
        0 => tree.flush_size.max(1).div_ceil(1 << 20) << 20,
        size => size,
    };
    let base_fanout = fanout(own.scaling_parameter(0)) as f64;
    let base = flush.max(1 << 20) as f64 * (1.0 - 0.9 / base_fanout);
    let mut max = (base * base_fanout).floor();
    let mut levels = vec![Level { index: 0, sstables: Vec::new() }];
    for i in among {
        while density(tree, i) >= max {
            let index = levels.len();
            max = (max * fanout(own.scaling_parameter(index)) as f64).floor();
            levels.push(Level { index, sstables: Vec::new() });
        }
        let last = levels.len() - 1;
        levels[last].sstables.push(i);
    }
    levels
}

/// Sets of SSTables that all overlap at some token; in order of tokens, none within another.
fn overlap_sets(tree: &Tree, sstables: &[usize]) -> Vec<Vec<usize>> {
    let mut by_start = sstables.to_vec();
    by_start.sort_by_key(|i| tree.sstables[*i].first);
    let mut sets = Vec::new();
    let mut active: Vec<usize> = Vec::new();
    for i in by_start {
        let ended = |other: &usize| tree.sstables[*other].last < tree.sstables[i].first;
        if active.iter().any(ended) {
            sets.push(active.clone());
            active.retain(|other| !ended(other));
        }
        active.push(i);
    }
    if !active.is_empty() {
        sets.push(active);
    }
    sets
}

/// Neighbouring overlap sets that are compacted together.
fn buckets(sets: Vec<Vec<usize>>, threshold: usize, inclusion: Inclusion) -> Vec<Vec<Vec<usize>>> {
    let mut buckets = Vec::new();
    let mut free_from = 0;
    let mut at = 0;
    while at < sets.len() {
        if sets[at].len() < threshold {
            at += 1;
            continue;
        }
        let (mut start, mut end) = (at, at + 1);
        if inclusion != Inclusion::None {
            let mut target = sets[at].clone();
            let meets = |target: &[usize], set: &[usize]| set.iter().any(|i| target.contains(i));
            while start > free_from && meets(&target, &sets[start - 1]) {
                start -= 1;
                if inclusion == Inclusion::Transitive {
                    target.extend(&sets[start]);
                }
            }
            while end < sets.len() && meets(&target, &sets[end]) {
                if inclusion == Inclusion::Transitive {
                    target.extend(&sets[end]);
                }
                end += 1;
            }
        }
        buckets.push(sets[start..end].to_vec());
        free_from = end;
        at = end;
    }
    buckets
}

fn max_overlap(sets: &[Vec<usize>]) -> usize {
    sets.iter().map(Vec::len).max().unwrap_or(0)
}

/// What of a bucket is compacted.
fn pick(tree: &Tree, level: usize, bucket: &[Vec<usize>], own: &UnifiedOptions) -> Vec<usize> {
    let overlap = max_overlap(bucket);
    let mut all: Vec<usize> = bucket.concat();
    all.sort_unstable();
    all.dedup();
    // The oldest first.
    all.sort_by_key(|i| tree.sstables[*i].max_timestamp);
    let w = own.scaling_parameter(level);
    let most = match own.max_sstables_to_compact {
        0 => usize::MAX,
        most => most.max(fanout(w)),
    };
    let limit = if overlap <= fanout(w) {
        return all;
    } else if overlap <= fanout(w) * fanout(own.scaling_parameter(level + 1)) || most == fanout(w) {
        if overlap <= most {
            return all;
        }
        most
    } else {
        // As many as give one SSTable of some higher level.
        let limit = most.min(overlap);
        let (mut size, mut next, mut index) = (fanout(w), fanout(w), level);
        while next <= limit {
            size = next;
            index += 1;
            next = next.saturating_mul(fanout(own.scaling_parameter(index)));
        }
        if w < 0 { size * (limit / size) } else { size }
    };
    let mut taken = vec![0; bucket.len()];
    let mut end = 0;
    'oldest: for i in &all {
        for (set, taken) in bucket.iter().zip(&mut taken) {
            if set.contains(i) {
                *taken += 1;
                if *taken > limit {
                    break 'oldest;
                }
            }
        }
        end += 1;
    }
    all.truncate(end);
    all
}

/// The compaction to do next, if there is one.
pub fn next(tree: &Tree, own: &UnifiedOptions, state: &mut UnifiedState) -> Option<Task> {
    let mut free: Vec<usize> = tree.free().collect();
    let mut expired = Vec::new();
    if tree.now.saturating_sub(state.expired_checked) > own.expired_check_seconds {
        state.expired_checked = tree.now;
        expired = free.extract_if(.., |i| tree.sstables[*i].is_expired).collect();
    }
    let mut best: Option<(usize, Level, Vec<Vec<usize>>)> = None;
    for level in levels(tree, free, own) {
        let sets = overlap_sets(tree, &level.sstables);
        let overlap = max_overlap(&sets);
        let is_due = overlap >= threshold(own.scaling_parameter(level.index));
        if is_due && overlap > best.as_ref().map_or(0, |(overlap, ..)| *overlap) {
            best = Some((overlap, level, sets));
        }
    }
    let mut inputs = Vec::new();
    if let Some((overlap, level, sets)) = best {
        let buckets = buckets(sets, threshold(own.scaling_parameter(level.index)), own.inclusion);
        let greatest: Vec<_> = buckets.iter().filter(|bucket| max_overlap(bucket) == overlap).collect();
        if !greatest.is_empty() {
            state.turn = state.turn.wrapping_add(1);
            inputs = pick(tree, level.index, greatest[state.turn % greatest.len()], own);
        }
    }
    inputs.extend(expired);
    (!inputs.is_empty()).then(|| merge(tree, inputs, own))
}

/// A compaction of everything: one for each group that shares no tokens with the others.
pub fn major(tree: &Tree, own: &UnifiedOptions) -> Vec<Task> {
    let free: Vec<usize> = tree.free().collect();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for set in overlap_sets(tree, &free) {
        match groups.last_mut() {
            Some(group) if set.iter().any(|i| group.contains(i)) => group.extend(set),
            _ => groups.push(set),
        }
    }
    let unique = |mut group: Vec<usize>| {
        group.sort_unstable();
        group.dedup();
        group
    };
    groups.into_iter().map(|group| merge(tree, unique(group), own)).collect()
}

/// How many compactions are still to be done, about.
pub fn pending(tree: &Tree, own: &UnifiedOptions) -> usize {
    let of_level = |level: Level| {
        let threshold = threshold(own.scaling_parameter(level.index));
        let buckets = buckets(overlap_sets(tree, &level.sstables), threshold, own.inclusion);
        buckets.iter().map(|bucket| max_overlap(bucket) / threshold).sum::<usize>()
    };
    levels(tree, tree.free().collect(), own).into_iter().map(of_level).sum()
}

/// How many SSTables reads could be spared if compaction had caught up.
pub fn debt(tree: &Tree, own: &UnifiedOptions) -> usize {
    let all = (0..tree.sstables.len()).collect();
    let of_level = |level: Level| {
        let overlap = max_overlap(&overlap_sets(tree, &level.sstables));
        overlap.saturating_sub(threshold(own.scaling_parameter(level.index)) - 1)
    };
    levels(tree, all, own).into_iter().map(of_level).sum()
}

#[cfg(test)]
mod tests {
    use super::super::tree::picture;
    use super::*;

    /// A tree whose tokens 0 to 99 stand for the whole ring.
    fn ring(text: &str) -> (Tree, Vec<String>) {
        let (mut tree, names) = picture::tree(text);
        let hundredth = (u64::MAX / 100) as i128;
        let place = |token: i64| (i128::from(i64::MIN) + i128::from(token) * hundredth) as i64;
        for sstable in &mut tree.sstables {
            sstable.first = place(sstable.first);
            sstable.last = (i128::from(place(sstable.last)) + hundredth - 1) as i64;
        }
        (tree, names)
    }

    fn options(scaling_parameters: &[i32]) -> UnifiedOptions {
        let scaling_parameters = scaling_parameters.to_vec();
        UnifiedOptions {
            scaling_parameters,
            min_sstable_size: 0,
            base_shard_count: 1,
            ..UnifiedOptions::default()
        }
    }

    fn chosen(text: &str, own: &UnifiedOptions) -> String {
        let (tree, names) = ring(text);
        let mut state = UnifiedState { expired_checked: tree.now, ..UnifiedState::default() };
        picture::task(&next(&tree, own, &mut state), &names)
    }

    #[test]
    fn pictures_of_tiered_levels() {
        // Flushes of 100 MiB, fanout 4: levels up to 310, 1240, 4960 MiB.
        for (text, expected) in [
            ("a=100 b=100 c=100", "nothing"),
            ("a=100 b=100 c=100 d=100", "a b c d -> 1 shards"),
            ("a=100 b=100 c=100 d=400", "nothing"),
            ("a=400 b=400 c=500 d=1200 e=100", "a b c d -> 2 shards"),
            // Half the ring: twice the density.
            ("a=100 b=100 c=100 d=160[0-49]", "nothing"),
            ("a=100 b=100 c=100 d=100[0-49]", "a b c d -> 1 shards"),
            // They do not overlap at one place.
            ("a=50[0-49] b=50[0-49] c=50[50-99] d=50[50-99]", "nothing"),
            // Those that overlap a bucket come along.
            ("a=40[0-30] b=40[0-30] c=40[0-30] d=90[20-70] e=30[60-80] f=20[90-99]", "a b c d e -> 1 shards"),
            ("a=100 b=100 c=100 d=100*", "nothing"),
        ] {
            assert_eq!(chosen(text, &options(&[2])), expected, "{text}");
        }
    }

    #[test]
    fn pictures_of_leveled_and_mixed_levels() {
        // Leveled with fanout 4: two overlapping make a compaction.
        assert_eq!(chosen("a=100 b=100", &options(&[-2])), "a b -> 1 shards");
        assert_eq!(chosen("a=100 b=400", &options(&[-2])), "nothing");
        // Tiered below, leveled above: 310 MiB end the first level.
        assert_eq!(chosen("a=100 b=100 c=400 d=400", &options(&[2, -8])), "c d -> 1 shards");
    }

    #[test]
    fn the_level_with_the_greatest_overlap_goes_first_and_the_oldest_of_many() {
        let four = "a=400 b=400 c=400 d=400";
        assert_eq!(
            chosen(&format!("{four} 1=100 2=100 3=100 4=100 5=100"), &options(&[2])),
            "1=100 2=100 3=100 4=100 5=100 -> 1 shards".replace("=100", "")
        );
        // 20 of fanout 4: 16 make one SSTable two levels up.
        let many: String = (0..20).map(|n| format!(" s{n:02}=100@{}", 20 - n)).collect();
        let answer = chosen(&many, &options(&[2]));
        assert!(answer.starts_with("s04 ") && answer.contains("s19") && !answer.contains("s03"), "{answer}");
    }

    #[test]
    fn only_what_overlaps_directly_comes_along_if_so_told() {
        let text = "a=40[0-30] b=40[0-30] c=40[0-30] d=90[20-70] e=30[60-80] f=20[75-99]";
        let included = |inclusion| chosen(text, &UnifiedOptions { inclusion, ..options(&[2]) });
        assert_eq!(included(Inclusion::Transitive), "a b c d e f -> 1 shards");
        assert_eq!(included(Inclusion::Single), "a b c d e -> 1 shards");
        assert_eq!(included(Inclusion::None), "a b c d -> 1 shards");
    }

    #[test]
    fn the_number_of_shards_follows_density_target_growth_and_the_least_size() {
        let gib = f64::from(1 << 30);
        let options = UnifiedOptions::default();
        // Less than 4 * 100 MiB: as many powers of two as make 100 MiB each.
        for (density, expected) in
            [(0.05, 1), (0.1, 1), (0.2, 2), (0.3, 2), (0.4, 4), (4.0, 4), (8.0, 8), (64.0, 32)]
        {
            assert_eq!(options.shards(density * gib), expected, "{density} GiB");
        }
        let fixed = UnifiedOptions { sstable_growth: 1.0, ..options.clone() };
        assert_eq!(fixed.shards(1000.0 * gib), 4);
        let many = UnifiedOptions { sstable_growth: 0.0, ..options };
        assert_eq!([4.0, 8.0, 64.0].map(|density| many.shards(density * gib)), [4, 8, 64]);
        assert_eq!(boundaries(4), [i64::MIN / 2, 0, i64::MAX / 2 + 1]);
        assert_eq!(boundaries(1), [0; 0]);
    }

    #[test]
    fn everything_is_compacted_by_groups_that_share_no_tokens() {
        let (tree, names) = ring("a=10[0-10] b=10[5-20] c=10[15-30] d=10[40-50] e=10[45-60]*");
        let tasks: Vec<_> =
            major(&tree, &options(&[2])).into_iter().map(|task| picture::task(&Some(task), &names)).collect();
        assert_eq!(tasks, ["a b c -> 1 shards", "d -> 1 shards"]);
    }

    #[test]
    fn expired_sstables_go_along() {
        let (tree, names) = ring("a=100x b=100");
        let mut state = UnifiedState::default();
        assert_eq!(picture::task(&next(&tree, &options(&[2]), &mut state), &names), "a -> 1 shards");
        assert_eq!(next(&tree, &options(&[2]), &mut state), None);
    }
}
