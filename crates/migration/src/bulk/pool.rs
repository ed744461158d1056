//! Threads that write parts, and threads that send them: a few sessions with each node.
//!
//! A part exists from its creation until all its replicas have it and the progress file has its
//! range. Their number is limited: writers wait while nodes are slower.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cassette_sstable::SSTableReader;
use parking_lot::{Condvar, Mutex};

use super::parts::{PartsDirectory, failed};
use super::progress::Progress;
use super::slice_writer::{Density, SliceWriter, Writing, Written};
use super::slices::Slice;
use super::source::{Source, SourceTable};
use crate::error::{MoveError, Result, unsuitable};
use crate::event::{Event, Observer};
use crate::files::delivery::{Deliveries, Delivery, TICK, sessions_per_node};
use crate::files::transfers::{Share, TargetTable, shares};
use crate::settings::BulkOptions;
use crate::streaming::replicas::Node;
use crate::throttle::Throttle;
use crate::token_range::TokenRange;

/// Interval between two reports of progress.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

/// What the threads share.
pub struct Pool<'p> {
    pub source: Source<'p>,
    pub tables: &'p [SourceTable<'p>],
    pub targets: &'p [TargetTable],
    /// Identify the tables in the progress file.
    pub keys: &'p [String],
    pub nodes: &'p [Node],
    pub slices: &'p [Slice],
    /// Number of slices that an earlier run has completed.
    pub slices_done: u64,
    pub progress: &'p Progress,
    pub directory: &'p PartsDirectory,
    pub options: &'p BulkOptions,
    /// Number of threads that write parts.
    pub writers: usize,
    /// Maximum number of rows per second.
    pub rate: Option<f64>,
    /// How long a node may fail to respond.
    pub patience: Duration,
    pub observer: &'p dyn Observer,
}

/// The result of a run.
pub struct Done {
    pub rows: u64,
    pub bytes: u64,
}

/// A part, and what each node gets of it.
struct Part {
    table: usize,
    written: Written,
    shares: Vec<Share>,
    /// Nodes that do not have it yet.
    left: AtomicUsize,
}

struct State<'p> {
    deliveries: Deliveries<'p>,
    next_slice: AtomicUsize,
    densities: Vec<Density>,
    /// Rows of each table.
    rows: Vec<AtomicU64>,
    shared: Mutex<Shared>,
    changed: Condvar,
}

struct Shared {
    /// For each node, parts with the index of its share.
    queues: Vec<VecDeque<(Arc<Part>, usize)>>,
    /// Parts that exist.
    parts: usize,
    /// Threads that write, and all threads.
    writing: usize,
    running: usize,
    /// Of each table: slices and parts that are not complete.
    left: Vec<u64>,
    slices_done: u64,
    /// Estimated bytes at the source of what is complete.
    weight: f64,
    failure: Option<MoveError>,
}

fn part_damaged(error: &dyn Display, reader: &SSTableReader) -> MoveError {
    failed(&reader.descriptor().directory, error)
}

