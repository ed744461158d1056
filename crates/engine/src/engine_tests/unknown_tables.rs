//! Data of tables that the schema lost is kept, comes back, and goes only when a drop record or a command names it.

use cassette_vfs::FakeFileSystem;

use super::*;
use crate::EngineError;
use crate::engine_tests::testing::{insert, simple_table};

fn put(engine: &Engine, table: &Arc<TableMetadata>, k: i32) {
    engine.apply(&[mutation(table, insert(k, b"x", 1))]).unwrap();
}

fn partitions(engine: &Engine, table: &TableMetadata) -> usize {
    drain(engine.scan(table.id, &KeyRange::ALL, &Selection::all()).unwrap()).len()
}

fn files_below(fs: &FakeFileSystem, path: &Path) -> Vec<String> {
    let Ok(entries) = fs.read_dir(path) else { return Vec::new() };
    let below = |entry: cassette_vfs::DirEntry| {
        let path = path.join(&entry.name);
        if entry.is_dir { files_below(fs, &path) } else { vec![path.display().to_string()] }
    };
    entries.into_iter().flat_map(below).collect()
}

fn table_files(world: &World, table: &TableMetadata) -> Vec<String> {
    let path = Path::new("db/data").join(&table.keyspace).join(table.directory_name());
    files_below(&world.fs, &path)
}

/// A world in which `lost` has rows 0 to 9 in an SSTable and 10 to 19 in the log, and of which the schema forgets `lost`.
fn world_that_forgets() -> (World, Arc<TableMetadata>, Arc<TableMetadata>) {
    let [kept, lost] = ["kept", "lost"].map(|name| simple_table(name, Default::default()));
    let mut world = World::new(vec![kept.clone(), lost.clone()]);
    let engine = world.open().unwrap();
    (0..10).for_each(|k| put(&engine, &lost, k));
    engine.flush(Some(lost.id)).unwrap();
    (10..20).for_each(|k| put(&engine, &lost, k));
    drop(engine);
    world.tables.pop();
    (world, kept, lost)
}

/// Fills the log until its first segments are removed.
fn turn_the_log_over(engine: &Engine, table: &Arc<TableMetadata>) {
    (0..2000).for_each(|k| put(engine, table, k));
    engine.flush(None).unwrap();
}

#[test]
fn files_and_log_records_of_an_unknown_table_come_back_when_it_is_created() {
    for restarts in 0..3 {
        let (world, kept, lost) = world_that_forgets();
        let files = table_files(&world, &lost);
        let mut engine = world.open().unwrap();
        turn_the_log_over(&engine, &kept);
        for _ in 0..restarts {
            engine.close().unwrap();
            engine = world.open().unwrap();
            turn_the_log_over(&engine, &kept);
        }
        assert_eq!(table_files(&world, &lost), files);
        let unknown = engine.unknown_tables().unwrap();
        assert_eq!(unknown.len(), 1);
        assert_eq!((unknown[0].id, unknown[0].sstables, unknown[0].log_segments), (Some(lost.id), 1, 1));
        assert_eq!((unknown[0].keyspace.as_str(), unknown[0].table.as_str()), ("ks", "lost"));
        assert!(engine.stats().unknown_tables == 1 && engine.stats().unknown_table_bytes > 0);

        engine.create_table(lost.clone()).unwrap();
        assert_eq!(partitions(&engine, &lost), 20);
        assert!(engine.unknown_tables().unwrap().is_empty());
        assert!(files_below(&world.fs, Path::new("db/commitlog/unclaimed")).is_empty());
    }
}

#[test]
fn a_schema_that_names_the_table_again_brings_its_log_records_back() {
    let (mut world, kept, lost) = world_that_forgets();
    let engine = world.open().unwrap();
    turn_the_log_over(&engine, &kept);
    drop(engine);
    world.tables.push(lost.clone());
    let engine = world.open().unwrap();
    assert_eq!(partitions(&engine, &lost), 20);
    assert_eq!(partitions(&engine, &kept), 2000);
}

