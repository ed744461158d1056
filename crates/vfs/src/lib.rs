//! Files and time behind traits: the real ones, files in memory, and fakes that fail on command.
//!
//! # Durability
//!
//! There are three levels, and each caller must know the level of its bytes:
//!
//! 1. **Written**: [`WritableFile::write_all`] returned. The operating system has the bytes. They
//!    survive the death of the process (`kill -9`), not of the machine.
//! 2. **Synced**: [`WritableFile::sync`] or [`SyncHandle::sync`] returned. The bytes written before
//!    the call began survive the death of the machine, *if the file can be found again*, which is
//!    the third level.
//! 3. **Linked**: [`FileSystem::sync_dir`] returned. Names created, renamed or removed in that one
//!    directory before the call began survive the death of the machine. A name is linked only when
//!    every directory above it is.
//!
//! Nothing is synced implicitly: not on drop, not on rename, not on close. An unsynced file can
//! come back shorter, torn anywhere, with holes, or with garbage in the bytes that were never
//! synced; synced bytes come back unchanged. After a failed sync its bytes may never become
//! durable, even if a later sync succeeds: the kernel clears the dirty mark with the error. The
//! caller must then write the bytes again, elsewhere, or stop.
//!
//! [`FakeFileSystem`] enforces exactly this contract on its callers.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

mod clock;
pub mod encryption;
mod fake;
mod in_memory;
mod lock_held;
mod memory;
mod overlay;
#[cfg(target_os = "linux")]
mod page_cache;
mod permissions;
mod real;
mod staging;
mod unsynced;

pub use clock::{Clock, ManualClock, SteppedClock, SystemClock};
pub use fake::{FakeFileSystem, Operation, OperationKind};
pub use in_memory::MemoryFileSystem;
pub use lock_held::LockHeld;
pub use memory::memory_limit;
pub use overlay::OverlayFileSystem;
pub use permissions::FileAccess;
pub use real::RealFileSystem;
pub use staging::{StagedDirectory, StagingError};
pub use unsynced::UnsyncedFileSystem;

/// A tree of files and directories. Used as `Arc<dyn FileSystem>`.
///
/// Errors keep the operating system's [`io::ErrorKind`], and their text contains the operation and
/// the path. `ErrorKind::StorageFull` is a full disk, in every operation.
pub trait FileSystem: fmt::Debug + Send + Sync + 'static {
    /// Creates the file, or truncates an existing one, and opens it for writing at offset 0. The
    /// name is durable only after [`sync_dir`](Self::sync_dir) on its directory.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>>;

    /// Opens an existing file for overwriting from `offset`. Its length as `offset` appends.
    fn open_writable(&self, path: &Path, offset: u64) -> io::Result<Box<dyn WritableFile>>;

    /// Opens an existing file for reading. The handle keeps reading the same file after a rename or
    /// removal.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>>;

    /// Creates the directory and missing parents. Each new name must be synced in its parent, from
    /// the top down.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Lists the directory, sorted by name. Omits names that are not UTF-8, because this program
    /// creates none.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Returns the metadata of the path's target; `ErrorKind::NotFound` without one.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// Returns the absolute path without `..` and symbolic links; `ErrorKind::NotFound` if it does
    /// not exist. A bind mount still gives one directory several such paths: compare
    /// [`identity`](Self::identity) where that matters.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// Returns the identity of the file or directory at the path, following symbolic links.
    fn identity(&self, path: &Path) -> io::Result<FileId>;

    /// Returns the permission bits of the path's target, as in `chmod`; `None` where the platform
    /// has none.
    fn mode(&self, path: &Path) -> io::Result<Option<u32>> {
        let _ = path;
        Ok(None)
    }

    /// Renames a file or directory. A file that exists at `to` is replaced: at every instant, and
    /// after every crash, `to` is the old file or the new one. Durable after syncing the directory;
    /// across two directories, after syncing both, and a crash in between can leave the file under
    /// both names.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the name of a file. Durable after syncing the directory; before that a crash can
    /// restore it.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and everything in it. Not atomic.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Creates a second name for the file at `original`; `ErrorKind::AlreadyExists` if `link`
    /// exists.
    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()>;

    /// Makes the names created, renamed and removed in this directory durable. Does not include
    /// subdirectories.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Acquires the exclusive lock on the file at `path` without waiting; creates a missing file.
    /// The lock is held until it is dropped or the process ends in any way. `ErrorKind::WouldBlock`
    /// if it is held already.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;

    /// Acquires a shared lock on the existing file at `path` without waiting and without writing to
    /// it: it excludes [`lock`](Self::lock), and nothing else. `ErrorKind::NotFound` if there is no
    /// such file, and `ErrorKind::WouldBlock` if another holds the exclusive lock.
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;

    /// Returns the bytes that this process can still write to the volume of `path`.
    fn available_space(&self, path: &Path) -> io::Result<u64>;

    /// Returns a number that is constant between two starts of the machine: if two are equal, no
    /// written byte was lost in between. `None` if the platform provides none.
    fn boot_id(&self) -> Option<u128> {
        None
    }

    /// Returns whether the files are in the memory of this process, where no other program can read
    /// them, and end with it.
    fn is_in_memory(&self) -> bool {
        false
    }
}

