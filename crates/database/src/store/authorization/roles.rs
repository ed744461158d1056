//! Rows of `roles` and `role_members`.

use std::collections::BTreeSet;

use cassette_engine::Mutation;

use crate::basics::error::Result;
use crate::schema::system::encode::{
    StoredRow, Value, mutation, partition_deletion, row_deletion, row_update,
};
use crate::schema::system::{CIDR_PERMISSIONS, ROLE_MEMBERS, ROLES};
use crate::store::Store;

/// A stored role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Role {
    pub name: String,
    pub is_superuser: bool,
    pub can_login: bool,
    /// The bcrypt hash of the password.
    pub salted_hash: Option<String>,
    /// The roles that were granted to it.
    pub member_of: BTreeSet<String>,
}

/// New values of the attributes of a role; `None` keeps what is stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct RoleChange {
    pub is_superuser: Option<bool>,
    pub can_login: Option<bool>,
    pub salted_hash: Option<String>,
}

impl Role {
    fn of_row(name: &str, row: &StoredRow<'_>) -> Self {
        Self {
            name: name.to_owned(),
            is_superuser: row.boolean("is_superuser").unwrap_or(false),
            can_login: row.boolean("can_login").unwrap_or(false),
            salted_hash: row.text("salted_hash").filter(|hash| !hash.is_empty()).map(str::to_owned),
            member_of: row.text_set("member_of").into_iter().map(str::to_owned).collect(),
        }
    }
}

impl Store {
    /// Reads a role.
    pub fn role(&self, name: &str) -> Result<Option<Role>> {
        // No row has an empty partition key.
        if name.is_empty() {
            return Ok(None);
        }
        let mut found = None;
        self.visit_auth_rows(&self.auth_table(ROLES)?, Some(name), |name, row| {
            found = Some(Role::of_row(name, row));
        })?;
        Ok(found)
    }

    /// Reads all roles, in the order of their names.
    pub fn all_roles(&self) -> Result<Vec<Role>> {
        let mut found = Vec::new();
        self.visit_auth_rows(&self.auth_table(ROLES)?, None, |name, row| {
            found.push(Role::of_row(name, row));
        })?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Reads a role and the roles that were granted to it, itself first: those of these roles, too,
    /// if it `is_recursive`. Skips roles that do not exist, and ends in spite of cycles, which only
    /// direct writes to the table can make.
    pub fn read_roles_of(&self, name: &str, is_recursive: bool) -> Result<Vec<Role>> {
        let mut seen = BTreeSet::from([name.to_owned()]);
        let mut waiting = vec![name.to_owned()];
        let mut found: Vec<Role> = Vec::new();
        while let Some(name) = waiting.pop() {
            let Some(role) = self.role(&name)? else { continue };
            if is_recursive || found.is_empty() {
                waiting.extend(role.member_of.iter().filter(|other| seen.insert((*other).clone())).cloned());
            }
            found.push(role);
        }
        Ok(found)
    }

    /// Writes the attributes of a role.
    pub fn put_role(&self, name: &str, change: &RoleChange, timestamp: i64) -> Result<Mutation> {
        let table = self.auth_table(ROLES)?;
        let mut values: Vec<(&str, Value)> = Vec::new();
        values.extend(change.is_superuser.map(|value| ("is_superuser", value.into())));
        values.extend(change.can_login.map(|value| ("can_login", value.into())));
        values.extend(change.salted_hash.as_deref().map(|value| ("salted_hash", value.into())));
        Ok(mutation(&table, name, vec![row_update(&table, &[], &values, timestamp)]))
    }

    /// Makes `grantee` a member of `role`, or no longer one.
    pub fn put_member(
        &self,
        role: &str,
        grantee: &Role,
        is_member: bool,
        timestamp: i64,
    ) -> Result<Vec<Mutation>> {
        let mut member_of = grantee.member_of.clone();
        if is_member {
            member_of.insert(role.to_owned());
        } else {
            member_of.remove(role);
        }
        let (roles, members) = (self.auth_table(ROLES)?, self.auth_table(ROLE_MEMBERS)?);
        let elements = member_of.into_iter().map(String::into_bytes).collect();
        let of_role = row_update(&roles, &[], &[("member_of", Value::Set(elements))], timestamp);
        let of_members = if is_member {
            row_update(&members, &[&grantee.name], &[], timestamp)
        } else {
            row_deletion(&[&grantee.name], timestamp)
        };
        Ok(vec![mutation(&roles, &grantee.name, vec![of_role]), mutation(&members, role, vec![of_members])])
    }

    /// Removes a role, its identities, and its memberships in both directions.
    pub fn remove_role(&self, role: &Role, timestamp: i64) -> Result<Vec<Mutation>> {
        let members = self.auth_table(ROLE_MEMBERS)?;
        let mut names = Vec::new();
        self.visit_auth_rows(&members, Some(&role.name), |_, row| {
            names.extend(row.clustering_text(0).map(str::to_owned));
        })?;
        let mut mutations = self.remove_identities_of(&role.name, timestamp)?;
        for name in names {
            if let Some(member) = self.role(&name)? {
                mutations.extend(self.put_member(&role.name, &member, false, timestamp)?);
            }
        }
        for other in &role.member_of {
            mutations.push(mutation(&members, other, vec![row_deletion(&[&role.name], timestamp)]));
        }
        mutations.push(self.remove_data_centers(&role.name, timestamp)?);
        for table in [ROLE_MEMBERS, CIDR_PERMISSIONS, ROLES] {
            mutations.push(partition_deletion(&self.auth_table(table)?, &role.name, timestamp));
        }
        Ok(mutations)
    }
}
