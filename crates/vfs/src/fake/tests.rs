use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::{FakeFileSystem, FileSystem, OperationKind, WritableFile};

const SEEDS: u64 = 300;

fn path(text: &str) -> &Path {
    Path::new(text)
}

/// A durable, empty directory `d`.
fn with_directory() -> FakeFileSystem {
    let fs = FakeFileSystem::new();
    fs.create_dir_all(path("d")).unwrap();
    fs.sync_dir(path("")).unwrap();
    fs
}

/// A durable file `d/f` with these synced bytes, still open.
fn with_file(bytes: &[u8]) -> (FakeFileSystem, Box<dyn WritableFile>) {
    let fs = with_directory();
    let mut file = fs.create(path("d/f")).unwrap();
    file.write_all(bytes).unwrap();
    file.sync().unwrap();
    fs.sync_dir(path("d")).unwrap();
    (fs, file)
}

fn read(fs: &FakeFileSystem, name: &str) -> Vec<u8> {
    let fs: &dyn FileSystem = fs;
    fs.read(path(name)).unwrap()
}

fn exists(fs: &FakeFileSystem, name: &str) -> bool {
    let fs: &dyn FileSystem = fs;
    fs.exists(path(name)).unwrap()
}

/// The results of `crash` over many seeds, for the history that `history` creates.
fn outcomes<T: Ord>(history: impl Fn() -> FakeFileSystem, look: impl Fn(&FakeFileSystem) -> T) -> Vec<T> {
    let mut seen: Vec<T> = (0..SEEDS).map(|seed| look(&history().crash(seed))).collect();
    seen.sort();
    seen.dedup();
    seen
}

#[test]
fn synced_bytes_under_a_synced_name_survive_every_crash() {
    let (fs, mut file) = with_file(b"kept");
    file.write_all(b" volatile").unwrap();
    for seed in 0..SEEDS {
        let survivor = fs.crash(seed);
        assert!(read(&survivor, "d/f").starts_with(b"kept"));
    }
}

#[test]
fn unsynced_bytes_are_dropped_kept_torn_holed_or_garbled() {
    let written = [7; 2000];
    let history = || {
        let (fs, mut file) = with_file(b"");
        file.write_all(&written).unwrap();
        fs
    };
    let seen = outcomes(history, |fs| read(fs, "d/f"));
    assert!(seen.contains(&Vec::new()), "dropped");
    assert!(seen.contains(&written.to_vec()), "kept");
    let torn = |bytes: &Vec<u8>| !bytes.is_empty() && bytes.len() < 2000 && written.starts_with(bytes);
    assert!(seen.iter().any(torn), "torn");
    let hole = |bytes: &Vec<u8>| bytes.len() == 2000 && bytes[..512] == [0; 512] && bytes[1999] == 7;
    assert!(seen.iter().any(hole), "a hole before bytes that survived");
    assert!(seen.iter().any(|bytes| bytes.iter().any(|byte| *byte != 0 && *byte != 7)), "garbage");
}

#[test]
fn an_unsynced_overwrite_leaves_old_or_new_bytes_in_every_sector_it_did_not_garble() {
    let history = || {
        let (fs, mut file) = with_file(&[1; 1024]);
        file.truncate(0).unwrap();
        file.write_all(&[2; 1024]).unwrap();
        fs
    };
    let seen = outcomes(history, |fs| read(fs, "d/f"));
    assert!(seen.contains(&vec![1; 1024]));
    assert!(seen.contains(&vec![2; 1024]));
    assert!(seen.contains(&[vec![1; 512], vec![2; 512]].concat()));
}

#[test]
fn an_unsynced_name_can_be_lost_though_its_bytes_were_synced() {
    let history = || {
        let fs = with_directory();
        let mut file = fs.create(path("d/f")).unwrap();
        file.write_all(b"bytes").unwrap();
        file.sync().unwrap();
        fs
    };
    assert_eq!(outcomes(history, |fs| exists(fs, "d/f")), [false, true]);
}

