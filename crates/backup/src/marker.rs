//! The file that makes a directory or a prefix a repository, and describes it.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::keys::BackupKeys;

/// The file that makes a directory or a prefix a repository.
pub(crate) const MARKER: &str = "cassette-backups.json";
pub(crate) const LOCK: &str = "lock";
/// Formats of repositories. Versions without encryption reject the second one.
const PLAIN: u32 = 1;
const ENCRYPTED: u32 = 2;

/// What a repository is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Marker {
    format: u32,
    #[serde(default)]
    encrypted: bool,
}

impl Marker {
    /// Returns the marker of a new repository.
    pub fn new(keys: Option<&BackupKeys>) -> Self {
        let encrypted = keys.is_some();
        Self { format: if encrypted { ENCRYPTED } else { PLAIN }, encrypted }
    }

    /// Checks that the repository has a known format, and is encrypted exactly if there are keys.
    pub fn check(&self, shown: &str, keys: Option<&BackupKeys>) -> Result<()> {
        Err(Error::invalid(match (self.format, self.encrypted, keys.is_some()) {
            (PLAIN, false, false) | (ENCRYPTED, true, true) => return Ok(()),
            (PLAIN, false, true) => format!(
                "{shown}: the backups here are not encrypted, but a key was specified; specify another directory for \
                 encrypted ones, or no key"
            ),
            (ENCRYPTED, true, false) => format!(
                "{shown}: the backups here are encrypted; specify the file with their key: --key-file, or key_file \
                 of backup_options"
            ),
            (PLAIN, true, _) | (ENCRYPTED, false, _) => format!(
                "{shown}: the marker is damaged: expected format {PLAIN} without encryption or {ENCRYPTED} with it, \
                 found the opposite; restore it from a copy of the directory"
            ),
            (format, ..) => format!(
                "{shown}: expected format {PLAIN} or {ENCRYPTED}, found {format}: use the version of cassette that \
                 wrote it"
            ),
        }))
    }
}
