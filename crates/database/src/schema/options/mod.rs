//! Options of tables and keyspaces: reading and validation.

mod compact_storage;
pub(crate) mod compaction;
pub(crate) mod compression;
pub(crate) mod properties;
pub(crate) mod replication;
pub(crate) mod speculation;
pub(crate) mod table_definition;
pub(crate) mod table_params;

pub(crate) use table_definition::own_table;
