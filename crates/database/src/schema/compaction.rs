//! `compaction = {…}`: reading and checking it.

use std::collections::BTreeMap;

use cassette_rows::schema::CompactionParams;

use super::properties::Entries;
use crate::error::{Result, bail_config, bail_invalid};

pub(crate) const PACKAGE: &str = "org.apache.cassandra.db.compaction.";

/// Cassandra's strategies. Which of them work here is the engine's to say.
const STRATEGIES: [&str; 4] = [
    "SizeTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "TimeWindowCompactionStrategy",
    "UnifiedCompactionStrategy",
];

/// Reads the options as stored or written, unchecked: the class loses its package, thresholds get their defaults.
pub(crate) fn from_map(mut options: BTreeMap<String, String>) -> Result<CompactionParams> {
    let Some(class) = options.remove("class") else {
        bail_config!("Missing sub-option 'class' for the 'compaction' option");
    };
    let class = class.strip_prefix(PACKAGE).unwrap_or(&class).to_owned();
    if class != "UnifiedCompactionStrategy" {
        options.entry("min_threshold".into()).or_insert_with(|| "4".into());
        options.entry("max_threshold".into()).or_insert_with(|| "32".into());
    }
    Ok(CompactionParams { class, options })
}

/// Reads and checks the options as written.
pub(super) fn read(entries: &Entries) -> Result<CompactionParams> {
    let options = entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let params = from_map(options)?;
    if !STRATEGIES.contains(&params.class.as_str()) {
        let class = &params.class;
        let package = if class.contains('.') { "" } else { PACKAGE };
        bail_config!("Unable to find compaction strategy class '{package}{class}'");
    }
    if !cassette_engine::COMPACTION_STRATEGIES.contains(&params.class.as_str()) {
        bail_invalid!(
            "{} is not supported by Cassette yet; supported: {}",
            params.class,
            cassette_engine::COMPACTION_STRATEGIES.join(", ")
        );
    }
    validate(&params)?;
    Ok(params)
}

fn validate(params: &CompactionParams) -> Result<()> {
    let mut unknown = Vec::new();
    for (key, value) in &params.options {
        match key.as_str() {
            "tombstone_threshold" => match value.parse::<f32>() {
                Ok(threshold) if threshold < 0.0 => {
                    bail_config!("{key} must be greater than 0, but was {threshold:.6}")
                }
                Ok(_) => {}
                Err(_) => bail_config!("{value} is not a parsable int (base10) for {key}"),
            },
            "tombstone_compaction_interval" => match value.parse::<i64>() {
                Ok(interval) if interval < 0 => {
                    bail_config!("{key} must be greater than 0, but was {interval}")
                }
                Ok(_) => {}
                Err(_) => bail_config!("{value} is not a parsable int (base10) for {key}"),
            },
            "unchecked_tombstone_compaction" if !is_boolean(value) => {
                bail_config!("'{key}' should be either 'true' or 'false', not '{value}'")
            }
            "log_all" if !is_boolean(value) => {
                bail_config!("'{key}' should either be 'true' or 'false', not {value}")
            }
            "enabled" if !is_boolean(value) => {
                bail_config!("enabled should either be 'true' or 'false', not {value}")
            }
            "provide_overlapping_tombstones" => match value.to_uppercase().as_str() {
                "NONE" => {}
                upper @ ("ROW" | "CELL") => {
                    bail_invalid!("{key} = '{upper}' is not supported by Cassette yet; supported: NONE")
                }
                other => bail_config!(
                    "Invalid value {other} for '{key}' compaction sub-option - must be one of the following [NONE, ROW, CELL]."
                ),
            },
            "unchecked_tombstone_compaction" | "log_all" | "enabled" | "only_purge_repaired_tombstones" => {}
            "min_sstable_size" => match value.parse::<i64>() {
                Ok(size) if size < 0 => bail_config!("{key} must be non negative: {size}"),
                Ok(_) => {}
                Err(_) => bail_config!("{value} is not a parsable int (base10) for {key}"),
            },
            "bucket_low" | "bucket_high" => {
                number(params, key, 0.0)?;
            }
            "min_threshold" | "max_threshold" => {
                if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
                    bail_config!(
                        "Invalid value {value} for '{key}' compaction sub-option - must be an integer"
                    );
                }
            }
            _ => unknown.push(key.as_str()),
        }
    }
    let (low, high) = (number(params, "bucket_low", 0.5)?, number(params, "bucket_high", 1.5)?);
    if high <= low {
        bail_config!("bucket_high value ({high:?}) is less than or equal to the bucket_low value ({low:?})");
    }
    if !unknown.is_empty() {
        bail_config!("Properties specified [{}] are not understood by {}", unknown.join(", "), params.class);
    }
    let threshold = |key: &str, default: i64| {
        params.options.get(key).and_then(|value| value.parse::<i64>().ok()).unwrap_or(default)
    };
    let (min, max) = (threshold("min_threshold", 4), threshold("max_threshold", 32));
    if min <= 0 || max <= 0 {
        bail_config!(
            "Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction option 'enabled' to false instead."
        );
    }
    if min <= 1 {
        bail_config!("Min compaction threshold cannot be less than 2 (got {min})");
    }
    if min > max {
        bail_config!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
        );
    }
    Ok(())
}

fn number(params: &CompactionParams, key: &str, default: f64) -> Result<f64> {
    match params.options.get(key) {
        None => Ok(default),
        Some(value) => match value.parse() {
            Ok(value) => Ok(value),
            Err(_) => bail_config!("{value} is not a parsable float for {key}"),
        },
    }
}

fn is_boolean(value: &str) -> bool {
    value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false")
}
