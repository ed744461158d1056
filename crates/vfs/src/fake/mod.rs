//! A file system in memory that guarantees no more than the contract, and fails on command.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use crate::{DirEntry, FileId, FileLock, FileSystem, Metadata, RandomAccessFile, SyncHandle, WritableFile};

mod crash;
mod file;
mod mounts;
mod tree;

#[cfg(test)]
mod tests;

use file::Content;
use mounts::Mounts;
use tree::{Node, Tree};

/// A file system in memory. Clones share it.
///
/// **Volatile until synced.** Bytes written are volatile until the file is synced; names created,
/// renamed or removed are volatile until their directory is synced. [`crash`](Self::crash) decides
/// from a seed which volatile changes survive; [`kill`](Self::kill) keeps all of them, as the death
/// of the process alone does. In both cases the original file system and every handle opened on it
/// fail from then on and cannot modify the survivor.
///
/// **Failing on command.** Operations are counted from 1; see [`fail_at`](Self::fail_at),
/// [`fail_from`](Self::fail_from), [`fail_when`](Self::fail_when). A failing write leaves the first
/// half of its bytes in the file. A failing sync leaves its bytes readable, but no later sync makes
/// them durable. Other failing operations have no effect.
///
/// **Full disk.** With [`set_capacity`](Self::set_capacity), a write beyond the capacity keeps what
/// fits and fails with `ErrorKind::StorageFull`, until files are removed or the capacity is raised.
#[derive(Clone)]
pub struct FakeFileSystem {
    state: Arc<Mutex<State>>,
}

/// An operation that is about to start, for [`FakeFileSystem::fail_when`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its number, counting from 1 over the life of the file system.
    pub number: u64,
    /// The kind.
    pub kind: OperationKind,
    /// The affected file or directory, under the name by which it was opened; the old name in a
    /// rename.
    pub path: PathBuf,
}

/// The kinds of operations that are counted and can fail. Queries of lengths and metadata do
/// neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is named after its method")]
pub enum OperationKind {
    Create,
    Open,
    OpenWritable,
    CreateDir,
    ReadDir,
    Rename,
    RemoveFile,
    RemoveDir,
    HardLink,
    SyncDir,
    Lock,
    Read,
    Write,
    Sync,
    Allocate,
    Truncate,
}

/// Decides whether an operation fails, and with which kind of error.
type Failing = Box<dyn FnMut(&Operation) -> Option<io::ErrorKind> + Send>;

struct State {
    tree: Tree,
    operations: u64,
    failing: Option<Failing>,
    capacity: u64,
    boot_id: u128,
    /// Locked files, and how many hold them.
    locked: HashMap<PathBuf, usize>,
    /// Those of them whose lock is exclusive.
    exclusive: HashSet<PathBuf>,
    mounts: Mounts,
    /// Set by a crash: all later operations fail.
    crashed: bool,
    /// Syncs of files report success without an effect.
    lying: bool,
}

impl FakeFileSystem {
    /// Creates an empty file system: one root directory, no limit, no failures.
    pub fn new() -> Self {
        Self::from_tree(Tree::new(), u64::MAX, 1, Mounts::default())
    }

