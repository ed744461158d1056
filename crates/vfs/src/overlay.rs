//! A file system whose changes stay in memory, over another one that is only read.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{
    DirEntry, FakeFileSystem, FileId, FileLock, FileSystem, Metadata, RandomAccessFile, SyncHandle,
    WritableFile,
};

/// Shows the files of another file system, and keeps everything that is written, renamed or removed
/// in memory. Nothing reaches the other one. Files of it that are renamed or linked keep their
/// content there: only files that are written take memory. Clones share the changes.
///
/// [`lock`](FileSystem::lock) takes a shared lock of the other file system: other readers may
/// lock it, and writers may not.
#[derive(Debug, Clone)]
pub struct OverlayFileSystem {
    lower: Arc<dyn FileSystem>,
    upper: FakeFileSystem,
    changes: Arc<Mutex<Changes>>,
}

/// What differs from the lower file system beside the files of the upper one.
#[derive(Debug, Default)]
struct Changes {
    /// Lower files and directories that are removed, with all below them.
    removed: BTreeSet<PathBuf>,
    /// Lower files with other names or lengths, which are visible also where `removed` covers them.
    names: BTreeMap<PathBuf, LowerFile>,
}

/// A file or directory of the lower file system, whether there is something or not.
#[derive(Debug, Clone)]
struct LowerFile {
    path: PathBuf,
    /// The length to which it was truncated.
    length: u64,
}

impl LowerFile {
    fn whole(path: &Path) -> Self {
        Self { path: path.to_owned(), length: u64::MAX }
    }
}

/// Where a path leads.
enum Place {
    Upper,
    Lower(LowerFile),
    Removed,
}

impl OverlayFileSystem {
    /// Shows `lower`.
    pub fn new(lower: Arc<dyn FileSystem>) -> Self {
        Self { lower, upper: FakeFileSystem::new(), changes: Arc::default() }
    }

    fn place(&self, path: &Path) -> Place {
        if self.upper.metadata(path).is_ok_and(|found| !found.is_dir) {
            return Place::Upper;
        }
        let changes = self.changes.lock();
        match changes.names.get(path) {
            Some(lower) => Place::Lower(lower.clone()),
            None if path.ancestors().any(|above| changes.removed.contains(above)) => Place::Removed,
            None => Place::Lower(LowerFile::whole(path)),
        }
    }

    /// The path of the lower file system that `path` leads to.
    fn lower_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.lower_file(path).map(|lower| lower.path)
    }

    fn lower_file(&self, path: &Path) -> io::Result<LowerFile> {
        match self.place(path) {
            Place::Lower(lower) => Ok(lower),
            Place::Upper | Place::Removed => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("find {}: it was removed", path.display()),
            )),
        }
    }

    /// Makes the directory of a file that is to be written in the upper file system.
    fn prepare(&self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), |directory| self.upper.create_dir_all(directory))
    }

    /// Forgets what the path led to in the lower file system.
    fn cover(&self, path: &Path) {
        let mut changes = self.changes.lock();
        changes.names.remove(path);
        changes.removed.insert(path.to_owned());
    }

    fn lower_metadata(&self, lower: &LowerFile) -> io::Result<Metadata> {
        let found = self.lower.metadata(&lower.path)?;
        Ok(Metadata { len: found.len.min(lower.length), ..found })
    }

    fn copy_up(&self, path: &Path) -> io::Result<()> {
        if let Place::Lower(lower) = self.place(path) {
            let content = self.lower.read_start(&lower.path, lower.length)?;
            self.prepare(path)?;
            self.upper.create(path)?.write_all(&content)?;
        }
        Ok(())
    }
}

impl OverlayFileSystem {
    fn copied_up(&self, path: &Path, offset: u64) -> io::Result<Box<dyn WritableFile>> {
        self.copy_up(path)?;
        self.upper.open_writable(path, offset)
    }
}

