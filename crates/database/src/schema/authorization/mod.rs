//! Roles and permissions as plain data: resources with their names, sets of permissions, and the
//! tables that every role can read, data centers, names of caches. No storage.

mod cache_kind;
mod data_centers;
mod permission_set;
mod readable;
mod resource;

pub use cache_kind::AuthCacheKind;
pub(crate) use data_centers::DataCenters;
pub(crate) use permission_set::PermissionSet;
pub(crate) use readable::is_readable_by_everyone;
pub(crate) use resource::Resource;