impl<'p> Pool<'p> {
    /// Writes and sends all slices.
    ///
    /// # Errors
    /// The first error; the other threads then stop.
    pub fn run(&self) -> Result<Done> {
        let sessions = sessions_per_node(&self.options.files);
        let writers = self.writers.clamp(1, self.slices.len().max(1));
        let senders = self.nodes.len() * sessions;
        let mut left = vec![0; self.tables.len()];
        self.slices.iter().for_each(|slice| left[slice.table] += 1);
        let patience = self.patience;
        let state = State {
            deliveries: Deliveries::new(&self.options.files, patience, self.observer, part_damaged),
            next_slice: AtomicUsize::new(0),
            densities: self.tables.iter().map(Density::of_table).collect(),
            rows: self.tables.iter().map(|_| AtomicU64::new(0)).collect(),
            shared: Mutex::new(Shared {
                queues: vec![VecDeque::new(); self.nodes.len()],
                parts: 0,
                writing: writers,
                running: writers + senders,
                left,
                slices_done: self.slices_done,
                weight: 0.0,
                failure: None,
            }),
            changed: Condvar::new(),
        };
        let is_stopped = || state.deliveries.is_stopped();
        let writing = Writing {
            directory: self.directory,
            part_bytes: self.options.part_bytes,
            throttle: Throttle::new(self.rate),
            rows: AtomicU64::new(0),
            is_stopped: &is_stopped,
        };
        let parts_max = writers + sessions;
        std::thread::scope(|scope| {
            for _ in 0..writers {
                let (state, writing) = (&state, &writing);
                scope.spawn(move || {
                    let _end = End { state, writes: true };
                    state.keep(self.write(state, writing, parts_max));
                });
            }
            for node in (0..self.nodes.len()).flat_map(|node| std::iter::repeat_n(node, sessions)) {
                let state = &state;
                scope.spawn(move || {
                    let _end = End { state, writes: false };
                    state.keep(self.send(state, node));
                });
            }
            self.report(&state, &writing);
        });
        let stopped = state.deliveries.is_stopped();
        let (rows, bytes) = (writing.rows.load(Ordering::Relaxed), state.deliveries.bytes());
        match state.shared.into_inner().failure {
            Some(error) => Err(error),
            None if stopped => unsuitable("a thread of the move panicked"),
            None => Ok(Done { rows, bytes }),
        }
    }

    /// Writes slices until none is left.
    fn write(&self, state: &State<'p>, writing: &Writing<'_>, parts_max: usize) -> Result<()> {
        while let Some(slice) = self.slices.get(state.next_slice.fetch_add(1, Ordering::Relaxed)) {
            let table = &self.tables[slice.table];
            let partitions = self.source.partitions(table, slice.range)?;
            let density = &state.densities[slice.table];
            let mut writer = SliceWriter::new(writing, table, density, partitions, slice.range)?;
            let mut rest = slice.range;
            while !writer.is_complete() {
                if !state.reserve(parts_max) {
                    return Ok(());
                }
                match writer.next_part()? {
                    Some(written) => {
                        rest.0 = written.range.1;
                        self.enqueue(state, slice.table, written)?;
                    }
                    None => state.release(),
                }
                if state.deliveries.is_stopped() {
                    return Ok(());
                }
            }
            self.count(state, slice.table, rest, 0, true);
        }
        Ok(())
    }

    /// Hands a part to the threads of the nodes that replicate its partitions.
    fn enqueue(&self, state: &State<'p>, table: usize, written: Written) -> Result<()> {
        let shares = shares(&written.reader, &self.targets[table], self.nodes);
        let shares = shares.map_err(|error| part_damaged(&error, &written.reader))?;
        let nodes: Vec<usize> = shares.iter().map(|share| share.node).collect();
        let part = Arc::new(Part { table, left: AtomicUsize::new(nodes.len()), written, shares });
        let mut shared = state.shared.lock();
        shared.left[table] += 1;
        for (index, node) in nodes.iter().enumerate() {
            shared.queues[*node].push_back((part.clone(), index));
        }
        drop(shared);
        state.changed.notify_all();
        if nodes.is_empty() { self.complete(state, &part) } else { Ok(()) }
    }

