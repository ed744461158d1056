//! A directory that is built beside its place, and appears there when it is complete.
//!
//! 1. `<target>.<suffix>.lock` is created and locked. It is the durable record that
//!    `<target>.<suffix>` belongs to such a build: only with it is an existing one removed.
//! 2. The directory is built as `<target>.<suffix>`.
//! 3. Everything in it is synced, and it is renamed to `<target>`.
//! 4. The lock file is removed.
//!
//! A crash before the rename leaves no `<target>`, and the next build removes the rest; a crash
//! after it leaves the complete one.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{FileLock, FileSystem};

/// The error of building a directory. The target has not been changed.
#[derive(Debug)]
pub enum StagingError {
    /// The path has no last component.
    NoName,
    /// Another build of the same target holds this lock.
    Busy(PathBuf),
    /// This directory exists, and no interrupted build left it.
    Foreign(PathBuf),
    /// The target is a mount point, which cannot be replaced.
    MountPoint,
    /// The file system returned an error.
    Io {
        /// The attempted action, a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

type Result<T> = std::result::Result<T, StagingError>;

fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> StagingError + 'a {
    move |source| StagingError::Io { action, path: path.to_owned(), source }
}

/// A directory that is being built. Dropping it removes what has been built, unless it was
/// published; what cannot be removed stays for the next build.
pub struct StagedDirectory {
    fs: Arc<dyn FileSystem>,
    target: PathBuf,
    parent: PathBuf,
    staging: PathBuf,
    lock_path: PathBuf,
    _lock: Box<dyn FileLock>,
}

impl StagedDirectory {
    /// Excludes other builds of `target` with the same suffix, and removes what an interrupted one
    /// left. Creates missing parents of the target, and not the directory to build in.
    ///
    /// # Errors
    /// Nothing has been changed, except that parents may have been created.
    pub fn begin(fs: &Arc<dyn FileSystem>, target: &Path, suffix: &str) -> Result<Self> {
        let name = target.file_name().ok_or(StagingError::NoName)?;
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).to_owned();
        let with = |suffix: &str| {
            let mut name = OsString::from(name);
            name.push(suffix);
            parent.join(name)
        };
        let staging = with(&format!(".{suffix}"));
        let lock_path = with(&format!(".{suffix}.lock"));
        create_with_parents(fs.as_ref(), &parent)?;
        let has_record = fs.exists(&lock_path).map_err(io("look for", &lock_path))?;
        if !has_record && fs.exists(&staging).map_err(io("look for", &staging))? {
            return Err(StagingError::Foreign(staging));
        }
        let lock = fs.lock(&lock_path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StagingError::Busy(lock_path.clone()),
            _ => io("lock", &lock_path)(error),
        })?;
        fs.sync_dir(&parent).map_err(io("sync", &parent))?;
        let target = target.to_owned();
        let staged = Self { fs: fs.clone(), target, parent, staging, lock_path, _lock: lock };
        staged.remove_staging()?;
        Ok(staged)
    }

    /// Returns the directory to build in. It does not exist at first.
    pub fn path(&self) -> &Path {
        &self.staging
    }

    /// Returns the directory of the target.
    pub fn parent(&self) -> &Path {
        &self.parent
    }

    /// Makes everything that has been built durable, and renames it to the target, which must be
    /// missing or an empty directory.
    ///
    /// # Errors
    /// [`StagingError::MountPoint`] or [`StagingError::Io`]. The target may exist if its name could
    /// not be made durable; otherwise it does not.
    pub fn publish(self) -> Result<()> {
        sync_tree(self.fs.as_ref(), &self.staging)?;
        self.fs.rename(&self.staging, &self.target).map_err(|source| match source.kind() {
            io::ErrorKind::ResourceBusy => StagingError::MountPoint,
            _ => io("rename the complete directory to", &self.target)(source),
        })?;
        self.fs.sync_dir(&self.parent).map_err(io("sync", &self.parent))
    }

    fn remove_staging(&self) -> Result<()> {
        if self.fs.exists(&self.staging).map_err(io("look for", &self.staging))? {
            self.fs.remove_dir_all(&self.staging).map_err(io("remove", &self.staging))?;
            self.fs.sync_dir(&self.parent).map_err(io("sync", &self.parent))?;
        }
        Ok(())
    }
}

