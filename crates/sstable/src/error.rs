//! How the parsers of this crate say that bytes are not what they must be.

use std::fmt;
use std::path::Path;

use cassette_rows::StorageError;

/// Bytes that cannot be what Cassandra wrote: where, and what was expected and found.
///
/// The parsers work on byte slices and know no file name; [`Malformed::at`] adds it. Boxed, because a `Result` with
/// it crosses the hottest loops.
#[derive(Debug)]
pub struct Malformed(Box<Inner>);

#[derive(Debug)]
struct Inner {
    offset: u64,
    detail: String,
}

impl Malformed {
    /// `offset` is counted as the caller counts: from the start of the file, or of the uncompressed stream.
    #[cold]
    pub fn new(offset: u64, detail: impl Into<String>) -> Self {
        Self(Box::new(Inner { offset, detail: detail.into() }))
    }

    /// The error for the world outside: the file is named.
    #[cold]
    pub fn at(self, path: &Path) -> StorageError {
        StorageError::corrupt(path, format!("at {}: {}", self.0.offset, self.0.detail))
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: {}", self.0.offset, self.0.detail)
    }
}

impl std::error::Error for Malformed {}

/// What a parser returns.
pub type Parsed<T> = Result<T, Malformed>;
