//! Operations on a table's files: snapshots, imports, verification, scrubs.

use std::path::Path;

use cassette_rows::TableId;
use cassette_sstable::Descriptor;
use cassette_sstable::scrub::ScrubOptions;

use super::Engine;
use crate::admin::import::{ImportOptions, ImportedSSTable};
use crate::admin::snapshots::{Snapshot, SnapshotFilter, SnapshotOptions};
use crate::admin::verify::VerifiedSSTable;
use crate::basics::error::Result;
use crate::compaction::ScrubbedSSTable;

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
        let imported = self.inner.core.import(id, directory, options)?;
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

    /// Reads every SSTable of a table completely and compares it with its checksums and its index;
    /// with `extended`, also every value with its type. Damage to one SSTable does not stop the
    /// others.
    pub fn verify(&self, id: TableId, extended: bool) -> Result<Vec<VerifiedSSTable>> {
        self.inner.core.verify(id, extended)
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
            keep.map(|schema| core.snapshot_before_scrub(&table, sstables, schema)).transpose()
        };
        let scrubbed = core.scrub(&table, options, snapshot)?;
        core.compaction_wanted.raise();
        Ok(scrubbed)
    }
}