impl Drop for StagedDirectory {
    fn drop(&mut self) {
        let removed = self.remove_staging().and_then(|()| {
            self.fs.remove_file(&self.lock_path).map_err(io("remove", &self.lock_path))?;
            self.fs.sync_dir(&self.parent).map_err(io("sync", &self.parent))
        });
        // The next build removes the rest: the lock file still records whose it is.
        drop(removed);
    }
}

/// Makes all names below a directory durable, from the top down.
fn sync_tree(fs: &dyn FileSystem, directory: &Path) -> Result<()> {
    fs.sync_dir(directory).map_err(io("sync", directory))?;
    for entry in fs.read_dir(directory).map_err(io("list", directory))? {
        if entry.is_dir {
            sync_tree(fs, &directory.join(entry.name))?;
        }
    }
    Ok(())
}

/// Creates a directory with its parents, durably.
fn create_with_parents(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    fs.create_with_parents(path).map_err(io("create", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FakeFileSystem;

    const TARGET: &str = "/a/b/target";

    fn build(fs: &FakeFileSystem) -> Result<()> {
        let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
        let staged = StagedDirectory::begin(&shared, Path::new(TARGET), "building")?;
        let inner = staged.path().join("c/d");
        shared.create_dir_all(&inner).map_err(io("create", &inner))?;
        let file = inner.join("file");
        let mut out = shared.create(&file).map_err(io("create", &file))?;
        out.write_all(b"content").and_then(|()| out.sync()).map_err(io("write", &file))?;
        staged.publish()
    }

    fn content(fs: &FakeFileSystem) -> Option<Vec<u8>> {
        let fs: &dyn FileSystem = fs;
        fs.exists(Path::new(TARGET)).unwrap().then(|| fs.read(&Path::new(TARGET).join("c/d/file")).unwrap())
    }

    #[test]
    fn after_a_crash_at_any_operation_the_directory_is_complete_or_absent() {
        let mut absent = 0;
        for at in 1.. {
            let fs = FakeFileSystem::new();
            fs.fail_from(at);
            let built = build(&fs);
            let survivor = fs.crash(at);
            match content(&survivor) {
                Some(content) => assert_eq!(content, b"content"),
                None => {
                    absent += 1;
                    assert!(built.is_err());
                    build(&survivor).unwrap();
                    assert_eq!(content(&survivor).unwrap(), b"content");
                }
            }
            if built.is_ok() {
                break;
            }
        }
        assert!(absent > 3, "{absent}");
    }

    #[test]
    fn one_build_at_a_time_also_when_another_one_ends() {
        use std::sync::atomic::{AtomicUsize, Ordering};

        const BUILDS: usize = 4000;
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        let shared: Arc<dyn FileSystem> = Arc::new(crate::RealFileSystem);
        let (building, built) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while built.load(Ordering::Relaxed) < BUILDS {
                        let Ok(staged) = StagedDirectory::begin(&shared, &target, "building") else {
                            continue;
                        };
                        assert_eq!(building.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        building.fetch_sub(1, Ordering::SeqCst);
                        built.fetch_add(1, Ordering::Relaxed);
                        drop(staged);
                    }
                });
            }
        });
    }

    #[test]
    fn a_directory_of_another_origin_and_a_running_build_are_kept() {
        let fs = FakeFileSystem::new();
        let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
        let staging = Path::new("/a/b/target.building");
        shared.create_dir_all(staging).unwrap();
        assert!(matches!(build(&fs), Err(StagingError::Foreign(path)) if path == staging));
        shared.remove_dir_all(staging).unwrap();
        let running = StagedDirectory::begin(&shared, Path::new(TARGET), "building").unwrap();
        assert!(matches!(build(&fs), Err(StagingError::Busy(_))));
        drop(running);
        build(&fs).unwrap();
        assert!(matches!(
            StagedDirectory::begin(&shared, Path::new("/"), "building"),
            Err(StagingError::NoName)
        ));
        // Neither the staging directory nor the lock is left.
        let names: Vec<String> =
            shared.read_dir(Path::new("/a/b")).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["target"]);
    }
}
