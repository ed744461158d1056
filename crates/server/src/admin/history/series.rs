//! The history of some metrics: points of fixed intervals in ring buffers of several resolutions.

use std::collections::VecDeque;

use super::latencies::Latencies;

/// Seconds by which the clock may be behind the newest point; if it is further behind, it was set
/// back, and newer points belong to a time that was wrong.
const BEHIND_MAX: u64 = 120;

/// What a series records: the names of its values, in the order of a point's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// What is counted: sums over an interval.
    pub counts: &'static [&'static str],
    /// What has a level: means over an interval.
    pub levels: &'static [&'static str],
    pub latencies: &'static [&'static str],
    /// Seconds of a point and number of points, for each resolution, the finest first.
    pub resolutions: &'static [(u64, usize)],
}

/// The metrics of an interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Point {
    /// Its end, seconds since 1970.
    pub end: u64,
    /// The time that it covers. Less than its length if the server did not run all the time.
    pub millis: u64,
    pub counts: Box<[u64]>,
    pub levels: Box<[f32]>,
    pub latencies: Box<[Latencies]>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ring {
    pub step: u64,
    pub max: usize,
    pub points: VecDeque<Point>,
}

/// The ring buffers, the finest first. Each contains the sums of all pushed points, so that no
/// resolution loses a count.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub rings: Vec<Ring>,
}

impl Point {
    /// Adds the metrics of another interval.
    fn add(&mut self, other: &Self) {
        let (ours, theirs) = (self.millis as f64, other.millis as f64);
        let all = (ours + theirs).max(1.0);
        for (level, other) in self.levels.iter_mut().zip(&other.levels) {
            *level = ((f64::from(*level) * ours + f64::from(*other) * theirs) / all) as f32;
        }
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*other);
        }
        for (latencies, other) in self.latencies.iter_mut().zip(&other.latencies) {
            latencies.add(other);
        }
        self.millis = self.millis.saturating_add(other.millis);
    }

    /// Returns whether nothing was counted.
    pub fn is_idle(&self) -> bool {
        self.counts.iter().all(|count| *count == 0) && self.latencies.iter().all(|l| l.pairs().is_empty())
    }
}

impl Ring {
    /// Adds a point to the interval that contains its end.
    fn push(&mut self, point: &Point) {
        let end = point.end.div_ceil(self.step) * self.step;
        if self.points.back().is_some_and(|last| last.end > end + BEHIND_MAX.max(self.step)) {
            self.points.retain(|kept| kept.end < end);
        }
        match self.points.back_mut() {
            Some(last) if last.end >= end => last.add(point),
            _ => {
                if self.points.len() >= self.max {
                    self.points.pop_front();
                }
                self.points.push_back(Point { end, ..point.clone() });
            }
        }
    }

    /// Returns the seconds that it can contain.
    pub fn span(&self) -> u64 {
        self.step * self.max as u64
    }
}

impl Series {
    pub fn new(shape: &Shape) -> Self {
        let ring = |(step, max): &(u64, usize)| Ring { step: *step, max: *max, points: VecDeque::new() };
        Self { rings: shape.resolutions.iter().map(ring).collect() }
    }

    pub fn push(&mut self, point: &Point) {
        self.rings.iter_mut().for_each(|ring| ring.push(point));
    }

    /// Returns the end of the newest point.
    pub fn newest(&self) -> u64 {
        self.rings.iter().filter_map(|ring| ring.points.back()).map(|point| point.end).max().unwrap_or(0)
    }

    /// Returns the finest ring that has everything since `from` that any ring has.
    pub fn since(&self, from: u64, now: u64) -> &Ring {
        let reaches = |ring: &&Ring| {
            let oldest = |ring: &Ring| ring.points.front().map_or(u64::MAX, |point| point.end);
            let all = self.rings.iter().map(|ring| oldest(ring).max(from)).min().unwrap_or(from);
            ring.span() >= now.saturating_sub(from) && oldest(ring).saturating_sub(ring.step) <= all
        };
        let coarsest = self.rings.len() - 1;
        self.rings.iter().find(reaches).unwrap_or(&self.rings[coarsest])
    }

