//! Data of tables that are missing in the schema.
//!
//! A directory, or commit log records, of an unknown table are kept: its row in `system_schema` may
//! have been lost. Only tables with a [drop record](crate::log::drop_records) are removed. Unknown
//! ones are listed; a command adopts them, by creating the table with its old id, or removes them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cassette_rows::{ColumnMetadata, StorageError, TableId};
use cassette_sstable::Component;
use cassette_sstable::descriptor::{FileName, parse_file_name};
use cassette_sstable::header_schema::{KeyNames, columns_of_header, merge_headers, with_stored_types};
use cassette_sstable::statistics::Statistics;
use cassette_vfs::DirEntry;
use hashbrown::{HashMap, HashSet};
use uuid::Uuid;

use crate::admin::snapshots;
use crate::basics::error::{EngineError, Result};
use crate::log::commitlog::unclaimed;
use crate::log::drop_records::DropState;
use crate::store::core::Core;
use crate::store::table::Table;

/// Data of a table, or of an index's hidden table, that is missing in the schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnknownTable {
    /// Its keyspace; empty if only log records exist.
    pub keyspace: String,
    /// Its name; empty if only log records exist.
    pub table: String,
    /// Its id; `None` for an index, whose directory name has no id.
    pub id: Option<TableId>,
    /// The index, if the directory is that of an index's hidden table.
    pub index: Option<String>,
    /// The directory of its SSTables; `None` if only log records exist.
    pub directory: Option<PathBuf>,
    /// The number of SSTables in the directory, including those of its indexes.
    pub sstables: u64,
    /// Bytes of all files in the directory but snapshots and backups.
    pub bytes: u64,
    /// Commit log segments kept for it.
    pub log_segments: u64,
    /// Bytes of these segments, which may contain records of other tables, too.
    pub log_bytes: u64,
}

impl UnknownTable {
    fn with_directory(self, path: PathBuf, size: Size) -> Self {
        Self { directory: Some(path), sstables: size.sstables, bytes: size.bytes, ..self }
    }

    fn with_log(self, log: Option<&unclaimed::UnclaimedLog>) -> Self {
        let (log_segments, log_bytes) = log.map_or((0, 0), |log| (log.segments.len() as u64, log.bytes()));
        Self { log_segments, log_bytes, ..self }
    }
}

/// The files of a directory, including those of indexes below it and excluding snapshots and
/// backups.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    files: u64,
    sstables: u64,
    bytes: u64,
}

impl Core {
    /// See [`Engine::unknown_tables`](crate::Engine::unknown_tables).
    pub fn unknown_tables(&self) -> Result<Vec<UnknownTable>> {
        self.check_running()?;
        let found = self.find_unknown_tables()?;
        self.note_unknown(&found);
        Ok(found)
    }

