//! The error of a lock that another process holds.

use std::io;
use std::path::PathBuf;

/// Why [`FileSystem::lock`](crate::FileSystem::lock) fails with [`io::ErrorKind::WouldBlock`]: the
/// error's inner value.
#[derive(Debug)]
pub struct LockHeld {
    /// The lock file.
    pub path: PathBuf,
    /// The id of the process that holds it, if the file has it.
    pub holder: Option<u32>,
}

impl LockHeld {
    /// The holder of the lock that `error` is about, if it is known.
    pub fn holder_in(error: &io::Error) -> Option<u32> {
        error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).and_then(|held| held.holder)
    }
}

impl std::fmt::Display for LockHeld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "lock {}: held by ", self.path.display())?;
        match self.holder {
            Some(id) => write!(f, "process {id}"),
            None => f.write_str("another process"),
        }
    }
}

impl std::error::Error for LockHeld {}
