//! The options of `WITH compaction = {…}`: parsed here, and rejected in Cassandra's words.

mod given;
mod strategies;
mod unified;

use cassette_rows::schema::CompactionParams;

use crate::basics::options::{LEAST_GARBAGE_THRESHOLD, OverlappingTombstones, SourcesPolicy};

use self::given::{Given, Result};
pub use self::strategies::{LeveledOptions, MAX_LEVELS, SizeTieredOptions, TimeUnit, TimeWindowOptions};
pub use self::unified::{Inclusion, UnifiedOptions};

/// The supported compaction strategies, by class without package.
pub const COMPACTION_STRATEGIES: &[&str] = &[
    "SizeTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "TimeWindowCompactionStrategy",
    "UnifiedCompactionStrategy",
];

/// The package of Cassandra's strategies.
const PACKAGE: &str = "org.apache.cassandra.db.compaction.";

/// A table's parsed compaction options. Defaults are Cassandra's.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionOptions {
    /// `enabled`: whether automatic compactions are enabled.
    pub enabled: bool,
    /// `min_threshold`: the minimum number of SSTables of a compaction.
    pub min_threshold: usize,
    /// `max_threshold`: the maximum number of SSTables of a compaction.
    pub max_threshold: usize,
    /// `tombstone_threshold`: the fraction of droppable tombstones beyond which an SSTable is
    /// compacted alone.
    pub tombstone_threshold: f64,
    /// `tombstone_compaction_interval`: its minimum age for that, seconds.
    pub tombstone_compaction_interval: u64,
    /// `unchecked_tombstone_compaction`: whether that decision ignores overlaps with other
    /// SSTables.
    pub unchecked_tombstone_compaction: bool,
    /// Whether SSTables are compacted alone for their tombstones. With time windows, only if one of
    /// the three options above is specified.
    pub tombstone_compactions: bool,
    /// `only_purge_repaired_tombstones`: no data is ever repaired here, so nothing is purged.
    pub only_purge_repaired_tombstones: bool,
    /// `provide_overlapping_tombstones`; `None` for the node's default.
    pub overlapping_tombstones: Option<OverlappingTombstones>,
    /// `overlapping_tombstones_max_sources`, an extension; `None` for the node's default, 0 for no
    /// limit.
    pub max_sources: Option<usize>,
    /// `overlapping_tombstones_policy`, an extension; `None` for the node's default.
    pub sources_policy: Option<SourcesPolicy>,
    /// `overlapping_tombstones_threshold`, an extension: the fraction of an SSTable that newer ones
    /// must shadow for it to be compacted alone; `None` for the node's default.
    pub garbage_threshold: Option<f64>,
    /// The class, and its specific options.
    pub strategy: Strategy,
}

/// A compaction strategy with its own options.
#[derive(Debug, Clone, PartialEq)]
pub enum Strategy {
    /// See [`size_tiered`](super::size_tiered).
    SizeTiered(SizeTieredOptions),
    /// See [`leveled`](super::leveled).
    Leveled(LeveledOptions),
    /// See [`time_window`](super::time_window).
    TimeWindow(TimeWindowOptions),
    /// See [`unified`](super::unified).
    Unified(UnifiedOptions),
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            min_threshold: 4,
            max_threshold: 32,
            tombstone_threshold: 0.2,
            tombstone_compaction_interval: 86_400,
            unchecked_tombstone_compaction: false,
            tombstone_compactions: true,
            only_purge_repaired_tombstones: false,
            overlapping_tombstones: None,
            max_sources: None,
            sources_policy: None,
            garbage_threshold: None,
            strategy: Strategy::SizeTiered(SizeTieredOptions::default()),
        }
    }
}

