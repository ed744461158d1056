//! The commit log in use: appending, syncing, and letting segments go.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cassette_rows::Interrupted;
use cassette_vfs::{Clock, FileSystem};
use parking_lot::{Condvar, Mutex};

use super::background::Background;
use super::progress::Progress;
use super::replay::{self, Entry, HandlerError, ReplaySummary};
use super::shared::Shared;
use super::state::State;
use super::{AppendError, CommitLogOptions, OpenError, Position, Record};
use crate::metrics::Histogram;

/// A commit log open for appending. See the [module's documentation](super) for what it guarantees.
///
/// Dropping it is like killing the process: everything acknowledged in its mode is there.
/// [`close`](Self::close) does more.
pub struct CommitLog {
    shared: Arc<Shared>,
    /// Stopped and joined on drop.
    background: Background,
}

/// Numbers for people and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitLogStats {
    /// Segments with records in them.
    pub segments: usize,
    /// Bytes they take on disk, reserved ones included.
    pub total_size: u64,
    /// Records end here, whether written yet or not.
    pub end: Position,
    /// Records up to here are durable.
    pub synced: Position,
}

impl CommitLog {
    /// Opens the log in `directory`, which is created when missing and belongs to this log alone:
    /// the caller holds the lock that says so. Every record in it is handed to `replay` in the
    /// order of appending, each segment's dictionaries before the entries that need them; then what
    /// a crash has torn is cleared away, and segments without entries are removed. The tables of
    /// replayed entries are dirty until [`mark_clean`](Self::mark_clean) says otherwise.
    ///
    /// On error nothing has been changed, unless it is [`OpenError::Io`].
    pub fn open(
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        directory: &Path,
        options: CommitLogOptions,
        replay: &mut dyn FnMut(Entry<'_>) -> Result<(), HandlerError>,
    ) -> Result<(CommitLog, ReplaySummary), OpenError> {
        let segment_size = options.segment_size;
        if !(CommitLogOptions::SEGMENT_SIZE_MIN..=CommitLogOptions::SEGMENT_SIZE_MAX).contains(&segment_size)
        {
            return Err(OpenError::SegmentSize { segment_size });
        }
        let replayed = replay::replay(fs.as_ref(), directory, options.replay, replay)?;
        let millis = u64::try_from(clock.now_micros() / 1000).unwrap_or(0);
        // Ids never repeat, though all segments may be gone by now: the clock, as in Cassandra, and
        // what the caller knows.
        let next_id = (replayed.last_id + 1).max(millis).max(options.first_segment_id);
        let state = State::new(replayed.segments, replayed.end, next_id);
        let shared = Arc::new(Shared {
            fs,
            clock,
            directory: directory.to_owned(),
            options,
            state: Mutex::new(state),
            progress: Progress::default(),
            advanced: Condvar::new(),
            work: Condvar::new(),
            sync_latency: Histogram::of_latencies(),
            segment_awaited: AtomicBool::new(false),
            #[cfg(test)]
            populated: Default::default(),
        });
        let background = Background::start(&shared)
            .map_err(|source| OpenError::Io { directory: directory.to_owned(), source })?;
        shared.remove_clean_segments();
        Ok((CommitLog { shared, background }, replayed.summary))
    }

    /// Logs a record and returns where it ends, once it is as durable as the sync mode guarantees.
    pub fn append(&self, record: &dyn Record) -> Result<Position, AppendError> {
        self.shared.append(record)
    }

    /// Logs a record that need not be safe by itself: it is as safe as a record behind it, once
    /// that is acknowledged. Does not wait for the file. If there is no space to write it after
    /// all, no caller could be notified, and the log ends as after any other failure.
    pub fn append_ahead(&self, record: &dyn Record) -> Result<Position, AppendError> {
        self.shared.append_ahead(record)
    }

    /// Waits until a large record of about `bytes` can be appended without any other appender
    /// having to wait for the next segment. Call before taking locks that other appenders need.
    /// Returns at once for small records, and for a log that takes no more:
    /// [`append`](Self::append) says why.
    ///
    /// # Errors
    /// If the request of this thread is interrupted first.
    pub fn await_room(&self, bytes: usize) -> Result<(), Interrupted> {
        self.shared.await_room(bytes)
    }

    /// Whether [`await_room`](Self::await_room) would wait.
    pub fn would_await_room(&self, bytes: usize) -> bool {
        self.shared.would_await_room(bytes)
    }

    /// Bytes that have been populated for large records.
    #[cfg(test)]
    pub(super) fn populated(&self) -> u64 {
        self.shared.populated.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether a large record of about `bytes` can be appended now.
    #[cfg(test)]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.shared.state.lock().has_room(bytes, &self.shared.options)
    }

    /// The first half of [`append`](Self::append): gives the record its place, without a promise.
    /// Blocks only while a segment is being reserved, or while more than a segment's worth waits to
    /// be written.
    pub fn enqueue(&self, record: &dyn Record) -> Result<Position, AppendError> {
        self.shared.enqueue(record).map(|(_, enqueued)| enqueued.position)
    }

    /// The second half of [`append`](Self::append): returns once the record that ends at `position`
    /// is as durable as the sync mode guarantees.
    pub fn wait(&self, position: Position) -> Result<(), AppendError> {
        self.shared.wait(self.shared.state.lock(), position)
    }

    /// Makes everything appended so far durable, whatever the sync mode.
    pub fn sync(&self) -> Result<(), AppendError> {
        let state = self.shared.state.lock();
        let end = state.end();
        self.shared.sync_upto(state, end).map(drop)
    }

    /// Has the background sync everything appended so far, and returns at once. Does nothing
    /// without it, or when every append is synced.
    pub fn begin_sync(&self) {
        let mut state = self.shared.state.lock();
        if state.synced < state.end() {
            state.sync_wanted = true;
            self.shared.work.notify_all();
        }
    }

    /// Behind the last record. Records appended from now on end behind it; taken while no append is
    /// under way, it divides the records of one memtable from those of the next.
    pub fn position(&self) -> Position {
        self.shared.state.lock().end()
    }

    /// [`position`](Self::position), unless the log has failed: then the effect of its last records
    /// may be in no memtable, although replay may find them.
    pub fn usable_position(&self) -> Option<Position> {
        let state = self.shared.state.lock();
        state.failure.is_none().then(|| state.end())
    }

    /// Ends the log as a failed sync does: it takes no more records until it is opened again.
    pub fn fail(&self, error: io::Error) {
        self.shared.state.lock().fail(error);
        self.shared.work.notify_all();
        self.shared.advanced.notify_all();
    }

    /// The records of `table` ending in (`from`, `upto`] are durable in SSTables. Segments that no
    /// table needs any more are removed, durably, by the background thread if there is one; a
    /// failure to do so is logged and tried again the next time.
    pub fn mark_clean(&self, table: u128, from: Position, upto: Position) {
        let mut state = self.shared.state.lock();
        if from < upto {
            for (id, tracked) in state.segments.range_mut(from.segment..=upto.segment) {
                let first = if *id == from.segment { from.offset } else { 0 };
                let last = if *id == upto.segment { upto.offset } else { u32::MAX };
                tracked.dirty.mark_clean(table, first, last);
            }
        }
        drop(state);
        self.shared.let_clean_segments_go();
    }

    /// No record of `table` is wanted any more: it has been dropped.
    pub fn forget_table(&self, table: u128) {
        self.shared.state.lock().segments.values_mut().for_each(|tracked| tracked.dirty.forget(table));
        self.shared.let_clean_segments_go();
    }

    /// The tables to flush so that the log comes back within `total_space`: those that hold on to
    /// the oldest segments. Empty while it is within. The active segment never goes.
    pub fn tables_to_flush(&self) -> Vec<u128> {
        let state = self.shared.state.lock();
        let mut excess = state.total_size().saturating_sub(self.shared.options.total_space);
        let mut tables = BTreeSet::new();
        for (id, tracked) in &state.segments {
            if excess == 0 || Some(*id) == state.active_id() {
                break;
            }
            tables.extend(tracked.dirty.dirty());
            excess = excess.saturating_sub(tracked.size);
        }
        tables.into_iter().collect()
    }

    /// The tables that hold on to the oldest segment, if they are not just in the active one.
    pub fn oldest_dirty_tables(&self) -> Vec<u128> {
        let state = self.shared.state.lock();
        let oldest = state.segments.iter().find(|(_, tracked)| !tracked.dirty.is_clean());
        match oldest {
            Some((id, tracked)) if Some(*id) != state.active_id() => tracked.dirty.dirty().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the id of the oldest segment that exists.
    pub fn oldest_segment(&self) -> Option<u64> {
        self.shared.state.lock().segments.keys().next().copied()
    }

    /// Numbers for people and metrics.
    pub fn stats(&self) -> CommitLogStats {
        let state = self.shared.state.lock();
        CommitLogStats {
            segments: state.segments.len(),
            total_size: state.total_size(),
            end: state.end(),
            synced: state.synced,
        }
    }

    /// Latency of syncs.
    pub fn sync_latency(&self) -> &Histogram {
        &self.shared.sync_latency
    }

    /// The error that has ended the log, if one has.
    pub fn failure(&self) -> Option<Arc<io::Error>> {
        self.shared.state.lock().failure.clone()
    }

    /// Finishes the log: makes everything durable, gives reserved space back, and removes the
    /// segments that no table needs. Appends fail from here on.
    pub fn close(mut self) -> Result<(), AppendError> {
        self.background.stop(&self.shared);
        let mut state = self.shared.state.lock();
        state.check_usable()?;
        state.closed = true;
        state.seal();
        let end = state.end();
        let mut state = self.shared.sync_upto(state, end)?;
        let spare = state.spare.take();
        drop(state);
        if let Some(spare) = spare
            && let Err(error) = self.shared.discard(&spare.path)
        {
            tracing::warn!(%error, "an unused commit log segment stays behind until the next start");
        }
        self.shared.remove_clean_segments();
        Ok(())
    }
}

impl Drop for CommitLog {
    fn drop(&mut self) {
        self.background.stop(&self.shared);
    }
}
