//! Leveled compaction: in each level except L0, SSTables share no tokens, and each level is
//! `fanout_size` times as large as the previous one. A read opens one SSTable of each level, and
//! those of L0.
//!
//! Pure functions from the properties of the SSTables to the next compaction. The rules are
//! Cassandra's except for the choice of the SSTable in rule 1, for outputs that end where SSTables
//! of the next level end, and for single SSTables of L0. These are RocksDB's
//! (`kMinOverlappingRatio`, file cutting, `level0_file_num_compaction_trigger`), and reduce write
//! amplification:
//!
//! 1. From the highest level down, a level above its capacity compacts one SSTable into the next
//!    level: the one with the fewest overlapping bytes of the next level for each of its bytes,
//!    together with those that it shares tokens with. If L0 has more than 32 SSTables, these are
//!    compacted among themselves first, size-tiered.
//! 2. A higher level that has not been compacted for 25 rounds contributes an SSTable whose tokens
//!    are within those of the task.
//! 3. If no level is above its capacity, L0 is compacted: the oldest SSTable and those that it
//!    shares tokens with. If they exceed the size of one output, they are merged into L1 with the
//!    overlapping SSTables there. Otherwise the output stays in L0. A single SSTable within the
//!    capacity of L0 is not compacted.
//! 4. If none of these applies, an SSTable is compacted alone for its tombstones.

use super::options::{CompactionOptions, LeveledOptions, MAX_LEVELS};
use super::size_tiered;
use super::tree::{Candidate, Cut, Outcome, Task, Tree};

/// With more SSTables in L0, these are compacted among themselves.
const L0_BEHIND: usize = 32;
/// The number of rounds without compaction after which a level is starving.
const STARVING_ROUNDS: u32 = 25;
/// A level may exceed its capacity by a thousandth.
const SLACK: f64 = 1.001;

/// The state of a table's leveled compaction between tasks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeveledState {
    /// The first token of the last output of a compaction of each level.
    last_compacted: [Option<i64>; MAX_LEVELS],
    /// Rounds since each level received an SSTable.
    idle: [u32; MAX_LEVELS],
}

impl LeveledState {
    /// Records a compaction whose inputs' lowest level was `level`; `greatest_first` is the
    /// greatest first token of its outputs.
    pub fn compacted(&mut self, level: usize, greatest_first: i64) {
        if let Some(last) = self.last_compacted.get_mut(level) {
            *last = Some(greatest_first);
        }
    }
}

/// Returns the capacity of a level in bytes.
pub fn capacity(level: usize, options: &LeveledOptions) -> u64 {
    match level {
        0 => options.sstable_size.saturating_mul(4),
        _ => (f64::from(options.fanout_size).powi(level as i32) * options.sstable_size as f64) as u64,
    }
}

/// Returns the next compaction, if there is one.
pub fn next(
    tree: &Tree,
    options: &CompactionOptions,
    own: &LeveledOptions,
    state: &mut LeveledState,
) -> Option<Task> {
    let levels = tree.levels();
    let l0_among_itself = l0_behind(tree, &levels, options, own);
    for level in (1..MAX_LEVELS).rev() {
        let idle = levels[level].iter().copied().filter(|i| !tree.sstables[*i].compacting);
        let score = tree.bytes(idle) as f64 / capacity(level, own) as f64;
        // The highest level has no next one.
        if score <= SLACK || level == MAX_LEVELS - 1 {
            continue;
        }
        if l0_among_itself.is_some() {
            return l0_among_itself;
        }
        let mut inputs = from_level(tree, &levels, level, state);
        if !inputs.is_empty() {
            let target = target_level(tree, &levels, &inputs, own);
            add_starving(tree, &levels, target, &mut inputs, state);
            return Some(task(tree, &levels, inputs, target, own));
        }
    }
    let inputs = from_l0(tree, &levels, options, own);
    if !inputs.is_empty() {
        let target = target_level(tree, &levels, &inputs, own);
        Some(task(tree, &levels, inputs, target, own))
    } else {
        l0_among_itself.or_else(|| for_tombstones(tree, &levels, options, own))
    }
}