impl CompactionOptions {
    /// Parses a table's options. Errors have Cassandra's words if it has some; of several errors,
    /// the one that Cassandra reports.
    pub fn parse(params: &CompactionParams) -> Result<Self> {
        let class = params.class.strip_prefix(PACKAGE).unwrap_or(&params.class);
        if !COMPACTION_STRATEGIES.contains(&class) {
            let package = if class.contains('.') { "" } else { PACKAGE };
            return Err(format!("Unable to find compaction strategy class '{package}{class}'"));
        }
        let mut given = Given::new(&params.options);
        let mut options = Self::default();
        options.read_overlapping_tombstones(&mut given)?;
        options.read_common(&mut given)?;
        let thresholds = [given.take("min_threshold"), given.take("max_threshold")];
        options.strategy = match class {
            "LeveledCompactionStrategy" => Strategy::Leveled(LeveledOptions::read(&mut given)?),
            "TimeWindowCompactionStrategy" => {
                let asked = [
                    "unchecked_tombstone_compaction",
                    "tombstone_compaction_interval",
                    "tombstone_threshold",
                ];
                options.tombstone_compactions =
                    asked.iter().any(|name| params.options.get(*name).is_some_and(|value| value != "false"));
                Strategy::TimeWindow(TimeWindowOptions::read(&mut given)?)
            }
            "UnifiedCompactionStrategy" => {
                let unified = UnifiedOptions::read(&mut given)?;
                let known = [("min_threshold", &thresholds[0]), ("max_threshold", &thresholds[1])];
                let known = known.iter().filter(|(_, text)| text.is_some()).map(|(name, _)| *name);
                let mut unknown: Vec<_> = given.left().chain(known).collect();
                unknown.sort_unstable();
                refuse_unknown(&unknown, class)?;
                Strategy::Unified(unified)
            }
            _ => Strategy::SizeTiered(SizeTieredOptions::read(&mut given)?),
        };
        refuse_unknown(&given.left().collect::<Vec<_>>(), class)?;
        let [min, max] = thresholds;
        options.min_threshold = threshold("min_threshold", min, options.min_threshold)?;
        options.max_threshold = threshold("max_threshold", max, options.max_threshold)?;
        options.check_thresholds()?;
        Ok(options)
    }

    /// Whether `unsafe_aggressive_sstable_expiration` is set and has an effect.
    pub fn ignores_overlaps(&self) -> bool {
        match &self.strategy {
            Strategy::TimeWindow(own) => own.ignore_overlaps,
            _ => false,
        }
    }

    fn read_overlapping_tombstones(&mut self, given: &mut Given) -> Result<()> {
        if let Some(text) = given.take("provide_overlapping_tombstones") {
            self.overlapping_tombstones = Some(OverlappingTombstones::from_name(&text).ok_or_else(|| {
                format!(
                    "Invalid value {} for 'provide_overlapping_tombstones' compaction sub-option - must be \
                     one of the following [NONE, ROW, CELL].",
                    text.to_uppercase()
                )
            })?);
        }
        let name = "overlapping_tombstones_max_sources";
        if let Some(text) = given.take(name) {
            let sources: i64 =
                text.parse().map_err(|_| format!("{text} is not a parsable int (base10) for {name}"))?;
            let sources = usize::try_from(sources)
                .map_err(|_| format!("{name} must not be negative (0 is no limit), but was {text}"))?;
            self.max_sources = Some(sources);
        }
        let name = "overlapping_tombstones_policy";
        if let Some(text) = given.take(name) {
            self.sources_policy = Some(SourcesPolicy::from_name(&text).ok_or_else(|| {
                format!(
                    "Invalid value {text} for '{name}' compaction sub-option - must be one of the \
                    following [newest, skip]."
                )
            })?);
        }
        let threshold = "overlapping_tombstones_threshold";
        if given.has(threshold) {
            let share = given.float(threshold, 0.0, "float")?;
            if !(LEAST_GARBAGE_THRESHOLD..=1.0).contains(&share) {
                return Err(format!(
                    "{threshold} must be between {LEAST_GARBAGE_THRESHOLD} and 1, but was {share}"
                ));
            }
            self.garbage_threshold = Some(share);
        }
        let limits = [
            ("overlapping_tombstones_max_sources", self.max_sources.is_some()),
            (name, self.sources_policy.is_some()),
            (threshold, self.garbage_threshold.is_some()),
        ];
        if self.overlapping_tombstones == Some(OverlappingTombstones::None)
            && let Some((limit, _)) = limits.iter().find(|(_, given)| *given)
        {
            return Err(format!(
                "{limit} contradicts 'provide_overlapping_tombstones': 'none': there are no sources to limit"
            ));
        }
        if self.sources_policy.is_some() && self.max_sources.is_none() {
            return Err(format!("{name} says nothing without overlapping_tombstones_max_sources: give both"));
        }
        Ok(())
    }

