//! The options of an adoption.

use std::path::PathBuf;

/// The options of an adoption.
#[derive(Debug, Clone)]
pub struct AdoptOptions {
    /// The data directory to make. It must not exist, or be empty.
    pub target: PathBuf,
    /// Whether files are copied. Otherwise they are linked where that is possible.
    pub copy: bool,
    /// Whether all SSTables are read completely, with all their checksums and values. Otherwise
    /// their metadata and indexes are.
    pub verify: bool,
}
