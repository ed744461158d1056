//! The caches of roles and permissions, by Cassandra's names.

use cassette_rows::TableMetadata;

/// A cache of what `system_auth` contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthCacheKind {
    /// The hashes of passwords.
    Credentials,
    /// The permissions of roles.
    Permissions,
    /// The roles that roles are granted.
    Roles,
    /// The data centers of roles.
    NetworkPermissions,
    /// The permissions on MBeans. Always empty, because there is no JMX.
    JmxPermissions,
}

impl AuthCacheKind {
    /// All kinds, in the order of their names.
    pub const ALL: [Self; 5] =
        [Self::Credentials, Self::JmxPermissions, Self::NetworkPermissions, Self::Permissions, Self::Roles];

    /// Returns the name as it is in `nodetool invalidate…cache`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Credentials => "credentials",
            Self::Permissions => "permissions",
            Self::Roles => "roles",
            Self::NetworkPermissions => "networkpermissions",
            Self::JmxPermissions => "jmxpermissions",
        }
    }

    /// Returns the kind with a name of [`name`](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the name of the table of its keys in `system_views`.
    pub(crate) fn table_name(self) -> &'static str {
        match self {
            Self::Credentials => "credentials_cache_keys",
            Self::Permissions => "permissions_cache_keys",
            Self::Roles => "roles_cache_keys",
            Self::NetworkPermissions => "network_permissions_cache_keys",
            Self::JmxPermissions => "jmx_permissions_cache_keys",
        }
    }

    /// Returns the kind whose keys a table shows.
    pub(crate) fn of_table(table: &TableMetadata) -> Option<Self> {
        if table.keyspace != "system_views" {
            return None;
        }
        Self::ALL.into_iter().find(|kind| kind.table_name() == table.name)
    }
}
