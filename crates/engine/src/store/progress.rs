//! What compactions are doing, and what they have done.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cassette_rows::{TableId, TableMetadata};
use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

use super::overlapping::OverlapCounters;

/// Why SSTables are rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompactionKind {
    /// The strategy asked for it.
    Compaction,
    /// An SSTable alone, for its tombstones.
    Tombstone,
    /// A command for all of a table, or for SSTables that it named.
    Major,
    /// `garbagecollect`.
    GarbageCollect,
    /// `scrub`.
    Scrub,
    /// `upgradesstables`.
    Upgrade,
}

impl CompactionKind {
    /// As Cassandra's nodetool calls it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Compaction => "Compaction",
            Self::Tombstone => "Tombstone Compaction",
            Self::Major => "Major compaction",
            Self::GarbageCollect => "Remove deleted data",
            Self::Scrub => "Scrub",
            Self::Upgrade => "Upgrade sstables",
        }
    }

    /// By Cassandra's name of the type, as `nodetool stop` takes it: `COMPACTION`,
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

/// A compaction that is running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningCompaction {
    /// Its id, a version 1 UUID.
    pub id: Uuid,
    /// Why it runs.
    pub kind: CompactionKind,
    /// The table.
    pub table: TableId,
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// Bytes of rows read, before compression.
    pub completed: u64,
    /// Bytes of rows to be read, before compression.
    pub total: u64,
    /// What both count: `bytes`.
    pub unit: &'static str,
    /// SSTables that go into it.
    pub sstables: usize,
    /// Where its output goes.
    pub directory: std::path::PathBuf,
}

/// A compaction that has ended well: a row of `system.compaction_history`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedCompaction {
    /// Its id, a version 1 UUID.
    pub id: Uuid,
    /// Why it ran.
    pub kind: CompactionKind,
    /// Keyspace of the table.
    pub keyspace: String,
    /// Name of the table.
    pub name: String,
    /// When it ended, milliseconds since 1970.
    pub compacted_at: i64,
    /// Bytes of Data on disk that went in.
    pub bytes_in: u64,
    /// Bytes of Data on disk that came out.
    pub bytes_out: u64,
    /// How many partitions were merged from how many SSTables.
    pub rows_merged: BTreeMap<u32, u64>,
}

/// Totals of all compactions since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactionTotals {
    /// Ended well.
    pub completed: u64,
    /// Bytes of rows read by those that ended, before compression.
    pub bytes_compacted: u64,
    /// Stopped or failed.
    pub aborted: u64,
}

/// A running compaction as those see it that do it.
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
    /// More has been read: rows of `plain` bytes, which take `stored` on disk.
    pub fn advance(&self, plain: u64, stored: u64) {
        self.completed.fetch_add(plain, Ordering::Relaxed);
        self.disk_bytes.fetch_add(stored, Ordering::Relaxed);
    }

    /// Whether it is to give up.
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

/// Receives the compactions that have ended well.
pub(crate) type Listener = Arc<dyn Fn(&CompletedCompaction) + Send + Sync>;

/// What the engine knows of compactions.
#[derive(Default)]
pub(crate) struct Operations {
    running: Mutex<Vec<Arc<Running>>>,
    history: Mutex<VecDeque<CompletedCompaction>>,
    totals: Mutex<CompactionTotals>,
    listener: RwLock<Option<Listener>>,
    /// What overlapping SSTables were asked.
    pub overlapping: Arc<OverlapCounters>,
}

/// Compactions in the history; callers that need more listen.
const REMEMBERED: usize = 1000;

/// A running compaction in its place among all; taken out when dropped.
pub(crate) struct Registered<'a> {
    operations: &'a Operations,
    pub running: Arc<Running>,
    ended_well: bool,
}

impl Operations {
    /// A compaction begins that will read `total` bytes of rows.
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

    /// Lets the running compactions give up that `which` tells; how many there were.
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

    /// Reports a compaction that has ended well.
    pub fn report(&self, completed: &CompletedCompaction) {
        // Not under the lock: the listener may write, and so wait.
        let listener = self.listener.read().clone();
        if let Some(listener) = listener {
            listener(completed);
        }
    }
}

impl Registered<'_> {
    /// Adds it to the history: it has ended well.
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
