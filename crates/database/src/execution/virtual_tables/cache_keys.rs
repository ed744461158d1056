//! `system_views.…_cache_keys`: the roles in caches. Deleting a row removes its entry.

use std::sync::Arc;

use cassette_engine::Mutation;
use cassette_rows::{DecoratedKey, PartitionUpdate, TableMetadata, key};

use super::VirtualTable;
use crate::basics::error::{Result, bail_invalid};
use crate::schema::authorization::AuthCacheKind;
use crate::schema::system::encode::{row_update, text_key};
use crate::store::Store;

/// The table of the keys of a cache.
#[derive(Debug)]
pub(super) struct CacheKeys(pub AuthCacheKind);

impl CacheKeys {
    /// Returns its CREATE TABLE and its comment.
    pub fn definition(&self) -> (String, &'static str) {
        let (key, comment) = match self.0 {
            AuthCacheKind::Credentials => ("role", "keys in the credentials cache"),
            AuthCacheKind::Permissions => ("(role, resource)", "keys in the permissions cache"),
            AuthCacheKind::Roles => ("role", "keys in the roles cache"),
            AuthCacheKind::NetworkPermissions => ("role", "keys in the network permissions cache"),
            AuthCacheKind::JmxPermissions => ("role", "keys in the JMX permissions cache"),
        };
        let resource = if self.0 == AuthCacheKind::Permissions { ", resource text" } else { "" };
        let name = self.0.table_name();
        (format!("CREATE TABLE {name} (role text{resource}, PRIMARY KEY ({key}))"), comment)
    }
}

impl VirtualTable for CacheKeys {
    fn partitions(&self, table: &Arc<TableMetadata>, store: &Store) -> Vec<PartitionUpdate> {
        let keys = store.authorization().cached_keys(self.0, store.clock().monotonic());
        let partition = |(role, resource): (Box<str>, Option<Box<str>>)| {
            let key = match resource {
                None => text_key(&role),
                Some(resource) => {
                    DecoratedKey::new(key::compose([role.as_bytes(), resource.as_bytes()].into_iter())?)
                }
            };
            let mut partition = PartitionUpdate::new(key);
            partition.add_row(row_update(table, &[], &[], 1), table);
            Some(partition)
        };
        keys.into_iter().filter_map(partition).collect()
    }
}

/// Removes the entries whose rows are deleted. Removing one permission removes all of its role,
/// which are one entry.
///
/// # Errors
/// Invalid, for changes that are not deletions.
pub(super) fn delete_keys(kind: AuthCacheKind, mutations: &[Mutation], store: &Store) -> Result<()> {
    for Mutation { table, update } in mutations {
        let is_deleted = !update.deletion.is_live();
        if !is_deleted && !update.rows.iter().all(|row| !row.deletion().is_live()) {
            bail_invalid!("Column modification is not supported by table {}", table.qualified_name());
        }
        let count = table.partition_key.len();
        let role = match count {
            1 => Some(update.key.key()),
            _ => key::components(update.key.key(), count).and_then(|parts| parts.first().copied()),
        };
        if let Some(role) = role.and_then(|role| std::str::from_utf8(role).ok()) {
            store.authorization().invalidate_role(kind, role);
        }
    }
    Ok(())
}
