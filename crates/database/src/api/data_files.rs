//! Tables as files: snapshots, imports, verification. The operations of `nodetool`, by table names.

use std::collections::HashSet;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use cassette_engine::{
    ImportOptions, ImportedSSTable, KeyRange, SSTableId, ScrubOptions, ScrubbedSSTable, Snapshot,
    SnapshotFilter, SnapshotOptions, SplitSSTable, VerifiedSSTable,
};
use cassette_rows::{PartitionStream, Selection, TableId, TableMetadata, Token};
use cassette_vfs::FileId;

use crate::api::database::Database;
use crate::basics::error::{DatabaseError, Result};
use crate::execution::describe;
use crate::schema::catalog::KeyspaceKind;
use crate::statements::builds::build_index;
use crate::store::indexes;

impl Database {
    /// Takes a snapshot of the tables specified as `keyspace` or `keyspace.table`, or of all: of
    /// all specified tables, or of none after an error.
    pub fn snapshot(&self, names: &[String], options: &SnapshotOptions<'_>) -> Result<Vec<Snapshot>> {
        let tables: Vec<(TableId, String)> =
            self.named_tables(names)?.iter().map(|table| (table.id, self.schema_cql(table))).collect();
        self.engine().snapshot(&tables, options).map_err(DatabaseError::of_operation)
    }

    /// Returns the tables with files that are specified as `keyspace` or `keyspace.table`; all if
    /// no name is specified.
    ///
    /// # Errors
    /// [`DatabaseError::Invalid`] for a name that does not exist.
    #[doc(hidden)]
    pub fn named_tables(&self, names: &[String]) -> Result<Vec<Arc<TableMetadata>>> {
        let mut tables: Vec<Arc<TableMetadata>> = Vec::new();
        let catalog = self.catalog();
        let stored = catalog.keyspaces().filter(|keyspace| keyspace.kind != KeyspaceKind::Virtual);
        if names.is_empty() {
            tables.extend(stored.flat_map(|keyspace| keyspace.tables.values().cloned()));
        }
        for name in names {
            match name.split_once('.') {
                Some((keyspace, table)) => tables.push(self.stored_table(keyspace, table)?),
                None => match catalog.keyspace(name) {
                    Some(keyspace) if keyspace.kind != KeyspaceKind::Virtual => {
                        tables.extend(keyspace.tables.values().cloned());
                    }
                    Some(_) => {
                        let detail = format!("Cannot perform any operations against virtual keyspace {name}");
                        return Err(DatabaseError::invalid(detail));
                    }
                    None => return Err(DatabaseError::invalid(format!("Keyspace {name} does not exist"))),
                },
            }
        }
        // Some tables of `system` are computed, and have no files.
        tables.retain(|table| !catalog.is_virtual(table));
        Ok(tables)
    }

    /// Returns the rows of partitions with tokens above `start`, up to `end`, merged from memtables
    /// and SSTables: reconciled, with deletions and expired cells, as a SELECT reads them.
    #[doc(hidden)]
    pub fn stored_rows(
        &self,
        table: &TableMetadata,
        start: Token,
        end: Token,
    ) -> Result<Box<dyn PartitionStream>> {
        let range = KeyRange::tokens(Bound::Excluded(start), Bound::Included(end));
        self.engine().scan_once(table.id, &range, &Selection::all()).map_err(DatabaseError::of_operation)
    }

    /// Returns the files with the rows of [`stored_rows`](Self::stored_rows); see
    /// [`Engine::data_files`](cassette_engine::Engine::data_files).
    #[doc(hidden)]
    pub fn stored_files(
        &self,
        table: &TableMetadata,
        start: Token,
        end: Token,
    ) -> Result<Option<HashSet<FileId>>> {
        let range = KeyRange::tokens(Bound::Excluded(start), Bound::Included(end));
        self.engine().data_files(table.id, &range).map_err(DatabaseError::of_operation)
    }

