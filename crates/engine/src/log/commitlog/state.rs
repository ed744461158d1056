//! The state that the append lock protects. Nothing here does I/O.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cassette_vfs::SyncHandle;
use hashbrown::HashMap;

use super::cdc::{self, Captured, CdcIndex};
use super::chunk::{BUFFER_KEPT, Chunk, SegmentFile};
use super::dirty::DirtyTables;
use super::format::{
    DetachedEntry, ENCRYPTION_LEN_MAX, END_LEN, EVENT_LEN, Encoder, Event, HEADER_LEN, SYNC_MARK_LEN,
    TIME_LEN,
};
use super::sync_waiters::SyncWaiters;
use super::tracked::{Clean, Tracked};
use super::{AppendError, CommitLogOptions, Position, Record, TableVersion};

/// The segment that records are appended to.
struct Active {
    file: Arc<SegmentFile>,
    /// The offset of the next record.
    end: u32,
    /// The tables defined in this segment so far, by index.
    dictionary: HashMap<TableVersion, u16>,
    /// The last time in this segment, microseconds since 1970.
    time: Option<i64>,
}

/// The resolution of times in archived segments, microseconds.
const TIME_RESOLUTION: i64 = 1000;

/// Whether the clock has moved, in either direction, since the last time in the segment.
fn is_due(last: Option<i64>, now: i64) -> bool {
    last.is_none_or(|last| last.div_euclid(TIME_RESOLUTION) != now.div_euclid(TIME_RESOLUTION))
}

/// Positions (`after`, `upto`] were never acknowledged, and their bytes were removed.
struct Refusal {
    after: Position,
    upto: Position,
    source: Arc<io::Error>,
}

/// The number of refusals kept for appenders that have not checked yet; many more than there are
/// threads.
const REFUSALS_KEPT: usize = 4096;

/// The result of encoding a record.
pub(super) enum Place {
    /// The end of the record.
    At(Position),
    /// The active segment has no space for it, or there is none: one of at least this size is
    /// needed.
    NeedsSegment(u32),
    /// It has changes of captured tables, and the active segment is not linked.
    NeedsLink,
}

/// What the append lock guards.
pub(super) struct State {
    active: Option<Active>,
    /// A reserved segment, which becomes active next.
    pub(super) spare: Option<SegmentFile>,
    /// Whether a thread is reserving a segment.
    pub(super) creating: bool,
    /// Whether a reservation is requested from the background thread.
    pub(super) spare_wanted: bool,
    /// Whether large records were appended since the last segment was reserved.
    pub(super) has_large_records: bool,
    /// Whether the removal of segments is requested from the background thread.
    pub(super) removal_wanted: bool,
    pub(super) next_id: u64,

    pending: Vec<Chunk>,
    buffer: Vec<u8>,
    /// The dictionary indexes of the tables of the record that is being encoded.
    indexes: Vec<u16>,
    /// The end of the last encoded record.
    end: Position,
    /// The end of the last captured record that was not refused, or of the segment that it is in.
    captured_end: Position,
    /// That of the segments that have left the log, which consumers may not have read.
    captured_removed: Position,
    /// The number of records encoded since the log was opened, which is the last one's number.
    pub(super) enqueued: u64,
    /// The number of the last record that no thread waits for.
    pub(super) ahead: u64,
    /// The number of the last record that has been written, or refused.
    pub(super) written_records: u64,
    /// Everything up to here has been written, or refused.
    pub(super) written: Position,
    /// Everything up to here is durable, or refused.
    pub(super) synced: Position,
    /// The last sync mark written.
    marked: Position,
    /// Whether a thread is writing, or syncing.
    pub(super) writing: bool,
    pub(super) syncing: bool,
    /// Appenders that wait for a sync. While there are any, a thread is syncing, the background
    /// thread will, or one of them was woken for it.
    pub(super) sync_waiters: SyncWaiters,
    /// Whether a sync is requested before it is due.
    pub(super) sync_wanted: bool,
    /// The monotonic time since which data has been unsynced.
    pub(super) unsynced_since: Option<Duration>,

