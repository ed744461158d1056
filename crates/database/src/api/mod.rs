//! Layer 7: the public API: the open database, sessions, prepared statements, direct row access,
//! data files.

pub(crate) mod authentication;
pub(crate) mod cidr;
pub(crate) mod compaction_history;
pub(crate) mod data_files;
pub(crate) mod database;
pub(crate) mod deferred;
pub(crate) mod direct;
pub mod embedded;
pub(crate) mod faults;
pub(crate) mod foreign;
pub(crate) mod kept_statements;
pub(crate) mod log_point;
pub(crate) mod prepared;
pub(crate) mod running_builds;
#[cfg(test)]
mod seeded_tests;
pub(crate) mod tracing;
pub(crate) mod unknown_tables;
pub(crate) mod virtual_nodes;
