//! CREATE, ALTER and DROP of roles.

use std::collections::BTreeSet;

use cassette_cql::ast::{Access, AlterRole, CreateRole, DropRole, Permission, RoleOptions};

use super::performer::{Performer, unauthorized};
use crate::basics::error::{Result, bail_invalid};
use crate::basics::passwords;
use crate::basics::response::Outcome;
use crate::schema::authorization::Resource;
use crate::statements::schema::absent::unsupported_role_option;
use crate::store::authorization::RoleChange;

pub(super) fn create(create: &CreateRole, performer: &Performer<'_>) -> Result<Outcome> {
    let (store, options) = (performer.store, &create.options);
    performer.require_for_roles(Permission::Create, Resource::AllRoles)?;
    if options.superuser == Some(true) && !performer.is_superuser()? {
        return Err(unauthorized("Only superusers can create a role with superuser status"));
    }
    check_options(options, performer)?;
    let name = create.name.as_str();
    if name.is_empty() {
        bail_invalid!("Role name can't be an empty string");
    }
    check_access(options, performer)?;
    // Before the lock, which others wait for.
    let salted_hash = new_hash(options)?;
    let _changing = store.lock_roles();
    if store.role(name)?.is_some() {
        if create.if_not_exists {
            return Ok(Outcome::Void);
        }
        bail_invalid!("{name} already exists");
    }
    // Otherwise clients could log in as the new role with certificates that were never added to it.
    if store.has_identities_of(name)? {
        bail_invalid!("Cannot create a role '{name}' when identities already exists for it");
    }
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    let change = RoleChange {
        is_superuser: Some(options.superuser.unwrap_or(false)),
        can_login: Some(options.login.unwrap_or(false)),
        salted_hash,
    };
    // Each role has a row, as in Cassandra.
    let cidrs = options.cidrs.as_ref().unwrap_or(&Access::All);
    let mut mutations =
        vec![store.put_role(name, &change, timestamp)?, store.put_cidr_access(name, cidrs, timestamp)?];
    if store.authorization().settings().network {
        let access = options.datacenters.as_ref().unwrap_or(&Access::All);
        mutations.push(store.put_data_centers(name, access, timestamp)?);
    }
    if let Some(creator) = performer.name().filter(|_| store.authorization().settings().permissions) {
        let resource = Resource::Role(name);
        mutations.extend(store.grant(creator, resource, resource.applicable(), timestamp)?);
    }
    store.write_roles(&mutations)?;
    Ok(Outcome::Void)
}

pub(super) fn alter(alter: &AlterRole, performer: &Performer<'_>) -> Result<Outcome> {
    let (store, options, name) = (performer.store, &alter.options, alter.name.as_str());
    authorize_alter(alter, performer)?;
    check_options(options, performer)?;
    let attributes = [options.superuser, options.login].iter().any(Option::is_some)
        || options.password.is_some()
        || options.hashed_password.is_some()
        || options.custom.is_some();
    if !attributes && options.datacenters.is_none() && options.cidrs.is_none() {
        bail_invalid!("ALTER [ROLE|USER] can't be empty");
    }
    check_access(options, performer)?;
    if options.datacenters.is_some() && !store.authorization().settings().network {
        bail_invalid!("ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer");
    }
    let salted_hash = new_hash(options)?;
    let _changing = store.lock_roles();
    if store.role(name)?.is_none() {
        if alter.if_exists {
            return Ok(Outcome::Void);
        }
        bail_invalid!("Role {name} doesn't exist");
    }
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    let mut mutations = Vec::new();
    if attributes {
        let change = RoleChange { is_superuser: options.superuser, can_login: options.login, salted_hash };
        mutations.push(store.put_role(name, &change, timestamp)?);
    }
    if let Some(access) = &options.datacenters {
        mutations.push(store.put_data_centers(name, access, timestamp)?);
    }
    if let Some(access) = &options.cidrs {
        mutations.push(store.put_cidr_access(name, access, timestamp)?);
    }
    store.write_roles(&mutations)?;
    Ok(Outcome::Void)
}