    refusals: Vec<Refusal>,
    pub(super) failure: Option<Arc<io::Error>>,
    pub(super) closed: bool,
    /// Whether the background threads must end.
    pub(super) stopping: bool,

    /// Every segment with records, by id, including the active one.
    pub(super) segments: BTreeMap<u64, Tracked>,
}

impl State {
    /// Returns the state of a log that continues after `segments`, which are durable up to
    /// `synced`.
    pub(super) fn new(
        segments: BTreeMap<u64, Tracked>,
        synced: Position,
        captured_end: Position,
        next_id: u64,
    ) -> Self {
        Self {
            active: None,
            spare: None,
            creating: false,
            spare_wanted: false,
            has_large_records: false,
            removal_wanted: false,
            next_id,
            pending: Vec::new(),
            buffer: Vec::new(),
            indexes: Vec::new(),
            end: synced,
            captured_end,
            captured_removed: captured_end,
            enqueued: 0,
            ahead: 0,
            written_records: 0,
            written: synced,
            synced,
            marked: Position::ZERO,
            writing: false,
            syncing: false,
            sync_waiters: SyncWaiters::default(),
            sync_wanted: false,
            unsynced_since: None,
            refusals: Vec::new(),
            failure: None,
            closed: false,
            stopping: false,
            segments,
        }
    }

    /// Returns the end of the last encoded record.
    pub(super) fn end(&self) -> Position {
        self.end
    }

    /// Returns the end of the last captured record, or of the segment that it is in.
    pub(super) fn captured_end(&self) -> Position {
        self.captured_end
    }

    pub(super) fn active_id(&self) -> Option<u64> {
        self.active.as_ref().map(|active| active.file.id)
    }

    /// Returns the used bytes of the active segment; 0 without one.
    pub(super) fn active_end(&self) -> u32 {
        self.active.as_ref().map_or(0, |active| active.end)
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.iter().map(|chunk| chunk.committed).sum()
    }

    pub(super) fn check_usable(&self) -> Result<(), AppendError> {
        match &self.failure {
            Some(source) => Err(AppendError::Failed { source: source.clone() }),
            None if self.closed => Err(AppendError::Closed),
            None => Ok(()),
        }
    }

