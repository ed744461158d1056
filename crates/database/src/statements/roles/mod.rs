//! Statements on roles and permissions.
//!
//! Each is authorized when it runs, by the caller's roles at that time, with Cassandra's errors in
//! Cassandra's order. Rows are written by [`crate::store::authorization`].

mod identities;
mod list;
mod management;
mod memberships;
mod performer;
mod permissions;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use cassette_cql::ast::{self, Statement};
use cassette_engine::may_wait;

use crate::basics::error::{DatabaseError, Result};
use crate::basics::request::Caller;
use crate::basics::response::{Outcome, RowSink};
use crate::execution::Execution;
use crate::planning::context::PlanContext;
use crate::schema::authorization::Resource;
use crate::schema::catalog::{TypeUse, resolve_type};
use crate::schema::functions;
use crate::statements::schema::absent;

pub(crate) use performer::Performer;

/// A planned statement on roles or permissions. Names are looked up when it runs, except the
/// keyspace of a resource.
#[derive(Debug)]
pub(crate) struct RoleStatement {
    statement: Statement,
    /// The stored name of the resource of a statement on permissions.
    resource: Option<String>,
}

impl RoleStatement {
    /// Plans a statement; `None` for one that is not about roles.
    pub fn new(statement: &Statement, cx: &mut PlanContext<'_>) -> Result<Option<Self>> {
        let resource = match statement {
            Statement::GrantPermissions(grant) | Statement::RevokePermissions(grant) => Some(&grant.resource),
            Statement::ListPermissions(list) => list.resource.as_ref(),
            Statement::CreateRole(_)
            | Statement::AlterRole(_)
            | Statement::DropRole(_)
            | Statement::GrantRole(_)
            | Statement::RevokeRole(_)
            | Statement::ListRoles(_)
            | Statement::ListUsers
            | Statement::AddIdentity(_)
            | Statement::DropIdentity(_) => None,
            _ => return Ok(None),
        };
        let resource = resource.map(|resource| resource_name(resource, cx)).transpose()?;
        Ok(Some(Self { statement: statement.clone(), resource }))
    }

    /// Returns whether it changes roles or permissions.
    pub fn writes(&self) -> bool {
        !matches!(
            self.statement,
            Statement::ListRoles(_) | Statement::ListUsers | Statement::ListPermissions(_)
        )
    }

    /// Executes the statement; rows go to `sink`.
    ///
    /// # Errors
    /// WouldBlock, if this thread may not wait: it hashes passwords and waits for the disk.
    pub fn execute(&self, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        let performer = match &execution.options.caller {
            Caller::Anonymous => return Err(absent::refuse_roles(&self.statement)),
            Caller::Program => Performer::program(execution.store),
            Caller::Role(role) => Performer::role(execution.store, role),
        };
        if !may_wait() {
            return Err(DatabaseError::WouldBlock);
        }
        let resource = self.resource.as_deref().and_then(Resource::parse);
        match &self.statement {
            Statement::CreateRole(create) => management::create(create, &performer),
            Statement::AlterRole(alter) => management::alter(alter, &performer),
            Statement::DropRole(drop) => management::drop(drop, &performer),
            Statement::GrantRole(grant) => memberships::grant(grant, &performer),
            Statement::RevokeRole(revoke) => memberships::revoke(revoke, &performer),
            Statement::ListRoles(list) => list::roles(list, &performer, sink),
            Statement::ListUsers => list::users(&performer, sink),
            Statement::GrantPermissions(grant) => permissions::grant(grant, resource, execution, &performer),
            Statement::RevokePermissions(revoke) => {
                permissions::revoke(revoke, resource, execution, &performer)
            }
            Statement::ListPermissions(list) => {
                permissions::list(list, resource, execution, &performer, sink)
            }
            Statement::AddIdentity(add) => identities::add(add, &performer),
            Statement::DropIdentity(drop) => identities::drop(drop, &performer),
            // No plan is made of other statements.
            _ => Err(DatabaseError::Server("unexpected statement".to_owned())),
        }
    }
}

/// Returns the stored name of a resource, in the session's keyspace if it has none.
fn resource_name(resource: &ast::Resource, cx: &mut PlanContext<'_>) -> Result<String> {
    let resource = match resource {
        ast::Resource::AllKeyspaces => Resource::AllKeyspaces,
        ast::Resource::Keyspace(keyspace) => Resource::Keyspace(keyspace),
        ast::Resource::AllTables(keyspace) => Resource::AllTables(keyspace),
        ast::Resource::Table(table) => Resource::Table(cx.keyspace_of(table)?, &table.name),
        ast::Resource::AllRoles => Resource::AllRoles,
        ast::Resource::Role(role) => Resource::Role(role),
        ast::Resource::AllFunctions => Resource::AllFunctions,
        ast::Resource::AllFunctionsIn(keyspace) => Resource::FunctionsIn(keyspace),
        ast::Resource::Function(function, arguments) => {
            let keyspace = cx.keyspace_of(function)?;
            // Without the keyspace, native types are known, and others cannot exist.
            let (no_types, own) = (BTreeMap::new(), cx.catalog.keyspace(keyspace));
            let scope = TypeUse { keyspace, types: own.map_or(&no_types, |own| &own.types) };
            let types: Result<Vec<_>> = arguments.iter().map(|raw| resolve_type(raw, scope)).collect();
            let function_name = functions::resource_name(&function.name, &types?);
            return Ok(Resource::Function(keyspace, &function_name).name());
        }
        ast::Resource::AllMBeans => Resource::AllMBeans,
        ast::Resource::MBean(name) | ast::Resource::MBeans(name) => Resource::MBean(name),
    };
    Ok(resource.name())
}
