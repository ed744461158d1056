//! Reserving segments: before one is needed, or when the active one is full.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::cdc::Linking;
use super::chunk::SegmentFile;
use super::format::{self, Encoder, Header};
use super::shared::{Locked, Shared};
use super::state::State;
use super::{AppendError, SyncMode};

/// Bytes of a segment that are populated before the background thread checks whether an appender
/// waits.
const POPULATED_TOGETHER: u32 = 1 << 20;

impl Shared {
    /// Replaces the active segment by one of at least `size` bytes, unless another thread does so
    /// meanwhile.
    pub(super) fn next_segment<'a>(
        &self,
        mut state: Locked<'a>,
        size: u32,
    ) -> Result<Locked<'a>, AppendError> {
        let full = state.active_id();
        loop {
            if let Some(spare) = state.spare.take() {
                if spare.size >= size {
                    state.activate(Arc::new(spare));
                    return Ok(state);
                }
                let (locked, enlarged) = self.enlarge_spare(state, spare, size);
                state = locked;
                enlarged.map_err(|error| AppendError::Refused { source: Arc::new(error) })?;
            } else if state.creating {
                self.segment_awaited.store(true, Ordering::Relaxed);
                state = self.waited(state);
            } else {
                let (locked, created) = self.create_spare(state, size, false);
                state = locked;
                created.map_err(|error| AppendError::Refused { source: Arc::new(error) })?;
            }
            state.check_usable()?;
            if state.active_id() != full {
                return Ok(state);
            }
        }
    }

    /// Reserves a segment of `size` bytes for later use. No other thread is doing so. With `ahead`,
    /// no appender waits for it yet.
    pub(super) fn create_spare<'a>(
        &self,
        mut state: Locked<'a>,
        size: u32,
        ahead: bool,
    ) -> (Locked<'a>, io::Result<()>) {
        state.spare_wanted = false;
        // In the other modes the next sync would write the zeros to the disk, and appenders wait
        // for it.
        let is_periodic = matches!(self.options.sync, SyncMode::Periodic { .. });
        let populates = std::mem::take(&mut state.has_large_records) && ahead && is_periodic;
        self.segment_awaited.store(false, Ordering::Relaxed);
        let id = state.next_id;
        state.next_id += 1;
        let path = self.directory.join(format::file_name(self.version(), id));
        self.reserve(state, "creating a segment", &path, || {
            let file = self.create_segment(id, &path, size)?;
            if populates {
                self.populate(&file);
            }
            Ok(file)
        })
    }

    /// Makes the operating system allocate memory for a new segment, until an appender waits for
    /// it. If that memory has not been used before, as in a virtual machine, this takes many times
    /// as long as copying a record: a large record, and all later ones, would wait for it.
    fn populate(&self, file: &SegmentFile) {
        let mut start = file.first;
        while start < file.size && !self.segment_awaited.load(Ordering::Relaxed) {
            let end = start.saturating_add(POPULATED_TOGETHER).min(file.size);
            if let Err(error) = file.writer.lock().populate(u64::from(start), u64::from(end)) {
                tracing::debug!(%error, "a commit log segment is not populated");
                return;
            }
            #[cfg(test)]
            self.populated.fetch_add(u64::from(end - start), Ordering::Relaxed);
            start = end;
        }
    }

    /// Enlarges a reserved segment without records to `size` bytes. No other thread is reserving.
    /// An additional segment would have a higher id, and its records would be replayed after those
    /// of this one.
    fn enlarge_spare<'a>(
        &self,
        state: Locked<'a>,
        spare: SegmentFile,
        size: u32,
    ) -> (Locked<'a>, io::Result<()>) {
        let path = spare.path.clone();
        self.reserve(state, "enlarging a segment", &path, || {
            let mut writer = spare.writer.lock();
            writer.allocate(u64::from(size))?;
            writer.sync()?;
            drop(writer);
            Ok(SegmentFile { size, ..spare })
        })
    }

    /// Runs `work`, which reserves the segment at `path`, without the append lock, and stores the
    /// segment as the spare one.
    fn reserve<'a>(
        &self,
        mut state: Locked<'a>,
        doing: &str,
        path: &Path,
        work: impl FnOnce() -> io::Result<SegmentFile>,
    ) -> (Locked<'a>, io::Result<()>) {
        state.creating = true;
        let not_creating = |state: &mut State| state.creating = false;
        let reserved = self.unlocked(&mut state, doing, not_creating, || {
            // An incomplete segment must be removed: with later segments, it would look damaged.
            work().map_err(|error| (error, self.discard(path)))
        });
        state.creating = false;
        self.advanced.notify_all();
        let reserved = match reserved {
            Ok(file) => {
                state.spare = Some(file);
                Ok(())
            }
            Err((error, Ok(()))) => Err(error),
            Err((error, Err(left_behind))) => {
                state.fail(left_behind);
                Err(error)
            }
        };
        (state, reserved)
    }

    /// Returns the version of new segments.
    fn version(&self) -> u32 {
        format::version(self.options.encrypts(), self.archive.is_some())
    }

    /// Creates a segment whose name and header are durable and whose space is reserved.
    fn create_segment(&self, id: u64, path: &Path, size: u32) -> io::Result<SegmentFile> {
        let encrypts = self.options.encrypts();
        let mut start = Header::new(self.version(), id, self.fs.boot_id()).encode();
        let mut cipher = None;
        if let Some(encryption) = self.options.encryption.as_ref().filter(|_| encrypts) {
            let new = encryption.begin().map_err(io::Error::other)?;
            let base = start.len() as u32;
            let mut record = Vec::new();
            Encoder { segment: id, base, encrypted: false, out: &mut record }.encryption(&new.parameters);
            start.extend(record);
            cipher = Some(new.cipher);
        }
        let first = start.len() as u32;
        let mut writer = self.fs.create(path)?;
        writer.allocate(u64::from(size))?;
        writer.write_all(&start)?;
        writer.sync()?;
        self.fs.sync_dir(&self.directory)?;
        let mut linked = false;
        if let Some(cdc) = self.cdc.as_ref().filter(|_| self.options.captures()) {
            linked = cdc.link(path, size)? == Linking::Done;
        }
        let syncer = writer.sync_handle()?;
        let (path, writer) = (path.to_owned(), Mutex::new(writer));
        Ok(SegmentFile { id, path, size, first, linked, cipher, writer, syncer })
    }

    /// Removes a segment that has no records.
    pub(super) fn discard(&self, path: &Path) -> io::Result<()> {
        if let Some(cdc) = &self.cdc {
            cdc.unlink(std::iter::once(path))?;
        }
        match self.fs.remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}
