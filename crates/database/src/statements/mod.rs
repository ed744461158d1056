//! Layer 6: statements of all kinds, planned and executed: those on rows, and those on the schema and whole tables, with the
//! builds that follow them.

pub(crate) mod builds;
pub(crate) mod plan;
pub(crate) mod schema;
pub(crate) mod truncate;
