//! SSTables are placed in a directory: linked, or copied where that is not possible.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use cassette_rows::StorageError;
use cassette_sstable::{Component, SSTableReader};
use parking_lot::Mutex;

use super::directories::failed;
use crate::error::{MoveError, Result};
use crate::files::transfers::damaged;

/// Components that no program changes. The others are always copied: a node appends to TOC.txt, so
/// that a link would change the source.
const LINKED: [Component; 4] = [Component::Data, Component::Index, Component::Partitions, Component::Rows];
/// The others that Cassandra reads, and Checksums, which it leaves alone: programs that open the
/// node's files need not read the whole index then.
const COPIED: [Component; 7] = [
    Component::Checksums,
    Component::CompressionInfo,
    Component::Crc,
    Component::Digest,
    Component::Filter,
    Component::Statistics,
    Component::Summary,
];
/// Files that are synced at the same time.
const SYNC_THREADS: usize = 16;
/// Bits of a mode that a file without programs has.
const FILE_MODE: u32 = 0o664;

/// How the files of a directory are created.
pub struct Placing {
    directory: PathBuf,
    /// Owner, group and mode of the directory that the user specified: the node has access to it.
    access: fs::Metadata,
    /// Copies also what could be linked.
    copies: bool,
    /// Files with content that may not be durable.
    written: Mutex<Vec<PathBuf>>,
}

impl Placing {
    /// Creates the directory of a table in `root`, which is created in an existing directory.
    pub fn create(root: &Path, directory: &Path, copies: bool) -> Result<Self> {
        let above = root.parent().unwrap_or(root);
        let access = fs::metadata(above).map_err(|error| failed(above, &error))?;
        let placing =
            Self { directory: directory.to_owned(), access, copies, written: Mutex::new(Vec::new()) };
        let missing: Vec<&Path> = directory.ancestors().take_while(|path| *path != above).collect();
        for path in missing.into_iter().rev() {
            match fs::create_dir(path) {
                Ok(()) => placing.grant(path, 0o777).map_err(|error| failed(path, &error))?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(path, &error)),
            }
            sync(path.parent().unwrap_or(path))?;
        }
        Ok(placing)
    }

    /// Gives the node access to a new file or directory, as it has to the specified directory.
    fn grant(&self, path: &Path, mask: u32) -> io::Result<()> {
        // Only root may give files away. Without that, the group and the mode decide.
        let _ = chown(path, Some(self.access.uid()), Some(self.access.gid()));
        fs::set_permissions(path, Permissions::from_mode(self.access.mode() & mask))
    }

    /// Places the components of an SSTable that are missing, as SSTable `number`. Returns the
    /// bytes that were linked.
    ///
    /// # Errors
    /// If the SSTable is damaged, or the disk full.
    pub fn place(&self, reader: &SSTableReader, number: usize) -> Result<u64> {
        let version = reader.descriptor().version;
        let prefix = format!("{}-{number}-{}", version.letters(), version.format());
        let path = |component: Component| self.directory.join(format!("{prefix}-{}", component.file_name()));
        let present = |component: &Component| reader.components().contains(component);
        let (mut linked, mut names) = (0, String::new());
        for component in COPIED.into_iter().chain(LINKED).filter(present) {
            names.push_str(component.file_name());
            names.push('\n');
            let target = path(component);
            if !target.exists() {
                let is_linked = LINKED.contains(&component) && self.link(reader, component, &target);
                if !is_linked {
                    self.copy(reader, component, &target)?;
                } else if component == Component::Data {
                    linked = reader.data_bytes_on_disk();
                }
            }
        }
        names.push_str(Component::Toc.file_name());
        names.push('\n');
        let toc = path(Component::Toc);
        self.write(&toc, |file| Ok(file.write_all(names.as_bytes())?))
            .map_err(|error| error.of(reader, &toc))?;
        Ok(linked)
    }

    /// Makes what was placed durable.
    pub fn finish(&self) -> Result<()> {
        let written = std::mem::take(&mut *self.written.lock());
        // A file system combines what is synced at the same time, so that many small files take
        // little longer than a few.
        let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
        std::thread::scope(|scope| {
            for _ in 0..SYNC_THREADS.min(written.len()) {
                scope.spawn(|| {
                    while let Some(path) = written.get(next.fetch_add(1, Relaxed)) {
                        if let Err(error) = sync(path) {
                            failure.lock().get_or_insert(error);
                        }
                    }
                });
            }
        });
        failure.into_inner().map_or_else(|| sync(&self.directory), Err)
    }

    /// Links a component, or shares its blocks. Returns `false` if it must be copied: it is in
    /// memory only, on another file system, or unreadable for the node.
    fn link(&self, reader: &SSTableReader, component: Component, target: &Path) -> bool {
        let source = reader.descriptor().path(component);
        let Ok(metadata) = fs::metadata(&source) else { return false };
        let is_readable = metadata.uid() == self.access.uid() || metadata.mode() & 0o004 != 0;
        if self.copies {
            return false;
        }
        if is_readable && fs::hard_link(&source, target).is_ok() {
            return true;
        }
        let cloned = self.write(target, |file| Ok(clone_blocks(&File::open(&source)?, file)?));
        if cloned.is_err() {
            let _ = fs::remove_file(target);
        }
        cloned.is_ok()
    }

    /// Copies a component, of which Data and the index are compared with their checksums.
    fn copy(&self, reader: &SSTableReader, component: Component, target: &Path) -> Result<()> {
        let copied = self.write(target, |file| {
            let mut stored = reader.stored(component)?;
            while let Some(piece) = stored.next_piece()? {
                file.write_all(piece)?;
            }
            Ok(())
        });
        copied.map_err(|error| error.of(reader, target))
    }

    fn write(
        &self,
        path: &Path,
        content: impl FnOnce(&mut File) -> std::result::Result<(), PlaceError>,
    ) -> std::result::Result<(), PlaceError> {
        let mut file = File::create(path)?;
        content(&mut file)?;
        self.grant(path, FILE_MODE)?;
        self.written.lock().push(path.to_owned());
        Ok(())
    }
}

/// Why a file was not placed.
enum PlaceError {
    Source(StorageError),
    Target(io::Error),
}

impl PlaceError {
    fn of(self, reader: &SSTableReader, target: &Path) -> MoveError {
        match self {
            Self::Source(error) => damaged(&error, reader),
            Self::Target(error) => failed(target, &error),
        }
    }
}

impl From<StorageError> for PlaceError {
    fn from(error: StorageError) -> Self {
        Self::Source(error)
    }
}

impl From<io::Error> for PlaceError {
    fn from(error: io::Error) -> Self {
        Self::Target(error)
    }
}

/// Makes `to` share the blocks of `from`, on file systems that support it.
#[cfg(target_os = "linux")]
fn clone_blocks(from: &File, to: &File) -> io::Result<()> {
    Ok(rustix::fs::ioctl_ficlone(to, from)?)
}

#[cfg(not(target_os = "linux"))]
fn clone_blocks(_: &File, _: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn sync(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| failed(path, &error))
}
