//! The engine: opening, recovery, closing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cassette_vfs::{Clock, FileSystem};

use super::background::Background;
use crate::admin::recovery::ReplaySummary;
use crate::basics::error::{EngineError, Result};
use crate::basics::options::Options;
use crate::log::change_stream::ChangeStream;
use crate::log::commitlog::{CapturePoint, Position};
use crate::store::core::{Core, Phase};

/// An LSM tree for each of many tables, behind one commit log. Cheap to clone; synchronous; any
/// thread may call it.
///
/// Dropping the last clone stops the threads; otherwise it is like the death of the process:
/// acknowledged writes are in the log. [`close`](Self::close) also flushes.
#[derive(Clone)]
pub struct Engine {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    // Stopped first.
    pub background: Background,
    pub core: Arc<Core>,
}

impl Engine {
    /// Returns the core, for tests of its parts.
    #[cfg(test)]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.inner.core
    }

    /// Opens the engine in `options.data_dir`. [`create_table`](Self::create_table) adds tables,
    /// [`replay`](Self::replay) applies logged writes, and writes are accepted after
    /// [`finish_recovery`](Self::finish_recovery).
    ///
    /// # Errors
    /// If another process has the directory open, or if another version or program made it.
    pub fn open(options: Options, fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Result<Self> {
        let core = Arc::new(Core::open(options, fs, clock)?);
        Ok(Self { inner: Arc::new(Inner { background: Background::new(core.clone()), core }) })
    }

    /// Applies the logged mutations of the tables that were created since the last call. Call it
    /// once with the system tables, and again when the user tables that they name have been
    /// created.
    ///
    /// # Errors
    /// If the log is damaged where no crash damages it:
    /// [`OpenError::Corrupt`](crate::commitlog::OpenError::Corrupt) names the place and the remedy.
    pub fn replay(&self) -> Result<ReplaySummary> {
        self.inner.core.replay()
    }

    /// Ends recovery: replays the log for tables that were created since the last
    /// [`replay`](Self::replay). Call it when all tables have been created. Files and log records
    /// of tables that a drop record names are removed; those of other tables are kept and reported.
    /// Writes are accepted and background work begins.
    pub fn finish_recovery(&self) -> Result<ReplaySummary> {
        let summary = self.inner.core.finish_recovery()?;
        self.inner.background.start().map_err(EngineError::Thread)?;
        self.inner.core.compaction_wanted.raise();
        Ok(summary)
    }

    /// Declares that the schema from which tables were created lacks something, so that
    /// [`finish_recovery`](Self::finish_recovery) removes no files.
    pub fn mark_schema_incomplete(&self) {
        self.inner.core.schema_incomplete.store(true, Ordering::Relaxed);
    }

    /// Returns whether replay skipped damage, so that the schema may lack something. Then this
    /// start removes no files.
    pub fn log_damage_skipped(&self) -> bool {
        self.inner.core.log_damage_skipped.load(Ordering::Relaxed)
    }

    /// Returns what damage to the schema journal may have taken from the schema. Available after
    /// [`replay`](Self::replay).
    pub fn schema_journal_damage(&self) -> Option<String> {
        self.inner.core.journal.damage()
    }

    /// Returns the error that ended the commit log: no write is accepted until the next start.
    pub fn log_failure(&self) -> Option<Arc<std::io::Error>> {
        self.inner.core.log_failure()
    }

    /// Makes all acknowledged writes durable, whatever `commitlog_sync` is.
    pub fn sync_log(&self) -> Result<()> {
        match &*self.inner.core.log.load() {
            Some(log) => Ok(log.sync()?),
            None => Ok(()),
        }
    }

    /// Makes all acknowledged writes durable, and their captured changes readable. All acknowledged
    /// writes are before the end that is returned. `None` if change data capture is disabled.
    pub fn sync_captured(&self) -> Result<Option<CapturePoint>> {
        Ok(self.inner.core.usable_log()?.sync_captured()?)
    }

    /// Returns the stream of captured changes after `position`, which may be that of a record of an
    /// earlier stream, or [`Position::ZERO`]. It stays valid when the engine is closed.
    pub fn change_stream(&self, position: Position) -> ChangeStream {
        let core = &self.inner.core;
        let encryption = core.options.commitlog_encryption.clone();
        ChangeStream::open(core.fs.clone(), core.cdc_directory(), encryption, position)
    }

    /// The options that the engine was opened with.
    pub fn options(&self) -> &Options {
        &self.inner.core.options
    }

    /// Stops the engine: flushes or logs everything durably, and releases the directory. Rejects
    /// all later operations; streams that are being read stay valid.
    pub fn close(&self) -> Result<()> {
        let core = &self.inner.core;
        if core.phase() == Phase::Closed {
            return Ok(());
        }
        self.inner.background.stop();
        let was_open = core.phase() == Phase::Open;
        // A panic is an error here: the log has what could not be flushed, and is still to be
        // closed.
        let flush = |flush: fn(&Arc<Core>) -> Result<()>| {
            let stopped =
                || EngineError::Stopped { reason: "flushing before closing has panicked".to_owned() };
            core.contain("flushing before closing", || flush(core)).unwrap_or_else(|| Err(stopped()))
        };
        let flushed = if was_open { flush(Core::flush_before_closing) } else { Ok(()) };
        if was_open {
            core.save_caches();
        }
        core.set_phase(Phase::Closed);
        // Writers that were past the check of the phase finish. Later ones that would not log see
        // it and are refused, ...
        let wait_for_writers =
            || core.tables.load().values().for_each(|table| drop(table.write_order.write()));
        wait_for_writers();
        let unlogged_flushed = if was_open { flush(Core::flush_unlogged) } else { Ok(()) };
        // ... and the others find no log.
        let log = core.log.swap(None);
        wait_for_writers();
        let closed = log.map_or(Ok(()), close_log);
        core.directory.release();
        flushed.and(unlogged_flushed).and(closed)
    }
}

/// Closes the log when its last user has released it. If that takes too long, only syncs it.
fn close_log(mut log: Arc<crate::log::commitlog::CommitLog>) -> Result<()> {
    const PATIENCE: u32 = 1000;
    for _ in 0..PATIENCE {
        match Arc::try_unwrap(log) {
            Ok(log) => return Ok(log.close()?),
            Err(shared) => log = shared,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(log.sync()?)
}
