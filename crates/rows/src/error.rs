//! What reading or writing stored rows can fail with.

use std::path::PathBuf;

use crate::interrupt::Interrupted;

/// An error from below the engine: the file is named, so that the reader knows what to do.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Bytes on disk are not what they must be. `detail` says where and what was expected and found.
    #[error("{}: corrupt: {detail}", path.display())]
    Corrupt {
        /// The file that holds the bytes.
        path: PathBuf,
        /// Offset, expected and found values.
        detail: String,
    },
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or directory in question.
        path: PathBuf,
        /// A verb and its object: "read 16384 bytes at 40960".
        action: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The reader may not wait for a disk, and would have to. Nothing is wrong.
    #[error("{}: reading would wait for the disk", path.display())]
    WouldBlock {
        /// The file that would have to be read.
        path: PathBuf,
    },
    /// The request that reads was interrupted. Nothing is wrong with the file.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The bytes are whole but say what this table or this version cannot hold: an unknown column, a newer format.
    #[error("{}: {detail}", path.display())]
    Unsupported {
        /// The file that holds the bytes.
        path: PathBuf,
        /// What is not supported, and what is.
        detail: String,
    },
}

/// A result with a [`StorageError`].
pub type Result<T, E = StorageError> = std::result::Result<T, E>;

impl StorageError {
    /// A [`StorageError::Corrupt`].
    pub fn corrupt(path: impl Into<PathBuf>, detail: impl Into<String>) -> Self {
        Self::Corrupt { path: path.into(), detail: detail.into() }
    }

    /// A [`StorageError::Io`].
    pub fn io(path: impl Into<PathBuf>, action: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), action: action.into(), source }
    }
}
