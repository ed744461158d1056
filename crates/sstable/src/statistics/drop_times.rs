//! Deletion and expiration times: a histogram of at most a hundred points.
//!
//! Points are local deletion times rounded up to whole minutes. If there are too many, the two
//! nearest are merged into their weighted mean (Ben-Haim and Tom-Tov, "A Streaming Parallel
//! Decision Tree Algorithm", 2010). New points are buffered in a spool, a hash table; the order in
//! which it is emptied determines which points are merged, so its hash function and size are
//! Cassandra's, and the bytes are too.

use bytes::BufMut;

use crate::error::{Malformed, Parsed};
use crate::input::Input;

/// Points kept.
const MAX_POINTS: usize = 100;
/// Slots of the spool that a hash is reduced to; the table has twice as many. 100,000 rounded up to
/// a power of two.
const SPOOL_CAPACITY: usize = 1 << 17;
/// A point that collides with this many others makes the spool count as full.
const MAX_PROBES: usize = 100;
/// Points are multiples of this, in seconds.
const ROUND_SECONDS: i64 = 60;
/// The largest local deletion time in nb: one more means "none".
const MAX_DELETION_TIME: i64 = i32::MAX as i64 - 1;

/// A finished histogram: local deletion times in seconds, ascending, and their counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DropTimes {
    points: Vec<(i64, i64)>,
}

impl DropTimes {
    /// The points and counts.
    pub fn points(&self) -> &[(i64, i64)] {
        &self.points
    }

    /// Returns the approximate number of tombstones and expiring cells with a local deletion time
    /// of `time` or less.
    pub fn count_until(&self, time: i64) -> f64 {
        let mut sum = 0.0;
        for (index, &(point, count)) in self.points.iter().enumerate() {
            if point <= time {
                sum += count as f64;
                continue;
            }
            // Between two points the counts are assumed to change linearly (the trapezoid rule of
            // the paper).
            let Some(&(before, before_count)) = index.checked_sub(1).and_then(|i| self.points.get(i)) else {
                return 0.0;
            };
            let weight = (time - before) as f64 / (point - before) as f64;
            let at_time = before_count as f64 + (count - before_count) as f64 * weight;
            return sum - before_count as f64 / 2.0 + (before_count as f64 + at_time) * weight / 2.0;
        }
        sum
    }

    /// ```text
    /// i32 n, i32 n, n * (f64 local deletion time, i64 count)
    /// ```
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.put_i32(self.points.len() as i32);
        out.put_i32(self.points.len() as i32);
        for (point, count) in &self.points {
            out.put_f64(*point as f64);
            out.put_i64(*count);
        }
    }

    /// Decodes the format of oa and da:
    ///
    /// ```text
    /// i32 n, i32 n, n * (i64 local deletion time, i32 count)
    /// ```
    pub fn decode_whole_numbers(input: &mut Input<'_>) -> Parsed<Self> {
        let _largest_count = input.i32()?;
        let count = input.count32(12)?;
        let mut points = Vec::with_capacity(count);
        for _ in 0..count {
            let at = input.offset();
            let (point, count) = (input.i64()?, input.i32()?);
            if count < 0 {
                return Err(Malformed::new(
                    at,
                    format!("a time and a count expected, {point} and {count} found"),
                ));
            }
            points.push((point, i64::from(count)));
        }
        Ok(Self { points })
    }

    /// Decodes the format of [`Self::encode_into`].
    pub fn decode(input: &mut Input<'_>) -> Parsed<Self> {
        let _largest_count = input.i32()?;
        let count = input.count32(16)?;
        let mut points = Vec::with_capacity(count);
        for _ in 0..count {
            let at = input.offset();
            let (point, count) = (input.f64()?, input.i64()?);
            if !point.is_finite() || count < 0 {
                return Err(Malformed::new(
                    at,
                    format!("a time and a count expected, {point} and {count} found"),
                ));
            }
            points.push((point as i64, count));
        }
        Ok(Self { points })
    }
}

/// Collects the histogram while rows are written.
#[derive(Debug, Clone, Default)]
pub struct DropTimesBuilder {
    /// Ascending; at most [`MAX_POINTS`] between calls.
    points: Vec<(i64, i32)>,
    /// Pairs of point + 1 and count, 0 for an empty slot. Allocated for the first point, because
    /// most tables never have one; zeros, so that the pages of empty slots are never touched.
    spool: Vec<(i64, i32)>,
    /// The slots of `spool` that are not empty.
    occupied: Vec<usize>,
    /// The last point added and its slot: neighbours in a table often expire together.
    last: Option<(i64, usize)>,
}

