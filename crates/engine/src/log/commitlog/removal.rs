//! Removing segments that no table needs, after they are archived and their changes captured.

use std::io;
use std::sync::Arc;

use super::cdc::{Captured, CdcIndex};
use super::shared::Shared;
use super::tracked::Clean;
use super::{AppendError, Position};

impl Shared {
    /// Makes all records so far durable and finishes the active segment if it has any, and links
    /// all finished segments in the archive. No-op if the log is not archived.
    pub(super) fn finish_and_archive(&self) -> Result<(), AppendError> {
        let Some(archive) = &self.archive else { return Ok(()) };
        let mut state = self.state.lock();
        state.check_usable()?;
        state.seal_used();
        let end = state.end();
        let state = self.sync_upto(state, end)?;
        let due = state.unarchived();
        drop(state);
        let linked = archive.link(due.iter().map(|(_, path)| path.as_path()));
        linked.map_err(|error| AppendError::Archive {
            directory: archive.directory.clone(),
            source: Arc::new(error),
        })?;
        let mut state = self.state.lock();
        due.iter().for_each(|(id, _)| state.set_archived(*id));
        Ok(())
    }

    /// Makes finished segments durable and links them in the archive, before they are removed from
    /// the log. Returns those that can be removed.
    fn archive_clean(&self, clean: &[Clean]) -> Vec<u64> {
        let all = || clean.iter().map(|clean| clean.id).collect();
        let Some(archive) = &self.archive else { return all() };
        let Some(last) = clean.last() else { return Vec::new() };
        let end = Position { segment: last.id, offset: last.end };
        // In the order of segments, also those that stay: a consumer takes a lower id that it has
        // not seen for one that does not exist.
        let due = self.sync_upto(self.state.lock(), end).map(|state| state.unarchived());
        let linked = due
            .map_err(io::Error::other)
            .and_then(|due| archive.link(due.iter().map(|(_, path)| path.as_path())).map(|()| due));
        let linked = linked.map(|due| {
            let mut state = self.state.lock();
            due.iter().for_each(|(id, _)| state.set_archived(*id));
        });
        match linked {
            Ok(()) => all(),
            Err(error) => {
                tracing::warn!(%error, "commit log segments that cannot be archived stay behind for now");
                Vec::new()
            }
        }
    }

    /// Requests the removal of finished segments that no table needs: removing a segment of 32 MiB
    /// takes about 10 ms, which a flushing thread need not wait for.
    pub(super) fn request_removal(&self) {
        if self.options.threads {
            self.state.lock().removal_wanted = true;
            self.work.notify_all();
        } else {
            self.remove_clean_segments();
        }
    }

    /// Removes finished segments that no table needs. Each counts as existing until its removal is
    /// durable, so that no sync mark covers it while a crash can restore it unsynced.
    pub(super) fn remove_clean_segments(&self) {
        let clean = self.state.lock().take_clean();
        if clean.is_empty() {
            return;
        }
        let mut removed = Vec::new();
        let unlinked = self.release_captured(&clean);
        let archived = self.archive_clean(&clean);
        let released = |clean: &&Clean| unlinked.contains(&clean.id) && archived.contains(&clean.id);
        for Clean { id, path, .. } in clean.iter().filter(released) {
            match self.fs.remove_file(path) {
                Ok(()) => removed.push(*id),
                Err(error) if error.kind() == io::ErrorKind::NotFound => removed.push(*id),
                Err(error) => tracing::warn!(%error, "a clean commit log segment stays behind for now"),
            }
        }
        if let Err(error) = self.fs.sync_dir(&self.directory) {
            tracing::warn!(%error, "removed commit log segments may come back after a crash");
            removed.clear();
        }
        let mut state = self.state.lock();
        for Clean { id, .. } in clean {
            if removed.contains(&id) {
                state.remove(id);
            } else if let Some(tracked) = state.segments.get_mut(&id) {
                tracked.going = false;
            }
        }
    }

    /// Makes captured segments durable and complete in the directory of change data capture before
    /// they are removed from the log, and removes the links of the others. Returns those that can
    /// be removed.
    fn release_captured(&self, clean: &[Clean]) -> Vec<u64> {
        let Some(cdc) = &self.cdc else { return clean.iter().map(|clean| clean.id).collect() };
        let release = |clean: &Clean| match clean.captured {
            Captured::Unlinked => Ok(()),
            Captured::None => cdc.unlink(std::iter::once(clean.path.as_path())),
            Captured::Some(_) => {
                // Readers skip segments without an index before one that has it.
                let end = Position { segment: clean.id, offset: clean.end };
                let state = self.sync_upto(self.state.lock(), end).map_err(io::Error::other)?;
                if !state.is_published_upto(clean.id) {
                    return Err(io::Error::other("an earlier index of change data capture is missing"));
                }
                drop(state);
                cdc.publish(&clean.path, CdcIndex { offset: clean.end, completed: true }, true)
            }
        };
        let mut released = Vec::new();
        for clean in clean {
            match release(clean) {
                Ok(()) => released.push(clean.id),
                Err(error) => tracing::warn!(%error, "a captured commit log segment stays behind for now"),
            }
        }
        released
    }
}
