//! Scrubbing a table: each SSTable is rewritten with its readable contents.
//!
//! The outputs replace the SSTable in a transaction. An SSTable that must not be scrubbed, or of
//! which nothing could be saved while there is no snapshot, is not changed.

use std::path::PathBuf;
use std::sync::Arc;

use cassette_rows::{PartitionHeader, PartitionStream, StorageError, TableMetadata, Unfiltered};
use cassette_sstable::scrub::{Salvage, Scrub, ScrubOptions, ScrubReport};
use cassette_sstable::{Component, Descriptor};

use super::pace::{Pace, Priority};
use crate::basics::error::{EngineError, Result};
use crate::store::contents::Contents;
use crate::store::core::{Core, Phase};
use crate::store::outputs::OutputSet;
use crate::store::progress::{CompactionKind, Running};
use crate::store::table::Table;
use crate::store::transaction::OperationType;
use crate::strategies::cut::Cutter;
use crate::strategies::tree::Cut;

/// The result of scrubbing one SSTable.
#[derive(Debug)]
pub struct ScrubbedSSTable {
    /// Its Data component.
    pub path: PathBuf,
    /// Bytes of its Data component.
    pub bytes: u64,
    /// The snapshot that contains it, if one was taken before.
    pub snapshot: Option<String>,
    /// The report, and the Data components of its replacements; or the reason why it was not
    /// changed.
    pub result: Result<(ScrubReport, Vec<PathBuf>)>,
}

impl ScrubbedSSTable {
    /// Returns Cassandra's messages, line by line; none if it could not be scrubbed.
    pub fn messages(&self) -> Vec<String> {
        let path = self.path.display();
        let Ok((report, written)) = &self.result else { return Vec::new() };
        let ScrubReport { good, damaged, lost, empty, out_of_order, fixed_rows, .. } = *report;
        let mut said = vec![format!("Scrubbing {path} ({} bytes)", self.bytes)];
        said.extend(report.messages.iter().map(|message| format!("WARNING: {message}")));
        if out_of_order > 0 {
            said.push(format!(
                "WARNING: {out_of_order} out of order partition (or partitions without of order rows) found \
                 while scrubbing {path}; Those have been written (in order) to a new sstable"
            ));
        }
        match (written.is_empty(), damaged + lost) {
            (false, bad) => {
                said.push(format!(
                    "Scrub of {path} complete: {} partitions in new sstable and {empty} empty (tombstoned) \
                     partitions dropped",
                    good + damaged
                ));
                if fixed_rows > 0 {
                    said.push(format!("Fixed {fixed_rows} rows with overflowed local deletion time."));
                }
                if damaged > 0 {
                    said.push(format!("WARNING: {damaged} partitions were saved in part"));
                }
                if bad > 0 {
                    let recovery = self.recovery();
                    said.push(format!(
                        "WARNING: Unable to recover {lost} partitions that were skipped.{recovery}"
                    ));
                }
            }
            (true, 0) => {
                said.push(format!(
                    "Scrub of {path} complete; looks like all {empty} partitions were tombstoned"
                ));
            }
            (true, _) => {
                let recovery = self.recovery();
                said.push(format!(
                    "WARNING: No valid partitions found while scrubbing {path}; it is gone now.{recovery}"
                ));
            }
        }
        said
    }

    fn recovery(&self) -> String {
        match &self.snapshot {
            Some(name) => format!(" You can attempt manual recovery from the pre-scrub snapshot {name}."),
            None => String::new(),
        }
    }
}

impl Core {
    /// Scrubs a table: see [`Engine::scrub`](crate::Engine::scrub). `snapshot` takes a snapshot of
    /// the SSTables first if one is requested, and returns its name.
    pub fn scrub(
        self: &Arc<Self>,
        table: &Arc<Table>,
        options: &ScrubOptions,
        snapshot: impl FnOnce(&[Descriptor]) -> Result<Option<String>>,
    ) -> Result<Vec<ScrubbedSSTable>> {
        if self.phase() == Phase::Recovering {
            return Err(EngineError::Recovering);
        }
        let _no_import = table.importing.lock();
        let _alone = self.alone(table)?;
        let view = Arc::clone(&table.view());
        let seen = view.sstables.iter().chain(&*view.quarantined);
        let mut sstables: Vec<Descriptor> = seen.map(|sstable| sstable.reader.descriptor().clone()).collect();
        for unreadable in &*view.unreadable {
            let path = unreadable.descriptor.path(Component::Data);
            let is_there = self.fs.exists(&path).map_err(|e| StorageError::io(&path, "look for", e))?;
            // Without Data there is nothing to read.
            sstables.extend(is_there.then(|| unreadable.descriptor.clone()));
        }
        drop(view);
        sstables.sort_by_key(|sstable| sstable.id);
        let snapshot = if sstables.is_empty() { None } else { snapshot(&sstables)? };
        let mut scrubbed = Vec::with_capacity(sstables.len());
        for descriptor in sstables {
            let path = descriptor.path(Component::Data);
            let bytes = self.fs.metadata(&path).map_or(0, |metadata| metadata.len);
            let result = self.scrub_one(table, descriptor, options, snapshot.is_some());
            match &result {
                Ok((report, _)) if report.is_whole() => {
                    tracing::info!(path = %path.display(), partitions = report.good, "scrubbed");
                }
                Ok((report, _)) => {
                    tracing::warn!(
                        path = %path.display(),
                        good = report.good,
                        damaged = report.damaged,
                        lost = report.lost,
                        "scrubbed; not all could be saved"
                    );
                }
                Err(EngineError::Cancelled | EngineError::CompactionStopped { .. }) => {
                    return result.map(|_| Vec::new());
                }
                Err(error) => tracing::error!(%error, path = %path.display(), "cannot be scrubbed"),
            }
            scrubbed.push(ScrubbedSSTable { path, bytes, snapshot: snapshot.clone(), result });
        }
        self.row_cache.forget(table.id);
        self.measure_compaction_debt(table);
        Ok(scrubbed)
    }

