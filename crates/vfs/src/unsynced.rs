//! Files that are not needed after a crash of the machine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{DirEntry, FileId, FileLock, FileSystem, Metadata, RandomAccessFile, SyncHandle, WritableFile};

/// Another file system whose syncs have no effect: for temporary files, which are removed before
/// the operating system writes them to the disk, or soon after.
#[derive(Debug, Clone)]
pub struct UnsyncedFileSystem(Arc<dyn FileSystem>);

impl UnsyncedFileSystem {
    /// Wraps a file system.
    pub fn new(file_system: Arc<dyn FileSystem>) -> Self {
        Self(file_system)
    }
}

struct UnsyncedFile(Box<dyn WritableFile>);

struct NoSync;

impl SyncHandle for NoSync {
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl WritableFile for UnsyncedFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }

    fn populate(&mut self, start: u64, end: u64) -> io::Result<()> {
        self.0.populate(start, end)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.truncate(length)
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        Ok(Arc::new(NoSync))
    }
}

impl FileSystem for UnsyncedFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        Ok(Box::new(UnsyncedFile(self.0.create(path)?)))
    }

    fn open_writable(&self, path: &Path, offset: u64) -> io::Result<Box<dyn WritableFile>> {
        Ok(Box::new(UnsyncedFile(self.0.open_writable(path, offset)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>> {
        self.0.open(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.read_dir(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.0.metadata(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.canonicalize(path)
    }

    fn identity(&self, path: &Path) -> io::Result<FileId> {
        self.0.identity(path)
    }

    fn mode(&self, path: &Path) -> io::Result<Option<u32>> {
        self.0.mode(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir_all(path)
    }

    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()> {
        self.0.hard_link(original, link)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.0.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.0.lock_shared(path)
    }

    fn available_space(&self, path: &Path) -> io::Result<u64> {
        self.0.available_space(path)
    }

    fn boot_id(&self) -> Option<u128> {
        self.0.boot_id()
    }

    fn is_in_memory(&self) -> bool {
        self.0.is_in_memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FakeFileSystem, OperationKind};

    #[test]
    fn files_have_their_bytes_and_nothing_is_synced() {
        let fake = FakeFileSystem::new();
        let is_sync = |kind| matches!(kind, OperationKind::Sync | OperationKind::SyncDir);
        fake.fail_when(move |operation| is_sync(operation.kind).then_some(io::ErrorKind::Other));
        let files = UnsyncedFileSystem::new(Arc::new(fake.clone()));
        let files: Arc<dyn FileSystem> = Arc::new(files);
        files.create_dir_all(Path::new("/parts")).unwrap();
        let path = Path::new("/parts/a");
        let mut file = files.create(path).unwrap();
        file.write_all(b"abc").unwrap();
        file.sync().unwrap();
        file.sync_handle().unwrap().sync().unwrap();
        drop(file);
        files.sync_dir(Path::new("/parts")).unwrap();
        assert_eq!(files.read(path).unwrap(), b"abc");
    }
}
