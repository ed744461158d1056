//! The keys of the storage engine: commit log, memtables, caches, compaction.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cassette_engine::commitlog::SyncMode;
use cassette_engine::{
    BackpressureOptions, CdcSettings, DiskAccessMode, DiskFailurePolicy, FlushCompression,
    OverlappingTombstones, SourcesPolicy,
};
use cassette_tools::units::bytes_per_second;
use cassette_vfs::encryption::Encryption;

use super::{Config, data_encryption, duration, set};

impl Config {
    /// Applies the keys of the storage engine.
    pub(super) fn read_engine(&self, engine: &mut cassette_engine::Options) -> anyhow::Result<()> {
        engine.commitlog_sync = self.sync_mode()?.unwrap_or(engine.commitlog_sync);
        engine.commitlog_encryption = self.commitlog_encryption()?;
        engine.commitlog_archiving = self.archives_commitlog();
        self.read_cdc(&mut engine.cdc)?;
        set(&mut engine.commitlog_segment_size, &self.commitlog_segment_size, "commitlog_segment_size")?;
        set(&mut engine.commitlog_total_space, &self.commitlog_total_space, "commitlog_total_space")?;
        set(&mut engine.memtable_heap_space, &self.memtable_heap_space, "memtable_heap_space")?;
        set(&mut engine.file_cache_size, &self.file_cache_size, "file_cache_size")?;
        set(&mut engine.column_index_size, &self.column_index_size, "column_index_size")?;
        set(&mut engine.key_cache_size, &self.key_cache_size, "key_cache_size")?;
        set(&mut engine.row_cache_size, &self.row_cache_size, "row_cache_size")?;
        set(&mut engine.counter_cache_size, &self.counter_cache_size, "counter_cache_size")?;
        self.read_saved_caches(engine)?;
        engine.memtable_cleanup_threshold = self.memtable_cleanup_threshold;
        engine.memtable_flush_writers = self.memtable_flush_writers.unwrap_or(engine.memtable_flush_writers);
        engine.concurrent_compactors = self.concurrent_compactors.unwrap_or(engine.concurrent_compactors);
        if let Some(rate) = &self.compaction_throughput {
            engine.compaction_throughput = bytes_per_second(rate).context("compaction_throughput")?;
        }
        self.read_overlapping_tombstones(engine)?;
        self.read_backpressure(&mut engine.backpressure)?;
        if let Some(compression) = &self.flush_compression {
            engine.flush_compression = match compression.as_str() {
                "none" => FlushCompression::None,
                "fast" => FlushCompression::Fast,
                "table" => FlushCompression::Table,
                other => bail!("flush_compression: {other} is none of none, fast, table"),
            };
        }
        if let Some(mode) = &self.disk_access_mode {
            let Some(known) = DiskAccessMode::of_name(mode) else {
                bail!("disk_access_mode: {mode} is none of auto, standard, mmap_index_only, mmap");
            };
            engine.disk_access_mode = known;
        }
        if let Some(policy) = &self.disk_failure_policy {
            engine.disk_failure_policy = match policy.as_str() {
                "best_effort" => DiskFailurePolicy::BestEffort,
                "stop" | "stop_paranoid" | "die" => DiskFailurePolicy::Stop,
                "ignore" => DiskFailurePolicy::Ignore,
                other => {
                    bail!(
                        "disk_failure_policy: {other} is none of best_effort, stop, stop_paranoid, die, ignore"
                    )
                }
            };
        }
        engine.auto_snapshot = self.auto_snapshot.unwrap_or(engine.auto_snapshot);
        if let Some(ttl) = &self.auto_snapshot_ttl {
            let seconds = duration(ttl).context("auto_snapshot_ttl")?.as_secs();
            engine.auto_snapshot_ttl_seconds =
                Some(u32::try_from(seconds).context("auto_snapshot_ttl: more than an int of seconds")?);
        }
        Ok(())
    }

    /// Returns what encrypts and decrypts the commit log.
    pub fn commitlog_encryption(&self) -> anyhow::Result<Option<Arc<dyn Encryption>>> {
        data_encryption::commit_log(self.transparent_data_encryption_options.as_ref())
    }

    /// Returns whether changes are captured for consumers.
    pub fn captures_changes(&self) -> bool {
        self.cdc_enabled == Some(true)
    }

