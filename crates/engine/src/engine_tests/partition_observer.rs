//! Flushes and compactions report the partitions that they write.

use std::sync::Arc;

use cassette_rows::{DeletionTime, PartitionUpdate, TableParams};
use parking_lot::Mutex;

use super::{World, mutation};
use crate::engine_tests::testing::{insert, key, simple_table};
use crate::{PartitionObserver, PartitionSize, WrittenPartition};

/// Records keys and sizes of partitions with more bytes than a limit.
#[derive(Debug)]
struct Noting {
    more_than: u64,
    noted: Mutex<Vec<(Vec<u8>, PartitionSize, String)>>,
}

impl PartitionObserver for Noting {
    fn wants(&self, size: PartitionSize) -> bool {
        size.bytes > self.more_than
    }

    fn written(&self, partition: WrittenPartition<'_>) {
        assert_eq!(partition.table.name, "t");
        let file = partition.path.file_name().unwrap().to_string_lossy().into_owned();
        self.noted.lock().push((partition.key.key().to_vec(), partition.size, file));
    }
}

#[test]
fn an_observer_receives_the_large_partitions_of_flushes_and_compactions() {
    let table = simple_table("t", TableParams::default());
    let mut world = World::new(vec![table.clone()]);
    let observer = Arc::new(Noting { more_than: 100, noted: Mutex::default() });
    world.options.partition_observer = Some(observer.clone());
    let engine = world.open().unwrap();
    for k in 0..4 {
        let value = vec![b'x'; if k == 2 { 500 } else { 5 }];
        engine.apply(&[mutation(&table, insert(k, &value, 1))]).unwrap();
    }
    engine.flush(Some(table.id)).unwrap();
    let noted = std::mem::take(&mut *observer.noted.lock());
    let [(noted_key, size, file)] = &noted[..] else { panic!("{noted:?}") };
    assert_eq!(noted_key, key(2).key());
    assert!((500..600).contains(&size.bytes) && size.tombstones == 0, "{size:?}");
    assert!(file.ends_with("-Data.db"), "{file}");

    let deletion = DeletionTime { timestamp: 2, local_deletion_time: world.now() };
    let mut update = PartitionUpdate::new(key(2));
    update.deletion = deletion;
    engine.apply(&[mutation(&table, update)]).unwrap();
    engine.apply(&[mutation(&table, insert(2, &[b'y'; 700], 3))]).unwrap();
    engine.flush(Some(table.id)).unwrap();
    engine.compact(table.id).unwrap();
    let noted = std::mem::take(&mut *observer.noted.lock());
    assert_eq!(noted.len(), 2, "one of the flush, one of the compaction: {noted:?}");
    for (noted_key, size, _) in &noted {
        assert_eq!(noted_key, key(2).key());
        assert!((700..800).contains(&size.bytes) && size.tombstones == 1, "{size:?}");
    }
}
