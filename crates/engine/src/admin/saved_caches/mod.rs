//! The keys of the key, row and counter caches, saved periodically and at the end, and loaded after
//! a start.
//!
//! Only keys are saved: positions of partitions in SSTables, keys of partitions, keys of rows.
//! Positions are restored for identical SSTables; rows and counters are read again. Nothing depends
//! on it: a file that cannot be read or written causes a warning, and reads fill the cache.

mod beside;
mod file;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cassette_rows::merge::counter;
use cassette_rows::{
    Clustering, DecoratedKey, Result as StorageResult, Row, Selection, Slice, Slices, StorageError, TableId,
    Unfiltered,
};
use cassette_sstable::{Fingerprint, SSTableId};
use hashbrown::HashMap;

use self::file::{Block, Place, Reader, Writer};
use crate::basics::error::Result;
use crate::basics::options::CacheKind;
use crate::memory::counter_cache::{Counted, PartitionCounters};
use crate::store::core::Core;
use crate::store::sstable_handle::SSTable;
use crate::store::table::Table;

impl Core {
    /// Makes the thread that saves caches load them first; without threads, loads them immediately.
    pub fn request_saved_caches(self: &Arc<Self>, node: [u8; 16]) {
        *self.saved_caches.load_wanted.lock() = Some(node);
        self.saved_caches.loading.store(true, Ordering::Relaxed);
        if self.options.background_threads {
            self.saved_caches.wanted.raise()
        } else {
            self.load_saved_caches()
        }
    }

    /// Loads the saved caches, if that was requested since the last call.
    pub fn load_saved_caches(&self) {
        let Some(node) = self.saved_caches.load_wanted.lock().take() else { return };
        let until = self.clock.monotonic() + self.options.saved_caches.load_timeout;
        for kind in CacheKind::ALL {
            let mut loading = Loading { core: self, node, until, sstable: None };
            match self.contain("loading a saved cache", || loading.load(kind)) {
                Some(Ok(0)) | None => {}
                Some(Ok(loaded)) => tracing::info!(entries = loaded, "loaded the saved {}", kind.name()),
                Some(Err(error)) => {
                    tracing::warn!(%error, "the saved {} is not used, or not all of it", kind.name())
                }
            }
        }
        let was_stopped = self.saved_caches.wanted.is_stopped();
        self.saved_caches.loading.store(was_stopped, Ordering::Relaxed);
    }

    /// Saves the caches that are due.
    pub fn save_caches_when_due(&self) {
        let now = self.clock.monotonic();
        let mut due = self.saved_caches.due.lock();
        for kind in CacheKind::ALL {
            let period = self.options.saved_caches.of(kind).period;
            if period.is_zero() {
                continue;
            }
            let at = due[kind as usize].get_or_insert(now + period);
            if *at <= now {
                self.save_or_warn(kind);
                due[kind as usize] = Some(self.clock.monotonic() + period);
            }
        }
    }

    /// Saves all caches with saving enabled, unless they are still being loaded.
    pub fn save_caches(&self) {
        if self.saved_caches.loading.load(Ordering::Relaxed) {
            return;
        }
        let _due = self.saved_caches.due.lock();
        for kind in CacheKind::ALL {
            if !self.options.saved_caches.of(kind).period.is_zero() {
                self.save_or_warn(kind);
            }
        }
    }

    fn save_or_warn(&self, kind: CacheKind) {
        match self.contain("saving a cache", || self.save_cache(kind)) {
            Some(Ok(0)) | None => {}
            Some(Ok(saved)) => tracing::debug!(entries = saved, "saved the {}", kind.name()),
            Some(Err(error)) => tracing::warn!(%error, "the {} was not saved", kind.name()),
        }
    }

    /// Saves a cache, and returns the number of entries. The file of an empty cache is removed.
    fn save_cache(&self, kind: CacheKind) -> StorageResult<usize> {
        let most = self.saved_caches.keys_to_save(kind);
        let path = self.saved_caches.path(kind);
        let fs = &self.fs;
        let create = || {
            self.create_saved_caches_directory()?;
            Writer::create(fs.clone(), &path, kind)
        };
        let saved = match kind {
            CacheKind::Key => self.save_places(most, create)?,
            CacheKind::Row => {
                let mut keys = self.row_cache.keys(most);
                keys.retain(|(table, _)| self.table(*table).is_ok());
                self.save_chunks(
                    &keys,
                    |(table, _)| *table,
                    create,
                    |writer, table, keys| writer.rows(table, keys.iter().map(|(_, key)| key)),
                )?
            }
            CacheKind::Counter => {
                let mut rows = self.counter_cache.rows(most);
                rows.retain(|(table, ..)| self.table(*table).is_ok());
                self.save_chunks(
                    &rows,
                    |(table, ..)| *table,
                    create,
                    |writer, table, rows| {
                        writer.counters(table, rows.iter().map(|(_, key, clustering)| (key, clustering)))
                    },
                )?
            }
        };
        if saved == 0 && fs.exists(&path).map_err(|e| StorageError::io(&path, "look for", e))? {
            fs.remove_file(&path).map_err(|e| StorageError::io(&path, "remove", e))?;
        }
        Ok(saved)
    }