    /// Appends a record, if the active segment has space for it. An entry that is already encoded
    /// is taken from `detached` if it was appended. `now` is the time, microseconds since 1970, if
    /// the log is archived.
    pub(super) fn enqueue(
        &mut self,
        record: &dyn Record,
        detached: &mut Option<DetachedEntry>,
        now: Option<i64>,
        options: &CommitLogOptions,
    ) -> Result<Place, AppendError> {
        let synced = (self.synced > self.marked).then_some(self.synced);
        let Some(active) = &mut self.active else {
            return Ok(Place::NeedsSegment(options.segment_size));
        };
        let is_captured = options.captures() && record.is_captured();
        if is_captured && !self.segments.get(&active.file.id).is_some_and(Tracked::is_linked) {
            return Ok(Place::NeedsLink);
        }
        let chunk = chunk_of(&mut self.pending, &mut self.buffer, active);
        let mut encoder = chunk.encoder();
        let time = now.filter(|now| is_due(active.time, *now));
        mark(&mut encoder, synced, time);
        let known = active.dictionary.len();
        let mut defined = 0;
        self.indexes.clear();
        for table in record.tables() {
            let index = active.dictionary.get(table).copied().unwrap_or_else(|| {
                let index = (known + defined) as u16;
                encoder.dictionary(index, *table, |out| record.encode_dictionary(*table, out));
                defined += 1;
                index
            });
            self.indexes.push(index);
        }
        let fresh = active.end == active.file.first;
        if known + defined > usize::from(u16::MAX) && !fresh {
            return Ok(Place::NeedsSegment(options.segment_size));
        }
        let (size, apart) = match detached {
            Some(entry) => (entry.len(), entry.len()),
            None => (encoder.entry(self.indexes.iter().copied(), |out| record.encode(out)), 0),
        };

        let added = chunk.bytes.len() - chunk.committed + apart;
        let room = (active.file.size - END_LEN).saturating_sub(active.end) as usize;
        if size > options.record_size_max as usize || record.tables().len() > usize::from(u16::MAX) {
            chunk.give_up();
            return Err(too_large(size, options));
        }
        if added > room {
            chunk.give_up();
            let needed = segment_size_for(record, size, chunk, options);
            chunk.give_up();
            return needed.map(Place::NeedsSegment);
        }

        // From here on the record is in the log.
        chunk.committed = chunk.bytes.len();
        if let Some(entry) = detached.take() {
            let start = active.end + (added - apart) as u32;
            if chunk.committed == 0
                && let Some(unused) = self.pending.pop()
            {
                self.buffer = unused.bytes;
            }
            let bytes = entry.place(active.file.id, start, &self.indexes);
            let committed = bytes.len();
            self.pending.push(Chunk { file: active.file.clone(), start, bytes, committed, is_whole: true });
        }
        self.enqueued += 1;
        active.end += added as u32;
        self.marked = synced.unwrap_or(self.marked);
        active.time = time.or(active.time);
        self.end = Position { segment: active.file.id, offset: active.end };
        self.captured_end = if is_captured { self.end } else { self.captured_end };
        if defined > 0 {
            active.dictionary.extend(record.tables().iter().copied().zip(self.indexes.iter().copied()));
        }
        if let Some(tracked) = self.segments.get_mut(&active.file.id) {
            tracked.note(record.tables(), active.end, is_captured);
        }
        Ok(Place::At(self.end))
    }

    /// Appends an event, if the active segment has space for it.
    pub(super) fn enqueue_event(&mut self, event: &Event, now: i64, options: &CommitLogOptions) -> Place {
        let added = TIME_LEN + EVENT_LEN;
        let Some(active) = &mut self.active else { return Place::NeedsSegment(options.segment_size) };
        if active.end.saturating_add(added + END_LEN) > active.file.size {
            return Place::NeedsSegment(options.segment_size);
        }
        let chunk = chunk_of(&mut self.pending, &mut self.buffer, active);
        let mut encoder = chunk.encoder();
        encoder.time(now);
        encoder.event(event);
        chunk.committed = chunk.bytes.len();
        active.end += added;
        active.time = Some(now);
        self.end = Position { segment: active.file.id, offset: active.end };
        Place::At(self.end)
    }

    /// Finishes the active segment, unless it has no records.
    pub(super) fn seal_used(&mut self) {
        if self.active.as_ref().is_some_and(|active| active.end > active.file.first) {
            self.seal();
        }
    }

    /// Returns a position that all records so far precede or end at, and that all later ones end
    /// after. With an offset above 0, its segment has records and will be in the archive.
    ///
    /// After a finished segment it is not the end of that: the archive may have it already, and no
    /// backup may need it there.
    pub(super) fn archive_position(&self) -> Position {
        match &self.active {
            Some(active) if active.end > active.file.first => self.end,
            Some(active) => Position { segment: active.file.id, offset: 0 },
            // The segment that is reserved, or being reserved, has the id before the next one.
            None => {
                let is_reserved = self.creating || self.spare.is_some();
                Position { segment: self.next_id - u64::from(is_reserved), offset: 0 }
            }
        }
    }

    /// Returns the finished and durable segments that are not linked in the archive.
    pub(super) fn unarchived(&self) -> Vec<(u64, PathBuf)> {
        let is_durable = |id: u64, end: u32| self.synced >= Position { segment: id, offset: end };
        let due = self.segments.iter().filter(|(id, tracked)| {
            !tracked.archived && tracked.sealed.is_some_and(|end| is_durable(**id, end))
        });
        due.map(|(id, tracked)| (*id, tracked.path.clone())).collect()
    }

