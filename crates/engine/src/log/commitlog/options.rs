//! The options of a commit log, with the names and defaults of cassandra.yaml.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cassette_vfs::encryption::Encryption;

use super::CdcOptions;

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
    /// `commitlog_sync: batch`: once synced; a sync starts as soon as an appender waits.
    Batch,
}

/// The reaction of replay to damage that a crash does not explain. Torn tails, which a crash does
/// explain, are always cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplayPolicy {
    /// Stops with [`OpenError::Corrupt`](super::OpenError::Corrupt), without changes.
    #[default]
    Stop,
    /// Continues with the next record whose checksums match. Records are lost.
    SkipDamaged,
}

/// The options of reading a commit log.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The reaction of replay to damage.
    pub replay: ReplayPolicy,
    /// Decrypts segments.
    pub encryption: Option<Arc<dyn Encryption>>,
    /// Change data capture.
    pub cdc: Option<CdcOptions>,
}

/// The options of a commit log.
#[derive(Clone)]
pub struct CommitLogOptions {
    /// When an append is acknowledged.
    pub sync: SyncMode,
    /// `commitlog_segment_size`, bytes. A record that does not fit gets a segment of exactly its
    /// size.
    pub segment_size: u32,
    /// The maximum size of a record in bytes, including framing.
    pub record_size_max: u32,
    /// `commitlog_total_space`, bytes: beyond it, tables should be flushed so that the oldest
    /// segments can be removed.
    pub total_space: u64,
    /// The reaction of replay to damage.
    pub replay: ReplayPolicy,
    /// The minimum id of new segments, regardless of the clock: greater than all ids that the
    /// caller has recorded.
    pub first_segment_id: u64,
    /// Encrypts new segments, if it does so, and decrypts existing ones.
    pub encryption: Option<Arc<dyn Encryption>>,
    /// Change data capture, also if it was enabled before and is not any more.
    pub cdc: Option<CdcOptions>,
    /// Archives segments: a unique number for the chain of segments that begins if none is
    /// continued. `None` ends a chain that exists.
    pub archive: Option<u128>,
    /// Whether background threads sync and reserve segments. Otherwise appending threads do both
    /// when due, so that runs are reproducible.
    pub threads: bool,
    /// Called without locks when a new segment makes the log exceed `total_space`. It should
    /// request flushes of [`tables_to_flush`](super::CommitLog::tables_to_flush) and return
    /// immediately.
    pub on_space_exceeded: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl CommitLogOptions {
    /// The maximum segment size: offsets, and lengths of records, are within a positive `i32`.
    pub const SEGMENT_SIZE_MAX: u32 = i32::MAX as u32;

    /// The minimum segment size.
    pub const SEGMENT_SIZE_MIN: u32 = 1024;

    /// Whether new segments are encrypted.
    pub(super) fn encrypts(&self) -> bool {
        self.encryption.as_ref().is_some_and(|encryption| encryption.encrypts_new_files())
    }

    /// Whether changes of captured tables need linked segments.
    pub(super) fn captures(&self) -> bool {
        self.cdc.as_ref().is_some_and(|cdc| cdc.enabled)
    }

    /// Records from this size on are encoded before the append lock is taken, bytes.
    pub(super) fn large_record_size(&self) -> usize {
        (256 << 10).min(self.segment_size as usize / 16)
    }

    /// The space of a segment that large records leave for small ones while the next segment is
    /// being reserved, bytes.
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
            encryption: None,
            cdc: None,
            archive: None,
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
            .field("encryption", &self.encryption)
            .field("cdc", &self.cdc)
            .field("archive", &self.archive)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
