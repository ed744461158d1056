//! Errors of reading and writing stored rows.

use std::path::PathBuf;

use crate::interrupt::Interrupted;

/// An error of the storage formats. It names the file.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Invalid bytes on disk. `detail` contains the position, the expected and the found value.
    #[error("{}: corrupt: {detail}", path.display())]
    Corrupt {
        /// The file that holds the bytes.
        path: PathBuf,
        /// Offset, expected and found values.
        detail: String,
    },
    /// Content that the file format cannot hold, such as partitions out of order or a value of
    /// another width. Nothing on disk is damaged.
    #[error("{}: cannot be written: {detail}", path.display())]
    Unwritable {
        /// The file that was to be written.
        path: PathBuf,
        /// What does not fit, and what would.
        detail: String,
    },
    /// The operating system returned an error.
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
    /// The read may not wait for a disk, and would have to. This indicates no fault.
    #[error("{}: reading would wait for the disk", path.display())]
    WouldBlock {
        /// The file that would have to be read.
        path: PathBuf,
    },
    /// The request that reads was interrupted. This indicates no fault of the file.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The bytes are intact but contain something that this table or this version does not support:
    /// an unknown column, a newer format.
    #[error("{}: {detail}", path.display())]
    Unsupported {
        /// The file that holds the bytes.
        path: PathBuf,
        /// What is not supported, and what is supported.
        detail: String,
    },
}

/// A result with a [`StorageError`].
pub type Result<T, E = StorageError> = std::result::Result<T, E>;

impl StorageError {
    /// Creates a [`StorageError::Corrupt`].
    pub fn corrupt(path: impl Into<PathBuf>, detail: impl Into<String>) -> Self {
        Self::Corrupt { path: path.into(), detail: detail.into() }
    }

    /// Creates a [`StorageError::Io`].
    pub fn io(path: impl Into<PathBuf>, action: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), action: action.into(), source }
    }
}
