//! The options of unified compaction.

use super::given::{Given, Result, human_bytes, java_double, pretty_memory};

/// The specific options of unified compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct UnifiedOptions {
    /// `scaling_parameters`, by level: below 0 leveled (`L10` is -8), above 0 tiered (`T4` is 2), 0
    /// in between. The last one applies to all higher levels.
    pub scaling_parameters: Vec<i32>,
    /// `target_sstable_size`, bytes: the approximate size of outputs.
    pub target_sstable_size: u64,
    /// `min_sstable_size`, bytes: outputs are not split into smaller ones.
    pub min_sstable_size: u64,
    /// `flush_size_override`, bytes; 0 for the actual size of flushes.
    pub flush_size_override: u64,
    /// `base_shard_count`: the number of shards of small levels.
    pub base_shard_count: u32,
    /// `sstable_growth`, 0 to 1: whether more data means more SSTables (0) or larger ones (1).
    pub sstable_growth: f64,
    /// `max_sstables_to_compact`; 0 for no limit.
    pub max_sstables_to_compact: usize,
    /// `expired_sstable_check_frequency_seconds`: the interval of checks for expired SSTables.
    pub expired_check_seconds: u64,
    /// `overlap_inclusion_method`: which SSTables that overlap those of a bucket are compacted with
    /// it.
    pub inclusion: Inclusion,
}

/// `overlap_inclusion_method`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inclusion {
    /// Only those of the bucket.
    None,
    /// Also those that overlap the bucket's.
    Single,
    /// Also those that overlap these, and so on.
    Transitive,
}

/// The minimum of `target_sstable_size` and `flush_size_override`.
const MIN_TARGET: i64 = 1 << 20;

impl Default for UnifiedOptions {
    fn default() -> Self {
        Self {
            scaling_parameters: vec![2],
            target_sstable_size: 1 << 30,
            min_sstable_size: 100 << 20,
            flush_size_override: 0,
            base_shard_count: 4,
            sstable_growth: 0.333,
            max_sstables_to_compact: 0,
            expired_check_seconds: 600,
            inclusion: Inclusion::Transitive,
        }
    }
}

impl UnifiedOptions {
    pub(super) fn read(given: &mut Given) -> Result<Self> {
        let mut options = Self::default();
        if let Some(text) = given.take("scaling_parameters") {
            // As in Java's `split`, trailing empty parts do not count, unless all are empty.
            let listed = if text.is_empty() { &text } else { text.trim_end_matches(',') };
            options.scaling_parameters = listed.split(',').map(scaling_parameter).collect::<Result<_>>()?;
        }
        let shards = given.int("base_shard_count", 4)?;
        options.base_shard_count = u32::try_from(shards)
            .ok()
            .filter(|shards| *shards > 0)
            .ok_or_else(|| format!("Invalid configuration, base_shard_count should be positive: {shards}"))?;
        options.read_sizes(given)?;
        options.max_sstables_to_compact =
            usize::try_from(given.int("max_sstables_to_compact", 0)?).unwrap_or(0);
        let name = "expired_sstable_check_frequency_seconds";
        let seconds = given.long(name, 600, "long (base10)")?;
        options.expired_check_seconds = u64::try_from(seconds)
            .ok()
            .filter(|seconds| *seconds > 0)
            .ok_or_else(|| format!("Invalid configuration, {name} should be positive: {seconds}"))?;
        let name = "unsafe_aggressive_sstable_expiration";
        // As in Cassandra without the system property that enables it: accepted without effect.
        given
            .boolean(name, false, |text| format!("{name} should either be 'true' or 'false', not {text}"))?;
        if let Some(text) = given.take("overlap_inclusion_method") {
            options.inclusion = match text.to_uppercase().as_str() {
                "NONE" => Inclusion::None,
                "SINGLE" => Inclusion::Single,
                "TRANSITIVE" => Inclusion::Transitive,
                _ => {
                    return Err(format!(
                        "Invalid overlap inclusion method {text}. The valid options are [NONE, SINGLE, TRANSITIVE]."
                    ));
                }
            };
        }
        options.read_min_size(given)?;
        if let Some(text) = given.take("sstable_growth") {
            options.sstable_growth = percent(&text)?;
            if !(0.0..=1.0).contains(&options.sstable_growth) {
                return Err(format!("sstable_growth {text} must be between 0 and 1"));
            }
        }
        Ok(options)
    }

    fn read_sizes(&mut self, given: &mut Given) -> Result<()> {
        let least = pretty_memory(MIN_TARGET);
        for name in ["target_sstable_size", "flush_size_override"] {
            let Some(text) = given.take(name) else { continue };
            let size = human_bytes(&text)
                .map_err(|why| format!("{name} {text} is not a valid size in bytes: {why}"))?;
            if size >= i64::MAX as f64 && name == "target_sstable_size" {
                return Err(format!("{name} {text} is out of range of Long."));
            }
            if size < MIN_TARGET as f64 {
                return Err(format!("{name} {text} is not acceptable, size must be at least {least}"));
            }
            match name {
                "target_sstable_size" => self.target_sstable_size = size.ceil() as u64,
                _ => self.flush_size_override = size as u64,
            }
        }
        Ok(())
    }

    fn read_min_size(&mut self, given: &mut Given) -> Result<()> {
        let name = "min_sstable_size";
        let target = self.target_sstable_size;
        let Some(text) = given.take(name) else { return Ok(()) };
        let size =
            human_bytes(&text).map_err(|_| format!("{text} is not a valid size in bytes for {name}"))?;
        if size < 0.0 {
            return Err(format!("Invalid configuration, {name} should be greater than or equal to 0 (zero)"));
        }
        if size >= (target as f64 * 0.5f64.sqrt()).ceil() {
            return Err(format!(
                "Invalid configuration, {name} ({}) should be less than 70% of the targetSSTableSize ({})",
                pretty_memory(size as i64),
                pretty_memory(target as i64)
            ));
        }
        self.min_sstable_size = size as u64;
        Ok(())
    }
}

/// `N`, `L<fan factor>`, `T<fan factor>` or a number.
fn scaling_parameter(text: &str) -> Result<i32> {
    let text = text.trim();
    let refused = || format!("Scaling parameter {text} must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+");
    let digits = |digits: &str| {
        if digits.bytes().all(|byte| byte.is_ascii_digit()) {
            digits.parse::<i32>().map_err(|_| refused())
        } else {
            Err(refused())
        }
    };
    let fan = |factor: i32| match factor {
        ..2 => Err(format!("Fan factor cannot be lower than 2 in {text}")),
        factor => Ok(factor),
    };
    match text.as_bytes() {
        [b'N'] => Ok(0),
        [b'L', ..] => Ok(2 - fan(digits(&text[1..])?)?),
        [b'T', ..] => Ok(fan(digits(&text[1..])?)? - 2),
        [b'+' | b'-', ..] => digits(&text[1..]).and_then(|_| text.parse().map_err(|_| refused())),
        _ => digits(text),
    }
}

/// `0.1` or `10%`.
fn percent(text: &str) -> Result<f64> {
    let text = text.trim();
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim(), 100.0));
    java_double(number).map(|number| number / scale).ok_or_else(|| {
        format!("sstable_growth is not a valid number between 0 and 1: For input string: \"{number}\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_parameters_are_fan_factors_leveled_or_tiered() {
        for (text, expected) in
            [("N", 0), ("L10", -8), (" T4", 2), ("-3", -3), ("+2", 2), ("7", 7), ("L2", 0)]
        {
            assert_eq!(scaling_parameter(text), Ok(expected), "{text}");
        }
    }
}
