//! An open commit log: appends, syncs, and removal of segments.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cassette_rows::Interrupted;
use cassette_vfs::{Clock, FileSystem};
use parking_lot::{Condvar, Mutex};

use super::archive::Archive;
use super::background::Background;
use super::cdc::{CapturedStats, CdcDirectory};
use super::chain::Chain;
use super::format::Event;
use super::progress::Progress;
use super::replay::{self, Access, Entry, HandlerError, ReplaySummary};
use super::shared::Shared;
use super::state::State;
use super::{AppendError, CapturePoint, CommitLogOptions, OpenError, Position, Record};
use crate::metrics::Histogram;

/// A commit log that is open for appending. See the [module's documentation](super) for its
/// guarantees.
///
/// Dropping it is equivalent to killing the process: everything that its mode acknowledged
/// survives. [`close`](Self::close) does more.
pub struct CommitLog {
    shared: Arc<Shared>,
    /// Stopped and joined on drop.
    background: Background,
}

/// Statistics of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitLogStats {
    /// The number of segments with records.
    pub segments: usize,
    /// Their bytes on disk, including reserved ones.
    pub total_size: u64,
    /// The end of the last record, whether or not it has been written.
    pub end: Position,
    /// Records up to here are durable.
    pub synced: Position,
}

impl CommitLog {
    /// Opens the log in `directory`, which is created if missing. The caller must hold a lock that
    /// makes it the only user of the directory. Every record is passed to `replay` in the order of
    /// appending, in each segment after the dictionaries that it needs. Then torn tails are
    /// cleared, and segments without entries are removed. The tables of replayed entries are dirty
    /// until [`mark_clean`](Self::mark_clean).
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
        let cdc = CdcDirectory::of(&fs, &clock, options.cdc.as_ref(), directory)?;
        let access = Access { encryption: options.encryption.as_deref(), cdc: cdc.as_ref() };
        let replayed = replay::replay(fs.as_ref(), directory, options.replay, access, replay)?;
        let io_error = |source| OpenError::Io { directory: directory.to_owned(), source };
        if !options.captures() {
            Chain::end(fs.as_ref(), directory).map_err(io_error)?;
        }
        let archive = Archive::of(&fs, directory, options.archive).map_err(io_error)?;
        let millis = u64::try_from(clock.now_micros() / 1000).unwrap_or(0);
        // Ids must never repeat, although all segments may have been removed: the clock, as in
        // Cassandra, and the ids known to the caller.
        let last_captured = cdc.as_ref().and_then(|cdc| cdc.chain()?.1);
        let last_id = replayed.last_id.max(last_captured.unwrap_or(0));
        let next_id = last_id.saturating_add(1).max(millis).max(options.first_segment_id);
        // All of the last captured segment: nothing will be appended to it.
        let captured_end = last_captured
            .map_or(Position::ZERO, |segment| Position { segment, offset: Position::END_OF_SEGMENT });
        let state = State::new(replayed.segments, replayed.end, captured_end, next_id);
        let shared = Arc::new(Shared {
            fs,
            clock,
            directory: directory.to_owned(),
            options,
            cdc,
            archive,
            state: Mutex::new(state),
            progress: Progress::default(),
            advanced: Condvar::new(),
            work: Condvar::new(),
            sync_latency: Histogram::of_latencies(),
            segment_awaited: AtomicBool::new(false),
            #[cfg(test)]
            populated: Default::default(),
        });
        let background = Background::start(&shared).map_err(io_error)?;
        shared.remove_clean_segments();
        Ok((CommitLog { shared, background }, replayed.summary))
    }

    /// Logs a record and returns its end, once it is as durable as the sync mode guarantees.
    pub fn append(&self, record: &dyn Record) -> Result<Position, AppendError> {
        self.shared.append(record)
    }

    /// Logs a record that is durable as soon as a later acknowledged record is. Does not wait for
    /// the file. If there is no space to write it, no caller can be notified, so the log ends as
    /// after any other failure.
    pub fn append_ahead(&self, record: &dyn Record) -> Result<Position, AppendError> {
        self.shared.append_ahead(record)
    }

    /// Waits until a large record of about `bytes` can be appended without making other appenders
    /// wait for the next segment. Must be called before taking locks that other appenders need.
    /// Returns immediately for small records, and if the log has ended: [`append`](Self::append)
    /// returns the error.
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

    /// Returns the bytes that have been populated for large records.
    #[cfg(test)]
    pub(super) fn populated(&self) -> u64 {
        self.shared.populated.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns how often an appender was woken that waited for a sync.
    #[cfg(test)]
    pub(super) fn woken(&self) -> u64 {
        self.shared.state.lock().sync_waiters.woken
    }

    /// Whether a large record of about `bytes` can be appended now.
    #[cfg(test)]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.shared.state.lock().has_room(bytes, &self.shared.options)
    }

    /// The first half of [`append`](Self::append): assigns the record its position, without a
    /// durability guarantee. Blocks only while a segment is being reserved, or while more than a
    /// segment's size waits to be written.
    pub fn enqueue(&self, record: &dyn Record) -> Result<Position, AppendError> {
        self.shared.enqueue(record).map(|(_, enqueued)| enqueued.position)
    }

    /// The second half of [`append`](Self::append): returns once the record that ends at `position`
    /// is as durable as the sync mode guarantees.
    pub fn wait(&self, position: Position) -> Result<(), AppendError> {
        self.shared.wait(self.shared.state.lock(), position)
    }

    /// Makes all records so far durable, in any sync mode.
    pub fn sync(&self) -> Result<(), AppendError> {
        let state = self.shared.state.lock();
        let end = state.end();
        self.shared.sync_upto(state, end).map(drop)
    }

    /// Logs an event durably, for readers of archived segments. No-op if the log is not archived.
    pub fn append_event(&self, event: &Event) -> Result<(), AppendError> {
        self.shared.append_event(event)
    }

    /// Makes all records so far durable and available in the archive: finishes the active segment,
    /// and links all finished ones. No-op if the log is not archived.
    pub fn finish_and_archive(&self) -> Result<(), AppendError> {
        self.shared.finish_and_archive()
    }

    /// Returns the number of the archived chain of segments, and a position in it that all records
    /// so far precede or end at; `None` unless the log is archived.
    pub fn archive_position(&self) -> Option<(u128, Position)> {
        let archive = self.shared.archive.as_ref()?;
        Some((archive.chain, self.shared.state.lock().archive_position()))
    }

    /// Returns a position for an event, which all records so far precede or end at. It is
    /// determined as those of backups are, so that an event after a backup does not precede it.
    pub fn event_position(&self) -> Position {
        self.shared.state.lock().archive_position()
    }

    /// Makes all records so far durable, and captured ones readable. `None` if change data capture
    /// is disabled.
    pub fn sync_captured(&self) -> Result<Option<CapturePoint>, AppendError> {
        if !self.shared.options.captures() {
            return Ok(None);
        }
        let Some((chain, _)) = self.shared.cdc.as_ref().and_then(CdcDirectory::chain) else {
            return Ok(None);
        };
        let (end, captured) = self.shared.sync_captured()?;
        Ok(Some(CapturePoint { end: end.max(captured), captured, chain }))
    }

    /// Returns what is captured and has not been removed; `None` if change data capture is
    /// disabled.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn captured(&self) -> io::Result<Option<CapturedStats>> {
        let cdc = self.shared.cdc.as_ref().filter(|_| self.shared.options.captures());
        cdc.map(CdcDirectory::stats).transpose()
    }

    /// Requests a sync of all records so far from the background thread, without waiting. No-op
    /// without background threads, and if every append is synced.
    pub fn begin_sync(&self) {
        let mut state = self.shared.state.lock();
        if state.synced < state.end() {
            state.sync_wanted = true;
            self.shared.work.notify_all();
        }
    }

    /// Returns the end of the last record. Later records end after it. If no append is in progress,
    /// it separates the records of one memtable from those of the next.
    pub fn position(&self) -> Position {
        self.shared.state.lock().end()
    }

    /// Returns [`position`](Self::position), unless the log has failed: then its last records may
    /// be in no memtable, although replay may find them.
    pub fn usable_position(&self) -> Option<Position> {
        let state = self.shared.state.lock();
        state.failure.is_none().then(|| state.end())
    }

    /// Ends the log like a failed sync: it accepts no records until it is opened again.
    pub fn fail(&self, error: io::Error) {
        self.shared.state.lock().fail(error);
        self.shared.work.notify_all();
        self.shared.advanced.notify_all();
    }

    /// Records that SSTables durably contain the records of `table` ending in (`from`, `upto`].
    /// Segments that no table needs are durably removed, by the background thread if there is one.
    /// A failed removal is logged and retried next time.
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
        self.shared.request_removal();
    }

    /// Marks all records of `table` as not needed: it has been dropped.
    pub fn forget_table(&self, table: u128) {
        self.shared.state.lock().segments.values_mut().for_each(|tracked| tracked.dirty.forget(table));
        self.shared.request_removal();
    }

    /// Returns the tables to flush so that the log shrinks to `total_space`: those that need the
    /// oldest segments. Empty if the log is within it. The active segment is never removed.
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

    /// Returns the tables that need the oldest segment, unless it is the active one.
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

    /// Returns statistics of the log.
    pub fn stats(&self) -> CommitLogStats {
        let state = self.shared.state.lock();
        CommitLogStats {
            segments: state.segments.len(),
            total_size: state.total_size(),
            end: state.end(),
            synced: state.synced,
        }
    }

    /// Returns the latency of syncs.
    pub fn sync_latency(&self) -> &Histogram {
        &self.shared.sync_latency
    }

    /// Returns the error that ended the log, if one has.
    pub fn failure(&self) -> Option<Arc<io::Error>> {
        self.shared.state.lock().failure.clone()
    }

    /// Finishes the log: makes all records durable, releases reserved space, and removes the
    /// segments that no table needs. Later appends fail.
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
