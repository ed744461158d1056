//! Roles and permissions as plain data: resources with their names, sets of permissions, and the
//! tables that every role can read. No storage.

mod permission_set;
mod readable;
mod resource;

pub(crate) use permission_set::PermissionSet;
pub(crate) use readable::is_readable_by_everyone;
pub(crate) use resource::Resource;
