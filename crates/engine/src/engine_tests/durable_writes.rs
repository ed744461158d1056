//! Tables whose writes are not logged.

use super::*;
use crate::engine_tests::testing::{insert, simple_table};

fn world() -> (World, Arc<TableMetadata>, Arc<TableMetadata>) {
    let (logged, unlogged) =
        (simple_table("logged", Default::default()), simple_table("t", Default::default()));
    (World::new(vec![logged.clone(), unlogged.clone()]), logged, unlogged)
}

fn open(world: &World, unlogged: &TableMetadata) -> Engine {
    let engine = world.open().unwrap();
    engine.set_durable_writes(unlogged.id, false).unwrap();
    engine
}

fn partitions(engine: &Engine, table: &TableMetadata) -> usize {
    drain(engine.scan(table.id, &KeyRange::ALL, &Selection::all()).unwrap()).len()
}

#[test]
fn writes_that_are_not_durable_are_not_logged_and_lost_when_the_process_dies() {
    let (world, logged, unlogged) = world();
    let engine = open(&world, &unlogged);
    let before = engine.stats().commit_log.unwrap().end;
    engine.apply(&[mutation(&unlogged, insert(1, b"x", 1))]).unwrap();
    assert_eq!(engine.stats().commit_log.unwrap().end, before);
    assert_eq!(partitions(&engine, &unlogged), 1);
    engine.apply(&[mutation(&logged, insert(1, b"x", 1))]).unwrap();
    drop(engine);
    let engine = open(&world, &unlogged);
    assert_eq!((partitions(&engine, &logged), partitions(&engine, &unlogged)), (1, 0));
}

#[test]
fn a_flush_makes_them_durable_and_so_does_closing() {
    let (mut world, _, unlogged) = world();
    let engine = open(&world, &unlogged);
    engine.apply(&[mutation(&unlogged, insert(1, b"x", 1))]).unwrap();
    engine.flush(Some(unlogged.id)).unwrap();
    engine.apply(&[mutation(&unlogged, insert(2, b"x", 1))]).unwrap();
    drop(engine);
    world.fs = world.fs.crash(3);
    let engine = open(&world, &unlogged);
    assert_eq!(partitions(&engine, &unlogged), 1);
    engine.apply(&[mutation(&unlogged, insert(3, b"x", 1))]).unwrap();
    engine.close().unwrap();
    let write = engine.apply(&[mutation(&unlogged, insert(4, b"x", 1))]);
    assert!(matches!(write, Err(crate::EngineError::Closed)));
    drop(engine);
    world.fs = world.fs.crash(4);
    assert_eq!(partitions(&open(&world, &unlogged), &unlogged), 2);
}

#[test]
fn of_a_batch_over_both_kinds_of_tables_the_log_holds_the_durable_part() {
    let (world, logged, unlogged) = world();
    let engine = open(&world, &unlogged);
    let both = [mutation(&unlogged, insert(1, b"x", 1)), mutation(&logged, insert(1, b"x", 1))];
    engine.apply(&both).unwrap();
    assert_eq!((partitions(&engine, &logged), partitions(&engine, &unlogged)), (1, 1));
    drop(engine);
    let engine = open(&world, &unlogged);
    assert_eq!((partitions(&engine, &logged), partitions(&engine, &unlogged)), (1, 0));
    engine.apply(&both).unwrap();
    engine.close().unwrap();
    drop(engine);
    let engine = open(&world, &unlogged);
    assert_eq!((partitions(&engine, &logged), partitions(&engine, &unlogged)), (1, 1));
}

#[test]
fn they_take_memory_but_no_segment_and_what_was_logged_before_is_let_go() {
    let (world, _, unlogged) = world();
    let engine = world.open().unwrap();
    engine.apply(&[mutation(&unlogged, insert(0, b"x", 1))]).unwrap();
    engine.set_durable_writes(unlogged.id, false).unwrap();
    let end = engine.stats().commit_log.unwrap().end;
    for k in 1..2000 {
        engine.apply(&[mutation(&unlogged, insert(k, &[7; 1000], 1))]).unwrap();
    }
    assert!(engine.table_stats(unlogged.id).unwrap().flushes > 0);
    assert_eq!(engine.stats().commit_log.unwrap().end, end);
    engine.set_durable_writes(unlogged.id, true).unwrap();
    engine.apply(&[mutation(&unlogged, insert(2000, b"x", 1))]).unwrap();
    engine.flush(None).unwrap();
    drop(engine);
    let engine = world.open().unwrap();
    assert_eq!(partitions(&engine, &unlogged), 2001);
}

#[test]
fn what_was_not_logged_is_flushed_before_writes_are_durable() {
    let (mut world, _, unlogged) = world();
    let engine = open(&world, &unlogged);
    engine.apply(&[mutation(&unlogged, insert(1, b"x", 1))]).unwrap();
    engine.set_durable_writes(unlogged.id, true).unwrap();
    engine.apply(&[mutation(&unlogged, insert(2, b"x", 1))]).unwrap();
    drop(engine);
    world.fs = world.fs.crash(5);
    let engine = world.open().unwrap();
    assert_eq!(partitions(&engine, &unlogged), 2);
}