    fn create_saved_caches_directory(&self) -> StorageResult<()> {
        let directory = &self.saved_caches.directory;
        if self.fs.exists(directory).map_err(|e| StorageError::io(directory, "look for", e))? {
            return Ok(());
        }
        let create = self.fs.create_dir_all(directory);
        create.map_err(|e| StorageError::io(directory, "create the directory", e))?;
        match directory.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                self.fs.sync_dir(parent).map_err(|e| StorageError::io(parent, "sync the directory", e))
            }
            _ => Ok(()),
        }
    }

    /// Saves entries, table by table.
    fn save_chunks<E>(
        &self,
        entries: &[E],
        table: impl Fn(&E) -> TableId,
        create: impl FnOnce() -> StorageResult<Writer>,
        write: impl Fn(&mut Writer, TableId, &[E]) -> StorageResult<()>,
    ) -> StorageResult<usize> {
        if entries.is_empty() {
            return Ok(0);
        }
        let mut writer = create()?;
        for of_table in entries.chunk_by(|a, b| table(a) == table(b)) {
            write(&mut writer, table(&of_table[0]), of_table)?;
        }
        writer.finish()?;
        Ok(entries.len())
    }

    /// Saves the positions of partitions in current SSTables.
    fn save_places(
        &self,
        most: usize,
        create: impl FnOnce() -> StorageResult<Writer>,
    ) -> StorageResult<usize> {
        let mut known: HashMap<u64, (TableId, Arc<SSTable>)> = HashMap::new();
        for table in self.tables.load().values() {
            let view = table.view();
            for sstable in view.sstables.iter() {
                known.extend(
                    sstable.reader.key_cache_number().map(|number| (number, (table.id, sstable.clone()))),
                );
            }
        }
        let mut writer = None;
        let mut create = Some(create);
        let mut saved = 0;
        let places = self.key_cache.places(most);
        for of_one in places.chunk_by(|a, b| a.sstable == b.sstable) {
            let Some((table, sstable)) = known.get(&of_one[0].sstable) else { continue };
            let Some(fingerprint) = sstable.reader.fingerprint()? else { continue };
            let of_one: Vec<Place> = of_one.iter().map(|found| (found.hash, found.place)).collect();
            if let Some(create) = create.take() {
                writer = Some(create()?);
            }
            if let Some(writer) = &mut writer {
                writer.keys(*table, sstable.id(), fingerprint, &of_one)?;
                saved += of_one.len();
            }
        }
        writer.map_or(Ok(()), Writer::finish)?;
        Ok(saved)
    }

    /// Reads a partition into the row cache, if its table is cached and the partition is absent.
    fn load_rows(&self, table: &Table, key: &DecoratedKey) -> Result<bool> {
        let takes = self.row_cache.takes(&table.view().table);
        Ok(takes && self.fill_row_cache(table, key)?.is_some())
    }

    /// Reads a row's counters into the counter cache, under the partition's lock.
    fn load_counters(
        &self,
        table: &Table,
        key: &DecoratedKey,
        clustering: &Clustering,
        node: &[u8; 16],
    ) -> Result<bool> {
        let metadata = table.metadata();
        let is_static = clustering.is_empty() && !metadata.clustering.is_empty();
        if !metadata.is_counter || (!is_static && clustering.len() != metadata.clustering.len()) {
            return Ok(false);
        }
        let _lock = self.partition_locks.lock(table.id, key).map_err(StorageError::from)?;
        let counters = self.counters(table, key);
        let slices = if is_static {
            Slices::none()
        } else {
            Slices::new(vec![Slice::prefix(clustering.clone())], &metadata.comparator)
        };
        let selection = Selection { slices, reversed: false };
        let mut stream = self.read(table, key, &selection, None)?;
        let Some(header) = stream.next_partition()? else { return Ok(false) };
        let mut deleted = header.deletion.timestamp;
        let mut found = header.static_row.filter(|_| is_static);
        while let Some(next) = stream.next_unfiltered()? {
            match next {
                Unfiltered::Row(row) => found = Some(row),
                Unfiltered::Marker(marker) => {
                    deleted = deleted.max(marker.open.map_or(i64::MIN, |open| open.timestamp));
                }
            }
        }
        let mut loaded = false;
        for cell in found.iter().flat_map(Row::cells).filter(|cell| !cell.is_tombstone()) {
            if let Some((clock, count)) = counter::of_node(cell.value, node) {
                let deleted = deleted.max(found.as_ref().map_or(i64::MIN, |row| row.deletion().timestamp));
                counters.put(clustering, cell.column, Counted { clock, count, deleted });
                loaded = true;
            }
        }
        Ok(loaded)
    }

    /// See [`Engine::counters`](crate::Engine::counters).
    pub fn counters<'a>(&'a self, table: &Table, key: &'a DecoratedKey) -> PartitionCounters<'a> {
        PartitionCounters::new(&self.counter_cache, table.id, key, table.view().contents)
    }
}