#[test]
fn a_name_needs_every_directory_above_it_synced() {
    let history = || {
        let fs = FakeFileSystem::new();
        fs.create_dir_all(path("a/b")).unwrap();
        fs.create(path("a/b/f")).unwrap();
        fs.sync_dir(path("a/b")).unwrap();
        fs.sync_dir(path("a")).unwrap();
        fs
    };
    assert_eq!(outcomes(history, |fs| exists(fs, "a/b/f")), [false, true]);
}

#[test]
fn unsynced_directory_operations_survive_in_their_order() {
    let history = || {
        let fs = with_directory();
        for name in ["d/1", "d/2", "d/3"] {
            fs.create(path(name)).unwrap();
        }
        fs.remove_file(path("d/1")).unwrap();
        fs
    };
    let names = |fs: &FakeFileSystem| -> String {
        fs.read_dir(path("d")).unwrap().into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(outcomes(history, names), ["", "1", "12", "123", "23"]);
}

#[test]
fn a_rename_over_a_file_leaves_the_old_file_or_the_new_one() {
    let history = || {
        let (fs, _file) = with_file(b"old");
        let mut new = fs.create(path("d/new")).unwrap();
        new.write_all(b"new").unwrap();
        new.sync().unwrap();
        fs.rename(path("d/new"), path("d/f")).unwrap();
        fs
    };
    assert_eq!(outcomes(history, |fs| read(fs, "d/f")), [b"new".to_vec(), b"old".to_vec()]);
}

#[test]
fn a_rename_between_directories_can_leave_both_names_but_never_none() {
    let history = || {
        let (fs, _file) = with_file(b"bytes");
        fs.create_dir_all(path("e")).unwrap();
        fs.sync_dir(path("")).unwrap();
        fs.rename(path("d/f"), path("e/f")).unwrap();
        fs
    };
    let seen = outcomes(history, |fs| (exists(fs, "d/f"), exists(fs, "e/f")));
    assert_eq!(seen, [(false, true), (true, false), (true, true)]);
}

#[test]
fn a_removed_file_can_come_back_until_its_directory_is_synced() {
    let removed = || {
        let (fs, _file) = with_file(b"bytes");
        fs.remove_file(path("d/f")).unwrap();
        fs
    };
    assert_eq!(outcomes(removed, |fs| exists(fs, "d/f")), [false, true]);
    let synced = || {
        let fs = removed();
        fs.sync_dir(path("d")).unwrap();
        fs
    };
    assert_eq!(outcomes(synced, |fs| exists(fs, "d/f")), [false]);
}

#[test]
fn writing_atomically_leaves_the_old_content_or_the_new_one_whichever_operation_is_the_last() {
    let operations = {
        let (fs, _file) = with_file(b"old");
        let before = fs.operations();
        <dyn FileSystem>::write_atomically(&fs, path("d/f"), b"new").unwrap();
        fs.operations() - before
    };
    for last in 1..=operations + 1 {
        for seed in 0..50 {
            let (fs, _file) = with_file(b"old");
            fs.fail_from(fs.operations() + last);
            let written = <dyn FileSystem>::write_atomically(&fs, path("d/f"), b"new");
            assert_eq!(written.is_ok(), last > operations);
            let found = read(&fs.crash(seed), "d/f");
            assert!(found == b"new" || (found == b"old" && written.is_err()));
        }
    }
}

#[test]
fn the_same_seed_leaves_the_same_bytes() {
    let history = || {
        let (fs, mut file) = with_file(b"kept");
        for _ in 0..20 {
            file.write_all(&[9; 300]).unwrap();
        }
        fs
    };
    for seed in 0..20 {
        assert_eq!(read(&history().crash(seed), "d/f"), read(&history().crash(seed), "d/f"));
    }
}

#[test]
fn a_killed_process_loses_nothing_written_but_what_was_volatile_stays_so() {
    let history = || {
        let (fs, mut file) = with_file(b"kept");
        file.write_all(b" written").unwrap();
        fs.kill()
    };
    assert_eq!(read(&history(), "d/f"), b"kept written");
    assert!(outcomes(history, |fs| read(fs, "d/f")).contains(&b"kept".to_vec()));
}

#[test]
fn a_fork_and_its_origin_do_not_see_each_other() {
    let (fs, mut file) = with_file(b"kept");
    let fork = fs.fork();
    file.write_all(b" here").unwrap();
    fork.remove_file(path("d/f")).unwrap();
    assert_eq!((read(&fs, "d/f"), exists(&fork, "d/f")), (b"kept here".to_vec(), false));
}

#[test]
fn only_a_crash_of_the_machine_changes_the_boot_id() {
    let fs = FakeFileSystem::new();
    let killed = fs.kill();
    assert_eq!(killed.boot_id(), fs.boot_id());
    assert_ne!(killed.crash(0).boot_id(), killed.boot_id());
}

#[test]
fn handles_from_before_a_crash_fail_and_leave_the_survivor_alone() {
    let (fs, mut file) = with_file(b"kept");
    let reader = fs.open(path("d/f")).unwrap();
    let syncer = file.sync_handle().unwrap();
    let _lock = fs.lock(path("d/lock")).unwrap();
    let survivor = fs.crash(1);
    assert!(file.write_all(b"late").is_err());
    assert!(file.sync().is_err() && syncer.sync().is_err());
    assert!(reader.read_at(&mut [0], 0).is_err() && reader.len().is_err());
    assert!(fs.create(path("d/g")).is_err() && fs.remove_file(path("d/f")).is_err());
    assert_eq!(read(&survivor, "d/f"), b"kept");
    assert!(survivor.lock(path("d/lock")).is_ok());
}

#[test]
fn the_nth_operation_fails_and_the_ones_around_it_do_not() {
    let (fs, mut file) = with_file(b"");
    fs.fail_at(fs.operations() + 2);
    file.write_all(b"a").unwrap();
    assert!(file.write_all(b"bcde").is_err());
    assert_eq!(file.len(), 1);
    assert_eq!(read(&fs, "d/f"), b"abc");
    file.write_all(b"x").unwrap();
    assert_eq!(read(&fs, "d/f"), b"axc");
}

#[test]
fn from_the_nth_operation_on_all_fail_until_healed() {
    let fs = with_directory();
    fs.fail_from(fs.operations() + 1);
    assert!(fs.create(path("d/f")).is_err());
    assert!(fs.create(path("d/f")).is_err());
    fs.heal();
    assert!(fs.create(path("d/f")).is_ok());
}

#[test]
fn chosen_operations_fail_with_the_chosen_error() {
    let (fs, mut file) = with_file(b"");
    fs.fail_when(|operation| {
        (operation.kind == OperationKind::Sync && operation.path == path("d/f"))
            .then_some(ErrorKind::TimedOut)
    });
    file.write_all(b"bytes").unwrap();
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::TimedOut);
}

