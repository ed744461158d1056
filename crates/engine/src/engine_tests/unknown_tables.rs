//! Data of tables that the schema lost is kept, can be adopted, and is removed only when a drop
//! record or a command names it.

use cassette_rows::{Clustering, ColumnMetadata, LivenessInfo, RowBuilder};
use cassette_vfs::FakeFileSystem;

use super::*;
use crate::EngineError;
use crate::engine_tests::testing::{insert, key, simple_table};

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

/// A world in which `lost` has rows 0 to 9 in an SSTable and 10 to 19 in the log, and whose schema
/// loses `lost`.
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

/// A [`simple_table`] with another column `w`.
fn with_column_w(table: &TableMetadata) -> Arc<TableMetadata> {
    let columns = table.partition_key.iter().chain(table.columns.iter().flatten());
    let mut columns: Vec<ColumnMetadata> = columns.map(|column| (**column).clone()).collect();
    let v = columns.last().unwrap().clone();
    columns.push(ColumnMetadata { name: "w".into(), ..v });
    Arc::new(TableMetadata::new(table.id, &table.keyspace, &table.name, columns, table.params.clone()))
}

/// Writes a row with `v` and `w`.
fn put_with_w(engine: &Engine, table: &Arc<TableMetadata>, k: i32) {
    let [v, w] = ["v", "w"].map(|name| table.column(name).unwrap().id);
    let mut row = RowBuilder::new(Clustering::empty());
    row.liveness(LivenessInfo::new(1)).live_cell(v, b"x", 1).live_cell(w, b"y", 1);
    let mut update = PartitionUpdate::new(key(k));
    update.rows.push(row.finish());
    engine.apply(&[mutation(table, update)]).unwrap();
}

/// A world whose log has kept records of `lost` with a column `w`, and whose schema contains `lost`
/// again without that column. The engine is closed.
fn world_that_lost_a_column() -> (World, Arc<TableMetadata>, Arc<TableMetadata>) {
    let [kept, lost] = ["kept", "lost"].map(|name| simple_table(name, Default::default()));
    let wide = with_column_w(&lost);
    let mut world = World::new(vec![kept.clone(), wide.clone()]);
    let engine = world.open().unwrap();
    (0..10).for_each(|k| put(&engine, &wide, k));
    engine.flush(Some(lost.id)).unwrap();
    (10..20).for_each(|k| put_with_w(&engine, &wide, k));
    drop(engine);
    world.tables = vec![kept.clone()];
    let engine = world.open().unwrap();
    turn_the_log_over(&engine, &kept);
    engine.close().unwrap();
    world.tables = vec![kept, lost.clone()];
    (world, lost, wide)
}

fn unclaimed_files(world: &World) -> Vec<String> {
    files_below(&world.fs, Path::new("db/commitlog/unclaimed"))
}

/// Whether there are segments in the directory of the table's id with this suffix.
fn has_segments(world: &World, table: &TableMetadata, suffix: &str) -> bool {
    let directory = format!("/{:032x}{suffix}/CommitLog-", table.id.0.as_u128());
    unclaimed_files(world).iter().any(|file| file.contains(&directory))
}

#[test]
fn kept_log_records_with_a_column_that_the_table_lacks_are_applied_without_it_and_stay() {
    let (world, lost, _) = world_that_lost_a_column();
    assert!(has_segments(&world, &lost, ""));
    let mut files = Vec::new();
    for start in 0..3 {
        let engine = world.open().unwrap();
        let seen = world.seen(&engine, lost.id, &Selection::all());
        assert_eq!(seen.len(), 20, "start {start}");
        let values = seen.iter().flat_map(|partition| &partition.rows).flat_map(|row| &row.cells);
        assert!(values.clone().count() == 20 && values.clone().all(|cell| cell.value == b"x"));
        assert!(engine.unknown_tables().unwrap().is_empty());
        assert!(has_segments(&world, &lost, ".applied") && !has_segments(&world, &lost, ""));
        // Later starts neither read nor change them.
        let found = unclaimed_files(&world);
        assert!(start == 0 || found == files);
        files = found;
        engine.close().unwrap();
    }
}

#[test]
fn a_crash_at_any_operation_of_a_start_that_applies_records_in_part_loses_none() {
    let (mut world, lost, _) = world_that_lost_a_column();
    let start = world.fs.fork();
    let mut interrupted = 0;
    for operation in 1.. {
        world.fs = start.fork();
        world.fs.fail_from(world.fs.operations() + operation);
        let opened = world.open();
        let done = opened.is_ok();
        world.fs = world.fs.crash(operation);
        drop(opened);
        interrupted += u64::from(!has_segments(&world, &lost, "") && !done);
        let engine = world.open().unwrap();
        assert_eq!(partitions(&engine, &lost), 20, "operation {operation}");
        assert!(has_segments(&world, &lost, ".applied"), "operation {operation}");
        assert!(!has_segments(&world, &lost, "") && !has_segments(&world, &lost, ".applied-2"));
        if done {
            assert!(interrupted > 0, "no crash between the rename and the end of the start");
            return;
        }
    }
}

#[test]
fn records_of_a_table_that_is_lost_twice_are_kept_twice() {
    let (mut world, lost, wide) = world_that_lost_a_column();
    let kept = world.tables[0].clone();
    world.open().unwrap().close().unwrap();
    world.tables[1] = wide.clone();
    let engine = world.open().unwrap();
    put_with_w(&engine, &wide, 20);
    drop(engine);
    world.tables = vec![kept.clone()];
    let engine = world.open().unwrap();
    turn_the_log_over(&engine, &kept);
    drop(engine);
    world.tables.push(lost.clone());
    let engine = world.open().unwrap();
    assert_eq!(partitions(&engine, &lost), 21);
    assert!(has_segments(&world, &lost, ".applied") && has_segments(&world, &lost, ".applied-2"));
}

#[test]
fn a_table_is_not_created_without_columns_of_its_kept_log_records() {
    let (mut world, lost, wide) = world_that_lost_a_column();
    world.tables.pop();
    let engine = world.open().unwrap();
    let error = engine.create_table(lost.clone()).unwrap_err();
    let EngineError::MissingColumns { columns, .. } = &error else { panic!("{error}") };
    assert_eq!(columns, &["w"]);
    assert!(has_segments(&world, &lost, ""), "they are still there for a table that has the column");
    engine.create_table(wide).unwrap();
    assert_eq!(partitions(&engine, &lost), 20);
    assert_eq!(unclaimed_files(&world), [""; 0]);
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
    // The record is kept exactly as long as the segment.
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
        // A later start, with a complete schema, has no intents any more.
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