    fn scrub_one(
        self: &Arc<Self>,
        table: &Arc<Table>,
        descriptor: Descriptor,
        options: &ScrubOptions,
        is_kept: bool,
    ) -> Result<(ScrubReport, Vec<PathBuf>)> {
        let metadata = table.metadata();
        // Data of dropped columns is kept, as in compactions.
        let whole = if metadata.dropped_columns.is_empty() {
            None
        } else {
            metadata.with_dropped_columns().map(Arc::new)
        };
        let read_as: Arc<TableMetadata> = whole.unwrap_or_else(|| metadata.clone());
        let salvage = Salvage::open(&self.fs, descriptor.clone(), read_as.clone(), self.cache.clone())?;
        let needed = salvage.data_bytes_on_disk();
        if let Ok(available) = self.fs.available_space(&table.directory)
            && available < needed
        {
            let table = metadata.qualified_name();
            return Err(EngineError::NoSpaceToCompact { table, needed, available });
        }
        let contents = Contents::of_salvage(&salvage, &read_as);
        let level = u32::try_from(salvage.statistics().stats.level).unwrap_or(0);
        let registered = self.operations.begin(
            self.time_uuid(),
            CompactionKind::Scrub,
            metadata.clone(),
            &table.directory,
            (1, salvage.uncompressed_bytes()),
        );
        let stored = salvage.data_bytes_on_disk();
        let ratio = stored as f64 / salvage.uncompressed_bytes().max(1) as f64;
        let scrub = Scrub::new(Arc::new(salvage), *options)?;
        let mut stream =
            Watched { scrub, running: registered.running.clone(), ratio, at: 0, is_kept, has_any: false };
        let removed = [descriptor];
        let mut outputs = OutputSet::begin(
            self,
            table,
            &read_as,
            OperationType::Scrub,
            &metadata.params.compression,
            contents,
            Cutter::new(level, Cut::Never),
        )?;
        let priority = Priority { yields: false, is_low: false };
        let mut pace = Pace::new(self, table, &registered.running, priority);
        while let Some(header) = stream.next_partition()? {
            pace.step()?;
            // Partitions that were out of order come last, and begin another SSTable.
            if outputs.last_key().is_some_and(|last| *last >= header.key) {
                outputs.end_output()?;
            }
            outputs.begin_partition(header)?;
            while let Some(unfiltered) = stream.next_unfiltered()? {
                pace.step()?;
                outputs.append(unfiltered)?;
            }
            outputs.end_partition()?;
        }
        let written = outputs.publish(&removed, |view| {
            // Rows and tombstones may have been lost or restored.
            view.purges += 1;
            view.contents += 1;
        })?;
        let report = stream.scrub.report();
        let bytes = written.iter().map(|sstable| sstable.data_bytes_on_disk).sum();
        let now = self.clock.now_micros() / 1000;
        let completed = registered.ended(now, (stored, bytes), [(1, report.good)].into());
        self.operations.report(&completed);
        let paths = written.iter().map(|sstable| sstable.descriptor.path(Component::Data));
        Ok((report, paths.collect()))
    }
}

/// A scrub that reports its progress, and fails at its end if nothing was saved of an SSTable
/// without a snapshot.
struct Watched {
    scrub: Scrub,
    running: Arc<Running>,
    /// Bytes on disk by bytes of rows.
    ratio: f64,
    at: u64,
    is_kept: bool,
    has_any: bool,
}

impl PartitionStream for Watched {
    fn next_partition(&mut self) -> cassette_rows::Result<Option<PartitionHeader>> {
        let next = self.scrub.next_partition()?;
        let plain = self.scrub.position().saturating_sub(self.at);
        self.at += plain;
        self.running.advance(plain, (plain as f64 * self.ratio) as u64);
        self.has_any |= next.is_some();
        if next.is_none() && !self.has_any && !self.is_kept {
            let report = self.scrub.report();
            if !report.is_whole() {
                let found = report.messages.first().cloned().unwrap_or_default();
                let detail = format!(
                    "No valid partitions found while scrubbing; it stays, since no snapshot was to be taken: {found}"
                );
                return Err(StorageError::corrupt(self.scrub.path(), detail));
            }
        }
        Ok(next)
    }

    fn next_unfiltered(&mut self) -> cassette_rows::Result<Option<Unfiltered>> {
        self.scrub.next_unfiltered()
    }
}
