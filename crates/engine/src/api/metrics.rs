//! Statistics and metrics of the engine and of its tables.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cassette_rows::{DecoratedKey, TableId};
use cassette_sstable::SSTableId;

use super::Engine;
use crate::admin::stats::{BytesInUse, EngineStats, PartitionStats, SSTableInfo, TableStats};
use crate::basics::error::Result;
use crate::log::commitlog::CapturedStats;
use crate::metrics::{EngineMetrics, HistogramSnapshot, TableMetrics};

impl Engine {
    /// Computes the current statistics of a table from all its SSTables and some of their files.
    pub fn table_stats(&self, id: TableId) -> Result<TableStats> {
        let core = &self.inner.core;
        Ok(core.table_stats(&core.table(id)?))
    }

    /// Returns the distribution of partition sizes in a table's SSTables.
    pub fn partition_stats(&self, id: TableId) -> Result<PartitionStats> {
        let core = &self.inner.core;
        Ok(core.partition_stats(&*core.table(id)?))
    }

    /// Returns the counters and latencies of a table since it was opened.
    pub fn table_metrics(&self, id: TableId) -> Result<Arc<TableMetrics>> {
        Ok(self.inner.core.table(id)?.metrics.clone())
    }

    /// Records a read of one partition that bypassed statements: its duration, and the rows and
    /// tombstones that it read. No-op if the table does not exist.
    pub fn record_partition_read(
        &self,
        id: TableId,
        key: &DecoratedKey,
        time: Duration,
        live_rows: u64,
        tombstones: u64,
    ) {
        if let Some(table) = self.inner.core.tables.load().get(&id) {
            table.metrics.record_partition_read(key.key(), time, live_rows, tombstones);
        }
    }

    /// Describes a table's SSTables, those with the greatest timestamps first.
    pub fn sstables(&self, id: TableId) -> Result<Vec<SSTableInfo>> {
        let core = &self.inner.core;
        let table = core.table(id)?;
        let info = |sstable: &Arc<crate::store::sstable_handle::SSTable>| SSTableInfo {
            id: sstable.id(),
            level: sstable.level(),
            bytes_on_disk: sstable.reader.bytes_on_disk(),
            uncompressed_bytes: sstable.reader.uncompressed_bytes(),
            partitions: sstable.reader.estimated_keys(),
            tokens: sstable.tokens(),
            min_timestamp: sstable.min_timestamp(),
            max_timestamp: sstable.max_timestamp(),
        };
        Ok(table.view().sstables.iter().map(info).collect())
    }

    /// Returns the highest write timestamp in a table; `None` if it has no data, or does not exist.
    pub fn newest_timestamp(&self, id: TableId) -> Option<i64> {
        let table = self.inner.core.table(id).ok()?;
        self.inner.core.newest_timestamp(&table)
    }

    /// Returns the level of each SSTable of a table. Below L0, one that shares tokens with another
    /// of its level counts as one of L0.
    pub fn sstable_levels(&self, id: TableId) -> Result<Vec<u32>> {
        let core = &self.inner.core;
        Ok(core.levels(&*core.table(id)?))
    }

    /// Returns the SSTable whose Data component is at `path`, and its table.
    pub fn sstable_at(&self, path: &Path) -> Option<(TableId, SSTableId)> {
        self.inner.core.sstable_at(path)
    }

    /// Computes the current statistics of the engine.
    pub fn stats(&self) -> EngineStats {
        self.inner.core.stats()
    }

    /// Returns the storage that all tables use. Cheaper than [`stats`](Self::stats).
    pub fn bytes_in_use(&self) -> BytesInUse {
        self.inner.core.bytes_in_use()
    }

    /// Returns the free space of the disk with the data directory.
    pub fn available_space(&self) -> std::io::Result<u64> {
        self.inner.core.fs.available_space(&self.inner.core.options.data_dir)
    }

    /// Returns whether the files are in memory, where no other program can read them.
    pub fn is_in_memory(&self) -> bool {
        self.inner.core.fs.is_in_memory()
    }

    /// Returns what is captured and has not been removed by a consumer; `None` if change data
    /// capture is disabled, its directory cannot be read, or recovery has not ended.
    pub fn captured(&self) -> Option<CapturedStats> {
        self.inner.core.log.load().as_ref()?.captured().ok()?
    }

    /// Returns the latency of the commit log's syncs; `None` until recovery has ended.
    pub fn commit_log_sync_latency(&self) -> Option<HistogramSnapshot> {
        let core = &self.inner.core;
        core.log.load().as_ref().map(|log| log.sync_latency().snapshot(core.clock.monotonic()))
    }

    /// Counters and latencies of the engine since it was opened.
    pub fn metrics(&self) -> &EngineMetrics {
        &self.inner.core.metrics
    }

    /// Updates the recent rates if that is due.
    #[cfg(test)]
    pub fn tick_metrics(&self) {
        self.inner.core.tick_metrics();
    }
}
