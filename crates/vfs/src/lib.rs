//! Files and time behind traits: the real ones, and fakes that fail on command.
//!
//! # What is durable when
//!
//! Three levels, and every caller must know on which one its bytes stand:
//!
//! 1. **Written**: [`WritableFile::write_all`] returned. The operating system has the bytes. They survive the death of the
//!    process (`kill -9`), not of the machine.
//! 2. **Synced**: [`WritableFile::sync`] or [`SyncHandle::sync`] returned. The bytes written before the call began survive the
//!    death of the machine, *if the file can be found again*, which is the third level.
//! 3. **Linked**: [`FileSystem::sync_dir`] returned. Names created, renamed or removed in that one directory before the call
//!    began survive the death of the machine. A name is linked only when every directory above it is.
//!
//! Nothing is synced implicitly: not on drop, not on rename, not on close. An unsynced file may come back shorter, torn
//! anywhere, with holes, or with garbage in the bytes that were never synced; synced bytes come back as they were.
//! A failed sync means that the bytes it was to cover may never become durable, even if a later sync succeeds: the kernel
//! drops the dirty mark with the error. Whoever gets that error must write the bytes again, elsewhere, or stop.
//!
//! [`FakeFileSystem`] holds its callers to exactly this, and to nothing kinder.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

mod clock;
mod fake;
mod memory;
mod permissions;
mod real;

pub use clock::{Clock, ManualClock, SystemClock};
pub use fake::{FakeFileSystem, Operation, OperationKind};
pub use memory::memory_limit;
pub use permissions::FileAccess;
pub use real::RealFileSystem;

/// A tree of files and directories. Used as `Arc<dyn FileSystem>`.
///
/// Errors keep the operating system's [`io::ErrorKind`] and say in their text what was attempted on which path.
/// `ErrorKind::StorageFull` is a full disk, wherever it shows.
pub trait FileSystem: fmt::Debug + Send + Sync + 'static {
    /// Creates the file, or empties the one that is there, and opens it for writing at offset 0.
    /// The name is durable only after [`sync_dir`](Self::sync_dir) on its directory.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>>;

    /// Opens an existing file for writing at `offset`, over the bytes that are there. With its length, to append.
    fn open_writable(&self, path: &Path, offset: u64) -> io::Result<Box<dyn WritableFile>>;

    /// Opens an existing file for reading. The handle goes on reading the same file after a rename or removal.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>>;

    /// Creates the directory and those missing above it. Each new name must be synced in its parent, from the top down.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Lists the directory, sorted by name. Names that are not UTF-8 are left out: none of ours are.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// What the path leads to; `ErrorKind::NotFound` when to nothing.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// Returns the absolute path without `..` and symbolic links; `ErrorKind::NotFound` if it leads to nothing. Bind mounts
    /// still give one directory several such paths: compare [`identity`](Self::identity) where that matters.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// Returns the identity of the file or directory that the path leads to, symbolic links followed.
    fn identity(&self, path: &Path) -> io::Result<FileId>;

    /// Returns the permission bits of what the path leads to, as `chmod` takes them; `None` where there are none.
    fn mode(&self, path: &Path) -> io::Result<Option<u32>> {
        let _ = path;
        Ok(None)
    }

    /// Renames a file or directory. A file already at `to` is replaced: at every instant, and after every crash, `to` is
    /// the old file or the new one. Durable after syncing the directory; when `from` and `to` lie in two directories, after
    /// syncing both, and a crash between them can leave the file under both names.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the name of a file. Durable after syncing the directory: until then a crash can bring it back.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and everything in it. Not atomic.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Gives the file at `original` a second name; `ErrorKind::AlreadyExists` when `link` is taken.
    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()>;

    /// Makes the names created, renamed and removed in this directory durable. Does not reach into directories below.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Takes the exclusive lock on the file at `path`, creating it when missing, without waiting. Held until the lock is
    /// dropped or the process ends, however it ends. `ErrorKind::WouldBlock` when another holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;

    /// Bytes that this process can still write to the volume that holds `path`.
    fn available_space(&self, path: &Path) -> io::Result<u64>;

    /// A number that stays the same from one start of the machine to the next one, so that two equal numbers say: between
    /// them no written byte was lost. `None` when the platform does not tell.
    fn boot_id(&self) -> Option<u128> {
        None
    }
}

impl dyn FileSystem {
    /// Whether something is at the path.
    pub fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The whole content of a file. For small files: the caller trusts the file's length.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path)?;
        let length = usize::try_from(file.len()?)
            .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, format!("read {}", path.display())))?;
        let mut content = vec![0; length];
        file.read_exact_at(&mut content, 0)?;
        Ok(content)
    }

    /// Puts `content` at `path`, durably, so that after every crash the path holds the old content or the new one.
    /// Goes through a synced file `<path>.tmp` in the same directory, which a crash can leave behind.
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
    /// Appends all of `bytes` at [`len`](Self::len). On error some of them may be in the file past `len`, which stays where
    /// it was: the next write goes over them.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes every byte written so far durable (`fdatasync`). Concurrent writes through the same file are let through.
    fn sync(&self) -> io::Result<()>;

    /// Where the next byte goes: bytes written so far, and those before the offset at which the file was opened.
    fn len(&self) -> u64;

    /// Whether nothing has been written yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reserves disk space so that writes up to offset `length` will not fail for lack of it. The file then reads as zeros
    /// from [`len`](Self::len), which does not move, to `length`. `ErrorKind::StorageFull` when there is not enough.
    fn allocate(&mut self, length: u64) -> io::Result<()>;

    /// Cuts the file off at `length` bytes, giving back what was reserved beyond; `length` may not exceed
    /// [`len`](Self::len) (`ErrorKind::InvalidInput`).
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// A handle for syncing this file from another thread while writes go on.
    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>>;
}

/// Syncs a file that someone else writes.
pub trait SyncHandle: Send + Sync {
    /// Makes durable every byte whose `write_all` returned before this call began.
    fn sync(&self) -> io::Result<()>;
}

/// A file being read at any offset, by any number of threads.
pub trait RandomAccessFile: Send + Sync {
    /// Reads some bytes at `offset` and says how many; fewer than asked only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Fills `buffer` from `offset`; `ErrorKind::UnexpectedEof` when the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// [`read_exact_at`](Self::read_exact_at), if that needs no waiting for the disk because the system has the bytes in
    /// memory: `false`, with anything in `buffer`, if it would, or if that cannot be told.
    fn read_exact_at_once(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        let _ = (buffer, offset);
        Ok(false)
    }

    /// The whole file as memory, which the system fills when it is looked at; `None` where there is no such thing. The
    /// file must not change any more. A read that the disk fails then ends the process (SIGBUS), and may wait unseen.
    fn map(&self) -> io::Result<Option<Bytes>> {
        Ok(None)
    }

    /// The file's length in bytes, now.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file is empty, now.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// An exclusive lock, released on drop.
pub trait FileLock: Send + Sync {}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name within the directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// A file's length in bytes; 0 for a directory.
    pub len: u64,
}

/// The identity of a file or directory: equal for all its names, whichever path, link or mount leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The volume.
    pub device: u64,
    /// The number of the file on its volume.
    pub inode: u64,
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Whether it is a directory.
    pub is_dir: bool,
    /// A file's length in bytes; 0 for a directory.
    pub len: u64,
    /// When its content last changed, milliseconds since 1970; 0 when nobody knows.
    pub modified_millis: i64,
}
