//! The durable record that a data directory's server forwards.
//!
//! Written before the first request is forwarded. From then on the target has writes that the
//! directory lacks, so a server must not answer from it again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_database::FORWARDING_FILE;
use cassette_vfs::FileSystem;
use serde::{Deserialize, Serialize};

/// The longest file.
const LENGTH_MAX: usize = 4096;

/// Why forwarding was not recorded.
pub(crate) enum Recording {
    /// There is no record.
    Undone(io::Error),
    /// There may be one.
    Unknown(io::Error),
}

/// The file of a data directory.
pub struct Marker {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    /// `host:port`, several ones separated by commas.
    target: String,
}

impl Marker {
    /// Returns the marker of a data directory. Does not access its file.
    pub fn new(fs: Arc<dyn FileSystem>, directory: &Path) -> Self {
        Self { fs, directory: directory.to_owned() }
    }

    /// Returns its path.
    pub fn path(&self) -> PathBuf {
        self.directory.join(FORWARDING_FILE)
    }

    /// Returns the target to which the server forwards; `None` if it does not.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn read(&self) -> io::Result<Option<String>> {
        let bytes = match self.fs.read(&self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let damaged = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        if bytes.len() > LENGTH_MAX {
            return Err(damaged(format!("expected at most {LENGTH_MAX} bytes, found {}", bytes.len())));
        }
        let content: Content = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        match content.version {
            1 => Ok(Some(content.target)),
            other => Err(damaged(format!("expected version 1, found {other}"))),
        }
    }

    /// Durably records that the server forwards to `target`.
    pub(crate) fn write(&self, target: &str) -> Result<(), Recording> {
        let content = serde_json::to_vec(&Content { version: 1, target: target.to_owned() });
        let content = content.map_err(|error| Recording::Undone(error.into()))?;
        let Err(error) = self.fs.write_atomically(&self.path(), &content) else { return Ok(()) };
        // It may be there, durable or not.
        match self.remove() {
            Ok(()) => Err(Recording::Undone(error)),
            Err(_) => Err(Recording::Unknown(error)),
        }
    }

    /// Durably removes the record: the next server answers from the directory, which lacks what the
    /// target has received meanwhile. No-op without a record.
    ///
    /// # Errors
    /// If it is unknown whether the record is removed.
    pub fn remove(&self) -> io::Result<()> {
        match self.fs.remove_file(&self.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.fs.sync_dir(&self.directory)
    }
}

#[cfg(test)]
mod tests {
    use cassette_vfs::FakeFileSystem;

    use super::*;

    fn marker(fs: &FakeFileSystem) -> Marker {
        Marker::new(Arc::new(fs.clone()), Path::new("/data"))
    }

    fn directory() -> FakeFileSystem {
        let fs = FakeFileSystem::new();
        let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
        shared.create_dir_all(Path::new("/data")).unwrap();
        shared.sync_dir(Path::new("/")).unwrap();
        fs
    }

    #[test]
    fn a_record_survives_every_crash_and_is_absent_after_a_failure_that_says_so() {
        let mut outcomes = [0; 3];
        for number in 0..12 {
            for is_permanent in [false, true] {
                let fs = directory();
                let first = fs.operations();
                if is_permanent {
                    fs.fail_from(first + number)
                } else {
                    fs.fail_at(first + number)
                }
                let written = marker(&fs).write("10.0.0.1:9042");
                fs.heal();
                for seed in 0..8 {
                    let found = marker(&fs.crash(seed)).read().unwrap();
                    match &written {
                        Ok(()) => assert_eq!(found.as_deref(), Some("10.0.0.1:9042"), "{number} {seed}"),
                        Err(Recording::Undone(_)) => assert_eq!(found, None, "{number} {seed}"),
                        Err(Recording::Unknown(_)) => {}
                    }
                }
                outcomes[match written {
                    Ok(()) => 0,
                    Err(Recording::Undone(_)) => 1,
                    Err(Recording::Unknown(_)) => 2,
                }] += 1;
            }
        }
        assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
    }

    #[test]
    fn a_removed_record_stays_removed_and_a_damaged_one_is_an_error() {
        let fs = directory();
        assert_eq!(marker(&fs).read().unwrap(), None);
        marker(&fs).remove().unwrap();
        assert!(marker(&fs).write("host:1").is_ok());
        marker(&fs).remove().unwrap();
        assert_eq!(marker(&fs.fork().crash(1)).read().unwrap(), None);
        let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
        for content in ["", "{}", "{\"version\":2,\"target\":\"host:1\"}", &" ".repeat(5000)] {
            shared.write_atomically(&marker(&fs).path(), content.as_bytes()).unwrap();
            assert!(marker(&fs).read().is_err(), "{content:.40}");
        }
    }
}
