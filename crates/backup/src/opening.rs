//! Opening directories of backups and object stores, plain and encrypted ones.
//!
//! The marker names what a repository is when it is created, and a command has to specify keys
//! exactly if it is encrypted. So a plain manifest is never accepted in place of an encrypted one.

use std::io;
use std::path::Path;
use std::sync::Arc;

use cassette_vfs::FileSystem;

use crate::copy::read_small;
use crate::error::{Error, Result};
use crate::keys::BackupKeys;
use crate::marker::{LOCK, MARKER, Marker};
use crate::object_layout::ObjectLayout;
use crate::repository::Repository;

/// The maximum length of the marker, bytes.
const MARKER_LENGTH_MAX: u64 = 4096;

/// The address of a repository, and its keys.
#[derive(Debug, Clone)]
pub struct Location {
    /// A directory, or `s3://bucket/prefix`.
    pub address: String,
    /// The keys of encrypted backups.
    pub keys: Option<BackupKeys>,
}

impl Location {
    /// Returns a location of plain backups.
    pub fn plain(address: &str) -> Self {
        Self { address: address.to_owned(), keys: None }
    }
}

/// Whether an address is that of an object store, and not a directory.
pub fn is_remote(address: &str) -> bool {
    address.contains("://")
}

impl Repository {
    /// Opens a repository for changes; creates a missing or empty directory. Removes the remains
    /// of interrupted commands.
    ///
    /// # Errors
    /// Invalid, if the directory has other contents, or another command uses it, or its backups are
    /// encrypted.
    pub fn open(fs: Arc<dyn FileSystem>, root: &Path) -> Result<Self> {
        Self::open_directory(fs, root, None)
    }

    /// Opens a repository for reading, without writing to it. Excludes commands that change it.
    ///
    /// # Errors
    /// Invalid, if the directory is not a repository, or another command changes it, or its backups
    /// are encrypted.
    pub fn open_for_reading(fs: Arc<dyn FileSystem>, root: &Path) -> Result<Self> {
        Self::read_directory(fs, root, None)
    }

    /// Opens the repository at a location for changes; see [`open`](Self::open). `fs` has the
    /// directory, and the files of databases.
    ///
    /// # Errors
    /// As for `open`, or if the store cannot be reached.
    pub fn open_at(fs: Arc<dyn FileSystem>, location: &Location) -> Result<Self> {
        match Self::remote(&fs, location, true)? {
            Some(remote) => Ok(remote),
            None => Self::open_directory(fs, Path::new(&location.address), location.keys.as_ref()),
        }
    }

    /// [`open_at`](Self::open_at) without creating a repository: a directory that has disappeared,
    /// such as one on a volume that is not mounted any more, must not be created in another place.
    ///
    /// # Errors
    /// As for `open_at`, and Invalid, if there is no repository.
    pub fn open_existing_at(fs: Arc<dyn FileSystem>, location: &Location) -> Result<Self> {
        let address = &location.address;
        if !is_remote(address) && marker(fs.as_ref(), Path::new(address))?.is_none() {
            return Err(Error::invalid(format!(
                "{address}: expected a directory of backups, found no {MARKER} in it; is its volume mounted?"
            )));
        }
        Self::open_at(fs, location)
    }

    /// [`open_at`](Self::open_at) for reading. Objects that are read can be removed meanwhile by a
    /// command that removes their backup.
    ///
    /// # Errors
    /// As for `open_at`.
    pub fn open_at_for_reading(fs: Arc<dyn FileSystem>, location: &Location) -> Result<Self> {
        match Self::remote(&fs, location, false)? {
            Some(remote) => Ok(remote),
            None => Self::read_directory(fs, Path::new(&location.address), location.keys.as_ref()),
        }
    }

    fn open_directory(fs: Arc<dyn FileSystem>, root: &Path, keys: Option<&BackupKeys>) -> Result<Self> {
        let shown = root.display().to_string();
        // Nothing is created in the directory of another program, or with another key.
        match marker(fs.as_ref(), root)? {
            Some(marker) => marker.check(&shown, keys)?,
            None => prepare(fs.as_ref(), root)?,
        }
        let lock = fs.lock(&root.join(LOCK)).map_err(|error| busy(root, error))?;
        // Again: another command may have decided meanwhile whether the directory is encrypted.
        match marker(fs.as_ref(), root)? {
            Some(marker) => marker.check(&shown, keys)?,
            None => write_marker(fs.as_ref(), root, keys)?,
        }
        let objects = keys.map(|keys| ObjectLayout::of_directory(&fs, root, keys));
        if let Some(layout) = &objects {
            layout.remove_remains()?;
        }
        let repository = Self { fs, root: root.to_owned(), objects, _lock: Some(lock) };
        repository.remove_remains()?;
        Ok(repository)
    }