impl dyn FileSystem {
    /// Returns whether the path exists.
    pub fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the content of a small file; trusts the file's length.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read_start(path, u64::MAX)
    }

    /// Returns the content of a small file up to `length` bytes; trusts the file's length.
    pub fn read_start(&self, path: &Path, length: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path)?;
        let length = usize::try_from(file.len()?.min(length))
            .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, format!("read {}", path.display())))?;
        let mut content = vec![0; length];
        file.read_exact_at(&mut content, 0)?;
        Ok(content)
    }

    /// Creates a directory and its missing parents, durably.
    pub fn create_with_parents(&self, path: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        for directory in path.ancestors().filter(|directory| !directory.as_os_str().is_empty()) {
            if self.exists(directory)? {
                break;
            }
            missing.push(directory);
        }
        self.create_dir_all(path)?;
        for directory in missing.into_iter().rev() {
            let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
            self.sync_dir(parent.unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }

    /// Replaces the content of `path` durably: after every crash the path has the old content or
    /// the new one. Writes a synced file `<path>.tmp` in the same directory, which a crash can
    /// leave behind.
    pub fn write_atomically(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = Path::new(&temporary);
        let mut file = self.create(temporary)?;
        file.write_all(content)?;
        file.sync()?;
        drop(file);
        self.rename(temporary, path)?;
        self.sync_dir(path.parent().unwrap_or(Path::new("")))
    }
}

/// A file being written, front to back, by one writer.
pub trait WritableFile: Send + Sync {
    /// Appends all of `bytes` at [`len`](Self::len). After an error some of them may be in the file
    /// past `len`, which is unchanged, so the next write overwrites them.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes every byte written so far durable (`fdatasync`). Does not block concurrent writes
    /// through the same file.
    fn sync(&self) -> io::Result<()>;

    /// Returns the offset of the next byte: the bytes written so far, and those before the offset
    /// at which the file was opened.
    fn len(&self) -> u64;

    /// Returns whether nothing has been written yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reserves disk space so that writes up to offset `length` cannot fail for lack of it. The
    /// file then reads as zeros from [`len`](Self::len), which does not move, to `length`.
    /// `ErrorKind::StorageFull` without enough space.
    fn allocate(&mut self, length: u64) -> io::Result<()>;

    /// Has the operating system keep reserved bytes, which nothing has been written to, in memory:
    /// writing them later need not wait for memory. They still read as zeros. A hint, which may be
    /// without effect; `start` must not be below [`len`](Self::len) (`ErrorKind::InvalidInput`).
    fn populate(&mut self, start: u64, end: u64) -> io::Result<()> {
        let _ = (start, end);
        Ok(())
    }

    /// Announces that what is written will hardly be read: the operating system then drops it from
    /// memory once it is on the disk. A hint, which may be without effect.
    fn expect_no_reads(&mut self) {}

    /// Truncates the file to `length` bytes, and releases the space reserved beyond; `length` must
    /// not exceed [`len`](Self::len) (`ErrorKind::InvalidInput`).
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Returns a handle that syncs this file from another thread during writes.
    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>>;
}

/// Syncs a file that another thread writes.
pub trait SyncHandle: Send + Sync {
    /// Makes durable every byte whose `write_all` returned before this call began.
    fn sync(&self) -> io::Result<()>;
}

/// A file being read at any offset, by any number of threads.
pub trait RandomAccessFile: Send + Sync {
    /// Reads some bytes at `offset` and returns their number, which is less than requested only at
    /// the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Fills `buffer` from `offset`; `ErrorKind::UnexpectedEof` when the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Does the same as [`read_exact_at`](Self::read_exact_at) if the operating system has the
    /// bytes in memory. Returns `false`, with undefined content of `buffer`, if the read would wait
    /// for the disk, or if that is unknown.
    fn read_exact_at_once(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        let _ = (buffer, offset);
        Ok(false)
    }

    /// Fills both buffers with consecutive bytes from `offset`, like
    /// [`read_exact_at`](Self::read_exact_at); without `waits`, like
    /// [`read_exact_at_once`](Self::read_exact_at_once).
    fn read_pair_at(
        &self,
        (first, second): (&mut [u8], &mut [u8]),
        offset: u64,
        waits: bool,
    ) -> io::Result<bool> {
        let middle = offset.saturating_add(first.len() as u64);
        if waits {
            self.read_exact_at(first, offset)?;
            return self.read_exact_at(second, middle).map(|()| true);
        }
        Ok(self.read_exact_at_once(first, offset)? && self.read_exact_at_once(second, middle)?)
    }

    /// Announces reads at random offsets: the operating system then loads the requested bytes and
    /// no others. Sequential readers announce what they will read with
    /// [`will_need`](Self::will_need). A hint, which may be without effect.
    fn expect_random_reads(&self) {}

    /// Opens the file again for one reader of a long range in order: the operating system reads
    /// ahead of it, in larger pages than [`will_need`](Self::will_need) gets, which cost a fraction
    /// of the processor time. `None` where that is not possible; this file then serves as well.
    fn open_sequential(&self) -> Option<Box<dyn RandomAccessFile>> {
        None
    }

    /// Lets the operating system load bytes from the disk, and returns without waiting for them. A
    /// hint, which may be without effect.
    fn will_need(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Returns how many of these bytes the operating system has in memory, in whole pages; `None`
    /// if it does not report that. The answer may be outdated when it arrives.
    fn cached_bytes(&self, offset: u64, length: u64) -> Option<u64> {
        let _ = (offset, length);
        None
    }

    /// Lets the operating system drop bytes from memory: others are needed more. A hint, which may
    /// be without effect; later reads load the bytes again.
    fn will_not_need(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Returns the whole file as mapped memory, which the system loads on access, page by page and
    /// without reading ahead; `None` where mapping is not supported. The file must not change any
    /// more. A failed disk read then ends the process (SIGBUS), and an access can wait for the disk
    /// unnoticed.
    fn map(&self) -> io::Result<Option<Bytes>> {
        Ok(None)
    }

    /// Returns the present length of the file in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the file is empty at present.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A lock, released on drop.
pub trait FileLock: Send + Sync {}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// A file's length in bytes; 0 for a directory.
    pub len: u64,
}

/// The identity of a file or directory: equal for all its names, through every path, link or mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The volume.
    pub device: u64,
    /// The number of the file on its volume.
    pub inode: u64,
}

/// Metadata of a path's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Whether it is a directory.
    pub is_dir: bool,
    /// A file's length in bytes; 0 for a directory.
    pub len: u64,
    /// The time of the last change of content, in milliseconds since 1970; 0 if unknown.
    pub modified_millis: i64,
}
