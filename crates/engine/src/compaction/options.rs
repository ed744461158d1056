//! What `WITH compaction = {…}` means.

use std::collections::BTreeMap;
use std::str::FromStr;

use cassette_rows::schema::CompactionParams;

/// The compaction strategies that are there, by class without package.
pub const COMPACTION_STRATEGIES: &[&str] = &["SizeTieredCompactionStrategy"];

/// The strategies that Cassandra has and this engine has not yet.
pub const COMPACTION_STRATEGIES_TO_COME: &[&str] =
    &["LeveledCompactionStrategy", "TimeWindowCompactionStrategy", "UnifiedCompactionStrategy"];

/// A table's compaction options, understood. Defaults are Cassandra's.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionOptions {
    /// `enabled`: whether compactions start by themselves.
    pub enabled: bool,
    /// `min_threshold`: SSTables a bucket needs.
    pub min_threshold: usize,
    /// `max_threshold`: SSTables compacted at once.
    pub max_threshold: usize,
    /// `min_sstable_size`, bytes: below it all SSTables are of the same size.
    pub min_sstable_size: u64,
    /// `bucket_low`: how far below a bucket's average an SSTable may be.
    pub bucket_low: f64,
    /// `bucket_high`: how far above.
    pub bucket_high: f64,
    /// `tombstone_threshold`: the share of droppable tombstones beyond which an SSTable is compacted alone.
    pub tombstone_threshold: f64,
    /// `tombstone_compaction_interval`: how old it must be for that, seconds.
    pub tombstone_compaction_interval: u64,
    /// `unchecked_tombstone_compaction`: whether overlaps with other SSTables are left out of that decision.
    pub unchecked_tombstone_compaction: bool,
    /// `only_purge_repaired_tombstones`: nothing here is ever repaired, so nothing is purged.
    pub only_purge_repaired_tombstones: bool,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            min_threshold: 4,
            max_threshold: 32,
            min_sstable_size: 50 << 20,
            bucket_low: 0.5,
            bucket_high: 1.5,
            tombstone_threshold: 0.2,
            tombstone_compaction_interval: 86_400,
            unchecked_tombstone_compaction: false,
            only_purge_repaired_tombstones: false,
        }
    }
}

impl CompactionOptions {
    /// Understands a table's options. The error says, in Cassandra's words where it has some, what is wrong.
    pub fn parse(params: &CompactionParams) -> Result<Self, String> {
        let class = params.class.strip_prefix("org.apache.cassandra.db.compaction.").unwrap_or(&params.class);
        if COMPACTION_STRATEGIES_TO_COME.contains(&class) {
            return Err(format!(
                "compaction strategy {class} is not supported yet; supported: {}",
                COMPACTION_STRATEGIES.join(", ")
            ));
        }
        if !COMPACTION_STRATEGIES.contains(&class) {
            return Err(format!("Unable to find compaction strategy class '{}'", params.class));
        }
        let mut given = Given(params.options.clone());
        let defaults = Self::default();
        let options = Self {
            enabled: given.boolean("enabled", "enabled")?.unwrap_or(defaults.enabled),
            min_threshold: given.threshold("min_threshold")?.unwrap_or(defaults.min_threshold),
            max_threshold: given.threshold("max_threshold")?.unwrap_or(defaults.max_threshold),
            min_sstable_size: given.number("min_sstable_size")?.unwrap_or(defaults.min_sstable_size),
            bucket_low: given.float("bucket_low")?.unwrap_or(defaults.bucket_low),
            bucket_high: given.float("bucket_high")?.unwrap_or(defaults.bucket_high),
            tombstone_threshold: given.float("tombstone_threshold")?.unwrap_or(defaults.tombstone_threshold),
            tombstone_compaction_interval: given
                .number("tombstone_compaction_interval")?
                .unwrap_or(defaults.tombstone_compaction_interval),
            unchecked_tombstone_compaction: given
                .boolean("unchecked_tombstone_compaction", "'unchecked_tombstone_compaction'")?
                .unwrap_or(defaults.unchecked_tombstone_compaction),
            only_purge_repaired_tombstones: given
                .boolean("only_purge_repaired_tombstones", "'only_purge_repaired_tombstones'")?
                .unwrap_or(defaults.only_purge_repaired_tombstones),
        };
        // What every compaction is told in the log anyway.
        given.boolean("log_all", "log_all")?;
        if let Some(mode) = given.0.remove("provide_overlapping_tombstones")
            && !mode.eq_ignore_ascii_case("none")
        {
            return Err(format!(
                "provide_overlapping_tombstones = {mode} is not supported yet; supported: none"
            ));
        }
        if let Some(unknown) = given.0.keys().next() {
            return Err(format!("Properties specified [{unknown}] are not understood by {class}"));
        }
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), String> {
        let (min, max) = (self.min_threshold, self.max_threshold);
        if min < 2 {
            return Err(format!("Min compaction threshold cannot be less than 2 (got {min})"));
        }
        if min > max {
            return Err(format!(
                "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
            ));
        }
        if self.bucket_high <= self.bucket_low {
            return Err(format!(
                "bucket_high value ({:?}) is less than or equal to the bucket_low value ({:?})",
                self.bucket_high, self.bucket_low
            ));
        }
        if self.tombstone_threshold < 0.0 {
            return Err(format!(
                "tombstone_threshold must be greater than 0, but was {:.6}",
                self.tombstone_threshold
            ));
        }
        Ok(())
    }
}

