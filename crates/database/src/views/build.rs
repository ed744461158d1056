//! Building: entries for the rows that were there before their view.
//!
//! Writers keep a view from the moment it is in the catalog; building begins when all those that did not see it there have
//! ended. It goes through the base table partition by partition, each under its lock, so that no writer comes in between.
//!
//! `system.built_views` has a row for each view that is built, `system.view_builds_in_progress` one for each that is being
//! built, with the token up to which that is done, as in Cassandra. The next start goes on from there; a view of which neither
//! says anything is emptied first.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cassette_engine::{Engine, KeyRange, Mutation, PartitionPosition};
use cassette_rows::{DecoratedKey, PartitionHeader, Row, Selection, Slices, Token, Unfiltered};
use parking_lot::Mutex;

use super::View;
use super::maintenance::add_entries;
use crate::builds::BuildGuard;
use crate::catalog::{Catalog, KeyspaceKind};
use crate::database::{Database, WeakDatabase};
use crate::error::{DatabaseError, Result, WriteType};
use crate::execution::Execution;
use crate::request::StatementOptions;
use crate::system::encode::{self, StoredRow};
use crate::system::{BUILT_VIEWS, SYSTEM, VIEW_BUILDS};

/// Partitions between two notes of how far it is.
const PARTITIONS_PER_STEP: usize = 500;
/// Rows of one partition that are read before their entries are written, and bytes of them.
const ROWS_PER_WRITE: usize = 1000;
const BYTES_PER_WRITE: usize = 256 << 10;
/// How long CREATE MATERIALIZED VIEW itself builds, before it leaves the rest to the background.
const AT_ONCE: Duration = Duration::from_millis(50);

/// How far a view is built.
#[derive(Debug, Default)]
pub(crate) struct BuildState {
    built: AtomicBool,
    /// Somebody is building it.
    building: Arc<AtomicBool>,
    /// Up to which token that is done, and how many partitions those were.
    done: Mutex<(Option<Token>, i64)>,
}

impl BuildState {
    pub fn is_built(&self) -> bool {
        self.built.load(Ordering::Acquire)
    }

    /// How many partitions have been read by a build that runs.
    pub fn progress(&self) -> Option<u64> {
        let is_building = self.building.load(Ordering::Acquire) && !self.is_built();
        is_building.then(|| u64::try_from(self.done.lock().1).unwrap_or(0))
    }

    /// The view has lost entries: it is built again, from the start.
    pub fn start_over(&self) {
        *self.done.lock() = (None, 0);
        self.built.store(false, Ordering::Release);
    }

    fn set_built(&self) {
        self.built.store(true, Ordering::Release);
    }
}

impl Database {
    /// Builds a view, unless it is built: the smaller part at once, the rest in the background. What goes wrong is logged, and
    /// tried again at the next start.
    pub(crate) fn build_view(&self, view: &Arc<View>) {
        if view.state.is_built() {
            return;
        }
        let Some(running) = BuildGuard::begin(&view.state.building) else { return };
        match self.build_view_at_once(view) {
            Ok(true) => {}
            Ok(false) => {
                let (weak, view) = (self.downgrade(), view.clone());
                let name = format!("view {}", view.name());
                if let Err(error) = running.in_background(name, move || build_in_background(&weak, &view)) {
                    tracing::error!(%error, "a view stays unbuilt until the next start");
                }
            }
            Err(error) => {
                tracing::error!(view = view.name(), %error, "a view stays unbuilt until the next start");
            }
        }
    }

