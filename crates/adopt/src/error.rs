//! Errors.

use std::io;
use std::path::{Path, PathBuf};

use cassette_database::DatabaseError;
use cassette_engine::EngineError;

/// Why a directory was not adopted or opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The directories cannot be used as specified: what was found, and what to do.
    #[error("{0}")]
    Refused(String),
    /// A file or directory cannot be read or written.
    #[error("cannot {attempted} {}: {source}", path.display())]
    Io {
        /// The operation.
        attempted: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The commit log of Cassandra cannot be read.
    #[error(
        "the commit log segment {} cannot be read at {offset}: {detail}. Start Cassandra, run `nodetool drain`, and \
         stop it; or lose the writes that are only in the commit log with --ignore-commitlog",
        segment.display()
    )]
    CommitLog {
        /// The file.
        segment: PathBuf,
        /// The offset in it.
        offset: u64,
        /// What was expected and found.
        detail: String,
    },
    /// The system tables of Cassandra cannot be read, or the database cannot be written.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// SSTables cannot be taken into a table.
    #[error("{table}: {source}")]
    Table {
        /// The table.
        table: String,
        /// The error.
        source: EngineError,
    },
}

/// A result with an [`AdoptError`].
pub type Result<T, E = AdoptError> = std::result::Result<T, E>;

impl AdoptError {
    pub(crate) fn io(attempted: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { attempted, path, source }
    }

    /// Whether the cause is a full disk.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            Self::Table { source, .. } => source.is_disk_full(),
            Self::Refused(_) | Self::CommitLog { .. } | Self::Database(_) => false,
        }
    }
}