    /// Updates the metrics of unknown tables.
    fn note_unknown(&self, found: &[UnknownTable]) {
        let bytes = found.iter().map(|unknown| unknown.bytes + unknown.log_bytes).sum();
        self.unknown_tables.store(found.len() as u64, Ordering::Relaxed);
        self.unknown_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Lists data that neither the schema nor a drop record covers. Directories without files are
    /// skipped, unless log records of their table are kept.
    pub fn find_unknown_tables(&self) -> Result<Vec<UnknownTable>> {
        let tables = self.tables.load();
        let root = self.directory.tables();
        let dropped: HashSet<PathBuf> =
            self.drops.all().into_iter().map(|(_, record)| root.join(record.path)).collect();
        let in_use: HashSet<&Path> = tables.values().map(|table| table.directory.as_path()).collect();
        let mut logs: HashMap<TableId, unclaimed::UnclaimedLog> = self
            .list_unclaimed()?
            .into_iter()
            .map(|log| (TableId(Uuid::from_u128(log.table)), log))
            .filter(|(id, _)| !tables.contains_key(id))
            .collect();
        let mut found = Vec::new();
        for keyspace in self.directories(&root)? {
            for name in self.directories(&root.join(&keyspace))? {
                let path = root.join(&keyspace).join(&name);
                let Some((table, id)) = name.rsplit_once('-') else { continue };
                let Ok(id) = Uuid::try_parse(id).map(TableId) else { continue };
                let unknown = UnknownTable {
                    keyspace: keyspace.clone(),
                    table: table.to_owned(),
                    ..UnknownTable::default()
                };
                if tables.contains_key(&id) {
                    let is_known = |path: &Path| in_use.contains(path) || dropped.contains(path);
                    self.find_unknown_indexes(&path, is_known, &unknown, &mut found)?;
                    continue;
                }
                let size = self.size(&path)?;
                let log = logs.remove(&id);
                if !dropped.contains(&path) && (size.files > 0 || log.is_some()) {
                    let unknown = UnknownTable { id: Some(id), ..unknown };
                    found.push(unknown.with_directory(path, size).with_log(log.as_ref()));
                }
            }
        }
        let mut without_directory: Vec<_> = logs
            .into_iter()
            .map(|(id, log)| UnknownTable { id: Some(id), ..UnknownTable::default() }.with_log(Some(&log)))
            .collect();
        without_directory.sort_by_key(|unknown| unknown.id);
        found.extend(without_directory);
        Ok(found)
    }

    /// Adds the hidden tables of indexes in a table's directory that are not known.
    fn find_unknown_indexes(
        &self,
        directory: &Path,
        is_known: impl Fn(&Path) -> bool,
        of_table: &UnknownTable,
        found: &mut Vec<UnknownTable>,
    ) -> Result<()> {
        for index in self.directories(directory)?.iter().filter_map(|name| name.strip_prefix('.')) {
            let path = directory.join(format!(".{index}"));
            if is_known(&path) {
                continue;
            }
            let size = self.size(&path)?;
            if size.files > 0 {
                let unknown = UnknownTable { index: Some(index.to_owned()), ..of_table.clone() };
                found.push(unknown.with_directory(path, size));
            }
        }
        Ok(())
    }

    fn list_unclaimed(&self) -> Result<Vec<unclaimed::UnclaimedLog>> {
        let directory = self.directory.commitlog();
        unclaimed::list(self.fs.as_ref(), &directory)
            .map_err(|error| StorageError::io(&directory, "list the unclaimed segments of", error).into())
    }

    fn entries(&self, path: &Path) -> Result<Vec<DirEntry>> {
        self.fs.read_dir(path).map_err(|error| StorageError::io(path, "list", error).into())
    }

    fn directories(&self, path: &Path) -> Result<Vec<String>> {
        let entries = self.entries(path)?;
        Ok(entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect())
    }

    fn size(&self, path: &Path) -> Result<Size> {
        let mut size = Size::default();
        for entry in self.entries(path)? {
            if entry.is_dir {
                if entry.name.starts_with('.') {
                    let below = self.size(&path.join(&entry.name))?;
                    size.files += below.files;
                    size.sstables += below.sstables;
                    size.bytes += below.bytes;
                }
                continue;
            }
            size.files += 1;
            size.bytes += entry.len;
            let is_data =
                matches!(parse_file_name(&entry.name), Some(FileName::Known(_, _, Component::Data)));
            size.sstables += u64::from(is_data);
        }
        Ok(size)
    }

    /// Resolves the intents of an interrupted process by the schema: void if it contains the table,
    /// or if it cannot be trusted. Returns those to commit: their tables are dropped.
    pub fn resolve_intents(&self) -> Result<Vec<(TableId, String)>> {
        let tables = self.tables.load();
        let records = self.drops.all();
        let names_table = |id: &TableId| tables.contains_key(id);
        for (id, record) in &records {
            if names_table(id) && record.state != DropState::Intended {
                tracing::warn!(table = %id.0, path = record.path,
                    "the schema names a table that was dropped: its drop record is void");
            }
        }
        let mut intended: Vec<_> = records
            .into_iter()
            .filter(|(id, record)| record.state == DropState::Intended && !names_table(id))
            .collect();
        // An intent does not prove a drop. Only a complete schema does, and one that lost another
        // table is not complete.
        let is_trusted = intended.is_empty() || (self.may_remove() && self.find_unknown_tables()?.is_empty());
        if !is_trusted {
            for (id, record) in intended.drain(..) {
                tracing::warn!(table = %id.0, path = record.path,
                    "a DROP was interrupted and it is unknown whether it took effect: the table's files are kept");
            }
        }
        let is_committed = |id: TableId| intended.iter().any(|(other, _)| *other == id);
        self.drops.forget(|id, record| {
            tables.contains_key(&id) || (record.state == DropState::Intended && !is_committed(id))
        })?;
        Ok(intended.into_iter().map(|(id, record)| (id, record.path)).collect())
    }

    /// Whether files may be removed in this start: the schema is complete as far as that can be
    /// determined.
    pub fn may_remove(&self) -> bool {
        let is_complete = |table: &Arc<Table>| {
            let view = table.view();
            view.unreadable.is_empty() && view.quarantined.is_empty()
        };
        !self.schema_incomplete.load(Ordering::Relaxed)
            && !self.log_damage_skipped.load(Ordering::Relaxed)
            && self.tables.load().values().all(is_complete)
    }

    /// Replays the kept log records of the tables that are known by now, and removes those that a
    /// drop record covers. The log is open, and nothing else uses the tables.
    pub fn settle_unclaimed(self: &Arc<Self>) -> Result<()> {
        let tables = self.tables.load();
        for kept in self.list_unclaimed()? {
            let id = TableId(Uuid::from_u128(kept.table));
            if let Some(table) = tables.get(&id) {
                self.claim_log(table, true)?;
            } else if self.drops.get(id).is_some() && self.may_remove() {
                self.remove_unclaimed(id)?;
            }
        }
        Ok(())
    }

    /// Returns the highest id of a kept segment.
    pub fn last_unclaimed_segment(&self) -> Result<u64> {
        let kept = self.list_unclaimed()?;
        Ok(kept.iter().flat_map(|log| log.segments.iter().map(|(id, _, _)| *id)).max().unwrap_or(0))
    }

    pub fn remove_unclaimed(&self, id: TableId) -> Result<()> {
        let directory = self.directory.commitlog();
        unclaimed::remove(self.fs.as_ref(), &directory, id.0.as_u128()).map_err(|error| {
            StorageError::io(&directory, "remove the unclaimed segments of a table from", error).into()
        })
    }

    /// Removes the files of tables whose drop is committed, and forgets records that the log does
    /// not need any more. A failure is logged: the next start tries again.
    pub fn finish_drops(&self) -> Vec<PathBuf> {
        let mut removed = Vec::new();
        if !self.may_remove() {
            return removed;
        }
        let root = self.directory.tables();
        for (id, record) in self.drops.all() {
            if record.state != DropState::Committed {
                continue;
            }
            let path = root.join(&record.path);
            // An index created later under the same name uses the same directory, which was emptied
            // for it.
            if self.tables.load().values().any(|table| table.directory == path) {
                self.drops.removed(id);
                continue;
            }
            let exists = self.fs.exists(&path).map_err(|e| StorageError::io(&path, "look for", e));
            match exists.and_then(|exists| {
                if exists { snapshots::remove_table_files(self.fs.as_ref(), &path) } else { Ok(false) }
            }) {
                Ok(true) => {
                    tracing::info!(path = %path.display(), "removed the files of a dropped table");
                    removed.push(path);
                    self.drops.removed(id);
                }
                Ok(false) => self.drops.removed(id),
                Err(error) => {
                    tracing::warn!(%error, "files of a dropped table stay until the next start");
                }
            }
        }
        if let Err(error) = self.forget_finished_drops() {
            tracing::warn!(%error, "drop records stay longer than they are needed");
        }
        removed
    }

    /// Removes the records of tables whose files are removed and of which the log has no segment
    /// any more.
    pub fn forget_finished_drops(&self) -> Result<()> {
        let kept = self.list_unclaimed()?;
        let kept = kept.iter().flat_map(|log| log.segments.iter().map(|(id, _, _)| *id)).min();
        let log = self.log.load().as_ref().and_then(|log| log.oldest_segment());
        let oldest = kept.into_iter().chain(log).min();
        self.drops.forget(|_, record| {
            record.state == DropState::Removed && oldest.is_none_or(|oldest| record.ends.segment < oldest)
        })?;
        Ok(())
    }

    /// Reports every unknown table once, and removes directories of an incomplete CREATE: those
    /// without files. Returns the ids of unknown tables.
    pub fn report_unknown_tables(&self) -> Result<HashSet<TableId>> {
        let found = self.find_unknown_tables()?;
        for unknown in &found {
            tracing::warn!(
                path = unknown.directory.as_deref().unwrap_or(Path::new("")).display().to_string(),
                table_id = unknown.id.map(|id| id.0.to_string()).unwrap_or_default(),
                sstables = unknown.sstables,
                bytes = unknown.bytes,
                log_segments = unknown.log_segments,
                "data of a table that the schema does not name is kept: restore system_schema, or see `cassette \
                 nodetool unknowntables`"
            );
        }
        self.note_unknown(&found);
        if self.may_remove() {
            self.remove_empty_directories(&found)?;
        }
        Ok(found.iter().filter_map(|unknown| unknown.id).collect())
    }

    fn remove_empty_directories(&self, unknown: &[UnknownTable]) -> Result<()> {
        let tables = self.tables.load();
        let root = self.directory.tables();
        for keyspace in self.directories(&root)? {
            for name in self.directories(&root.join(&keyspace))? {
                let path = root.join(&keyspace).join(&name);
                let id = name.rsplit_once('-').and_then(|(_, id)| Uuid::try_parse(id).ok()).map(TableId);
                let is_unused = id.is_some_and(|id| !tables.contains_key(&id))
                    && unknown.iter().all(|unknown| unknown.directory.as_ref() != Some(&path));
                if is_unused {
                    snapshots::remove_if_empty(self.fs.as_ref(), &path)?;
                }
            }
        }
        Ok(())
    }

    /// See [`Engine::unknown_table_columns`](crate::Engine::unknown_table_columns).
    pub fn unknown_table_columns(
        &self,
        unknown: &UnknownTable,
        key_names: KeyNames<'_>,
    ) -> Result<Vec<ColumnMetadata>> {
        let Some(directory) = &unknown.directory else { return Ok(Vec::new()) };
        let mut headers = Vec::new();
        for descriptor in self.data_files(directory)? {
            let path = descriptor.path(Component::Statistics);
            let bytes = self.fs.read(&path).map_err(|error| StorageError::io(&path, "read", error))?;
            let decoded = Statistics::decode_version(&bytes, descriptor.version);
            let header = decoded.map_err(|malformed| malformed.at(&path))?.header;
            headers.push(with_stored_types(header, descriptor.version));
        }
        let columns = merge_headers(headers).and_then(|header| match header {
            Some(header) => columns_of_header(&header, key_names),
            None => Ok(Vec::new()),
        });
        Ok(columns.map_err(|detail| StorageError::corrupt(directory, detail))?)
    }

    /// See [`Engine::snapshot_schema`](crate::Engine::snapshot_schema).
    pub fn snapshot_schema(&self, unknown: &UnknownTable) -> Result<Option<String>> {
        let of_table =
            |snapshot: &crate::Snapshot| snapshot.table_id.is_some() && snapshot.table_id == unknown.id;
        let mut snapshots = self.list_snapshots()?;
        snapshots.retain(of_table);
        snapshots.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.created_at_millis));
        for snapshot in snapshots {
            if let Some(text) = self.schema_file(&snapshot.directory)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// See [`Engine::schema_file`](crate::Engine::schema_file).
    pub fn schema_file(&self, directory: &Path) -> Result<Option<String>> {
        let path = directory.join("schema.cql");
        match self.fs.read(&path) {
            Ok(text) if !text.is_empty() => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::io(&path, "read", error).into()),
        }
    }

