//! Size-tiered compaction: SSTables of about the same size become one.
//!
//! A pure function from what is known of the SSTables to those to compact next. The rules are Cassandra's:
//!
//! 1. SSTables are sorted by size. Each joins the first bucket whose average it is near, between `bucket_low` and
//!    `bucket_high` times that, or any bucket of small ones if it is small itself; else it opens a bucket.
//! 2. Buckets are cut to the `max_threshold` hottest SSTables; those with fewer than `min_threshold` drop out.
//! 3. The hottest bucket is compacted; of equally hot ones the one with the smaller average size.
//! 4. If there is none, the largest SSTable that is worth it is compacted alone, to be rid of tombstones.

use super::options::CompactionOptions;

/// What the strategy knows of an SSTable. Those that are being compacted or are suspect are not shown to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Bytes on disk.
    pub size: u64,
    /// Reads a second per key.
    pub hotness: f64,
    /// Whether compacting it alone would drop enough tombstones; see [`tombstones`](super::tombstones).
    pub worth_dropping_tombstones: bool,
}

/// The candidates to compact next, by index; none if there is nothing to do.
pub fn next(candidates: &[Candidate], options: &CompactionOptions) -> Vec<usize> {
    let mut best: Option<(Vec<usize>, f64, u64)> = None;
    for mut bucket in buckets(candidates, options) {
        bucket.sort_by(|a, b| candidates[*b].hotness.total_cmp(&candidates[*a].hotness));
        bucket.truncate(options.max_threshold);
        if bucket.len() < options.min_threshold {
            continue;
        }
        let hotness = bucket.iter().map(|i| candidates[*i].hotness).sum::<f64>();
        let average = bucket.iter().map(|i| candidates[*i].size).sum::<u64>() / bucket.len() as u64;
        let is_better = best.as_ref().is_none_or(|(_, best_hotness, best_average)| {
            hotness.total_cmp(best_hotness).then(best_average.cmp(&average)).is_gt()
        });
        if is_better {
            best = Some((bucket, hotness, average));
        }
    }
    if let Some((bucket, ..)) = best {
        return bucket;
    }
    let alone = (0..candidates.len()).filter(|i| candidates[*i].worth_dropping_tombstones);
    alone.max_by_key(|i| candidates[*i].size).into_iter().collect()
}

/// How many compactions are still to be done, about.
pub fn pending(candidates: &[Candidate], options: &CompactionOptions) -> usize {
    let qualify = buckets(candidates, options).into_iter().filter(|b| b.len() >= options.min_threshold);
    qualify.map(|bucket| bucket.len().div_ceil(options.max_threshold)).sum()
}

fn buckets(candidates: &[Candidate], options: &CompactionOptions) -> Vec<Vec<usize>> {
    let mut by_size: Vec<usize> = (0..candidates.len()).collect();
    by_size.sort_by_key(|i| candidates[*i].size);
    let mut buckets: Vec<(u64, Vec<usize>)> = Vec::new();
    for i in by_size {
        let size = candidates[i].size;
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
    use super::*;

    /// A picture: SSTables in MiB, `~3` after a size for its hotness, `!` for one worth dropping tombstones. The answer:
    /// those to compact, by size.
    fn chosen(picture: &str, options: &CompactionOptions) -> String {
        let candidates = candidates(picture);
        let mut sizes: Vec<_> =
            next(&candidates, options).into_iter().map(|i| candidates[i].size >> 20).collect();
        sizes.sort_unstable();
        sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
    }

    fn candidates(picture: &str) -> Vec<Candidate> {
        let candidate = |word: &str| {
            let (word, worth) = word.strip_suffix('!').map_or((word, false), |word| (word, true));
            let (size, hotness) = word.split_once('~').unwrap_or((word, "0"));
            Candidate {
                size: size.parse::<u64>().unwrap() << 20,
                hotness: hotness.parse().unwrap(),
                worth_dropping_tombstones: worth,
            }
        };
        picture.split_whitespace().map(candidate).collect()
    }

    #[test]
    fn pictures_of_buckets() {
        let default = CompactionOptions::default();
        for (picture, expected) in [
            // Too few.
            ("", ""),
            ("100 100 100", ""),
            ("100 100 100 100", "100 100 100 100"),
            // Near each other, whatever the order.
            ("110 90 100 400 95", "90 95 100 110"),
            // All below 50 MiB are of one size.
            ("1 2 49 7 300", "1 2 7 49"),
            // Of two buckets equally hot, the smaller one.
            ("1000 1000 1000 1000 100 100 100 100", "100 100 100 100"),
            // The hotter one.
            ("1000~1 1000~1 1000~1 1000~1 100 100 100 100~3", "1000 1000 1000 1000"),
            // Both bounds are strict: 150 is not below 1.5 * 100.
            ("100 100 100 150", ""),
            ("100 100 100 149", "100 100 100 149"),
            // Nothing to compact: the largest that is worth it, alone.
            ("100! 400 200!", "200"),
            ("100! 100 100 100", "100 100 100 100"),
        ] {
            assert_eq!(chosen(picture, &default), expected, "{picture}");
        }
    }

    #[test]
    fn pictures_of_thresholds() {
        let options =
            CompactionOptions { min_threshold: 2, max_threshold: 3, ..CompactionOptions::default() };
        for (picture, expected) in [
            ("100 400 410", "400 410"),
            // The coldest are cut off.
            ("101~1 102 103~5 104~2 105", "101 103 104"),
        ] {
            assert_eq!(chosen(picture, &options), expected, "{picture}");
        }
        let no_small_ones = CompactionOptions { min_sstable_size: 0, ..options };
        assert_eq!(chosen("1 10 30 40", &no_small_ones), "30 40");
    }

    #[test]
    fn what_is_pending_is_counted_in_compactions() {
        let options = CompactionOptions { max_threshold: 5, ..CompactionOptions::default() };
        assert_eq!(pending(&candidates("1 1 1 1 1 1 1 200 200 200 200 900"), &options), 3);
        assert_eq!(pending(&candidates("1 1 1 200 900"), &options), 0);
    }
}
