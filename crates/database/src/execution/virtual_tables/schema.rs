//! `system_virtual_schema`: the schema of virtual tables, which drivers read in addition to
//! `system_schema`.

use std::sync::Arc;

use cassette_rows::{PartitionUpdate, TableMetadata};

use super::VirtualTable;
use crate::schema::catalog::{Keyspace, KeyspaceKind};
use crate::schema::system::encode::{row_update, text_key};
use crate::schema::system::schema_rows::column_values;
use crate::store::Store;

/// A table of `system_virtual_schema`.
#[derive(Debug)]
pub(crate) enum VirtualSchema {
    Keyspaces,
    Tables,
    Columns,
}

impl VirtualTable for VirtualSchema {
    fn partitions(&self, table: &Arc<TableMetadata>, store: &Store) -> Vec<PartitionUpdate> {
        let catalog = store.catalog();
        let keyspaces = catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::Virtual);
        keyspaces.map(|keyspace| self.partition_of(keyspace, table)).collect()
    }
}

impl VirtualSchema {
    fn partition_of(&self, keyspace: &Keyspace, table: &TableMetadata) -> PartitionUpdate {
        let mut partition = PartitionUpdate::new(text_key(&keyspace.name));
        let mut add = |clustering: &[&str], values: &[_]| {
            // Any write timestamp is valid, because rows of virtual tables are not merged.
            partition.add_row(row_update(table, clustering, values, 1), table);
        };
        match self {
            Self::Keyspaces => add(&[], &[]),
            Self::Tables => {
                for described in keyspace.tables.values() {
                    add(&[&described.name], &[("comment", described.params.comment.as_str().into())]);
                }
            }
            Self::Columns => {
                for described in keyspace.tables.values() {
                    for column in described.all_columns() {
                        add(&[&described.name, &column.name], &column_values(column));
                    }
                }
            }
        }
        partition
    }
}
