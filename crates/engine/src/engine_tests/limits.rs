//! Lengths that Cassandra's files do not support are rejected before they are logged, or omitted
//! where nothing depends on them: a table can always be flushed.

use bytes::Bytes;
use cassette_rows::{
    Bound, Clustering, ColumnId, ColumnKind, ColumnMetadata, DataType, DecoratedKey, DeletionTime,
    LivenessInfo, PartitionUpdate, RangeTombstone, RowBuilder, TableParams,
};
use uuid::Uuid;

use super::*;
use crate::EngineError;

/// `k blob, c1 blob, c2 blob, v blob`
fn table() -> Arc<TableMetadata> {
    let columns = vec![
        ColumnMetadata::new("k", ColumnKind::PartitionKey, 0, DataType::Blob),
        ColumnMetadata::new("c1", ColumnKind::Clustering, 0, DataType::Blob),
        ColumnMetadata::new("c2", ColumnKind::Clustering, 1, DataType::Blob),
        ColumnMetadata::new("v", ColumnKind::Regular, 0, DataType::Blob),
    ];
    let id = TableId(Uuid::from_u128(77));
    Arc::new(TableMetadata::new(id, "ks", "t", columns, TableParams::default()))
}

fn row(key: usize, c1: usize, c2: usize) -> PartitionUpdate {
    let mut row = RowBuilder::new(Clustering::of(&[&vec![1; c1], &vec![2; c2]]));
    row.liveness(LivenessInfo::new(1)).live_cell(ColumnId(0), b"v", 1);
    let mut update = PartitionUpdate::new(DecoratedKey::new(Bytes::from(vec![7; key])));
    update.rows.push(row.finish());
    update
}

#[test]
fn a_key_or_a_clustering_value_of_more_than_65535_bytes_is_refused_and_the_longest_ones_are_flushed() {
    let table = table();
    let mut world = World::new(vec![table.clone()]);
    world.options.commitlog_segment_size = 1 << 20;
    world.options.commitlog_total_space = 8 << 20;
    let engine = world.open().unwrap();
    for (key, c1, c2) in [(65_536, 1, 1), (1, 65_536, 1), (1, 1, 65_536)] {
        let refused = engine.apply(&[mutation(&table, row(key, c1, c2))]);
        let Err(EngineError::KeyTooLong { length: 65_536, .. }) = refused else { panic!("{refused:?}") };
        let batch = [mutation(&table, row(1, 1, 1)), mutation(&table, row(key, c1, c2))];
        assert!(matches!(engine.apply(&batch), Err(EngineError::KeyTooLong { .. })));
    }
    assert_eq!(world.seen(&engine, table.id, &Selection::all()), []);
    for (key, c1, c2) in [(65_535, 1, 1), (1, 65_535, 65_535)] {
        engine.apply(&[mutation(&table, row(key, c1, c2))]).unwrap();
    }
    let seen = world.seen(&engine, table.id, &Selection::all());
    engine.flush(None).unwrap();
    assert_eq!(world.seen(&engine, table.id, &Selection::all()), seen);
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_range_deletion_whose_bounds_are_longer_than_any_row_is_flushed_and_deletes() {
    let table = table();
    let mut world = World::new(vec![table.clone()]);
    world.options.commitlog_segment_size = 1 << 20;
    world.options.commitlog_total_space = 8 << 20;
    let engine = world.open().unwrap();
    engine.apply(&[mutation(&table, row(1, 5, 5))]).unwrap();
    let mut update = PartitionUpdate::new(DecoratedKey::new(Bytes::from(vec![7])));
    let start = Bound::before(Clustering::of(&[&[1; 2]]));
    let end = Bound::after(Clustering::of(&[&[1; 70_000], &[1; 70_000]]));
    let deletion = DeletionTime::new(5, world.now());
    update.range_tombstones.add(RangeTombstone { start, end, deletion }, &table.comparator);
    engine.apply(&[mutation(&table, update)]).unwrap();
    for _ in 0..2 {
        assert_eq!(world.seen(&engine, table.id, &Selection::all()), []);
        engine.flush(None).unwrap();
    }
    assert!(engine.verify(table.id, false).unwrap().iter().all(|sstable| sstable.result.is_ok()));
    engine.compact(table.id).unwrap();
    assert_eq!(world.seen(&engine, table.id, &Selection::all()), []);
}
