//! Table options: reading and validation.

use cassette_cql::ast::Properties;
use cassette_cql::values::number::double_to_text;
use cassette_rows::TableParams;
use cassette_rows::schema::{CachingParams, RowsPerPartition};
use uuid::Uuid;

use super::properties::{Attributes, Entries};
use super::{compaction, compression, speculation};
use crate::basics::error::{Result, bail_config};

pub(crate) const OPTIONS: [&str; 21] = [
    "additional_write_policy",
    "allow_auto_snapshot",
    "auto_repair",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "default_time_to_live",
    // Accepted and discarded, as in Cassandra, where it has no effect either.
    "extensions",
    "gc_grace_seconds",
    "id",
    "incremental_backups",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "read_repair",
    "speculative_retry",
];

/// Twenty years, `Attributes.MAX_TTL`.
const TTL_MAX: i32 = 20 * 365 * 24 * 60 * 60;

/// The smallest false-positive chance in Cassandra's table of bloom filter sizes: 6.71e-5, with 20
/// buckets for each element.
const BLOOM_FILTER_FP_CHANCE_MIN: f64 = 6.71e-5;

/// Returns `WITH ID = …`, if it is specified.
pub(crate) fn table_id(properties: &Properties) -> Result<Option<Uuid>> {
    let Some(text) = Attributes(properties).string("id")? else { return Ok(None) };
    match Uuid::parse_str(text) {
        Ok(id) => Ok(Some(id)),
        Err(_) => bail_config!("Invalid table id"),
    }
}

/// Rejects values that cannot be parsed, before the existence of tables is checked. Values out of
/// range are rejected later.
pub(crate) fn check(properties: &Properties) -> Result<()> {
    let attributes = Attributes(properties);
    for name in ["allow_auto_snapshot", "cdc", "incremental_backups"] {
        attributes.boolean(name)?;
    }
    for name in ["bloom_filter_fp_chance", "crc_check_chance"] {
        attributes.double(name)?;
    }
    for name in [
        "default_time_to_live",
        "gc_grace_seconds",
        "max_index_interval",
        "memtable_flush_period_in_ms",
        "min_index_interval",
    ] {
        attributes.int(name)?;
    }
    for name in ["speculative_retry", "additional_write_policy"] {
        attributes.string(name)?.map(speculation::parse).transpose()?;
    }
    attributes.map("caching")?.map(read_caching).transpose()?;
    attributes.map("compaction")?.map(compaction::check_class).transpose()?;
    attributes.map("compression")?.map(compression::read).transpose()?;
    read_memtable(attributes)?;
    Ok(())
}

/// Returns the options of `base`, replaced by those of `properties`, all validated.
pub(crate) fn read(properties: &Properties, base: &TableParams) -> Result<TableParams> {
    let attributes = Attributes(properties);
    attributes.refuse_unknown(&OPTIONS)?;
    if attributes.0.get("auto_repair").is_some() {
        bail_config!(
            "auto_repair option is not supported unless auto-repair is enabled with -Dcassandra.autorepair.enable=true"
        );
    }
    let mut params = base.clone();
    params.allow_auto_snapshot = attributes.boolean("allow_auto_snapshot")?.or(params.allow_auto_snapshot);
    params.bloom_filter_fp_chance =
        attributes.double("bloom_filter_fp_chance")?.or(params.bloom_filter_fp_chance);
    replace(&mut params.caching, attributes.map("caching")?.map(read_caching).transpose()?);
    replace(&mut params.comment, attributes.string("comment")?.map(str::to_owned));
    replace(&mut params.compaction, attributes.map("compaction")?.map(compaction::read).transpose()?);
    replace(&mut params.compression, attributes.map("compression")?.map(compression::read).transpose()?);
    replace(&mut params.memtable, read_memtable(attributes)?.map(str::to_owned));
    if let Some(value) = attributes.int("default_time_to_live")? {
        if value > TTL_MAX {
            bail_config!("default_time_to_live must be less than or equal to {TTL_MAX} (got {value})");
        }
        params.default_time_to_live = at_least_zero("default_time_to_live", value)?;
    }
    if let Some(value) = attributes.int("gc_grace_seconds")? {
        params.gc_grace_seconds = at_least_zero("gc_grace_seconds", value)?;
    }
    params.incremental_backups = attributes.boolean("incremental_backups")?.or(params.incremental_backups);
    if let Some(value) = attributes.int("memtable_flush_period_in_ms")? {
        params.memtable_flush_period_in_ms = at_least_zero("memtable_flush_period_in_ms", value)?;
    }
    let speculation = |name: &str| attributes.string(name)?.map(speculation::parse).transpose();
    replace(&mut params.speculative_retry, speculation("speculative_retry")?);
    replace(&mut params.additional_write_policy, speculation("additional_write_policy")?);
    if let Some(value) = attributes.double("crc_check_chance")? {
        if !(0.0..=1.0).contains(&value) {
            bail_config!(
                "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {value:?})"
            );
        }
        params.crc_check_chance = value;
    }
    if let Some(value) = attributes.boolean("cdc")? {
        params.cdc = value;
    }
    if let Some(value) = attributes.string("read_repair")? {
        params.read_repair = match value.to_uppercase().as_str() {
            value @ ("NONE" | "BLOCKING") => value.to_owned(),
            _ => bail_config!("Invalid value {value} for option 'read_repair'"),
        };
    }
    read_index_intervals(&attributes, &mut params)?;
    let chance = params.bloom_filter_fp_chance();
    if chance <= BLOOM_FILTER_FP_CHANCE_MIN || chance > 1.0 || chance.is_nan() {
        bail_config!(
            "bloom_filter_fp_chance must be larger than {} and less than or equal to 1.0 (got {})",
            "6.71E-5",
            double_to_text(chance)
        );
    }
    // Stored at creation: a later change of the compaction strategy does not change it.
    params.bloom_filter_fp_chance = Some(chance);
    // `true` is the default, and not stored.
    params.allow_auto_snapshot = params.allow_auto_snapshot.filter(|on| !on);
    params.incremental_backups = params.incremental_backups.filter(|on| !on);
    Ok(params)
}

