//! The file system in memory, compared with the fake one, and its limit.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_vfs::{FakeFileSystem, FileLock, FileSystem, MemoryFileSystem};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

fn path(name: &str) -> PathBuf {
    Path::new("/d").join(name)
}

/// A file system with the directory of [`path`].
fn files(limit: u64) -> Arc<dyn FileSystem> {
    let files: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::with_limit(limit));
    files.create_dir_all(Path::new("/d")).unwrap();
    files
}

/// The names and contents below a directory.
fn contents(files: &dyn FileSystem, directory: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for entry in files.read_dir(directory).unwrap() {
        let path = directory.join(&entry.name);
        if entry.is_dir {
            found.push((path.clone(), None));
            found.extend(contents(files, &path));
        } else {
            let content = files.read(&path).unwrap();
            assert_eq!(content.len() as u64, entry.len);
            found.push((path, Some(content)));
        }
    }
    found
}

/// One random operation. The result says whether it succeeded, and how it failed.
fn step(files: &dyn FileSystem, random: &mut SmallRng) -> Result<(), io::ErrorKind> {
    let names = ["/d/a", "/d/b", "/d/x", "/d/x/a", "/d/x/b", "/d/none/a"];
    let mut name = || Path::new(names[random.random_range(0..names.len())]);
    let (first, second) = (name(), name());
    let length = random.random_range(0..200_000);
    let done = match random.random_range(0..9) {
        0 => files.create(first).and_then(|mut file| {
            file.write_all(&vec![1; length])?;
            file.write_all(&[2; 10])?;
            file.sync()
        }),
        1 => files.open_writable(first, 5).and_then(|mut file| file.write_all(&vec![3; length])),
        2 => files.open_writable(first, 0).and_then(|mut file| {
            file.allocate(length as u64)?;
            file.write_all(&[4; 70_000])?;
            file.truncate(66_000)
        }),
        3 => files.rename(first, second),
        4 => files.hard_link(first, second),
        5 => files.remove_file(first),
        6 => files.create_dir_all(first),
        7 => files.remove_dir_all(first),
        _ => files.open(first).and_then(|file| {
            let mut buffer = [0; 1000];
            file.read_exact_at(&mut buffer, (length / 2) as u64)
        }),
    };
    // The fake file system renames directories only if they are synced, and only within one.
    for directory in ["/d", "/d/x", ""] {
        let _ = files.sync_dir(Path::new(directory));
    }
    done.map_err(|error| error.kind())
}

#[test]
fn random_operations_have_the_results_of_the_fake_file_system() {
    for seed in 0..20 {
        let (memory, fake) = (MemoryFileSystem::new(), FakeFileSystem::new());
        memory.create_dir_all(Path::new("/d")).unwrap();
        fake.create_dir_all(Path::new("/d")).unwrap();
        let mut randoms = [SmallRng::seed_from_u64(seed), SmallRng::seed_from_u64(seed)];
        for number in 0..60 {
            let expected = step(&fake, &mut randoms[0]);
            if expected == Err(io::ErrorKind::Unsupported) {
                break;
            }
            let found = step(&memory, &mut randoms[1]);
            assert_eq!(
                found.is_ok(),
                expected.is_ok(),
                "seed {seed}, step {number}: {found:?}, {expected:?}"
            );
            let here = contents(&memory, Path::new("/d"));
            assert!(here == contents(&fake, Path::new("/d")), "seed {seed}, step {number}");
            assert_eq!(memory.used(), fake.used(), "seed {seed}, step {number}");
        }
    }
}

