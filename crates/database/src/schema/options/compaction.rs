//! `compaction = {…}`: reading and validation.

use std::collections::BTreeMap;

use cassette_engine::CompactionOptions;
use cassette_rows::schema::CompactionParams;

use super::properties::Entries;
use crate::basics::error::{Result, bail_config};

pub(crate) const PACKAGE: &str = "org.apache.cassandra.db.compaction.";

/// Reads stored or specified options without validation: removes the package of the class, and sets
/// the default thresholds.
pub fn from_map(mut options: BTreeMap<String, String>) -> Result<CompactionParams> {
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

/// Validates the class alone.
pub(crate) fn check_class(entries: &Entries) -> Result<()> {
    let class = entries.iter().filter(|(key, _)| &**key == "class");
    let params = from_map(class.map(|(key, value)| (key.to_string(), value.to_string())).collect())?;
    match CompactionOptions::parse(&params) {
        Ok(_) => Ok(()),
        Err(why) => bail_config!("{why}"),
    }
}

/// Reads and validates the options of a statement. The engine defines and checks them.
pub(crate) fn read(entries: &Entries) -> Result<CompactionParams> {
    let options = entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let params = from_map(options)?;
    match CompactionOptions::parse(&params) {
        Ok(options) if options.ignores_overlaps() => bail_config!(
            "unsafe_aggressive_sstable_expiration is requested but not allowed, restart cassandra with \
             -Dcassandra.allow_unsafe_aggressive_sstable_expiration=true to allow it"
        ),
        Ok(_) => Ok(params),
        Err(why) => bail_config!("{why}"),
    }
}
