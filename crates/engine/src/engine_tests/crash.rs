//! Crashes at random operations: acknowledged writes survive, and batches are atomic.

use cassette_rows::TableParams;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::OverlappingTombstones;
use crate::engine_tests::testing::{self, Updates, merged, seeds};

struct Run {
    world: World,
    generators: Vec<Updates>,
    /// Acknowledged updates, by table.
    written: Vec<Vec<PartitionUpdate>>,
    random: SmallRng,
}

type Batch = Vec<(usize, PartitionUpdate)>;

impl Run {
    fn new(seed: u64) -> Self {
        let all = testing::strategies();
        let compaction = |number: u64| all[(number % all.len() as u64) as usize].clone();
        let params = |number| TableParams { compaction: compaction(number), ..TableParams::default() };
        let tables = vec![testing::table_with("a", params(seed)), testing::table_with("b", params(seed / 6))];
        let generator = |table: &Arc<TableMetadata>| Updates { keys: 20, ..Updates::of(table.clone()) };
        let mut world = World::new(tables.clone());
        world.options.memtable_heap_space = 30_000;
        world.options.commitlog_segment_size = 8 << 10;
        Self {
            generators: tables.iter().map(generator).collect(),
            written: vec![Vec::new(), Vec::new()],
            world,
            random: SmallRng::seed_from_u64(seed),
        }
    }

    fn batch(&mut self) -> Batch {
        let count = self.random.random_range(1..6);
        let update = |random: &mut SmallRng, generators: &[Updates]| {
            let table = random.random_range(0..2);
            (table, generators[table].next(random))
        };
        let batch = (0..count).map(|_| update(&mut self.random, &self.generators));
        batch.filter(|(_, update)| !update.is_empty()).collect()
    }

    /// Works until an operation fails, or for `steps`. Returns the batch whose outcome is unknown,
    /// if there is one.
    fn work(&mut self, engine: &Engine, steps: usize) -> Option<Batch> {
        for _ in 0..steps {
            let done = match self.random.random_range(0..30) {
                0 | 1 => engine.flush(Some(self.world.tables[self.random.random_range(0..2)].id)),
                2 => engine.compact(self.world.tables[self.random.random_range(0..2)].id),
                3 => {
                    engine.run_pending_compactions();
                    Ok(())
                }
                4 => {
                    let id = self.world.tables[self.random.random_range(0..2)].id;
                    match self.random.random_range(0..2) {
                        0 => engine.garbage_collect(id, OverlappingTombstones::Cell),
                        _ => engine.upgrade_sstables(id),
                    }
                }
                _ => {
                    let batch = self.batch();
                    let mutations: Vec<_> = batch
                        .iter()
                        .map(|(table, update)| mutation(&self.world.tables[*table], update.clone()))
                        .collect();
                    match engine.apply(&mutations) {
                        Ok(()) => {
                            self.acknowledge(batch);
                            Ok(())
                        }
                        Err(_) => return Some(batch),
                    }
                }
            };
            if done.is_err() {
                return None;
            }
        }
        None
    }

    fn acknowledge(&mut self, batch: Batch) {
        for (table, update) in batch {
            self.written[table].push(update);
        }
    }

    /// Whether reads return exactly the acknowledged writes.
    fn agrees(&self, engine: &Engine) -> bool {
        (0..2).all(|table| {
            let metadata = &self.world.tables[table];
            let expected =
                visible(merged(&self.written[table], metadata, &Selection::all()), self.world.now());
            self.world.seen(engine, metadata.id, &Selection::all()) == expected
        })
    }

    /// Reads return the acknowledged writes, and all of the batch in doubt or nothing of it.
    fn check(&mut self, engine: &Engine, in_doubt: Option<Batch>, what: &str) {
        if self.agrees(engine) {
            // If the batch has no visible effect, its outcome does not matter.
            return;
        }
        let Some(batch) = in_doubt else {
            panic!("{what}: an acknowledged write is missing, or another there")
        };
        self.acknowledge(batch);
        assert!(self.agrees(engine), "{what}: neither with nor without the batch in doubt");
    }
}

fn crash_and_check(seed: u64, kill: bool) {
    let mut run = Run::new(seed);
    if kill {
        run.world.options.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    }
    for round in 0..3 {
        let what = format!("seed {seed} (SEED={seed} repeats it), round {round}");
        let engine = match run.world.open() {
            Ok(engine) => engine,
            Err(error) => panic!("{what}: {error}"),
        };
        run.check(&engine, None, &what);
        let after = run.world.fs.operations() + run.random.random_range(1..400);
        run.world.fs.fail_from(after);
        let in_doubt = run.work(&engine, 120);
        let survivor = |fs: &FakeFileSystem, random: &mut SmallRng| {
            if kill { fs.kill() } else { fs.crash(random.random()) }
        };
        run.world.fs = survivor(&run.world.fs, &mut run.random);
        drop(engine);
        if run.random.random() {
            // Crashes again during recovery.
            let after = run.world.fs.operations() + run.random.random_range(1..60);
            run.world.fs.fail_from(after);
            drop(run.world.open());
            run.world.fs = survivor(&run.world.fs, &mut run.random);
        }
        let engine = run.world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        run.check(&engine, in_doubt, &what);
        drop(engine);
    }
}

/// The number of crashes in a run of the tests; `CRASHES=10000` for a long one.
fn crashes() -> u64 {
    std::env::var("CRASHES").ok().and_then(|crashes| crashes.parse().ok()).unwrap_or(120)
}

#[test]
fn a_crash_at_any_operation_loses_no_acknowledged_write_and_halves_no_batch() {
    seeds(crashes()).for_each(|seed| crash_and_check(seed, false));
}

#[test]
fn a_killed_process_loses_no_acknowledged_write_in_periodic_mode() {
    seeds(crashes() / 4).for_each(|seed| crash_and_check(seed, true));
}
