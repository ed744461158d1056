//! ADD IDENTITY and DROP IDENTITY: which role a client's certificate logs in as.

use cassette_cql::ast::{AddIdentity, DropIdentity, Permission};

use super::performer::{Performer, unauthorized};
use crate::basics::error::{Result, bail_invalid};
use crate::basics::response::Outcome;
use crate::schema::authorization::Resource;

pub(super) fn add(add: &AddIdentity, performer: &Performer<'_>) -> Result<Outcome> {
    let (store, identity, role) = (performer.store, &*add.identity, &*add.role);
    performer.require_for_roles(Permission::Create, Resource::AllRoles)?;
    if !performer.is_superuser()? && store.is_superuser(role)? {
        return Err(unauthorized("Only superusers can bind identities to a role with superuser status"));
    }
    let _changing = store.lock_roles();
    if store.role(role)?.is_none() {
        bail_invalid!("Can not add identity for non-existent role '{role}'");
    }
    if store.role_of_identity(identity)?.is_some() {
        if add.if_not_exists {
            return Ok(Outcome::Void);
        }
        bail_invalid!("{identity} already exists");
    }
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    store.write_roles(&[store.put_identity(identity, role, timestamp)?])?;
    Ok(Outcome::Void)
}

pub(super) fn drop(drop: &DropIdentity, performer: &Performer<'_>) -> Result<Outcome> {
    let (store, identity) = (performer.store, &*drop.identity);
    let _changing = store.lock_roles();
    let Some(role) = store.role_of_identity(identity)? else {
        performer.require_for_roles(Permission::Drop, Resource::AllRoles)?;
        if drop.if_exists {
            return Ok(Outcome::Void);
        }
        bail_invalid!("identity '{identity}' doesn't exist");
    };
    performer.require_for_roles(Permission::Drop, Resource::Role(&role))?;
    if !performer.is_superuser()? && store.is_superuser(&role)? {
        return Err(unauthorized(
            "Only superusers can remove identity bindings from a role with superuser status",
        ));
    }
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    store.write_roles(&[store.remove_identity(identity, timestamp)?])?;
    Ok(Outcome::Void)
}
