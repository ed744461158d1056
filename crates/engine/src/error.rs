//! What the engine refuses or fails with.

use cassette_rows::{StorageError, TableId};

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Stored data could not be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// No table with this id was created, or it has been dropped.
    #[error("no table with id {}", .0.0)]
    UnknownTable(TableId),
    /// A table with this id is there already.
    #[error("table {name} with id {} is open already", id.0)]
    TableExists {
        /// The id.
        id: TableId,
        /// The table that has it.
        name: String,
    },
    /// The table asks for a compaction strategy that is not there yet.
    #[error("compaction strategy {class} is not supported yet; supported: {}", crate::COMPACTION_STRATEGIES.join(", "))]
    UnsupportedCompactionStrategy {
        /// The class asked for.
        class: String,
    },
}

/// A result with an [`EngineError`].
pub type Result<T, E = EngineError> = std::result::Result<T, E>;
