//! Reads by threads that must not wait for a disk.

use cassette_rows::StorageError;

use super::*;
use crate::engine_tests::testing::{insert, key, simple_table};
use crate::{EngineError, without_waiting};

/// Whether a read of a partition's rows succeeds.
fn reads(engine: &Engine, id: TableId, k: i32) -> bool {
    let would_block = |error: &StorageError| matches!(error, StorageError::WouldBlock { .. });
    let mut stream = match engine.read(id, &key(k), &Selection::all()) {
        Ok(stream) => stream,
        Err(EngineError::Storage(error)) if would_block(&error) => return false,
        Err(error) => panic!("{error}"),
    };
    let mut rows = 0;
    let mut drain = || -> cassette_rows::Result<()> {
        while stream.next_partition()?.is_some() {
            while stream.next_unfiltered()?.is_some() {
                rows += 1;
            }
        }
        Ok(())
    };
    match drain() {
        Ok(()) => {
            assert_eq!(rows, 1);
            true
        }
        Err(error) => {
            assert!(would_block(&error), "{error}");
            false
        }
    }
}

#[test]
fn a_read_that_may_not_wait_comes_from_memory_or_not_at_all() {
    let table = simple_table("t", Default::default());
    let world = World::new(vec![table.clone()]);
    let engine = world.open().unwrap();
    for k in 0..3 {
        engine.apply(&[mutation(&table, insert(k, b"v", 1))]).unwrap();
    }
    assert!(without_waiting(|| reads(&engine, table.id, 0)), "from the memtable");
    engine.flush(None).unwrap();
    assert!(!without_waiting(|| reads(&engine, table.id, 0)), "from a disk");
    assert!(reads(&engine, table.id, 0), "once it may wait");
    assert!(without_waiting(|| reads(&engine, table.id, 0)), "from the cache");
    assert!(crate::may_wait());
}
