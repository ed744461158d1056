//! Running and completed compactions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cassette_rows::{TableId, TableMetadata};
use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

use super::overlapping::OverlapCounters;

/// The reason for rewriting SSTables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompactionKind {
    /// Chosen by the strategy.
    Compaction,
    /// A single SSTable, for its tombstones.
    Tombstone,
    /// A command for a whole table, or for named SSTables.
    Major,
    /// `garbagecollect`.
    GarbageCollect,
    /// `scrub`.
    Scrub,
    /// `upgradesstables`.
    Upgrade,
    /// `cassette sstable split`.
    Split,
}

impl CompactionKind {
    /// Returns the name in Cassandra's nodetool.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Compaction => "Compaction",
            Self::Tombstone => "Tombstone Compaction",
            Self::Major => "Major compaction",
            Self::GarbageCollect => "Remove deleted data",
            Self::Scrub => "Scrub",
            Self::Upgrade => "Upgrade sstables",
            Self::Split => "Split sstables",
        }
    }

    /// Returns the kind by Cassandra's name, as accepted by `nodetool stop`: `COMPACTION`,
    /// `GARBAGE_COLLECT`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "COMPACTION" => Self::Compaction,
            "TOMBSTONE_COMPACTION" => Self::Tombstone,
            "MAJOR_COMPACTION" => Self::Major,
            "GARBAGE_COLLECT" => Self::GarbageCollect,
            "SCRUB" => Self::Scrub,
            "UPGRADE_SSTABLES" => Self::Upgrade,
            _ => return None,
        })
    }
}

/// A running compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningCompaction {
    /// The id, a version 1 UUID.
    pub id: Uuid,
    /// The reason.
    pub kind: CompactionKind,
    /// The table.
    pub table: TableId,
    /// The keyspace.
    pub keyspace: String,
    /// The name of the table.
    pub name: String,
    /// Bytes of rows read, before compression.
    pub completed: u64,
    /// Bytes of rows to be read, before compression.
    pub total: u64,
    /// The unit of both: `bytes`.
    pub unit: &'static str,
    /// The number of input SSTables.
    pub sstables: usize,
    /// The directory of the output.
    pub directory: std::path::PathBuf,
}

/// A completed compaction: a row of `system.compaction_history`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedCompaction {
    /// The id, a version 1 UUID.
    pub id: Uuid,
    /// The reason.
    pub kind: CompactionKind,
    /// Keyspace of the table.
    pub keyspace: String,
    /// Name of the table.
    pub name: String,
    /// The time of completion, milliseconds since 1970.
    pub compacted_at: i64,
    /// Compressed bytes of Data that were read.
    pub bytes_in: u64,
    /// Compressed bytes of Data that were written.
    pub bytes_out: u64,
    /// The number of partitions that were merged, by number of SSTables.
    pub rows_merged: BTreeMap<u32, u64>,
}

/// Totals of all compactions since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactionTotals {
    /// Completed.
    pub completed: u64,
    /// Bytes of rows read by those that have ended, before compression.
    pub bytes_compacted: u64,
    /// Stopped or failed.
    pub aborted: u64,
}

/// The progress of a running compaction, for its threads.
pub(crate) struct Running {
    pub id: Uuid,
    pub kind: CompactionKind,
    pub table: Arc<TableMetadata>,
    directory: std::path::PathBuf,
    sstables: usize,
    total: u64,
    completed: AtomicU64,
    /// Bytes on disk that were read.
    pub disk_bytes: AtomicU64,
    stopped: AtomicBool,
}

impl Running {
    /// Records that rows of `plain` bytes, which occupy `stored` on disk, were read.
    pub fn advance(&self, plain: u64, stored: u64) {
        self.completed.fetch_add(plain, Ordering::Relaxed);
        self.disk_bytes.fetch_add(stored, Ordering::Relaxed);
    }

