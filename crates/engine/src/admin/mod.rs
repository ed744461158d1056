//! Operations on whole tables: creation and removal, recovery, snapshots, imports, verification,
//! saved caches, statistics.

pub(crate) mod archived;
pub(crate) mod import;
mod import_source;
pub(crate) mod recovery;
mod saved_caches;
pub(crate) mod snapshots;
pub(crate) mod stats;
mod tables;
pub(crate) mod unknown_tables;
pub(crate) mod verify;
