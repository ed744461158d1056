//! Statements on unsupported objects: triggers, and for clients that have not logged in also roles
//! and permissions. The responses are those of a Cassandra in which none exist.

use cassette_cql::ast::{DropTrigger, RoleOptions, Statement};

use super::Change;
use crate::basics::error::{DatabaseError, Result, bail_invalid};

/// Returns the error of a statement on roles or permissions for a client that has not logged in.
pub(crate) fn refuse_roles(statement: &Statement) -> DatabaseError {
    let unauthorized = |message: &str| DatabaseError::Unauthorized(message.to_owned());
    let refused = match statement {
        Statement::CreateRole(create) if create.options.superuser == Some(true) => {
            return unauthorized("Only superusers can create a role with superuser status");
        }
        Statement::AlterRole(alter) if alter.options.superuser.is_some() => {
            return unauthorized("Only superusers are allowed to alter superuser status");
        }
        Statement::CreateRole(create) if create.name.as_str().is_empty() => {
            return DatabaseError::invalid("Role name can't be an empty string");
        }
        Statement::CreateRole(create) => unsupported_option(&create.options),
        Statement::AlterRole(alter) => unsupported_option(&alter.options),
        _ => None,
    };
    match refused {
        Some(option) => unsupported_role_option(option),
        None => unauthorized("You have to be logged in and not anonymous to perform this request"),
    }
}

/// Returns the error of an option of roles: passwords without authentication, or OPTIONS.
pub(crate) fn unsupported_role_option(option: &str) -> DatabaseError {
    DatabaseError::Invalid(match option {
        "OPTIONS" => "The option OPTIONS of roles is not supported: omit it.".to_owned(),
        _ => format!(
            "{option} of roles requires logins. Start the server with `--authenticator PasswordAuthenticator`."
        ),
    })
}

/// Returns the option that the role manager does not support without authentication.
fn unsupported_option(options: &RoleOptions) -> Option<&'static str> {
    let given = [
        (options.password.is_some(), "PASSWORD"),
        (options.hashed_password.is_some(), "HASHED_PASSWORD"),
        (options.custom.is_some(), "OPTIONS"),
    ];
    given.into_iter().find_map(|(given, name)| given.then_some(name))
}

pub(crate) fn drop_trigger(statement: &DropTrigger, keyspace: &str) -> Result<Option<Change>> {
    if statement.if_exists {
        return Ok(None);
    }
    let (trigger, table) = (statement.name.as_str(), statement.table.name.as_str());
    bail_invalid!("Trigger '{trigger}' on '{keyspace}.{table}' doesn't exist")
}
