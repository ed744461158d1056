//! Options as texts, for the libraries of other languages.

use std::time::Duration;

use cassette_database::{DatabaseError as Error, OpenOptions, Result};
use cassette_engine::commitlog::SyncMode;

/// Sets an option by its name in cassandra.yaml. Sizes are numbers of bytes, switches are `true` or
/// `false`: `commitlog_sync` (`periodic`, `batch` or `group`), `commitlog_segment_size`,
/// `commitlog_total_space`, `memtable_heap_space`, `file_cache_size`, `key_cache_size`,
/// `row_cache_size`, `counter_cache_size`, `prepared_statements_cache_size`, `auto_snapshot`,
/// `materialized_views_enabled`, and the names of guardrails. Besides, `seed` is a number that
/// makes times and UUIDs of a new database the same in each run.
///
/// # Errors
/// Config, if the value is invalid. Opening the database rejects names that are no guardrails.
pub fn set(options: OpenOptions, name: &str, value: &str) -> Result<OpenOptions> {
    let invalid =
        |expected: &str| Error::Config(format!("invalid {name}: expected {expected}, found {value:?}"));
    let size = || value.parse::<u64>().map_err(|_| invalid("a number of bytes"));
    let switch = || value.parse::<bool>().map_err(|_| invalid("true or false"));
    let too_large = |_| invalid("a number of bytes within the address space");
    Ok(match name {
        "commitlog_sync" => options.commitlog_sync(match value {
            "periodic" => SyncMode::Periodic { period: Duration::from_secs(10) },
            "batch" => SyncMode::Batch,
            "group" => SyncMode::Group { window: Duration::from_millis(10) },
            _ => return Err(invalid("periodic, batch or group")),
        }),
        "commitlog_segment_size" => options
            .commitlog_segment_size(value.parse().map_err(|_| invalid("a number of bytes below 4 GiB"))?),
        "commitlog_total_space" => options.commitlog_total_space(size()?),
        "memtable_heap_space" => options.memtable_heap_space(size()?.try_into().map_err(too_large)?),
        "file_cache_size" => options.file_cache_size(size()?),
        "key_cache_size" => options.key_cache_size(size()?),
        "row_cache_size" => options.row_cache_size(size()?),
        "counter_cache_size" => options.counter_cache_size(size()?),
        "prepared_statements_cache_size" => options.prepared_statements_cache_size(size()?),
        "auto_snapshot" => options.auto_snapshot(switch()?),
        "seed" => options.seed(value.parse::<u64>().map_err(|_| invalid("a number from 0"))?),
        "materialized_views_enabled" => options.materialized_views_enabled(switch()?),
        _ => options.guardrail(name, value),
    })
}
