//! Caches that survive the engine, and compactions.

use cassette_rows::TableParams;
use cassette_rows::schema::{CachingParams, RowsPerPartition};
use cassette_vfs::OperationKind;

use super::*;
use crate::basics::options::CacheSaving;
use crate::engine_tests::testing::{insert, key, simple_table};
use crate::{CacheKind, CacheStats};

const KEYS: i32 = 20;
const NODE: [u8; 16] = [7; 16];

fn table(name: &str, rows_per_partition: RowsPerPartition) -> Arc<TableMetadata> {
    let caching = CachingParams { keys: true, rows_per_partition };
    simple_table(name, TableParams { caching, ..TableParams::default() })
}

/// Key and row cache saved every hour.
fn world(tables: Vec<Arc<TableMetadata>>) -> World {
    let mut world = World::new(tables);
    world.options.row_cache_size = 1 << 20;
    world.options.saved_caches.key = CacheSaving::every(Duration::from_secs(3600));
    world.options.saved_caches.row = CacheSaving::every(Duration::from_secs(3600));
    world
}

fn open(world: &World) -> Engine {
    let engine = world.open().unwrap();
    engine.load_saved_caches(NODE);
    engine
}

fn fill(engine: &Engine, table: &Arc<TableMetadata>, value: &[u8], timestamp: i64) {
    for k in 0..KEYS {
        engine.apply(&[mutation(table, insert(k, value, timestamp))]).unwrap();
    }
    engine.flush(Some(table.id)).unwrap();
}

fn read_one(engine: &Engine, world: &World, table: &TableMetadata, k: i32) -> Vec<Vec<u8>> {
    let read = visible(drain(engine.read(table.id, &key(k), &Selection::all()).unwrap()), world.now());
    let rows = read.into_iter().flat_map(|partition| partition.rows);
    rows.flat_map(|row| row.cells).map(|cell| cell.value).collect()
}

fn read_all(engine: &Engine, world: &World, table: &TableMetadata) -> Vec<Vec<u8>> {
    (0..KEYS).flat_map(|k| read_one(engine, world, table, k)).collect()
}

fn hits(stats: CacheStats) -> (u64, u64) {
    (stats.hits, stats.misses)
}

fn file(kind: CacheKind) -> std::path::PathBuf {
    Path::new("db/saved_caches").join(format!("{}-cassette.db", kind.name()))
}

fn exists(world: &World, kind: CacheKind) -> bool {
    (&world.fs as &dyn FileSystem).exists(&file(kind)).unwrap()
}

#[test]
fn after_a_restart_the_key_cache_knows_where_partitions_are() {
    let table = table("t", RowsPerPartition::None);
    let world = world(vec![table.clone()]);
    let engine = open(&world);
    fill(&engine, &table, b"v", 1);
    read_all(&engine, &world, &table);
    assert_eq!(hits(engine.stats().key_cache), (0, KEYS as u64));
    engine.close().unwrap();
    let engine = open(&world);
    assert_eq!(read_all(&engine, &world, &table).len(), KEYS as usize);
    assert_eq!(hits(engine.stats().key_cache), (KEYS as u64, 0));
}

#[test]
fn a_period_of_zero_saves_nothing_and_keys_to_save_bounds_what_is_saved() {
    let table = table("t", RowsPerPartition::All);
    let mut world = world(vec![table.clone()]);
    world.options.saved_caches.row.period = Duration::ZERO;
    world.options.saved_caches.key.keys_to_save = 5;
    let engine = open(&world);
    fill(&engine, &table, b"v", 1);
    read_all(&engine, &world, &table);
    // The row cache has them from here on: the key cache is used again only for those that it
    // evicts.
    engine.invalidate_row_cache();
    for k in 3..8 {
        engine.read(table.id, &key(k), &Selection::all()).unwrap();
    }
    engine.close().unwrap();
    assert_eq!((exists(&world, CacheKind::Row), exists(&world, CacheKind::Key)), (false, true));
    let engine = open(&world);
    assert_eq!(engine.stats().key_cache.entries, 5);
    for k in 3..8 {
        engine.read(table.id, &key(k), &Selection::all()).unwrap();
    }
    assert_eq!(hits(engine.stats().key_cache), (5, 0), "those asked for most were saved");
    engine.set_cache_keys_to_save(CacheKind::Key, 2);
    engine.close().unwrap();
    assert_eq!(open(&world).stats().key_cache.entries, 2);
}

