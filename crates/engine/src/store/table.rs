//! What the engine holds of one table.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use cassette_rows::{StorageError, TableId, TableMetadata};
use cassette_sstable::{Component, Descriptor, SSTableId};
use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use hashbrown::HashSet;
use parking_lot::{Condvar, Mutex};

use crate::log::commitlog::Position;
use crate::memory::memtable::Memtable;
use crate::metrics::TableMetrics;
use crate::store::sstable_handle::SSTable;
use crate::strategies::choose;
use crate::strategies::options::CompactionOptions;

/// One table while it is open. Locks are taken in the order of the fields, and none of them over
/// I/O but `importing`, `flush` and `major_compaction`; while `write_order` is held shared, the
/// commit log may do I/O.
pub(crate) struct Table {
    pub id: TableId,
    /// Where its SSTables are.
    pub directory: PathBuf,
    /// Held while SSTables are taken in from outside; truncating and dropping wait for that.
    pub importing: Mutex<()>,
    /// Held while a command compacts all of it.
    pub major_compaction: Mutex<()>,
    /// Held while a memtable is flushed: one at a time, in order.
    pub flush: Mutex<()>,
    /// Held shared by writers from before a record is logged until it is in the memtable; held
    /// alone while the memtable is replaced. So each write is wholly before or after that, in the
    /// log and in memory. A writer of several tables takes theirs in the order of ids, those of
    /// indexes after all others.
    pub write_order: WriteOrder,
    /// Which SSTables are being compacted, and whether any may be.
    pub compaction: Mutex<CompactionState>,
    /// A compaction ended; waited for with `compaction`.
    pub compaction_ended: Condvar,
    /// More than 0: running compactions are to give up.
    pub compactions_yield: AtomicUsize,
    /// See [`choose::debt`]; large debt stalls writes.
    pub compaction_debt: AtomicUsize,
    /// Held while the view is replaced.
    view_change: Mutex<()>,
    view: ArcSwap<View>,
    next_sstable: AtomicU64,
    /// Set with `write_order` held alone: later writes are refused.
    dropped: AtomicBool,
    /// Whether writes go to the log: the keyspace's `durable_writes`.
    durable_writes: AtomicBool,
    /// Up to where the log has been replayed into the memtable, while it is being replayed.
    pub recovery: Mutex<Recovery>,
    /// Metrics since the table was opened.
    pub metrics: Arc<TableMetrics>,
}

/// A lock that threads share without writing to memory that they share: every write takes it, and
/// it is held alone seldom.
#[derive(Debug, Default)]
pub(crate) struct WriteOrder(ShardedLock<()>);

impl WriteOrder {
    pub fn read(&self) -> ShardedLockReadGuard<'_, ()> {
        // It guards no data that a panic could have left half-made.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> ShardedLockWriteGuard<'_, ()> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a table's recovery is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recovery {
    /// Everything that the log holds of the table has been applied.
    pub replayed: bool,
    /// Behind the last record that was applied or skipped.
    pub position: Position,
    /// Log records that were kept while the table was unknown are being applied: flushes leave the
    /// replay position where it is, so that all of them are applied again after a crash.
    pub claiming: bool,
}

/// What compactions of a table have to agree on.
#[derive(Debug, Default)]
pub(crate) struct CompactionState {
    /// Inputs of the compactions that are running.
    pub compacting: HashSet<SSTableId>,
    /// Why no compaction may run before the next start.
    pub forbidden: Option<String>,
    /// Whether compactions start by themselves, if an operator has said so since the start: that
    /// counts, and not the schema.
    pub autocompaction: Option<bool>,
    /// A command waits for the others to finish: none begins.
    pub paused: usize,
    /// What the strategies remember.
    pub strategy: choose::State,
}

impl CompactionState {
    /// Whether compactions of a table with these options start by themselves.
    pub fn starts_compactions(&self, options: &CompactionOptions) -> bool {
        self.autocompaction.unwrap_or(options.enabled)
    }
}

