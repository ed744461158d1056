//! How a commit log is to behave. Names and defaults are cassandra.yaml's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// When an append is acknowledged; see the table in the [module's documentation](super).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// `commitlog_sync: periodic`: once written; synced every `period` (`commitlog_sync_period`).
    Periodic {
        /// Time between syncs.
        period: Duration,
    },
    /// `commitlog_sync: group`: once synced; syncs start every `window`
    /// (`commitlog_sync_group_window`).
    Group {
        /// Time between syncs.
        window: Duration,
    },
    /// `commitlog_sync: batch`: once synced; syncs start as soon as someone waits.
    Batch,
}

/// What replay does about damage that no crash explains. Torn tails, which crashes do explain,
/// never ask for a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplayPolicy {
    /// Stop with [`OpenError::Corrupt`](super::OpenError::Corrupt), changing nothing.
    #[default]
    Stop,
    /// Go on with the next record whose checksums hold. Records are lost.
    SkipDamaged,
}

/// How a commit log is to behave.
#[derive(Clone)]
pub struct CommitLogOptions {
    /// When an append is acknowledged.
    pub sync: SyncMode,
    /// `commitlog_segment_size`, bytes. A record that does not fit gets a segment of exactly its
    /// size.
    pub segment_size: u32,
    /// Bytes of the largest record, framing included.
    pub record_size_max: u32,
    /// `commitlog_total_space`, bytes: beyond it, tables should be flushed so that the oldest
    /// segments can go.
    pub total_space: u64,
    /// What replay does about damage.
    pub replay: ReplayPolicy,
    /// New segments get ids from here on, whatever the clock says: more than every id the caller
    /// has on record.
    pub first_segment_id: u64,
    /// Whether to sync and to reserve segments in background threads. Without them the threads that
    /// append do all of it when it is due, so that a run can be repeated exactly.
    pub threads: bool,
    /// Called, with no lock held, when a new segment takes the log beyond `total_space`; should
    /// arrange for [`tables_to_flush`](super::CommitLog::tables_to_flush) to be flushed and return
    /// at once.
    pub on_space_exceeded: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl CommitLogOptions {
    /// The largest segment, of whatever setting: offsets, and lengths of records, stay within a
    /// positive `i32`.
    pub const SEGMENT_SIZE_MAX: u32 = i32::MAX as u32;

    /// The smallest segment; smaller ones have no use.
    pub const SEGMENT_SIZE_MIN: u32 = 1024;

    /// Records from this size on are encoded before the append lock is taken, bytes.
    pub(super) fn large_record_size(&self) -> usize {
        (256 << 10).min(self.segment_size as usize / 16)
    }

    /// What large records leave of a segment for small ones while the next segment is being
    /// reserved, bytes.
    pub(super) fn kept_for_small_records(&self) -> u32 {
        self.segment_size / 16
    }
}

impl Default for CommitLogOptions {
    fn default() -> Self {
        Self {
            sync: SyncMode::Periodic { period: Duration::from_secs(10) },
            segment_size: 32 << 20,
            record_size_max: 256 << 20,
            total_space: 8 << 30,
            replay: ReplayPolicy::Stop,
            first_segment_id: 1,
            threads: true,
            on_space_exceeded: None,
        }
    }
}

impl fmt::Debug for CommitLogOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitLogOptions")
            .field("sync", &self.sync)
            .field("segment_size", &self.segment_size)
            .field("record_size_max", &self.record_size_max)
            .field("total_space", &self.total_space)
            .field("replay", &self.replay)
            .field("first_segment_id", &self.first_segment_id)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
