//! The copy: token ranges in parallel, page by page.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::cell::Row;
use crate::endpoint::{Endpoint, Session};
use crate::error::{MoveError, Result};
use crate::event::{Event, Observer};
use crate::page::{PageRequest, Values};
use crate::statements::Statements;
use crate::token_range::TokenRange;

/// The bytes that a page should have.
const PAGE_BYTES: usize = 512 << 10;
const PAGE_ROWS_MAX: usize = 5_000;
/// Rows of the first page, before the length of rows is known.
const PAGE_ROWS_FIRST: i32 = 100;
/// Interval between two reports of progress.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

/// Reads the rows of a token range, page by page.
pub struct Scan<'s> {
    statements: &'s Statements,
    range: TokenRange,
    /// The time at which expirations are evaluated, in seconds since 1970.
    pub now: u32,
    page_size: i32,
    paging_state: Option<Bytes>,
    is_at_end: bool,
    /// Of the last row: static cells belong to the first row of a partition.
    key: Option<Vec<Bytes>>,
}

impl<'s> Scan<'s> {
    /// Starts a scan, with expirations as of `now`.
    pub fn new(statements: &'s Statements, range: TokenRange, now: u32) -> Self {
        Self {
            statements,
            range,
            now,
            page_size: PAGE_ROWS_FIRST,
            paging_state: None,
            is_at_end: false,
            key: None,
        }
    }

    /// Reads the next page; `None` at the end.
    pub fn next_page(&mut self, session: &mut Session<'_>) -> Result<Option<Vec<Row>>> {
        let mut rows = Vec::with_capacity(usize::try_from(self.page_size).unwrap_or(0));
        let (statements, now) = (self.statements, self.now);
        let mut key = self.key.take();
        let read = self.visit_page(session, &mut |values| {
            let mut row = statements.decode(values, now)?;
            if key.as_ref() == Some(&row.key) {
                row.statics.clear();
            } else {
                key = Some(row.key.clone());
            }
            rows.push(row);
            Ok(())
        })?;
        self.key = key;
        Ok(read.then_some(rows))
    }

    /// Reads the next page, and calls `visit` with the values of each row. Returns whether there
    /// was one.
    pub fn visit_page(
        &mut self,
        session: &mut Session<'_>,
        visit: &mut dyn FnMut(Values<'_>) -> Result<()>,
    ) -> Result<bool> {
        if self.is_at_end {
            return Ok(false);
        }
        let range = [self.range.0, self.range.1].map(|token| token.to_be_bytes().to_vec());
        let request = PageRequest {
            text: &self.statements.select,
            values: &range,
            token: self.range.1,
            page_size: self.page_size,
            paging_state: self.paging_state.take(),
            now: self.now,
        };
        let (mut rows, mut bytes) = (0_usize, 0_usize);
        self.paging_state = session.visit_page(&request, &mut |values| {
            rows += 1;
            bytes += values.iter().flatten().map(|value| value.len()).sum::<usize>();
            visit(values)
        })?;
        self.is_at_end = self.paging_state.is_none();
        if let Some(length) = bytes.checked_div(rows) {
            let fitting = (PAGE_BYTES / length.max(1)).clamp(1, PAGE_ROWS_MAX);
            self.page_size = i32::try_from(fitting).unwrap_or(PAGE_ROWS_FIRST);
        }
        Ok(true)
    }
}

/// A token range of a table.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    pub table: usize,
    pub range: u32,
}

/// Runs tasks in parallel and reports progress.
pub struct Tasks<'a> {
    pub tasks: Vec<Task>,
    /// Ranges of earlier runs.
    pub done_before: u64,
    pub tables: &'a [Statements],
    pub workers: usize,
    pub observer: &'a dyn Observer,
}

/// Counters of running workers.
pub struct Shared {
    pub rows: AtomicU64,
    next: AtomicUsize,
    done: AtomicU64,
    failed: AtomicBool,
    first_failure: Mutex<Option<MoveError>>,
    /// Of each table: tasks left, and rows.
    tables: Vec<(AtomicU64, AtomicU64)>,
    running: Mutex<usize>,
    ended: Condvar,
}

