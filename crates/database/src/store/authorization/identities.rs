//! Rows of `identity_to_role`: the roles of clients that log in with certificates.

use std::sync::Arc;

use cassette_engine::Mutation;

use crate::basics::error::{Result, bail_invalid};
use crate::schema::system::IDENTITY_TO_ROLE;
use crate::schema::system::encode::{mutation, partition_deletion, row_update};
use crate::store::Store;

/// The longest partition key, in bytes.
const KEY_LENGTH_MAX: usize = 65535;

impl Store {
    /// Reads the role of an identity.
    ///
    /// # Errors
    /// If the identity is empty or too long to be stored.
    pub fn role_of_identity(&self, identity: &str) -> Result<Option<String>> {
        check_identity(identity)?;
        let mut found = None;
        self.visit_auth_rows(&self.auth_table(IDENTITY_TO_ROLE)?, Some(identity), |_, row| {
            found = row.text("role").map(str::to_owned);
        })?;
        Ok(found)
    }

    /// Returns the role of an identity, which may be cached.
    pub fn login_role_of_identity(&self, identity: &str) -> Result<Arc<Option<String>>> {
        let read = || self.role_of_identity(identity);
        self.authorization().identities.get(identity, self.clock().monotonic(), read)
    }

    /// Returns whether any identity has a role.
    pub fn has_identities(&self) -> Result<bool> {
        let mut found = false;
        self.visit_auth_rows(&self.auth_table(IDENTITY_TO_ROLE)?, None, |_, _| found = true)?;
        Ok(found)
    }

    /// Returns whether any identity has this role, which need not exist.
    pub fn has_identities_of(&self, role: &str) -> Result<bool> {
        let mut found = false;
        self.visit_auth_rows(&self.auth_table(IDENTITY_TO_ROLE)?, None, |_, row| {
            found |= row.text("role") == Some(role);
        })?;
        Ok(found)
    }

    /// Writes the role of an identity.
    pub fn put_identity(&self, identity: &str, role: &str, timestamp: i64) -> Result<Mutation> {
        let table = self.auth_table(IDENTITY_TO_ROLE)?;
        let row = row_update(&table, &[], &[("role", role.into())], timestamp);
        Ok(mutation(&table, identity, vec![row]))
    }

    /// Removes an identity.
    pub fn remove_identity(&self, identity: &str, timestamp: i64) -> Result<Mutation> {
        Ok(partition_deletion(&self.auth_table(IDENTITY_TO_ROLE)?, identity, timestamp))
    }

    /// Removes all identities of a role.
    pub fn remove_identities_of(&self, role: &str, timestamp: i64) -> Result<Vec<Mutation>> {
        let table = self.auth_table(IDENTITY_TO_ROLE)?;
        let mut removed = Vec::new();
        self.visit_auth_rows(&table, None, |identity, row| {
            if row.text("role") == Some(role) {
                removed.push(partition_deletion(&table, identity, timestamp));
            }
        })?;
        Ok(removed)
    }
}

fn check_identity(identity: &str) -> Result<()> {
    if identity.is_empty() {
        bail_invalid!("Key may not be empty");
    }
    if identity.len() > KEY_LENGTH_MAX {
        bail_invalid!("Key length of {} is longer than maximum of {KEY_LENGTH_MAX}", identity.len());
    }
    Ok(())
}
