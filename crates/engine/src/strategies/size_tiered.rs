//! Size-tiered compaction: SSTables of similar size are merged.
//!
//! Pure functions from the properties of the SSTables to the next compaction. The rules are
//! Cassandra's:
//!
//! 1. SSTables are sorted by size. Each joins the first bucket whose average size is close, between
//!    `bucket_low` and `bucket_high` times that, or any bucket of small ones if it is small itself;
//!    otherwise it starts a bucket.
//! 2. Buckets are cut to the `max_threshold` hottest SSTables; those with fewer than
//!    `min_threshold` are not compacted.
//! 3. The hottest bucket is compacted; of equally hot ones the one with the smaller average size.
//! 4. If there is none, the largest SSTable with enough droppable tombstones is compacted alone.

use super::options::{CompactionOptions, SizeTieredOptions};
use super::tree::{Cut, Outcome, Task, Tree};

/// Returns the next compaction, if there is one.
pub fn next(tree: &Tree, options: &CompactionOptions, own: &SizeTieredOptions) -> Option<Task> {
    let free: Vec<usize> = tree.free().collect();
    let bucket = most_interesting(tree, &free, options, own);
    if !bucket.is_empty() {
        return Some(Task::merge(bucket));
    }
    let alone = free.into_iter().filter(|i| tree.sstables[*i].worth_dropping_tombstones);
    let largest = alone.max_by_key(|i| tree.sstables[*i].size)?;
    Some(Task { for_tombstones: true, ..Task::merge(vec![largest]) })
}

/// Returns the SSTables of the bucket to compact next, of the specified ones; none if no bucket is
/// large enough.
pub(super) fn most_interesting(
    tree: &Tree,
    among: &[usize],
    options: &CompactionOptions,
    own: &SizeTieredOptions,
) -> Vec<usize> {
    let mut best: Option<(Vec<usize>, f64, u64)> = None;
    for mut bucket in buckets(tree, among, own) {
        let hotness = |i: &usize| tree.sstables[*i].hotness;
        bucket.sort_by(|a, b| hotness(b).total_cmp(&hotness(a)));
        bucket.truncate(options.max_threshold);
        if bucket.len() < options.min_threshold {
            continue;
        }
        let hotness = bucket.iter().map(hotness).sum::<f64>();
        let average = tree.bytes(bucket.iter().copied()) / bucket.len() as u64;
        let is_better = best.as_ref().is_none_or(|(_, best_hotness, best_average)| {
            hotness.total_cmp(best_hotness).then(best_average.cmp(&average)).is_gt()
        });
        if is_better {
            best = Some((bucket, hotness, average));
        }
    }
    best.map(|(bucket, ..)| bucket).unwrap_or_default()
}

/// Returns a compaction of all SSTables: into one or, if split, into a half, a quarter and so on.
pub fn major(tree: &Tree, split_output: bool) -> Vec<Task> {
    let inputs: Vec<usize> = tree.free().collect();
    if inputs.is_empty() {
        return Vec::new();
    }
    let cut = if split_output { Cut::Halving(tree.bytes(inputs.iter().copied())) } else { Cut::Never };
    vec![Task { outcome: Outcome::Merged { level: 0, cut }, ..Task::merge(inputs) }]
}

/// Returns the approximate number of pending compactions.
pub fn pending(tree: &Tree, options: &CompactionOptions, own: &SizeTieredOptions) -> usize {
    let free: Vec<usize> = tree.free().collect();
    let qualify = buckets(tree, &free, own).into_iter().filter(|b| b.len() >= options.min_threshold);
    qualify.map(|bucket| bucket.len().div_ceil(options.max_threshold)).sum()
}

/// Returns the number of SSTables that reads would be spared if compaction had caught up.
pub fn debt(tree: &Tree, options: &CompactionOptions, own: &SizeTieredOptions) -> usize {
    let all: Vec<usize> = (0..tree.sstables.len()).collect();
    let qualify = buckets(tree, &all, own).into_iter().filter(|b| b.len() >= options.min_threshold);
    qualify.map(|bucket| bucket.len() - 1).sum()
}

