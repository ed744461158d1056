//! A file system in memory, for databases that end with their process.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::{DirEntry, FileId, FileLock, FileSystem, Metadata, RandomAccessFile, SyncHandle, WritableFile};

mod content;
mod locks;
mod names;
mod space;

use content::Content;
use locks::{HeldLock, Locks};
use names::{Names, Node, normal};
use space::Space;

/// A file system in memory. Clones share it, and it ends with the last one.
///
/// Syncs have no effect: what was written remains as long as the process. Files take the memory
/// that was written to them, in chunks, so that their growth copies nothing.
///
/// [`with_limit`](Self::with_limit) bounds the lengths of all files together, including reserved
/// bytes. An operation that would exceed the bound has no effect and fails with
/// `ErrorKind::StorageFull`.
#[derive(Clone)]
pub struct MemoryFileSystem {
    names: Arc<Mutex<Names>>,
    locks: Arc<Mutex<Locks>>,
    space: Arc<Space>,
    /// Distinguishes the file systems of the process.
    device: u64,
}

impl MemoryFileSystem {
    /// Creates an empty file system without a limit.
    pub fn new() -> Self {
        Self::with_limit(u64::MAX)
    }

    /// Creates an empty file system whose files have at most `bytes` bytes together.
    pub fn with_limit(bytes: u64) -> Self {
        static CREATED: AtomicU64 = AtomicU64::new(0);
        let device = CREATED.fetch_add(1, Ordering::Relaxed);
        Self { names: Arc::default(), locks: Arc::default(), space: Arc::new(Space::new(bytes)), device }
    }

    /// Returns the bytes of all files, including reserved ones. Counts each file once however many
    /// names it has, and removed files while they are open.
    pub fn used(&self) -> u64 {
        self.space.used()
    }

    fn writable(&self, path: PathBuf, content: Arc<RwLock<Content>>, offset: u64) -> Box<dyn WritableFile> {
        Box::new(OpenFile { path, content, length: offset })
    }
}

impl Default for MemoryFileSystem {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryFileSystem").field("used", &self.used()).finish_non_exhaustive()
    }
}

fn error(kind: io::ErrorKind, operation: &str, path: &Path, why: &str) -> io::Error {
    io::Error::new(kind, format!("{operation} {}: {why}", Path::new("/").join(path).display()))
}

impl FileSystem for MemoryFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let path = normal(path);
        let mut names = self.names.lock();
        let content = match names.get(&path) {
            Some(Node::Directory(_)) => {
                return Err(error(io::ErrorKind::IsADirectory, "create", &path, "it is a directory"));
            }
            Some(Node::File(_, content)) => {
                content.write().truncate(0);
                content
            }
            None => {
                let content = Arc::new(RwLock::new(Content::new(Arc::clone(&self.space))));
                names.link_file("create", &path, Arc::clone(&content))?;
                content
            }
        };
        drop(names);
        Ok(self.writable(path, content, 0))
    }

    fn open_writable(&self, path: &Path, offset: u64) -> io::Result<Box<dyn WritableFile>> {
        let path = normal(path);
        let content = self.names.lock().file("open for writing", &path)?;
        Ok(self.writable(path, content, offset))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>> {
        let path = normal(path);
        let content = self.names.lock().file("open", &path)?;
        Ok(Arc::new(OpenFile { path, content, length: 0 }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.names.lock().create_dir_all(&normal(path))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.names.lock().read_dir(&normal(path))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let path = normal(path);
        match self.names.lock().existing("examine", &path)? {
            Node::Directory(_) => Ok(Metadata { is_dir: true, len: 0, modified_millis: 0 }),
            Node::File(_, content) => {
                let content = content.read();
                Ok(Metadata { is_dir: false, len: content.len(), modified_millis: content.modified_millis() })
            }
        }
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        let path = normal(path);
        self.names.lock().existing("resolve", &path)?;
        Ok(Path::new("/").join(path))
    }

    fn identity(&self, path: &Path) -> io::Result<FileId> {
        let path = normal(path);
        let (Node::Directory(inode) | Node::File(inode, _)) = self.names.lock().existing("examine", &path)?;
        Ok(FileId { device: self.device, inode })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.names.lock().rename(&normal(from), &normal(to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let path = normal(path);
        // The content is dropped after the lock is released.
        let removed = self.names.lock().remove_file(&path)?;
        drop(removed);
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let removed = self.names.lock().remove_dir_all(&normal(path))?;
        drop(removed);
        Ok(())
    }

    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()> {
        self.names.lock().hard_link(&normal(original), &normal(link))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.names.lock().directory("sync", &normal(path))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let path = normal(path);
        let mut names = self.names.lock();
        if names.get(&path).is_none() {
            let content = Arc::new(RwLock::new(Content::new(Arc::clone(&self.space))));
            names.link_file("lock", &path, content)?;
        }
        Ok(Box::new(HeldLock::exclusive(&self.locks, path)?))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let path = normal(path);
        self.names.lock().existing("lock", &path)?;
        Ok(Box::new(HeldLock::shared(&self.locks, path)?))
    }

    fn available_space(&self, _: &Path) -> io::Result<u64> {
        Ok(self.space.available())
    }

    /// All that was written is present as long as the file system is.
    fn boot_id(&self) -> Option<u128> {
        Some(0)
    }

    fn is_in_memory(&self) -> bool {
        true
    }
}

/// An open file, for reads, or for writes at `length`.
struct OpenFile {
    path: PathBuf,
    content: Arc<RwLock<Content>>,
    length: u64,
}

impl OpenFile {
    fn full(&self, operation: &str, limit: u64) -> io::Error {
        let why = format!(
            "the files in memory would exceed their limit of {limit} bytes; raise it, or remove data"
        );
        error(io::ErrorKind::StorageFull, operation, &self.path, &why)
    }
}

impl RandomAccessFile for OpenFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.content.read().read(buffer, offset))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let read = self.content.read().read(buffer, offset);
        if read < buffer.len() {
            let why = format!("expected {} bytes at {offset}, found {read}", buffer.len());
            return Err(error(io::ErrorKind::UnexpectedEof, "read", &self.path, &why));
        }
        Ok(())
    }

    fn read_exact_at_once(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        self.read_exact_at(buffer, offset).map(|()| true)
    }

    fn cached_bytes(&self, offset: u64, length: u64) -> Option<u64> {
        Some(self.content.read().len().saturating_sub(offset).min(length))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.read().len())
    }
}

/// Syncs have no effect.
struct NoSync;

impl SyncHandle for NoSync {
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl WritableFile for OpenFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.content.write().write(self.length, bytes);
        written.map_err(|limit| self.full("write", limit))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        let reserved = self.content.write().reserve(length);
        reserved.map_err(|limit| self.full("allocate", limit))
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if length > self.length {
            let why = format!("expected at most {} bytes, found {length}", self.length);
            return Err(error(io::ErrorKind::InvalidInput, "truncate", &self.path, &why));
        }
        self.content.write().truncate(length);
        self.length = length;
        Ok(())
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        Ok(Arc::new(NoSync))
    }
}
