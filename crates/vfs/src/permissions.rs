//! Who may read the files that this process creates.

use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

/// Who may read files and list directories that [`RealFileSystem`](crate::RealFileSystem) creates. Only their owner
/// may write to them, but with [`Umask`](Self::Umask).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FileAccess {
    /// Their owner: 0600 and 0700. The default.
    Owner = 0,
    /// Their group, too: 0640 and 0750.
    Group = 1,
    /// The modes that the process's umask leaves: 0666 and 0777 without its bits.
    Umask = 2,
}

static ACCESS: AtomicU8 = AtomicU8::new(FileAccess::Owner as u8);

impl FileAccess {
    /// Sets what holds for all that this process creates from now on. As a umask, it belongs to the process.
    pub fn set(self) {
        ACCESS.store(self as u8, Ordering::Relaxed);
    }

    /// Returns what was set.
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
