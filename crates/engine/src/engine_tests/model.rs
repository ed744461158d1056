//! Random operations, compared with a list of all writes.

use cassette_rows::schema::{CachingParams, CompactionParams, RowsPerPartition};
use cassette_rows::{DecoratedKey, TableParams, Unfiltered};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::OverlappingTombstones;
use crate::engine_tests::testing::{self, Drained, Updates, Visible, merged, seeds};

/// One run: two tables, and the writes to each.
struct Model {
    world: World,
    generators: Vec<Updates>,
    written: Vec<Vec<PartitionUpdate>>,
    random: SmallRng,
    /// Tombstones are purged, so each write has a later timestamp than all previous ones.
    purging: bool,
    time: i64,
}

fn params(
    gc_grace_seconds: u32,
    rows_per_partition: RowsPerPartition,
    compaction: CompactionParams,
) -> TableParams {
    let caching = CachingParams { keys: true, rows_per_partition };
    TableParams { gc_grace_seconds, caching, compaction, ..TableParams::default() }
}

fn strategy(number: u64) -> CompactionParams {
    let mut all = testing::strategies();
    let count = all.len() as u64;
    all.swap_remove((number % count) as usize)
}

impl Model {
    fn new(seed: u64) -> Self {
        let purging = seed % 2 == 1;
        let gc_grace_seconds = if purging { 0 } else { 1_000_000 };
        let tables = vec![
            testing::table_with("a", params(gc_grace_seconds, RowsPerPartition::All, strategy(seed / 2))),
            testing::table_with(
                "b",
                params(gc_grace_seconds, RowsPerPartition::Head(3), strategy(seed / 2 + 3)),
            ),
        ];
        let generator = |table: &Arc<TableMetadata>| Updates { keys: 12, ..Updates::of(table.clone()) };
        let mut world = World::new(tables.clone());
        world.options.memtable_heap_space = 60_000;
        // None, one for some of the partitions, and one for all.
        world.options.row_cache_size = [0, 40_000, 10 << 20][seed as usize / 2 % 3];
        Self {
            generators: tables.iter().map(generator).collect(),
            written: vec![Vec::new(), Vec::new()],
            world,
            random: SmallRng::seed_from_u64(seed),
            purging,
            time: 0,
        }
    }

    fn batch(&mut self) -> Vec<(usize, PartitionUpdate)> {
        let count = if self.random.random_range(0..4) == 0 { self.random.random_range(2..6) } else { 1 };
        let mut batch = Vec::new();
        for _ in 0..count {
            let table = self.random.random_range(0..2);
            self.time += 1;
            let generator = &mut self.generators[table];
            if self.purging {
                generator.timestamps = self.time..self.time + 1;
            }
            let update = generator.next(&mut self.random);
            if !update.is_empty() {
                batch.push((table, update));
            }
        }
        batch
    }

    fn check(&mut self, engine: &Engine) {
        for table in 0..2 {
            let selection = self.generators[table].selection(&mut self.random);
            let metadata = self.world.tables[table].clone();
            let expected = visible(merged(&self.written[table], &metadata, &selection), self.world.now());
            let seen = self.world.seen(engine, metadata.id, &selection);
            assert_eq!(seen, expected, "a scan under {selection:?}");
            let k = testing::key(self.random.random_range(0..12));
            let seen = visible(drain(engine.read(metadata.id, &k, &selection).unwrap()), self.world.now());
            let expected: Vec<_> = expected.into_iter().filter(|partition| partition.key == k).collect();
            assert_eq!(seen, expected, "a read under {selection:?}");
            self.check_first(engine, table, &k);
            let all = visible(merged(&self.written[table], &metadata, &selection), self.world.now());
            self.check_pages(engine, table, &k, &selection, all);
        }
    }

    /// The partitions of `all` after `k`, read by scans that end after some of them, each from
    /// where the previous one ended.
    fn check_pages(
        &mut self,
        engine: &Engine,
        table: usize,
        k: &DecoratedKey,
        selection: &Selection,
        all: Vec<Visible>,
    ) {
        let (id, now) = (self.world.tables[table].id, self.world.now());
        let mut seen = Vec::new();
        let mut range = KeyRange::ALL.after(k.clone());
        loop {
            let partitions = self.random.random_range(1..5);
            let mut page = Vec::new();
            let mut stream = engine.scan(id, &range, selection).unwrap();
            while page.len() < partitions
                && let Some(header) = stream.next_partition().unwrap()
            {
                let mut unfiltereds = Vec::new();
                while let Some(next) = stream.next_unfiltered().unwrap() {
                    unfiltereds.push(next);
                }
                page.push(Drained { header, unfiltereds });
            }
            let Some(last) = page.last() else { break };
            range = range.after(last.header.key.clone());
            seen.extend(visible(page, now));
        }
        let expected: Vec<_> = all.into_iter().filter(|partition| partition.key > *k).collect();
        assert_eq!(seen, expected, "pages after a key under {selection:?}");
    }

