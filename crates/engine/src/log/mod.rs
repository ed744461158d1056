//! Durability of changes before SSTables contain them: the commit log, its mutations, the schema
//! journal, and the records of replay positions and drops.

pub mod change_stream;
pub mod commitlog;
pub(crate) mod drop_records;
pub(crate) mod mutation_codec;
pub(crate) mod replay_positions;
pub(crate) mod schema_journal;
