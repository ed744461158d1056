//! Building: entries for the rows that were there before their index.
//!
//! Writers keep an index from the moment it is in the catalog; [`begin`](Builds::begin) is called when all those that did not
//! see it there have ended. What they wrote is found by reading the table from its first partition to its last. The entries
//! have the write times of their cells, so whatever a later write made of them stays.
//!
//! `system."IndexInfo"` has a row for each index that is built, as in Cassandra. While one is being built, the row says how
//! far that is, and the next start goes on from there:
//!
//! ```text
//! value   i64 the index's time of creation, key of the last partition that is done      big-endian
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cassette_engine::{Engine, KeyRange, Mutation};
use cassette_rows::{DecoratedKey, PartitionStream, Row, Selection, StorageError, TableMetadata, Unfiltered};
use parking_lot::Mutex;

use super::Index;
use super::entries::{Change, Changes, entries};
use crate::builds::BuildGuard;
use crate::catalog::{Catalog, KeyspaceKind};
use crate::database::{Database, WeakDatabase};
use crate::error::{DatabaseError, Result};
use crate::system::encode::{self, StoredRow};
use crate::system::{INDEX_INFO, SYSTEM};

/// Entries that are written at a time.
const BATCH: usize = 256;
/// Partitions between two notes of how far it is: some milliseconds. Few in tests, so that they see builds go on.
const PARTITIONS_PER_NOTE: u64 = if cfg!(test) { 50 } else { 10_000 };
/// How long CREATE INDEX itself builds, before it leaves the rest to the background.
const AT_ONCE: Duration = Duration::from_millis(50);

/// How far an index is built.
#[derive(Debug, Default)]
pub(crate) struct BuildState {
    built: AtomicBool,
    /// Somebody is building it.
    building: Arc<AtomicBool>,
    /// Partitions of the table that were read.
    partitions: AtomicU64,
    /// Entries that were written.
    entries: AtomicU64,
    /// The last partition that is done.
    done: Mutex<Option<DecoratedKey>>,
}

impl BuildState {
    /// Whether queries may use it.
    pub fn is_built(&self) -> bool {
        self.built.load(Ordering::Acquire)
    }

    /// As if somebody had begun to build it.
    #[cfg(test)]
    pub fn set_building(&self) {
        self.building.store(true, Ordering::Release);
    }

    /// Whether somebody builds it.
    pub fn is_building(&self) -> bool {
        self.building.load(Ordering::Acquire) && !self.is_built()
    }

    /// Partitions read and entries written since the build began in this process.
    pub fn progress(&self) -> (u64, u64) {
        (self.partitions.load(Ordering::Relaxed), self.entries.load(Ordering::Relaxed))
    }

    /// It has lost entries: it is to be built again, from the start.
    pub fn start_over(&self) {
        *self.done.lock() = None;
        self.built.store(false, Ordering::Release);
    }

    fn set_built(&self) {
        *self.done.lock() = None;
        self.built.store(true, Ordering::Release);
    }
}

/// The builds that run.
#[derive(Debug, Default)]
pub(crate) struct Builds {
    stopped: AtomicBool,
}

/// How a step of a build ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Everything is built.
    Done,
    /// There is more to do.
    More,
}

impl Builds {
    /// Makes running builds end; the next start goes on with them.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether running builds are to end.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Builds an index, unless that is done: for a moment in the calling thread, and the rest in one of its own.
    ///
    /// # Errors
    /// If the table cannot be read or the index cannot be written; it stays as it is then, and is built at the next start.
    pub fn begin(&self, database: &Database, index: &Arc<Index>, in_background: bool) -> Result<()> {
        if index.state.is_built() {
            return Ok(());
        }
        let Some(running) = BuildGuard::begin(&index.state.building) else { return Ok(()) };
        let began = database.clock().monotonic();
        loop {
            if step(database, index)? == Step::Done {
                return Ok(());
            }
            if in_background && database.clock().monotonic().saturating_sub(began) >= AT_ONCE {
                break;
            }
        }
        let (weak, index) = (database.downgrade(), index.clone());
        let name = format!("index {}", index.name);
        running
            .in_background(name, move || build_in_background(&weak, &index))
            .map_err(|error| DatabaseError::Server(format!("cannot start a thread: {error}")))
    }
}