    fn read_directory(fs: Arc<dyn FileSystem>, root: &Path, keys: Option<&BackupKeys>) -> Result<Self> {
        let Some(marker) = marker(fs.as_ref(), root)? else {
            return Err(Error::invalid(format!(
                "{}: expected a directory of backups, found no {MARKER} in it",
                root.display()
            )));
        };
        marker.check(&root.display().to_string(), keys)?;
        let lock = fs.lock_shared(&root.join(LOCK)).map_err(|error| busy(root, error))?;
        let objects = keys.map(|keys| ObjectLayout::of_directory(&fs, root, keys));
        Ok(Self { fs, root: root.to_owned(), objects, _lock: Some(lock) })
    }

    /// Opens a repository in an object store; `None` if the location is a directory.
    #[cfg(feature = "s3")]
    fn remote(fs: &Arc<dyn FileSystem>, location: &Location, changes: bool) -> Result<Option<Self>> {
        if !is_remote(&location.address) {
            return Ok(None);
        }
        let objects = Arc::new(crate::objects::RemoteObjects::open(&location.address)?);
        Self::of_objects(fs, objects, changes, location.keys.as_ref()).map(Some)
    }

    #[cfg(not(feature = "s3"))]
    fn remote(_: &Arc<dyn FileSystem>, location: &Location, _: bool) -> Result<Option<Self>> {
        if !is_remote(&location.address) {
            return Ok(None);
        }
        Err(Error::invalid(format!(
            "{}: this program was built without object stores; specify a directory",
            location.address
        )))
    }

    #[cfg(feature = "s3")]
    pub(crate) fn of_objects(
        fs: &Arc<dyn FileSystem>,
        objects: Arc<dyn crate::objects::SharedObjects>,
        changes: bool,
        keys: Option<&BackupKeys>,
    ) -> Result<Self> {
        let root = objects.describe("");
        let root = std::path::PathBuf::from(root.to_string_lossy().trim_end_matches('/'));
        let layout = ObjectLayout::open(objects, changes, keys)?;
        Ok(Self { fs: Arc::clone(fs), root, objects: Some(layout), _lock: None })
    }
}

fn busy(root: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        return Error::invalid(format!(
            "{}: another command uses this directory of backups; try again when it is done",
            root.display()
        ));
    }
    Error::io(&root.join(LOCK), "lock")(error)
}

/// Returns the marker of a directory; `None` if it is not a repository.
fn marker(fs: &dyn FileSystem, root: &Path) -> Result<Option<Marker>> {
    let path = root.join(MARKER);
    if !fs.exists(&path).map_err(Error::io(&path, "examine"))? {
        return Ok(None);
    }
    let content = read_small(fs, &path, MARKER_LENGTH_MAX)?;
    serde_json::from_slice(&content).map(Some).map_err(|error| Error::damaged(&path, error.to_string()))
}

/// Creates a directory for backups, or checks that it is empty.
fn prepare(fs: &dyn FileSystem, root: &Path) -> Result<()> {
    match fs.read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs.create_with_parents(root).map_err(Error::io(root, "create the directory"))?;
        }
        entries => {
            let entries = entries.map_err(Error::io(root, "list"))?;
            // What an interrupted first command leaves, and nothing else.
            let is_own = |name: &str| name == LOCK || name.strip_suffix(".tmp") == Some(MARKER);
            if let Some(other) = entries.iter().find(|entry| !is_own(&entry.name)) {
                return Err(Error::invalid(format!(
                    "{}: expected an empty directory or one of backups, found {}; specify another directory",
                    root.display(),
                    other.name
                )));
            }
        }
    }
    Ok(())
}

/// Makes a locked directory one of backups, encrypted exactly if there are keys.
fn write_marker(fs: &dyn FileSystem, root: &Path, keys: Option<&BackupKeys>) -> Result<()> {
    let path = root.join(MARKER);
    let content = serde_json::to_vec(&Marker::new(keys)).expect("numbers can be encoded");
    fs.write_atomically(&path, &content).map_err(Error::io(&path, "write"))
}