    /// Whether it must stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn info(&self) -> RunningCompaction {
        RunningCompaction {
            id: self.id,
            kind: self.kind,
            table: self.table.id,
            keyspace: self.table.keyspace.clone(),
            name: self.table.name.clone(),
            completed: self.completed.load(Ordering::Relaxed).min(self.total),
            total: self.total,
            unit: "bytes",
            sstables: self.sstables,
            directory: self.directory.clone(),
        }
    }
}

/// Receives completed compactions.
pub(crate) type Listener = Arc<dyn Fn(&CompletedCompaction) + Send + Sync>;

/// The running and completed compactions of the engine.
#[derive(Default)]
pub(crate) struct Operations {
    running: Mutex<Vec<Arc<Running>>>,
    history: Mutex<VecDeque<CompletedCompaction>>,
    totals: Mutex<CompactionTotals>,
    listener: RwLock<Option<Listener>>,
    /// The use of overlapping SSTables.
    pub overlapping: Arc<OverlapCounters>,
}

/// The number of compactions in the history; callers that need more register a listener.
const REMEMBERED: usize = 1000;

/// The registration of a running compaction, removed when dropped.
pub(crate) struct Registered<'a> {
    operations: &'a Operations,
    pub running: Arc<Running>,
    ended_well: bool,
}

impl Operations {
    /// Registers a compaction that will read `total` bytes of rows.
    pub fn begin(
        &self,
        id: Uuid,
        kind: CompactionKind,
        table: Arc<TableMetadata>,
        directory: &std::path::Path,
        (sstables, total): (usize, u64),
    ) -> Registered<'_> {
        let running = Arc::new(Running {
            id,
            kind,
            table,
            directory: directory.to_owned(),
            sstables,
            total,
            completed: AtomicU64::new(0),
            disk_bytes: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        });
        self.running.lock().push(running.clone());
        Registered { operations: self, running, ended_well: false }
    }

    pub fn running(&self) -> Vec<RunningCompaction> {
        self.running.lock().iter().map(|running| running.info()).collect()
    }

    /// Stops the running compactions for which `which` returns true. Returns their number.
    pub fn stop(&self, which: impl Fn(&Running) -> bool) -> usize {
        let running = self.running.lock();
        let told = running.iter().filter(|running| which(running));
        told.map(|running| running.stopped.store(true, Ordering::Relaxed)).count()
    }

    pub fn history(&self) -> Vec<CompletedCompaction> {
        self.history.lock().iter().cloned().collect()
    }

    pub fn totals(&self) -> CompactionTotals {
        *self.totals.lock()
    }

    /// Reports compactions to `listener` from here on.
    pub fn listen(&self, listener: Listener) {
        *self.listener.write() = Some(listener);
    }

    /// Reports a completed compaction.
    pub fn report(&self, completed: &CompletedCompaction) {
        // Without the lock: the listener may write, and so wait.
        let listener = self.listener.read().clone();
        if let Some(listener) = listener {
            listener(completed);
        }
    }
}

impl Registered<'_> {
    /// Adds a completed compaction to the history.
    pub fn ended(
        mut self,
        compacted_at: i64,
        (bytes_in, bytes_out): (u64, u64),
        rows_merged: BTreeMap<u32, u64>,
    ) -> CompletedCompaction {
        self.ended_well = true;
        let running = &self.running;
        let completed = CompletedCompaction {
            id: running.id,
            kind: running.kind,
            keyspace: running.table.keyspace.clone(),
            name: running.table.name.clone(),
            compacted_at,
            bytes_in,
            bytes_out,
            rows_merged,
        };
        let mut history = self.operations.history.lock();
        if history.len() >= REMEMBERED {
            history.pop_front();
        }
        history.push_back(completed.clone());
        completed
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.operations.running.lock().retain(|other| !Arc::ptr_eq(other, &self.running));
        let mut totals = self.operations.totals.lock();
        if self.ended_well {
            totals.completed += 1;
            totals.bytes_compacted += self.running.completed.load(Ordering::Relaxed);
        } else {
            totals.aborted += 1
        }
    }
}
