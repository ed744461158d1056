//! Histograms whose buckets grow by a fifth: of partition sizes, cells, latencies.

use bytes::BufMut;

use crate::error::{Malformed, Parsed};
use crate::input::Input;

/// Counts of values in growing buckets.
///
/// Bucket i counts the values in (offset[i-1], offset[i]]; one more bucket counts those beyond the
/// last offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimatedHistogram {
    offsets: Box<[i64]>,
    counts: Box<[i64]>,
}

/// Offsets of the histogram of partition sizes: up to 3.5 TB.
pub const PARTITION_SIZE_BUCKETS: usize = 155;
/// Offsets of the histogram of cells in a partition: up to four billion.
pub const CELL_COUNT_BUCKETS: usize = 118;
/// More offsets than any value needs; limits the counts in a file.
const MAX_BUCKETS: usize = 1024;

impl EstimatedHistogram {
    /// Creates a histogram with `buckets` offsets 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, … and all
    /// counts zero.
    pub fn new(buckets: usize) -> Self {
        let mut last = 1i64;
        let offsets: Box<[i64]> = std::iter::once(1)
            .chain(std::iter::repeat_with(move || {
                last = ((last as f64 * 1.2).round() as i64).max(last + 1);
                last
            }))
            .take(buckets)
            .collect();
        Self { counts: vec![0; offsets.len() + 1].into(), offsets }
    }

    /// Does [`new`](Self::new), with one more offset before them: 0.
    pub fn with_zero(buckets: usize) -> Self {
        let offsets: Box<[i64]> = std::iter::once(0).chain(Self::new(buckets).offsets).collect();
        Self { counts: vec![0; offsets.len() + 1].into(), offsets }
    }

    /// Counts a value.
    pub fn add(&mut self, value: i64) {
        self.add_many(value, 1);
    }

    /// Counts a value `count` times.
    pub fn add_many(&mut self, value: i64, count: i64) {
        let bucket = self.offsets.partition_point(|&offset| offset < value);
        self.counts[bucket] = self.counts[bucket].saturating_add(count);
    }

    /// The number of values counted.
    pub fn count(&self) -> i64 {
        self.counts.iter().sum()
    }

    /// Returns the mean of the values, each represented by its bucket's upper end, rounded up;
    /// without the overflow.
    pub fn mean(&self) -> i64 {
        let (mut values, mut sum) = (0i64, 0i64);
        for (count, offset) in self.counts.iter().zip(&self.offsets) {
            values = values.saturating_add(*count);
            sum = sum.saturating_add(count.saturating_mul(*offset));
        }
        match values {
            0 => 0,
            values => (sum as f64 / values as f64).ceil() as i64,
        }
    }

    /// Returns the lower limit of the smallest value; 0 if there are none.
    pub fn min(&self) -> i64 {
        match self.counts.iter().position(|&count| count > 0) {
            None | Some(0) => 0,
            Some(bucket) => self.offsets[bucket - 1] + 1,
        }
    }

    /// Returns the upper end of the bucket of the largest value; `i64::MAX` if that is the
    /// overflow.
    pub fn max(&self) -> i64 {
        match self.counts.iter().rposition(|&count| count > 0) {
            None => 0,
            Some(bucket) => self.offsets.get(bucket).copied().unwrap_or(i64::MAX),
        }
    }

    /// Returns the upper end of the bucket below which `fraction` (0 to 1) of the values are.
    pub fn percentile(&self, fraction: f64) -> i64 {
        let wanted = (self.count() as f64 * fraction).ceil() as i64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return self.offsets.get(bucket).copied().unwrap_or(i64::MAX);
            }
        }
        0
    }

    /// Upper ends and counts of the buckets; the overflow has no upper end.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<i64>, i64)> {
        self.counts.iter().enumerate().map(|(i, count)| (self.offsets.get(i).copied(), *count))
    }

    /// ```text
    /// i32 n + 1, (n + 1) * (i64 offset, i64 count)
    /// ```
    /// Pair i carries offset i - 1, and pair 0 offset 0: the first offset appears twice.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.put_i32(self.counts.len() as i32);
        for (i, count) in self.counts.iter().enumerate() {
            out.put_i64(self.offsets.get(i.saturating_sub(1)).copied().unwrap_or_default());
            out.put_i64(*count);
        }
    }

    /// Decodes the format of [`Self::encode_into`].
    pub fn decode(input: &mut Input<'_>) -> Parsed<Self> {
        let at = input.offset();
        let pairs = input.count32(16)?;
        if !(2..=MAX_BUCKETS).contains(&pairs) {
            return Err(Malformed::new(at, format!("2 to {MAX_BUCKETS} buckets expected, {pairs} found")));
        }
        let mut offsets = Vec::with_capacity(pairs - 1);
        let mut counts = Vec::with_capacity(pairs);
        for pair in 0..pairs {
            let at = input.offset();
            let (offset, count) = (input.i64()?, input.i64()?);
            match (pair, offsets.last()) {
                (0, _) => offsets.push(offset),
                (1, Some(&first)) if first == offset => {}
                (2.., Some(&last)) if last < offset => offsets.push(offset),
                _ => return Err(Malformed::new(at, format!("an ascending offset expected, {offset} found"))),
            }
            if count < 0 {
                return Err(Malformed::new(at + 8, format!("a count expected, {count} found")));
            }
            counts.push(count);
        }
        Ok(Self { offsets: offsets.into(), counts: counts.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_grow_as_cassandras_do() {
        let histogram = EstimatedHistogram::new(PARTITION_SIZE_BUCKETS);
        assert_eq!(histogram.offsets[..14], [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24]);
        assert_eq!(*histogram.offsets.last().unwrap(), 3_520_571_548_412);
        assert_eq!(*EstimatedHistogram::new(CELL_COUNT_BUCKETS).offsets.last().unwrap(), 4_139_110_981);
    }

    #[test]
    fn a_value_counts_in_the_bucket_that_it_does_not_exceed() {
        let mut histogram = EstimatedHistogram::new(10);
        for value in [0, 1, 2, 9, 10, 11, 13] {
            histogram.add(value);
        }
        assert_eq!(*histogram.counts, [2, 1, 0, 0, 0, 0, 0, 0, 2, 1, 1]);
        assert_eq!((histogram.min(), histogram.max()), (0, i64::MAX));
        assert_eq!(histogram.percentile(0.5), 10);
        assert_eq!(histogram.count(), 7);
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut histogram = EstimatedHistogram::new(30);
        histogram.add(77);
        let mut out = Vec::new();
        histogram.encode_into(&mut out);
        assert_eq!(EstimatedHistogram::decode(&mut Input::new(&out)).unwrap(), histogram);
        assert!(EstimatedHistogram::decode(&mut Input::new(&out[..out.len() - 1])).is_err());
    }
}