fn authorize_alter(alter: &AlterRole, performer: &Performer<'_>) -> Result<()> {
    let (options, name) = (&alter.options, alter.name.as_str());
    let is_superuser = performer.is_superuser()?;
    if options.superuser.is_some() && performer.has_role(name)? {
        return Err(unauthorized(
            "You aren't allowed to alter your own superuser status or that of a role granted to you",
        ));
    }
    if is_superuser {
        return Ok(());
    }
    if options.superuser.is_some() {
        return Err(unauthorized("Only superusers are allowed to alter superuser status"));
    }
    if options.datacenters.is_some() {
        return Err(unauthorized("Only superusers are allowed to alter access to datacenters."));
    }
    if options.cidrs.is_some() {
        return Err(unauthorized("Only superusers are allowed to alter access from CIDR groups."));
    }
    if performer.name() != Some(name) {
        return performer.require_for_roles(Permission::Alter, Resource::Role(name));
    }
    // A role can change its password, if it can log in with it, but no other attribute itself.
    let has_passwords = performer.store.authorization().settings().passwords;
    let forbidden = [
        (options.login.is_some(), "LOGIN"),
        (options.password.is_some() && !has_passwords, "PASSWORD"),
        (options.hashed_password.is_some() && !has_passwords, "HASHED_PASSWORD"),
        (options.custom.is_some(), "OPTIONS"),
    ];
    match forbidden.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => Err(unauthorized(format!("You aren't allowed to alter {option}"))),
        None => Ok(()),
    }
}

pub(super) fn drop(drop: &DropRole, performer: &Performer<'_>) -> Result<Outcome> {
    let (store, name) = (performer.store, drop.name.as_str());
    performer.require_for_roles(Permission::Drop, Resource::Role(name))?;
    let _changing = store.lock_roles();
    let Some(role) = store.role(name)? else {
        if drop.if_exists {
            return Ok(Outcome::Void);
        }
        bail_invalid!("{name} doesn't exist");
    };
    if performer.name() == Some(name) {
        bail_invalid!("Cannot DROP primary role for current login");
    }
    if store.read_roles_of(name, true)?.iter().any(|role| role.is_superuser) && !performer.is_superuser()? {
        return Err(unauthorized("Only superusers can drop a role with superuser status"));
    }
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    let mut mutations = store.remove_role(&role, timestamp)?;
    mutations.extend(store.revoke_all_of(name, timestamp)?);
    let resource = Resource::Role(name).name();
    mutations.extend(store.revoke_all_on(|granted| granted == resource, timestamp)?);
    store.write_roles(&mutations)?;
    Ok(Outcome::Void)
}

/// Checks the options that do not depend on the role.
fn check_options(options: &RoleOptions, performer: &Performer<'_>) -> Result<()> {
    let has_passwords = performer.is_program() || performer.store.authorization().settings().passwords;
    let unsupported = [
        (options.password.is_some() && !has_passwords, "PASSWORD"),
        (options.hashed_password.is_some() && !has_passwords, "HASHED_PASSWORD"),
        (options.custom.is_some(), "OPTIONS"),
    ];
    if let Some((_, option)) = unsupported.into_iter().find(|(is_given, _)| *is_given) {
        return Err(unsupported_role_option(option));
    }
    if let Some(hashed) = &options.hashed_password {
        passwords::check_hash(hashed)?;
    }
    Ok(())
}

/// Checks that the data centers and CIDR groups of the options exist.
fn check_access(options: &RoleOptions, performer: &Performer<'_>) -> Result<()> {
    let data_center = &performer.store.node().data_center;
    if let Some(Access::Only(names)) = &options.datacenters
        && names.iter().any(|name| **name != **data_center)
    {
        let names: BTreeSet<&str> = names.iter().map(|name| &**name).collect();
        let names: Vec<&str> = names.into_iter().collect();
        bail_invalid!(
            "Invalid value(s) for DATACENTERS '[{}]',All values must be valid datacenters",
            names.join(", ")
        );
    }
    options.cidrs.as_ref().map_or(Ok(()), |access| performer.store.check_cidr_groups(access))
}

/// Returns the hash that the options set.
fn new_hash(options: &RoleOptions) -> Result<Option<String>> {
    match (&options.password, &options.hashed_password) {
        (Some(password), _) => passwords::hash(password).map(Some),
        (None, hashed) => Ok(hashed.as_deref().map(str::to_owned)),
    }
}
