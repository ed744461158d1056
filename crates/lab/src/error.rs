//! What stops a benchmark, as opposed to a failed operation, which is counted.

use crate::ycsb::properties::PropertyError;

/// Why a benchmark could not be started or finished.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A workload property that cannot be taken.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// Arguments that make no sense, alone or together.
    #[error("{0}")]
    Usage(String),
    /// The engine under test refused something that every operation depends on.
    #[error("{engine}: {attempt}: {reason}")]
    Engine {
        /// Which engine.
        engine: String,
        /// What was attempted.
        attempt: String,
        /// What it answered.
        reason: String,
    },
    /// Reading or writing a file of the laboratory's own.
    #[error("{attempt}: {error}")]
    Io {
        /// What was attempted, with the path.
        attempt: String,
        /// What the system answered.
        error: std::io::Error,
    },
}

impl LabError {
    /// An engine's refusal.
    pub fn engine(engine: &str, attempt: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Engine { engine: engine.into(), attempt: attempt.into(), reason: reason.to_string() }
    }

    /// A failed access to a file.
    pub fn io(attempt: impl Into<String>, error: std::io::Error) -> Self {
        Self::Io { attempt: attempt.into(), error }
    }
}
