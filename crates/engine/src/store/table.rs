//! The state of one table.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use cassette_rows::{StorageError, TableId, TableMetadata};
use cassette_sstable::{Component, Descriptor, SSTableId};
use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use hashbrown::HashSet;
use parking_lot::{Condvar, Mutex};

use crate::basics::error::EngineError;
use crate::log::commitlog::Position;
use crate::memory::memtable::Memtable;
use crate::metrics::TableMetrics;
use crate::store::sstable_handle::SSTable;
use crate::strategies::choose;
use crate::strategies::options::CompactionOptions;

/// One open table. Locks are acquired in the order of the fields, and none of them is held during
/// I/O except `importing`, `compaction_pause` and `flush`; while `write_order` is held shared, the
/// commit log may do I/O.
pub(crate) struct Table {
    pub id: TableId,
    /// The directory of its SSTables.
    pub directory: PathBuf,
    /// Held while SSTables are imported; truncation and drop wait for that.
    pub importing: Mutex<()>,
    /// Held while compactions are paused: by a command that compacts, or by one that needs the
    /// SSTables as they are, such as a truncation.
    pub compaction_pause: Mutex<()>,
    /// Held while a memtable is flushed: one at a time, in order.
    pub flush: Mutex<()>,
    /// Held shared by writers from before a record is logged until it is in the memtable; held
    /// exclusively while the memtable is replaced. So each write is completely before or after the
    /// replacement, in the log and in memory. A writer of several tables acquires these locks in
    /// the order of ids, those of index tables last.
    pub write_order: WriteOrder,
    /// The SSTables that are being compacted, and whether compactions are allowed.
    pub compaction: Mutex<CompactionState>,
    /// Signaled when a compaction has ended; used with `compaction`.
    pub compaction_ended: Condvar,
    /// Whether running automatic compactions must stop.
    pub compactions_yield: AtomicBool,
    /// See [`choose::debt`]; large debt stalls writes.
    pub compaction_debt: AtomicUsize,
    /// Held while the view is replaced.
    view_change: Mutex<()>,
    view: ArcSwap<View>,
    next_sstable: AtomicU64,
    /// Set with `write_order` held exclusively: later writes are rejected.
    dropped: AtomicBool,
    /// Whether writes go to the log: the keyspace's `durable_writes`.
    durable_writes: AtomicBool,
    /// The reason why no memtable may be flushed before the next start. Set with `flush` held.
    flushes_forbidden: OnceLock<String>,
    /// The position up to which the log has been replayed into the memtable, during replay.
    pub recovery: Mutex<Recovery>,
    /// Metrics since the table was opened.
    pub metrics: Arc<TableMetrics>,
}

/// A lock that shared holders acquire without writing to shared memory: every write acquires it,
/// and it is rarely held exclusively.
#[derive(Debug, Default)]
pub(crate) struct WriteOrder(ShardedLock<()>);

impl WriteOrder {
    pub fn read(&self) -> ShardedLockReadGuard<'_, ()> {
        // It protects no data that a panic could have left inconsistent.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> ShardedLockWriteGuard<'_, ()> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The progress of a table's recovery.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recovery {
    /// All log records of the table have been applied.
    pub replayed: bool,
    /// The end of the last record that was applied or skipped.
    pub position: Position,
    /// Log records that were kept while the table was unknown are being applied: flushes do not
    /// advance the replay position, so that all of them are applied again after a crash.
    pub claiming: bool,
}

/// The shared state of a table's compactions.
#[derive(Debug, Default)]
pub(crate) struct CompactionState {
    /// Inputs of running compactions.
    pub compacting: HashSet<SSTableId>,
    /// The reason why no compaction may run before the next start.
    pub forbidden: Option<String>,
    /// Whether automatic compaction is enabled by an operator since the start, which overrides the
    /// schema.
    pub autocompaction: Option<bool>,
    /// Whether automatic compactions are paused: none begins.
    pub paused: bool,
    /// The state of the strategies.
    pub strategy: choose::State,
}