impl DropTimesBuilder {
    /// Counts a local deletion time.
    pub fn add(&mut self, local_deletion_time: u32) {
        let point = round_up(i64::from(local_deletion_time).min(MAX_DELETION_TIME));
        if let Some((last, place)) = self.last
            && last == point
            && self.occupied.len() <= SPOOL_CAPACITY
        {
            self.spool[place].1 = self.spool[place].1.saturating_add(1);
            return;
        }
        if self.spool.is_empty() {
            self.spool = vec![(0, 0); SPOOL_CAPACITY * 2];
        }
        let mut place = self.place(point);
        if place.is_none() {
            self.empty_spool();
            place = self.place(point);
        }
        // An empty spool has space for every point.
        if let Some(place) = place {
            let entry = &mut self.spool[place];
            if entry.0 == 0 {
                *entry = (point + 1, 0);
                self.occupied.push(place);
            }
            entry.1 = entry.1.saturating_add(1);
            self.last = Some((point, place));
        }
    }

    /// Returns the slot of `point` in the spool; `None` if the spool is full.
    fn place(&self, point: i64) -> Option<usize> {
        if self.occupied.len() > SPOOL_CAPACITY {
            return None;
        }
        let start = (point.wrapping_mul(948_701_839) as u32 as usize) & (SPOOL_CAPACITY - 1);
        (start..start + MAX_PROBES)
            .map(|place| place % self.spool.len())
            .find(|&place| self.spool[place].0 == 0 || self.spool[place].0 == point + 1)
    }

    fn empty_spool(&mut self) {
        // The histogram depends on the order in which points are merged: Cassandra's is that of the
        // spool.
        self.occupied.sort_unstable();
        for place in self.occupied.drain(..) {
            let (stored, count) = std::mem::take(&mut self.spool[place]);
            add_point(&mut self.points, stored - 1, count);
        }
        self.last = None;
    }

    /// Returns the histogram of all points.
    pub fn finish(mut self) -> DropTimes {
        self.empty_spool();
        DropTimes {
            points: self.points.into_iter().map(|(point, count)| (point, i64::from(count))).collect(),
        }
    }
}

fn add_point(points: &mut Vec<(i64, i32)>, point: i64, count: i32) {
    match points.binary_search_by_key(&point, |p| p.0) {
        Ok(place) => points[place].1 = points[place].1.saturating_add(count),
        Err(place) => points.insert(place, (point, count)),
    }
    if points.len() > MAX_POINTS {
        merge_nearest(points);
    }
}

/// Replaces the two nearest points, the first such pair, by their weighted mean.
fn merge_nearest(points: &mut Vec<(i64, i32)>) {
    let Some(first) = (0..points.len() - 1).min_by_key(|&i| points[i + 1].0 - points[i].0) else { return };
    let ((point_1, count_1), (point_2, count_2)) = (points[first], points[first + 1]);
    let sum = i64::from(count_1) + i64::from(count_2);
    let weighted =
        point_1.saturating_mul(count_1.into()).saturating_add(point_2.saturating_mul(count_2.into()));
    let mean = (weighted / sum.max(1)).clamp(point_1 + 1, point_2);
    points[first] = (round_up(mean), i32::try_from(sum).unwrap_or(i32::MAX));
    points.remove(first + 1);
}

fn round_up(point: i64) -> i64 {
    match point % ROUND_SECONDS {
        0 => point,
        rest => (point + ROUND_SECONDS - rest).min(MAX_5_0_DELETION_TIME),
    }
}

/// The limit of rounding up: the largest local deletion time of 5.0, which has 32 unsigned bits.
const MAX_5_0_DELETION_TIME: i64 = u32::MAX as i64 - 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_minutes_and_counted() {
        let mut builder = DropTimesBuilder::default();
        for time in [61, 120, 1, 60, 0, 119, 121] {
            builder.add(time);
        }
        assert_eq!(builder.finish().points(), [(0, 1), (60, 2), (120, 3), (180, 1)]);
    }

    #[test]
    fn no_more_than_a_hundred_points_are_kept_and_nothing_is_lost() {
        let mut builder = DropTimesBuilder::default();
        for i in 0..200_000u32 {
            builder.add(i.wrapping_mul(2_654_435_761) >> 2);
        }
        let histogram = builder.finish();
        assert_eq!(histogram.points().len(), MAX_POINTS);
        assert_eq!(histogram.points().iter().map(|p| p.1).sum::<i64>(), 200_000);
        assert!(histogram.points().is_sorted_by(|a, b| a.0 < b.0));
        let half = histogram.count_until(1 << 29);
        assert!((95_000.0..105_000.0).contains(&half), "{half}");
    }

    #[test]
    fn what_is_written_reads_back() {
        let histogram = DropTimes { points: vec![(60, 1), (1_700_000_040, 7)] };
        let mut out = Vec::new();
        histogram.encode_into(&mut out);
        assert_eq!(DropTimes::decode(&mut Input::new(&out)).unwrap(), histogram);
    }
}
