//! Errors.

use std::io;
use std::path::PathBuf;

use cassette_database::DatabaseError;

/// The result of the calls of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server could not be started.
    #[error("cannot start a server: {0}")]
    Start(#[source] io::Error),
    /// A file of CQL could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A statement of a text or a file failed. Those before it were executed.
    #[error("{script}:{line}:{column}: {source}")]
    Statement {
        /// The path of the file; `CQL` for a text.
        script: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1, in characters.
        column: usize,
        /// The cause.
        source: Box<DatabaseError>,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}