#[test]
fn what_is_not_loaded_in_time_is_not_loaded() {
    let table = table("t", RowsPerPartition::None);
    let mut world = world(vec![table.clone()]);
    let engine = open(&world);
    fill(&engine, &table, b"v", 1);
    read_all(&engine, &world, &table);
    engine.close().unwrap();
    world.options.saved_caches.load_timeout = Duration::ZERO;
    assert_eq!(open(&world).stats().key_cache.entries, 0);
    world.options.saved_caches.load_timeout = Duration::from_secs(30);
    assert_eq!(open(&world).stats().key_cache.entries, KEYS as usize);
}

#[test]
fn caches_are_saved_when_their_period_is_over_and_emptied_ones_leave_no_file() {
    let table = table("t", RowsPerPartition::All);
    let mut world = world(vec![table.clone()]);
    world.options.saved_caches.directory = Some("db/elsewhere".into());
    let engine = open(&world);
    fill(&engine, &table, b"v", 1);
    read_all(&engine, &world, &table);
    let exists = |kind: CacheKind| {
        let path = Path::new("db/elsewhere").join(format!("{}-cassette.db", kind.name()));
        (&world.fs as &dyn FileSystem).exists(&path).unwrap()
    };
    engine.save_caches_when_due();
    assert!(!exists(CacheKind::Row));
    world.clock.advance(Duration::from_secs(3600));
    engine.save_caches_when_due();
    assert!(exists(CacheKind::Row) && exists(CacheKind::Key));
    engine.invalidate_row_cache();
    world.clock.advance(Duration::from_secs(3599));
    engine.save_caches_when_due();
    assert!(exists(CacheKind::Row));
    world.clock.advance(Duration::from_secs(1));
    engine.save_caches_when_due();
    assert!(!exists(CacheKind::Row) && exists(CacheKind::Key));
    // A crash loses nothing that was saved.
    let world =
        World { fs: world.fs.crash(3), clock: world.clock, options: world.options, tables: world.tables };
    assert_eq!(open(&world).stats().key_cache.entries, KEYS as usize);
}

#[test]
fn the_row_cache_reads_again_what_its_keys_lead_to() {
    let (kept, dropped) = (table("kept", RowsPerPartition::All), table("dropped", RowsPerPartition::All));
    let mut world = world(vec![kept.clone(), dropped.clone()]);
    let engine = open(&world);
    fill(&engine, &kept, b"old", 1);
    fill(&engine, &dropped, b"old", 1);
    read_all(&engine, &world, &kept);
    read_all(&engine, &world, &dropped);
    engine.save_caches();
    fill(&engine, &kept, b"new", 2);
    engine.drop_table(dropped.id).unwrap();
    drop(engine);
    world.tables.pop();
    let engine = open(&world);
    let stats = engine.stats().row_cache;
    assert_eq!((stats.entries, hits(stats)), (KEYS as usize, (0, 0)), "loading is no request");
    assert_eq!(read_all(&engine, &world, &kept), vec![b"new"; KEYS as usize]);
    assert_eq!(hits(engine.stats().row_cache), (KEYS as u64, 0));
}

#[test]
fn rows_are_loaded_as_far_as_there_is_room_and_only_for_tables_that_want_it() {
    let table = table("t", RowsPerPartition::All);
    let mut world = world(vec![table.clone()]);
    let engine = open(&world);
    fill(&engine, &table, &[b'v'; 3000], 1);
    read_all(&engine, &world, &table);
    engine.close().unwrap();
    world.options.row_cache_size = 0;
    assert_eq!(open(&world).stats().row_cache.entries, 0);
    world.options.row_cache_size = 1 << 20;
    world.tables = vec![self::table("t", RowsPerPartition::None)];
    assert_eq!(open(&world).stats().row_cache.entries, 0);
}

#[test]
fn a_damaged_or_foreign_file_is_an_empty_cache() {
    let table = table("t", RowsPerPartition::All);
    let world = world(vec![table.clone()]);
    let engine = open(&world);
    fill(&engine, &table, b"v", 1);
    read_all(&engine, &world, &table);
    engine.close().unwrap();
    let fs: &dyn FileSystem = &world.fs;
    let good: Vec<_> = [CacheKind::Key, CacheKind::Row].map(|kind| fs.read(&file(kind)).unwrap()).into();
    for damage in [
        (|_: &[u8]| b"what Cassandra or anybody else has written".to_vec()) as fn(&[u8]) -> Vec<u8>,
        |_| Vec::new(),
        |good| good[..good.len() - 1].to_vec(),
        |good| good.iter().enumerate().map(|(at, byte)| if at == 30 { !byte } else { *byte }).collect(),
        |good| [&good[..13], &[0xff; 8][..]].concat(),
    ] {
        for (kind, good) in [CacheKind::Key, CacheKind::Row].into_iter().zip(&good) {
            fs.write_atomically(&file(kind), &damage(good)).unwrap();
        }
        let engine = open(&world);
        let stats = engine.stats();
        assert_eq!((stats.key_cache.entries, stats.row_cache.entries), (0, 0));
        assert_eq!(read_all(&engine, &world, &table), vec![b"v"; KEYS as usize]);
    }
}