#[test]
fn a_crash_at_any_operation_while_kept_log_records_are_applied_loses_none() {
    let (mut world, kept, lost) = world_that_forgets();
    let engine = world.open().unwrap();
    turn_the_log_over(&engine, &kept);
    engine.close().unwrap();
    drop(engine);
    let start = world.fs.fork();
    for operation in 0.. {
        world.fs = start.fork();
        world.tables = vec![kept.clone()];
        let engine = world.open().unwrap();
        world.fs.fail_from(world.fs.operations() + operation);
        let done = engine.create_table(lost.clone()).is_ok();
        world.fs = world.fs.crash(operation);
        drop(engine);
        world.tables.push(lost.clone());
        let engine = world.open().unwrap();
        assert_eq!(partitions(&engine, &lost), 20, "operation {operation}");
        if done {
            return;
        }
    }
}

#[test]
fn log_records_of_a_dropped_table_are_not_kept_while_another_needs_their_segment() {
    let [a, b] = ["a", "b"].map(|name| simple_table(name, Default::default()));
    let mut world = World::new(vec![a.clone(), b.clone()]);
    let engine = world.open().unwrap();
    put(&engine, &a, 1);
    put(&engine, &b, 1);
    engine.drop_table(b.id).unwrap();
    world.tables.pop();
    for _ in 0..3 {
        world.fs = world.fs.crash(1);
        let engine = world.open().unwrap();
        assert!(engine.unknown_tables().unwrap().is_empty());
        assert_eq!(partitions(&engine, &a), 1);
    }
    // The record outlives the segment, and no longer.
    let engine = world.open().unwrap();
    turn_the_log_over(&engine, &a);
    drop(engine);
    let engine = world.open().unwrap();
    drop(engine);
    let records = (&world.fs as &dyn FileSystem).read(Path::new("db/dropped_tables")).unwrap();
    assert_eq!(records.len(), 20);
}

#[test]
fn a_start_that_skipped_damage_or_lacks_schema_removes_no_files() {
    for incomplete in [false, true] {
        let [a, b] = ["a", "b"].map(|name| simple_table(name, Default::default()));
        let mut world = World::new(vec![a.clone(), b.clone()]);
        let engine = world.open().unwrap();
        put(&engine, &b, 1);
        engine.flush(None).unwrap();
        // Interrupted before its files were removed.
        let failing = world.fs.clone();
        failing.fail_when(|operation| {
            use cassette_vfs::OperationKind::{RemoveDir, RemoveFile};
            let is_removal = matches!(operation.kind, RemoveDir | RemoveFile);
            is_removal.then_some(std::io::ErrorKind::Other)
        });
        engine.drop_table(b.id).unwrap_err();
        failing.heal();
        drop(engine);
        let files = table_files(&world, &b);
        assert!(!files.is_empty());
        world.tables.pop();
        if incomplete {
            let engine =
                Engine::open(world.options.clone(), Arc::new(world.fs.clone()), world.clock.clone()).unwrap();
            engine.create_table(a.clone()).unwrap();
            engine.mark_schema_incomplete();
            engine.finish_recovery().unwrap();
            drop(engine);
            assert_eq!(table_files(&world, &b), files);
        }
        drop(world.open().unwrap());
        assert_eq!(table_files(&world, &b), [""; 0]);
    }
}

#[test]
fn an_intent_is_void_if_the_schema_names_the_table_or_cannot_be_trusted() {
    for (is_named, is_complete, is_removed) in
        [(true, true, false), (false, true, true), (false, false, false), (true, false, false)]
    {
        let [a, b] = ["a", "b"].map(|name| simple_table(name, Default::default()));
        let mut world = World::new(vec![a.clone(), b.clone()]);
        let engine = world.open().unwrap();
        put(&engine, &b, 1);
        engine.flush(None).unwrap();
        put(&engine, &b, 2);
        engine.intend_drops(&[b.id]).unwrap();
        drop(engine);
        if !is_named {
            world.tables.pop();
        }
        let engine =
            Engine::open(world.options.clone(), Arc::new(world.fs.clone()), world.clock.clone()).unwrap();
        engine.create_tables(&world.tables).unwrap();
        if !is_complete {
            engine.mark_schema_incomplete();
        }
        engine.finish_recovery().unwrap();
        assert_eq!(table_files(&world, &b).is_empty(), is_removed);
        drop(engine);
        // A later start, whose schema is complete, knows no intent any more.
        let engine = world.open().unwrap();
        assert_eq!(table_files(&world, &b).is_empty(), is_removed);
        if is_removed {
            assert!(engine.unknown_tables().unwrap().is_empty());
            continue;
        }
        if !is_named {
            engine.create_table(b.clone()).unwrap();
        }
        assert_eq!(partitions(&engine, &b), 2);
    }
}