    /// Returns the sum of the points since `from`, without levels.
    pub fn sum_since(&self, from: u64, shape: &Shape) -> Point {
        let mut sum = Point {
            counts: vec![0; shape.counts.len()].into(),
            latencies: vec![Latencies::default(); shape.latencies.len()].into(),
            ..Point::default()
        };
        if let Some(ring) = self.rings.first() {
            ring.points.iter().rev().take_while(|point| point.end > from).for_each(|point| sum.add(point));
        }
        sum
    }

    /// Removes points after `now`: the clock was wrong when they were recorded.
    pub fn remove_after(&mut self, now: u64) {
        for ring in &mut self.rings {
            let max = now + ring.step;
            ring.points.retain(|point| point.end <= max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        counts: &["a"],
        levels: &["b"],
        latencies: &["c"],
        resolutions: &[(1, 60), (10, 30), (60, 20)],
    };

    fn point(end: u64, count: u64) -> Point {
        let latencies = Latencies::from_pairs(vec![(u8::try_from(count % 7).unwrap(), 1)]).unwrap();
        Point {
            end,
            millis: 1000,
            counts: [count].into(),
            levels: [end as f32].into(),
            latencies: [latencies].into(),
        }
    }

    /// A generator of small numbers, from a seed.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn no_resolution_loses_a_count() {
        for seed in 0..50 {
            let mut state = seed;
            let (mut series, mut pushed, mut end) = (Series::new(&SHAPE), Vec::new(), 1_000_000);
            for _ in 0..500 {
                // Most points follow the last one; some are late, and the clock is sometimes
                // adjusted a little.
                end = match random(&mut state) % 20 {
                    0 => end + random(&mut state) % 40,
                    1 => end - random(&mut state) % 3,
                    _ => end + 1,
                };
                let point = point(end, random(&mut state) % 1000);
                series.push(&point);
                pushed.push(point);
            }
            for ring in &series.rings {
                assert!(ring.points.len() <= ring.max);
                let ends: Vec<u64> = ring.points.iter().map(|point| point.end).collect();
                assert!(ends.is_sorted_by(|a, b| a < b) && ends.iter().all(|end| end % ring.step == 0));
                // Points that were removed were the oldest: the sums of the rest are those of the
                // last pushed ones.
                let sums = |points: &mut dyn Iterator<Item = &Point>| {
                    points.fold((0, 0, 0), |(counts, millis, values), point| {
                        let latencies = point.latencies[0].count();
                        (counts + point.counts[0], millis + point.millis, values + latencies)
                    })
                };
                let kept = sums(&mut ring.points.iter());
                let matches = (0..pushed.len()).any(|first| sums(&mut pushed[first..].iter()) == kept);
                assert!(matches, "seed {seed}, step {}: {kept:?}", ring.step);
                if ring.span() > 2 * (end - 1_000_000) {
                    assert_eq!(kept, sums(&mut pushed.iter()));
                }
            }
        }
    }

    #[test]
    fn levels_are_means_weighted_by_time() {
        let mut series = Series::new(&SHAPE);
        series.push(&Point { millis: 3000, levels: [4.0].into(), ..point(61, 0) });
        series.push(&Point { millis: 1000, levels: [8.0].into(), ..point(62, 0) });
        assert_eq!(series.rings[2].points[0].levels[0], 5.0);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_stop_the_history() {
        let mut series = Series::new(&SHAPE);
        (5_000..5_100).for_each(|end| series.push(&point(end, 1)));
        (1_000..1_100).for_each(|end| series.push(&point(end, 1)));
        for ring in &series.rings {
            assert!(ring.points.iter().all(|point| point.end < 1_200), "{:?}", ring.points);
        }
        assert_eq!(series.newest(), 1_140);
        series.remove_after(1_010);
        assert_eq!(series.newest(), 1_020);
    }

    #[test]
    fn the_finest_resolution_that_reaches_back_is_used() {
        let mut series = Series::new(&SHAPE);
        (1..=1_000).for_each(|end| series.push(&point(end, 1)));
        assert_eq!(series.since(990, 1_000).step, 1);
        assert_eq!(series.since(800, 1_000).step, 10);
        assert_eq!(series.since(0, 1_000).step, 60);
        series.rings[0].points.clear();
        assert_eq!(series.since(990, 1_000).step, 10, "after a restart");
        let empty = Series::new(&SHAPE);
        assert_eq!(empty.since(0, 1_000).points.len(), 0);
    }
}