/// The state of loading saved caches.
struct Loading<'a> {
    core: &'a Core,
    node: [u8; 16],
    /// The deadline, monotonic.
    until: Duration,
    /// The SSTable of the last positions, if it is identical.
    sstable: Option<(TableId, SSTableId, Fingerprint, Option<Arc<SSTable>>)>,
}

impl Loading<'_> {
    /// Loads a cache, as far as space and time permit. Returns the number of entries, including
    /// those read before an error.
    fn load(&mut self, kind: CacheKind) -> StorageResult<usize> {
        if self.is_over(kind) {
            return Ok(0);
        }
        let path = self.core.saved_caches.path(kind);
        let Some(mut reader) = Reader::open(self.core.fs.as_ref(), &path, kind)? else { return Ok(0) };
        let mut loaded = 0;
        while !self.is_over(kind) {
            let Some(block) = reader.next()? else { break };
            loaded += self.take(kind, block);
        }
        Ok(loaded)
    }

    fn is_over(&self, kind: CacheKind) -> bool {
        let core = self.core;
        core.saved_caches.wanted.is_stopped()
            || core.clock.monotonic() >= self.until
            || match kind {
                CacheKind::Key => core.key_cache.is_full(),
                CacheKind::Row => core.row_cache.is_full(),
                CacheKind::Counter => core.counter_cache.is_full(),
            }
    }

    fn take(&mut self, kind: CacheKind, block: Block) -> usize {
        let core = self.core;
        match block {
            Block::Keys { table, sstable, fingerprint, places } => {
                let Some(sstable) = self.sstable(table, sstable, fingerprint) else { return 0 };
                let remembered = |(hash, place): &Place| {
                    !core.key_cache.is_full() && sstable.reader.remember(*hash, *place)
                };
                places.iter().filter(|place| remembered(place)).count()
            }
            Block::Rows { table, keys } => {
                let Ok(table) = core.table(table) else { return 0 };
                let keys = keys.iter().take_while(|_| !self.is_over(kind));
                keys.filter(|key| unless_failed(core.load_rows(&table, key))).count()
            }
            Block::Counters { table, rows } => {
                let Ok(table) = core.table(table) else { return 0 };
                let rows = rows.iter().take_while(|_| !self.is_over(kind));
                rows.filter(|(key, clustering)| {
                    unless_failed(core.load_counters(&table, key, clustering, &self.node))
                })
                .count()
            }
        }
    }

    /// Returns the SSTable, if it exists and is identical.
    fn sstable(&mut self, table: TableId, id: SSTableId, fingerprint: Fingerprint) -> Option<&SSTable> {
        let last = self.sstable.as_ref();
        let is_last = last.is_some_and(|(t, i, f, _)| (*t, *i, *f) == (table, id, fingerprint));
        if !is_last {
            let of_table = self.core.table(table).ok();
            let found = of_table
                .and_then(|table| table.view().sstables.iter().find(|sstable| sstable.id() == id).cloned());
            let same = |sstable: &Arc<SSTable>| {
                sstable.reader.fingerprint().is_ok_and(|found| found == Some(fingerprint))
            };
            self.sstable = Some((table, id, fingerprint, found.filter(same)));
        }
        self.sstable.as_ref().and_then(|(.., sstable)| sstable.as_deref())
    }
}

/// Skips an entry that cannot be loaded: reading the data later returns the error.
fn unless_failed(loaded: Result<bool>) -> bool {
    loaded.unwrap_or_else(|error| {
        tracing::debug!(%error, "an entry of a saved cache was left out");
        false
    })
}