    /// Reads the options that all strategies have.
    fn read_common(&mut self, given: &mut Given) -> Result<()> {
        let threshold = given.float("tombstone_threshold", self.tombstone_threshold, "int (base10)")?;
        if threshold < 0.0 {
            return Err(format!(
                "tombstone_threshold must be greater than 0, but was {:.6}",
                threshold as f32
            ));
        }
        self.tombstone_threshold = threshold;
        let name = "tombstone_compaction_interval";
        let interval = given.long(name, self.tombstone_compaction_interval as i64, "int (base10)")?;
        self.tombstone_compaction_interval = u64::try_from(interval)
            .map_err(|_| format!("{name} must be greater than 0, but was {interval}"))?;
        self.unchecked_tombstone_compaction =
            given.boolean("unchecked_tombstone_compaction", false, |text| {
                format!("'unchecked_tombstone_compaction' should be either 'true' or 'false', not '{text}'")
            })?;
        // All compactions are logged anyway.
        given.boolean("log_all", false, |text| {
            format!("'log_all' should either be 'true' or 'false', not {text}")
        })?;
        self.enabled = given.boolean("enabled", true, |text| {
            format!("enabled should either be 'true' or 'false', not {text}")
        })?;
        self.only_purge_repaired_tombstones = given.lenient_boolean("only_purge_repaired_tombstones");
        Ok(())
    }

    fn check_thresholds(&self) -> Result<()> {
        let (min, max) = (self.min_threshold, self.max_threshold);
        if min == 0 || max == 0 {
            return Err("Disabling compaction by setting compaction thresholds to 0 has been removed, set \
                the compaction option 'enabled' to false instead."
                .into());
        }
        if min < 2 {
            return Err(format!("Min compaction threshold cannot be less than 2 (got {min})"));
        }
        if min > max {
            return Err(format!(
                "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
            ));
        }
        Ok(())
    }
}

fn refuse_unknown(unknown: &[&str], class: &str) -> Result<()> {
    match unknown {
        [] => Ok(()),
        _ => Err(format!("Properties specified [{}] are not understood by {class}", unknown.join(", "))),
    }
}

