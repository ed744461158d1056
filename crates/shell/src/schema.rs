//! The schema as the server reports it: for completion, colors and COPY.

use std::collections::BTreeMap;

use crate::error::{Result, command};
use crate::session::Session;

/// A column of a table or view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The role.
    pub kind: ColumnKind,
    /// The type as CQL.
    pub data_type: String,
    position: i64,
}

impl Column {
    /// Creates a column for tests of its users.
    #[cfg(test)]
    pub fn new(name: &str, kind: ColumnKind, data_type: &str) -> Self {
        Self { name: name.to_owned(), kind, data_type: data_type.to_owned(), position: -1 }
    }
}

/// The role of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColumnKind {
    /// A part of the partition key.
    PartitionKey,
    /// A part of the clustering.
    Clustering,
    /// Static.
    Static,
    /// All others.
    Regular,
}

/// The names in a keyspace.
#[derive(Clone, Debug, Default)]
pub struct Keyspace {
    /// Tables and views with their columns, in the order of cqlsh: keys first, then by name.
    pub tables: BTreeMap<String, Vec<Column>>,
    /// User-defined types.
    pub types: Vec<String>,
    /// Indexes.
    pub indexes: Vec<String>,
    /// User-defined functions and aggregates.
    pub functions: Vec<String>,
    /// The replication, as written in CREATE KEYSPACE.
    pub replication: BTreeMap<String, String>,
}

/// The keyspaces.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// By name.
    pub keyspaces: BTreeMap<String, Keyspace>,
}

impl Schema {
    /// Reads the schema. What a server does not have, such as virtual tables, is absent.
    ///
    /// # Errors
    /// If the server refuses the queries.
    pub fn read(session: &mut Session) -> Result<Self> {
        let mut schema = Self::default();
        let keyspaces = session.query("SELECT keyspace_name, replication FROM system_schema.keyspaces")?;
        for row in 0..keyspaces.len() {
            let keyspace = schema.keyspaces.entry(keyspaces.text(row, "keyspace_name")).or_default();
            let map = keyspaces.cell(row, "replication").map(cassette_rows::types::collection::read_map);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            keyspace.replication = map.into_iter().flatten().map(|(k, v)| (text(k), text(v))).collect();
        }
        schema.read_columns(session, "system_schema")?;
        if schema.keyspaces.contains_key("system_virtual_schema") || schema.keyspaces.contains_key("system") {
            // Absent before Cassandra 4.0.
            let _ = schema.read_columns(session, "system_virtual_schema");
        }
        for (table, column) in [
            ("types", "type_name"),
            ("indexes", "index_name"),
            ("functions", "function_name"),
            ("aggregates", "aggregate_name"),
        ] {
            let rows =
                session.query(&format!("SELECT keyspace_name, {column} FROM system_schema.{table}"))?;
            for row in 0..rows.len() {
                let keyspace = schema.keyspaces.entry(rows.text(row, "keyspace_name")).or_default();
                let names = match table {
                    "types" => &mut keyspace.types,
                    "indexes" => &mut keyspace.indexes,
                    _ => &mut keyspace.functions,
                };
                names.push(rows.text(row, column));
            }
        }
        Ok(schema)
    }

    fn read_columns(&mut self, session: &mut Session, keyspace: &str) -> Result<()> {
        let columns = session.query(&format!(
            "SELECT keyspace_name, table_name, column_name, kind, position, type FROM {keyspace}.columns"
        ))?;
        for row in 0..columns.len() {
            let keyspace = self.keyspaces.entry(columns.text(row, "keyspace_name")).or_default();
            let table = keyspace.tables.entry(columns.text(row, "table_name")).or_default();
            table.push(Column {
                name: columns.text(row, "column_name"),
                kind: match columns.text(row, "kind").as_str() {
                    "partition_key" => ColumnKind::PartitionKey,
                    "clustering" => ColumnKind::Clustering,
                    "static" => ColumnKind::Static,
                    _ => ColumnKind::Regular,
                },
                data_type: columns.text(row, "type"),
                position: columns.number(row, "position").unwrap_or(-1),
            });
        }
        for table in self.keyspaces.values_mut().flat_map(|keyspace| keyspace.tables.values_mut()) {
            // Static columns are among the others, as in cqlsh.
            let rank = |column: &Column| column.kind.min(ColumnKind::Static);
            table.sort_by(|a, b| (rank(a), a.position, &a.name).cmp(&(rank(b), b.position, &b.name)));
        }
        Ok(())
    }

    /// Returns the columns of a table or view.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn table(&self, keyspace: &str, table: &str) -> Result<&[Column]> {
        let found = self.keyspaces.get(keyspace);
        let found = found.ok_or_else(|| command(format!("keyspace {keyspace} does not exist")))?;
        let columns = found.tables.get(table);
        columns.map(Vec::as_slice).ok_or_else(|| command(format!("table {keyspace}.{table} does not exist")))
    }
}
