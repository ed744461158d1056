//! Metrics follow events.

use std::time::Duration;

use cassette_rows::{DeletionTime, PartitionUpdate, Selection, TableParams};
use cassette_vfs::Clock;

use super::World;
use crate::Mutation;
use crate::engine_tests::testing::{drain, insert, key, simple_table};
use crate::metrics::FilterAnswers;

#[test]
fn reads_count_the_sstables_that_held_the_partition_and_what_the_filters_of_the_others_said() {
    let table = simple_table("t", TableParams::default());
    let world = World::new(vec![table.clone()]);
    let engine = world.open().unwrap();
    // Keys 0 and 9 in both, so that every key is between the first and last of each; the others in
    // one of them.
    for (flush, keys) in [(0, [0, 1, 2, 9]), (1, [0, 3, 4, 9])] {
        for k in keys {
            engine
                .apply(&[Mutation { table: table.clone(), update: insert(k, b"value", flush + 1) }])
                .unwrap();
        }
        engine.flush(Some(table.id)).unwrap();
    }
    let metrics = engine.table_metrics(table.id).unwrap();
    assert_eq!((metrics.flushes.get(), engine.metrics().flushes.get()), (2, 2));
    assert_eq!(metrics.write_latency.count(), 8);

    for k in [0, 1, 3, 7] {
        drain(engine.read(table.id, &key(k), &Selection::all()).unwrap());
    }
    let per_read = metrics.sstables_per_read.snapshot(world.clock.monotonic());
    // The row in the newer SSTable has every column, so that the older one is not read for key 0.
    assert_eq!((per_read.count(), per_read.sum), (4, 3), "{per_read:?}");
    assert_eq!((per_read.all.percentile(0.25), per_read.all.max()), (0, 1));
    let answers = metrics.filter_answers();
    assert_eq!((answers.true_positives, answers.false_positives), (3, 0));
    assert!(answers.true_negatives >= 2, "{answers:?}");

    drain(engine.scan(table.id, &crate::KeyRange::ALL, &Selection::all()).unwrap());
    assert_eq!(metrics.sstables_per_range_read.snapshot(Duration::ZERO).sum, 2);
    engine.compact(table.id).unwrap();
    assert_eq!((metrics.compactions.get(), engine.metrics().active_compactions.get()), (1, 0));
    assert_ne!(metrics.filter_answers(), FilterAnswers::default());
}

#[test]
fn sizes_of_tables_are_those_of_their_memtables_and_sstables() {
    let table = simple_table("t", TableParams::default());
    let world = World::new(vec![table.clone()]);
    let engine = world.open().unwrap();
    for k in 0..100 {
        engine.apply(&[Mutation { table: table.clone(), update: insert(k, &[b'x'; 200], 1) }]).unwrap();
    }
    let stats = engine.table_stats(table.id).unwrap();
    assert_eq!(
        (stats.memtable_partitions, stats.memtable_operations, stats.memtable_data_bytes),
        (100, 100, 20_000)
    );
    assert_eq!((stats.sstables, stats.compression_ratio, stats.min_partition_bytes), (0, None, 0));
    engine.flush(Some(table.id)).unwrap();
    let stats = engine.table_stats(table.id).unwrap();
    assert_eq!((stats.memtable_operations, stats.sstables, stats.estimated_partitions), (0, 1, 100));
    assert_eq!((stats.levels.len(), stats.levels[0].sstables), (1, 1));
    assert_eq!(
        (stats.max_sstable_bytes, stats.total_disk_bytes),
        (stats.live_disk_bytes, stats.live_disk_bytes)
    );
    let ratio = stats.levels[0].bytes as f64 / stats.uncompressed_bytes as f64;
    assert_eq!(Some(ratio), stats.compression_ratio, "levels are measured by their data");
    assert!(stats.compression_ratio.is_some_and(|ratio| ratio < 0.5), "{stats:?}");
    assert!(stats.bloom_filter_disk_bytes >= 100 && stats.compression_metadata_bytes > 0, "{stats:?}");
    assert!((200..=320).contains(&stats.min_partition_bytes), "{stats:?}");
    let partitions = engine.partition_stats(table.id).unwrap();
    assert_eq!((partitions.bytes.count(), partitions.cells.count(), partitions.cells.max()), (100, 100, 1));
    assert_eq!(partitions.bytes.percentile(0.5), stats.max_partition_bytes);
    assert!(engine.tables().iter().any(|(id, _)| *id == table.id));
}

/// Cassandra prints this as a memtable's cells.
#[test]
fn a_memtable_counts_the_rows_and_deletions_that_were_written() {
    let table = simple_table("t", TableParams::default());
    let world = World::new(vec![table.clone()]);
    let engine = world.open().unwrap();
    let deletion = DeletionTime::new(2, 5);
    let deleted = PartitionUpdate { deletion, ..PartitionUpdate::new(key(1)) };
    let mut both = insert(1, b"again", 3);
    both.deletion = deletion;
    for (update, count) in [(insert(1, b"x", 1), 1), (insert(1, b"y", 1), 2), (deleted, 3), (both, 5)] {
        engine.apply(&[Mutation { table: table.clone(), update }]).unwrap();
        assert_eq!(engine.table_stats(table.id).unwrap().memtable_operations, count);
    }
}
