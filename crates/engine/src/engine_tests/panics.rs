//! A panic in a background thread stops the engine, or ends only work that no caller waits for; no
//! writer waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use cassette_vfs::{Clock, Operation, OperationKind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::basics::options::CacheSaving;
use crate::engine_tests::testing::{insert, key, simple_table};
use crate::{EngineError, SnapshotOptions};

const NODE: [u8; 16] = [7; 16];

/// A table, and a world of engines with threads.
fn world() -> (World, Arc<TableMetadata>) {
    let table = simple_table("t", Default::default());
    let mut world = World::new(vec![table.clone()]);
    world.options.background_threads = true;
    world.options.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    world.options.commitlog_segment_size = 1 << 20;
    world.options.commitlog_total_space = 64 << 20;
    // Flushes are large enough for a second thread that writes Data.
    world.options.memtable_heap_space = 8 << 20;
    (world, table)
}

fn is_thread(name: &str) -> bool {
    std::thread::current().name().is_some_and(|current| current.starts_with(name))
}

/// Makes the operations that `meant` selects panic in threads whose names begin with `thread`.
fn panic_when(world: &World, thread: &'static str, meant: fn(&Operation) -> bool) {
    world.fs.fail_when(move |operation| {
        assert!(!(is_thread(thread) && meant(operation)), "injected");
        None
    });
}

/// Writes a value that compression does not shorten: a flush writes to its file more than once.
fn put(engine: &Engine, table: &Arc<TableMetadata>, k: i32) -> Result<()> {
    let mut value = [0; 2000];
    SmallRng::seed_from_u64(k as u64).fill_bytes(&mut value);
    engine.apply(&[mutation(table, insert(k, &value, 1))])
}

/// Writes until a write fails, and closes.
fn write_until_refused(engine: &Engine, table: &Arc<TableMetadata>) -> EngineError {
    let error = (0..50_000).find_map(|k| put(engine, table, k).err()).expect("nothing panicked");
    // Closing returns, too, with any result.
    drop(engine.close());
    assert!(engine.metrics().exceptions.get() > 0);
    error
}

/// Writes until something fails after `meant` has made a thread panic.
fn write_until_stopped(thread: &'static str, meant: fn(&Operation) -> bool) -> EngineError {
    let (world, table) = world();
    let engine = world.open().unwrap();
    panic_when(&world, thread, meant);
    write_until_refused(&engine, &table)
}

/// Waits for the background threads.
fn wait_until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(120), "the background does nothing");
        std::thread::sleep(Duration::from_millis(1));
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

#[test]
fn a_panic_in_the_second_thread_of_a_flush_stops_the_engine_by_name() {
    let is_data = |operation: &Operation| {
        operation.kind == OperationKind::Write && operation.path.to_string_lossy().ends_with("-Data.db")
    };
    let error = write_until_stopped("data-writer", is_data).to_string();
    assert!(error.contains("thread flush-") && error.contains("panicked: injected"), "{error}");
}

#[test]
fn a_panic_in_a_flush_while_closing_is_an_error_and_the_log_is_closed() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    (0..1000).for_each(|k| put(&engine, &table, k).unwrap());
    panic_when(&world, "", is_of_table);
    let error = engine.close().unwrap_err().to_string();
    assert!(error.contains("flushing before closing has panicked"), "{error}");
    world.fs.heal();
    let engine = world.open().expect("the directory is released");
    assert_eq!(world.seen(&engine, table.id, &Selection::all()).len(), 1000);
    engine.close().unwrap();
}

#[test]
fn a_panic_in_the_second_thread_of_a_flush_by_command_leaves_the_memtable() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    (0..1000).for_each(|k| put(&engine, &table, k).unwrap());
    let mut is_first = true;
    world.fs.fail_when(move |operation| {
        let is_meant = is_thread("data-writer") && operation.kind == OperationKind::Write;
        assert!(!(is_meant && std::mem::take(&mut is_first)), "injected");
        None
    });
    assert!(catch_unwind(AssertUnwindSafe(|| engine.flush(None))).is_err());
    put(&engine, &table, 1000).unwrap();
    engine.flush(None).unwrap();
    assert_eq!(world.sstables(&table), 2, "the memtable of the first flush, and a second one");
    assert_eq!(world.seen(&engine, table.id, &Selection::all()).len(), 1001);
    engine.close().unwrap();
}

