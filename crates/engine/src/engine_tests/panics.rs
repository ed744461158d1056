//! A panic in a background thread stops the engine by name; no writer waits for it.

use cassette_vfs::{Operation, OperationKind};

use super::*;
use crate::EngineError;
use crate::engine_tests::testing::{insert, simple_table};

/// Writes until something fails after `meant` has made a thread panic.
fn write_until_stopped(thread: &'static str, meant: fn(&Operation) -> bool) -> EngineError {
    let table = simple_table("t", Default::default());
    let mut world = World::new(vec![table.clone()]);
    world.options.background_threads = true;
    world.options.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    world.options.commitlog_segment_size = 1 << 20;
    world.options.commitlog_total_space = 64 << 20;
    world.options.memtable_heap_space = 2 << 20;
    let engine = world.open().unwrap();
    world.fs.fail_when(move |operation| {
        let is_meant = std::thread::current().name().is_some_and(|name| name.starts_with(thread));
        assert!(!(is_meant && meant(operation)), "injected");
        None
    });
    let mut keys = 0..;
    loop {
        if let Err(error) = engine.apply(&[mutation(&table, insert(keys.next().unwrap(), &[7; 2000], 1))]) {
            // Closing ends, too, whatever it answers.
            drop(engine.close());
            return error;
        }
    }
}

fn is_of_table(operation: &Operation) -> bool {
    operation.kind == OperationKind::Create && operation.path.to_string_lossy().contains("/nb-")
}

#[test]
fn a_panic_in_a_flush_stops_the_engine_by_name() {
    let error = write_until_stopped("flush-", is_of_table).to_string();
    assert!(error.contains("thread flush-") && error.contains("panicked"), "{error}");
}

#[test]
fn a_panic_in_a_compaction_stops_the_engine_by_name() {
    let error = write_until_stopped("compaction-", is_of_table).to_string();
    assert!(error.contains("thread compaction-") && error.contains("panicked"), "{error}");
}