#[test]
fn an_operation_beyond_the_limit_fails_without_effect_until_files_are_removed() {
    let files = files(100_000);
    let mut file = files.create(&path("a")).unwrap();
    file.write_all(&[1; 60_000]).unwrap();
    assert_eq!(files.available_space(&path("a")).unwrap(), 40_000);

    let mut other = files.create(&path("b")).unwrap();
    let error = other.allocate(40_001).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(
        error.to_string(),
        "allocate /d/b: the files in memory would exceed their limit of 100000 bytes; raise it, or remove data"
    );
    other.allocate(40_000).unwrap();
    // What was reserved can be written, and nothing else.
    assert_eq!(file.write_all(&[1]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.len(), 60_000);
    other.write_all(&[2; 40_000]).unwrap();
    assert_eq!(files.read(&path("b")).unwrap(), [2; 40_000]);

    // A removed file takes memory while it is open.
    files.remove_file(&path("b")).unwrap();
    assert_eq!(files.available_space(&path("a")).unwrap(), 0);
    drop(other);
    assert_eq!(files.available_space(&path("a")).unwrap(), 40_000);
    file.write_all(&[1; 40_000]).unwrap();
    files.hard_link(&path("a"), &path("c")).unwrap();
    drop(file);
    files.remove_file(&path("a")).unwrap();
    assert_eq!(files.available_space(&path("c")).unwrap(), 0);
    files.remove_dir_all(Path::new("/d")).unwrap();
    assert_eq!(files.available_space(Path::new("/")).unwrap(), 100_000);
}

#[test]
fn reserved_bytes_are_zeros_and_take_no_memory() {
    let files = files(u64::MAX);
    let mut file = files.create(&path("log")).unwrap();
    // More than the machine has.
    file.allocate(1 << 45).unwrap();
    file.write_all(b"start").unwrap();
    let open = files.open(&path("log")).unwrap();
    let mut buffer = [1; 8];
    open.read_exact_at(&mut buffer, 0).unwrap();
    assert_eq!(&buffer, b"start\0\0\0");
    assert!(open.read_exact_at_once(&mut buffer, (1 << 45) - 8).unwrap());
    assert_eq!(buffer, [0; 8]);
    assert_eq!(open.read_at(&mut buffer, (1 << 45) - 3).unwrap(), 3);
    file.truncate(2).unwrap();
    assert_eq!(files.read(&path("log")).unwrap(), b"st");
    // What was truncated does not come back.
    file.allocate(4).unwrap();
    assert_eq!(files.read(&path("log")).unwrap(), b"st\0\0");
}

#[test]
fn a_reader_keeps_a_file_that_was_renamed_replaced_or_removed() {
    let files = files(u64::MAX);
    for content in ["one", "two"] {
        files.create(&path(content)).unwrap().write_all(content.as_bytes()).unwrap();
    }
    let one = files.open(&path("one")).unwrap();
    files.rename(&path("two"), &path("one")).unwrap();
    assert_eq!(files.read(&path("one")).unwrap(), b"two");
    let mut buffer = [0; 3];
    one.read_exact_at(&mut buffer, 0).unwrap();
    assert_eq!(&buffer, b"one");
    files.rename(Path::new("/d"), Path::new("/e")).unwrap();
    assert_eq!(files.read(Path::new("e/./x/../one")).unwrap(), b"two");
    assert!(!files.exists(Path::new("/d")).unwrap());
    assert_eq!(files.canonicalize(Path::new("e/one")).unwrap(), Path::new("/e/one"));
}

#[test]
fn locks_exclude_each_other_until_they_are_dropped() {
    let files = files(u64::MAX);
    assert_eq!(files.lock_shared(&path("lock")).err().unwrap().kind(), io::ErrorKind::NotFound);
    let lock = files.lock(&path("lock")).unwrap();
    let refused = |held: io::Result<Box<dyn FileLock>>| held.err().map(|error| error.kind());
    assert_eq!(refused(files.lock(&path("lock"))), Some(io::ErrorKind::WouldBlock));
    assert_eq!(refused(files.lock_shared(&path("lock"))), Some(io::ErrorKind::WouldBlock));
    drop(lock);
    let shared = [files.lock_shared(&path("lock")).unwrap(), files.lock_shared(&path("lock")).unwrap()];
    assert_eq!(refused(files.lock(&path("lock"))), Some(io::ErrorKind::WouldBlock));
    drop(shared);
    files.lock(&path("lock")).unwrap();
}

#[test]
fn names_of_one_file_have_one_identity() {
    let files = files(u64::MAX);
    for name in ["a", "b"] {
        files.create(&path(name)).unwrap();
    }
    files.hard_link(&path("a"), &path("c")).unwrap();
    let identity = |name: &str| files.identity(&path(name)).unwrap();
    assert_eq!(identity("a"), identity("c"));
    assert_ne!(identity("a"), identity("b"));
    assert_ne!(identity("a"), identity(""));
    assert!(files.metadata(&path("a")).unwrap().modified_millis > 1_600_000_000_000);
}
