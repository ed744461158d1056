//! The latencies of one interval: how many values each bucket of a histogram has.

use cassette_engine::metrics::BUCKET_OFFSETS;

/// The buckets with values, ascending. Most intervals need few of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Latencies(Box<[(u8, u32)]>);

impl Latencies {
    /// Returns what was counted between two states of a histogram. An empty `before` is one without
    /// values.
    pub fn between(before: &[u64], now: &[u64]) -> Self {
        let before = before.iter().copied().chain(std::iter::repeat(0));
        let new = now.iter().zip(before).map(|(now, before)| now.saturating_sub(before));
        let new = (0u8..=u8::MAX).zip(new).filter(|(_, count)| *count > 0);
        Self(new.map(|(bucket, count)| (bucket, u32::try_from(count).unwrap_or(u32::MAX))).collect())
    }

    /// Returns the values of buckets that ascend.
    ///
    /// # Errors
    /// If they do not.
    pub fn from_pairs(pairs: Vec<(u8, u32)>) -> Result<Self, &'static str> {
        if pairs.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err("its buckets do not ascend");
        }
        Ok(Self(pairs.into()))
    }

    /// Returns the buckets with their counts.
    pub fn pairs(&self) -> &[(u8, u32)] {
        &self.0
    }

    /// Adds the values of another interval.
    pub fn add(&mut self, other: &Self) {
        if other.0.is_empty() {
            return;
        }
        let mut ours = self.0.iter().copied().peekable();
        let mut theirs = other.0.iter().copied().peekable();
        let mut sum = Vec::with_capacity(self.0.len().max(other.0.len()));
        loop {
            sum.push(match (ours.peek().copied(), theirs.peek().copied()) {
                (Some(a), Some(b)) if a.0 == b.0 => {
                    ours.next();
                    theirs.next();
                    (a.0, a.1.saturating_add(b.1))
                }
                (Some(a), Some(b)) if a.0 < b.0 => {
                    ours.next();
                    a
                }
                (_, Some(b)) => {
                    theirs.next();
                    b
                }
                (Some(a), None) => {
                    ours.next();
                    a
                }
                (None, None) => break,
            });
        }
        self.0 = sum.into();
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Returns the quantile `fraction` (0 to 1), interpolated within its bucket; `None` without
    /// values.
    pub fn percentile(&self, fraction: f64) -> Option<f64> {
        let wanted = self.count() as f64 * fraction;
        let mut seen = 0.0;
        for (bucket, count) in self.0.iter().filter(|(_, count)| *count > 0) {
            let (bucket, count) = (usize::from(*bucket), f64::from(*count));
            if seen + count >= wanted {
                let below = bucket.checked_sub(1).and_then(|below| BUCKET_OFFSETS.get(below));
                let low = below.copied().unwrap_or(0) as f64;
                let high = BUCKET_OFFSETS.get(bucket).map_or(low, |high| *high as f64);
                return Some(low + (high - low) * (wanted - seen) / count);
            }
            seen += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use cassette_engine::metrics::Histogram;

    use super::*;

    #[test]
    fn percentiles_are_near_those_of_the_values() {
        let histogram = Histogram::of_latencies();
        let before = histogram.totals().unwrap_or_default();
        (1..=1000).for_each(|value| histogram.record(value));
        let latencies = Latencies::between(&before, &histogram.totals().unwrap());
        assert_eq!(latencies.count(), 1000);
        for (fraction, value) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (0.0, 0.0)] {
            let found = latencies.percentile(fraction).unwrap();
            assert!((found - value).abs() <= value / 5.0, "{fraction}: {found}");
        }
        assert_eq!(Latencies::default().percentile(0.5), None);
    }

    #[test]
    fn sums_have_all_values() {
        let of = |pairs: &[(u8, u32)]| Latencies::from_pairs(pairs.to_vec()).unwrap();
        let mut sum = of(&[(1, 1), (3, 5)]);
        sum.add(&of(&[(0, 2), (3, 1), (9, 4)]));
        sum.add(&Latencies::default());
        assert_eq!(sum, of(&[(0, 2), (1, 1), (3, 6), (9, 4)]));
        let mut empty = Latencies::default();
        empty.add(&sum);
        assert_eq!(empty, sum);
        assert!(Latencies::from_pairs(vec![(1, 1), (1, 1)]).is_err());
    }
}
