//! `system_views.settings`: the configuration of the database, by cassandra.yaml's names.

use std::collections::BTreeMap;
use std::sync::Arc;

use cassette_engine::commitlog::SyncMode;
use cassette_rows::{DecoratedKey, PartitionUpdate, TableMetadata};

use super::VirtualTable;
use crate::schema::guardrails::{SETTINGS, Setting};
use crate::schema::system::encode::{row_update, text_key};
use crate::store::Store;

/// `system_views.settings`
#[derive(Debug)]
pub(crate) struct Settings;

impl VirtualTable for Settings {
    fn partitions(&self, table: &Arc<TableMetadata>, store: &Store) -> Vec<PartitionUpdate> {
        let settings = store.settings().iter().map(|(name, value)| setting(table, name, Some(value)));
        let timeouts = store.timeouts().settings().map(|(name, value)| setting(table, name, Some(&value)));
        let guardrails = SETTINGS.iter().map(|guardrail| {
            let text = store.guardrails().text(guardrail.key);
            setting(table, guardrail.name, text.as_deref())
        });
        settings.chain(timeouts).chain(guardrails).collect()
    }

    fn partition(
        &self,
        table: &Arc<TableMetadata>,
        store: &Store,
        key: &DecoratedKey,
    ) -> Option<PartitionUpdate> {
        let name = std::str::from_utf8(key.key()).ok()?;
        if let Some((_, value)) = store.timeouts().settings().find(|(key, _)| *key == name) {
            return Some(setting(table, name, Some(&value)));
        }
        if let Some(guardrail) = Setting::named(name) {
            let text = store.guardrails().text(guardrail.key);
            return Some(setting(table, name, text.as_deref()));
        }
        store.settings().get(name).map(|value| setting(table, name, Some(value)))
    }
}

fn setting(table: &TableMetadata, name: &str, value: Option<&str>) -> PartitionUpdate {
    let mut partition = PartitionUpdate::new(text_key(name));
    let values: Vec<_> = value.into_iter().map(|value| ("value", value.into())).collect();
    partition.add_row(row_update(table, &[], &values, 1), table);
    partition
}

/// Returns the engine's options by name, as in cassandra.yaml.
pub(crate) fn of_engine(options: &cassette_engine::Options) -> BTreeMap<String, String> {
    let mebibytes = |bytes: u64| format!("{}MiB", bytes >> 20);
    let mut settings = BTreeMap::new();
    let mut put = |name: &str, value: String| settings.insert(name.to_owned(), value);
    put("data_file_directories", format!("[{}]", options.data_dir.display()));
    match options.commitlog_sync {
        SyncMode::Periodic { period } => {
            put("commitlog_sync", "periodic".to_owned());
            put("commitlog_sync_period", format!("{}ms", period.as_millis()));
        }
        SyncMode::Group { window } => {
            put("commitlog_sync", "group".to_owned());
            put("commitlog_sync_group_window", format!("{}ms", window.as_millis()));
        }
        SyncMode::Batch => {
            put("commitlog_sync", "batch".to_owned());
        }
    }
    put("cdc_enabled", options.cdc.enabled.to_string());
    put("cdc_block_writes", options.cdc.block_writes.to_string());
    let raw = options.cdc.directory.clone().unwrap_or_else(|| options.data_dir.join("cdc_raw"));
    put("cdc_raw_directory", raw.display().to_string());
    // As in Cassandra, 0 is the default.
    put("cdc_total_space", mebibytes(options.cdc.total_space.unwrap_or(0)));
    put("cdc_free_space_check_interval", format!("{}ms", options.cdc.check_interval.as_millis()));
    put("auto_snapshot", options.auto_snapshot.to_string());
    if let Some(seconds) = options.auto_snapshot_ttl_seconds {
        put("auto_snapshot_ttl", format!("{seconds}s"));
    }
    put("commitlog_segment_size", mebibytes(options.commitlog_segment_size.into()));
    put("commitlog_total_space", mebibytes(options.commitlog_total_space));
    put("memtable_heap_space", mebibytes(options.memtable_heap_space as u64));
    if let Some(threshold) = options.memtable_cleanup_threshold {
        put("memtable_cleanup_threshold", threshold.to_string());
    }
    put("memtable_flush_writers", options.memtable_flush_writers.to_string());
    put("file_cache_size", mebibytes(options.file_cache_size));
    put("column_index_size", format!("{}KiB", options.column_index_size >> 10));
    put("key_cache_size", mebibytes(options.key_cache_size));
    put("row_cache_size", mebibytes(options.row_cache_size));
    put("counter_cache_size", mebibytes(options.counter_cache_size));
    let migrates = options.key_cache_migrate_during_compaction;
    put("key_cache_migrate_during_compaction", migrates.to_string());
    let saved = &options.saved_caches;
    let directory = saved.directory.clone().unwrap_or_else(|| options.data_dir.join("saved_caches"));
    put("saved_caches_directory", directory.display().to_string());
    put("cache_load_timeout", format!("{}s", saved.load_timeout.as_secs()));
    for (name, saving) in [("key", saved.key), ("row", saved.row), ("counter", saved.counter)] {
        put(&format!("{name}_cache_save_period"), format!("{}s", saving.period.as_secs()));
        if saving.keys_to_save != usize::MAX {
            put(&format!("{name}_cache_keys_to_save"), saving.keys_to_save.to_string());
        }
    }
    put("concurrent_compactors", options.concurrent_compactors.to_string());
    let overlapping = &options.overlapping;
    put("provide_overlapping_tombstones", format!("{:?}", overlapping.provide).to_lowercase());
    put("overlapping_tombstones_max_sources", overlapping.max_sources.to_string());
    put("overlapping_tombstones_policy", format!("{:?}", overlapping.policy).to_lowercase());
    put("overlapping_tombstones_threshold", overlapping.threshold.to_string());
    let pressure = &options.backpressure;
    put("compaction_backpressure_slowdown_sstables", pressure.slowdown_sstables.to_string());
    put("compaction_backpressure_stop_sstables", pressure.stop_sstables.to_string());
    put("compaction_backpressure_stop_timeout", format!("{}ms", pressure.stop_timeout.as_millis()));
    put("compaction_throughput", format!("{}MiB/s", options.compaction_throughput >> 20));
    put("flush_compression", format!("{:?}", options.flush_compression).to_lowercase());
    put("disk_access_mode", options.disk_access_mode.name().to_owned());
    put("disk_failure_policy", disk_failure_policy(options).to_owned());
    settings
}

fn disk_failure_policy(options: &cassette_engine::Options) -> &'static str {
    use cassette_engine::DiskFailurePolicy;
    match options.disk_failure_policy {
        DiskFailurePolicy::BestEffort => "best_effort",
        DiskFailurePolicy::Stop => "stop",
        DiskFailurePolicy::Ignore => "ignore",
    }
}