    /// See [`Engine::remove_unknown_table`](crate::Engine::remove_unknown_table).
    pub fn remove_unknown_table(&self, unknown: &UnknownTable) -> Result<()> {
        self.check_running()?;
        let _changing = self.changing_tables.lock();
        // The caller's copy may be outdated: a table created since uses its directory.
        let still_unknown = self.find_unknown_tables()?.into_iter().any(|found| {
            (found.id, &found.index, &found.directory) == (unknown.id, &unknown.index, &unknown.directory)
        });
        let log = self.log.load_full().ok_or(EngineError::Recovering)?;
        let nil = TableId(Uuid::nil());
        if !still_unknown {
            return Err(EngineError::UnknownTable(unknown.id.unwrap_or(nil)));
        }
        // The directory of an index has no id in its name: any other unique id identifies the
        // record.
        let id = unknown.id.unwrap_or_else(|| TableId(self.time_uuid()));
        if let Some(directory) = &unknown.directory {
            let path = self.directory.relative(directory);
            self.drops.commit(std::iter::once((id, path)), log.position())?;
            snapshots::remove_table_files(self.fs.as_ref(), directory)?;
            self.drops.removed(id);
        }
        self.remove_unclaimed(id)?;
        log.forget_table(id.0.as_u128());
        self.positions.retain(|other| other != id)?;
        self.note_unknown(&self.find_unknown_tables()?);
        Ok(())
    }
}