    fn from_tree(tree: Tree, capacity: u64, boot_id: u128, mounts: Mounts) -> Self {
        let state = State {
            tree,
            operations: 0,
            failing: None,
            capacity,
            boot_id,
            locked: HashMap::new(),
            exclusive: HashSet::new(),
            mounts,
            crashed: false,
            lying: false,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Simulates the death of the machine and returns the file system after its restart. The same
    /// seed on the same history gives the same result. Of the directory operations not yet synced,
    /// a prefix survives in the order of execution (possibly none, possibly all). Unsynced writes
    /// of a file are dropped; or kept up to one that is torn; or each 512-byte sector of them is
    /// independently kept, lost (old bytes, or zeros where there were none) or garbage; never
    /// garbage where old and new bytes are equal.
    pub fn crash(&self, seed: u64) -> FakeFileSystem {
        let mut state = self.state.lock();
        state.crashed = true;
        let survivor = crash::survivor(&state.tree, seed);
        Self::from_tree(survivor, state.capacity, state.boot_id + 1, state.mounts.clone())
    }

    /// Simulates the death of the process alone: everything written remains, and remains as
    /// volatile as before.
    pub fn kill(&self) -> FakeFileSystem {
        let mut state = self.state.lock();
        state.crashed = true;
        Self::from_tree(state.tree.deep_clone(), state.capacity, state.boot_id, state.mounts.clone())
    }

    /// Returns an independent copy; this one stays unchanged.
    pub fn fork(&self) -> FakeFileSystem {
        let state = self.state.lock();
        Self::from_tree(state.tree.deep_clone(), state.capacity, state.boot_id, state.mounts.clone())
    }

    /// Returns the number of operations started so far.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Fails the operation with this number (see [`operations`](Self::operations)), and no other.
    pub fn fail_at(&self, number: u64) {
        self.fail_when(move |operation| (operation.number == number).then_some(io::ErrorKind::Other));
    }

    /// Fails the operation with this number and all after it.
    pub fn fail_from(&self, number: u64) {
        self.fail_when(move |operation| (operation.number >= number).then_some(io::ErrorKind::Other));
    }

    /// Fails the operations for which `decide` returns an error. Called with the file system
    /// locked: it must not use the file system.
    pub fn fail_when(&self, decide: impl FnMut(&Operation) -> Option<io::ErrorKind> + Send + 'static) {
        self.state.lock().failing = Some(Box::new(decide));
    }

    /// Stops failing.
    pub fn heal(&self) {
        self.state.lock().failing = None;
    }

    /// Makes syncs of files report success without making anything durable, as a disk with a
    /// volatile cache does. Tests that crash the machine must then fail.
    pub fn set_lying(&self, lying: bool) {
        self.state.lock().lying = lying;
    }

    /// Limits the total bytes of all files, including reserved ones.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// Returns the total bytes of all files, including reserved ones.
    pub fn used(&self) -> u64 {
        self.state.lock().tree.used()
    }

    /// Changes one byte of a file durably and silently, as a decaying disk does. The byte is xored
    /// with `mask`.
    ///
    /// # Panics
    /// If the file does not exist or has no byte at `offset`.
    pub fn corrupt(&self, path: &Path, offset: u64, mask: u8) {
        let state = self.state.lock();
        let content = state.tree.file(&state.mounts.resolve(path)).expect("a file to corrupt");
        content.lock().corrupt(offset, mask);
    }

    /// Mounts the directory `target` at `mount_point` as well: its canonical path there differs,
    /// its identity does not.
    pub fn bind_mount(&self, target: &Path, mount_point: &Path) {
        self.state.lock().mounts.bind(target, mount_point);
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        self.state.lock().mounts.resolve(path)
    }

    fn begin(&self, kind: OperationKind, path: &Path) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state.lock();
        state.begin(kind, path)?;
        Ok(state)
    }
}

impl Default for FakeFileSystem {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FakeFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeFileSystem").field("operations", &self.operations()).finish_non_exhaustive()
    }
}

impl State {
    fn alive(&self, what: impl fmt::Debug, path: &Path) -> io::Result<()> {
        if self.crashed {
            return Err(error(io::ErrorKind::Other, what, path, "the file system has crashed"));
        }
        Ok(())
    }

    fn begin(&mut self, kind: OperationKind, path: &Path) -> io::Result<()> {
        self.alive(kind, path)?;
        self.operations += 1;
        let operation = Operation { number: self.operations, kind, path: path.to_owned() };
        match self.failing.as_mut().and_then(|decide| decide(&operation)) {
            Some(failure) => Err(error(failure, kind, path, "failed on command")),
            None => Ok(()),
        }
    }

    fn room(&self) -> u64 {
        // Computing the used bytes walks all files, so do it only if a limit is set.
        if self.capacity == u64::MAX { u64::MAX } else { self.capacity.saturating_sub(self.tree.used()) }
    }
}

fn error(kind: io::ErrorKind, what: impl fmt::Debug, path: &Path, why: &str) -> io::Error {
    io::Error::new(kind, format!("{what:?} {}: {why}", path.display()))
}