/// Where a table's data is at one moment. Immutable; a reader keeps the one it began with.
#[derive(Clone)]
pub(crate) struct View {
    /// The schema in whose terms rows are read.
    pub table: Arc<TableMetadata>,
    /// Takes the writes.
    pub memtable: Arc<Memtable>,
    /// Wait to be flushed, or are being flushed; the oldest first.
    pub flushing: Vec<Arc<FrozenMemtable>>,
    /// The SSTables, those with the greatest timestamps first.
    pub sstables: Arc<[Arc<SSTable>]>,
    /// Corrupt ones that are not read. Their data may be missing, so what it may need is not
    /// purged.
    pub quarantined: Arc<[Arc<SSTable>]>,
    /// SSTables that could not even be opened.
    pub unreadable: Arc<[Unreadable]>,
    /// Grows whenever a read may give something else than before, other than by a write: what was
    /// read before that is not to be used after it.
    pub contents: u64,
    /// Grows whenever tombstones may have been purged: an older write that they would have covered
    /// counts after that.
    pub purges: u64,
}

/// An SSTable that could not be opened.
#[derive(Clone)]
pub(crate) struct Unreadable {
    pub descriptor: Descriptor,
    /// Why.
    pub error: Arc<StorageError>,
}

impl Unreadable {
    /// Why, once more.
    pub fn error(&self) -> StorageError {
        match &*self.error {
            StorageError::Unsupported { path, detail } => {
                StorageError::Unsupported { path: path.clone(), detail: detail.clone() }
            }
            error => StorageError::corrupt(self.descriptor.path(Component::Data), error.to_string()),
        }
    }
}

/// A memtable that takes no more writes.
pub(crate) struct FrozenMemtable {
    pub memtable: Arc<Memtable>,
    /// The table's log records from `memtable.begins` up to here are in it.
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
            major_compaction: Mutex::new(()),
            compaction: Mutex::default(),
            compaction_ended: Condvar::new(),
            compactions_yield: AtomicUsize::new(0),
            compaction_debt: AtomicUsize::new(0),
            view_change: Mutex::new(()),
            view: ArcSwap::from_pointee(view),
            next_sstable: AtomicU64::new(last_sstable + 1),
            dropped: AtomicBool::new(false),
            durable_writes: AtomicBool::new(true),
            recovery: Mutex::default(),
            metrics: Arc::default(),
        }
    }

    /// Where its data is now.
    #[inline]
    pub fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// The table's current schema.
    pub fn metadata(&self) -> Arc<TableMetadata> {
        self.view.load().table.clone()
    }

    /// Replaces the view by what `change` makes of it.
    pub fn change_view<T>(&self, change: impl FnOnce(&mut View) -> T) -> T {
        let changed = self.try_change_view(|view| Ok::<_, std::convert::Infallible>(change(view)));
        changed.unwrap_or_else(|never| match never {})
    }

    /// Replaces the view by what `change` makes of it, unless that fails.
    pub fn try_change_view<T, E>(&self, change: impl FnOnce(&mut View) -> Result<T, E>) -> Result<T, E> {
        self.try_rearrange_view(|view| {
            view.contents += 1;
            change(view)
        })
    }

    /// [`Self::change_view`] by a change after which reads give what they gave before.
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

    /// The name of a new SSTable.
    pub fn next_descriptor(&self) -> Descriptor {
        let number = self.next_sstable.fetch_add(1, Ordering::Relaxed);
        Descriptor::new(&self.directory, SSTableId::Sequence(number))
    }

    /// Gives no new SSTable the number of this one, which came from outside.
    pub fn skip_number(&self, id: SSTableId) {
        if let SSTableId::Sequence(number) = id {
            self.next_sstable.fetch_max(number.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Refuses writes from here on. Called with `write_order` held alone.
    pub fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Relaxed);
    }

    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    pub fn set_durable_writes(&self, durable: bool) {
        self.durable_writes.store(durable, Ordering::Relaxed);
    }

    /// Whether writes go to the log.
    pub fn has_durable_writes(&self) -> bool {
        self.durable_writes.load(Ordering::Relaxed)
    }
}

impl View {
    /// All memtables, the newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(self.flushing.iter().rev().map(|frozen| &frozen.memtable))
    }

    /// Takes SSTables out and puts others in.
    pub fn replace_sstables(&mut self, removed: &HashSet<SSTableId>, added: Vec<Arc<SSTable>>) {
        let kept = self.sstables.iter().filter(|sstable| !removed.contains(&sstable.id())).cloned();
        self.sstables = sorted(kept.chain(added).collect());
        // One that was found corrupt while it was being replaced is gone too.
        self.quarantined =
            self.quarantined.iter().filter(|sstable| !removed.contains(&sstable.id())).cloned().collect();
        self.unreadable = self
            .unreadable
            .iter()
            .filter(|sstable| !removed.contains(&sstable.descriptor.id))
            .cloned()
            .collect();
    }

    /// Leaves a corrupt SSTable out of reads; whether it was in them.
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
