//! The state shared by all parts of the engine.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use cassette_rows::{StorageError, TableId};
use cassette_sstable::chunk_cache::ChunkCache;
use cassette_sstable::{Descriptor, KeyCache};
use cassette_vfs::{Clock, FileSystem, memory_limit};
use hashbrown::HashMap;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::basics::error::{EngineError, Result};
use crate::basics::options::{DiskFailurePolicy, Options};
use crate::log::commitlog::CommitLog;
use crate::log::drop_records::DropRecords;
use crate::log::replay_positions::ReplayPositions;
use crate::log::schema_journal::{JournalRecord, SchemaJournal};
use crate::memory::counter_cache::CounterCache;
use crate::memory::pool::MemtablePool;
use crate::metrics::EngineMetrics;
use crate::store::data_directory::DataDirectory;
use crate::store::partition_lock::PartitionLocks;
use crate::store::progress::Operations;
use crate::store::row_cache::RowCache;
use crate::store::saved_caches::SavedCaches;
use crate::store::signal::Signal;
use crate::store::table::{Table, View};
use crate::store::throttle::{Throttle, low_priority_rate};

/// The engine's state. Its operations are in `tables`, `write`, `flush`, `read`, `recovery` and
/// `compaction`.
pub(crate) struct Core {
    pub options: Options,
    pub fs: Arc<dyn FileSystem>,
    pub clock: Arc<dyn Clock>,
    pub directory: DataDirectory,
    pub positions: ReplayPositions,
    pub drops: DropRecords,
    pub journal: SchemaJournal,
    /// Whether the schema of the tables is incomplete, so that nothing may be removed.
    pub schema_incomplete: AtomicBool,
    /// Whether replay skipped damage, so that the schema may be incomplete.
    pub log_damage_skipped: AtomicBool,
    /// Tables missing in the schema, and the bytes of their files, when they were last listed.
    pub unknown_tables: AtomicU64,
    pub unknown_bytes: AtomicU64,
    /// Set from the end of recovery until closing.
    pub log: ArcSwapOption<CommitLog>,
    pub tables: ArcSwap<HashMap<TableId, Arc<Table>>>,
    /// Held while `tables` changes.
    pub changing_tables: Mutex<()>,
    pub partition_locks: PartitionLocks,
    pub memory: MemtablePool,
    pub cache: Arc<ChunkCache>,
    pub key_cache: Arc<KeyCache>,
    pub row_cache: Arc<RowCache>,
    pub counter_cache: CounterCache,
    pub saved_caches: SavedCaches,
    /// The throughput of all compactions together.
    pub throttle: Throttle,
    /// The throughput of low-priority compactions; see [`low_priority_rate`].
    pub low_priority_throttle: Throttle,
    /// Whether a low-priority compaction is running.
    pub low_priority_slot: Arc<AtomicBool>,
    pub metrics: EngineMetrics,
    /// Running and completed compactions.
    pub operations: Operations,
    /// Held while snapshots are created or removed.
    pub snapshots: Mutex<()>,
    /// When the next snapshot expires, milliseconds since 1970; initially the minimum: unknown.
    pub next_snapshot_expiry: AtomicI64,
    phase: AtomicU8,
    /// The error of the last flush, until a later one succeeds.
    pub flush_failure: Mutex<Option<Arc<EngineError>>>,
    /// Whether `stop_reason` is set and all operations are rejected.
    stopped: AtomicBool,
    stop_reason: Mutex<String>,
    pub flush_wanted: Signal,
    /// Tables of the schema that are to be flushed soon after a change.
    pub flushed_together: Mutex<FlushedTogether>,
    pub compaction_wanted: Signal,
    /// Distinguishes time UUIDs of the same microsecond.
    uuids: AtomicU64,
}

/// See [`Core::flush_together`].
pub(crate) struct FlushedTogether {
    /// The time of the last flush, or of opening.
    pub last: Duration,
    pub pending: BTreeSet<TableId>,
}

/// The operations that the engine allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Tables may be created and read, and the log replayed.
    Recovering = 0,
    /// Everything.
    Open = 1,
    /// Nothing.
    Closed = 2,
}

impl Core {
    pub fn open(options: Options, fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Result<Self> {
        options.check(memory_limit())?;
        let directory = DataDirectory::open(fs.clone(), &options.data_dir)?;
        let positions = ReplayPositions::open(fs.clone(), directory.replay_positions())?;
        let drops = DropRecords::open(fs.clone(), directory.dropped_tables())?;
        let journal = SchemaJournal::open(fs.clone(), directory.schema_journal())?;
        let now = clock.monotonic();
        Ok(Self {
            memory: MemtablePool::new(options.memtable_heap_space, options.cleanup_threshold()),
            cache: Arc::new(
                ChunkCache::new(options.file_cache_size).with_disk_access(options.disk_access_mode),
            ),
            key_cache: Arc::new(KeyCache::new(options.key_cache_size)),
            row_cache: RowCache::new(options.row_cache_size),
            counter_cache: CounterCache::new(options.counter_cache_size),
            saved_caches: SavedCaches::new(&options),
            throttle: Throttle::new(options.compaction_throughput),
            low_priority_throttle: Throttle::new(low_priority_rate(options.compaction_throughput)),
            low_priority_slot: Arc::default(),
            metrics: EngineMetrics::default(),
            operations: Operations::default(),
            snapshots: Mutex::default(),
            next_snapshot_expiry: AtomicI64::new(i64::MIN),
            options,
            fs,
            clock,
            directory,
            positions,
            drops,
            journal,
            schema_incomplete: AtomicBool::new(false),
            log_damage_skipped: AtomicBool::new(false),
            unknown_tables: AtomicU64::new(0),
            unknown_bytes: AtomicU64::new(0),
            log: ArcSwapOption::empty(),
            tables: ArcSwap::default(),
            changing_tables: Mutex::new(()),
            partition_locks: PartitionLocks::new(),
            phase: AtomicU8::new(Phase::Recovering as u8),
            flush_failure: Mutex::new(None),
            stopped: AtomicBool::new(false),
            stop_reason: Mutex::default(),
            flush_wanted: Signal::default(),
            flushed_together: Mutex::new(FlushedTogether { last: now, pending: BTreeSet::new() }),
            compaction_wanted: Signal::default(),
            uuids: AtomicU64::new(0),
        })
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Recovering,
            1 => Phase::Open,
            _ => Phase::Closed,
        }
    }

    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Returns the table with this id.
    #[inline]
    pub fn table(&self, id: TableId) -> Result<Arc<Table>> {
        self.tables.load().get(&id).cloned().ok_or(EngineError::UnknownTable(id))
    }