#[test]
fn bytes_that_a_failed_sync_was_to_cover_do_not_become_durable_later() {
    let (fs, mut file) = with_file(b"kept");
    file.write_all(b" lost").unwrap();
    fs.fail_at(fs.operations() + 1);
    file.sync().unwrap_err();
    file.sync().unwrap();
    assert_eq!(read(&fs, "d/f"), b"kept lost");
    assert_eq!(read(&fs.crash(3), "d/f"), b"kept");
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_again() {
    let (fs, mut file) = with_file(b"1234");
    fs.set_capacity(6);
    assert_eq!(fs.available_space(path("d")).unwrap(), 2);
    assert_eq!(file.write_all(b"5678").unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.len(), 4);
    assert_eq!(fs.create(path("d/g")).unwrap().allocate(1).unwrap_err().kind(), ErrorKind::StorageFull);
    fs.set_capacity(8);
    file.write_all(b"5678").unwrap();
    assert_eq!(read(&fs, "d/f"), b"12345678");
    fs.remove_file(path("d/f")).unwrap();
    assert_eq!(fs.used(), 0);
}

#[test]
fn reserved_space_reads_as_zeros_and_cannot_run_out() {
    let (fs, mut file) = with_file(b"ab");
    file.allocate(6).unwrap();
    fs.set_capacity(6);
    assert_eq!((file.len(), read(&fs, "d/f")), (2, b"ab\0\0\0\0".to_vec()));
    file.write_all(b"cdef").unwrap();
    assert_eq!(read(&fs, "d/f"), b"abcdef");
    file.truncate(3).unwrap();
    assert_eq!((file.len(), fs.used()), (3, 3));
    assert_eq!(file.truncate(4).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_lock_is_exclusive_until_dropped() {
    let fs = with_directory();
    let lock = fs.lock(path("d/lock")).unwrap();
    assert_eq!(fs.lock(path("d/lock")).err().unwrap().kind(), ErrorKind::WouldBlock);
    drop(lock);
    assert!(fs.lock(path("d/lock")).is_ok());
}

#[test]
fn a_hard_link_is_the_same_file_and_outlives_the_first_name() {
    let (fs, mut file) = with_file(b"a");
    fs.hard_link(path("d/f"), path("d/g")).unwrap();
    assert_eq!(fs.hard_link(path("d/f"), path("d/g")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    file.write_all(b"b").unwrap();
    assert_eq!(fs.used(), 2);
    fs.remove_file(path("d/f")).unwrap();
    assert_eq!(read(&fs, "d/g"), b"ab");
    file.sync().unwrap();
    fs.sync_dir(path("d")).unwrap();
    assert_eq!(read(&fs.crash(0), "d/g"), b"ab");
}

#[test]
fn an_open_file_is_readable_after_its_name_is_gone() {
    let (fs, _file) = with_file(b"bytes");
    let reader = fs.open(path("d/f")).unwrap();
    fs.remove_file(path("d/f")).unwrap();
    let mut bytes = [0; 5];
    reader.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"bytes");
    assert_eq!(reader.read_exact_at(&mut bytes, 1).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(fs.open(path("d/f")).err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn directories_list_what_is_directly_in_them() {
    let (fs, _file) = with_file(b"bytes");
    fs.create_dir_all(path("/d/./sub/below")).unwrap();
    let entries = fs.read_dir(path("/d")).unwrap();
    let listed: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.is_dir, entry.len)).collect();
    assert_eq!(listed, [("f", false, 5), ("sub", true, 0)]);
    fs.rename(path("d/sub"), path("d/other")).unwrap_err();
    fs.sync_dir(path("d/sub")).unwrap();
    fs.rename(path("d/sub"), path("d/other")).unwrap();
    assert!(exists(&fs, "d/other/below"));
    fs.remove_dir_all(path("d")).unwrap();
    assert!(!exists(&fs, "d/f"));
    assert_eq!(fs.read_dir(path("d")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs.create(path("d/f")).err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn one_thread_can_sync_what_another_writes() {
    let (fs, mut file) = with_file(b"");
    let syncer = file.sync_handle().unwrap();
    let written = Arc::new(std::sync::atomic::AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for byte in 0..200_u8 {
                file.write_all(&[byte]).unwrap();
                written.store(file.len(), std::sync::atomic::Ordering::SeqCst);
            }
        });
        for _ in 0..20 {
            syncer.sync().unwrap();
        }
    });
    syncer.sync().unwrap();
    assert_eq!(read(&fs.crash(0), "d/f"), (0..200).collect::<Vec<u8>>());
}

#[test]
fn a_bind_mount_has_its_own_canonical_path_and_the_identity_of_its_target() {
    let (fs, _file) = with_file(b"bytes");
    fs.create_dir_all(path("other")).unwrap();
    fs.bind_mount(path("d"), path("/mnt/d"));
    assert_eq!(read(&fs, "mnt/d/f"), b"bytes");
    assert_eq!(fs.canonicalize(path("mnt/../mnt/d")).unwrap(), path("/mnt/d"));
    assert_eq!(fs.identity(path("mnt/d")).unwrap(), fs.identity(path("other/../d")).unwrap());
    assert_ne!(fs.identity(path("other")).unwrap(), fs.identity(path("d")).unwrap());
    fs.hard_link(path("d/f"), path("other/g")).unwrap();
    assert_eq!(fs.identity(path("d/f")).unwrap(), fs.identity(path("other/g")).unwrap());
    assert_eq!(fs.canonicalize(path("mnt/d/g")).unwrap_err().kind(), ErrorKind::NotFound);
}