fn build_in_background(database: &WeakDatabase, index: &Arc<Index>) {
    // The database is let go of between two steps, so that it can be closed.
    let outcome = loop {
        let Some(database) = database.upgrade() else { break Ok(()) };
        if database.builds().stopped.load(Ordering::Acquire) || !is_current(&database, index) {
            break Ok(());
        }
        match step(&database, index) {
            Ok(Step::More) => {}
            Ok(Step::Done) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    if let Err(error) = outcome {
        tracing::error!(index = index.name, %error, "an index cannot be built; the next start tries again");
    }
}

/// Whether the index was not dropped.
fn is_current(database: &Database, index: &Index) -> bool {
    let catalog = database.catalog();
    catalog.indexes_of(index.base.id).iter().any(|other| other.storage.id == index.storage.id)
}

/// Builds the entries of some partitions.
fn step(database: &Database, index: &Arc<Index>) -> Result<Step> {
    let failed = |what: &str, error: String| {
        DatabaseError::Server(format!("cannot build index {}: {what}: {error}", index.name))
    };
    let engine = database.engine();
    let state = &index.state;
    let range = match &*state.done.lock() {
        Some(done) => KeyRange::ALL.after(done.clone()),
        None => KeyRange::ALL,
    };
    let mut stream = engine
        .scan(index.base.id, &range, &Selection::all())
        .map_err(|error| failed("reading", error.to_string()))?;
    let now = encode::seconds(database.clock().now_micros());
    let mut writer = Writer { engine, index, mutations: Vec::with_capacity(BATCH), now };
    let mut done = None;
    for _ in 0..PARTITIONS_PER_NOTE {
        let key = partition(&mut *stream, &mut writer, &|error| failed("reading", error.to_string()))?;
        let Some(key) = key else {
            writer.write()?;
            drop(stream);
            note(database, index, None)?;
            state.set_built();
            return Ok(Step::Done);
        };
        state.partitions.fetch_add(1, Ordering::Relaxed);
        done = Some(key);
        if database.builds().stopped.load(Ordering::Acquire) {
            break;
        }
    }
    writer.write()?;
    note(database, index, done.as_ref())?;
    *state.done.lock() = done;
    Ok(Step::More)
}

/// Writes the entries of the stream's next partition, and gives its key.
fn partition(
    stream: &mut dyn PartitionStream,
    writer: &mut Writer<'_>,
    failed: &dyn Fn(StorageError) -> DatabaseError,
) -> Result<Option<DecoratedKey>> {
    let Some(header) = stream.next_partition().map_err(failed)? else { return Ok(None) };
    if let Some(row) = &header.static_row {
        writer.add(&header.key, row, true)?;
    }
    while let Some(next) = stream.next_unfiltered().map_err(failed)? {
        if let Unfiltered::Row(row) = next {
            writer.add(&header.key, &row, false)?;
        }
    }
    Ok(Some(header.key))
}

struct Writer<'a> {
    engine: &'a Engine,
    index: &'a Arc<Index>,
    mutations: Vec<Mutation>,
    now: u32,
}

impl Writer<'_> {
    fn add(&mut self, key: &DecoratedKey, row: &Row, is_static: bool) -> Result<()> {
        let mut changes = Changes::new(key, row.clustering());
        for entry in entries(self.index, key, row, is_static, self.now) {
            // What is too long was written before the index was there, and is not found by it, as in Cassandra.
            if entry.value.len() < usize::from(u16::MAX) {
                let change = Change::Write(entry.liveness);
                self.mutations.push(changes.make(self.index, &entry.value, entry.path, change));
            }
        }
        if self.mutations.len() >= BATCH { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.engine.apply(&self.mutations).map_err(|error| {
            DatabaseError::Server(format!("cannot build index {}: writing: {error}", self.index.name))
        })?;
        self.index.state.entries.fetch_add(self.mutations.len() as u64, Ordering::Relaxed);
        self.mutations.clear();
        Ok(())
    }
}

/// Notes how far an index is: built, without `done`.
fn note(database: &Database, index: &Index, done: Option<&DecoratedKey>) -> Result<()> {
    let catalog = database.catalog();
    let Some(table) = catalog.table(SYSTEM, INDEX_INFO) else { return Ok(()) };
    let timestamp = database.next_timestamp(database.clock().now_micros())?;
    let value = done.map(|done| [&index.created_at.to_be_bytes()[..], done.key()].concat());
    let values: Vec<_> = value.into_iter().map(|value| ("value", encode::Value::Bytes(value))).collect();
    let row = encode::row(table, &[&index.name], &values, timestamp);
    let mutation = encode::mutation(table, &index.base.keyspace, vec![row]);
    database
        .engine()
        .apply(&[mutation])
        .map_err(|error| DatabaseError::Server(format!("cannot write {SYSTEM}.{INDEX_INFO}: {error}")))
}

/// What removes the notes on an index: when it is dropped, and before another of its name is built.
pub(crate) fn forget(catalog: &Catalog, keyspace: &str, index: &str, timestamp: i64) -> Option<Mutation> {
    let table = catalog.table(SYSTEM, INDEX_INFO)?;
    Some(encode::mutation(table, keyspace, vec![encode::row_deletion(&[index], timestamp)]))
}

/// Reads what was noted at an earlier time, and gives the indexes that are still to be built.
pub(crate) fn load(engine: &Engine, catalog: &Catalog, now: u32) -> Result<Vec<Arc<Index>>> {
    let notes = match catalog.table(SYSTEM, INDEX_INFO) {
        Some(table) => read_notes(engine, table, now)?,
        None => HashMap::new(),
    };
    let users = catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
    let mut unbuilt = Vec::new();
    for (keyspace, index) in
        users.flat_map(|keyspace| keyspace.indexes.values().map(move |index| (keyspace, index)))
    {
        if !keyspace.params.durable_writes {
            // Without a log, rows may have been flushed whose entries were not, and deletions of entries whose rows were not:
            // what is built would not show under these.
            engine.truncate(index.storage.id).map_err(|error| {
                DatabaseError::Server(format!("cannot empty index {}: {error}", index.name))
            })?;
            unbuilt.push(index.clone());
            continue;
        }
        match notes.get(&(index.base.keyspace.clone(), index.name.clone())) {
            Some(None) => {
                index.state.set_built();
                continue;
            }
            Some(Some(note)) => {
                if let Some((created_at, done)) = note.split_first_chunk::<8>()
                    && i64::from_be_bytes(*created_at) == index.created_at
                {
                    *index.state.done.lock() = Some(DecoratedKey::new(Bytes::copy_from_slice(done)));
                }
            }
            None => {}
        }
        unbuilt.push(index.clone());
    }
    Ok(unbuilt)
}

type Notes = HashMap<(String, String), Option<Vec<u8>>>;

fn read_notes(engine: &Engine, table: &Arc<TableMetadata>, now: u32) -> Result<Notes> {
    let failed = |error: String| DatabaseError::Server(format!("cannot read {SYSTEM}.{INDEX_INFO}: {error}"));
    let mut notes = HashMap::new();
    let mut stream = engine
        .scan(table.id, &KeyRange::ALL, &Selection::all())
        .map_err(|error| failed(error.to_string()))?;
    while let Some(header) = stream.next_partition().map_err(|error| failed(error.to_string()))? {
        let keyspace = String::from_utf8_lossy(header.key.key()).into_owned();
        while let Some(next) = stream.next_unfiltered().map_err(|error| failed(error.to_string()))? {
            let Unfiltered::Row(row) = next else { continue };
            let stored = StoredRow { table, row: &row, now };
            if let Some(name) = stored.clustering_text(0).filter(|_| row.is_live(now)) {
                notes.insert((keyspace.clone(), name.to_owned()), stored.bytes("value").map(<[u8]>::to_vec));
            }
        }
    }
    Ok(notes)
}

/// Takes the note that an index is built away, durably, before its entries are removed: should the process die in between, it
/// is built again.
pub(crate) fn unbuild(database: &Database, index: &Index) -> Result<()> {
    let catalog = database.catalog();
    let timestamp = database.next_timestamp(database.clock().now_micros())?;
    let Some(mutation) = forget(&catalog, &index.base.keyspace, &index.name, timestamp) else {
        return Ok(());
    };
    let engine = database.engine();
    engine
        .apply(&[mutation])
        .and_then(|()| engine.sync_log())
        .map_err(|error| DatabaseError::Server(format!("cannot write {SYSTEM}.{INDEX_INFO}: {error}")))
}

/// Notes that an index of an empty table is built.
pub(crate) fn mark_built(database: &Database, index: &Index) -> Result<()> {
    note(database, index, None)
}