fn buckets(tree: &Tree, among: &[usize], options: &SizeTieredOptions) -> Vec<Vec<usize>> {
    let mut by_size = among.to_vec();
    by_size.sort_by_key(|i| tree.sstables[*i].size);
    let mut buckets: Vec<(u64, Vec<usize>)> = Vec::new();
    for i in by_size {
        let size = tree.sstables[i].size;
        let is_near = |average: u64| {
            let (size, average) = (size as f64, average as f64);
            size > average * options.bucket_low && size < average * options.bucket_high
        };
        let is_small = |size: u64| size < options.min_sstable_size;
        match buckets
            .iter_mut()
            .find(|(average, _)| is_near(*average) || is_small(size) && is_small(*average))
        {
            Some((average, bucket)) => {
                let count = bucket.len() as u64;
                *average = (*average * count + size) / (count + 1);
                bucket.push(i);
            }
            None => buckets.push((size, vec![i])),
        }
    }
    buckets.into_iter().map(|(_, bucket)| bucket).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::picture;
    use super::*;

    fn chosen(picture: &str, options: &CompactionOptions, own: &SizeTieredOptions) -> String {
        let (tree, names) = picture::tree(picture);
        picture::task(&next(&tree, options, own), &names)
    }

    #[test]
    fn pictures_of_buckets() {
        let (options, own) = (CompactionOptions::default(), SizeTieredOptions::default());
        for (picture, expected) in [
            // Too few.
            ("", "nothing"),
            ("a=100 b=100 c=100", "nothing"),
            ("a=100 b=100 c=100 d=100", "a b c d -> L0"),
            // Close to each other, in any order.
            ("a=110 b=90 c=100 d=400 e=95", "a b c e -> L0"),
            // All below 50 MiB are in one bucket.
            ("a=1 b=2 c=49 d=7 e=300", "a b c d -> L0"),
            // Of two equally hot buckets, the smaller one.
            ("a=1000 b=1000 c=1000 d=1000 e=100 f=100 g=100 h=100", "e f g h -> L0"),
            // The hotter one.
            ("a=1000~1 b=1000~1 c=1000~1 d=1000~1 e=100 f=100 g=100 h=100~3", "a b c d -> L0"),
            // Both bounds are strict: 150 is not below 1.5 * 100.
            ("a=100 b=100 c=100 d=150", "nothing"),
            ("a=100 b=100 c=100 d=149", "a b c d -> L0"),
            // SSTables that are being compacted or suspect do not count.
            ("a=100 b=100 c=100 d=100*", "nothing"),
            ("a=100 b=100 c=100 d=100?", "nothing"),
            // Nothing to compact: the largest with enough tombstones, alone.
            ("a=100! b=400 c=200!", "c -> L0 (tombstones)"),
            ("a=100! b=100 c=100 d=100", "a b c d -> L0"),
        ] {
            assert_eq!(chosen(picture, &options, &own), expected, "{picture}");
        }
    }

    #[test]
    fn pictures_of_thresholds() {
        let options =
            CompactionOptions { min_threshold: 2, max_threshold: 3, ..CompactionOptions::default() };
        let own = SizeTieredOptions::default();
        for (picture, expected) in [
            ("a=100 b=400 c=410", "b c -> L0"),
            // The coldest are excluded.
            ("a=101~1 b=102 c=103~5 d=104~2 e=105", "a c d -> L0"),
        ] {
            assert_eq!(chosen(picture, &options, &own), expected, "{picture}");
        }
        let no_small_ones = SizeTieredOptions { min_sstable_size: 0, ..own };
        assert_eq!(chosen("a=1 b=10 c=30 d=40", &options, &no_small_ones), "c d -> L0");
    }

    #[test]
    fn what_is_pending_is_counted_in_compactions() {
        let options = CompactionOptions { max_threshold: 5, ..CompactionOptions::default() };
        let own = SizeTieredOptions::default();
        let pending = |text| pending(&picture::tree(text).0, &options, &own);
        assert_eq!(pending("1 1 1 1 1 1 1 200 200 200 200 900"), 3);
        assert_eq!(pending("1 1 1 200 900"), 0);
    }

    #[test]
    fn everything_becomes_one_or_a_half_a_quarter_and_so_on() {
        let (tree, names) = picture::tree("a=100 b=30 c=7*");
        assert_eq!(picture::task(&major(&tree, false).pop(), &names), "a b -> L0");
        assert_eq!(picture::task(&major(&tree, true).pop(), &names), "a b -> halves of 130");
    }
}
