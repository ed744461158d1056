//! Writes that wait for admission: deadlines, cancellation, and their order.

use std::sync::atomic::{AtomicU64, Ordering};

use cassette_rows::Interrupted;
use cassette_rows::interrupt::{self, Cancellation, MonotonicClock};
use cassette_rows::owner::{Owner, on_behalf_of};
use cassette_vfs::OperationKind;
use parking_lot::Mutex;

use super::*;
use crate::engine_tests::testing::{insert, simple_table};
use crate::{Durability, EngineError, WritePermit};

/// Advances by a millisecond whenever it is read.
#[derive(Default)]
struct Ticking(AtomicU64);

impl MonotonicClock for Ticking {
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Runs `work` with a deadline that passes while it waits, not before.
pub fn with_short_deadline<T>(work: impl FnOnce() -> T) -> T {
    let clock: Arc<dyn MonotonicClock> = Arc::new(Ticking::default());
    interrupt::with_deadline(&clock, Duration::from_millis(10), work)
}

fn world(tables: Vec<Arc<TableMetadata>>) -> World {
    let mut world = World::new(tables);
    world.options.background_threads = true;
    world.options.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    world.options.commitlog_segment_size = 2 << 20;
    world.options.memtable_heap_space = 16 << 20;
    world
}

fn admit<'e>(engine: &'e Engine, mutations: &[Mutation], permit: Option<WritePermit<'e>>) -> WritePermit<'e> {
    let admitted = engine.try_admit(mutations, permit);
    admitted.unwrap_or_else(|demand| engine.admit(&demand).unwrap())
}

fn interrupted(result: Result<()>) -> Interrupted {
    match result {
        Err(EngineError::Interrupted(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_write_that_waits_for_admission_ends_at_its_deadline_with_nothing_written() {
    let table = simple_table("t", Default::default());
    let world = world(vec![table.clone()]);
    let engine = world.open().unwrap();
    let large = |k: i32| [mutation(&table, insert(k, &vec![7; 300 << 10], 1))];
    let both = |k: i32| [large(k), large(k + 1)].concat();
    let other = on_behalf_of(Owner(1), || {
        engine.try_admit(&[mutation(&table, insert(0, &vec![7; 9 << 20], 1))], None).unwrap()
    });
    let end_of_log = || engine.stats().commit_log.unwrap().end;
    let logged = end_of_log();

    assert_eq!(with_short_deadline(|| interrupted(engine.apply(&large(1)))), Interrupted::TimedOut);
    assert_eq!(with_short_deadline(|| interrupted(engine.apply(&both(2)))), Interrupted::TimedOut);
    let gone = Cancellation::new();
    gone.cancel(Interrupted::ClientGone);
    let cancelled = interrupt::cancellable(&gone, || interrupted(engine.apply(&large(4))));
    assert_eq!(cancelled, Interrupted::ClientGone);
    assert_eq!(end_of_log(), logged);
    assert_eq!(world.seen(&engine, table.id, &Selection::all()), []);

    // Writes that gave up have left the queue, in which they were first.
    std::thread::scope(|scope| {
        let before = engine.metrics().writes_stalled.get();
        let waiting = scope.spawn(|| on_behalf_of(Owner(2), || engine.apply(&large(5))));
        while engine.metrics().writes_stalled.get() == before && !waiting.is_finished() {
            std::thread::yield_now();
        }
        drop(other);
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(world.seen(&engine, table.id, &Selection::all()).len(), 1);
    drop(engine);
    let engine = world.open().unwrap();
    assert_eq!(world.seen(&engine, table.id, &Selection::all()).len(), 1);
}

#[test]
fn a_write_that_has_been_admitted_is_not_interrupted() {
    let table = simple_table("t", Default::default());
    let world = world(vec![table.clone()]);
    let engine = world.open().unwrap();
    let large = [mutation(&table, insert(1, &vec![7; 300 << 10], 1))];
    let permit = admit(&engine, &large, None);
    let clock: Arc<dyn MonotonicClock> = Arc::new(Ticking::default());
    interrupt::with_deadline(&clock, Duration::ZERO, || {
        engine.apply_admitted(&large, Durability::Configured, permit).unwrap();
    });
    assert_eq!(world.seen(&engine, table.id, &Selection::all()).len(), 1);
}

#[test]
fn a_permit_covers_a_write_that_has_grown_and_is_returned_once() {
    let table = simple_table("t", Default::default());
    let world = world(vec![table.clone()]);
    let engine = world.open().unwrap();
    let of = |bytes: usize| [mutation(&table, insert(1, &vec![7; bytes], 1))];
    let small = admit(&engine, &of(100), None);
    let large = admit(&engine, &of(300 << 10), Some(small));
    let grown = engine.try_admit(&of(9 << 20), Some(large)).unwrap();
    engine.apply_admitted(&of(9 << 20), Durability::Configured, grown).unwrap();
    // Alone again, it may have any size.
    let alone = engine.try_admit(&of(9 << 20), None).unwrap();
    let demand = engine.try_admit(&of(300 << 10), None).err().unwrap();
    drop(alone);
    drop(engine.admit(&demand).unwrap());
}

#[test]
fn a_flush_that_ends_because_its_table_is_dropped_is_no_failure() {
    let tables = ["a", "b"].map(|name| simple_table(name, Default::default()));
    let [a, b] = &tables;
    let mut world = World::new(tables.to_vec());
    world.options.memtable_heap_space = 1 << 20;
    let engine = world.open().unwrap();
    let dropping = Arc::new(Mutex::new(None));
    world.fs.fail_when({
        let (engine, id, dropping) = (engine.clone(), a.id, dropping.clone());
        move |operation| {
            let is_flush = operation.kind == OperationKind::Create && dropping.lock().is_none();
            if is_flush && operation.path.to_string_lossy().ends_with("-Data.db") {
                let dropper = engine.clone();
                *dropping.lock() = Some(std::thread::spawn(move || dropper.drop_tables(&[id])));
                // The table is closed before the first operation on files.
                while engine.tables().iter().any(|(table, _)| *table == id) {
                    std::thread::yield_now();
                }
            }
            None
        }
    });
    // A flush begins within these.
    for k in 0..1000 {
        if dropping.lock().is_none() {
            engine.apply(&[mutation(a, insert(k, &[7; 2000], 1))]).unwrap();
        }
    }
    world.fs.heal();
    let dropped = dropping.lock().take().expect("the table was flushed");
    engine.apply(&[mutation(b, insert(1, b"value", 1))]).unwrap();
    dropped.join().unwrap().unwrap();
    assert_eq!((engine.metrics().flushes.get(), engine.metrics().exceptions.get()), (0, 0));
    assert_eq!(world.seen(&engine, b.id, &Selection::all()).len(), 1);
}
