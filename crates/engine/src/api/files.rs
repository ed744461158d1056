//! Operations on a table's files: snapshots, imports, verification, scrubs.

use std::path::Path;

use cassette_rows::{TableId, TableMetadata};
use cassette_sstable::scrub::ScrubOptions;
use cassette_sstable::{Descriptor, SSTableId, SSTableReader};

use uuid::Uuid;

use super::Engine;
use crate::admin::archived::ArchivedLog;
use crate::admin::import::{ImportOptions, ImportStep, ImportedSSTable};
use crate::admin::recovery::ReplaySummary;
use crate::admin::snapshots::{Snapshot, SnapshotFilter, SnapshotOptions};
use crate::admin::verify::VerifiedSSTable;
use crate::basics::error::Result;
use crate::compaction::{ScrubbedSSTable, SplitSSTable};
use crate::log::commitlog::{ArchivedSegment, Position};

impl Engine {
    /// Takes a snapshot of each table, with the schema.cql specified beside it: of all tables, or
    /// of none after an error. Flushes memtables first, one table after the other: a snapshot of
    /// several tables is not of one moment.
    pub fn snapshot(
        &self,
        tables: &[(TableId, String)],
        options: &SnapshotOptions<'_>,
    ) -> Result<Vec<Snapshot>> {
        self.inner.core.snapshot(tables, options)
    }

