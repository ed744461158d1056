//! Tables: creation, alteration, removal; data of tables that the schema does not name.

use std::path::Path;
use std::sync::Arc;

use cassette_rows::{ColumnKind, ColumnMetadata, TableId, TableMetadata};

use super::Engine;
use crate::admin::unknown_tables::UnknownTable;
use crate::basics::error::Result;

impl Engine {
    /// Creates the table, or opens it if its directory exists. Allowed before and after recovery.
    /// The table of an index starts empty after recovery, whatever an earlier index of its name
    /// left.
    pub fn create_table(&self, table: Arc<TableMetadata>) -> Result<()> {
        self.create_tables(&[table])
    }

    /// [Creates or opens](Self::create_table) many tables, with far fewer syncs than one after the
    /// other. After an error none of them exists, except for directories.
    pub fn create_tables(&self, tables: &[Arc<TableMetadata>]) -> Result<()> {
        self.inner.core.create_tables(tables)
    }

    /// Replaces the known version of a table by a later one.
    pub fn alter_table(&self, table: Arc<TableMetadata>) -> Result<()> {
        self.inner.core.alter_table(table)
    }

    /// Sets whether the writes of a table go to the commit log; they do by default. Writes that do
    /// not are lost if the process dies before their memtable is flushed. [`close`](Self::close)
    /// flushes it, and so does this function when writes become durable: from then on nothing in
    /// the table is lost. After an error the setting is unchanged.
    pub fn set_durable_writes(&self, id: TableId, durable: bool) -> Result<()> {
        self.inner.core.set_durable_writes(id, durable)
    }

    /// Durably records that tables are about to be dropped. Call it before the schema change
    /// becomes durable: after a crash the next start removes the files of those that the schema no
    /// longer names, and of no others.
    ///
    /// # Errors
    /// If one of them does not exist, or the records cannot be written; then nothing is recorded.
    pub fn intend_drops(&self, ids: &[TableId]) -> Result<()> {
        self.inner.core.intend_drops(ids)
    }

    /// Reverts [`intend_drops`](Self::intend_drops) after the schema change failed. No-op if the
    /// commit log has failed: it is unknown whether the change is durable, and the next start finds
    /// out.
    pub fn cancel_drops(&self, ids: &[TableId]) {
        self.inner.core.cancel_drops(ids);
    }

    /// Removes tables and their data; their snapshots stay. The schema must no longer name them.
    /// List the tables of indexes before their base table. A durable record names the tables before
    /// any file is removed.
    ///
    /// # Errors
    /// After an error the tables are out of use, and the next start removes the rest of their
    /// files.
    pub fn drop_tables(&self, ids: &[TableId]) -> Result<()> {
        self.inner.core.drop_tables(ids)
    }

    /// [Drops](Self::drop_tables) one table.
    pub fn drop_table(&self, id: TableId) -> Result<()> {
        self.drop_tables(&[id])
    }

    /// Reverts [`create_tables`](Self::create_tables) after the schema change failed. Removes empty
    /// directories; files of a table that existed before stay.
    pub fn discard_tables(&self, ids: &[TableId]) -> Result<()> {
        self.inner.core.discard_tables(ids)
    }

    /// Removes a table's data atomically; its snapshots stay.
    pub fn truncate(&self, id: TableId) -> Result<()> {
        self.inner.core.truncate(id, None)
    }

    /// Truncates a table as [`truncate`](Self::truncate) does, and keeps the removed data, if there
    /// is any, in a snapshot `truncated-<milliseconds>-<table>` with `schema` as its schema.cql.
    pub fn truncate_with_snapshot(&self, id: TableId, schema: &str) -> Result<()> {
        self.inner.core.truncate(id, Some(schema))
    }

    /// Takes a snapshot `dropped-<milliseconds>-<table>` of a table that is about to be dropped, if
    /// it has any data.
    pub fn snapshot_before_drop(&self, id: TableId, schema: &str) -> Result<()> {
        self.inner.core.snapshot_before_drop(id, schema)
    }

    /// Returns all open tables, by keyspace and name.
    pub fn tables(&self) -> Vec<(TableId, Arc<TableMetadata>)> {
        self.inner.core.table_list()
    }

    /// Lists data of tables that were neither created nor dropped: the schema may have lost their
    /// rows. To adopt such a table, [create](Self::create_table) it with its keyspace, name and id;
    /// log records that were kept for it are applied.
    pub fn unknown_tables(&self) -> Result<Vec<UnknownTable>> {
        self.inner.core.unknown_tables()
    }

    /// Returns the columns of an unknown table from the serialization headers of its SSTables; none
    /// without an SSTable. Headers do not name key columns: `key_names` does, by kind and position.
    pub fn unknown_table_columns(
        &self,
        unknown: &UnknownTable,
        key_names: &dyn Fn(ColumnKind, usize) -> String,
    ) -> Result<Vec<ColumnMetadata>> {
        self.inner.core.unknown_table_columns(unknown, key_names)
    }

    /// Returns the `schema.cql` of the newest snapshot of an unknown table.
    pub fn snapshot_schema(&self, unknown: &UnknownTable) -> Result<Option<String>> {
        self.inner.core.snapshot_schema(unknown)
    }

    /// Returns the `schema.cql` in a directory, such as that of a snapshot; `None` if it is missing
    /// or empty.
    pub fn schema_file(&self, directory: &Path) -> Result<Option<String>> {
        self.inner.core.schema_file(directory)
    }

    /// Removes the data of an unknown table; its snapshots stay.
    ///
    /// # Errors
    /// [`EngineError::UnknownTable`] if it has been created or removed since it was listed.
    pub fn remove_unknown_table(&self, unknown: &UnknownTable) -> Result<()> {
        self.inner.core.remove_unknown_table(unknown)
    }
}
