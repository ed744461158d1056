//! The operating system's files.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use fs4::FileExt as _;

#[cfg(target_os = "linux")]
use crate::page_cache;
use crate::{
    DirEntry, FileAccess, FileId, FileLock, FileSystem, LockHeld, Metadata, RandomAccessFile, SyncHandle,
    WritableFile,
};

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFileSystem;

/// Adds the attempted operation to an error, keeping its kind.
fn attempted<T>(result: io::Result<T>, what: &str, path: &Path) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{what} {}: {error}", path.display())))
}

impl FileSystem for RealFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(FileAccess::current().file_mode())
            .open(path);
        let file = Arc::new(attempted(file, "create", path)?);
        Ok(Box::new(RealWritableFile::new(RealSyncHandle { file, path: path.into() }, 0)))
    }

    fn open_writable(&self, path: &Path, offset: u64) -> io::Result<Box<dyn WritableFile>> {
        let file = attempted(OpenOptions::new().read(true).write(true).open(path), "open for writing", path)?;
        let synced = RealSyncHandle { file: Arc::new(file), path: path.into() };
        Ok(Box::new(RealWritableFile::new(synced, offset)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>> {
        let file = attempted(File::open(path), "open", path)?;
        Ok(Arc::new(RealRandomAccessFile { file, path: path.into() }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(FileAccess::current().directory_mode());
        attempted(builder.create(path), "create directory", path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in attempted(fs::read_dir(path), "list directory", path)? {
            let entry = attempted(entry, "list directory", path)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // A file removed since it was listed is no longer in the directory.
            let metadata = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => attempted(metadata, "read the metadata of", &entry.path())?,
            };
            let is_dir = metadata.is_dir();
            entries.push(DirEntry { name, is_dir, len: if is_dir { 0 } else { metadata.len() } });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let metadata = attempted(fs::metadata(path), "read the metadata of", path)?;
        let is_dir = metadata.is_dir();
        let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let modified_millis = modified.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0));
        Ok(Metadata { is_dir, len: if is_dir { 0 } else { metadata.len() }, modified_millis })
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        attempted(fs::canonicalize(path), "resolve", path)
    }

    fn identity(&self, path: &Path) -> io::Result<FileId> {
        let metadata = attempted(fs::metadata(path), "read the metadata of", path)?;
        Ok(FileId { device: metadata.dev(), inode: metadata.ino() })
    }

    fn mode(&self, path: &Path) -> io::Result<Option<u32>> {
        let metadata = attempted(fs::metadata(path), "read the metadata of", path)?;
        Ok(Some(metadata.mode() & 0o777))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        attempted(fs::rename(from, to), &format!("rename {} to", from.display()), to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        attempted(fs::remove_file(path), "remove", path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        attempted(fs::remove_dir_all(path), "remove directory", path)
    }

    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()> {
        attempted(fs::hard_link(original, link), &format!("link {} as", original.display()), link)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        attempted(File::open(path).and_then(|directory| directory.sync_all()), "sync directory", path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let mut file = loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(FileAccess::current().file_mode())
                .open(path);
            let file = attempted(file, "open lock file", path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(lock_held(&file, path)),
                Err(TryLockError::Error(error)) => return attempted(Err(error), "lock", path),
            }
            // The previous holder may have removed the file before it released the lock: the next
            // one would lock another file of this name.
            if attempted(is_at(&file, path), "read the metadata of", path)? {
                break file;
            }
        };
        let noted = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
        attempted(noted, "write the process id to lock file", path)?;
        Ok(Box::new(RealFileLock { file, is_exclusive: true }))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let file = attempted(File::open(path), "open lock file", path)?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Box::new(RealFileLock { file, is_exclusive: false })),
            Err(TryLockError::WouldBlock) => Err(lock_held(&file, path)),
            Err(TryLockError::Error(error)) => attempted(Err(error), "lock", path),
        }
    }

    fn available_space(&self, path: &Path) -> io::Result<u64> {
        attempted(fs4::available_space(path), "read the free space at", path)
    }

    fn boot_id(&self) -> Option<u128> {
        static BOOT_ID: OnceLock<Option<u128>> = OnceLock::new();
        *BOOT_ID.get_or_init(|| {
            let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
        })
    }
}

/// Whether the path leads to this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The error of a lock that another process holds.
fn lock_held(file: &File, path: &Path) -> io::Error {
    let mut holder = String::new();
    // The holder's process id is only informative; without it the error is valid too.
    let _ = file.take(20).read_to_string(&mut holder);
    let held = LockHeld { path: path.to_owned(), holder: holder.trim().parse().ok() };
    io::Error::new(io::ErrorKind::WouldBlock, held)
}

struct RealFileLock {
    file: File,
    is_exclusive: bool,
}

impl FileLock for RealFileLock {}

impl Drop for RealFileLock {
    fn drop(&mut self) {
        if self.is_exclusive {
            // Readers do not write their process ids: this one must not stand for them.
            let _ = self.file.set_len(0);
        }
        // Closing the descriptor is not enough: a process that another thread is starting has a
        // copy of it until it executes its program, and the copy would keep the lock.
        let _ = self.file.unlock();
    }
}

struct RealRandomAccessFile {
    file: File,
    path: PathBuf,
}

#[cfg(target_os = "linux")]
impl RealRandomAccessFile {
    /// Gives the system a hint; `length` 0 means the whole rest of the file.
    fn advise(&self, offset: u64, length: u64, advice: rustix::fs::Advice) {
        // File systems without support for the hint read the same bytes.
        let _ = rustix::fs::fadvise(&self.file, offset, std::num::NonZeroU64::new(length), advice);
    }
}

impl RandomAccessFile for RealRandomAccessFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return attempted(Err(error), "read", &self.path),
            }
        }
        Ok(filled)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let wanted = buffer.len();
        self.file.read_exact_at(buffer, offset).map_err(|error| {
            let text = format!("read {wanted} bytes at {offset} of {}: {error}", self.path.display());
            io::Error::new(error.kind(), text)
        })
    }

    #[cfg(target_os = "linux")]
    fn read_exact_at_once(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};

        let wanted = buffer.len();
        match preadv2(&self.file, &mut [io::IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT) {
            // Fewer bytes if only some of the pages are cached. At the end of the file, the next
            // read reports it.
            Ok(read) => Ok(read == wanted),
            // Not cached; or not supported by this file system.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(false),
            Err(error) => attempted(Err(error.into()), "read", &self.path),
        }
    }

    #[cfg(target_os = "linux")]
    fn read_pair_at(
        &self,
        (first, second): (&mut [u8], &mut [u8]),
        offset: u64,
        waits: bool,
    ) -> io::Result<bool> {
        use rustix::io::{ReadWriteFlags, preadv2};

        let flags = if waits { ReadWriteFlags::empty() } else { ReadWriteFlags::NOWAIT };
        let wanted = first.len() + second.len();
        let mut both = [io::IoSliceMut::new(first), io::IoSliceMut::new(second)];
        match preadv2(&self.file, &mut both, offset, flags) {
            Ok(read) if read == wanted => Ok(true),
            // One by one, the reads handle interruptions and the end of the file, and name errors.
            _ if waits => {
                self.read_exact_at(first, offset)?;
                self.read_exact_at(second, offset.saturating_add(first.len() as u64)).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    #[cfg(target_os = "linux")]
    fn expect_random_reads(&self) {
        self.advise(0, 0, rustix::fs::Advice::Random);
    }

    #[cfg(target_os = "linux")]
    fn open_sequential(&self) -> Option<Box<dyn RandomAccessFile>> {
        use std::os::fd::AsRawFd;

        // Advice is for an open file, which copies of its descriptor share. This way opens the same
        // file even if its name has been removed or belongs to another one.
        let file = File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd())).ok()?;
        let opened = Self { file, path: self.path.clone() };
        opened.advise(0, 0, rustix::fs::Advice::Sequential);
        Some(Box::new(opened))
    }

    #[cfg(target_os = "linux")]
    fn will_need(&self, offset: u64, length: u64) {
        // For the system, no length means the rest of the file.
        if length > 0 {
            self.advise(offset, length, rustix::fs::Advice::WillNeed);
        }
    }

    #[cfg(target_os = "linux")]
    fn cached_bytes(&self, offset: u64, length: u64) -> Option<u64> {
        page_cache::cached_bytes(&self.file, offset, length)
    }

    #[cfg(target_os = "linux")]
    fn will_not_need(&self, offset: u64, length: u64) {
        if length > 0 {
            self.advise(offset, length, rustix::fs::Advice::DontNeed);
        }
    }

    fn map(&self) -> io::Result<Option<Bytes>> {
        // SAFETY: the mapped file must not change or shrink while the mapping exists. Callers map
        // files that are never written again and are unlinked when they are removed, which
        // preserves the mapped bytes. The documentation of `disk_access_mode` warns against other
        // writers in the data directory.
        let mapped = unsafe { memmap2::Mmap::map(&self.file) };
        let mapped = attempted(mapped, "map", &self.path)?;
        // Otherwise each fault loads as many bytes as the device reads ahead, up to megabytes.
        // Without the advice, which only some systems have, the bytes are the same.
        let _ = mapped.advise(memmap2::Advice::Random);
        Ok(Some(Bytes::from_owner(mapped)))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(attempted(self.file.metadata(), "read the length of", &self.path)?.len())
    }
}

