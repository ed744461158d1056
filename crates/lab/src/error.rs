//! Errors that stop a benchmark. Failed operations are counted instead.

use crate::ycsb::properties::PropertyError;

/// Why a benchmark could not be started or completed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// An invalid workload property.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// Invalid arguments.
    #[error("{0}")]
    Usage(String),
    /// The engine under test rejected a prerequisite of all operations.
    #[error("{engine}: {attempt}: {reason}")]
    Engine {
        /// Name of the engine.
        engine: String,
        /// Attempted operation.
        attempt: String,
        /// The engine's error.
        reason: String,
    },
    /// A file of `cassette lab` could not be read or written.
    #[error("{attempt}: {error}")]
    Io {
        /// Attempted operation, with the path.
        attempt: String,
        /// The system's error.
        error: std::io::Error,
    },
}

impl LabError {
    /// Creates the error of an engine.
    pub fn engine(engine: &str, attempt: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Engine { engine: engine.into(), attempt: attempt.into(), reason: reason.to_string() }
    }

    /// Creates the error of a file access.
    pub fn io(attempt: impl Into<String>, error: std::io::Error) -> Self {
        Self::Io { attempt: attempt.into(), error }
    }
}
