//! Errors of backups.

use std::path::{Path, PathBuf};

use cassette_database::DatabaseError;
use cassette_engine::EngineError;
use cassette_engine::commitlog::OpenError;
use cassette_rows::StorageError;

/// The error of a failed operation on backups.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be executed as it is: a name that does not exist, a directory that is no
    /// repository.
    #[error("{0}")]
    Invalid(String),
    /// A file of a backup is missing or differs from what the backup recorded.
    #[error("{}: damaged: {detail}; restore from another backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The difference.
        detail: String,
    },
    /// The file system returned an error.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An object store returned an error.
    #[error("{}: cannot {action}: {detail}", path.display())]
    Remote {
        /// The address of the object.
        path: PathBuf,
        /// The attempted action.
        action: String,
        /// The error, and what to do.
        detail: String,
    },
    /// A segment of the commit log could not be read.
    #[error(transparent)]
    Segment(Box<OpenError>),
    /// The storage engine returned an error.
    #[error("{context}: {source}")]
    Engine {
        /// The attempted step.
        context: String,
        /// The engine's error.
        #[source]
        source: EngineError,
    },
    /// The database returned an error.
    #[error("{context}: {source}")]
    Database {
        /// The attempted step.
        context: String,
        /// The database's error.
        #[source]
        source: DatabaseError,
    },
}

/// The result of an operation on backups.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    pub(crate) fn damaged(path: &Path, detail: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), detail: detail.into() }
    }

    /// Returns a function that adds `context` to an error of the database.
    pub(crate) fn in_database(context: impl Into<String>) -> impl FnOnce(DatabaseError) -> Self {
        move |source| Self::Database { context: context.into(), source }
    }

    /// Returns a function that adds the path and the attempted action to an I/O error.
    pub(crate) fn io(path: &Path, action: &str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Storage(StorageError::io(path, action, error))
    }
}