#[derive(Clone)]
struct RealSyncHandle {
    file: Arc<File>,
    path: PathBuf,
}

impl SyncHandle for RealSyncHandle {
    fn sync(&self) -> io::Result<()> {
        attempted(self.file.sync_data(), "sync", &self.path)
    }
}

struct RealWritableFile {
    synced: RealSyncHandle,
    length: u64,
    /// Write-back was started up to this offset; `None` for a file that leaves that to its syncs.
    begun: Option<u64>,
    /// Whether what is on the disk is dropped from memory.
    is_dropped: bool,
}

/// The number of bytes after which write-back starts: enough for long sequential writes, and little
/// compared with what the system would otherwise hold back (30 s, or a tenth of memory) until the
/// final sync.
const WRITE_BEHIND: u64 = 8 << 20;

impl RealWritableFile {
    fn new(synced: RealSyncHandle, length: u64) -> Self {
        Self { synced, length, begun: Some(length), is_dropped: false }
    }

    /// Drops what is on the disk before offset `end` from memory; what is not stays.
    #[cfg(target_os = "linux")]
    fn drop_before(&self, end: u64) {
        if let Some(length) = std::num::NonZeroU64::new(end).filter(|_| self.is_dropped) {
            let _ = rustix::fs::fadvise(&*self.synced.file, 0, Some(length), rustix::fs::Advice::DontNeed);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn drop_before(&self, _end: u64) {}

    /// Starts write-back of the written bytes, once there are enough, while more are produced. It
    /// guarantees nothing: a sync is still needed, and reports the errors. It can block until the
    /// disk accepts more.
    fn write_behind(&mut self) {
        let Some(begun) = self.begun.filter(|begun| self.length - begun >= WRITE_BEHIND) else { return };
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            let (from, bytes) = (begun as libc::off64_t, (self.length - begun) as libc::off64_t);
            // SAFETY: the call takes numbers only, and the descriptor stays open while `file` is
            // borrowed. Without the flags that wait, it does not consume errors of earlier writes,
            // which the sync reports.
            unsafe {
                libc::sync_file_range(self.synced.file.as_raw_fd(), from, bytes, libc::SYNC_FILE_RANGE_WRITE);
            }
        }
        self.begun = Some(self.length);
        // What was begun before is mostly on the disk by now.
        self.drop_before(begun);
    }

    /// Writes zeros from the end of the file to `length`, where the file system cannot reserve
    /// space otherwise.
    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.write_zeros(self.synced.file.metadata()?.len(), length)
    }

