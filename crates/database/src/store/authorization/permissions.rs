//! Rows of `role_permissions` and `resource_role_permissons_index`.

use cassette_engine::Mutation;

use crate::basics::error::Result;
use crate::schema::authorization::{PermissionSet, Resource};
use crate::schema::system::encode::{
    StoredRow, Value, mutation, partition_deletion, row_deletion, row_update,
};
use crate::schema::system::{RESOURCE_INDEX, ROLE_PERMISSIONS};
use crate::store::Store;

/// The permissions of a role on a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredPermission {
    pub role: String,
    /// The stored name of the resource.
    pub resource: String,
    pub permissions: PermissionSet,
}

impl StoredPermission {
    fn of_row(role: &str, row: &StoredRow<'_>) -> Option<Self> {
        let permissions = row.text_set("permissions").into_iter().map(str::as_bytes);
        Some(Self {
            role: role.to_owned(),
            resource: row.clustering_text(0)?.to_owned(),
            permissions: PermissionSet::from_names(permissions),
        })
    }
}

impl Store {
    /// Reads the permissions that were granted to a role itself.
    pub fn permissions_of(&self, role: &str) -> Result<Vec<StoredPermission>> {
        self.read_permissions(Some(role))
    }

    /// Reads the permissions of all roles.
    pub fn all_permissions(&self) -> Result<Vec<StoredPermission>> {
        self.read_permissions(None)
    }

    fn read_permissions(&self, role: Option<&str>) -> Result<Vec<StoredPermission>> {
        let mut found = Vec::new();
        self.visit_auth_rows(&self.auth_table(ROLE_PERMISSIONS)?, role, |role, row| {
            found.extend(StoredPermission::of_row(role, row));
        })?;
        Ok(found)
    }

    /// Adds permissions of a role on a resource to those that it has.
    pub fn grant(
        &self,
        role: &str,
        resource: Resource<'_>,
        permissions: PermissionSet,
        timestamp: i64,
    ) -> Result<Vec<Mutation>> {
        let before = self.permissions_on(role, resource)?;
        self.put_permissions(role, &resource.name(), before.union(permissions), timestamp)
    }

    /// Removes permissions of a role on a resource.
    pub fn revoke(
        &self,
        role: &str,
        resource: Resource<'_>,
        permissions: PermissionSet,
        timestamp: i64,
    ) -> Result<Vec<Mutation>> {
        let before = self.permissions_on(role, resource)?;
        if before.is_empty() {
            return Ok(Vec::new());
        }
        self.put_permissions(role, &resource.name(), before.without(permissions), timestamp)
    }

    /// Removes all permissions of a role.
    pub fn revoke_all_of(&self, role: &str, timestamp: i64) -> Result<Vec<Mutation>> {
        let index = self.auth_table(RESOURCE_INDEX)?;
        let granted = self.permissions_of(role)?;
        let mut mutations: Vec<Mutation> = granted
            .iter()
            .map(|granted| mutation(&index, &granted.resource, vec![row_deletion(&[role], timestamp)]))
            .collect();
        mutations.push(partition_deletion(&self.auth_table(ROLE_PERMISSIONS)?, role, timestamp));
        Ok(mutations)
    }

    /// Removes the permissions of all roles on the resources whose stored names `is_gone` accepts.
    pub fn revoke_all_on(&self, is_gone: impl Fn(&str) -> bool, timestamp: i64) -> Result<Vec<Mutation>> {
        let mut mutations = Vec::new();
        for granted in self.all_permissions()?.into_iter().filter(|granted| is_gone(&granted.resource)) {
            let none = PermissionSet::EMPTY;
            mutations.extend(self.put_permissions(&granted.role, &granted.resource, none, timestamp)?);
        }
        Ok(mutations)
    }

    /// Reads the permissions that were granted to a role itself on a resource.
    pub fn permissions_on(&self, role: &str, resource: Resource<'_>) -> Result<PermissionSet> {
        let name = resource.name();
        let granted = self.permissions_of(role)?.into_iter().find(|granted| granted.resource == name);
        Ok(granted.map_or(PermissionSet::EMPTY, |granted| granted.permissions))
    }

    /// Writes the permissions of a role on a resource; removes its rows if there are none.
    fn put_permissions(
        &self,
        role: &str,
        resource: &str,
        permissions: PermissionSet,
        timestamp: i64,
    ) -> Result<Vec<Mutation>> {
        let (table, index) = (self.auth_table(ROLE_PERMISSIONS)?, self.auth_table(RESOURCE_INDEX)?);
        let (of_role, of_resource) = if permissions.is_empty() {
            (row_deletion(&[resource], timestamp), row_deletion(&[role], timestamp))
        } else {
            let names = permissions.iter().map(|permission| permission.name().as_bytes().to_vec());
            let values = [("permissions", Value::Set(names.collect()))];
            (row_update(&table, &[resource], &values, timestamp), row_update(&index, &[role], &[], timestamp))
        };
        Ok(vec![mutation(&table, role, vec![of_role]), mutation(&index, resource, vec![of_resource])])
    }
}