fn replace<T>(current: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *current = new;
    }
}

/// Returns the name of a memtable configuration; only the default one exists.
fn read_memtable<'a>(attributes: Attributes<'a>) -> Result<Option<&'a str>> {
    match attributes.string("memtable")? {
        Some(value) if value != "default" => bail_config!("Memtable configuration \"{value}\" not found."),
        value => Ok(value),
    }
}

fn at_least_zero(name: &str, value: i32) -> Result<u32> {
    match u32::try_from(value) {
        Ok(value) => Ok(value),
        Err(_) => bail_config!("{name} must be greater than or equal to 0 (got {value})"),
    }
}

fn read_index_intervals(attributes: &Attributes<'_>, params: &mut TableParams) -> Result<()> {
    if let Some(value) = attributes.int("min_index_interval")? {
        params.min_index_interval = match u32::try_from(value) {
            Ok(value) if value >= 1 => value,
            _ => bail_config!("min_index_interval must be greater than or equal to 1 (got {value})"),
        };
    }
    let max = attributes.int("max_index_interval")?;
    let min = params.min_index_interval;
    let value = max.map_or(i64::from(params.max_index_interval), i64::from);
    params.max_index_interval = match u32::try_from(value) {
        Ok(value) if value >= min => value,
        _ => bail_config!(
            "max_index_interval must be greater than or equal to min_index_interval ({min}) (got {value})"
        ),
    };
    Ok(())
}

/// `{'keys': 'ALL' | 'NONE', 'rows_per_partition': 'ALL' | 'NONE' | n}`
pub(crate) fn read_caching(entries: &Entries) -> Result<CachingParams> {
    let mut caching = CachingParams { keys: false, rows_per_partition: RowsPerPartition::None };
    let mut unknown = Vec::new();
    for (key, value) in entries {
        match &**key {
            "keys" if value.eq_ignore_ascii_case("ALL") => caching.keys = true,
            "keys" if value.eq_ignore_ascii_case("NONE") => caching.keys = false,
            "keys" => bail_config!(
                "Invalid value '{value}' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed"
            ),
            "rows_per_partition" => {
                caching.rows_per_partition = match &**value {
                    all if all.eq_ignore_ascii_case("ALL") => RowsPerPartition::All,
                    none if none.eq_ignore_ascii_case("NONE") => RowsPerPartition::None,
                    number => match number.parse::<u32>() {
                        Ok(0) => RowsPerPartition::None,
                        Ok(rows) if rows < i32::MAX as u32 => RowsPerPartition::Head(rows),
                        Ok(_) => RowsPerPartition::All,
                        Err(_) => bail_config!(
                            "Invalid value '{value}' for caching sub-option 'rows_per_partition': only \
                             'ALL', 'NONE', and integer values are allowed"
                        ),
                    },
                }
            }
            _ => unknown.push(&**key),
        }
    }
    if !unknown.is_empty() {
        bail_config!(
            "Invalid caching sub-options [{}]: only 'keys' and 'rows_per_partition' are allowed",
            unknown.join(", ")
        );
    }
    Ok(caching)
}
