//! Keys of cassandra.yaml from before Cassandra 4.1, whose names contained units.

use std::borrow::Cow;

use anyhow::bail;

/// A line each: the old name, the present one, and the unit of its numbers if the setting has an
/// effect here and its numbers had one. Instead of a unit, a negative number is added: the old
/// thresholds on keyspaces and tables counted the 5 and 48 of Cassandra 5.0.8 itself.
const OLD_NAMES: &str = include_str!("old_names.txt");

/// Returns the file with present names, and units after the numbers of old ones. Line numbers are
/// preserved, because errors name them.
///
/// # Errors
/// If a setting is present with both of its names.
pub fn modernized(text: &str) -> anyhow::Result<Cow<'_, str>> {
    if !text.lines().any(|line| find(line).is_some()) {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len() + 256);
    for line in text.lines() {
        match find(line) {
            None => out.push_str(line),
            Some(Renamed { old, new, unit, value }) => {
                let is_new = |line: &str| line.split_once(':').is_some_and(|(key, _)| key == new);
                if old != new && text.lines().any(is_new) {
                    bail!("{old} and {new} are the same setting: specify one of them");
                }
                out.push_str(new);
                out.push_str(": ");
                out.push_str(&with_unit(value, unit));
            }
        }
        out.push('\n');
    }
    Ok(Cow::Owned(out))
}

/// Returns the old names.
pub fn all() -> impl Iterator<Item = &'static str> {
    OLD_NAMES.lines().filter_map(|known| known.split(' ').next())
}

struct Renamed<'a> {
    old: &'static str,
    new: &'static str,
    unit: &'static str,
    value: &'a str,
}

/// Returns the old name in a line of the file.
fn find(line: &str) -> Option<Renamed<'_>> {
    let (key, value) = line.split_once(':')?;
    OLD_NAMES.lines().find_map(|known| {
        let mut words = known.split(' ');
        let (old, new) = (words.next()?, words.next()?);
        (old == key).then(|| Renamed {
            old,
            new,
            unit: words.next().unwrap_or_default(),
            value: value.trim(),
        })
    })
}

/// Appends the unit to a bare number; a negative one means "none" or "no limit", like an absent
/// value.
fn with_unit(value: &str, unit: &str) -> String {
    let number = value.split('#').next().unwrap_or_default().trim();
    match number.parse::<i64>() {
        Ok(number) if unit.starts_with('-') => {
            number.saturating_add(unit.parse().unwrap_or_default()).to_string()
        }
        Ok(number) if number < 0 && unit == "s" => "0s".to_owned(),
        Ok(number) if number < 0 && unit == "B" => String::new(),
        Ok(number) if !unit.is_empty() => format!("{number}{unit}"),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_become_todays_with_units() {
        let old = "row_cache_size_in_mb: 16\ncompaction_throughput_mb_per_sec: 64 # as ever\n\
                   commitlog_sync_period_in_ms: 10000\ncolumn_index_size_in_kb: 4\nenable_materialized_views: true\n\
                   key_cache_save_period: 14400\ncache_load_timeout_seconds: -1\nkey_cache_size_in_mb:\n\
                   native_transport_max_concurrent_requests_in_bytes: -1\nread_request_timeout_in_ms: 5000\n";
        let new = "row_cache_size: 16MiB\ncompaction_throughput: 64MiB/s\ncommitlog_sync_period: 10000ms\n\
                   column_index_size: 4KiB\nmaterialized_views_enabled: true\nkey_cache_save_period: 14400s\n\
                   cache_load_timeout: 0s\nkey_cache_size: \nnative_transport_max_request_data_in_flight: \n\
                   read_request_timeout: 5000ms\n";
        assert_eq!(modernized(old).unwrap(), new);
        assert_eq!(modernized(new).unwrap(), new);
    }

    /// The output of `system_views.settings` of 5.0.8: 4 and 47 for thresholds of -1.
    #[test]
    fn old_counts_of_keyspaces_and_tables_lose_those_of_the_system() {
        let old = "keyspace_count_warn_threshold: 40\ntable_count_warn_threshold: 150 # all of them\n\
                   compaction_large_partition_warning_threshold_mb: 100\ncompaction_tombstone_warning_threshold: 7\n";
        let new = "keyspaces_warn_threshold: 35\ntables_warn_threshold: 102\n\
                   partition_size_warn_threshold: 100MiB\npartition_tombstones_warn_threshold: 7\n";
        assert_eq!(modernized(old).unwrap(), new);
        let refused =
            super::super::Config::parse("table_count_warn_threshold: 20\n").unwrap_err().to_string();
        assert!(refused.contains("tables_warn_threshold"), "{refused}");
    }

    #[test]
    fn one_setting_by_two_names_is_refused() {
        let error = modernized("row_cache_size: 1MiB\nrow_cache_size_in_mb: 1\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "row_cache_size_in_mb and row_cache_size are the same setting: specify one of them"
        );
    }

    #[test]
    fn every_todays_name_is_known() {
        for line in OLD_NAMES.lines() {
            let name = line.split(' ').nth(1).unwrap();
            let file = format!("{name}: \n");
            assert!(super::super::Config::parse(&file).is_ok(), "{name}");
        }
    }
}