#[test]
fn an_intent_is_void_if_another_table_is_unknown() {
    let tables = ["a", "b", "c"].map(|name| simple_table(name, Default::default()));
    let mut world = World::new(tables.to_vec());
    let engine = world.open().unwrap();
    tables.iter().for_each(|table| put(&engine, table, 1));
    engine.flush(None).unwrap();
    engine.intend_drops(&[tables[1].id]).unwrap();
    drop(engine);
    world.tables.truncate(1);
    let engine = world.open().unwrap();
    assert_eq!(engine.unknown_tables().unwrap().len(), 2);
}

#[test]
fn an_unknown_table_is_removed_by_command_and_its_snapshots_stay() {
    let (world, kept, lost) = world_that_forgets();
    let snapshot = Path::new("db/data/ks").join(lost.directory_name()).join("snapshots/s");
    world.fs.create_dir_all(&snapshot).unwrap();
    (&world.fs as &dyn FileSystem).write_atomically(&snapshot.join("manifest.json"), b"{}").unwrap();
    let engine = world.open().unwrap();
    let unknown = engine.unknown_tables().unwrap().remove(0);
    engine.remove_unknown_table(&unknown).unwrap();
    assert!(
        matches!(engine.remove_unknown_table(&unknown), Err(EngineError::UnknownTable(id)) if id == lost.id)
    );
    assert_eq!(table_files(&world, &lost).len(), 1);
    drop(engine);
    let engine = world.open().unwrap();
    assert!(engine.unknown_tables().unwrap().is_empty());
    assert_eq!(engine.snapshots().unwrap().len(), 1);
    engine.create_table(lost.clone()).unwrap();
    assert_eq!((partitions(&engine, &lost), partitions(&engine, &kept)), (0, 0));
}

#[test]
fn clearing_the_snapshots_of_an_unknown_table_leaves_its_files() {
    let (mut world, kept, lost) = world_that_forgets();
    world.tables.push(lost.clone());
    let engine = world.open().unwrap();
    let options = crate::SnapshotOptions { name: "s", skip_flush: true, ttl_seconds: None };
    engine.snapshot(&[(lost.id, String::new())], &options).unwrap();
    drop(engine);
    world.tables = vec![kept];
    let engine = world.open().unwrap();
    assert_eq!(engine.clear_snapshots(&crate::SnapshotFilter::default()).unwrap().len(), 1);
    engine.create_table(lost.clone()).unwrap();
    assert_eq!(partitions(&engine, &lost), 20);
}

#[test]
fn a_create_that_is_taken_back_removes_only_an_empty_directory() {
    let (world, _, lost) = world_that_forgets();
    let engine = world.open().unwrap();
    engine.create_table(lost.clone()).unwrap();
    engine.discard_tables(&[lost.id]).unwrap();
    engine.create_table(lost.clone()).unwrap();
    assert_eq!(partitions(&engine, &lost), 20);
    let new = simple_table("new", Default::default());
    engine.create_table(new.clone()).unwrap();
    engine.discard_tables(&[new.id]).unwrap();
    assert!(world.fs.read_dir(&Path::new("db/data/ks").join(new.directory_name())).is_err());
}

#[test]
fn an_empty_directory_that_an_interrupted_create_left_is_removed() {
    let [a, b] = ["a", "b"].map(|name| simple_table(name, Default::default()));
    let mut world = World::new(vec![a, b.clone()]);
    drop(world.open().unwrap());
    world.tables.pop();
    drop(world.open().unwrap());
    assert!(world.fs.read_dir(&Path::new("db/data/ks").join(b.directory_name())).is_err());
}