    fn write_zeros(&self, start: u64, end: u64) -> io::Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut start = start;
        while start < end {
            let count = (end - start).min(ZEROS.len() as u64);
            self.synced.file.write_all_at(&ZEROS[..count as usize], start)?;
            start += count;
        }
        Ok(())
    }
}

impl WritableFile for RealWritableFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        attempted(self.synced.file.write_all_at(bytes, self.length), "write to", &self.synced.path)?;
        self.length += bytes.len() as u64;
        self.write_behind();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.synced.sync()?;
        self.drop_before(self.length);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn expect_no_reads(&mut self) {
        self.is_dropped = true;
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        // A log, which is synced when necessary: its writers must not wait for the disk before
        // that.
        self.begun = None;
        let reserved = match self.synced.file.allocate(length) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.fill_with_zeros(length),
            reserved => reserved,
        };
        // `fs4` leaves the length unchanged if the blocks exist already, as in the rest of a file's
        // last block.
        let lengthened = reserved.and_then(|()| {
            if self.synced.file.metadata()?.len() < length {
                self.synced.file.set_len(length)
            } else {
                Ok(())
            }
        });
        attempted(lengthened, &format!("reserve {length} bytes for"), &self.synced.path)
    }

    fn populate(&mut self, start: u64, end: u64) -> io::Result<()> {
        if start < self.length {
            let text =
                format!("populate {} from byte {start}: it has {}", self.synced.path.display(), self.length);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        attempted(self.write_zeros(start, end), "populate", &self.synced.path)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if length > self.length {
            let text =
                format!("truncate {} to {length} bytes: it has {}", self.synced.path.display(), self.length);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        attempted(self.synced.file.set_len(length), "truncate", &self.synced.path)?;
        (self.length, self.begun) = (length, self.begun.map(|begun| begun.min(length)));
        Ok(())
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        Ok(Arc::new(self.synced.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn written_bytes_read_back_before_and_after_reserved_space_is_cut_off() {
        let directory = directory();
        let path = directory.path().join("f");
        let mut file = RealFileSystem.create(&path).unwrap();
        file.write_all(b"abc").unwrap();
        file.allocate(100).unwrap();
        file.write_all(b"def").unwrap();
        file.sync_handle().unwrap().sync().unwrap();
        assert_eq!(file.len(), 6);
        let mut bytes = [1; 8];
        let reader = RealFileSystem.open(&path).unwrap();
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"abcdef\0\0");
        file.truncate(4).unwrap();
        assert_eq!(reader.read_at(&mut bytes, 2).unwrap(), 2);
        assert_eq!(&bytes[..2], b"cd");
        assert_eq!(file.truncate(5).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        file.populate(4, 6).unwrap();
        assert_eq!((file.len(), reader.read_at(&mut bytes, 2).unwrap()), (4, 4));
        assert_eq!(&bytes[..4], b"cd\0\0");
        assert_eq!(file.populate(3, 6).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        file.truncate(4).unwrap();
        drop(file);
        let mut file = RealFileSystem.open_writable(&path, 1).unwrap();
        file.write_all(b"!").unwrap();
        assert_eq!(
            (file.len(), <dyn FileSystem>::read(&RealFileSystem, &path).unwrap()),
            (2, b"a!cd".to_vec())
        );
    }

    #[test]
    fn hints_do_not_change_what_is_read() {
        let directory = directory();
        let path = directory.path().join("f");
        let content: Vec<u8> = (0..100_000u32).map(|at| (at / 7) as u8).collect();
        RealFileSystem.create(&path).unwrap().write_all(&content).unwrap();
        let file = RealFileSystem.open(&path).unwrap();
        file.expect_random_reads();
        for (offset, length) in [(0, 0), (0, 100_000), (99_000, u64::MAX), (u64::MAX, 5)] {
            file.will_need(offset, length);
        }
        for (offset, length) in [(0, 100_000), (5, 20), (99_000, u64::MAX), (u64::MAX, 5)] {
            // Systems and file systems differ in what they report and drop.
            assert!(file.cached_bytes(offset, length).is_none_or(|cached| cached <= 100_000 + 4096));
            file.will_not_need(offset, length);
        }
        for offset in [0u64, 1, 4096, 99_990] {
            let (mut first, mut second) = ([0; 6], [0; 4]);
            assert!(file.read_pair_at((&mut first, &mut second), offset, true).unwrap());
            let at = offset as usize;
            assert_eq!([&first[..], &second[..]].concat(), content[at..at + 10]);
        }
        let ended = file.read_pair_at((&mut [0; 6], &mut [0; 5]), 99_990, true).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
        assert!(!file.read_pair_at((&mut [0; 6], &mut [0; 5]), 99_990, false).unwrap());
        assert_eq!(file.map().unwrap().unwrap(), content);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_opened_for_sequential_reads_is_the_same_even_if_its_name_is_another_files() {
        let directory = directory();
        let path = directory.path().join("f");
        RealFileSystem.create(&path).unwrap().write_all(b"before").unwrap();
        let file = RealFileSystem.open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        RealFileSystem.create(&path).unwrap().write_all(b"behind").unwrap();
        let sequential = file.open_sequential().unwrap();
        let mut read = [0; 6];
        sequential.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"before");
    }

    #[test]
    fn what_is_not_expected_to_be_read_is_written_and_read_all_the_same() {
        let directory = directory();
        let path = directory.path().join("f");
        let mut file = RealFileSystem.create(&path).unwrap();
        file.expect_no_reads();
        let piece: Vec<u8> = (0..3u32 << 20).map(|at| (at / 11) as u8).collect();
        for _ in 0..9 {
            file.write_all(&piece).unwrap();
        }
        file.sync().unwrap();
        let reader = RealFileSystem.open(&path).unwrap();
        let mut read = vec![0; piece.len()];
        for number in 0..9 {
            reader.read_exact_at(&mut read, number * piece.len() as u64).unwrap();
            assert!(read == piece, "piece {number}");
        }
    }

    #[test]
    fn space_reserved_by_writing_zeros_reads_the_same() {
        let directory = directory();
        let path = directory.path().join("f");
        RealFileSystem.create(&path).unwrap().write_all(b"ab").unwrap();
        let file = Arc::new(OpenOptions::new().read(true).write(true).open(&path).unwrap());
        let file = RealWritableFile::new(RealSyncHandle { file, path: path.clone() }, 2);
        file.fill_with_zeros(100_000).unwrap();
        let bytes = <dyn FileSystem>::read(&RealFileSystem, &path).unwrap();
        assert_eq!(bytes.len(), 100_000);
        assert!(bytes.starts_with(b"ab\0") && bytes.ends_with(&[0]));
    }

    #[test]
    fn errors_say_what_was_attempted_on_which_path() {
        let directory = directory();
        let path = directory.path().join("missing");
        let error = RealFileSystem.open(&path).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with(&format!("open {}", path.display())), "{error}");
        assert!(!<dyn FileSystem>::exists(&RealFileSystem, &path).unwrap());
    }

    #[test]
    fn a_second_lock_on_the_same_file_is_refused_and_names_the_holder() {
        let directory = directory();
        let path = directory.path().join("lock");
        let lock = RealFileSystem.lock(&path).unwrap();
        let error = RealFileSystem.lock(&path).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(lock);
        assert!(RealFileSystem.lock(&path).is_ok());
    }

    #[test]
    fn directories_list_rename_link_and_go() {
        let directory = directory();
        let at = |name: &str| directory.path().join(name);
        let fs: &dyn FileSystem = &RealFileSystem;
        fs.create_dir_all(&at("sub/below")).unwrap();
        fs.write_atomically(&at("sub/f"), b"one").unwrap();
        fs.hard_link(&at("sub/f"), &at("sub/g")).unwrap();
        fs.rename(&at("sub/g"), &at("sub/h")).unwrap();
        fs.write_atomically(&at("sub/f"), b"three").unwrap();
        fs.sync_dir(&at("sub")).unwrap();
        let listed: Vec<_> =
            fs.read_dir(&at("sub")).unwrap().into_iter().map(|e| (e.name, e.is_dir, e.len)).collect();
        let expected = [("below".into(), true, 0), ("f".into(), false, 5), ("h".into(), false, 3)];
        assert_eq!(listed, expected);
        fs.remove_file(&at("sub/f")).unwrap();
        fs.remove_dir_all(&at("sub")).unwrap();
        assert!(!fs.exists(&at("sub")).unwrap());
        assert!(fs.available_space(directory.path()).unwrap() > 0);
    }

    #[test]
    fn links_and_parent_components_resolve_to_one_path_and_one_identity() {
        let directory = directory();
        let at = |name: &str| directory.path().join(name);
        RealFileSystem.create_dir_all(&at("sub/below")).unwrap();
        std::os::unix::fs::symlink(at("sub"), at("link")).unwrap();
        let root = RealFileSystem.canonicalize(directory.path()).unwrap();
        for other in ["link", "sub/below/..", "link/below/../../sub"] {
            assert_eq!(RealFileSystem.canonicalize(&at(other)).unwrap(), root.join("sub"));
            assert_eq!(
                RealFileSystem.identity(&at(other)).unwrap(),
                RealFileSystem.identity(&at("sub")).unwrap()
            );
        }
        assert_ne!(
            RealFileSystem.identity(&at("sub/below")).unwrap(),
            RealFileSystem.identity(&at("sub")).unwrap()
        );
        assert_eq!(RealFileSystem.canonicalize(&at("missing")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn new_files_and_directories_belong_to_their_owner_alone() {
        let directory = directory();
        let at = |name: &str| directory.path().join(name);
        let mode = |name: &str| RealFileSystem.mode(&at(name)).unwrap().unwrap();
        RealFileSystem.create_dir_all(&at("sub/below")).unwrap();
        RealFileSystem.create(&at("sub/f")).unwrap();
        drop(RealFileSystem.lock(&at("lock")).unwrap());
        <dyn FileSystem>::write_atomically(&RealFileSystem, &at("g"), b"").unwrap();
        assert_eq!(["sub", "sub/below"].map(mode), [0o700; 2]);
        assert_eq!(["sub/f", "lock", "g"].map(mode), [0o600; 3]);
        // Existing permissions stay unchanged.
        fs::set_permissions(at("sub/f"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        RealFileSystem.create(&at("sub/f")).unwrap();
        assert_eq!(mode("sub/f"), 0o644);
    }

    #[test]
    fn the_boot_id_does_not_change_while_the_machine_runs() {
        assert_eq!(RealFileSystem.boot_id(), RealFileSystem.boot_id());
        assert_eq!(RealFileSystem.boot_id().is_some(), cfg!(target_os = "linux"));
    }
}