fn task(tree: &Tree, levels: &[Vec<usize>], inputs: Vec<usize>, level: usize, own: &LeveledOptions) -> Task {
    let outcome = if own.single_sstable_uplevel && inputs.len() == 1 {
        Outcome::Relabeled { level: level as u32 }
    } else {
        Outcome::Merged { level: level as u32, cut: cut(tree, levels, &inputs, level, own) }
    };
    Task { inputs, outcome, for_tombstones: false }
}

/// Returns where outputs of a level end: at their size, or earlier where SSTables of the next level
/// end. An output that overlaps six SSTables of the next level and part of a seventh would later
/// rewrite seven; one that ends with the sixth rewrites six. Outputs in L0 overlap no next level in
/// this sense.
fn cut(tree: &Tree, levels: &[Vec<usize>], inputs: &[usize], level: usize, own: &LeveledOptions) -> Cut {
    let next = levels.get(level + 1).filter(|_| level > 0).map_or(&[][..], Vec::as_slice);
    let span = tree.span(inputs.iter().copied()).unwrap_or((0, 0));
    let ends = next.iter().map(|i| tree.sstables[*i].last).filter(|end| (span.0..span.1).contains(end));
    Cut::AtSize { size: own.sstable_size, ends: ends.collect() }
}

fn l0_behind(
    tree: &Tree,
    levels: &[Vec<usize>],
    options: &CompactionOptions,
    own: &LeveledOptions,
) -> Option<Task> {
    if levels[0].len() <= L0_BEHIND {
        return None;
    }
    let free: Vec<usize> = levels[0].iter().copied().filter(|i| tree.sstables[*i].is_free()).collect();
    let bucket = size_tiered::most_interesting(tree, &free, options, &own.size_tiered);
    (!bucket.is_empty()).then(|| Task::merge(bucket))
}

/// Returns an SSTable of the level with the overlapping ones of the next level: of all available
/// candidates, the one with the fewest overlapping bytes for each of its bytes. Among equals, the
/// first after the last compacted one.
fn from_level(tree: &Tree, levels: &[Vec<usize>], level: usize, state: &LeveledState) -> Vec<usize> {
    // `levels` are sorted by token, and SSTables of one level do not overlap.
    let own = &levels[level];
    let next = &levels[level + 1];
    let last = state.last_compacted[level].or_else(|| {
        // After a start: the latest output in the next level came from here.
        let newest = next.iter().max_by_key(|i| tree.sstables[**i].created);
        newest.map(|i| tree.sstables[*i].first)
    });
    let start = last.map_or(0, |last| own.partition_point(|i| tree.sstables[*i].first <= last));
    let met = |sstable: &Candidate| {
        let begin = next.partition_point(|i| tree.sstables[*i].last < sstable.first);
        let end = next.partition_point(|i| tree.sstables[*i].first <= sstable.last);
        &next[begin..end.max(begin)]
    };
    let is_free = |i: &usize| tree.sstables[*i].is_free();
    let candidates = own[start..].iter().chain(&own[..start]).filter(|i| is_free(i));
    let candidates =
        candidates.map(|i| (*i, met(&tree.sstables[*i]))).filter(|(_, met)| met.iter().all(is_free));
    let cost = |(i, met): &(usize, &[usize])| {
        tree.bytes(met.iter().copied()) as f64 / tree.sstables[*i].size.max(1) as f64
    };
    match candidates.min_by(|a, b| cost(a).total_cmp(&cost(b))) {
        Some((i, met)) => std::iter::once(i).chain(met.iter().copied()).collect(),
        None => Vec::new(),
    }
}

