//! Layer 6: planning and execution of all kinds of statements: on rows, on the schema and on whole
//! tables, with the builds that follow.

pub(crate) mod builds;
pub(crate) mod plan;
pub(crate) mod required;
pub(crate) mod roles;
pub(crate) mod schema;
#[cfg(test)]
mod tests;
pub(crate) mod truncate;