/// Passes `clock` on, but panics in the threads with these names on request.
#[derive(Debug)]
struct PanickingClock {
    clock: Arc<cassette_vfs::ManualClock>,
    thread: &'static str,
    panics: AtomicBool,
}

impl Clock for PanickingClock {
    fn now_micros(&self) -> i64 {
        self.clock.now_micros()
    }

    fn monotonic(&self) -> Duration {
        assert!(!(is_thread(self.thread) && self.panics.load(Ordering::SeqCst)), "injected");
        self.clock.monotonic()
    }
}

#[test]
fn a_panic_in_a_periodic_check_stops_the_engine_by_name() {
    for thread in ["flush-", "compaction-"] {
        let (world, table) = world();
        let clock =
            Arc::new(PanickingClock { clock: world.clock.clone(), thread, panics: AtomicBool::new(false) });
        let engine = Engine::open(world.options.clone(), Arc::new(world.fs.clone()), clock.clone()).unwrap();
        engine.create_table(table.clone()).unwrap();
        engine.finish_recovery().unwrap();
        clock.panics.store(true, Ordering::SeqCst);
        let error = write_until_refused(&engine, &table).to_string();
        assert!(error.contains(&format!("thread {thread}")) && error.contains("panicked"), "{error}");
    }
}

/// An engine whose key cache has an entry and is saved every hour.
fn open_with_cache(world: &mut World, table: &Arc<TableMetadata>) -> Engine {
    world.options.saved_caches.key = CacheSaving::every(Duration::from_secs(3600));
    let engine = world.open().unwrap();
    put(&engine, table, 1).unwrap();
    engine.flush(None).unwrap();
    drain(engine.read(table.id, &key(1), &Selection::all()).unwrap());
    engine
}

fn is_saved_cache(operation: &Operation) -> bool {
    let is_use = matches!(operation.kind, OperationKind::Create | OperationKind::Open);
    is_use && operation.path.to_string_lossy().contains("KeyCache")
}

fn has_saved_cache(world: &World) -> bool {
    (&world.fs as &dyn FileSystem).exists(Path::new("db/saved_caches/KeyCache-cassette.db")).unwrap()
}

#[test]
fn a_panic_while_caches_are_saved_ends_that_attempt_only() {
    let (mut world, table) = world();
    let engine = open_with_cache(&mut world, &table);
    panic_when(&world, "caches", is_saved_cache);
    wait_until(|| {
        world.pass(3600);
        engine.metrics().exceptions.get() > 0
    });
    put(&engine, &table, 2).unwrap();
    assert!(!has_saved_cache(&world));
    world.fs.heal();
    wait_until(|| {
        world.pass(3600);
        has_saved_cache(&world)
    });
    engine.close().unwrap();
}

#[test]
fn a_panic_while_caches_are_saved_or_loaded_keeps_nothing_from_closing_or_opening() {
    let (mut world, table) = world();
    let engine = open_with_cache(&mut world, &table);
    panic_when(&world, "", is_saved_cache);
    engine.close().unwrap();
    assert_eq!(engine.metrics().exceptions.get(), 1);
    world.fs.heal();
    drop(engine);
    open_with_cache(&mut world, &table).close().unwrap();
    assert!(has_saved_cache(&world));

    panic_when(&world, "caches", is_saved_cache);
    let engine = open_with_cache(&mut world, &table);
    engine.load_saved_caches(NODE);
    wait_until(|| engine.metrics().exceptions.get() > 0);
    put(&engine, &table, 2).unwrap();
    engine.close().unwrap();
}

#[test]
fn a_panic_while_expired_snapshots_are_removed_ends_that_attempt_only() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    put(&engine, &table, 1).unwrap();
    let options = SnapshotOptions { name: "s", skip_flush: false, ttl_seconds: Some(60) };
    engine.snapshot(&[(table.id, String::new())], &options).unwrap();
    panic_when(&world, "flush-", |operation| {
        let is_removal = matches!(operation.kind, OperationKind::RemoveFile | OperationKind::RemoveDir);
        is_removal && operation.path.to_string_lossy().contains("snapshots")
    });
    world.pass(60);
    wait_until(|| engine.metrics().exceptions.get() > 0);
    put(&engine, &table, 2).unwrap();
    assert_eq!(engine.snapshots().unwrap().len(), 1);
    world.fs.heal();
    wait_until(|| engine.snapshots().unwrap().is_empty());
    engine.close().unwrap();
}
