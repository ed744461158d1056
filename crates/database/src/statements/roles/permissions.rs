//! GRANT, REVOKE and LIST of permissions.

use std::sync::{Arc, LazyLock};

use cassette_cql::ast::{ListPermissions, Permission, PermissionGrant, Permissions};
use cassette_rows::DataType;

use super::list::metadata;
use super::performer::{Performer, unauthorized};
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::response::{Outcome, ResultMetadata, RowSink};
use crate::execution::Execution;
use crate::schema::authorization::{PermissionSet, Resource};
use crate::schema::functions::resource_name;
use crate::schema::system::{SYSTEM, is_system};
use crate::store::authorization::StoredPermission;

static LISTED: LazyLock<Arc<ResultMetadata>> = LazyLock::new(|| {
    metadata(
        "permissions",
        &["role", "username", "resource", "permission"].map(|name| (name, DataType::Text)),
    )
});

/// The permissions that can be granted on the database's own keyspaces.
const ON_OWN_KEYSPACES: PermissionSet = PermissionSet::of(&[Permission::Alter, Permission::Select]);

pub(super) fn grant(
    grant: &PermissionGrant,
    resource: Option<Resource<'_>>,
    execution: &Execution<'_>,
    performer: &Performer<'_>,
) -> Result<Outcome> {
    let (resource, permissions) = authorize(grant, resource, execution, performer, "GRANT")?;
    let is_guarded = resource.data_keyspace().is_some_and(is_system);
    if is_guarded && !permissions.without(ON_OWN_KEYSPACES).is_empty() {
        return Err(unauthorized(
            "Granting permissions on system keyspaces is strictly limited, this operation is not permitted",
        ));
    }
    let store = performer.store;
    let _changing = store.lock_roles();
    // It may have been dropped since.
    require_grantee(grant, performer)?;
    let before = store.permissions_on(&grant.grantee, resource)?;
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    warn_of(execution, grant, permissions.intersection(before), resource, "already");
    store.write_roles(&store.grant(&grant.grantee, resource, permissions, timestamp)?)?;
    Ok(Outcome::Void)
}

pub(super) fn revoke(
    revoke: &PermissionGrant,
    resource: Option<Resource<'_>>,
    execution: &Execution<'_>,
    performer: &Performer<'_>,
) -> Result<Outcome> {
    let (resource, permissions) = authorize(revoke, resource, execution, performer, "REVOKE")?;
    let store = performer.store;
    let _changing = store.lock_roles();
    let before = store.permissions_on(&revoke.grantee, resource)?;
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    warn_of(execution, revoke, permissions.without(before), resource, "not");
    store.write_roles(&store.revoke(&revoke.grantee, resource, permissions, timestamp)?)?;
    Ok(Outcome::Void)
}

/// Warns that a role already had permissions, or did not have them.
fn warn_of(
    execution: &Execution<'_>,
    grant: &PermissionGrant,
    unchanged: PermissionSet,
    resource: Resource<'_>,
    how: &str,
) {
    if !unchanged.is_empty() {
        let names = unchanged.iter().map(Permission::name).collect::<Vec<_>>().join(", ");
        execution.warn(format!("Role '{}' was {how} granted {names} on {resource}", grant.grantee.as_str()));
    }
}

/// Checks that the performer may pass on these permissions, and that the grantee and the resource
/// exist. Returns the resource and those of the permissions that apply to it.
fn authorize<'r>(
    grant: &PermissionGrant,
    resource: Option<Resource<'r>>,
    execution: &Execution<'_>,
    performer: &Performer<'_>,
    operation: &str,
) -> Result<(Resource<'r>, PermissionSet)> {
    let resource =
        resource.ok_or_else(|| DatabaseError::Server("the resource has no valid name".to_owned()))?;
    let permissions = of(&grant.permissions).intersection(resource.applicable());
    performer.require(Permission::Authorize, resource)?;
    for permission in permissions.iter() {
        performer.require(permission, resource)?;
    }
    require_grantee(grant, performer)?;
    if matches!(resource, Resource::FunctionsIn(SYSTEM) | Resource::Function(SYSTEM, _)) {
        bail_invalid!("Altering permissions on builtin functions is not supported");
    }
    if !exists(resource, execution)? {
        bail_invalid!("Resource {resource} doesn't exist");
    }
    if !performer.is_program() && !performer.store.authorization().settings().permissions {
        bail_invalid!("{operation} operation is not supported by AllowAllAuthorizer");
    }
    Ok((resource, permissions))
}