/// A file opened for writing that may be a lower one. It takes memory only when something is
/// written: most are opened to be synced or truncated.
enum Opened {
    Unchanged { overlay: OverlayFileSystem, path: PathBuf, offset: u64 },
    Changed(Box<dyn WritableFile>),
}

impl Opened {
    fn changed(&mut self) -> io::Result<&mut dyn WritableFile> {
        if let Self::Unchanged { overlay, path, offset } = self {
            *self = Self::Changed(overlay.copied_up(path, *offset)?);
        }
        match self {
            Self::Changed(file) => Ok(&mut **file),
            Self::Unchanged { .. } => unreachable!("replaced above"),
        }
    }
}

impl WritableFile for Opened {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.changed()?.write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        match self {
            Self::Unchanged { .. } => Ok(()),
            Self::Changed(file) => file.sync(),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Unchanged { offset, .. } => *offset,
            Self::Changed(file) => file.len(),
        }
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        self.changed()?.allocate(length)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if let Self::Unchanged { overlay, path, offset } = self
            && length <= *offset
            && let Place::Lower(lower) = overlay.place(path)
        {
            let truncated = LowerFile { length: length.min(lower.length), ..lower };
            overlay.changes.lock().names.insert(path.clone(), truncated);
            *offset = length;
            return Ok(());
        }
        self.changed()?.truncate(length)
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        match self {
            // Handles of changes that are made later: in memory, nothing is to be synced.
            Self::Unchanged { .. } => Ok(Arc::new(NothingToSync)),
            Self::Changed(file) => file.sync_handle(),
        }
    }
}

/// The first bytes of a lower file.
struct Truncated {
    file: Arc<dyn RandomAccessFile>,
    length: u64,
}

impl Truncated {
    fn check(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        match offset.checked_add(buffer.len() as u64) {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("read {} bytes at {offset} of {}", buffer.len(), self.length),
            )),
        }
    }
}

impl RandomAccessFile for Truncated {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.length.saturating_sub(offset).min(buffer.len() as u64);
        self.file.read_at(&mut buffer[..count as usize], offset)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.check(buffer, offset)?;
        self.file.read_exact_at(buffer, offset)
    }

    fn read_exact_at_once(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        self.check(buffer, offset)?;
        self.file.read_exact_at_once(buffer, offset)
    }

    fn expect_random_reads(&self) {
        self.file.expect_random_reads();
    }

    fn open_sequential(&self) -> Option<Box<dyn RandomAccessFile>> {
        let file = self.file.open_sequential()?;
        Some(Box::new(Self { file: file.into(), length: self.length }))
    }

    fn will_need(&self, offset: u64, length: u64) {
        self.file.will_need(offset, length);
    }

    fn cached_bytes(&self, offset: u64, length: u64) -> Option<u64> {
        self.file.cached_bytes(offset, length)
    }

    fn will_not_need(&self, offset: u64, length: u64) {
        self.file.will_not_need(offset, length);
    }

    fn map(&self) -> io::Result<Option<Bytes>> {
        let mapped = self.file.map()?;
        Ok(mapped.map(|bytes| bytes.slice(..bytes.len().min(self.length as usize))))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.len()?.min(self.length))
    }
}

struct NothingToSync;