    /// Sends parts to a node until no more will come.
    fn send(&self, state: &State<'p>, node: usize) -> Result<()> {
        while let Some((part, index)) = state.next(node) {
            let (table, share) = (&self.tables[part.table], &part.shares[index]);
            let delivery = Delivery {
                reader: &part.written.reader,
                sections: &share.sections,
                is_whole: share.is_whole,
                node: &self.nodes[node],
                table: self.targets[part.table].id,
                name: &table.table.quoted(),
            };
            if !state.deliveries.deliver(&delivery)? {
                return Ok(());
            }
            self.observer.event(&Event::Sent {
                keyspace: table.table.keyspace.clone(),
                table: table.table.name.clone(),
                sstable: format!("part {}", part.written.files.number),
                node: self.nodes[node].address.to_string(),
                bytes: share.bytes,
                partitions: share.sections.keys,
                whole: share.is_whole,
            });
            if part.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.complete(state, &part)?;
            }
        }
        Ok(())
    }

    /// Records a part that all its replicas have. Its files are removed with the last reference.
    fn complete(&self, state: &State<'p>, part: &Part) -> Result<()> {
        self.progress.finish(&self.keys[part.table], part.written.range)?;
        self.count(state, part.table, part.written.range, part.written.rows, false);
        state.release();
        Ok(())
    }

    /// Counts a complete part, or what a slice has after its parts.
    fn count(&self, state: &State<'p>, table: usize, range: TokenRange, rows: u64, is_slice: bool) {
        state.rows[table].fetch_add(rows, Ordering::Relaxed);
        let mut shared = state.shared.lock();
        shared.weight += self.weight(table, range);
        shared.slices_done += u64::from(is_slice);
        shared.left[table] -= 1;
        let is_last = shared.left[table] == 0;
        drop(shared);
        if is_last {
            let of = self.tables[table].table;
            self.observer.event(&Event::Table {
                keyspace: of.keyspace.clone(),
                table: of.name.clone(),
                rows: state.rows[table].load(Ordering::Relaxed),
            });
        }
    }

    /// Returns the estimated bytes of a range at the source.
    fn weight(&self, table: usize, range: TokenRange) -> f64 {
        self.tables[table].bytes.max(1) as f64 * range.width()
    }

    /// Reports progress until all threads have ended.
    fn report(&self, state: &State<'_>, writing: &Writing<'_>) {
        let start = Instant::now();
        let total: f64 = self.slices.iter().map(|slice| self.weight(slice.table, slice.range)).sum();
        let mut next = start + REPORT_PAUSE;
        let mut shared = state.shared.lock();
        while shared.running > 0 {
            state.changed.wait_until(&mut shared, next);
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + REPORT_PAUSE;
            let (ranges_done, weight) = (shared.slices_done, shared.weight);
            let seconds = start.elapsed().as_secs_f64();
            let rows = writing.rows.load(Ordering::Relaxed);
            self.observer.event(&Event::Progress {
                rows,
                rows_per_second: rows as f64 / seconds,
                ranges_done,
                ranges: self.slices_done + self.slices.len() as u64,
                seconds_left: (weight > 0.0).then(|| seconds / weight * (total - weight).max(0.0)),
            });
        }
    }
}

impl State<'_> {
    /// Keeps the first error, and stops all threads.
    fn keep(&self, result: Result<()>) {
        if let Err(error) = result {
            self.shared.lock().failure.get_or_insert(error);
            self.deliveries.stop();
            self.changed.notify_all();
        }
    }

    /// Waits until another part may exist. Returns `false` if the move ends.
    fn reserve(&self, parts_max: usize) -> bool {
        let mut shared = self.shared.lock();
        while shared.parts >= parts_max && !self.deliveries.is_stopped() {
            self.changed.wait_for(&mut shared, TICK);
        }
        shared.parts += 1;
        !self.deliveries.is_stopped()
    }

    /// Ends a part's existence.
    fn release(&self) {
        self.shared.lock().parts -= 1;
        self.changed.notify_all();
    }

    /// Returns the next part for a node; `None` if no more will come, or the move ends.
    fn next(&self, node: usize) -> Option<(Arc<Part>, usize)> {
        let mut shared = self.shared.lock();
        loop {
            if self.deliveries.is_stopped() {
                return None;
            }
            if let Some(next) = shared.queues[node].pop_front() {
                return Some(next);
            }
            if shared.writing == 0 {
                return None;
            }
            self.changed.wait_for(&mut shared, TICK);
        }
    }
}

/// Counts a thread as ended, also if it panics.
struct End<'s, 'p> {
    state: &'s State<'p>,
    writes: bool,
}

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.state.deliveries.stop();
        }
        let mut shared = self.state.shared.lock();
        shared.writing -= usize::from(self.writes);
        shared.running -= 1;
        drop(shared);
        self.state.changed.notify_all();
    }
}
