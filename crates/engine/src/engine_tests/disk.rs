//! Full disks, corrupt files, locked directories.

use std::sync::atomic::{AtomicUsize, Ordering};

use cassette_rows::schema::CompressionParams;
use cassette_rows::{StorageError, TableParams};
use cassette_vfs::OperationKind;

use super::*;
use crate::engine_tests::testing::{insert, key, simple_table};
use crate::{DiskFailurePolicy, EngineError};

fn simple_world() -> (World, Arc<TableMetadata>) {
    let table = simple_table("t", Default::default());
    (World::new(vec![table.clone()]), table)
}

fn put(engine: &Engine, table: &Arc<TableMetadata>, k: i32, size: usize) -> Result<()> {
    engine.apply(&[mutation(table, insert(k, &vec![b'x'; size], 1))])
}

fn is_there(engine: &Engine, table: &Arc<TableMetadata>, k: i32) -> Result<bool> {
    let read = engine.read(table.id, &key(k), &Selection::all())?;
    Ok(!drain(read).is_empty())
}

#[test]
fn a_full_disk_refuses_writes_and_serves_reads_until_there_is_space() {
    let (mut world, table) = simple_world();
    world.options.memtable_heap_space = 200_000;
    let engine = world.open().unwrap();
    world.fs.set_capacity(world.fs.used() + 300_000);
    let mut written = 0;
    let refused = loop {
        match put(&engine, &table, written, 1000) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 10_000, "never full");
    };
    assert!(refused.is_disk_full(), "{refused}");
    assert!(put(&engine, &table, written, 1000).is_err());
    for k in 0..written {
        assert!(is_there(&engine, &table, k).unwrap());
    }
    world.fs.set_capacity(u64::MAX);
    // Background threads do this every second.
    let _ = engine.flush(None);
    for k in written..written + 300 {
        put(&engine, &table, k, 1000).unwrap();
    }
    drop(engine);
    let engine = world.open().unwrap();
    for k in 0..written + 300 {
        assert!(is_there(&engine, &table, k).unwrap(), "{k}");
    }
}

#[test]
fn a_read_only_remount_leaves_reads_and_refuses_writes_by_name() {
    let (mut world, table) = simple_world();
    let engine = world.open().unwrap();
    (0..10).for_each(|k| put(&engine, &table, k, 100).unwrap());
    engine.flush(None).unwrap();
    (10..20).for_each(|k| put(&engine, &table, k, 100).unwrap());
    world.fs.fail_when(|operation| {
        let reads = [OperationKind::Open, OperationKind::ReadDir, OperationKind::Read];
        (!reads.contains(&operation.kind)).then_some(std::io::ErrorKind::ReadOnlyFilesystem)
    });
    for k in 20..23 {
        let error = put(&engine, &table, k, 100).unwrap_err().to_string();
        assert!(error.contains("commitlog"), "{error}");
        let error = engine.flush(None).unwrap_err().to_string();
        assert!(error.contains("db/"), "{error}");
    }
    let all = |engine: &Engine| (0..20).all(|k| is_there(engine, &table, k).unwrap());
    assert!(all(&engine));
    assert!(!is_there(&engine, &table, 20).unwrap());
    assert!(engine.close().is_err());
    drop(engine);
    // Writable again after a restart.
    world.fs = world.fs.kill();
    let engine = world.open().unwrap();
    assert!(all(&engine));
    put(&engine, &table, 30, 100).unwrap();
    engine.flush(None).unwrap();
}

#[test]
fn a_flush_that_fails_keeps_everything_and_is_made_up_for() {
    let (world, table) = simple_world();
    let engine = world.open().unwrap();
    for k in 0..50 {
        put(&engine, &table, k, 100).unwrap();
    }
    world.fs.fail_when(|operation| {
        (operation.kind == OperationKind::Create && operation.path.to_string_lossy().contains("-big-"))
            .then_some(std::io::ErrorKind::Other)
    });
    assert!(engine.flush(None).is_err());
    assert!(is_there(&engine, &table, 7).unwrap());
    put(&engine, &table, 50, 100).unwrap();
    assert_eq!(world.sstables(&table), 0);
    world.fs.heal();
    engine.flush(None).unwrap();
    assert_eq!(engine.table_stats(table.id).unwrap().pending_flushes, 0);
    assert_eq!(world.sstables(&table), 2);
    assert_eq!(engine.table_stats(table.id).unwrap().memtable_bytes, 0);
    for k in 0..=50 {
        assert!(is_there(&engine, &table, k).unwrap());
    }
}

/// Large enough for a second thread, which compresses and writes.
#[test]
fn a_large_flush_that_fails_in_its_second_thread_keeps_everything_and_is_made_up_for() {
    let compression = CompressionParams { compressor: None, ..CompressionParams::default() };
    let table = simple_table("t", TableParams { compression, ..TableParams::default() });
    let mut world = World::new(vec![table.clone()]);
    world.options.background_threads = true;
    world.options.commitlog_segment_size = 1 << 20;
    world.options.commitlog_total_space = 64 << 20;
    world.options.memtable_heap_space = 64 << 20;
    let engine = world.open().unwrap();
    for k in 0..2500 {
        put(&engine, &table, k, 1000).unwrap();
    }
    let beside = Arc::new(AtomicUsize::new(0));
    let counted = beside.clone();
    world.fs.fail_when(move |operation| {
        let is_beside = std::thread::current().name() == Some("data-writer");
        let fails = is_beside && operation.kind == OperationKind::Write;
        counted.fetch_add(usize::from(fails), Ordering::Relaxed);
        fails.then_some(std::io::ErrorKind::Other)
    });
    let error = engine.flush(None).unwrap_err();
    assert!(error.to_string().contains("-Data.db"), "{error}");
    assert!(beside.load(Ordering::Relaxed) > 0);
    assert!(is_there(&engine, &table, 7).unwrap());
    world.fs.heal();
    engine.flush(None).unwrap();
    assert_eq!(engine.table_stats(table.id).unwrap().memtable_bytes, 0);
    engine.close().unwrap();
    let engine = world.open().unwrap();
    assert_eq!(world.seen(&engine, table.id, &Selection::all()).len(), 2500);
}

