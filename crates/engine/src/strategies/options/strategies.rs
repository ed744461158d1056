//! The options of size-tiered, leveled and time-window compaction.

use super::given::{Given, Result};

/// The specific options of size-tiered compaction, which leveled and time-window compaction use,
/// too.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeTieredOptions {
    /// `min_sstable_size`, bytes: all smaller SSTables are in one bucket.
    pub min_sstable_size: u64,
    /// `bucket_low`: the minimum size of an SSTable, relative to its bucket's average.
    pub bucket_low: f64,
    /// `bucket_high`: the maximum size.
    pub bucket_high: f64,
}

impl Default for SizeTieredOptions {
    fn default() -> Self {
        Self { min_sstable_size: 50 << 20, bucket_low: 0.5, bucket_high: 1.5 }
    }
}

impl SizeTieredOptions {
    pub(super) fn read(given: &mut Given) -> Result<Self> {
        let defaults = Self::default();
        let size = given.long("min_sstable_size", defaults.min_sstable_size as i64, "int (base10)")?;
        let min_sstable_size =
            u64::try_from(size).map_err(|_| format!("min_sstable_size must be non negative: {size}"))?;
        let bucket_low = given.float("bucket_low", defaults.bucket_low, "float")?;
        let bucket_high = given.float("bucket_high", defaults.bucket_high, "float")?;
        if bucket_high <= bucket_low {
            return Err(format!(
                "bucket_high value ({bucket_high:?}) is less than or equal to the bucket_low value ({bucket_low:?})"
            ));
        }
        Ok(Self { min_sstable_size, bucket_low, bucket_high })
    }
}

/// The specific options of leveled compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct LeveledOptions {
    /// `sstable_size_in_mb`, in bytes: the size at which outputs are cut.
    pub sstable_size: u64,
    /// `fanout_size`: the ratio of the sizes of consecutive levels.
    pub fanout_size: u32,
    /// `single_sstable_uplevel`: whether a single SSTable is moved to the next level without being
    /// rewritten.
    pub single_sstable_uplevel: bool,
    /// How L0 is compacted when compaction falls behind.
    pub size_tiered: SizeTieredOptions,
}

/// The number of levels, including L0. With more, capacities would not fit 64 bits.
pub const MAX_LEVELS: usize = 9;

impl Default for LeveledOptions {
    fn default() -> Self {
        Self {
            sstable_size: 160 << 20,
            fanout_size: 10,
            single_sstable_uplevel: false,
            size_tiered: SizeTieredOptions::default(),
        }
    }
}

impl LeveledOptions {
    pub(super) fn read(given: &mut Given) -> Result<Self> {
        let positive = |name: &str, value: i32| match u32::try_from(value) {
            Ok(value) if value > 0 => Ok(value),
            _ => Err(format!("{name} must be larger than 0, but was {value}")),
        };
        let name = "sstable_size_in_mb";
        let is_given = given.has(name);
        let size = positive(name, given.int(name, 160)?)?;
        let checked = if is_given { size } else { 1 };
        let fanout = positive("fanout_size", given.int("fanout_size", 10)?)?;
        // As in Cassandra, which checks the default size as 1 MiB.
        refuse_overflow(u64::from(checked) << 20, fanout)?;
        Ok(Self {
            sstable_size: u64::from(size) << 20,
            fanout_size: fanout,
            single_sstable_uplevel: given.lenient_boolean("single_sstable_uplevel"),
            size_tiered: SizeTieredOptions::read(given)?,
        })
    }
}

