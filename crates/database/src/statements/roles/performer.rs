//! Who executes a statement on roles, and what they may do.

use std::sync::Arc;

use cassette_cql::ast::Permission;

use crate::basics::error::{DatabaseError, Result};
use crate::schema::authorization::Resource;
use crate::store::Store;

/// Who executes a statement on roles.
pub(crate) struct Performer<'a> {
    pub store: &'a Arc<Store>,
    /// The role that has logged in; `None` for the program that opened the database.
    role: Option<&'a str>,
}

impl<'a> Performer<'a> {
    pub fn program(store: &'a Arc<Store>) -> Self {
        Self { store, role: None }
    }

    pub fn role(store: &'a Arc<Store>, role: &'a str) -> Self {
        Self { store, role: Some(role) }
    }

    /// Returns the role that has logged in.
    pub fn name(&self) -> Option<&'a str> {
        self.role
    }

    pub fn is_program(&self) -> bool {
        self.role.is_none()
    }

    pub fn is_superuser(&self) -> Result<bool> {
        self.role.map_or(Ok(true), |role| self.store.is_superuser(role))
    }

    /// Returns whether it has a role, directly or by other roles.
    pub fn has_role(&self, name: &str) -> Result<bool> {
        match self.role {
            Some(role) => Ok(self.store.roles_of(role)?.iter().any(|role| role.name == name)),
            None => Ok(false),
        }
    }

    /// Returns whether it has a permission. Without an authorizer everyone has all.
    pub fn permits(&self, permission: Permission, resource: Resource<'_>) -> Result<bool> {
        match self.role {
            Some(role) if self.store.authorization().settings().permissions => {
                Ok(self.store.granted(role)?.permits(permission, resource))
            }
            _ => Ok(true),
        }
    }

    /// Checks a permission that a statement on permissions or data needs.
    pub fn require(&self, permission: Permission, resource: Resource<'_>) -> Result<()> {
        if self.permits(permission, resource)? {
            return Ok(());
        }
        Err(unauthorized(format!(
            "User {} has no {permission} permission on {resource} or any of its parents",
            self.role.unwrap_or_default()
        )))
    }

    /// Checks a permission that a statement on roles needs.
    pub fn require_for_roles(&self, permission: Permission, resource: Resource<'_>) -> Result<()> {
        if self.permits(permission, resource)? {
            return Ok(());
        }
        Err(unauthorized(format!(
            "User {} does not have sufficient privileges to perform the requested operation",
            self.role.unwrap_or_default()
        )))
    }
}

pub(super) fn unauthorized(message: impl Into<String>) -> DatabaseError {
    DatabaseError::Unauthorized(message.into())
}