/// Two SSTables, the first with a flipped bit in its data.
fn with_corrupt_sstable(policy: DiskFailurePolicy) -> (World, Arc<TableMetadata>) {
    let (mut world, table) = simple_world();
    world.options.disk_failure_policy = policy;
    let engine = world.open().unwrap();
    put(&engine, &table, 1, 1000).unwrap();
    engine.flush(None).unwrap();
    put(&engine, &table, 2, 1000).unwrap();
    engine.flush(None).unwrap();
    drop(engine);
    let directory = Path::new("db/data/ks").join(table.directory_name());
    let data = world.files(&table).into_iter().find(|name| name.ends_with("-Data.db")).unwrap();
    world.fs.corrupt(&directory.join(data), 20, 4);
    (world, table)
}

#[test]
fn a_corrupt_sstable_is_named_and_quarantined_and_others_are_served() {
    let (world, table) = with_corrupt_sstable(DiskFailurePolicy::BestEffort);
    let engine = world.open().unwrap();
    let mut stream = engine.read(table.id, &key(1), &Selection::all()).and_then(|mut stream| {
        stream.next_partition()?;
        stream.next_unfiltered()?;
        Ok(stream)
    });
    let Err(EngineError::Storage(StorageError::Corrupt { path, .. })) = &mut stream else {
        panic!("a corrupt SSTable")
    };
    assert!(path.to_string_lossy().ends_with("-Data.db"), "{path:?}");
    drop(stream);
    assert!(is_there(&engine, &table, 2).unwrap());
    assert!(!is_there(&engine, &table, 1).unwrap());
    assert_eq!(engine.table_stats(table.id).unwrap().sstables_quarantined, 1);
    put(&engine, &table, 3, 10).unwrap();
    engine.flush(None).unwrap();
    engine.compact(table.id).unwrap();
    assert_eq!(world.sstables(&table), 2, "the corrupt one stays for repair");
}

#[test]
fn under_the_policy_to_stop_everything_is_refused_after_a_corruption() {
    let (world, table) = with_corrupt_sstable(DiskFailurePolicy::Stop);
    let engine = world.open().unwrap();
    assert!(engine.compact(table.id).is_err());
    assert!(matches!(put(&engine, &table, 3, 10), Err(EngineError::Stopped { .. })));
    assert!(matches!(is_there(&engine, &table, 2), Err(EngineError::Stopped { .. })));
}

#[test]
fn under_the_policy_to_ignore_only_what_meets_the_corruption_fails() {
    let (world, table) = with_corrupt_sstable(DiskFailurePolicy::Ignore);
    let engine = world.open().unwrap();
    for _ in 0..2 {
        assert!(engine.compact(table.id).is_err() || world.sstables(&table) == 2);
        assert!(is_there(&engine, &table, 2).unwrap());
    }
    assert_eq!(engine.table_stats(table.id).unwrap().sstables, 2);
}

#[test]
fn a_directory_in_use_is_refused_until_it_is_closed() {
    let (world, table) = simple_world();
    let engine = world.open().unwrap();
    put(&engine, &table, 1, 10).unwrap();
    assert!(matches!(world.open(), Err(EngineError::Locked { .. })));
    engine.close().unwrap();
    assert!(matches!(put(&engine, &table, 2, 10), Err(EngineError::Closed)));
    assert!(is_there(&world.open().unwrap(), &table, 1).unwrap());
}

#[test]
fn a_damaged_commit_log_stops_with_what_to_do() {
    let (world, table) = simple_world();
    let engine = world.open().unwrap();
    for k in 0..20 {
        put(&engine, &table, k, 100).unwrap();
    }
    drop(engine);
    let directory = Path::new("db/commitlog");
    let log = world.fs.read_dir(directory).unwrap().into_iter().next().unwrap().name;
    world.fs.corrupt(&directory.join(log), 300, 1);
    let Err(EngineError::OpenCommitLog(error)) = world.open() else { panic!("a damaged log") };
    assert!(error.to_string().contains("Restore the file"), "{error}");
}

#[test]
fn a_write_that_is_too_large_is_refused_and_nothing_of_it_is_seen() {
    let (world, table) = simple_world();
    let engine = world.open().unwrap();
    let too_large = vec![0; world.options.memtable_heap_space];
    let batch = [mutation(&table, insert(1, b"small", 1)), mutation(&table, insert(2, &too_large, 1))];
    assert!(matches!(engine.apply(&batch), Err(EngineError::CommitLog(_))));
    assert!(!is_there(&engine, &table, 1).unwrap());
    assert!(put(&engine, &table, 1, 10).is_ok());
}
