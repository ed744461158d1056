//! Why a move failed.

use thiserror::Error;

/// The reason why a move failed. Its text contains what to do.
#[derive(Debug, Error)]
pub enum MoveError {
    /// A cluster cannot be reached, or has not responded for too long.
    #[error("{address} does not respond: {reason}; the move resumes with the same command")]
    Unreachable {
        /// The contact points.
        address: String,
        /// The last failure.
        reason: String,
    },
    /// A server has refused a statement.
    #[error("{address} refused {statement:?}: {reason}")]
    Refused {
        /// The server.
        address: String,
        /// The statement.
        statement: String,
        /// The server's message.
        reason: String,
    },
    /// Source or target cannot be used for this move.
    #[error("{0}")]
    Unsuitable(String),
    /// The source may or may not forward its clients to the target.
    #[error(
        "whether the source forwards to the target is unknown: {0}; start the source's server if it does not run, \
         with the same arguments, then the same command again: if the source forwards, it reports that source and \
         target are the same server; otherwise it continues"
    )]
    Undecided(String),
    /// A data directory cannot be opened or read.
    #[error("reading {path}: {reason}")]
    Directory {
        /// The directory.
        path: String,
        /// The failure.
        reason: String,
    },
    /// The progress file cannot be used.
    #[error("progress file {path}: {reason}")]
    Progress {
        /// The file.
        path: String,
        /// The failure.
        reason: String,
    },
}

pub(crate) type Result<T> = std::result::Result<T, MoveError>;

/// Returns an error with this text.
pub(crate) fn unsuitable<T>(text: impl Into<String>) -> Result<T> {
    Err(MoveError::Unsuitable(text.into()))
}