/// The options not yet looked at.
struct Given(BTreeMap<String, String>);

impl Given {
    fn parse<T: FromStr>(&mut self, name: &str, kind: &str) -> Result<Option<T>, String> {
        let Some(text) = self.0.remove(name) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| format!("{text} is not a parsable {kind} for {name}"))
    }

    fn number(&mut self, name: &str) -> Result<Option<u64>, String> {
        match self.parse::<i64>(name, "int (base10)")? {
            Some(number) => match u64::try_from(number) {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(format!("{name} must be non negative: {number}")),
            },
            None => Ok(None),
        }
    }

    fn threshold(&mut self, name: &str) -> Result<Option<usize>, String> {
        let Some(text) = self.0.remove(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            format!("Invalid value {text} for '{name}' compaction sub-option - must be an integer")
        })
    }

    fn float(&mut self, name: &str) -> Result<Option<f64>, String> {
        Ok(self.parse::<f64>(name, "float")?.filter(|number| number.is_finite()))
    }

    fn boolean(&mut self, name: &str, shown: &str) -> Result<Option<bool>, String> {
        let Some(text) = self.0.remove(name) else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            _ => Err(format!("{shown} should either be 'true' or 'false', not {text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[(&str, &str)]) -> Result<CompactionOptions, String> {
        let options = options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        CompactionOptions::parse(&CompactionParams { class: "SizeTieredCompactionStrategy".into(), options })
    }

    #[test]
    fn the_defaults_are_those_of_a_table_without_options() {
        assert_eq!(CompactionOptions::parse(&CompactionParams::default()), Ok(CompactionOptions::default()));
    }

    #[test]
    fn options_out_of_bounds_and_unknown_ones_are_refused() {
        for (options, error) in [
            (&[("bucket_low", "x")][..], "x is not a parsable float for bucket_low"),
            (
                &[("bucket_low", "2")],
                "bucket_high value (1.5) is less than or equal to the bucket_low value (2.0)",
            ),
            (&[("min_sstable_size", "-1")], "min_sstable_size must be non negative: -1"),
            (
                &[("min_threshold", "33")],
                "Min compaction threshold (got 33) cannot be greater than max compaction threshold (got 32)",
            ),
            (&[("enabled", "yes")], "enabled should either be 'true' or 'false', not yes"),
            (
                &[("fanout", "3")],
                "Properties specified [fanout] are not understood by SizeTieredCompactionStrategy",
            ),
        ] {
            assert_eq!(parse(options), Err(error.into()));
        }
    }

    #[test]
    fn strategies_that_are_to_come_are_told_from_those_that_nobody_knows() {
        let class = |class: &str| {
            CompactionOptions::parse(&CompactionParams { class: class.into(), options: BTreeMap::new() })
        };
        assert!(class("LeveledCompactionStrategy").unwrap_err().contains("not supported yet"));
        assert!(class("NoStrategy").unwrap_err().contains("Unable to find"));
        assert!(class("org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy").is_ok());
    }
}
