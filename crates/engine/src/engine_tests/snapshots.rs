//! Snapshots: their contents, their lifetime, and incomplete ones.

use super::*;
use crate::engine_tests::testing::{self, insert};
use crate::{EngineError, Snapshot, SnapshotFilter, SnapshotOptions};

fn world() -> (World, Arc<TableMetadata>) {
    let table = testing::simple_table("t", Default::default());
    (World::new(vec![table.clone()]), table)
}

fn write(engine: &Engine, table: &Arc<TableMetadata>, keys: std::ops::Range<i32>) {
    for k in keys {
        engine.apply(&[mutation(table, insert(k, b"some text", 1))]).unwrap();
    }
}

fn take(engine: &Engine, table: &TableMetadata, name: &str) -> Result<Vec<Snapshot>> {
    let options = SnapshotOptions { name, skip_flush: false, ttl_seconds: None };
    engine.snapshot(&[(table.id, "CREATE TABLE …".to_owned())], &options)
}

fn names(engine: &Engine) -> Vec<String> {
    engine.snapshots().unwrap().into_iter().map(|snapshot| snapshot.name).collect()
}

fn files(world: &World, snapshot: &Snapshot) -> Vec<String> {
    let entries = world.fs.read_dir(&snapshot.directory).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn a_snapshot_holds_what_was_written_and_outlives_compaction_truncation_and_drop() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    write(&engine, &table, 0..10);
    engine.flush(None).unwrap();
    write(&engine, &table, 10..20);
    let taken = take(&engine, &table, "s").unwrap();
    assert_eq!(
        (taken[0].name.as_str(), taken[0].keyspace.as_str(), taken[0].table.as_str()),
        ("s", "ks", "t")
    );
    assert_eq!(taken[0].table_id, Some(table.id));
    let held = files(&world, &taken[0]);
    assert_eq!(held.iter().filter(|name| name.ends_with("-Data.db")).count(), 2, "{held:?}");
    assert!(held.contains(&"manifest.json".into()) && held.contains(&"schema.cql".into()));
    let own = taken[0].true_size;
    assert!(own > 0 && own < 400 && taken[0].size_on_disk > own, "{taken:?}");

    engine.compact(table.id).unwrap();
    let listed = engine.snapshots().unwrap();
    assert_eq!(listed[0].true_size, listed[0].size_on_disk, "the SSTables themselves are gone");
    assert_eq!(listed[0].size_on_disk, taken[0].size_on_disk);
    engine.truncate(table.id).unwrap();
    engine.drop_table(table.id).unwrap();
    assert_eq!(files(&world, &taken[0]), held);
    assert_eq!(engine.snapshots().unwrap(), listed);

    let cleared = engine.clear_snapshots(&SnapshotFilter::default()).unwrap();
    assert_eq!(cleared, listed);
    assert!(!(&world.fs as &dyn FileSystem).exists(taken[0].directory.ancestors().nth(2).unwrap()).unwrap());
}

#[test]
fn a_name_is_taken_once_and_must_be_that_of_a_directory() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    take(&engine, &table, "s").unwrap();
    let error = take(&engine, &table, "s").unwrap_err();
    assert_eq!(error.to_string(), "Snapshot s already exists.");
    assert_eq!(take(&engine, &table, "").unwrap_err().to_string(), "You must supply a snapshot name.");
    for name in ["..", ".hidden", "a/b", "a\\b", "a\0b", "a\nb", "a\u{9b}b"] {
        assert!(matches!(take(&engine, &table, name), Err(EngineError::InvalidSnapshot { .. })), "{name}");
    }
    let options = SnapshotOptions { name: "short", skip_flush: false, ttl_seconds: Some(59) };
    let error = engine.snapshot(&[(table.id, String::new())], &options).unwrap_err();
    assert_eq!(error.to_string(), "ttl for snapshot must be at least 60 seconds");
    assert_eq!(names(&engine), ["s"]);
}

#[test]
fn without_a_flush_a_snapshot_holds_what_was_flushed_before() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    write(&engine, &table, 0..10);
    let options = SnapshotOptions { name: "s", skip_flush: true, ttl_seconds: None };
    let taken = engine.snapshot(&[(table.id, String::new())], &options).unwrap();
    assert_eq!(files(&world, &taken[0]), ["manifest.json", "schema.cql"]);
}

#[test]
fn a_snapshot_expires_when_its_time_has_come() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    write(&engine, &table, 0..3);
    take(&engine, &table, "stays").unwrap();
    let options = SnapshotOptions { name: "goes", skip_flush: false, ttl_seconds: Some(60) };
    engine.snapshot(&[(table.id, String::new())], &options).unwrap();
    engine.remove_expired_snapshots().unwrap();
    assert_eq!(names(&engine), ["goes", "stays"]);
    world.pass(61);
    drop(engine);
    // Also one of an earlier process.
    let engine = world.open().unwrap();
    engine.remove_expired_snapshots().unwrap();
    assert_eq!(names(&engine), ["stays"]);
}

#[test]
fn a_table_with_data_leaves_a_snapshot_when_it_is_truncated_or_dropped() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    engine.truncate_with_snapshot(table.id, "schema").unwrap();
    assert!(names(&engine).is_empty(), "there was nothing to keep");
    write(&engine, &table, 0..3);
    engine.truncate_with_snapshot(table.id, "schema").unwrap();
    assert!(world.seen(&engine, table.id, &Selection::all()).is_empty());
    write(&engine, &table, 3..5);
    engine.snapshot_before_drop(table.id, "schema").unwrap();
    engine.drop_table(table.id).unwrap();
    let taken = engine.snapshots().unwrap();
    let name = |cause: &str| format!("{cause}-1000000-t");
    assert_eq!(names(&engine), [name("dropped"), name("truncated")]);
    for snapshot in taken {
        assert!(files(&world, &snapshot).iter().any(|name| name.ends_with("-Data.db")));
    }
}

#[test]
fn truncations_of_the_same_millisecond_each_leave_a_snapshot() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    for key in 0..3 {
        write(&engine, &table, key..key + 1);
        engine.truncate_with_snapshot(table.id, "schema").unwrap();
    }
    let names = names(&engine);
    assert_eq!(names, ["truncated-1000000-t", "truncated-1000001-t", "truncated-1000002-t"]);
}

#[test]
fn a_snapshot_that_fails_leaves_nothing() {
    for step in 1.. {
        let (world, table) = world();
        let engine = world.open().unwrap();
        write(&engine, &table, 0..10);
        engine.flush(None).unwrap();
        world.fs.fail_at(world.fs.operations() + step);
        let taken = take(&engine, &table, "s");
        world.fs.heal();
        match taken {
            Ok(_) => {
                assert!(step > 10, "{step} steps");
                break;
            }
            Err(_) => assert!(names(&engine).is_empty(), "step {step}"),
        }
    }
}
