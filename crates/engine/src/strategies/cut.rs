//! The boundaries between the outputs of a compaction.

use super::options::MAX_LEVELS;
use super::tree::Cut;

/// Determines the outputs of one compaction.
#[derive(Debug, Clone)]
pub(crate) struct Cutter {
    cut: Cut,
    level: u32,
    /// Bytes of the completed outputs in `level`.
    in_level: u64,
    /// Completed outputs.
    ended: u32,
    /// The number of the cut's tokens that were passed.
    passed: usize,
}

/// Halving ends before an output would have fewer bytes than this.
const LEAST_HALF: u64 = 50_000_000;

impl Cutter {
    /// Returns a cutter for outputs of a level.
    pub fn new(level: u32, cut: Cut) -> Self {
        Self { cut, level, in_level: 0, ended: 0, passed: 0 }
    }

    /// Returns a cutter for a single output, of level 0.
    pub fn never() -> Self {
        Self::new(0, Cut::Never)
    }

    /// Returns the level of the current output.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Returns whether the current output, of `written` bytes on disk up to the partition with
    /// token `last`, ends before one with token `next`. If so, the next output is current. Tokens
    /// ascend from call to call.
    pub fn ends(&mut self, written: u64, last: i64, next: i64) -> bool {
        // Outputs of a level share no tokens.
        if last == next {
            return false;
        }
        let ends = match &self.cut {
            Cut::Never => false,
            // At least half, so that at most twice as many are created.
            Cut::AtSize { size, ends } => {
                let at_end = crosses(ends, &mut self.passed, last, next);
                written > if at_end { *size / 2 } else { *size }
            }
            Cut::IntoLevels { size, .. } => written > *size,
            Cut::Halving(total) => {
                let wanted = total >> (self.ended + 1).min(63);
                written > wanted && wanted >= LEAST_HALF
            }
            Cut::Shards(ends) => crosses(ends, &mut self.passed, last, next),
        };
        if ends {
            self.ended += 1;
            if let Cut::IntoLevels { size, fanout } = self.cut {
                self.in_level += written;
                let capacity = f64::from(fanout).powi(self.level as i32) * size as f64;
                if self.in_level as f64 > capacity && (self.level as usize) < MAX_LEVELS - 1 {
                    self.in_level = 0;
                    self.level += 1;
                }
            }
        }
        ends
    }

    /// Returns the approximate number of partitions of the next output, of `keys` partitions with
    /// `bytes` and tokens from `first` to `last`.
    pub fn expected_keys(&self, keys: u64, bytes: u64, first: i64, last: i64) -> u64 {
        let share = match &self.cut {
            Cut::Never => 1.0,
            // A tenth more, since sizes and estimates vary.
            Cut::AtSize { size, .. } | Cut::IntoLevels { size, .. } => {
                *size as f64 * 1.1 / bytes.max(1) as f64
            }
            Cut::Halving(_) => 0.5f64.powi(self.ended as i32 + 1) * 1.1,
            Cut::Shards(ends) => {
                let crossed =
                    ends.partition_point(|end| *end < last) - ends.partition_point(|end| *end < first);
                // The shards at both ends may be covered only partly.
                1.5 / (crossed + 1) as f64
            }
        };
        ((keys as f64 * share.min(1.0)) as u64).max(1)
    }
}

/// Whether one of the ends, which ascend, is between two consecutive tokens: an end belongs to what
/// precedes it. `passed` of them are before `last`; it is updated.
#[inline]
fn crosses(ends: &[i64], passed: &mut usize, last: i64, next: i64) -> bool {
    while ends.get(*passed).is_some_and(|end| *end < last) {
        *passed += 1;
    }
    ends.get(*passed).is_some_and(|end| *end < next)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns where outputs of partitions of 40 bytes with tokens 0, 10, 20… end, and their
    /// levels.
    fn outputs(level: u32, cut: Cut, partitions: i64) -> Vec<(i64, u32)> {
        let mut cutter = Cutter::new(level, cut);
        let (mut written, mut at) = (0, Vec::new());
        for token in 0..partitions {
            let level = cutter.level();
            if token > 0 && cutter.ends(written, token * 10 - 10, token * 10) {
                at.push((token, level));
                written = 0;
            }
            written += 40;
        }
        at.push((partitions, cutter.level()));
        at
    }

    fn at_size(size: u64, ends: &[i64]) -> Cut {
        Cut::AtSize { size, ends: ends.to_vec() }
    }

    #[test]
    fn outputs_end_when_they_are_beyond_their_size() {
        assert_eq!(outputs(3, at_size(100, &[]), 7), [(3, 3), (6, 3), (7, 3)]);
        assert_eq!(outputs(0, Cut::Never, 7), [(7, 0)]);
    }

    #[test]
    fn outputs_of_half_their_size_end_where_one_of_the_next_level_does() {
        // The first is too small at 0; at 10 it has 80 of 150 bytes. The next one is too small at
        // 25, and ends by its size.
        assert_eq!(outputs(1, at_size(150, &[0, 10, 25]), 7), [(2, 1), (6, 1), (7, 1)]);
        // An end belongs to what precedes it, and may be between two tokens.
        assert_eq!(outputs(1, at_size(150, &[19]), 7), [(2, 1), (6, 1), (7, 1)]);
        assert_eq!(outputs(1, at_size(150, &[20]), 7), [(3, 1), (7, 1)]);
        assert_eq!(outputs(1, at_size(150, &[-100, -50, 20, 1000]), 7), [(3, 1), (7, 1)]);
    }

    #[test]
    fn partitions_with_the_same_token_stay_together() {
        assert!(!Cutter::new(1, at_size(100, &[5])).ends(1000, 5, 5));
    }

    #[test]
    fn levels_fill_from_the_first_one_on() {
        // L1 holds 2 * 60 bytes, L2 4 * 60.
        let cut = Cut::IntoLevels { size: 60, fanout: 2 };
        assert_eq!(outputs(1, cut, 14), [(2, 1), (4, 1), (6, 2), (8, 2), (10, 2), (12, 2), (14, 3)]);
    }

    #[test]
    fn shards_end_at_their_tokens_which_belong_to_them() {
        assert_eq!(outputs(0, Cut::Shards(vec![20, 21, 35]), 6), [(3, 0), (4, 0), (6, 0)]);
        assert_eq!(outputs(0, Cut::Shards(vec![]), 6), [(6, 0)]);
        assert_eq!(outputs(0, Cut::Shards(vec![-5, 1000]), 6), [(6, 0)]);
    }

    #[test]
    fn halves_end_before_they_get_too_small() {
        let mut cutter = Cutter::new(0, Cut::Halving(300_000_000));
        assert!(!cutter.ends(150_000_000, 1, 2));
        assert!(cutter.ends(150_000_001, 1, 2));
        assert!(cutter.ends(75_000_001, 2, 3));
        assert!(!cutter.ends(100_000_000, 3, 4), "37 MB would be too small");
    }
}
