//! Rows of `network_permissions`: the data centers that roles can use.

use std::collections::BTreeSet;
use std::sync::Arc;

use cassette_cql::ast::Access;
use cassette_engine::Mutation;

use crate::basics::error::{DatabaseError, Result};
use crate::schema::authorization::{AllowedNames, Resource};
use crate::schema::system::NETWORK_PERMISSIONS;
use crate::schema::system::encode::{Value, mutation, partition_deletion, row_update};
use crate::store::Store;

impl Store {
    /// Returns the data centers that a role can use, by itself: as in Cassandra, those of its roles
    /// do not apply.
    pub fn data_centers_of(&self, role: &str) -> Result<Arc<AllowedNames>> {
        if !self.authorization().settings().network {
            return Ok(Arc::new(AllowedNames::All));
        }
        let read = || self.read_data_centers_of(role);
        self.authorization().data_centers.get(role, self.clock().monotonic(), read)
    }

    /// Checks that a role can use this data center.
    ///
    /// # Errors
    /// Unauthorized; WouldBlock, if this thread may not wait for a disk and would have to.
    pub fn check_data_center(&self, role: &str) -> Result<()> {
        let name = &self.node().data_center;
        if self.authorization().settings().network && !self.data_centers_of(role)?.contains(name) {
            let message = format!("You do not have access to this datacenter ({name})");
            return Err(DatabaseError::Unauthorized(message));
        }
        Ok(())
    }

    fn read_data_centers_of(&self, name: &str) -> Result<AllowedNames> {
        if !self.role(name)?.is_some_and(|role| role.can_login) {
            return Ok(AllowedNames::None);
        }
        if self.is_superuser(name)? {
            return Ok(AllowedNames::All);
        }
        let mut found = BTreeSet::new();
        let table = self.auth_table(NETWORK_PERMISSIONS)?;
        self.visit_auth_rows(&table, Some(&Resource::Role(name).name()), |_, row| {
            found = row.text_list("dcs").unwrap_or_default().into_iter().collect();
        })?;
        Ok(if found.is_empty() { AllowedNames::All } else { AllowedNames::Only(found) })
    }

    /// Writes the data centers that a role can use.
    pub fn put_data_centers(&self, role: &str, access: &Access, timestamp: i64) -> Result<Mutation> {
        let names: BTreeSet<&str> = match access {
            Access::All => BTreeSet::new(),
            Access::Only(names) => names.iter().map(|name| &**name).collect(),
        };
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let table = self.auth_table(NETWORK_PERMISSIONS)?;
        let row = row_update(&table, &[], &[("dcs", Value::from(names.as_slice()))], timestamp);
        Ok(mutation(&table, &Resource::Role(role).name(), vec![row]))
    }

    /// Removes the data centers of a role.
    pub fn remove_data_centers(&self, role: &str, timestamp: i64) -> Result<Mutation> {
        let table = self.auth_table(NETWORK_PERMISSIONS)?;
        Ok(partition_deletion(&table, &Resource::Role(role).name(), timestamp))
    }
}