    fn read_cdc(&self, cdc: &mut CdcSettings) -> anyhow::Result<()> {
        cdc.enabled = self.cdc_enabled.unwrap_or(cdc.enabled);
        cdc.directory.clone_from(&self.cdc_raw_directory);
        if self.cdc_total_space.is_some() {
            let mut space = 0;
            set(&mut space, &self.cdc_total_space, "cdc_total_space")?;
            // As in Cassandra, 0 means the default.
            cdc.total_space = (space > 0).then_some(space);
        }
        cdc.block_writes = self.cdc_block_writes.unwrap_or(cdc.block_writes);
        if let Some(interval) = &self.cdc_free_space_check_interval {
            cdc.check_interval = duration(interval).context("cdc_free_space_check_interval")?;
        }
        Ok(())
    }

    fn read_backpressure(&self, pressure: &mut BackpressureOptions) -> anyhow::Result<()> {
        pressure.slowdown_sstables =
            self.compaction_backpressure_slowdown_sstables.unwrap_or(pressure.slowdown_sstables);
        pressure.stop_sstables = self.compaction_backpressure_stop_sstables.unwrap_or(pressure.stop_sstables);
        // A file may lower the second alone.
        let (slowdown, stop) = (pressure.slowdown_sstables, pressure.stop_sstables);
        if self.compaction_backpressure_slowdown_sstables.is_some() && stop > 0 && slowdown > stop {
            bail!(
                "compaction_backpressure_slowdown_sstables of {slowdown} is above \
                 compaction_backpressure_stop_sstables of {stop}: writes slow down before they stop"
            );
        }
        if let Some(timeout) = &self.compaction_backpressure_stop_timeout {
            pressure.stop_timeout = duration(timeout).context("compaction_backpressure_stop_timeout")?;
        }
        Ok(())
    }

    fn read_saved_caches(&self, engine: &mut cassette_engine::Options) -> anyhow::Result<()> {
        engine.key_cache_migrate_during_compaction =
            self.key_cache_migrate_during_compaction.unwrap_or(engine.key_cache_migrate_during_compaction);
        let saved = &mut engine.saved_caches;
        saved.directory.clone_from(&self.saved_caches_directory);
        let caches = [
            (
                &mut saved.key,
                &self.key_cache_save_period,
                "key_cache_save_period",
                self.key_cache_keys_to_save,
            ),
            (
                &mut saved.row,
                &self.row_cache_save_period,
                "row_cache_save_period",
                self.row_cache_keys_to_save,
            ),
            (
                &mut saved.counter,
                &self.counter_cache_save_period,
                "counter_cache_save_period",
                self.counter_cache_keys_to_save,
            ),
        ];
        for (saving, period, name, keys_to_save) in caches {
            if let Some(period) = period {
                saving.period = duration(period).context(name)?;
            }
            // As in Cassandra, 0 means all.
            saving.keys_to_save = keys_to_save.filter(|keys| *keys > 0).unwrap_or(saving.keys_to_save);
        }
        if let Some(timeout) = &self.cache_load_timeout {
            saved.load_timeout = duration(timeout).context("cache_load_timeout")?;
        }
        Ok(())
    }

    fn read_overlapping_tombstones(&self, engine: &mut cassette_engine::Options) -> anyhow::Result<()> {
        let overlapping = &mut engine.overlapping;
        if let Some(provide) = &self.provide_overlapping_tombstones {
            overlapping.provide = OverlappingTombstones::from_name(provide).with_context(|| {
                format!("provide_overlapping_tombstones: {provide} is none of none, row, cell")
            })?;
        }
        if let Some(policy) = &self.overlapping_tombstones_policy {
            overlapping.policy = SourcesPolicy::from_name(policy).with_context(|| {
                format!("overlapping_tombstones_policy: {policy} is none of newest, skip")
            })?;
        }
        overlapping.max_sources = self.overlapping_tombstones_max_sources.unwrap_or(overlapping.max_sources);
        overlapping.threshold = self.overlapping_tombstones_threshold.unwrap_or(overlapping.threshold);
        Ok(())
    }

    fn sync_mode(&self) -> anyhow::Result<Option<SyncMode>> {
        let time = |text: &Option<String>, name: &'static str, default: u64| match text {
            Some(text) => duration(text).context(name),
            None => Ok(Duration::from_millis(default)),
        };
        Ok(match self.commitlog_sync.as_deref() {
            None if self.commitlog_sync_period.is_none() => None,
            None | Some("periodic") => Some(SyncMode::Periodic {
                period: time(&self.commitlog_sync_period, "commitlog_sync_period", 10_000)?,
            }),
            Some("group") => Some(SyncMode::Group {
                window: time(&self.commitlog_sync_group_window, "commitlog_sync_group_window", 1_000)?,
            }),
            Some("batch") => Some(SyncMode::Batch),
            Some(other) => bail!("commitlog_sync: {other} is none of periodic, group, batch"),
        })
    }
}