    /// Records that a segment is linked in the archive.
    pub(super) fn set_archived(&mut self, segment: u64) {
        if let Some(tracked) = self.segments.get_mut(&segment) {
            tracked.archived = true;
        }
    }

    /// Whether a large record, followed by small ones, can be appended without waiting for a
    /// segment to be reserved. True for a record larger than a segment: the one reserved ahead of
    /// time would be too small for it.
    pub(super) fn has_room(&self, bytes: usize, options: &CommitLogOptions) -> bool {
        let kept = (options.kept_for_small_records() + END_LEN) as usize;
        let is_in = |active: &Active| active.end as usize + bytes + kept <= active.file.size as usize;
        self.spare.is_some()
            || bytes > options.segment_size as usize
            || self.active.as_ref().is_some_and(is_in)
    }

    /// Finishes the active segment, if there is one.
    pub(super) fn seal(&mut self) {
        let Some(active) = self.active.take() else { return };
        let chunk = chunk_of(&mut self.pending, &mut self.buffer, &active);
        chunk.encoder().end();
        chunk.committed = chunk.bytes.len();
        self.end = Position { segment: active.file.id, offset: active.end + END_LEN };
        if let Some(tracked) = self.segments.get_mut(&active.file.id) {
            tracked.sealed = Some(self.end.offset);
        }
    }

    /// Makes `file`, whose header is durable and whose id is greater than all others, the active
    /// segment.
    pub(super) fn activate(&mut self, file: Arc<SegmentFile>) {
        self.seal();
        let tracked = Tracked {
            path: file.path.clone(),
            size: u64::from(file.size),
            dirty: DirtyTables::default(),
            syncer: Some(file.syncer.clone()),
            unsynced: false,
            going: false,
            sealed: None,
            captured: if file.linked { Captured::None } else { Captured::Unlinked },
            archived: false,
        };
        self.segments.insert(file.id, tracked);
        self.end = Position { segment: file.id, offset: file.first };
        self.active = Some(Active { end: file.first, file, dictionary: HashMap::new(), time: None });
    }

    /// Returns all chunks to write, up to [`end`](Self::end).
    pub(super) fn take_pending(&mut self) -> Vec<Chunk> {
        std::mem::take(&mut self.pending)
    }

    /// Keeps a written buffer for the next chunk.
    pub(super) fn recycle(&mut self, chunks: Vec<Chunk>) {
        if let Some(mut chunk) = chunks.into_iter().rfind(|chunk| !chunk.is_whole)
            && chunk.bytes.capacity() <= BUFFER_KEPT
            && chunk.bytes.capacity() > self.buffer.capacity()
        {
            chunk.bytes.clear();
            self.buffer = chunk.bytes;
        }
    }