/// Rejects options whose largest level has more bytes than can be represented.
fn refuse_overflow(sstable_size: u64, fanout: u32) -> Result<()> {
    // 2^31 MiB times 2^31 to the eighth power: 299 bits, in decimal digits.
    let mut digits: Vec<u32> =
        sstable_size.to_string().bytes().rev().map(|digit| u32::from(digit - b'0')).collect();
    for _ in 1..MAX_LEVELS {
        let mut carry = 0u64;
        for digit in &mut digits {
            let product = u64::from(*digit) * u64::from(fanout) + carry;
            *digit = (product % 10) as u32;
            carry = product / 10;
        }
        while carry > 0 {
            digits.push((carry % 10) as u32);
            carry /= 10;
        }
    }
    let text: String = digits.iter().rev().filter_map(|digit| char::from_digit(*digit, 10)).collect();
    match text.parse::<i64>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!(
            "At most {} bytes may be in a compaction level; your maxSSTableSize must be absurdly high to \
             compute {text}",
            i64::MAX
        )),
    }
}

/// A unit of time, by the name of Java's `TimeUnit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
    Minutes,
    Hours,
    Days,
}

impl TimeUnit {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "NANOSECONDS" => Self::Nanoseconds,
            "MICROSECONDS" => Self::Microseconds,
            "MILLISECONDS" => Self::Milliseconds,
            "SECONDS" => Self::Seconds,
            "MINUTES" => Self::Minutes,
            "HOURS" => Self::Hours,
            "DAYS" => Self::Days,
            _ => return None,
        })
    }
}

/// The specific options of time-window compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeWindowOptions {
    /// `compaction_window_unit`: minutes, hours or days.
    pub window_unit: TimeUnit,
    /// `compaction_window_size`, in that unit.
    pub window_size: u32,
    /// `timestamp_resolution`: the unit of write timestamps, microseconds unless the application
    /// sets its own.
    pub timestamp_resolution: TimeUnit,
    /// `expired_sstable_check_frequency_seconds`: the interval of checks for expired SSTables.
    pub expired_check_seconds: u64,
    /// `unsafe_aggressive_sstable_expiration`: whether expired SSTables are dropped although older
    /// data overlaps them.
    pub ignore_overlaps: bool,
    /// How the newest window is compacted.
    pub size_tiered: SizeTieredOptions,
}

impl Default for TimeWindowOptions {
    fn default() -> Self {
        Self {
            window_unit: TimeUnit::Days,
            window_size: 1,
            timestamp_resolution: TimeUnit::Microseconds,
            expired_check_seconds: 600,
            ignore_overlaps: false,
            size_tiered: SizeTieredOptions::default(),
        }
    }
}

impl TimeWindowOptions {
    pub(super) fn read(given: &mut Given) -> Result<Self> {
        let defaults = Self::default();
        let mut unit = |name: &str, default, valid: &dyn Fn(TimeUnit) -> bool| {
            let Some(text) = given.take(name) else { return Ok(default) };
            let unit = TimeUnit::from_name(&text).filter(|unit| valid(*unit));
            unit.ok_or_else(|| format!("{text} is not valid for {name}"))
        };
        let is_window = |unit| matches!(unit, TimeUnit::Minutes | TimeUnit::Hours | TimeUnit::Days);
        let timestamp_resolution =
            unit("timestamp_resolution", defaults.timestamp_resolution, &|unit| !is_window(unit))?;
        let window_unit = unit("compaction_window_unit", defaults.window_unit, &is_window)?;
        let name = "compaction_window_size";
        let size = given.int(name, 1)?;
        let window_size = u32::try_from(size).ok().filter(|size| *size > 0);
        let window_size = window_size.ok_or_else(|| format!("{size} must be greater than 1 for {name}"))?;
        let name = "expired_sstable_check_frequency_seconds";
        let seconds = given.long(name, defaults.expired_check_seconds as i64, "int (base10)")?;
        let expired_check_seconds =
            u64::try_from(seconds).map_err(|_| format!("{name} must not be negative, but was {seconds}"))?;
        let name = "unsafe_aggressive_sstable_expiration";
        let ignore_overlaps =
            given.boolean(name, false, |text| format!("{name} is not 'true' or 'false' ({text})"))?;
        Ok(Self {
            window_unit,
            window_size,
            timestamp_resolution,
            expired_check_seconds,
            ignore_overlaps,
            size_tiered: SizeTieredOptions::read(given)?,
        })
    }
}
