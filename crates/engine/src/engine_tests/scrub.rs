//! Damaged SSTables are rewritten with their readable contents.

use cassette_rows::TableParams;
use cassette_vfs::FileSystem;

use super::*;
use crate::engine_tests::testing::{insert, key, simple_table};
use crate::{DiskFailurePolicy, ScrubOptions};

const ROWS: i32 = 400;

/// An SSTable of many chunks, of which one is damaged in the middle.
fn damaged(policy: DiskFailurePolicy) -> (World, Arc<TableMetadata>) {
    let table = simple_table("t", TableParams::default());
    let mut world = World::new(vec![table.clone()]);
    world.options.disk_failure_policy = policy;
    // One flush.
    world.options.memtable_heap_space = 64 << 20;
    world.options.commitlog_total_space = 64 << 20;
    let engine = world.open().unwrap();
    for k in 0..ROWS {
        engine.apply(&[mutation(&table, insert(k, format!("{k:01000}").as_bytes(), 1))]).unwrap();
    }
    engine.flush(None).unwrap();
    engine.close().unwrap();
    let data = data_file(&world, &table);
    let length = world.fs.metadata(&data).unwrap().len;
    world.fs.corrupt(&data, length / 2, 4);
    (world, table)
}

fn data_file(world: &World, table: &TableMetadata) -> std::path::PathBuf {
    let directory = Path::new("db/data/ks").join(table.directory_name());
    directory.join(world.files(table).into_iter().find(|name| name.ends_with("-Data.db")).unwrap())
}

fn readable(world: &World, engine: &Engine, table: &TableMetadata) -> usize {
    world.seen(engine, table.id, &Selection::all()).len()
}

#[test]
fn a_damaged_sstable_is_readable_after_a_scrub_and_kept_as_it_was_in_a_snapshot() {
    let (world, table) = damaged(DiskFailurePolicy::Ignore);
    let before = world.fs.metadata(&data_file(&world, &table)).unwrap().len;
    let engine = world.open().unwrap();
    assert!(engine.verify(table.id, false).unwrap()[0].result.is_err());
    let scrubbed = engine.scrub(table.id, &ScrubOptions::default(), Some("CREATE TABLE")).unwrap();
    let (report, written) = scrubbed[0].result.as_ref().unwrap();
    assert_eq!(written.len(), 1);
    assert!(report.lost > 0 && report.good > ROWS as u64 * 9 / 10, "{report:?}");
    let messages = scrubbed[0].messages().join("\n");
    assert!(messages.contains("partitions in new sstable"), "{messages}");
    assert!(messages.contains("WARNING: Unable to recover"), "{messages}");

    assert_eq!(readable(&world, &engine, &table), report.good as usize);
    assert!(engine.verify(table.id, true).unwrap().iter().all(|sstable| sstable.result.is_ok()));
    let snapshots = engine.snapshots().unwrap();
    assert_eq!(snapshots.len(), 1);
    assert!(snapshots[0].name.starts_with("pre-scrub-"), "{}", snapshots[0].name);
    let kept = snapshots[0].directory.join("nb-1-big-Data.db");
    assert_eq!(world.fs.metadata(&kept).unwrap().len, before);
    assert_eq!(world.sstables(&table), 1);
    drop(engine);
    assert_eq!(readable(&world, &world.open().unwrap(), &table), report.good as usize);
}

