//! Errors of options and files.

use std::io;
use std::path::Path;

use thiserror::Error;
use tokio_rustls::rustls;

/// Why connections cannot be encrypted with these options.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The path of the file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// A file does not contain what it is specified for.
    #[error("{path}: {detail}")]
    Invalid {
        /// The path of the file.
        path: String,
        /// What was expected, and what was found.
        detail: String,
    },
    /// An option has an unsupported value.
    #[error("{0}")]
    Option(String),
    /// Key, certificates and options do not work together.
    #[error("{path}: {source}")]
    Rejected {
        /// The path of the file with the key or the trusted certificates.
        path: String,
        /// The cause.
        source: rustls::Error,
    },
}

impl TlsError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }

    pub(crate) fn invalid(path: &Path, detail: impl Into<String>) -> Self {
        Self::Invalid { path: path.display().to_string(), detail: detail.into() }
    }

    pub(crate) fn rejected(path: &Path, source: rustls::Error) -> Self {
        Self::Rejected { path: path.display().to_string(), source }
    }
}