    /// Returns the table with this id, without incrementing a reference count that all threads
    /// share; valid as long as `tables`.
    #[inline]
    pub fn table_in(tables: &HashMap<TableId, Arc<Table>>, id: TableId) -> Result<&Arc<Table>> {
        tables.get(&id).ok_or(EngineError::UnknownTable(id))
    }

    /// Returns an error after closing or [`stop`](Self::stop).
    pub fn check_running(&self) -> Result<()> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(EngineError::Stopped { reason: self.stop_reason.lock().clone() });
        }
        if self.phase() == Phase::Closed { Err(EngineError::Closed) } else { Ok(()) }
    }

    /// Returns an error if a table cannot be read completely, unless that is tolerated.
    #[inline]
    pub fn check_complete(&self, view: &View) -> Result<()> {
        match view.unreadable.first() {
            Some(unreadable) if self.options.disk_failure_policy != DiskFailurePolicy::BestEffort => {
                Err(EngineError::TableIncomplete {
                    table: view.table.qualified_name(),
                    cause: unreadable.error.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether SSTables may lack changes of the schema journal.
    pub fn is_needed(&self, record: &JournalRecord) -> bool {
        let tables = self.tables.load();
        // While recovering, the table may not have been created yet.
        let exists = |table: &TableId| self.phase() == Phase::Recovering || tables.contains_key(table);
        record.table_ids().any(|table| exists(&table) && record.position > self.positions.get(table))
    }

    /// Rejects all operations from now on, until the next start.
    pub fn stop(&self, reason: String) {
        tracing::error!(reason, "the engine stops");
        *self.stop_reason.lock() = reason;
        self.stopped.store(true, Ordering::Release);
    }

    /// Runs background work. A panic is logged and counted, and `None` is returned. The work must
    /// leave no inconsistent state.
    pub fn contain<T>(&self, what: &str, work: impl FnOnce() -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(work))
            .inspect_err(|panic| {
                self.metrics.exceptions.add(1);
                tracing::error!(reason = panic_reason(&**panic), "{what} panicked");
            })
            .ok()
    }

    /// Applies the disk failure policy to a corrupt SSTable.
    pub fn on_corruption(&self, table: TableId, sstable: &Descriptor, error: &StorageError) {
        if let Ok(table) = self.table(table)
            && let Some(corrupt) = table.view().sstables.iter().find(|other| other.id() == sstable.id)
        {
            corrupt.mark_suspect();
        }
        self.metrics.exceptions.add(1);
        match self.options.disk_failure_policy {
            DiskFailurePolicy::Ignore => tracing::error!(%error, "an SSTable is corrupt"),
            DiskFailurePolicy::Stop => self.stop(format!("{error} (disk_failure_policy: stop)")),
            DiskFailurePolicy::BestEffort => {
                let quarantined = self
                    .table(table)
                    .is_ok_and(|table| table.change_view(|view| view.quarantine(sstable.id)));
                if quarantined {
                    tracing::error!(
                        %error,
                        "an SSTable is corrupt and left out of reads from here on (disk_failure_policy: best_effort)"
                    );
                }
            }
        }
    }

    /// Updates moving averages if that is due.
    pub fn tick_metrics(&self) {
        let now = self.clock.monotonic();
        if self.metrics.is_tick_due(now) {
            self.metrics.compactions.tick(now);
            let stats = [
                self.cache.stats(),
                self.key_cache.stats(),
                self.row_cache.stats(),
                self.counter_cache.stats(),
            ];
            self.metrics.caches.iter().zip(&stats).for_each(|(meter, stats)| meter.tick(now, stats));
            self.tables.load().values().for_each(|table| table.metrics.tick(now));
        }
    }

    /// Seconds since 1970.
    pub fn now_seconds(&self) -> u32 {
        u32::try_from(self.clock.now_seconds()).unwrap_or(0)
    }

    /// Returns a new version 1 UUID.
    pub fn time_uuid(&self) -> Uuid {
        // Ticks of 100 ns since 1582-10-15.
        const TICKS_TO_1970: u64 = 0x01b2_1dd2_1381_4000;
        let micros = u64::try_from(self.clock.now_micros()).unwrap_or(0);
        let count = self.uuids.fetch_add(1, Ordering::Relaxed);
        let ticks = TICKS_TO_1970 + micros * 10 + count % 10;
        let high = ticks << 32 | (ticks >> 32 & 0xffff) << 16 | 0x1000 | ticks >> 48 & 0x0fff;
        // Variant bits, then the count that makes it unique in this microsecond.
        Uuid::from_u64_pair(high, 1 << 63 | (count & 0x3fff) << 48 | 0x0100_0000_0000)
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown reason")
}