fn from_l0(
    tree: &Tree,
    levels: &[Vec<usize>],
    options: &CompactionOptions,
    own: &LeveledOptions,
) -> Vec<usize> {
    let is_compacting = |i: &usize| tree.sstables[*i].compacting;
    let compacting: Vec<usize> = levels[0].iter().copied().filter(is_compacting).collect();
    let busy = tree.span(compacting.iter().copied());
    let mut by_age: Vec<usize> = levels[0].iter().copied().filter(|i| !tree.sstables[*i].suspect).collect();
    by_age.sort_by_key(|i| (tree.sstables[*i].max_timestamp, *i));
    let mut chosen: Vec<usize> = Vec::new();
    let mut remaining = by_age.clone();
    for i in by_age {
        if chosen.contains(&i) {
            continue;
        }
        let sstable = &tree.sstables[i];
        let tokens = (sstable.first, sstable.last);
        let mut met: Vec<usize> =
            remaining.iter().copied().filter(|other| tree.sstables[*other].meets(tokens)).collect();
        if !met.contains(&i) {
            met.push(i);
        }
        if met.iter().any(is_compacting) {
            continue;
        }
        chosen.extend(met.iter().filter(|i| busy.is_none_or(|busy| !tree.sstables[**i].meets(busy))));
        remaining.retain(|other| !met.contains(other));
        if chosen.len() > options.max_threshold {
            chosen.sort_by_key(|i| (tree.sstables[*i].max_timestamp, *i));
            chosen.truncate(options.max_threshold);
            break;
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    // A single SSTable would rewrite all of L1: it waits for a second one.
    if chosen.len() == 1 && tree.bytes(chosen.iter().copied()) <= capacity(0, own) {
        return Vec::new();
    }
    if tree.bytes(chosen.iter().copied()) > own.sstable_size
        && let Some(tokens) = tree.span(chosen.iter().copied())
    {
        let met = levels[1].iter().copied().filter(|i| tree.sstables[*i].meets(tokens));
        let met: Vec<usize> = met.collect();
        let in_the_way = met.iter().any(|i| !tree.sstables[*i].is_free())
            || compacting.iter().any(|i| tree.sstables[*i].meets(tokens));
        if in_the_way {
            return Vec::new();
        }
        chosen.extend(met);
    }
    if chosen.len() < 2 { Vec::new() } else { chosen }
}

fn level_of(levels: &[Vec<usize>], i: usize) -> usize {
    levels.iter().position(|level| level.contains(&i)).unwrap_or(0)
}

fn target_level(tree: &Tree, levels: &[Vec<usize>], inputs: &[usize], own: &LeveledOptions) -> usize {
    let of_inputs = inputs.iter().map(|i| level_of(levels, *i));
    let (min, max) = of_inputs.fold((usize::MAX, 0), |(min, max), level| (min.min(level), max.max(level)));
    if max == 0 && tree.bytes(inputs.iter().copied()) < own.sstable_size {
        return 0;
    }
    if min == max { max + 1 } else { max }
}

/// Adds an SSTable of the highest level, if that has been idle for too long.
fn add_starving(
    tree: &Tree,
    levels: &[Vec<usize>],
    target: usize,
    inputs: &mut Vec<usize>,
    state: &mut LeveledState,
) {
    state.idle[1..].iter_mut().for_each(|rounds| *rounds += 1);
    state.idle[target] = 0;
    let Some(highest) = (1..MAX_LEVELS).rev().find(|level| !levels[*level].is_empty()) else { return };
    if state.idle[highest] <= STARVING_ROUNDS {
        return;
    }
    // No SSTable of a higher level is within a single token.
    let Some((first, last)) = tree.span(inputs.iter().copied()).filter(|span| span.0 < span.1) else {
        return;
    };
    let within = |i: &&usize| {
        let sstable = &tree.sstables[**i];
        sstable.first >= first && sstable.last <= last && sstable.is_free() && !inputs.contains(i)
    };
    let starving = levels[highest].iter().find(within).copied();
    inputs.extend(starving);
}

fn for_tombstones(
    tree: &Tree,
    levels: &[Vec<usize>],
    options: &CompactionOptions,
    own: &LeveledOptions,
) -> Option<Task> {
    for (level, sstables) in levels.iter().enumerate().rev() {
        let droppable = |i: &usize| tree.sstables[*i].droppable_ratio;
        let mut by_ratio = sstables.clone();
        by_ratio.sort_by(|a, b| droppable(b).total_cmp(&droppable(a)));
        let mut worth = by_ratio.into_iter().take_while(|i| droppable(i) > options.tombstone_threshold);
        let found =
            worth.find(|i| tree.sstables[*i].is_free() && tree.sstables[*i].worth_dropping_tombstones);
        if let Some(found) = found {
            let cut = cut(tree, levels, &[found], level, own);
            let outcome = Outcome::Merged { level: level as u32, cut };
            return Some(Task { inputs: vec![found], outcome, for_tombstones: true });
        }
    }
    None
}

/// Returns the merge of these SSTables on command: the output of several is in L0, a single one
/// stays in its level.
pub fn merge(tree: &Tree, inputs: Vec<usize>, own: &LeveledOptions) -> Task {
    let levels = tree.levels();
    match inputs[..] {
        [one] if level_of(&levels, one) > 0 => {
            let level = level_of(&levels, one);
            let cut = cut(tree, &levels, &inputs, level, own);
            Task { outcome: Outcome::Merged { level: level as u32, cut }, ..Task::merge(inputs) }
        }
        _ => Task::merge(inputs),
    }
}

/// Returns a compaction of all SSTables, which fills L1, then L2, and so on.
pub fn major(tree: &Tree, own: &LeveledOptions) -> Vec<Task> {
    let inputs: Vec<usize> = tree.free().collect();
    let cut = Cut::IntoLevels { size: own.sstable_size, fanout: own.fanout_size };
    let outcome = Outcome::Merged { level: 1, cut };
    if inputs.is_empty() { Vec::new() } else { vec![Task { inputs, outcome, for_tombstones: false }] }
}

/// Returns the approximate number of pending compactions.
pub fn pending(tree: &Tree, options: &CompactionOptions, own: &LeveledOptions) -> usize {
    let levels = tree.levels();
    let mut tasks = 0;
    for (level, sstables) in levels.iter().enumerate() {
        let allowed = (capacity(level, own) as f64 * SLACK) as u64;
        tasks += tree.bytes(sstables.iter().copied()).saturating_sub(allowed).div_ceil(own.sstable_size);
    }
    if levels[0].len() > options.max_threshold {
        tasks += (levels[0].len() / options.max_threshold) as u64;
    }
    tasks as usize
}

/// Returns the number of SSTables that reads would be spared if compaction had caught up.
pub fn debt(tree: &Tree) -> usize {
    tree.levels()[0].len()
}

#[cfg(test)]
mod tests {
    use super::super::tree::picture;
    use super::*;

    fn options() -> (CompactionOptions, LeveledOptions) {
        let own = LeveledOptions { sstable_size: 100 << 20, fanout_size: 10, ..LeveledOptions::default() };
        (CompactionOptions::default(), own)
    }

    fn chosen(text: &str) -> String {
        let (options, own) = options();
        let (tree, names) = picture::tree(text);
        picture::task(&next(&tree, &options, &own, &mut LeveledState::default()), &names)
    }

    #[test]
    fn pictures_of_l0() {
        for (text, expected) in [
            ("L0: a=60", "nothing"),
            // A single SSTable waits for another, unless it exceeds the capacity of L0.
            ("L0: a=400\nL1: c=100[30-40]", "nothing"),
            ("L0: a=401\nL1: c=100[30-40]", "a c -> L1 at 100"),
            ("L0: a=400[0-9] b=1[50-60]\nL1: c=100[30-40]", "a b c -> L1 at 100"),
            // Less than an output stays in L0.
            ("L0: a=40 b=40", "a b -> L0 at 100"),
            ("L0: a=60 b=60", "a b -> L1 at 100"),
            // With the overlapping SSTables of L1.
            ("L0: a=60[0-50] b=60[10-60]\nL1: c=100[0-20] d=100[21-60] e=100[61-99]", "a b c d -> L1 at 100"),
            // SSTables without common tokens are compacted together, too.
            ("L0: a=60[0-9] b=60[50-60]\nL1: c=100[30-40]", "a b c -> L1 at 100"),
            // An SSTable of L1 that is needed is being compacted.
            ("L0: a=60[0-50] b=60[10-60]\nL1: c=100[0-20]* d=100[21-60]", "nothing"),
            // SSTables that overlap a running compaction wait.
            ("L0: a=60[0-10] b=60[0-10]* c=60[20-30] d=60[20-30]", "c d -> L1 at 100"),
            ("L0: a=60 b=60 c=60?", "a b -> L1 at 100"),
        ] {
            assert_eq!(chosen(text), expected, "{text}");
        }
    }

    #[test]
    fn outputs_may_end_where_sstables_of_the_level_after_theirs_do() {
        let l1: String = (0..11).map(|n| format!(" a{n:02}=100[{}-{}]", n * 10, n * 10 + 9)).collect();
        for (text, expected) in [
            (
                "L0: a=60 b=60\nL1: c=100[0-50]\nL2: d=100[0-20] e=100[21-60] f=100[80-99]",
                "a b c -> L1 at 100/20/60",
            ),
            // Outputs in L2 are cut by L3, within the tokens of the task.
            (
                &*format!("L1:{l1}\nL2: b=100[0-15]\nL3: c=100[2-3] d=100[4-7] e=100[8-90]"),
                "a02 -> L2 at 100",
            ),
            (&*format!("L1:{l1}\nL2: b=9[0-109]\nL3: c=100[2-3] d=100[8-108]"), "a01 b -> L2 at 100/3/108"),
            ("L1: a=100[0-9]%50!\nL2: b=100[0-4]%10!", "a -> L1 at 100/4 (tombstones)"),
        ] {
            assert_eq!(chosen(text), expected, "{text}");
        }
    }

    #[test]
    fn l0_compacts_the_oldest_up_to_max_threshold() {
        let (mut options, own) = options();
        options.max_threshold = 4;
        let (tree, names) = picture::tree("L0: a=50@5 b=50@1 c=50@6 d=50@2 e=50@3 f=50@4");
        let task = next(&tree, &options, &own, &mut LeveledState::default());
        assert_eq!(picture::task(&task, &names), "b d e f -> L1 at 100");
    }

    #[test]
    fn l0_that_falls_behind_is_compacted_among_itself_before_the_levels() {
        let l0: String = (0..33).map(|n| format!(" z{n:02}=100@{n}")).collect();
        let l1: String = (0..11).map(|n| format!(" y{n:02}=100[{}-{}]", n * 9, n * 9 + 8)).collect();
        let text = format!("L0:{l0}\nL1:{l1}");
        let answer = chosen(&text);
        assert!(answer.starts_with("z00 z01") && answer.ends_with(" -> L0"), "{answer}");
        // With 32 SSTables, the level is compacted.
        let text = text.replace(" z32=100@32", "");
        assert_eq!(chosen(&text), "y00 -> L2 at 100");
    }

    #[test]
    fn a_full_level_gives_what_has_the_next_rewrite_least_with_all_that_it_meets() {
        let l1: String = (0..10).map(|n| format!(" a{n}=100[{}-{}]", n * 10, n * 10 + 9)).collect();
        let l2 = "b=900[0-89] c=200[90-94] d=100[95-99] e=90[100-104] f=90[105-109]";
        for (last, l2, expected) in [
            // For each byte: 180 for 100 are fewer than 300 for 100, and 180 for 50 are more.
            ("z=100[100-109]", l2, "e f z -> L2 at 100"),
            ("z=50[100-109] y=50[110-119]", &format!("{l2} g=190[110-119]"), "a9 c d -> L2 at 100"),
            // An overlapping SSTable is being compacted, or the SSTable itself is.
            ("z=100[100-109]", &l2.replace("[100-104]", "[100-104]*"), "a9 c d -> L2 at 100"),
            ("z=100[100-109]* y=100[110-119]", &format!("{l2} g=990[110-119]"), "a9 c d -> L2 at 100"),
            // No overlapping SSTables.
            ("z=100[110-119]", l2, "z -> L2 at 100"),
        ] {
            assert_eq!(chosen(&format!("L1:{l1} {last}\nL2: {l2}")), expected, "{last} {l2}");
        }
    }

    #[test]
    fn of_equals_a_full_level_gives_the_one_after_the_last() {
        let (options, own) = options();
        let l1: String = (0..11).map(|n| format!(" a{n:02}=100[{}-{}]", n * 10, n * 10 + 9)).collect();
        let l2: String = (0..11).map(|n| format!(" b{n:02}=100[{}-{}]", n * 10, n * 10 + 9)).collect();
        let (mut tree, names) = picture::tree(&format!("L1:{l1}\nL2:{l2}"));
        let mut state = LeveledState::default();
        let answer =
            |tree: &Tree, state: &mut LeveledState| picture::task(&next(tree, &options, &own, state), &names);
        state.compacted(1, -1);
        assert_eq!(answer(&tree, &mut state), "a00 b00 -> L2 at 100");
        state.compacted(1, 0);
        assert_eq!(answer(&tree, &mut state), "a01 b01 -> L2 at 100");
        // After the last SSTable, the first is next.
        state.compacted(1, 100);
        assert_eq!(answer(&tree, &mut state), "a00 b00 -> L2 at 100");
        // A needed SSTable is being compacted: the next one is chosen.
        tree.sstables[11].compacting = true;
        assert_eq!(answer(&tree, &mut state), "a01 b01 -> L2 at 100");
        // After a start, the one after the latest output in the next level.
        tree.sstables[13].created = 7;
        assert_eq!(answer(&tree, &mut LeveledState::default()), "a03 b03 -> L2 at 100");
    }

    #[test]
    fn a_lone_sstable_moves_up_without_being_rewritten_if_that_is_asked_for() {
        let (options, own) = options();
        let own = LeveledOptions { single_sstable_uplevel: true, ..own };
        let l1: String = (0..11).map(|n| format!(" a{n:02}=100[{}-{}]", n * 10, n * 10 + 9)).collect();
        let (tree, names) = picture::tree(&format!("L1:{l1}\nL2: b=100[10-19]"));
        let task = next(&tree, &options, &own, &mut LeveledState::default());
        assert_eq!(picture::task(&task, &names), "a02 -> relabeled L2");
    }

    #[test]
    fn the_highest_full_level_goes_first_and_capacities_grow_by_the_fanout() {
        let l1: String = (0..20).map(|n| format!(" a{n:02}=100[{}-{}]", n * 10, n * 10 + 9)).collect();
        let l2 = |mib: u32| format!(" b0=9900[0-50] b1={mib}[51-99]");
        assert_eq!(chosen(&format!("L1:{l1}\nL2:{}", l2(111))), "b0 -> L3 at 100");
        // Exceeding the capacity by up to a thousandth is tolerated.
        assert_eq!(chosen(&format!("L1:{l1}\nL2:{}", l2(109))), "a10 -> L2 at 100");
        let (_, own) = options();
        let capacities: Vec<_> = (0..4).map(|level| capacity(level, &own) >> 20).collect();
        assert_eq!(capacities, [400, 1000, 10_000, 100_000]);
    }

    #[test]
    fn a_starving_level_gives_along_an_sstable_that_lies_within() {
        let (options, own) = options();
        let l1: String = (0..11).map(|n| format!(" a{n:02}=100[{}-{}]", n * 10, n * 10 + 9)).collect();
        let (tree, names) =
            picture::tree(&format!("L1:{l1}\nL2: b=100[0-109]\nL3: c=100[80-95] e=100[30-40]"));
        let mut state = LeveledState::default();
        let answer = |state: &mut LeveledState| picture::task(&next(&tree, &options, &own, state), &names);
        state.compacted(1, -1);
        for _ in 0..25 {
            assert_eq!(answer(&mut state), "a00 b -> L2 at 100/40/95");
        }
        assert_eq!(answer(&mut state), "a00 b e -> L2 at 100/40/95");
    }

    #[test]
    fn sstables_that_meet_within_a_level_count_as_l0() {
        // As after a change from another strategy.
        let (tree, _) = picture::tree("L1: a=1[0-50] b=1[50-60] c=1[61-70]\nL12: d=1\nL2: e=1[0-99]");
        let levels = tree.levels();
        assert_eq!((&levels[0][..], &levels[1][..], &levels[2][..]), (&[3, 1][..], &[0, 2][..], &[4][..]));
        assert_eq!(chosen("L1: a=60[0-50] b=60[40-60] c=60[30-70]"), "a b c -> L1 at 100");
    }

    #[test]
    fn with_nothing_else_to_do_tombstones_are_dropped_from_the_highest_level_down() {
        for (text, expected) in [
            ("L1: a=100[0-9]%50!\nL2: b=100%30! c=1", "b -> L2 at 100 (tombstones)"),
            ("L1: a=100[0-9]%50!\nL2: b=100%10!", "a -> L1 at 100 (tombstones)"),
            ("L1: a=100[0-9]%50! b=100[10-19]%70!", "b -> L1 at 100 (tombstones)"),
            ("L1: a=100[0-9]%50! b=100[10-19]%70!*", "a -> L1 at 100 (tombstones)"),
            ("L1: a=100[0-9]%50", "nothing"),
        ] {
            assert_eq!(chosen(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_pending_is_counted_in_outputs() {
        let (options, own) = options();
        let pending = |text: &str| pending(&picture::tree(text).0, &options, &own);
        assert_eq!(pending("L0: a=300"), 0);
        assert_eq!(pending("L0: a=501"), 2);
        assert_eq!(pending("L1: a=1300[0-5]"), 3);
        let l0 = " 1".repeat(70);
        assert_eq!(pending(&format!("L0:{l0}")), 2);
    }
}
