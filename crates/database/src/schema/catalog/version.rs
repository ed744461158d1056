//! The schema version: a digest of all user-defined objects.

use std::sync::Arc;

use md5::{Digest, Md5};
use uuid::{Builder, Uuid};

use super::{Keyspace, KeyspaceKind};

/// Returns the schema version, equal for equal schemas, also after a restart. It differs from
/// Cassandra's digest: versions are compared only among the nodes of a cluster, and this node is
/// the only one.
pub(crate) fn schema_version<'a>(keyspaces: impl Iterator<Item = &'a Arc<Keyspace>>) -> Uuid {
    let mut digest = Md5::new();
    let mut put = |text: &str| {
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text.as_bytes());
    };
    for keyspace in keyspaces.filter(|keyspace| keyspace.kind != KeyspaceKind::Virtual) {
        put(&keyspace.name);
        put(&format!("{:?}", keyspace.params));
        for user_type in keyspace.types.values() {
            put(&format!("{user_type:?}"));
        }
        for function in keyspace.functions.values() {
            put(&format!("{function:?}"));
        }
        for aggregate in keyspace.aggregates.values() {
            put(&format!("{aggregate:?}"));
        }
        for index in keyspace.indexes.values() {
            put(&format!("{} {:?} {:?}", index.name, index.storage.id, index.options));
        }
        for table in keyspace.tables.values() {
            put(&format!("{:?} {} {:?} {:?}", table.id, table.name, table.params, table.dropped_columns));
            if table.layout.is_compact() {
                put(&format!("{:?}", table.layout));
            }
            // Ids, and so the order of columns, are assigned per process.
            let mut columns: Vec<_> = table.all_columns().collect();
            columns.sort_by_key(|column| &column.name);
            for column in columns {
                put(&format!(
                    "{} {:?} {} {} {}",
                    column.name, column.kind, column.position, column.data_type, column.reversed
                ));
            }
        }
    }
    Builder::from_md5_bytes(digest.finalize().into()).into_uuid()
}