fn threshold(name: &str, text: Option<String>, default: usize) -> Result<usize> {
    let Some(text) = text else { return Ok(default) };
    // Digits only: no sign, no spaces.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| {
        format!("Invalid value {text} for '{name}' compaction sub-option - must be an integer")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(class: &str, options: &[(&str, &str)]) -> Result<CompactionOptions> {
        let options = options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        CompactionOptions::parse(&CompactionParams { class: class.into(), options })
    }

    #[test]
    fn the_defaults_are_those_of_a_table_without_options() {
        assert_eq!(CompactionOptions::parse(&CompactionParams::default()), Ok(CompactionOptions::default()));
    }

    /// A strategy with options, and the error of those.
    type Refused = (&'static str, &'static [(&'static str, &'static str)], &'static str);

    const REFUSED: [Refused; 22] = [
        ("SizeTiered", &[("bucket_low", "x")], "x is not a parsable float for bucket_low"),
        (
            "SizeTiered",
            &[("bucket_low", "2")],
            "bucket_high value (1.5) is less than or equal to the bucket_low value (2.0)",
        ),
        ("SizeTiered", &[("min_sstable_size", "-1")], "min_sstable_size must be non negative: -1"),
        (
            "SizeTiered",
            &[("min_threshold", "33")],
            "Min compaction threshold (got 33) cannot be greater than max compaction threshold (got 32)",
        ),
        (
            "SizeTiered",
            &[("overlapping_tombstones_max_sources", "-1")],
            "overlapping_tombstones_max_sources must not be negative (0 is no limit), but was -1",
        ),
        (
            "SizeTiered",
            &[("overlapping_tombstones_policy", "skip")],
            "overlapping_tombstones_policy says nothing without overlapping_tombstones_max_sources: give both",
        ),
        (
            "SizeTiered",
            &[("provide_overlapping_tombstones", "none"), ("overlapping_tombstones_max_sources", "3")],
            "overlapping_tombstones_max_sources contradicts 'provide_overlapping_tombstones': 'none': \
             there are no sources to limit",
        ),
        (
            "SizeTiered",
            &[("overlapping_tombstones_threshold", "0.005")],
            "overlapping_tombstones_threshold must be between 0.01 and 1, but was 0.005",
        ),
        (
            "SizeTiered",
            &[("overlapping_tombstones_threshold", "much")],
            "much is not a parsable float for overlapping_tombstones_threshold",
        ),
        ("SizeTiered", &[("enabled", "yes")], "enabled should either be 'true' or 'false', not yes"),
        (
            "SizeTiered",
            &[("fanout", "3")],
            "Properties specified [fanout] are not understood by SizeTieredCompactionStrategy",
        ),
        ("Leveled", &[("sstable_size_in_mb", "0")], "sstable_size_in_mb must be larger than 0, but was 0"),
        ("Leveled", &[("fanout_size", "x")], "x is not a parsable int (base10) for fanout_size"),
        (
            "Leveled",
            &[("fanout_size", "1000")],
            "At most 9223372036854775807 bytes may be in a compaction level; your maxSSTableSize must \
             be absurdly high to compute 1048576000000000000000000000000",
        ),
        (
            "TimeWindow",
            &[("compaction_window_unit", "YEARS")],
            "YEARS is not valid for compaction_window_unit",
        ),
        (
            "TimeWindow",
            &[("compaction_window_size", "0")],
            "0 must be greater than 1 for compaction_window_size",
        ),
        (
            "Unified",
            &[("min_threshold", "4")],
            "Properties specified [min_threshold] are not understood by UnifiedCompactionStrategy",
        ),
        ("Unified", &[("scaling_parameters", "T1")], "Fan factor cannot be lower than 2 in T1"),
        (
            "Unified",
            &[("scaling_parameters", "Q")],
            "Scaling parameter Q must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+",
        ),
        (
            "Unified",
            &[("target_sstable_size", "1KiB")],
            "target_sstable_size 1KiB is not acceptable, size must be at least 1.000MiB",
        ),
        (
            "Unified",
            &[("min_sstable_size", "800MiB")],
            "Invalid configuration, min_sstable_size (800.000MiB) should be less than 70% of the \
             targetSSTableSize (1.000GiB)",
        ),
        ("Unified", &[("sstable_growth", "2")], "sstable_growth 2 must be between 0 and 1"),
    ];

    #[test]
    fn options_out_of_bounds_and_unknown_ones_are_refused() {
        for (class, options, error) in REFUSED {
            let class = format!("{class}CompactionStrategy");
            assert_eq!(parse(&class, options), Err(error.into()));
        }
    }

    #[test]
    fn a_class_that_nobody_knows_is_named_with_its_package() {
        let error = parse("NoStrategy", &[]).unwrap_err();
        assert_eq!(
            error,
            "Unable to find compaction strategy class 'org.apache.cassandra.db.compaction.NoStrategy'"
        );
        assert!(parse("org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy", &[]).is_ok());
    }

    #[test]
    fn time_windows_compact_for_tombstones_only_where_that_is_asked_for() {
        let asks = |options| parse("TimeWindowCompactionStrategy", options).unwrap().tombstone_compactions;
        assert!(!asks(&[]));
        assert!(!asks(&[("unchecked_tombstone_compaction", "false")]));
        assert!(asks(&[("tombstone_threshold", "0.3")]));
        assert!(asks(&[("unchecked_tombstone_compaction", "true")]));
    }
}
