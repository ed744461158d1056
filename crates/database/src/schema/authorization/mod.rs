//! Roles and permissions as plain data: resources with their names, sets of permissions, and the
//! tables that every role can read, data centers, CIDRs, names of caches. No storage.

mod allowed_names;
mod cache_kind;
mod cidr;
mod permission_set;
mod readable;
mod resource;

pub(crate) use allowed_names::AllowedNames;
pub use cache_kind::AuthCacheKind;
pub(crate) use cidr::{Cidr, shown_address};
pub(crate) use permission_set::PermissionSet;
pub(crate) use readable::is_readable_by_everyone;
pub(crate) use resource::Resource;
