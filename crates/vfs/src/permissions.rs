//! Permissions of the files that this process creates.

use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

/// Readers of the files and directories that [`RealFileSystem`](crate::RealFileSystem) creates.
/// Only the owner can write, except with [`Umask`](Self::Umask).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FileAccess {
    /// The owner: 0600 and 0700. The default.
    Owner = 0,
    /// Also the group: 0640 and 0750.
    Group = 1,
    /// The process's umask decides: 0666 and 0777 without its bits.
    Umask = 2,
}

static ACCESS: AtomicU8 = AtomicU8::new(FileAccess::Owner as u8);

impl FileAccess {
    /// Applies to all files that this process creates from now on. Like a umask, it is global to
    /// the process.
    pub fn set(self) {
        ACCESS.store(self as u8, Ordering::Relaxed);
    }

    /// Returns the current setting.
    pub fn current() -> Self {
        match ACCESS.load(Ordering::Relaxed) {
            0 => Self::Owner,
            1 => Self::Group,
            _ => Self::Umask,
        }
    }

    /// The mode of new files.
    pub(crate) fn file_mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Group => 0o640,
            Self::Umask => 0o666,
        }
    }

    /// The mode of new directories.
    pub fn directory_mode(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Group => 0o750,
            Self::Umask => 0o777,
        }
    }
}

impl FromStr for FileAccess {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "owner" => Ok(Self::Owner),
            "group" => Ok(Self::Group),
            "umask" => Ok(Self::Umask),
            other => Err(format!("expected owner, group or umask, found {other}")),
        }
    }
}