#[test]
fn places_in_an_sstable_are_not_those_in_another_of_its_name() {
    let table = table("t", RowsPerPartition::None);
    let world = world(vec![table.clone()]);
    let engine = open(&world);
    fill(&engine, &table, b"v", 1);
    read_all(&engine, &world, &table);
    engine.close().unwrap();
    let fs: &dyn FileSystem = &world.fs;
    let saved = fs.read(&file(CacheKind::Key)).unwrap();
    // The first SSTable again, with other content.
    for directory in ["db/data", "db/commitlog"] {
        fs.remove_dir_all(Path::new(directory)).unwrap();
    }
    fs.remove_file(Path::new("db/replay_positions")).unwrap();
    let engine = open(&world);
    fill(&engine, &table, b"longer values than before", 1);
    engine.close().unwrap();
    fs.write_atomically(&file(CacheKind::Key), &saved).unwrap();
    let engine = open(&world);
    assert_eq!(engine.stats().key_cache.entries, 0);
    assert_eq!(read_all(&engine, &world, &table), vec![b"longer values than before"; KEYS as usize]);
}

#[test]
fn failing_to_save_keeps_nothing_from_closing() {
    for failing in [OperationKind::Create, OperationKind::Write, OperationKind::Sync, OperationKind::Rename] {
        let table = table("t", RowsPerPartition::All);
        let world = world(vec![table.clone()]);
        let engine = open(&world);
        fill(&engine, &table, b"v", 1);
        read_all(&engine, &world, &table);
        world.fs.fail_when(move |operation| {
            let is_cache = operation.path.to_string_lossy().contains("saved_caches");
            (operation.kind == failing && is_cache).then_some(std::io::ErrorKind::StorageFull)
        });
        engine.close().unwrap();
        world.fs.heal();
        let engine = open(&world);
        assert_eq!(engine.stats().row_cache.entries, 0, "{failing:?}");
        assert_eq!(read_all(&engine, &world, &table).len(), KEYS as usize);
    }
}

#[test]
fn a_compaction_takes_the_key_cache_along() {
    for migrates in [true, false] {
        let table = table("t", RowsPerPartition::None);
        let mut world = world(vec![table.clone()]);
        world.options.key_cache_migrate_during_compaction = migrates;
        let engine = open(&world);
        fill(&engine, &table, b"one", 1);
        fill(&engine, &table, b"two", 2);
        for k in 0..KEYS / 2 {
            engine.read(table.id, &key(k), &Selection::all()).unwrap();
        }
        let (before, entries) = (hits(engine.stats().key_cache), engine.stats().key_cache.entries);
        engine.compact(table.id).unwrap();
        for k in 0..KEYS / 2 {
            assert_eq!(read_one(&engine, &world, &table, k), [b"two"]);
        }
        let after = hits(engine.stats().key_cache);
        let half = KEYS as u64 / 2;
        let expected = if migrates { (before.0 + half, before.1) } else { (before.0, before.1 + half) };
        assert_eq!(after, expected);
        if migrates {
            assert!(engine.stats().key_cache.entries <= entries, "places in the inputs are forgotten");
        }
    }
}

#[test]
fn recent_hit_rates_follow_the_clock() {
    let table = table("t", RowsPerPartition::All);
    let world = world(vec![table.clone()]);
    let engine = open(&world);
    fill(&engine, &table, b"v", 1);
    read_all(&engine, &world, &table);
    engine.tick_metrics();
    read_all(&engine, &world, &table);
    world.clock.advance(Duration::from_secs(10));
    engine.tick_metrics();
    let stats = engine.stats();
    let (_, rows, rates) = stats.caches()[3];
    assert_eq!((rows.hit_rate(), rates.hit_rate()), (0.5, Some(1.0)));
    assert_eq!(rates.requests.one_minute, f64::from(KEYS) / 10.0);
}