    /// Another strategy takes over the existing SSTables.
    fn alter(&mut self, engine: &Engine) {
        let table = self.random.random_range(0..2);
        let old = &self.world.tables[table];
        let compaction = strategy(self.random.random_range(0..100));
        let new = Arc::new(old.with_params(TableParams { compaction, ..old.params.clone() }));
        engine.alter_table(new.clone()).unwrap();
        self.generators[table].table = new.clone();
        self.world.tables[table] = new;
    }

    fn command(&mut self, engine: &Engine) {
        let id = self.world.tables[self.random.random_range(0..2)].id;
        match self.random.random_range(0..4) {
            0 => engine.garbage_collect(id, OverlappingTombstones::Row).unwrap(),
            1 => engine.garbage_collect(id, OverlappingTombstones::Cell).unwrap(),
            2 => engine.upgrade_sstables(id).unwrap(),
            _ => engine.compact_split(id).unwrap(),
        }
    }

    /// The first rows of a partition, read by a caller that needs no more.
    fn check_first(&mut self, engine: &Engine, table: usize, k: &DecoratedKey) {
        let metadata = &self.world.tables[table];
        let wanted = self.random.random_range(1..6);
        let now = self.world.now();
        let all = visible(merged(&self.written[table], metadata, &Selection::all()), now);
        let expected: Vec<_> =
            all.into_iter().filter(|p| p.key == *k).flat_map(|p| p.rows).take(wanted).collect();
        let mut stream = engine.read_first(metadata.id, k, &Selection::all(), Some(wanted as u32)).unwrap();
        if let Some(header) = stream.next_partition().unwrap() {
            let (mut live, mut unfiltereds) = (0, Vec::new());
            while live < wanted
                && let Some(next) = stream.next_unfiltered().unwrap()
            {
                live += usize::from(matches!(&next, Unfiltered::Row(row) if row.is_live(now)));
                unfiltereds.push(next);
            }
            let seen = visible(vec![Drained { header, unfiltereds }], now);
            let seen: Vec<_> = seen.into_iter().flat_map(|partition| partition.rows).collect();
            assert_eq!(seen, expected, "the first {wanted} rows");
        } else {
            assert!(expected.is_empty());
        }
    }

    fn step(&mut self, engine: &mut Engine) {
        match self.random.random_range(0..40) {
            0 => engine.flush(None).unwrap(),
            1 | 2 => {
                let table = self.random.random_range(0..2);
                engine.flush(Some(self.world.tables[table].id)).unwrap();
            }
            3 => engine.compact(self.world.tables[self.random.random_range(0..2)].id).unwrap(),
            4 | 5 => engine.run_pending_compactions(),
            6 => {
                engine.close().unwrap();
                *engine = self.world.open().unwrap();
            }
            7 => {
                self.world.fs = self.world.fs.crash(self.random.random());
                *engine = self.world.open().unwrap();
            }
            8 => self.world.pass(1),
            9 if self.random.random_range(0..4) == 0 => {
                let table = self.random.random_range(0..2);
                engine.truncate(self.world.tables[table].id).unwrap();
                self.written[table].clear();
            }
            9 => self.alter(engine),
            10..=14 => self.check(engine),
            15 => self.command(engine),
            _ => {
                let batch = self.batch();
                let mutations: Vec<_> = batch
                    .iter()
                    .map(|(table, update)| mutation(&self.world.tables[*table], update.clone()))
                    .collect();
                engine.apply(&mutations).unwrap();
                for (table, update) in batch {
                    self.written[table].push(update);
                }
            }
        }
    }
}

#[test]
fn an_engine_shows_what_was_written_through_flushes_compactions_crashes_and_truncations() {
    for seed in seeds(36) {
        let run = std::panic::catch_unwind(|| {
            let mut model = Model::new(seed);
            let mut engine = model.world.open().unwrap();
            for _ in 0..300 {
                model.step(&mut engine);
            }
            model.check(&engine);
        });
        assert!(run.is_ok(), "seed {seed}: SEED={seed} repeats it");
    }
}
