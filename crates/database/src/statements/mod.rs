//! Layer 6: planning and execution of all kinds of statements: on rows, on the schema and on whole
//! tables, with the builds that follow.

pub(crate) mod builds;
#[cfg(test)]
mod compact_storage_tests;
#[cfg(test)]
mod functions_tests;
#[cfg(test)]
mod masks_tests;
pub(crate) mod plan;
pub(crate) mod required;
#[cfg(test)]
mod role_testing;
pub(crate) mod roles;
pub(crate) mod schema;
pub(crate) mod truncate;