    /// Forgets a segment that was removed from the log.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(Tracked { captured: Captured::Some(_), .. }) = self.segments.remove(&id) {
            let whole = Position { segment: id, offset: Position::END_OF_SEGMENT };
            self.captured_removed = self.captured_removed.max(whole);
        }
    }

    /// Refuses all records encoded after `after`, and abandons their segments. The caller writes
    /// none of them, and truncates the files.
    pub(super) fn refuse(&mut self, after: Position, source: Arc<io::Error>) {
        self.active = None;
        for (id, tracked) in self.segments.range_mut(after.segment..) {
            tracked.sealed = Some(after.offset);
            if *id > after.segment {
                // It has no records.
                tracked.sealed = Some(0);
                tracked.captured = if tracked.is_linked() { Captured::None } else { Captured::Unlinked };
            }
        }
        if self.captured_end > after {
            let mut earlier = self.segments.range(..=after.segment).rev();
            let last = earlier.find(|(_, tracked)| matches!(tracked.captured, Captured::Some(_)));
            let left = last
                .map(|(id, tracked)| Position { segment: *id, offset: tracked.sealed.unwrap_or_default() });
            self.captured_end = left.unwrap_or(Position::ZERO).max(self.captured_removed);
        }
        if self.refusals.len() == REFUSALS_KEPT {
            self.refusals.remove(0);
        }
        self.refusals.push(Refusal { after, upto: self.end, source });
        self.sync_waiters.wake_all();
    }

    /// Returns the reason why the record that ends at `position` was refused, if it was.
    pub(super) fn refusal(&self, position: Position) -> Option<AppendError> {
        let refusal =
            self.refusals.iter().find(|refusal| refusal.after < position && position <= refusal.upto)?;
        Some(AppendError::Refused { source: refusal.source.clone() })
    }

    /// Ends the log. The first failure is kept.
    pub(super) fn fail(&mut self, error: io::Error) {
        tracing::error!(%error, "the commit log has failed and accepts no more writes");
        self.failure.get_or_insert(Arc::new(error));
        self.sync_waiters.wake_all();
    }

    /// Returns the segments to sync so that everything written is durable, in their order; they
    /// count as synced from now on.
    pub(super) fn take_unsynced(&mut self) -> Vec<Arc<dyn SyncHandle>> {
        let upto = self.written.segment;
        let unsynced = self.segments.range_mut(..=upto).filter(|(_, tracked)| tracked.unsynced);
        unsynced
            .filter_map(|(_, tracked)| {
                tracked.unsynced = false;
                tracked.syncer.clone()
            })
            .collect()
    }

    /// Records that a sync has made everything up to `upto` durable, and closes files that will not
    /// be written again.
    pub(super) fn set_synced(&mut self, upto: Position) {
        self.synced = self.synced.max(upto);
        let written = self.written.segment;
        for (_, tracked) in self.segments.range_mut(..written).filter(|(_, tracked)| !tracked.unsynced) {
            tracked.syncer = None;
        }
    }

    /// Records that chunks of a segment have been written.
    pub(super) fn mark_unsynced(&mut self, segment: u64) {
        if let Some(tracked) = self.segments.get_mut(&segment) {
            tracked.unsynced = true;
        }
    }

    /// Returns finished segments that no table needs, each once, for removal.
    pub(super) fn take_clean(&mut self) -> Vec<Clean> {
        let active = self.active_id();
        let written = self.written;
        let clean = self.segments.iter_mut().filter(|(id, tracked)| {
            // Up to the last one written: a sync never needs a segment that does not exist yet.
            Some(**id) != active && **id <= written.segment && !tracked.going && tracked.dirty.is_clean()
        });
        clean
            .map(|(id, tracked)| {
                tracked.going = true;
                Clean {
                    id: *id,
                    path: tracked.path.clone(),
                    captured: tracked.captured,
                    end: tracked.sealed.unwrap_or_default(),
                }
            })
            .collect()
    }

    /// Returns the indexes of captured segments that are to be written, in the order of segments.
    pub(super) fn take_unpublished(&mut self) -> Vec<(u64, PathBuf, CdcIndex)> {
        let synced = self.synced;
        let mut due = Vec::new();
        for (id, tracked) in self.segments.iter_mut() {
            let Captured::Some(published) = tracked.captured else { continue };
            let index = cdc::index_at(*id, tracked.sealed, synced);
            if index != published && index.offset > 0 {
                tracked.captured = Captured::Some(index);
                due.push((*id, tracked.path.clone(), index));
            }
        }
        due
    }

    /// Whether [`take_unpublished`](Self::take_unpublished) would return any.
    pub(super) fn has_unpublished(&self) -> bool {
        self.segments.iter().any(|(id, tracked)| {
            let Captured::Some(published) = tracked.captured else { return false };
            let index = cdc::index_at(*id, tracked.sealed, self.synced);
            index != published && index.offset > 0
        })
    }

    /// Whether the captured segments up to this one have indexes.
    pub(super) fn is_published_upto(&self, segment: u64) -> bool {
        let without = |tracked: &Tracked| tracked.captured == Captured::Some(CdcIndex::default());
        !self.segments.range(..=segment).any(|(_, tracked)| without(tracked))
    }

    /// Records that a segment is linked.
    pub(super) fn set_linked(&mut self, segment: u64) {
        if let Some(tracked) = self.segments.get_mut(&segment)
            && tracked.captured == Captured::Unlinked
        {
            tracked.captured = Captured::None;
        }
    }

    /// Returns the id, path and size of the active segment.
    pub(super) fn active_file(&self) -> Option<(u64, PathBuf, u32)> {
        self.active.as_ref().map(|active| (active.file.id, active.file.path.clone(), active.file.size))
    }

    pub(super) fn total_size(&self) -> u64 {
        self.segments.values().map(|tracked| tracked.size).sum()
    }
}

