//! LIST ROLES and LIST USERS.

use std::sync::{Arc, LazyLock};

use cassette_cql::ast::{ListRoles, Permission};
use cassette_rows::DataType;
use cassette_rows::types::collection;

use super::performer::{Performer, unauthorized};
use crate::basics::error::{Result, bail_invalid};
use crate::basics::response::{ColumnSpec, Outcome, ResultMetadata, RowSink};
use crate::schema::authorization::Resource;
use crate::schema::system::SYSTEM_AUTH;
use crate::store::authorization::Role;

static ROLES: LazyLock<Arc<ResultMetadata>> = LazyLock::new(|| {
    let options = DataType::map(DataType::Text, DataType::Text);
    metadata(
        "roles",
        &[
            ("role", DataType::Text),
            ("super", DataType::Boolean),
            ("login", DataType::Boolean),
            ("options", options),
            ("datacenters", DataType::Text),
        ],
    )
});

static USERS: LazyLock<Arc<ResultMetadata>> = LazyLock::new(|| {
    metadata(
        "users",
        &[("name", DataType::Text), ("super", DataType::Boolean), ("datacenters", DataType::Text)],
    )
});

/// Returns the metadata of rows that are shown as of a table of `system_auth`.
pub(super) fn metadata(table: &str, columns: &[(&str, DataType)]) -> Arc<ResultMetadata> {
    let column = |(name, data_type): &(&str, DataType)| ColumnSpec {
        keyspace: SYSTEM_AUTH.into(),
        table: table.into(),
        name: (*name).into(),
        data_type: data_type.clone(),
    };
    ResultMetadata::new(columns.iter().map(column).collect())
}

/// LIST ROLES
pub(super) fn roles(list: &ListRoles, performer: &Performer<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
    let grantee = list.grantee.as_ref().map(|grantee| grantee.as_str());
    let listed = listed(grantee, !list.no_recursive, performer)?;
    if listed.is_empty() {
        return Ok(Outcome::Void);
    }
    sink.begin(&ROLES);
    for role in listed {
        sink.value(Some(role.name.as_bytes()));
        sink.value(Some(&[u8::from(role.is_superuser)]));
        sink.value(Some(&[u8::from(role.can_login)]));
        sink.value_with(&mut |out| collection::write_map(out, std::iter::empty()));
        let data_centers = performer.store.data_centers_of(&role.name)?.to_string();
        sink.value(Some(data_centers.as_bytes()));
        sink.end_row()?;
    }
    Ok(Outcome::Rows { paging_state: None })
}

/// LIST USERS: the roles that can log in.
pub(super) fn users(performer: &Performer<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
    let mut listed = listed(None, true, performer)?;
    listed.retain(|role| role.can_login);
    if listed.is_empty() {
        return Ok(Outcome::Void);
    }
    sink.begin(&USERS);
    for user in listed {
        sink.value(Some(user.name.as_bytes()));
        let is_superuser = performer.store.is_superuser(&user.name)?;
        sink.value(Some(&[u8::from(is_superuser)]));
        let data_centers = performer.store.data_centers_of(&user.name)?.to_string();
        sink.value(Some(data_centers.as_bytes()));
        sink.end_row()?;
    }
    Ok(Outcome::Rows { paging_state: None })
}

/// Returns the roles of `grantee`, or all that the performer may list, in the order of their names.
fn listed(grantee: Option<&str>, is_recursive: bool, performer: &Performer<'_>) -> Result<Vec<Role>> {
    let store = performer.store;
    if let Some(grantee) = grantee
        && store.role(grantee)?.is_none()
    {
        bail_invalid!("{} doesn't exist", Resource::Role(grantee));
    }
    let may_list_all = performer.permits(Permission::Describe, Resource::AllRoles)?;
    let mut listed = match (grantee, performer.name()) {
        (None, Some(own)) if !may_list_all => store.read_roles_of(own, is_recursive)?,
        (None, _) => store.all_roles()?,
        (Some(grantee), _) => {
            if !may_list_all && !performer.has_role(grantee)? {
                return Err(unauthorized(format!(
                    "You are not authorized to view roles granted to {grantee} "
                )));
            }
            store.read_roles_of(grantee, is_recursive)?
        }
    };
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(listed)
}