impl CompactionState {
    /// Whether automatic compactions of a table with these options are enabled.
    pub fn starts_compactions(&self, options: &CompactionOptions) -> bool {
        self.autocompaction.unwrap_or(options.enabled)
    }
}

/// The data of a table at one moment. Immutable; a reader keeps the view that it began with.
#[derive(Clone)]
pub(crate) struct View {
    /// The schema of the rows that are read.
    pub table: Arc<TableMetadata>,
    /// The active memtable.
    pub memtable: Arc<Memtable>,
    /// Memtables that are being flushed or wait for it; the oldest first.
    pub flushing: Vec<Arc<FrozenMemtable>>,
    /// The SSTables, in descending order of maximum timestamps.
    pub sstables: Arc<[Arc<SSTable>]>,
    /// Corrupt SSTables that are not read. Their data may be missing, so tombstones that it may
    /// need are not purged.
    pub quarantined: Arc<[Arc<SSTable>]>,
    /// SSTables that could not even be opened.
    pub unreadable: Arc<[Unreadable]>,
    /// Incremented whenever the results of reads may change other than by a write: earlier results
    /// must not be used afterwards.
    pub contents: u64,
    /// Incremented whenever tombstones may have been purged: an older write that they would have
    /// covered becomes visible.
    pub purges: u64,
}

/// An SSTable that could not be opened.
#[derive(Clone)]
pub(crate) struct Unreadable {
    pub descriptor: Descriptor,
    /// The error.
    pub error: Arc<StorageError>,
}

impl Unreadable {
    /// Returns a copy of the error.
    pub fn error(&self) -> StorageError {
        match &*self.error {
            StorageError::Unsupported { path, detail } => {
                StorageError::Unsupported { path: path.clone(), detail: detail.clone() }
            }
            error => StorageError::corrupt(self.descriptor.path(Component::Data), error.to_string()),
        }
    }
}

/// A memtable that accepts no more writes.
pub(crate) struct FrozenMemtable {
    pub memtable: Arc<Memtable>,
    /// The memtable contains the table's log records from `memtable.begins` up to here.
    pub ends: Position,
    /// Its heap bytes, as counted in the pool.
    pub bytes: usize,
}

impl Table {
    pub fn new(
        table: Arc<TableMetadata>,
        directory: PathBuf,
        sstables: Vec<Arc<SSTable>>,
        last_sstable: u64,
        begins: Position,
        now: Duration,
    ) -> Self {
        let id = table.id;
        let view = View {
            table,
            memtable: Arc::new(Memtable::new(begins, now)),
            flushing: Vec::new(),
            sstables: sorted(sstables),
            quarantined: Arc::new([]),
            unreadable: Arc::new([]),
            contents: 0,
            purges: 0,
        };
        Self {
            id,
            directory,
            importing: Mutex::new(()),
            flush: Mutex::new(()),
            write_order: WriteOrder::default(),
            compaction_pause: Mutex::new(()),
            compaction: Mutex::default(),
            compaction_ended: Condvar::new(),
            compactions_yield: AtomicBool::new(false),
            compaction_debt: AtomicUsize::new(0),
            view_change: Mutex::new(()),
            view: ArcSwap::from_pointee(view),
            next_sstable: AtomicU64::new(last_sstable + 1),
            dropped: AtomicBool::new(false),
            durable_writes: AtomicBool::new(true),
            flushes_forbidden: OnceLock::new(),
            recovery: Mutex::default(),
            metrics: Arc::default(),
        }
    }

    /// Returns the current view.
    #[inline]
    pub fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// Returns the table's current schema.
    pub fn metadata(&self) -> Arc<TableMetadata> {
        self.view.load().table.clone()
    }

    /// Replaces the view by a copy changed by `change`.
    pub fn change_view<T>(&self, change: impl FnOnce(&mut View) -> T) -> T {
        let changed = self.try_change_view(|view| Ok::<_, std::convert::Infallible>(change(view)));
        changed.unwrap_or_else(|never| match never {})
    }

    /// Replaces the view by a copy changed by `change`, unless that fails.
    pub fn try_change_view<T, E>(&self, change: impl FnOnce(&mut View) -> Result<T, E>) -> Result<T, E> {
        self.try_rearrange_view(|view| {
            view.contents += 1;
            change(view)
        })
    }