    /// Whether that was all.
    fn build_view_at_once(&self, view: &Arc<View>) -> Result<bool> {
        let began = self.clock().monotonic();
        while !step(self, view)? {
            if self.has_background_threads() && self.clock().monotonic().saturating_sub(began) >= AT_ONCE {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn build_in_background(database: &WeakDatabase, view: &Arc<View>) {
    // The database is let go of between two steps, so that it can be closed.
    let outcome = loop {
        let Some(database) = database.upgrade() else { break Ok(()) };
        let catalog = database.catalog();
        // As it is now: its base may have been altered since.
        let current =
            catalog.views_of(view.base.id).iter().find(|other| other.table.id == view.table.id).cloned();
        let Some(current) = current.filter(|_| !database.builds().is_stopped()) else { break Ok(()) };
        match step(&database, &current) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    if let Err(error) = outcome {
        tracing::error!(view = view.name(), %error, "a view cannot be built; the next start tries again");
    }
}

/// Builds the entries of some partitions; whether those were the last.
fn step(database: &Database, view: &Arc<View>) -> Result<bool> {
    let failed = |what: &str, error: String| {
        DatabaseError::Server(format!("cannot build view {}: {what}: {error}", view.name()))
    };
    let engine = database.engine();
    let (done, count) = *view.state.done.lock();
    let range = match done {
        Some(token) => KeyRange { start: Bound::Included(PartitionPosition::After(token)), ..KeyRange::ALL },
        None => KeyRange::ALL,
    };
    let mut keys: Vec<DecoratedKey> = Vec::with_capacity(PARTITIONS_PER_STEP);
    let mut is_last = false;
    let selection = Selection { slices: Slices::none(), reversed: false };
    let mut stream = engine
        .scan(view.base.id, &range, &selection)
        .map_err(|error| failed("reading", error.to_string()))?;
    loop {
        let Some(header) = stream.next_partition().map_err(|error| failed("reading", error.to_string()))?
        else {
            is_last = true;
            break;
        };
        // Partitions of one token belong to one step: where it ended is noted as a token.
        let may_end = keys.last().is_some_and(|last| last.token() != header.key.token());
        if keys.len() >= PARTITIONS_PER_STEP && may_end {
            break;
        }
        keys.push(header.key);
    }
    drop(stream);
    let catalog = database.catalog();
    let options = StatementOptions::default();
    let mut last = done;
    for key in &keys {
        if database.builds().is_stopped() {
            // Whoever asks next sees that it stopped; the next start does this step again.
            return Ok(false);
        }
        let _lock = engine.lock_partition(view.base.id, key)?;
        let execution = Execution::new(database, &catalog, &[], &options, None);
        let mut stream = engine
            .read(view.base.id, key, &Selection::all())
            .map_err(|error| failed("reading", error.to_string()))?;
        let reading = |error: cassette_rows::StorageError| failed("reading", error.to_string());
        let Some(header) = stream.next_partition().map_err(reading)? else { continue };
        let header = PartitionHeader { static_row: None, ..header };
        let mut rows: Vec<(Option<&Row>, Row)> = Vec::new();
        let mut bytes = 0;
        loop {
            let next = stream.next_unfiltered().map_err(reading)?;
            let ended = next.is_none();
            if let Some(Unfiltered::Row(row)) = next {
                bytes += row.data_size();
                rows.push((None, row));
            }
            // Large partitions in pieces: a crash between two has the step done again.
            if (ended || bytes >= BYTES_PER_WRITE || rows.len() >= ROWS_PER_WRITE) && !rows.is_empty() {
                let mut budget = database.entry_budget(&execution, WriteType::Simple);
                let mut mutations = Vec::new();
                add_entries(view, &header, &rows, &execution, &mut budget, &mut mutations)?;
                engine.apply(&mutations).map_err(|error| failed("writing", error.to_string()))?;
                rows.clear();
                bytes = 0;
            }
            if ended {
                break;
            }
        }
        last = Some(key.token());
    }
    let count = count + keys.len() as i64;
    *view.state.done.lock() = (last, count);
    let notes = if is_last { built(database, view)? } else { progress(database, view, last, count)? };
    engine.apply(&notes).map_err(|error| failed("noting progress", error.to_string()))?;
    if is_last {
        view.state.set_built();
    }
    Ok(is_last)
}

/// Cassandra's least token, which stands before the first and behind the last.
const RING: &str = "-9223372036854775808";

fn progress(database: &Database, view: &View, last: Option<Token>, count: i64) -> Result<Vec<Mutation>> {
    let catalog = database.catalog();
    let timestamp = database.next_timestamp(database.clock().now_micros())?;
    let Some(table) = catalog.table(SYSTEM, VIEW_BUILDS) else { return Ok(Vec::new()) };
    let mut values = vec![("keys_built", count.into())];
    let token = last.map(|token| token.0.to_string());
    if let Some(token) = &token {
        values.push(("last_token", token.as_str().into()));
    }
    let row = encode::row(table, &[view.name(), RING, RING], &values, timestamp);
    Ok(vec![encode::mutation(table, &view.base.keyspace, vec![row])])
}

fn built(database: &Database, view: &View) -> Result<Vec<Mutation>> {
    let catalog = database.catalog();
    let timestamp = database.next_timestamp(database.clock().now_micros())?;
    let mut mutations = Vec::new();
    if let Some(table) = catalog.table(SYSTEM, BUILT_VIEWS) {
        let row = encode::row(table, &[view.name()], &[("status_replicated", true.into())], timestamp);
        mutations.push(encode::mutation(table, &view.base.keyspace, vec![row]));
    }
    if let Some(table) = catalog.table(SYSTEM, VIEW_BUILDS) {
        let row = encode::row_deletion(&[view.name(), RING, RING], timestamp);
        mutations.push(encode::mutation(table, &view.base.keyspace, vec![row]));
    }
    Ok(mutations)
}

/// What removes the notes on a view: when it comes, and when it goes.
pub(crate) fn forget(catalog: &Catalog, keyspace: &str, view: &str, timestamp: i64) -> Vec<Mutation> {
    let notes = [(BUILT_VIEWS, vec![view]), (VIEW_BUILDS, vec![view, RING, RING])];
    let mutation = |(table, clustering): (&str, Vec<&str>)| {
        let table = catalog.table(SYSTEM, table)?;
        Some(encode::mutation(table, keyspace, vec![encode::row_deletion(&clustering, timestamp)]))
    };
    notes.into_iter().filter_map(mutation).collect()
}

/// Takes the notes on a view away, durably, before its base is truncated: should the process die in between, it is emptied
/// and built again.
pub(crate) fn unbuild(database: &Database, view: &View) -> Result<()> {
    let timestamp = database.next_timestamp(database.clock().now_micros())?;
    let notes = forget(&database.catalog(), &view.base.keyspace, view.name(), timestamp);
    let engine = database.engine();
    engine.apply(&notes).and_then(|()| engine.sync_log()).map_err(|error| {
        DatabaseError::Server(format!("cannot note that view {} is not built: {error}", view.name()))
    })
}

/// Notes that a view of a truncated base, truncated itself, is built.
pub(crate) fn truncated(database: &Database, view: &View) -> Result<()> {
    let notes = built(database, view)?;
    database.engine().apply(&notes).map_err(|error| {
        DatabaseError::Server(format!("cannot note that view {} is built: {error}", view.name()))
    })
}

/// Reads what was noted at an earlier time, and gives the views that are still to be built; those of which nothing was noted are
/// empty then.
pub(crate) fn load(engine: &Engine, catalog: &Catalog, now: u32) -> Result<Vec<Arc<View>>> {
    let built = notes(engine, catalog, BUILT_VIEWS, now, |_| Some((Token(0), 0)))?;
    let begun = notes(engine, catalog, VIEW_BUILDS, now, |row| {
        Some((Token(row.text("last_token")?.parse().ok()?), row.long("keys_built").unwrap_or(0)))
    })?;
    let mut unbuilt = Vec::new();
    for keyspace in catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User) {
        for view in keyspace.views.values() {
            let name = (keyspace.name.clone(), view.name().to_owned());
            // Without a log, rows may have been flushed whose entries were not.
            if built.contains_key(&name) && keyspace.params.durable_writes {
                view.state.set_built();
                continue;
            }
            match begun.get(&name).filter(|_| keyspace.params.durable_writes) {
                Some((token, count)) => *view.state.done.lock() = (Some(*token), *count),
                None => engine.truncate(view.table.id).map_err(|error| {
                    DatabaseError::Server(format!("cannot empty view {}: {error}", view.name()))
                })?,
            }
            unbuilt.push(view.clone());
        }
    }
    Ok(unbuilt)
}

type Notes = HashMap<(String, String), (Token, i64)>;

fn notes(
    engine: &Engine,
    catalog: &Catalog,
    name: &str,
    now: u32,
    read: impl Fn(&StoredRow<'_>) -> Option<(Token, i64)>,
) -> Result<Notes> {
    let failed = |error: String| DatabaseError::Server(format!("cannot read {SYSTEM}.{name}: {error}"));
    let mut notes = HashMap::new();
    let Some(table) = catalog.table(SYSTEM, name) else { return Ok(notes) };
    let mut stream = engine
        .scan(table.id, &KeyRange::ALL, &Selection::all())
        .map_err(|error| failed(error.to_string()))?;
    while let Some(header) = stream.next_partition().map_err(|error| failed(error.to_string()))? {
        let keyspace = String::from_utf8_lossy(header.key.key()).into_owned();
        while let Some(next) = stream.next_unfiltered().map_err(|error| failed(error.to_string()))? {
            let Unfiltered::Row(row) = next else { continue };
            let stored = StoredRow { table, row: &row, now };
            if let (Some(view), Some(note), true) =
                (stored.clustering_text(0), read(&stored), row.is_live(now))
            {
                notes.insert((keyspace.clone(), view.to_owned()), note);
            }
        }
    }
    Ok(notes)
}
