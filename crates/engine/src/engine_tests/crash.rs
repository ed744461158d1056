//! Crashes at random operations: acknowledged writes survive, and batches are atomic.

use std::collections::BTreeSet;

use cassette_rows::TableParams;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::OverlappingTombstones;
use crate::cdc::remove_captured;
use crate::engine_tests::testing::{self, Updates, merged, seeds};
use crate::log::commitlog::{Position, encryption};

struct Run {
    world: World,
    generators: Vec<Updates>,
    /// Acknowledged updates, by table.
    written: Vec<Vec<PartitionUpdate>>,
    /// Whether the changes of the first table are captured.
    captures: bool,
    /// Changes that a consumer has processed, and those that were attempted, as text.
    processed: BTreeSet<String>,
    processed_upto: Position,
    attempted: BTreeSet<String>,
    random: SmallRng,
}

type Batch = Vec<(usize, PartitionUpdate)>;

impl Run {
    fn new(seed: u64) -> Self {
        let all = testing::strategies();
        let compaction = |number: u64| all[(number % all.len() as u64) as usize].clone();
        let params = |number| TableParams { compaction: compaction(number), ..TableParams::default() };
        let captures = seed.is_multiple_of(2);
        let captured = TableParams { cdc: captures, ..params(seed) };
        let tables = vec![testing::table_with("a", captured), testing::table_with("b", params(seed / 6))];
        let generator = |table: &Arc<TableMetadata>| Updates { keys: 20, ..Updates::of(table.clone()) };
        let mut world = World::new(tables.clone());
        world.options.memtable_heap_space = 30_000;
        world.options.commitlog_segment_size = 8 << 10;
        world.options.cdc.enabled = captures;
        world.options.cdc.total_space = Some(1 << 30);
        world.options.commitlog_encryption = seed.is_multiple_of(3).then(|| encryption("a"));
        Self {
            generators: tables.iter().map(generator).collect(),
            written: vec![Vec::new(), Vec::new()],
            captures,
            processed: BTreeSet::new(),
            processed_upto: Position::ZERO,
            attempted: BTreeSet::new(),
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
                    let captured = batch.iter().filter(|(table, _)| *table == 0);
                    self.attempted.extend(captured.map(|(_, update)| format!("{update:?}")));
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

    /// The stream of changes has every acknowledged change of the first table that was not
    /// processed before, and none that was never made. A consumer may process a part.
    fn check_stream(&mut self, engine: &Engine, what: &str) {
        if !self.captures {
            return;
        }
        let mut stream = engine.change_stream(self.processed_upto);
        let (mut found, mut last) = (self.processed.clone(), self.processed_upto);
        let processes = self.random.random_range(0..3) == 0;
        while let Some(record) = stream.next_record().unwrap_or_else(|error| panic!("{what}: {error}")) {
            assert!(record.position > last, "{what}: {} is out of order", record.position);
            last = record.position;
            found.extend(record.changes.iter().map(|change| format!("{:?}", change.update)));
            if processes && self.random.random_range(0..10) == 0 {
                break;
            }
        }
        if processes {
            let directory = Path::new("db/cdc_raw");
            remove_captured(&self.world.fs, directory, last)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            self.processed = found;
            self.processed_upto = last;
            return;
        }
        let point = engine.sync_captured().unwrap_or_else(|error| panic!("{what}: {error}"));
        while stream.next_record().unwrap_or_else(|error| panic!("{what}: {error}")).is_some() {}
        let (consumed, captured) = (stream.consumed(), point.map_or(Position::ZERO, |point| point.captured));
        assert!(consumed >= captured, "{what}: read up to {consumed}, and {captured} is captured");
        assert!(found.is_subset(&self.attempted), "{what}: a change that was never made");
        for update in &self.written[0] {
            assert!(found.contains(&format!("{update:?}")), "{what}: a change is missing: {update:?}");
        }
    }

    /// Reads return the acknowledged writes, and all of the batch in doubt or nothing of it.
    fn check(&mut self, engine: &Engine, in_doubt: Option<Batch>, what: &str) {
        self.check_rows(engine, in_doubt, what);
        self.check_stream(engine, what);
    }

    fn check_rows(&mut self, engine: &Engine, in_doubt: Option<Batch>, what: &str) {
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