#[test]
fn rows_that_were_left_out_of_reads_come_back_with_a_scrub() {
    for cut_off in [false, true] {
        let (world, table) = damaged(DiskFailurePolicy::BestEffort);
        if cut_off {
            // This one cannot even be opened.
            let data = data_file(&world, &table);
            let files: &dyn FileSystem = &world.fs;
            let bytes = files.read(&data).unwrap();
            files.write_atomically(&data, &bytes[..bytes.len() * 3 / 4]).unwrap();
        }
        let engine = world.open().unwrap();
        let verified = engine.verify(table.id, false).unwrap();
        assert!(verified.iter().all(|sstable| sstable.result.is_err()));
        let stats = engine.table_stats(table.id).unwrap();
        assert_eq!((stats.sstables, stats.live_disk_bytes, stats.sstables_quarantined), (0, 0, 1));
        assert!(stats.total_disk_bytes >= world.fs.metadata(&data_file(&world, &table)).unwrap().len);
        assert_eq!(readable(&world, &engine, &table), 0);
        engine.scrub(table.id, &ScrubOptions::default(), None).unwrap();
        assert_eq!(engine.table_stats(table.id).unwrap().sstables_quarantined, 0);
        let rows = readable(&world, &engine, &table);
        assert!(rows > ROWS as usize / 2, "{rows} rows, cut off: {cut_off}");
    }
}

#[test]
fn a_scrub_that_finds_nothing_and_keeps_nothing_leaves_the_sstable() {
    let (world, table) = damaged(DiskFailurePolicy::Ignore);
    let data = data_file(&world, &table);
    for offset in 0..world.fs.metadata(&data).unwrap().len {
        world.fs.corrupt(&data, offset, 0x55);
    }
    let engine = world.open().unwrap();
    let scrubbed = engine.scrub(table.id, &ScrubOptions::default(), None).unwrap();
    let refused = scrubbed[0].result.as_ref().unwrap_err().to_string();
    assert!(refused.contains("No valid partitions found"), "{refused}");
    assert_eq!(world.sstables(&table), 1);
    // With a snapshot it is removed.
    let scrubbed = engine.scrub(table.id, &ScrubOptions::default(), Some("")).unwrap();
    assert!(scrubbed[0].messages().iter().any(|message| message.contains("it is gone now")));
    assert_eq!(world.sstables(&table), 0);
    assert_eq!(engine.snapshots().unwrap().len(), 1);
}

#[test]
fn a_crash_during_a_scrub_leaves_the_old_sstable_or_the_new_one() {
    let (world, table) = damaged(DiskFailurePolicy::Ignore);
    let engine = world.open().unwrap();
    let report = {
        let scrubbed = engine.scrub(table.id, &ScrubOptions::default(), Some("")).unwrap();
        scrubbed[0].result.as_ref().unwrap().0.clone()
    };
    drop(engine);
    for failing in 0..60 {
        let (mut world, table) = damaged(DiskFailurePolicy::Ignore);
        let engine = world.open().unwrap();
        let count = std::sync::atomic::AtomicUsize::new(0);
        world.fs.fail_when(move |_| {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            (number >= failing).then_some(std::io::ErrorKind::Other)
        });
        let _ = engine.scrub(table.id, &ScrubOptions::default(), None);
        let crashed = world.fs.crash(failing as u64);
        drop(engine);
        world.fs = crashed;
        let engine = world.open().unwrap();
        engine.scrub(table.id, &ScrubOptions::default(), None).unwrap();
        assert_eq!(readable(&world, &engine, &table), report.good as usize, "after {failing} operations");
    }
}

#[test]
fn counters_are_not_skipped_unless_told() {
    let (world, table) = damaged(DiskFailurePolicy::Ignore);
    let mut counting = TableMetadata::clone(&table);
    counting.is_counter = true;
    let engine = world.open().unwrap();
    engine.alter_table(Arc::new(counting)).unwrap();
    let scrubbed = engine.scrub(table.id, &ScrubOptions::default(), None).unwrap();
    let refused = scrubbed[0].result.as_ref().unwrap_err().to_string();
    assert!(refused.contains("re-run the scrub with the --skip-corrupted option"), "{refused}");
    assert!(engine.verify(table.id, false).unwrap()[0].result.is_err(), "it is as it was");
    let skipping = ScrubOptions { skip_corrupted: true, ..ScrubOptions::default() };
    let scrubbed = engine.scrub(table.id, &skipping, None).unwrap();
    assert!(scrubbed[0].result.is_ok());
    assert!(!drain(engine.read(table.id, &key(0), &Selection::all()).unwrap()).is_empty());
}