fn require_grantee(grant: &PermissionGrant, performer: &Performer<'_>) -> Result<()> {
    if performer.store.role(&grant.grantee)?.is_none() {
        bail_invalid!("Role {} doesn't exist", grant.grantee.as_str());
    }
    Ok(())
}

pub(super) fn list(
    list: &ListPermissions,
    resource: Option<Resource<'_>>,
    execution: &Execution<'_>,
    performer: &Performer<'_>,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let store = performer.store;
    if let Some(resource) = resource
        && !exists(resource, execution)?
    {
        bail_invalid!("{resource} doesn't exist");
    }
    let grantee = list.grantee.as_ref().map(|grantee| grantee.as_str());
    if let Some(grantee) = grantee
        && store.role(grantee)?.is_none()
    {
        bail_invalid!("{} doesn't exist", Resource::Role(grantee));
    }
    if !performer.is_program() && !store.authorization().settings().permissions {
        bail_invalid!("LIST PERMISSIONS operation is not supported by AllowAllAuthorizer");
    }
    let is_own = grantee.map_or(Ok(false), |grantee| performer.has_role(grantee))?;
    let described = grantee.map_or(Resource::AllRoles, Resource::Role);
    if !is_own && !performer.permits(Permission::Describe, described)? {
        let whose = grantee.unwrap_or("everyone");
        return Err(unauthorized(format!("You are not authorized to view {whose}'s permissions")));
    }
    let mut found = match grantee {
        None => store.all_permissions()?,
        Some(grantee) => {
            let mut found = Vec::new();
            for role in store.read_roles_of(grantee, true)? {
                found.extend(store.permissions_of(&role.name)?);
            }
            found
        }
    };
    let names: Option<Vec<String>> = resource.map(|resource| {
        let chain = resource.chain().take(if list.no_recursive { 1 } else { usize::MAX });
        chain.map(Resource::name).collect()
    });
    found.retain(|granted| names.as_ref().is_none_or(|names| names.contains(&granted.resource)));
    found.sort_by(|a, b| (&a.role, &a.resource).cmp(&(&b.role, &b.resource)));
    write_rows(&found, of(&list.permissions), sink)
}

/// Gives a row for each of the `wanted` permissions.
fn write_rows(found: &[StoredPermission], wanted: PermissionSet, sink: &mut dyn RowSink) -> Result<Outcome> {
    let mut has_begun = false;
    for granted in found {
        let resource =
            Resource::parse(&granted.resource).map_or(granted.resource.clone(), |name| name.to_string());
        for permission in granted.permissions.intersection(wanted).iter() {
            if !has_begun {
                sink.begin(&LISTED);
                has_begun = true;
            }
            sink.value(Some(granted.role.as_bytes()));
            sink.value(Some(granted.role.as_bytes()));
            sink.value(Some(resource.as_bytes()));
            sink.value(Some(permission.name().as_bytes()));
            sink.end_row()?;
        }
    }
    Ok(if has_begun { Outcome::Rows { paging_state: None } } else { Outcome::Void })
}

fn of(permissions: &Permissions) -> PermissionSet {
    match permissions {
        Permissions::All => PermissionSet::ALL,
        Permissions::Listed(listed) => PermissionSet::of(listed),
    }
}

/// Returns whether a resource exists. There are no MBeans.
fn exists(resource: Resource<'_>, execution: &Execution<'_>) -> Result<bool> {
    let catalog = execution.store.catalog();
    Ok(match resource {
        Resource::AllKeyspaces | Resource::AllRoles | Resource::AllFunctions | Resource::AllMBeans => true,
        Resource::Keyspace(keyspace) | Resource::AllTables(keyspace) | Resource::FunctionsIn(keyspace) => {
            catalog.keyspace(keyspace).is_some()
        }
        Resource::Table(keyspace, table) => catalog.table(keyspace, table).is_some(),
        Resource::Role(role) => execution.store.role(role)?.is_some(),
        Resource::Function(keyspace, function) => catalog.keyspace(keyspace).is_some_and(|own| {
            let mut functions = own.functions.values().map(|f| resource_name(&f.name, &f.argument_types()));
            let mut aggregates = own.aggregates.values().map(|a| resource_name(&a.name, &a.arguments));
            functions.any(|name| name == function) || aggregates.any(|name| name == function)
        }),
        Resource::MBean(_) => false,
    })
}
