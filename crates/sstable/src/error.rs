//! Errors of the parsers of this crate.

use std::fmt;
use std::path::Path;

use cassette_rows::StorageError;

/// Invalid bytes: their offset, and the expected and found value.
///
/// The parsers work on byte slices without file names; [`Malformed::at`] adds them. Boxed, because
/// a `Result` with it is returned in the hottest loops.
#[derive(Debug)]
pub struct Malformed(Box<Inner>);

#[derive(Debug)]
struct Inner {
    offset: u64,
    detail: Detail,
}

#[derive(Debug)]
enum Detail {
    Text(String),
    /// Fewer bytes than an item needs. Reads of a window of a stream end with it before they load
    /// more, so that it is not formatted before it is displayed.
    Short {
        wanted: u64,
        left: u64,
    },
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Short { wanted, left } => write!(f, "{wanted} bytes expected, {left} left"),
        }
    }
}

impl Malformed {
    /// `offset` is counted by the caller: from the start of the file, or of the uncompressed
    /// stream.
    #[cold]
    pub fn new(offset: u64, detail: impl Into<String>) -> Self {
        Self(Box::new(Inner { offset, detail: Detail::Text(detail.into()) }))
    }

    /// `wanted` bytes are expected at `offset`, and `left` follow.
    #[cold]
    pub fn short(offset: u64, wanted: u64, left: u64) -> Self {
        Self(Box::new(Inner { offset, detail: Detail::Short { wanted, left } }))
    }

    /// Converts to the public error, which names the file.
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

/// The result of a parser.
pub type Parsed<T> = Result<T, Malformed>;