impl FileSystem for FakeFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let path = self.resolve(path);
        let mut state = self.begin(OperationKind::Create, &path)?;
        let content = match state.tree.get(&path) {
            Some(Node::Directory) => {
                return Err(error(io::ErrorKind::IsADirectory, "Create", &path, "a directory"));
            }
            Some(Node::File(content)) => {
                content.lock().set_length(0);
                content
            }
            None => {
                let content = Arc::new(Mutex::new(Content::default()));
                state.tree.link(&path, Node::File(content.clone()))?;
                content
            }
        };
        drop(state);
        Ok(Box::new(FakeWritableFile { handle: FakeHandle { fs: self.clone(), path, content }, length: 0 }))
    }

    fn open_writable(&self, path: &Path, offset: u64) -> io::Result<Box<dyn WritableFile>> {
        let path = self.resolve(path);
        let content = self.begin(OperationKind::OpenWritable, &path)?.tree.file(&path)?;
        Ok(Box::new(FakeWritableFile {
            handle: FakeHandle { fs: self.clone(), path, content },
            length: offset,
        }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>> {
        let path = self.resolve(path);
        let content = self.begin(OperationKind::Open, &path)?.tree.file(&path)?;
        Ok(Arc::new(FakeHandle { fs: self.clone(), path, content }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let path = self.resolve(path);
        self.begin(OperationKind::CreateDir, &path)?.tree.create_dir_all(&path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let path = self.resolve(path);
        self.begin(OperationKind::ReadDir, &path)?.tree.read_dir(&path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let path = self.resolve(path);
        let state = self.state.lock();
        state.alive("Metadata", &path)?;
        match state.tree.get(&path) {
            Some(Node::Directory) => Ok(Metadata { is_dir: true, len: 0, modified_millis: 0 }),
            Some(Node::File(content)) => {
                let len = content.lock().live().len() as u64;
                Ok(Metadata { is_dir: false, len, modified_millis: 0 })
            }
            None => Err(error(io::ErrorKind::NotFound, "Metadata", &path, "no such file or directory")),
        }
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.metadata(path)?;
        Ok(Path::new("/").join(mounts::normal(path)))
    }

    fn identity(&self, path: &Path) -> io::Result<FileId> {
        self.metadata(path)?;
        let path = self.resolve(path);
        let inode = match self.state.lock().tree.get(&path) {
            Some(Node::File(content)) => Arc::as_ptr(&content) as u64,
            _ => {
                let mut hasher = DefaultHasher::new();
                path.hash(&mut hasher);
                hasher.finish()
            }
        };
        Ok(FileId { device: 1, inode })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.resolve(from), self.resolve(to));
        self.begin(OperationKind::Rename, &from)?.tree.rename(&from, &to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let path = self.resolve(path);
        let mut state = self.begin(OperationKind::RemoveFile, &path)?;
        state.tree.file(&path)?;
        state.tree.unlink(&path);
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let path = self.resolve(path);
        self.begin(OperationKind::RemoveDir, &path)?.tree.remove_dir_all(&path)
    }

    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()> {
        let (original, link) = (self.resolve(original), self.resolve(link));
        let mut state = self.begin(OperationKind::HardLink, &original)?;
        let content = state.tree.file(&original)?;
        if state.tree.get(&link).is_some() {
            return Err(error(io::ErrorKind::AlreadyExists, "HardLink", &link, "already there"));
        }
        state.tree.link(&link, Node::File(content))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let path = self.resolve(path);
        self.begin(OperationKind::SyncDir, &path)?.tree.sync_dir(&path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let path = self.resolve(path);
        let mut state = self.begin(OperationKind::Lock, &path)?;
        if state.locked.contains_key(&path) {
            return Err(error(io::ErrorKind::WouldBlock, "Lock", &path, "held by another process"));
        }
        if state.tree.get(&path).is_none() {
            state.tree.link(&path, Node::File(Arc::default()))?;
        }
        state.locked.insert(path.clone(), 1);
        state.exclusive.insert(path.clone());
        drop(state);
        Ok(Box::new(FakeFileLock { fs: self.clone(), path }))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let path = self.resolve(path);
        let mut state = self.begin(OperationKind::Lock, &path)?;
        if state.tree.get(&path).is_none() {
            return Err(error(io::ErrorKind::NotFound, "Lock", &path, "no such file"));
        }
        if state.exclusive.contains(&path) {
            return Err(error(io::ErrorKind::WouldBlock, "Lock", &path, "held by another process"));
        }
        *state.locked.entry(path.clone()).or_default() += 1;
        drop(state);
        Ok(Box::new(FakeFileLock { fs: self.clone(), path }))
    }

    fn available_space(&self, path: &Path) -> io::Result<u64> {
        let state = self.state.lock();
        state.alive("AvailableSpace", path)?;
        Ok(state.room())
    }

    fn boot_id(&self) -> Option<u128> {
        Some(self.state.lock().boot_id)
    }
}

struct FakeFileLock {
    fs: FakeFileSystem,
    path: PathBuf,
}

impl FileLock for FakeFileLock {}

impl Drop for FakeFileLock {
    fn drop(&mut self) {
        let mut state = self.fs.state.lock();
        let holders = state.locked.remove(&self.path).unwrap_or_default();
        state.exclusive.remove(&self.path);
        if holders > 1 {
            state.locked.insert(self.path.clone(), holders - 1);
        }
    }
}

/// An open file for reads and syncs. Lock order: the file system, then the content.
#[derive(Clone)]
struct FakeHandle {
    fs: FakeFileSystem,
    path: PathBuf,
    content: Arc<Mutex<Content>>,
}

impl RandomAccessFile for FakeHandle {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let _state = self.fs.begin(OperationKind::Read, &self.path)?;
        Ok(self.content.lock().live().read_at(buffer, offset))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let read = self.read_at(buffer, offset)?;
        if read < buffer.len() {
            let why = format!("{} bytes wanted at {offset}, {read} there", buffer.len());
            return Err(error(io::ErrorKind::UnexpectedEof, OperationKind::Read, &self.path, &why));
        }
        Ok(())
    }

    /// Returns the current content: writing to a mapped file violates the contract.
    fn map(&self) -> io::Result<Option<Bytes>> {
        self.fs.state.lock().alive("Map", &self.path)?;
        Ok(Some(Bytes::from(self.content.lock().live().to_vec())))
    }

    fn len(&self) -> io::Result<u64> {
        self.fs.state.lock().alive("Length", &self.path)?;
        Ok(self.content.lock().live().len() as u64)
    }
}

impl SyncHandle for FakeHandle {
    fn sync(&self) -> io::Result<()> {
        let mut state = self.fs.state.lock();
        let failed = state.begin(OperationKind::Sync, &self.path);
        if state.crashed {
            return failed;
        }
        match failed {
            Ok(()) if state.lying => {}
            Ok(()) => self.content.lock().sync(),
            Err(_) => self.content.lock().fail_sync(),
        }
        failed
    }
}

struct FakeWritableFile {
    handle: FakeHandle,
    length: u64,
}

impl WritableFile for FakeWritableFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let path = &self.handle.path;
        let mut state = self.handle.fs.state.lock();
        let failed = state.begin(OperationKind::Write, path);
        if state.crashed {
            return failed;
        }
        let mut content = self.handle.content.lock();
        if failed.is_err() {
            content.write(self.length, &bytes[..bytes.len() / 2]);
            return failed;
        }
        let growth = (self.length + bytes.len() as u64).saturating_sub(content.live().len() as u64);
        drop(content); // Counting the room left looks into every file.
        let missing = growth.saturating_sub(state.room());
        let mut content = self.handle.content.lock();
        if missing > 0 {
            content.write(self.length, &bytes[..bytes.len() - missing as usize]);
            return Err(error(io::ErrorKind::StorageFull, OperationKind::Write, path, "no space left"));
        }
        content.write(self.length, bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        SyncHandle::sync(&self.handle)
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        let path = &self.handle.path;
        let state = self.handle.fs.begin(OperationKind::Allocate, path)?;
        let growth = length.saturating_sub(self.handle.content.lock().live().len() as u64);
        if growth > state.room() {
            return Err(error(io::ErrorKind::StorageFull, OperationKind::Allocate, path, "no space left"));
        }
        let mut content = self.handle.content.lock();
        if growth > 0 {
            content.set_length(length);
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let path = &self.handle.path;
        let _state = self.handle.fs.begin(OperationKind::Truncate, path)?;
        if length > self.length {
            let why = format!("to {length} bytes of {}", self.length);
            return Err(error(io::ErrorKind::InvalidInput, OperationKind::Truncate, path, &why));
        }
        self.handle.content.lock().set_length(length);
        self.length = length;
        Ok(())
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        Ok(Arc::new(self.handle.clone()))
    }
}
