//! What one role is permitted.

use std::collections::HashMap;

use cassette_cql::ast::Permission;

use crate::schema::authorization::{PermissionSet, Resource};

/// The permissions of a role and of the roles that it has.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    is_superuser: bool,
    /// By the stored names of the resources.
    permissions: HashMap<Box<str>, PermissionSet>,
}

impl Granted {
    pub fn new(is_superuser: bool) -> Self {
        Self { is_superuser, permissions: HashMap::new() }
    }

    pub fn add(&mut self, resource: String, permissions: PermissionSet) {
        let entry = self.permissions.entry(resource.into()).or_default();
        *entry = entry.union(permissions);
    }

    pub fn is_superuser(&self) -> bool {
        self.is_superuser
    }

    /// Iterates over the stored names of the resources with any permission.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.permissions.keys().map(|resource| &**resource)
    }

    /// Returns whether it has a permission on a resource or on one that contains it.
    pub fn permits(&self, permission: Permission, resource: Resource<'_>) -> bool {
        self.is_superuser
            || resource.applying().any(|resource| {
                self.permissions.get(resource.name().as_str()).is_some_and(|set| set.contains(permission))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_apply_to_what_a_resource_contains_and_nothing_else() {
        let mut granted = Granted::new(false);
        granted.add("data/k".to_owned(), PermissionSet::of(&[Permission::Select]));
        granted.add("data/k/t".to_owned(), PermissionSet::of(&[Permission::Modify]));
        let permits = |permission, resource| granted.permits(permission, resource);
        assert!(permits(Permission::Select, Resource::Table("k", "other")));
        assert!(permits(Permission::Select, Resource::AllTables("k")));
        assert!(permits(Permission::Modify, Resource::Table("k", "t")));
        assert!(!permits(Permission::Modify, Resource::Table("k", "other")));
        assert!(!permits(Permission::Modify, Resource::Keyspace("k")));
        assert!(!permits(Permission::Select, Resource::Keyspace("k2")));
        assert!(!permits(Permission::Select, Resource::AllKeyspaces));
    }

    #[test]
    fn permissions_on_all_keyspaces_do_not_apply_to_those_of_the_database() {
        let mut granted = Granted::new(false);
        granted.add("data".to_owned(), PermissionSet::ALL);
        assert!(granted.permits(Permission::Select, Resource::Table("k", "t")));
        for keyspace in ["system", "system_auth", "system_views", "system_traces"] {
            assert!(!granted.permits(Permission::Select, Resource::Table(keyspace, "t")), "{keyspace}");
        }
        granted.add("data/system_auth".to_owned(), PermissionSet::of(&[Permission::Select]));
        assert!(granted.permits(Permission::Select, Resource::Table("system_auth", "roles")));
    }

    #[test]
    fn a_superuser_is_permitted_everything() {
        assert!(Granted::new(true).permits(Permission::Drop, Resource::AllRoles));
    }
}
