//! Writing records to files: encoding, writing and syncing.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cassette_rows::interrupt::{self, Interrupted};
use cassette_vfs::{Clock, FileSystem};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::archive::Archive;
use super::cdc::{Captured, CdcDirectory, CdcIndex, Linking};
use super::chunk::{Chunk, SegmentFile};
use super::format::{DetachedEntry, Event};
use super::progress::{Progress, Seen};
use super::state::{Place, State};
use super::sync_waiters;
use super::{AppendError, CommitLogOptions, Position, Record, SyncMode};
use crate::metrics::Histogram;

/// The state shared by appenders and background threads.
pub(super) struct Shared {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) directory: PathBuf,
    pub(super) options: CommitLogOptions,
    pub(super) cdc: Option<CdcDirectory>,
    pub(super) archive: Option<Archive>,
    /// The append lock.
    pub(super) state: Mutex<State>,
    /// Signaled when something has been written, synced, reserved, refused, or has failed.
    /// Appenders that wait for a sync are woken one by one instead.
    pub(super) advanced: Condvar,
    /// The part of the progress that appenders poll without the append lock.
    pub(super) progress: Progress,
    /// Signaled when the background threads have work.
    pub(super) work: Condvar,
    /// Latency of syncs, including failed ones.
    pub(super) sync_latency: Histogram,
    /// Whether an appender waits for the segment that the background thread reserves.
    pub(super) segment_awaited: AtomicBool,
    /// Bytes that the background thread has populated.
    #[cfg(test)]
    pub(super) populated: std::sync::atomic::AtomicU64,
}

pub(super) type Locked<'a> = MutexGuard<'a, State>;

/// A record with its position.
pub(super) struct Enqueued {
    /// The end of the record.
    pub(super) position: Position,
    /// Its number.
    number: u64,
}

impl Shared {
    /// Logs a record, and returns its end once it is as durable as the sync mode guarantees.
    pub(super) fn append(&self, record: &dyn Record) -> Result<Position, AppendError> {
        let (mut state, Enqueued { position, number }) = self.enqueue(record)?;
        // In the other modes, syncs dominate the time.
        while state.writing && matches!(self.options.sync, SyncMode::Periodic { .. }) {
            drop(state);
            let seen = self.progress.wait_a_little(number);
            if seen == Seen::Acknowledged {
                return Ok(position);
            }
            state = self.state.lock();
            if seen == Seen::Busy {
                break;
            }
        }
        self.wait(state, position)?;
        Ok(position)
    }

    /// Logs a record, and returns its end. It is written before all later records.
    pub(super) fn append_ahead(&self, record: &dyn Record) -> Result<Position, AppendError> {
        let (mut state, Enqueued { position, number }) = self.enqueue(record)?;
        state.ahead = number;
        Ok(position)
    }

    pub(super) fn enqueue(&self, record: &dyn Record) -> Result<(Locked<'_>, Enqueued), AppendError> {
        let size = record.size_hint();
        let is_large = size >= self.options.large_record_size();
        let mut detached = is_large.then(|| {
            let encrypted = self.options.encrypts();
            DetachedEntry::encode(record.tables().len(), size, encrypted, |out| record.encode(out))
        });
        let mut state = self.state.lock();
        let mut grown = false;
        let enqueued = loop {
            state.check_usable()?;
            if state.pending_bytes() > self.options.segment_size as usize {
                state = self.write_or_wait(state);
                continue;
            }
            // Under the lock, so that the times are in the order of the records.
            let now = self.archive.as_ref().map(|_| self.clock.now_micros());
            match state.enqueue(record, &mut detached, now, &self.options)? {
                Place::At(position) => break Enqueued { position, number: state.enqueued },
                Place::NeedsSegment(size) => {
                    state = self.next_segment(state, size)?;
                    grown = true;
                }
                Place::NeedsLink => state = self.link_active(state)?,
            }
        };
        // A large record announces others, unless it is the first one: in an empty directory that
        // is the schema.
        let announces_others = is_large && enqueued.number > 1;
        state.has_large_records |= announces_others;
        let half_full = state.active_end() > self.options.segment_size / 2;
        if self.options.threads && (half_full || announces_others) && state.spare.is_none() {
            self.want_spare(&mut state);
        }
        if grown
            && state.total_size() > self.options.total_space
            && let Some(exceeded) = &self.options.on_space_exceeded
        {
            MutexGuard::unlocked(&mut state, || exceeded());
        }
        Ok((state, enqueued))
    }

