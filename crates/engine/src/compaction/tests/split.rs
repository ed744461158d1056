//! SSTables split into smaller ones.

use cassette_rows::Selection;
use cassette_vfs::FileSystem as _;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::strategies::{flush, strategy, world_of};
use super::{delete, partitions, put};
use crate::EngineError;
use crate::engine_tests::testing::insert;

#[test]
fn large_sstables_are_split_and_keep_their_rows_and_tombstones() {
    let (world, table) = world_of(strategy("SizeTiered", &[]));
    let engine = world.open().unwrap();
    flush(&engine, &table, 0..20, 1);
    for k in 100..120 {
        put(&engine, &table, delete(k, 1, 1));
    }
    engine.flush(None).unwrap();
    // Without grace, a compaction would drop the tombstones.
    world.pass(100);
    let seen = world.seen(&engine, table.id, &Selection::all());
    let sstables = engine.sstables(table.id).unwrap();
    let ids: Vec<_> = sstables.iter().map(|sstable| sstable.id).collect();
    let split = engine.split(table.id, &ids, 500_000, Some("CREATE TABLE")).unwrap();
    assert_eq!(split.len(), 2);
    let (large, small): (Vec<_>, Vec<_>) = split.iter().partition(|sstable| !sstable.outputs.is_empty());
    assert!((3..=5).contains(&large[0].outputs.len()), "{split:?}");
    assert_eq!((large.len(), small.len(), &small[0].snapshot), (1, 1, &None));
    assert!(large[0].snapshot.as_ref().unwrap().starts_with("pre-split-"));
    let snapshots = engine.snapshots().unwrap();
    assert_eq!(snapshots.len(), 1);
    assert!(world.fs.metadata(&snapshots[0].directory.join(large[0].path.file_name().unwrap())).is_ok());

    assert_eq!(world.sstables(&table), large[0].outputs.len() + 1);
    assert_eq!(partitions(&engine, &table), 40);
    assert_eq!(world.seen(&engine, table.id, &Selection::all()), seen);
    assert!(engine.verify(table.id, false).unwrap().iter().all(|sstable| sstable.result.is_ok()));
    let again = engine.split(table.id, &large[0].outputs, 700_000, Some("CREATE TABLE")).unwrap();
    assert!(again.iter().all(|sstable| sstable.outputs.is_empty()), "{again:?}");
    let unknown = engine.split(table.id, &ids, 500_000, None);
    assert!(matches!(unknown, Err(EngineError::UnknownSSTable { .. })), "{unknown:?}");
    assert_eq!(engine.snapshots().unwrap().len(), 1);
    drop(engine);
    assert_eq!(world.seen(&world.open().unwrap(), table.id, &Selection::all()), seen);
}

#[test]
fn a_split_purges_no_tombstones() {
    let (world, table) = world_of(strategy("SizeTiered", &[]));
    let engine = world.open().unwrap();
    let mut value = vec![0; 100_000];
    SmallRng::seed_from_u64(1).fill_bytes(&mut value);
    for k in 0..40 {
        put(&engine, &table, insert(k, &value, 1));
        put(&engine, &table, delete(100 + k, 1, 1));
    }
    engine.flush(None).unwrap();
    world.pass(100);
    let ids: Vec<_> = engine.sstables(table.id).unwrap().iter().map(|sstable| sstable.id).collect();
    let split = engine.split(table.id, &ids, 1_000_000, None).unwrap();
    assert!(split[0].outputs.len() > 1 && split[0].snapshot.is_none(), "{split:?}");
    assert_eq!(partitions(&engine, &table), 80);
    engine.compact(table.id).unwrap();
    assert_eq!(partitions(&engine, &table), 40);
}