impl SyncHandle for NothingToSync {
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl FileSystem for OverlayFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.prepare(path)?;
        self.upper.create(path)
    }

    fn open_writable(&self, path: &Path, offset: u64) -> io::Result<Box<dyn WritableFile>> {
        match self.place(path) {
            Place::Lower(lower) if offset <= self.lower_metadata(&lower)?.len => {
                Ok(Box::new(Opened::Unchanged { overlay: self.clone(), path: path.to_owned(), offset }))
            }
            _ => self.copied_up(path, offset),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>> {
        match self.place(path) {
            Place::Upper => self.upper.open(path),
            _ => {
                let LowerFile { path, length } = self.lower_file(path)?;
                let file = self.lower.open(&path)?;
                Ok(if length == u64::MAX { file } else { Arc::new(Truncated { file, length }) })
            }
        }
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.upper.create_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let upper = self.upper.read_dir(path);
        let lower = self.lower_path(path).and_then(|lower| self.lower.read_dir(&lower));
        let mut entries = BTreeMap::new();
        match (upper, lower) {
            (Err(_), Err(error)) => return Err(error),
            (upper, lower) => {
                for entry in lower.unwrap_or_default() {
                    if !matches!(self.place(&path.join(&entry.name)), Place::Removed) {
                        entries.insert(entry.name.clone(), entry);
                    }
                }
                let changes = self.changes.lock();
                for (name, lower) in changes.names.iter().filter(|(name, _)| name.parent() == Some(path)) {
                    if let Some(name) = name.file_name().and_then(|name| name.to_str()) {
                        let len = self.lower_metadata(lower)?.len;
                        entries
                            .insert(name.to_owned(), DirEntry { name: name.to_owned(), is_dir: false, len });
                    }
                }
                for entry in upper.unwrap_or_default() {
                    entries.insert(entry.name.clone(), entry);
                }
            }
        }
        Ok(entries.into_values().collect())
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        match self.place(path) {
            Place::Upper => self.upper.metadata(path),
            Place::Lower(lower) => {
                self.lower_metadata(&lower).or_else(|error| self.upper.metadata(path).or(Err(error)))
            }
            // A directory may have been made again.
            Place::Removed => self.upper.metadata(path),
        }
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.lower_path(path)
            .and_then(|lower| self.lower.canonicalize(&lower))
            .or_else(|_| self.upper.canonicalize(path))
    }

    fn identity(&self, path: &Path) -> io::Result<FileId> {
        let lower = self.lower_path(path).and_then(|lower| self.lower.identity(&lower));
        lower.or_else(|_| {
            let FileId { device, inode } = self.upper.identity(path)?;
            // No device of the lower file system.
            Ok(FileId { device: !device, inode })
        })
    }

    fn mode(&self, path: &Path) -> io::Result<Option<u32>> {
        match self.place(path) {
            Place::Lower(lower) => self.lower.mode(&lower.path).or(Ok(None)),
            Place::Upper | Place::Removed => Ok(None),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.place(from) {
            Place::Upper => {
                self.prepare(to)?;
                self.upper.rename(from, to)?;
                self.cover(from);
                self.changes.lock().names.remove(to);
            }
            _ => {
                let lower = self.lower_file(from)?;
                if self.lower.metadata(&lower.path).is_err() && self.upper.metadata(from).is_ok() {
                    // A directory that was made here.
                    return self.upper.rename(from, to);
                }
                if self.lower.metadata(&lower.path)?.is_dir {
                    let text = format!("rename the directory {}: it is only read", from.display());
                    return Err(io::Error::new(io::ErrorKind::Unsupported, text));
                }
                self.prepare(to)?;
                if matches!(self.place(to), Place::Upper) {
                    self.upper.remove_file(to)?;
                }
                self.cover(from);
                self.changes.lock().names.insert(to.to_owned(), lower);
            }
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        match self.place(path) {
            Place::Upper => self.upper.remove_file(path)?,
            _ => drop(self.lower.metadata(&self.lower_path(path)?)?),
        }
        self.cover(path);
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.metadata(path)?;
        if self.upper.metadata(path).is_ok() {
            self.upper.remove_dir_all(path)?;
        }
        self.changes.lock().names.retain(|name, _| !name.starts_with(path));
        self.cover(path);
        Ok(())
    }

    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()> {
        if self.metadata(link).is_ok() {
            let text = format!("link {}: it exists", link.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        self.prepare(link)?;
        match self.place(original) {
            Place::Upper => self.upper.hard_link(original, link),
            _ => {
                let lower = self.lower_file(original)?;
                self.lower.metadata(&lower.path)?;
                self.changes.lock().names.insert(link.to_owned(), lower);
                Ok(())
            }
        }
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        match self.lower.lock_shared(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Box::new(NoLock)),
            locked => locked,
        }
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.lower.lock_shared(path)
    }

    fn available_space(&self, _: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn boot_id(&self) -> Option<u128> {
        self.lower.boot_id()
    }
}

/// The lock of a directory without a lock file.
struct NoLock;

impl FileLock for NoLock {}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(fs: &dyn FileSystem, path: &str, content: &[u8]) {
        fs.create_dir_all(Path::new(path).parent().unwrap()).unwrap();
        fs.create(Path::new(path)).unwrap().write_all(content).unwrap();
    }

    fn read(fs: &dyn FileSystem, path: &str) -> Option<Vec<u8>> {
        fs.read(Path::new(path)).ok()
    }

    fn names(fs: &dyn FileSystem, path: &str) -> Vec<String> {
        fs.read_dir(Path::new(path)).unwrap().into_iter().map(|entry| entry.name).collect()
    }

    fn layers() -> (FakeFileSystem, OverlayFileSystem) {
        let lower = FakeFileSystem::new();
        write(&lower, "/d/a", b"lower a");
        write(&lower, "/d/b", b"lower b");
        write(&lower, "/d/sub/c", b"lower c");
        let overlay = OverlayFileSystem::new(Arc::new(lower.clone()));
        (lower, overlay)
    }

    #[test]
    fn changes_are_visible_and_never_reach_the_lower_file_system() {
        let (lower, overlay) = layers();
        let before = lower.operations();
        write(&overlay, "/d/a", b"new");
        write(&overlay, "/e/f", b"f");
        overlay.rename(Path::new("/d/b"), Path::new("/d/z")).unwrap();
        overlay.remove_dir_all(Path::new("/d/sub")).unwrap();
        assert_eq!(names(&overlay, "/d"), ["a", "z"]);
        assert_eq!(read(&overlay, "/d/a").unwrap(), b"new");
        assert_eq!(read(&overlay, "/d/z").unwrap(), b"lower b");
        assert_eq!(read(&overlay, "/e/f").unwrap(), b"f");
        assert_eq!(read(&overlay, "/d/b"), None);
        assert_eq!(read(&overlay, "/d/sub/c"), None);
        assert!(lower.operations() > before, "the content of z is read there");
        assert_eq!(names(&lower, "/d"), ["a", "b", "sub"]);
        assert_eq!(read(&lower, "/d/a").unwrap(), b"lower a");
        assert!(lower.metadata(Path::new("/e")).is_err());
    }

    #[test]
    fn a_linked_file_is_copied_only_when_something_is_written_to_it() {
        let (_, overlay) = layers();
        overlay.hard_link(Path::new("/d/a"), Path::new("/e/link")).unwrap();
        let mut file = overlay.open_writable(Path::new("/e/link"), 7).unwrap();
        file.sync().unwrap();
        assert_eq!((file.len(), overlay.upper.metadata(Path::new("/e/link")).is_ok()), (7, false));
        file.write_all(b"!").unwrap();
        file.sync().unwrap();
        assert_eq!(read(&overlay, "/e/link").unwrap(), b"lower a!");
        assert_eq!(read(&overlay, "/d/a").unwrap(), b"lower a");
    }

    #[test]
    fn a_file_is_truncated_without_a_copy_of_it() {
        let (lower, overlay) = layers();
        let path = Path::new("/d/a");
        let mut file = overlay.open_writable(path, 6).unwrap();
        file.truncate(5).unwrap();
        assert!(overlay.upper.metadata(path).is_err());
        assert_eq!((file.len(), overlay.metadata(path).unwrap().len), (5, 5));
        assert_eq!(overlay.read_dir(Path::new("/d")).unwrap()[0].len, 5);
        let reader = overlay.open(path).unwrap();
        let mut bytes = [0; 7];
        assert_eq!((reader.len().unwrap(), reader.read_at(&mut bytes, 2).unwrap()), (5, 3));
        assert_eq!(&bytes[..3], b"wer");
        assert_eq!(reader.read_at(&mut bytes, 9).unwrap(), 0);
        let beyond = reader.read_exact_at(&mut bytes[..4], 2).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);

        overlay.rename(path, Path::new("/e/z")).unwrap();
        overlay.hard_link(Path::new("/e/z"), path).unwrap();
        assert_eq!(read(&overlay, "/e/z").unwrap(), b"lower");
        let mut file = overlay.open_writable(path, 5).unwrap();
        file.truncate(3).unwrap();
        file.write_all(b"!").unwrap();
        assert_eq!(read(&overlay, "/d/a").unwrap(), b"low!");
        assert_eq!(overlay.read_dir(Path::new("/d")).unwrap()[0].len, 4);
        overlay.remove_file(path).unwrap();
        assert_eq!(names(&overlay, "/d"), ["b", "sub"]);
        assert_eq!(read(&lower, "/d/a").unwrap(), b"lower a");
    }

    #[test]
    fn a_file_is_not_truncated_beyond_where_it_was_opened() {
        let (_, overlay) = layers();
        let mut file = overlay.open_writable(Path::new("/d/a"), 5).unwrap();
        assert_eq!(file.truncate(6).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn files_are_appended_to_and_replaced_in_memory() {
        let (lower, overlay) = layers();
        let mut file = overlay.open_writable(Path::new("/d/a"), 7).unwrap();
        file.write_all(b" and more").unwrap();
        assert_eq!(read(&overlay, "/d/a").unwrap(), b"lower a and more");
        // A lower file replaces an upper one, and the other way round.
        overlay.rename(Path::new("/d/b"), Path::new("/d/a")).unwrap();
        assert_eq!(read(&overlay, "/d/a").unwrap(), b"lower b");
        write(&overlay, "/d/t", b"t");
        overlay.rename(Path::new("/d/t"), Path::new("/d/a")).unwrap();
        assert_eq!(read(&overlay, "/d/a").unwrap(), b"t");
        assert_eq!(names(&overlay, "/d"), ["a", "sub"]);
        assert_eq!(read(&lower, "/d/a").unwrap(), b"lower a");
    }

    #[test]
    fn removed_names_can_be_used_again_and_links_stay() {
        let (_, overlay) = layers();
        overlay.hard_link(Path::new("/d/a"), Path::new("/d/link")).unwrap();
        let taken = overlay.hard_link(Path::new("/d/a"), Path::new("/d/b")).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        overlay.remove_file(Path::new("/d/a")).unwrap();
        assert!(overlay.remove_file(Path::new("/d/a")).is_err());
        assert_eq!(read(&overlay, "/d/link").unwrap(), b"lower a");
        write(&overlay, "/d/a", b"again");
        assert_eq!(read(&overlay, "/d/a").unwrap(), b"again");
        overlay.remove_file(Path::new("/d/link")).unwrap();
        assert_eq!(names(&overlay, "/d"), ["a", "b", "sub"]);
    }

    #[test]
    fn readers_lock_out_a_writer_and_not_each_other() {
        let lower: Arc<dyn FileSystem> = Arc::new(FakeFileSystem::new());
        let path = Path::new("/lock");
        let readers = [OverlayFileSystem::new(lower.clone()), OverlayFileSystem::new(lower.clone())];
        drop(lower.lock(path).unwrap());
        let locks = readers.each_ref().map(|reader| reader.lock(path).unwrap());
        assert_eq!(lower.lock(path).err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(locks);
        let _writer = lower.lock(path).unwrap();
        assert_eq!(readers[0].lock(path).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    }
}