impl Shared {
    /// Counts rows of a table.
    pub fn count(&self, table: usize, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.tables[table].1.fetch_add(rows as u64, Ordering::Relaxed);
    }
}

impl Tasks<'_> {
    /// Runs `work` for each task; each worker has a session with `source`, and what `make` creates.
    ///
    /// # Errors
    /// The first error of a worker. The others stop after their task.
    pub fn run<W>(
        &self,
        source: &Endpoint,
        make: impl Fn() -> W + Sync,
        work: impl Fn(&mut Session<'_>, &mut W, Task, &Shared) -> Result<()> + Sync,
    ) -> Result<u64> {
        let shared = Shared {
            rows: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            done: AtomicU64::new(self.done_before),
            failed: AtomicBool::new(false),
            first_failure: Mutex::new(None),
            tables: self.tables.iter().map(|_| Default::default()).collect(),
            running: Mutex::new(self.workers.max(1)),
            ended: Condvar::new(),
        };
        for task in &self.tasks {
            shared.tables[task.table].0.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::scope(|scope| {
            for _ in 0..self.workers.max(1) {
                let (shared, make, work) = (&shared, &make, &work);
                scope.spawn(move || {
                    let _end = End(shared);
                    let mut session = source.session();
                    let mut state = make();
                    while let Some(task) = self.take(shared) {
                        match work(&mut session, &mut state, task, shared) {
                            Ok(()) => self.complete(shared, task),
                            Err(error) => shared.fail(error),
                        }
                    }
                });
            }
            self.report(&shared);
        });
        match shared.first_failure.into_inner() {
            Some(error) => Err(error),
            None if shared.failed.into_inner() => {
                Err(MoveError::Unsuitable("a thread of the move panicked".to_owned()))
            }
            None => Ok(shared.rows.into_inner()),
        }
    }

    fn take(&self, shared: &Shared) -> Option<Task> {
        if shared.failed.load(Ordering::Relaxed) {
            return None;
        }
        self.tasks.get(shared.next.fetch_add(1, Ordering::Relaxed)).copied()
    }

    fn complete(&self, shared: &Shared, task: Task) {
        shared.done.fetch_add(1, Ordering::Relaxed);
        let (left, rows) = &shared.tables[task.table];
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let table = &self.tables[task.table].table;
            self.observer.event(&Event::Table {
                keyspace: table.keyspace.clone(),
                table: table.name.clone(),
                rows: rows.load(Ordering::Relaxed),
            });
        }
    }

    /// Reports progress until all workers have ended.
    fn report(&self, shared: &Shared) {
        let start = Instant::now();
        let total = self.done_before + self.tasks.len() as u64;
        let mut running = shared.running.lock();
        while *running > 0 {
            if !shared.ended.wait_for(&mut running, REPORT_PAUSE).timed_out() {
                continue;
            }
            let seconds = start.elapsed().as_secs_f64();
            let rows = shared.rows.load(Ordering::Relaxed);
            let ranges_done = shared.done.load(Ordering::Relaxed);
            let done_here = ranges_done - self.done_before;
            let left = total - ranges_done;
            self.observer.event(&Event::Progress {
                rows,
                rows_per_second: rows as f64 / seconds,
                ranges_done,
                ranges: total,
                seconds_left: (done_here > 0).then(|| seconds / done_here as f64 * left as f64),
            });
        }
    }
}

impl Shared {
    fn fail(&self, error: MoveError) {
        self.failed.store(true, Ordering::Relaxed);
        self.first_failure.lock().get_or_insert(error);
    }
}

/// Counts a worker as ended, also if it panics.
struct End<'s>(&'s Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::Relaxed);
        }
        *self.0.running.lock() -= 1;
        self.0.ended.notify_all();
    }
}

/// Returns the present time in seconds since 1970.
pub fn now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// Returns the present time in microseconds since 1970.
pub fn micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