    /// Requests a segment from the background thread, unless one is being reserved.
    fn want_spare(&self, state: &mut State) {
        if !state.creating && !state.spare_wanted {
            state.spare_wanted = true;
            self.work.notify_all();
        }
    }

    /// See [`CommitLog::await_room`](super::CommitLog::await_room).
    pub(super) fn await_room(&self, bytes: usize) -> Result<(), Interrupted> {
        if !self.options.threads || bytes < self.options.large_record_size() {
            return Ok(());
        }
        let mut state = self.state.lock();
        // Little waits behind the first record after a start. In an empty directory it is the
        // schema, and the sync that follows would write the zeros to the disk.
        state.has_large_records |= state.active_id().is_some();
        let mut is_asked = false;
        while state.check_usable().is_ok() && !state.stopping && !state.has_room(bytes, &self.options) {
            if !state.creating && !state.spare_wanted {
                if std::mem::replace(&mut is_asked, true) {
                    // The reservation failed. The appender tries again, and returns the error.
                    return Ok(());
                }
                self.want_spare(&mut state);
            }
            let wait = interrupt::check_before_wait()?;
            self.advanced.wait_for(&mut state, wait);
        }
        Ok(())
    }

    /// See [`CommitLog::would_await_room`](super::CommitLog::would_await_room).
    pub(super) fn would_await_room(&self, bytes: usize) -> bool {
        self.options.threads
            && bytes >= self.options.large_record_size()
            && !self.state.lock().has_room(bytes, &self.options)
    }

    /// Waits until the record that ends at `position` is as durable as the sync mode guarantees,
    /// and does the work that no other thread does.
    pub(super) fn wait(&self, mut state: Locked<'_>, position: Position) -> Result<(), AppendError> {
        loop {
            if let Some(refused) = state.refusal(position) {
                return Err(refused);
            }
            if state.synced >= position {
                return Ok(());
            }
            let written = state.written >= position;
            if written && matches!(self.options.sync, SyncMode::Periodic { .. }) && !self.sync_is_late(&state)
            {
                return Ok(());
            }
            if let Some(source) = &state.failure {
                return Err(AppendError::Failed { source: source.clone() });
            }
            state = match self.options.sync {
                // The background thread writes what it syncs.
                SyncMode::Group { .. } if self.options.threads => sync_waiters::wait(state, position),
                SyncMode::Group { .. } | SyncMode::Batch if state.syncing => {
                    sync_waiters::wait(state, position)
                }
                _ if !written => self.write_or_wait(state),
                SyncMode::Periodic { .. } if self.options.threads => self.waited(state),
                _ => self.sync_or_wait(state),
            };
        }
    }

    /// Announces progress of syncs to all threads that wait for it.
    fn announce_sync(&self, state: &mut State) {
        self.advanced.notify_all();
        let synced = state.synced;
        state.sync_waiters.wake_upto(synced);
        let background_syncs = self.options.threads && self.sync_interval().is_some();
        if !state.syncing && !background_syncs {
            state.sync_waiters.wake_one();
        }
    }

    /// Cassandra's `periodic_commitlog_sync_lag_block`: a sync that is half a period late stalls
    /// appends.
    fn sync_is_late(&self, state: &State) -> bool {
        let (SyncMode::Periodic { period }, Some(since)) = (self.options.sync, state.unsynced_since) else {
            return false;
        };
        self.clock.monotonic().saturating_sub(since) > period + period / 2
    }

