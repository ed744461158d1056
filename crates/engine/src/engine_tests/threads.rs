//! Many threads at once, with flushes and compactions in the background.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use cassette_rows::{ColumnId, LivenessInfo, PartitionUpdate, RowBuilder, Unfiltered};
use cassette_vfs::Clock;
use parking_lot::Mutex;

use super::*;
use crate::engine_tests::testing::{self, clustering, insert, key, simple_table};

/// All rows of a partition carry the same timestamp in every read.
#[test]
fn readers_see_partitions_whole_through_flushes_and_compactions() {
    let table = testing::table();
    let mut world = World::new(vec![table.clone()]);
    world.options.background_threads = true;
    world.options.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    world.options.commitlog_segment_size = 1 << 20;
    world.options.memtable_heap_space = 2 << 20;
    let engine = world.open().unwrap();
    let v = table.column("v").unwrap().id;
    let write = |k: i32, timestamp: i64| {
        let mut update = PartitionUpdate::new(key(k));
        for c1 in 0..20 {
            let mut row = RowBuilder::new(clustering(c1, 0));
            row.liveness(LivenessInfo::new(timestamp)).live_cell(
                v,
                &(timestamp as i32).to_be_bytes(),
                timestamp,
            );
            update.rows.push(row.finish());
        }
        engine.apply(&[mutation(&table, update)]).unwrap();
    };
    (0..8).for_each(|k| write(k, 0));
    let stop = AtomicBool::new(false);
    let time = AtomicI64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let now = time.fetch_add(1, Ordering::Relaxed);
                    write((now % 8) as i32, now);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                engine.flush(None).unwrap();
                engine.compact(table.id).unwrap();
            }
        });
        for i in 0..1500 {
            let selection = Selection { reversed: i % 3 == 0, ..Selection::all() };
            let read = match i % 2 {
                0 => engine.read(table.id, &key(i % 8), &selection).unwrap(),
                _ => engine.scan(table.id, &KeyRange::ALL, &selection).unwrap(),
            };
            for partition in drain(read) {
                let timestamp = |unfiltered: &Unfiltered| match unfiltered {
                    Unfiltered::Row(row) => row.cell(v).unwrap().timestamp,
                    Unfiltered::Marker(_) => panic!("nothing was deleted"),
                };
                let first = timestamp(&partition.unfiltereds[0]);
                assert_eq!(partition.unfiltereds.len(), 20);
                assert!(partition.unfiltereds.iter().all(|row| timestamp(row) == first));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    engine.close().unwrap();
}

#[test]
fn memory_stays_bounded_while_many_write_and_nothing_is_lost() {
    let table = simple_table("t", Default::default());
    let mut world = World::new(vec![table.clone()]);
    world.options.background_threads = true;
    world.options.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    world.options.commitlog_segment_size = 1 << 20;
    world.options.memtable_heap_space = 1 << 20;
    let engine = world.open().unwrap();
    let value = [b'x'; 500];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (engine, table) = (&engine, &table);
            scope.spawn(move || {
                for i in 0..2000 {
                    engine.apply(&[mutation(table, insert(thread * 2000 + i, &value, 1))]).unwrap();
                    // A write of each thread may exceed the limit.
                    assert!(engine.stats().memtable_bytes <= (1 << 20) + 4 * 2000);
                }
            });
        }
    });
    engine.close().unwrap();
    let engine = world.open().unwrap();
    assert_eq!(world.seen(&engine, table.id, &Selection::all()).len(), 8000);
    assert!(engine.table_stats(table.id).unwrap().sstables > 0);
}

#[test]
fn conditional_writers_do_not_lose_each_others_increments() {
    let table = simple_table("t", Default::default());
    let mut world = World::new(vec![table.clone()]);
    world.options.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    let engine = world.open().unwrap();
    let clock = AtomicI64::new(1);
    let value = || {
        let read = drain(engine.read(table.id, &key(0), &Selection::all()).unwrap());
        read.first().map_or(0, |partition| match &partition.unfiltereds[0] {
            Unfiltered::Row(row) => {
                u64::from_be_bytes(row.cell(ColumnId(0)).unwrap().value.try_into().unwrap())
            }
            Unfiltered::Marker(_) => panic!("nothing was deleted"),
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let _locked = engine.lock_partition(table.id, &key(0)).unwrap();
                    let next = (value() + 1).to_be_bytes();
                    let now = clock.fetch_add(1, Ordering::Relaxed);
                    engine.apply(&[mutation(&table, insert(0, &next, now))]).unwrap();
                }
            });
        }
    });
    assert_eq!(value(), 800);
}

/// A clock that calls a function whenever a thread reads the monotonic time.
struct Interrupting {
    clock: Arc<ManualClock>,
    on_read: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

impl Clock for Interrupting {
    fn now_micros(&self) -> i64 {
        self.clock.now_micros()
    }

    fn monotonic(&self) -> Duration {
        // Removed during the call, which may read the clock, too.
        let taken = self.on_read.lock().take();
        if let Some(mut on_read) = taken {
            on_read();
            *self.on_read.lock() = Some(on_read);
        }
        self.clock.monotonic()
    }
}

#[test]
fn a_flush_in_the_middle_of_a_write_counts_the_memory_of_memtables_exactly() {
    let table = simple_table("t", Default::default());
    let world = World::new(vec![]);
    let clock = Arc::new(Interrupting { clock: world.clock.clone(), on_read: Mutex::new(None) });
    let engine = Engine::open(world.options.clone(), Arc::new(world.fs.clone()), clock.clone()).unwrap();
    let engine = Arc::new(engine);
    engine.create_table(table.clone()).unwrap();
    engine.finish_recovery().unwrap();
    // A write reads the time last after its change of the memtable, when others may flush.
    let reads = Arc::new(AtomicI64::new(0));
    let counted = reads.clone();
    *clock.on_read.lock() = Some(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    engine.apply(&[mutation(&table, insert(0, &[b'x'; 500], 1))]).unwrap();
    let flushing = engine.clone();
    *clock.on_read.lock() = Some(Box::new(move || {
        if reads.fetch_sub(1, Ordering::Relaxed) == 1 {
            flushing.flush(None).unwrap();
            assert_eq!(flushing.stats().memtable_bytes, 0);
        }
    }));
    engine.apply(&[mutation(&table, insert(1, &[b'x'; 500], 1))]).unwrap();
    *clock.on_read.lock() = None;
    assert_eq!(engine.table_stats(table.id).unwrap().sstables, 1);
    assert_eq!(engine.stats().memtable_bytes, 0);
    engine.close().unwrap();
}