/// Appends what precedes a record.
fn mark(encoder: &mut Encoder<'_>, synced: Option<Position>, time: Option<i64>) {
    if let Some(synced) = synced {
        encoder.sync_mark(synced);
    }
    if let Some(time) = time {
        encoder.time(time);
    }
}

fn too_large(size: usize, options: &CommitLogOptions) -> AppendError {
    AppendError::TooLarge { size: size as u64, maximum: options.record_size_max }
}

/// Returns the size of a segment for a record, its dictionaries and the preceding sync mark. Its
/// entry takes `size` bytes. Uses the end of `scratch`.
fn segment_size_for(
    record: &dyn Record,
    size: usize,
    scratch: &mut Chunk,
    options: &CommitLogOptions,
) -> Result<u32, AppendError> {
    let encrypted = scratch.file.cipher.is_some();
    let mut encoder = scratch.encoder();
    let dictionary =
        |table: &TableVersion| encoder.dictionary(0, *table, |out| record.encode_dictionary(*table, out));
    let dictionaries: usize = record.tables().iter().map(dictionary).sum();
    let first = HEADER_LEN + if encrypted { ENCRYPTION_LEN_MAX } else { 0 };
    let needed = (first + SYNC_MARK_LEN + TIME_LEN + END_LEN) as usize + dictionaries + size;
    let possible = u32::try_from(needed).ok().filter(|size| *size <= CommitLogOptions::SEGMENT_SIZE_MAX);
    possible.map(|size| size.max(options.segment_size)).ok_or_else(|| too_large(needed, options))
}

/// Returns the chunk for the next bytes of the active segment, without the bytes of a failed
/// encoder.
fn chunk_of<'a>(pending: &'a mut Vec<Chunk>, buffer: &mut Vec<u8>, active: &Active) -> &'a mut Chunk {
    if pending.last().is_none_or(|chunk| chunk.is_whole || chunk.file.id != active.file.id) {
        let bytes = std::mem::take(buffer);
        pending.push(Chunk {
            file: active.file.clone(),
            start: active.end,
            bytes,
            committed: 0,
            is_whole: false,
        });
    }
    let chunk = pending.last_mut().expect("a chunk was pushed when there was none");
    chunk.bytes.truncate(chunk.committed);
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_position_precedes_a_segment_that_is_being_reserved() {
        let mut state = State::new(BTreeMap::new(), Position::ZERO, Position::ZERO, 10);
        assert_eq!(state.archive_position(), Position { segment: 10, offset: 0 });
        // As `create_spare` does before it releases the lock: the next records go to segment 10.
        state.creating = true;
        state.next_id += 1;
        assert_eq!(state.archive_position(), Position { segment: 10, offset: 0 });
    }

    #[test]
    fn a_refused_change_leaves_the_end_of_captured_changes_that_left_the_log() {
        let (captured, next) = (Position { segment: 5, offset: Position::END_OF_SEGMENT }, 8);
        let mut state = State::new(BTreeMap::new(), Position::ZERO, captured, next);
        state.captured_end = Position { segment: next, offset: 100 };
        state.refuse(Position { segment: next, offset: 0 }, Arc::new(io::Error::other("full")));
        assert_eq!(state.captured_end(), captured);
    }
}