    pub(super) fn waited<'a>(&self, mut state: Locked<'a>) -> Locked<'a> {
        self.advanced.wait(&mut state);
        state
    }

    /// Writes pending records, or waits for the current writer.
    fn write_or_wait<'a>(&self, state: Locked<'a>) -> Locked<'a> {
        if state.writing { self.waited(state) } else { self.write(state) }
    }

    /// Syncs written records, or waits for the thread that is syncing.
    fn sync_or_wait<'a>(&self, state: Locked<'a>) -> Locked<'a> {
        if state.syncing { self.waited(state) } else { self.sync_written(state) }
    }

    /// Makes everything up to `upto` durable.
    pub(super) fn sync_upto<'a>(
        &self,
        mut state: Locked<'a>,
        upto: Position,
    ) -> Result<Locked<'a>, AppendError> {
        while state.synced < upto {
            if let Some(source) = &state.failure {
                return Err(AppendError::Failed { source: source.clone() });
            }
            state = if state.written < upto { self.write_or_wait(state) } else { self.sync_or_wait(state) };
        }
        Ok(state)
    }

    /// Makes everything up to the present end durable, and the captured part of it readable.
    /// Returns the end, and that of the last captured record.
    pub(super) fn sync_captured(&self) -> Result<(Position, Position), AppendError> {
        let mut state = self.state.lock();
        let (end, captured) = (state.end(), state.captured_end());
        loop {
            state = self.sync_upto(state, end)?;
            // Another thread's sync counts before that thread has written the indexes.
            if state.syncing {
                self.advanced.wait(&mut state);
                continue;
            }
            if !state.has_unpublished() {
                // Less, if records have been refused meanwhile.
                return Ok((end, captured.min(state.captured_end())));
            }
            state.syncing = true;
            let is_published = self.publish_captured(&mut state);
            state.syncing = false;
            self.announce_sync(&mut state);
            if !is_published {
                let source = io::Error::other("an index of change data capture could not be written");
                return Err(AppendError::Refused { source: Arc::new(source) });
            }
            // There may be changes again, which were logged meanwhile.
            return Ok((end, captured.min(state.captured_end())));
        }
    }

    /// Runs `work` without the append lock. A panic ends the log before it is resumed: other
    /// threads wait for the flag that `release` clears, and the effect of `work` is unknown.
    pub(super) fn unlocked<T>(
        &self,
        state: &mut Locked<'_>,
        doing: &str,
        release: impl FnOnce(&mut State),
        work: impl FnOnce() -> T,
    ) -> T {
        catch_unwind(AssertUnwindSafe(|| MutexGuard::unlocked(state, work))).unwrap_or_else(|panic| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("without a name");
            state.fail(io::Error::other(format!("thread {name} panicked while {doing}")));
            release(state);
            self.work.notify_all();
            self.advanced.notify_all();
            resume_unwind(panic)
        })
    }

    /// Writes all pending records. No other thread is writing.
    fn write<'a>(&self, mut state: Locked<'a>) -> Locked<'a> {
        state.writing = true;
        self.progress.begin();
        let mut chunks = state.take_pending();
        let (upto, last) = (state.end(), state.enqueued);
        let mut acknowledged = None;
        let not_writing = |state: &mut State| {
            state.writing = false;
            self.progress.end(None);
        };
        let written = self.unlocked(&mut state, "writing", not_writing, || {
            chunks.iter_mut().for_each(Chunk::seal);
            write_chunks(&chunks)
        });
        match written {
            Ok(()) => {
                for chunk in &chunks {
                    state.mark_unsynced(chunk.file.id);
                }
                state.recycle(chunks);
                state.written = upto;
                state.written_records = last;
                acknowledged = Some(last);
            }
            Err((failed, error)) if is_no_space(&error) => {
                self.refuse(&mut state, chunks, failed, error);
            }
            Err((_, error)) => state.fail(error),
        }
        if state.unsynced_since.is_none() {
            state.unsynced_since = Some(self.clock.monotonic());
        }
        state.writing = false;
        let is_late = state.failure.is_some() || self.sync_is_late(&state);
        self.progress.end(acknowledged.filter(|_| !is_late));
        self.advanced.notify_all();
        state
    }

    /// Handles a lack of space for `chunks[failed]`. Refuses its records and all later ones: the
    /// segments are truncated after the last complete record, so that replay takes that for their
    /// end, and are not written again. If no thread waits for one of the records, the log ends:
    /// later records must not exist without it.
    fn refuse(&self, state: &mut Locked<'_>, chunks: Vec<Chunk>, failed: usize, error: io::Error) {
        let after = chunks[failed].position();
        tracing::warn!(%error, %after, "no space for the commit log: records refused");
        let untold = (state.ahead > state.written_records).then(|| {
            let text = format!("no space for a record that another one was to follow: {error}");
            io::Error::new(error.kind(), text)
        });
        state.refuse(after, Arc::new(error));
        self.progress.refuse(state.enqueued);
        let upto = state.end();
        // Records encoded during the write are refused, too: there must be no gap before a record.
        let later = state.take_pending();
        let files: Vec<Arc<SegmentFile>> =
            chunks.iter().chain(&later).map(|chunk| chunk.file.clone()).collect();
        let not_writing = |state: &mut State| {
            state.writing = false;
            self.progress.end(None);
        };
        let cut = self.unlocked(state, "cutting off a segment", not_writing, || {
            files.iter().try_for_each(|file| {
                let mut writer = file.writer.lock();
                let length = writer.len();
                writer.truncate(length)
            })
        });
        for file in files {
            state.mark_unsynced(file.id);
        }
        state.written = upto;
        state.written_records = state.enqueued;
        if let Some(error) = cut.err().or(untold) {
            state.fail(error);
        }
    }

    /// Makes everything written durable. No other thread is syncing.
    pub(super) fn sync_written<'a>(&self, mut state: Locked<'a>) -> Locked<'a> {
        state.syncing = true;
        let upto = state.written;
        let began = self.clock.monotonic();
        let files = state.take_unsynced();
        // In order: a sync mark covers everything before it.
        let not_syncing = |state: &mut State| state.syncing = false;
        let synced = self
            .unlocked(&mut state, "syncing", not_syncing, || files.iter().try_for_each(|file| file.sync()));
        if !files.is_empty() {
            self.sync_latency.record_latency(self.clock.monotonic().saturating_sub(began));
        }
        match synced {
            Ok(()) => {
                state.set_synced(upto);
                state.unsynced_since = (state.written > upto).then_some(began);
            }
            Err(error) => state.fail(error),
        }
        if state.failure.is_none() {
            self.publish_captured(&mut state);
        }
        state.syncing = false;
        self.announce_sync(&mut state);
        state
    }

    /// Links the active segment for change data capture, if there is space by now.
    fn link_active<'a>(&self, mut state: Locked<'a>) -> Result<Locked<'a>, AppendError> {
        let (Some(cdc), Some((id, path, size))) = (&self.cdc, state.active_file()) else { return Ok(state) };
        let linked = self.unlocked(&mut state, "linking a segment", |_| {}, || cdc.link(&path, size));
        match linked {
            Ok(Linking::Done) => state.set_linked(id),
            Ok(Linking::NoSpace(used)) => {
                return Err(AppendError::CdcFull { directory: cdc.options.directory.clone(), used });
            }
            // It was removed meanwhile.
            Err(_) if state.active_id() != Some(id) => {}
            Err(error) => return Err(AppendError::Refused { source: Arc::new(error) }),
        }
        Ok(state)
    }

    /// Writes the indexes of captured segments after a sync. `syncing` is set, so that they are
    /// written in order. Returns whether everything that was due has been written.
    fn publish_captured(&self, state: &mut Locked<'_>) -> bool {
        let Some(cdc) = &self.cdc else { return true };
        let due = state.take_unpublished();
        if due.is_empty() {
            return true;
        }
        self.announce_sync(state);
        let not_syncing = |state: &mut State| state.syncing = false;
        let published = self.unlocked(state, "writing an index of change data capture", not_syncing, || {
            due.iter().try_for_each(|(_, path, index)| cdc.publish(path, *index, false))
        });
        let Err(error) = published else { return true };
        tracing::warn!(%error, "captured changes are not readable yet: an index could not be written");
        for (id, _, _) in &due {
            if let Some(tracked) = state.segments.get_mut(id) {
                tracked.captured = Captured::Some(CdcIndex::default());
            }
        }
        false
    }

    /// Logs an event durably. No-op if the log is not archived.
    pub(super) fn append_event(&self, event: &Event) -> Result<(), AppendError> {
        if self.archive.is_none() {
            return Ok(());
        }
        let mut state = self.state.lock();
        let end = loop {
            state.check_usable()?;
            match state.enqueue_event(event, self.clock.now_micros(), &self.options) {
                Place::At(position) => break position,
                Place::NeedsSegment(size) => state = self.next_segment(state, size)?,
                Place::NeedsLink => state = self.link_active(state)?,
            }
        };
        let state = self.sync_upto(state, end)?;
        // It has been refused if there was no space to write it.
        state.refusal(end).map_or(Ok(()), Err)
    }

    /// Returns the interval between background syncs; `None` if the background thread does not
    /// sync.
    pub(super) fn sync_interval(&self) -> Option<Duration> {
        match self.options.sync {
            SyncMode::Periodic { period } => Some(period),
            SyncMode::Group { window } => Some(window),
            SyncMode::Batch => None,
        }
    }
}

fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Writes the chunks in order; an error contains the index of the failed one.
fn write_chunks(chunks: &[Chunk]) -> Result<(), (usize, io::Error)> {
    for (number, chunk) in chunks.iter().enumerate() {
        chunk.file.writer.lock().write_all(chunk.bytes()).map_err(|error| (number, error))?;
    }
    Ok(())
}