    /// Returns all snapshots, including those of dropped tables.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.engine().snapshots().map_err(DatabaseError::of_operation)
    }

    /// Removes snapshots, and returns those removed.
    pub fn clear_snapshots(&self, filter: &SnapshotFilter<'_>) -> Result<Vec<Snapshot>> {
        self.engine().clear_snapshots(filter).map_err(DatabaseError::of_operation)
    }

    /// Imports all SSTables of a directory into a table, or none; see
    /// [`Engine::import`](cassette_engine::Engine::import).
    pub fn import(
        &self,
        keyspace: &str,
        table: &str,
        directory: &Path,
        options: &ImportOptions,
    ) -> Result<Vec<ImportedSSTable>> {
        let table = self.stored_table(keyspace, table)?;
        self.take_in(&table, false, || self.engine().import(table.id, directory, options))
    }

    /// Replaces the rows of a table by the SSTables of a directory, or changes nothing; see
    /// [`Engine::replace`](cassette_engine::Engine::replace). Takes a snapshot of the earlier rows
    /// where TRUNCATE does.
    #[doc(hidden)]
    pub fn replace(
        &self,
        keyspace: &str,
        table: &str,
        directory: &Path,
        options: &ImportOptions,
    ) -> Result<Vec<ImportedSSTable>> {
        let table = self.stored_table(keyspace, table)?;
        let keep = self.store().leaves_snapshot(&table).then(|| self.schema_cql(&table));
        let engine = self.engine();
        self.take_in(&table, true, || engine.replace(table.id, directory, options, keep.as_deref()))
    }

    /// Imports the SSTables that were added to a table's own directory; see
    /// [`Engine::refresh`](cassette_engine::Engine::refresh).
    #[doc(hidden)]
    pub fn refresh(&self, keyspace: &str, table: &str) -> Result<Vec<ImportedSSTable>> {
        let table = self.stored_table(keyspace, table)?;
        self.take_in(&table, false, || self.engine().refresh(table.id))
    }

    /// Verifies the SSTables of a table; see [`Engine::verify`](cassette_engine::Engine::verify).
    #[doc(hidden)]
    pub fn verify(&self, keyspace: &str, table: &str, extended: bool) -> Result<Vec<VerifiedSSTable>> {
        let table = self.stored_table(keyspace, table)?;
        self.engine().verify(table.id, extended).map_err(DatabaseError::of_operation)
    }

    /// Rewrites the readable contents of a table's SSTables, after a snapshot if `snapshot` is set;
    /// see [`Engine::scrub`](cassette_engine::Engine::scrub).
    #[doc(hidden)]
    pub fn scrub(
        &self,
        keyspace: &str,
        table: &str,
        options: &ScrubOptions,
        snapshot: bool,
    ) -> Result<Vec<ScrubbedSSTable>> {
        let table = self.stored_table(keyspace, table)?;
        let schema = snapshot.then(|| self.schema_cql(&table));
        self.engine().scrub(table.id, options, schema.as_deref()).map_err(DatabaseError::of_operation)
    }

    /// Splits SSTables of a table that are larger than `size` bytes, after a snapshot of them if
    /// `snapshot` is set; see [`Engine::split`](cassette_engine::Engine::split).
    #[doc(hidden)]
    pub fn split(
        &self,
        keyspace: &str,
        table: &str,
        sstables: &[SSTableId],
        size: u64,
        snapshot: bool,
    ) -> Result<Vec<SplitSSTable>> {
        let table = self.stored_table(keyspace, table)?;
        let schema = snapshot.then(|| self.schema_cql(&table));
        let split = self.engine().split(table.id, sstables, size, schema.as_deref());
        split.map_err(DatabaseError::of_operation)
    }

    /// Adds SSTables to a table by `take`, and rebuilds its indexes if any were added. After a
    /// crash in between, the next start rebuilds them: they are marked as not built before the
    /// first SSTable is added. If they `replace` the table's rows, the entries of these are
    /// removed.
    fn take_in(
        &self,
        table: &TableMetadata,
        replace: bool,
        take: impl FnOnce() -> cassette_engine::Result<Vec<ImportedSSTable>>,
    ) -> Result<Vec<ImportedSSTable>> {
        // Indexes are neither created nor dropped meanwhile.
        let _changing = self.store().lock_schema();
        let catalog = self.catalog();
        if catalog.is_view(table) || !catalog.views_of(table.id).is_empty() {
            return Err(DatabaseError::Invalid(format!(
                "SSTables cannot be taken into {}: its materialized views, or its base if it is one, would not follow. \
                 Drop the views, take the SSTables in, and make the views again",
                table.qualified_name()
            )));
        }
        let indexes = catalog.indexes_of(table.id);
        if let Some(index) = indexes.iter().find(|index| !self.store().is_built(index)) {
            let (name, table) = (&index.name, table.qualified_name());
            let detail =
                format!("Index {name} of {table} is being built: SSTables can be taken in when it is done");
            return Err(DatabaseError::invalid(detail));
        }
        for index in indexes {
            indexes::unbuild(self.store(), index)?;
        }
        let taken = take().map_err(DatabaseError::of_operation);
        // A replacement can fail after it has replaced the rows.
        let has_changed = taken.as_ref().map_or(replace, |taken| replace || !taken.is_empty());
        for index in indexes {
            if has_changed
                && replace
                && let Err(error) = self.engine().truncate(index.storage.id)
            {
                // Readers ignore entries without a row.
                tracing::warn!(%error, index = index.name, "entries of replaced rows stay in an index");
            }
            if has_changed {
                self.store().build_states().index(index).start_over();
                build_index(self.store(), index);
            } else {
                indexes::mark_built(self.store(), index)?;
            }
        }
        taken
    }

    /// Returns a table with files. The errors have Cassandra's words.
    fn stored_table(&self, keyspace: &str, table: &str) -> Result<Arc<TableMetadata>> {
        let catalog = self.catalog();
        let Some(found) = catalog.keyspace(keyspace) else {
            return Err(DatabaseError::invalid(format!("Keyspace {keyspace} does not exist")));
        };
        if found.kind == KeyspaceKind::Virtual {
            let detail = format!("Cannot perform any operations against virtual keyspace {keyspace}");
            return Err(DatabaseError::invalid(detail));
        }
        match found.tables.get(table) {
            Some(table) => Ok(table.clone()),
            None => Err(DatabaseError::invalid(format!("Unknown keyspace/cf pair ({keyspace}.{table})"))),
        }
    }

    /// Returns the contents of schema.cql in the table's snapshots.
    fn schema_cql(&self, table: &Arc<TableMetadata>) -> String {
        describe::schema_cql_of(&self.catalog(), table)
    }
}