    /// Returns all snapshots, also of dropped tables; by name, keyspace and table.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.inner.core.list_snapshots()
    }

    /// Removes snapshots, and returns those removed.
    pub fn clear_snapshots(&self, filter: &SnapshotFilter<'_>) -> Result<Vec<Snapshot>> {
        self.inner.core.clear_snapshots(filter)
    }

    /// Removes expired snapshots. The engine's threads do so within seconds.
    pub fn remove_expired_snapshots(&self) -> Result<()> {
        self.inner.core.clear_expired_snapshots()
    }

    /// Flushes a table's memtables, and returns all its SSTables for reading as files. They stay
    /// readable as long as their readers exist, also after a compaction has replaced them.
    ///
    /// # Errors
    /// The damage of the first SSTable that reads skip, because it is corrupt or cannot be opened.
    pub fn flushed_sstables(&self, id: TableId) -> Result<Vec<SSTableReader>> {
        self.inner.core.flushed_sstables(id)
    }

    /// Adds all SSTables of a directory to a table: those that Cassandra wrote, or that a snapshot
    /// holds. After an error the table and its directory are unchanged. After a crash the table has
    /// all or none; SSTables that were to be moved may then still be in the directory, and do no
    /// harm there. Snapshots and backups are linked, or copied with [`ImportOptions::copy_data`],
    /// never moved. Other directories within the data directory are refused, whatever path, link or
    /// mount leads to them.
    ///
    /// # Errors
    /// [`EngineError::ImportRefused`] names the file that does not fit, and the reason.
    pub fn import(
        &self,
        id: TableId,
        directory: &Path,
        options: &ImportOptions,
    ) -> Result<Vec<ImportedSSTable>> {
        self.import_observed(id, directory, options, &mut |_| {})
    }

    /// [`import`](Self::import) that reports what it has done.
    ///
    /// # Errors
    /// As for `import`.
    pub fn import_observed(
        &self,
        id: TableId,
        directory: &Path,
        options: &ImportOptions,
        observe: &mut dyn FnMut(ImportStep),
    ) -> Result<Vec<ImportedSSTable>> {
        let imported = self.inner.core.import(id, directory, options, observe)?;
        self.inner.core.compaction_wanted.raise();
        Ok(imported)
    }

    /// Replaces everything that a table has by the SSTables of a directory, as if it were truncated
    /// first, in one step: after an error or a crash, the table has its earlier rows or the
    /// imported ones. With `keep`, the text of a schema.cql, takes a snapshot of the earlier ones.
    /// Writes during the call are replaced, or not.
    ///
    /// # Errors
    /// As for [`import`](Self::import).
    pub fn replace(
        &self,
        id: TableId,
        directory: &Path,
        options: &ImportOptions,
        keep: Option<&str>,
    ) -> Result<Vec<ImportedSSTable>> {
        let imported = self.inner.core.replace(id, directory, options, keep)?;
        self.inner.core.compaction_wanted.raise();
        Ok(imported)
    }

    /// Adds the SSTables that were put into the table's directory while it was open: all of them,
    /// or none after an error; their files stay in place. Running compactions of the table stop,
    /// and are chosen again later.
    pub fn refresh(&self, id: TableId) -> Result<Vec<ImportedSSTable>> {
        let found = self.inner.core.refresh(id)?;
        self.inner.core.compaction_wanted.raise();
        Ok(found)
    }

    /// Makes everything that has been acknowledged available in the archive of the commit log:
    /// finishes its active segment, if it has records. No-op unless the log is archived.
    ///
    /// # Errors
    /// If the log has failed, or the archive cannot be written.
    pub fn archive_log(&self) -> Result<()> {
        self.inner.core.archive_log()
    }

    /// Returns the chain of archived segments, and a position in it that all records so far precede
    /// or end at; `None` unless the log is archived.
    pub fn archive_position(&self) -> Option<(Uuid, Position)> {
        self.inner.core.archive_position()
    }

    /// Returns the finished segments that wait in the archive until
    /// [`remove_archived`](crate::commitlog::remove_archived).
    pub fn archived_segments(&self) -> Result<Vec<ArchivedSegment>> {
        self.inner.core.archived_segments()
    }

    /// Applies the records of archived segments to the tables that `is_meant` selects, and flushes
    /// them. No other thread may write to these tables. After an error, a part has been applied;
    /// applying it again changes nothing.
    ///
    /// # Errors
    /// If a segment is damaged, its key is not available, or its records do not match a table.
    pub fn apply_archived(
        &self,
        log: &ArchivedLog,
        is_meant: &dyn Fn(&TableMetadata) -> bool,
    ) -> Result<ReplaySummary> {
        self.inner.core.apply_archived(log, is_meant)
    }

    /// Reads every SSTable of a table completely and compares it with its checksums and its index;
    /// with `extended`, also every value with its type. Damage to one SSTable does not stop the
    /// others.
    pub fn verify(&self, id: TableId, extended: bool) -> Result<Vec<VerifiedSSTable>> {
        self.inner.core.verify(id, extended)
    }

    /// Rewrites each of these SSTables whose Data is larger than `size` bytes as several of about
    /// that size, of level 0, each in its own transaction. Running compactions stop. With `keep`,
    /// the text of a schema.cql, takes a snapshot `pre-split-<milliseconds>` of them first.
    ///
    /// # Errors
    /// Then the SSTables before the failed one are split.
    pub fn split(
        &self,
        id: TableId,
        sstables: &[SSTableId],
        size: u64,
        keep: Option<&str>,
    ) -> Result<Vec<SplitSSTable>> {
        let core = &self.inner.core;
        let table = core.table(id)?;
        let snapshot = |sstables: &[Descriptor]| {
            keep.map(|schema| core.snapshot_before_rewrite(&table, sstables, schema, "pre-split")).transpose()
        };
        let split = core.split(&table, sstables, size, snapshot)?;
        core.compaction_wanted.raise();
        Ok(split)
    }

    /// Rewrites each SSTable of a table with all that can be read of it, also those that reads skip
    /// because they are corrupt. Running compactions stop. With `keep`, the text of a schema.cql,
    /// takes a snapshot `pre-scrub-<milliseconds>` first. An SSTable that cannot be scrubbed stays
    /// as it is, and does not stop the others.
    pub fn scrub(
        &self,
        id: TableId,
        options: &ScrubOptions,
        keep: Option<&str>,
    ) -> Result<Vec<ScrubbedSSTable>> {
        let core = &self.inner.core;
        let table = core.table(id)?;
        let snapshot = |sstables: &[Descriptor]| {
            keep.map(|schema| core.snapshot_before_rewrite(&table, sstables, schema, "pre-scrub")).transpose()
        };
        let scrubbed = core.scrub(&table, options, snapshot)?;
        core.compaction_wanted.raise();
        Ok(scrubbed)
    }
}
