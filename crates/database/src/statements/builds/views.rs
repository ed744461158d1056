//! View builds: entries for the rows that are older than their view.
//!
//! Writers maintain a view from the moment it is in the catalog. Its build begins when all writers
//! that did not see it have ended. It scans the base table partition by partition, each under its
//! lock, which excludes concurrent writers.
//!
//! As in Cassandra, `system.built_views` has a row for each built view, and
//! `system.view_builds_in_progress` one for each view that is being built, with the token of its
//! progress, from which the next start continues. A view without either row is truncated first.

use std::ops;
use std::sync::Arc;

use cassette_engine::{Durability, EngineError, KeyRange, PartitionPosition};
use cassette_rows::{
    Bound, DecoratedKey, PartitionHeader, PartitionStream, Selection, Slice, Slices, Unfiltered,
};

use super::{Build, Step};
use crate::basics::error::{DatabaseError, Result, WriteType};
use crate::basics::request::StatementOptions;
use crate::execution::Execution;
use crate::schema::views::View;
use crate::store::Store;
use crate::store::admission::{Admission, Need, Unapplied};
use crate::store::views::build_notes::{built, progress};
use crate::store::views::{EntryWriter, Reason};

/// The number of partitions between two records of the progress.
const PARTITIONS_PER_STEP: usize = 500;
/// The maximum rows of one partition that are read before their entries are written, and their
/// bytes.
const ROWS_PER_WRITE: usize = 1000;
const BYTES_PER_WRITE: usize = 256 << 10;

/// The build of a view.
pub(super) struct ViewBuild(pub Arc<View>);

impl Build for ViewBuild {
    fn title(&self) -> String {
        format!("view {}", self.0.name())
    }

    fn step(&self, store: &Arc<Store>) -> Result<Step> {
        let catalog = store.catalog();
        let views = catalog.views_of(self.0.base.id);
        // The current definition: its base table may have been altered.
        let current = views.iter().find(|other| other.table.id == self.0.table.id);
        current.map_or(Ok(Step::Dropped), |current| step(store, current))
    }
}

/// Builds the entries of the first rows of a partition after `start`. Returns the position after
/// them; `None` at the end of the partition.
fn piece<'s>(
    execution: &Execution<'s>,
    admission: &mut Admission<'s>,
    view: &Arc<View>,
    key: &DecoratedKey,
    start: &Bound,
) -> Result<Option<Bound>, Unapplied> {
    let store = execution.store;
    let engine = store.engine();
    let failed = |error| DatabaseError::storage_in("reading", error);
    let _lock = engine.lock_partition(view.base.id, key)?;
    // TRUNCATE removes the rows and their entries while no writer runs: the entries of rows that
    // were read before would stay.
    let _writing = store.begin_to_write()?;
    let slices = Slices::new(vec![Slice { start: start.clone(), end: Bound::top() }], &view.base.comparator);
    let mut stream =
        engine.read(view.base.id, key, &Selection { slices, reversed: false }).map_err(failed)?;
    let Some(header) = stream.next_partition().map_err(|error| failed(error.into()))? else {
        return Ok(None);
    };
    let header = PartitionHeader { static_row: None, ..header };
    let Some(writer) = EntryWriter::new(std::slice::from_ref(view), &header, execution)? else {
        return Ok(None);
    };
    let mut mutations = Vec::new();
    let (mut rows, mut bytes) = (0, 0);
    let mut rest = None;
    let mut budget = store.entry_budget(admission, execution, WriteType::Simple);
    while let Some(next) = stream.next_unfiltered().map_err(|error| failed(error.into()))? {
        let Unfiltered::Row(row) = next else { continue };
        writer.add(None, &row, Reason::Row, &mut budget, &mut mutations)?;
        rows += 1;
        bytes += row.data_size();
        if rows >= ROWS_PER_WRITE || bytes >= BYTES_PER_WRITE {
            rest = Some(Bound::after(row.clustering().clone()));
            break;
        }
    }
    let permit = engine.try_admit(&mutations, admission.permit.take());
    let permit = permit.map_err(|demand| Unapplied::must_wait(Need::Permit(demand)))?;
    let applied = engine.apply_admitted(&mutations, Durability::Configured, permit);
    applied.map_err(|error| DatabaseError::storage_in("writing", error))?;
    Ok(rest)
}

/// Builds the entries of some partitions.
fn step(store: &Arc<Store>, view: &Arc<View>) -> Result<Step> {
    let attempted = format!("cannot build view {}", view.name());
    let failed =
        |error: EngineError| DatabaseError::storage_after(format_args!("{attempted}: reading"), error);
    let engine = store.engine();
    let state = store.build_states().view(view);
    let restarts = state.restarts();
    let (done, count) = state.done().map_or((None, 0), |(token, count)| (Some(token), count));
    let range = match done {
        Some(token) => {
            KeyRange { start: ops::Bound::Included(PartitionPosition::After(token)), ..KeyRange::ALL }
        }
        None => KeyRange::ALL,
    };
    let mut keys: Vec<DecoratedKey> = Vec::with_capacity(PARTITIONS_PER_STEP);
    let mut is_last = false;
    let selection = Selection { slices: Slices::none(), reversed: false };
    let mut stream = engine.scan(view.base.id, &range, &selection).map_err(failed)?;
    loop {
        let Some(header) = stream.next_partition().map_err(|error| failed(error.into()))? else {
            is_last = true;
            break;
        };
        // Partitions with one token belong to one step, because its end is recorded as a token.
        let may_end = keys.last().is_some_and(|last| last.token() != header.key.token());
        if keys.len() >= PARTITIONS_PER_STEP && may_end {
            break;
        }
        keys.push(header.key);
    }
    drop(stream);
    let catalog = store.catalog();
    let options = StatementOptions::default();
    let mut last = done;
    for key in &keys {
        if store.builds_are_stopped() {
            // The next step reports the stop to its caller; the next start repeats this one.
            return Ok(Step::More);
        }
        let execution = Execution::new(store, &catalog, &[], &options, None);
        // Large partitions are built in pieces; after a crash between two, the step is repeated.
        // Writers can run between two pieces, since rows and entries are consistent whenever the
        // partition is not locked.
        let mut rest = Some(Bound::bottom());
        while let Some(start) = rest {
            rest = store
                .admitted(&execution, WriteType::Simple, |admission| {
                    piece(&execution, admission, view, key, &start)
                })
                .map_err(|error| DatabaseError::failed_in(format_args!("{attempted}: writing"), error))?;
        }
        last = Some(key.token());
    }
    let count = count + keys.len() as i64;
    // TRUNCATE, which stops writers, may have removed the entries.
    let _writing = store.begin_to_write()?;
    if state.restarts() != restarts {
        return Ok(Step::More);
    }
    state.set_done(last.map(|token| (token, count)));
    let notes = if is_last { built(store, view)? } else { progress(store, view, last, count)? };
    engine
        .apply(&notes)
        .map_err(|error| DatabaseError::storage_after(format_args!("{attempted}: noting progress"), error))?;
    if is_last {
        state.set_built();
    }
    Ok(if is_last { Step::Done } else { Step::More })
}