    /// [`Self::change_view`] for changes that preserve the results of reads.
    pub fn rearrange_view<T>(&self, change: impl FnOnce(&mut View) -> T) -> T {
        let changed = self.try_rearrange_view(|view| Ok::<_, std::convert::Infallible>(change(view)));
        changed.unwrap_or_else(|never| match never {})
    }

    /// [`Self::rearrange_view`], unless the change fails.
    pub fn try_rearrange_view<T, E>(&self, change: impl FnOnce(&mut View) -> Result<T, E>) -> Result<T, E> {
        let _changing = self.view_change.lock();
        let mut view = View::clone(&self.view.load());
        let done = change(&mut view)?;
        self.view.store(Arc::new(view));
        Ok(done)
    }

    /// Returns the descriptor of a new SSTable.
    pub fn next_descriptor(&self) -> Descriptor {
        let number = self.next_sstable.fetch_add(1, Ordering::Relaxed);
        Descriptor::new(&self.directory, SSTableId::Sequence(number))
    }

    /// Reserves the number of an imported SSTable.
    pub fn skip_number(&self, id: SSTableId) {
        if let SSTableId::Sequence(number) = id {
            self.next_sstable.fetch_max(number.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Rejects writes from here on. Called with `write_order` held exclusively.
    pub fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Relaxed);
    }

    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Forbids flushes until the next start, which may find that the rows in memtables were
    /// truncated. Called with `flush` held.
    pub fn forbid_flushes(&self, cause: &StorageError) {
        // The first reason remains.
        let _ = self.flushes_forbidden.set(cause.to_string());
    }

    /// # Errors
    /// If flushes are forbidden.
    pub fn check_flushes(&self) -> Result<(), EngineError> {
        match self.flushes_forbidden.get() {
            Some(reason) => {
                let table = self.metadata().qualified_name();
                Err(EngineError::FlushesForbidden { table, reason: reason.clone() })
            }
            None => Ok(()),
        }
    }

    pub fn set_durable_writes(&self, durable: bool) {
        self.durable_writes.store(durable, Ordering::Relaxed);
    }

    /// Whether writes are logged.
    pub fn has_durable_writes(&self) -> bool {
        self.durable_writes.load(Ordering::Relaxed)
    }
}

impl View {
    /// Returns all memtables, the latest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(self.flushing.iter().rev().map(|frozen| &frozen.memtable))
    }

    /// Returns the oldest memtable.
    pub fn first_memtable(&self) -> &Memtable {
        self.flushing.first().map_or(&self.memtable, |frozen| &frozen.memtable)
    }

    /// Removes and adds SSTables.
    pub fn replace_sstables(&mut self, removed: &HashSet<SSTableId>, added: Vec<Arc<SSTable>>) {
        let kept = self.sstables.iter().filter(|sstable| !removed.contains(&sstable.id())).cloned();
        self.sstables = sorted(kept.chain(added).collect());
        // One that was found corrupt while it was being replaced is removed, too.
        self.quarantined =
            self.quarantined.iter().filter(|sstable| !removed.contains(&sstable.id())).cloned().collect();
        self.unreadable = self
            .unreadable
            .iter()
            .filter(|sstable| !removed.contains(&sstable.descriptor.id))
            .cloned()
            .collect();
    }

    /// Quarantines a corrupt SSTable. Returns whether it was in use.
    pub fn quarantine(&mut self, id: SSTableId) -> bool {
        let Some(corrupt) = self.sstables.iter().find(|sstable| sstable.id() == id).cloned() else {
            return false;
        };
        self.replace_sstables(&HashSet::from([id]), Vec::new());
        self.quarantined = self.quarantined.iter().cloned().chain([corrupt]).collect();
        true
    }
}

fn sorted(mut sstables: Vec<Arc<SSTable>>) -> Arc<[Arc<SSTable>]> {
    sstables.sort_by_key(|sstable| std::cmp::Reverse(sstable.max_timestamp()));
    sstables.into()
}
