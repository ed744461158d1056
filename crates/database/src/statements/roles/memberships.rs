//! GRANT and REVOKE of roles.

use cassette_cql::ast::{Permission, RoleGrant};

use super::performer::Performer;
use crate::basics::error::{Result, bail_invalid};
use crate::basics::response::Outcome;
use crate::schema::authorization::Resource;
use crate::store::authorization::Role;

pub(super) fn grant(grant: &RoleGrant, performer: &Performer<'_>) -> Result<Outcome> {
    let store = performer.store;
    performer.require_for_roles(Permission::Authorize, Resource::Role(&grant.role))?;
    let _changing = store.lock_roles();
    let (role, grantee) = existing(grant, performer)?;
    let has = |of: &Role, other: &Role| -> Result<bool> {
        Ok(store.read_roles_of(&of.name, true)?.iter().any(|role| role.name == other.name))
    };
    if has(&grantee, &role)? {
        bail_invalid!("{} is a member of {}", grantee.name, role.name);
    }
    // It would close a cycle.
    if has(&role, &grantee)? {
        bail_invalid!("{} is a member of {}", role.name, grantee.name);
    }
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    store.write_roles(&store.put_member(&role.name, &grantee, true, timestamp)?)?;
    Ok(Outcome::Void)
}

pub(super) fn revoke(revoke: &RoleGrant, performer: &Performer<'_>) -> Result<Outcome> {
    let store = performer.store;
    performer.require_for_roles(Permission::Authorize, Resource::Role(&revoke.role))?;
    let _changing = store.lock_roles();
    let (role, grantee) = existing(revoke, performer)?;
    if !grantee.member_of.contains(&role.name) {
        bail_invalid!("{} is not a member of {}", grantee.name, role.name);
    }
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    store.write_roles(&store.put_member(&role.name, &grantee, false, timestamp)?)?;
    Ok(Outcome::Void)
}

/// Returns the role and the grantee.
fn existing(grant: &RoleGrant, performer: &Performer<'_>) -> Result<(Role, Role)> {
    let existing = |name: &str| match performer.store.role(name)? {
        Some(role) => Ok(role),
        None => bail_invalid!("{name} doesn't exist"),
    };
    Ok((existing(&grant.role)?, existing(&grant.grantee)?))
}
