//! Index builds: entries for the rows that are older than their index.
//!
//! Writers maintain an index from the moment it is in the catalog. Its build begins when all
//! writers that did not see it have ended, and reads their rows by scanning the table. The entries
//! have the write timestamps of their cells, so later changes of them win.
//!
//! `system."IndexInfo"` has a row for each built index, as in Cassandra. During a build, the row
//! contains its progress, from which the next start continues:
//!
//! ```text
//! value   i64 creation time of the index, key of the last completed partition      big-endian
//! ```

use std::sync::Arc;

use cassette_engine::{Engine, KeyRange, Mutation};
use cassette_rows::{DecoratedKey, PartitionStream, Row, Selection, StorageError, Unfiltered};

use super::{Build, Step, load_graph};
use crate::basics::error::{DatabaseError, Result};
use crate::schema::indexes::Index;
use crate::schema::system::encode;
use crate::store::Store;
use crate::store::build_state::BuildState;
use crate::store::indexes::build_notes::note;
use crate::store::indexes::entries::{Change, Changes, entries};

/// The number of entries that are written together.
const BATCH: usize = 256;
/// The number of partitions between two records of the progress: some milliseconds. Few in tests,
/// to cover continued builds.
const PARTITIONS_PER_NOTE: u64 = if cfg!(test) { 50 } else { 10_000 };
/// The build of an index.
pub(super) struct IndexBuild(pub Arc<Index>);

impl Build for IndexBuild {
    fn title(&self) -> String {
        format!("index {}", self.0.name)
    }

    fn step(&self, store: &Arc<Store>) -> Result<Step> {
        if is_current(store, &self.0) { step(store, &self.0) } else { Ok(Step::Dropped) }
    }

    fn then(&self, store: &Arc<Store>) {
        load_graph(store, &self.0);
    }
}

/// Whether the index still exists.
fn is_current(store: &Store, index: &Index) -> bool {
    let catalog = store.catalog();
    catalog.indexes_of(index.base.id).iter().any(|other| other.storage.id == index.storage.id)
}

/// Builds the entries of some partitions.
fn step(store: &Store, index: &Arc<Index>) -> Result<Step> {
    let attempted = format!("cannot build index {}: reading", index.name);
    let failed = |error: StorageError| DatabaseError::storage_after(&attempted, error);
    let engine = store.engine();
    let state = &*store.build_states().index(index);
    let restarts = state.restarts();
    let range = state.done().map_or(KeyRange::ALL, |done| KeyRange::ALL.after(done));
    let mut stream = engine
        .scan(index.base.id, &range, &Selection::all())
        .map_err(|error| DatabaseError::storage_after(&attempted, error))?;
    let now = encode::seconds(store.clock().now_micros());
    let mut writer = Writer { engine, index, state, mutations: Vec::with_capacity(BATCH), now };
    let mut done = None;
    for _ in 0..PARTITIONS_PER_NOTE {
        let key = partition(&mut *stream, &mut writer, &failed)?;
        let Some(key) = key else {
            writer.write()?;
            drop(stream);
            let _writing = store.begin_to_write()?;
            if state.restarts() != restarts {
                return Ok(Step::More);
            }
            note(store, index, None)?;
            store.build_states().graphs.reset(index);
            state.set_built();
            return Ok(Step::Done);
        };
        state.count_partition();
        done = Some(key);
        if store.builds_are_stopped() {
            break;
        }
    }
    writer.write()?;
    // TRUNCATE, which stops writers, may have removed the entries.
    let _writing = store.begin_to_write()?;
    if state.restarts() != restarts {
        return Ok(Step::More);
    }
    note(store, index, done.as_ref())?;
    state.set_done(done);
    Ok(Step::More)
}

/// Writes the entries of the stream's next partition, and returns its key.
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
    state: &'a BuildState<DecoratedKey>,
    mutations: Vec<Mutation>,
    now: u32,
}

impl Writer<'_> {
    fn add(&mut self, key: &DecoratedKey, row: &Row, is_static: bool) -> Result<()> {
        let mut changes = Changes::new(key, row.clustering());
        for entry in entries(self.index, key, row, is_static, self.now) {
            // Longer values were written before the index existed. It does not find them, as in
            // Cassandra.
            if entry.value.len() < usize::from(u16::MAX) {
                let change = Change::Write(entry.liveness);
                self.mutations.push(changes.make(self.index, &entry.value, entry.path, change));
            }
        }
        if self.mutations.len() >= BATCH { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.engine.apply(&self.mutations).map_err(|error| {
            DatabaseError::storage_in(format_args!("cannot build index {}: writing", self.index.name), error)
        })?;
        self.state.count_entries(self.mutations.len());
        self.mutations.clear();
        Ok(())
    }
}
