//! Change data capture.

use cassette_rows::TableParams;

use super::*;
use crate::EngineError;
use crate::cdc::{captured_segments, remove_captured};
use crate::engine_tests::testing::{insert, simple_table};
use crate::log::commitlog::{Position, encryption};

const RAW: &str = "db/cdc_raw";

fn captured(name: &str) -> Arc<TableMetadata> {
    simple_table(name, TableParams { cdc: true, ..TableParams::default() })
}

fn world(tables: Vec<Arc<TableMetadata>>) -> World {
    let mut world = World::new(tables);
    world.options.cdc.enabled = true;
    world.options.cdc.total_space = Some(1 << 20);
    world
}

fn write(engine: &Engine, table: &Arc<TableMetadata>, k: i32, length: usize) -> Result<()> {
    engine.apply(&[mutation(table, insert(k, &vec![b'v'; length], i64::from(k) + 1))])
}

/// The keys of all changes after `position`, with the names of their tables.
fn changes(engine: &Engine, position: Position) -> Vec<(String, i32)> {
    let mut stream = engine.change_stream(position);
    let mut found = Vec::new();
    while let Some(record) = stream.next_record().unwrap() {
        for change in record.changes {
            let key = i32::from_be_bytes(change.update.key.key().try_into().unwrap());
            found.push((change.table.name.clone(), key));
        }
    }
    found
}

fn keys(engine: &Engine) -> Vec<i32> {
    changes(engine, Position::ZERO).into_iter().map(|(_, key)| key).collect()
}

fn raw(world: &World) -> Vec<String> {
    world.fs.read_dir(Path::new(RAW)).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn changes_of_captured_tables_are_read_in_order_and_others_are_not() {
    let (a, b) = (captured("a"), simple_table("b", TableParams::default()));
    for encrypts in [false, true] {
        let mut world = world(vec![a.clone(), b.clone()]);
        world.options.commitlog_encryption = encrypts.then(|| encryption("a"));
        let engine = world.open().unwrap();
        for k in 0..200 {
            write(&engine, if k % 3 == 0 { &b } else { &a }, k, 300).unwrap();
        }
        // A batch is one record.
        engine.apply(&[mutation(&a, insert(500, b"x", 1)), mutation(&b, insert(501, b"x", 1))]).unwrap();
        let expected: Vec<_> =
            (0..200).filter(|k| k % 3 != 0).chain([500]).map(|k| ("a".to_owned(), k)).collect();
        assert_eq!(changes(&engine, Position::ZERO), expected);
        let segments = captured_segments(&world.fs, Path::new(RAW)).unwrap();
        assert!(segments.len() > 3 && segments[..segments.len() - 2].iter().all(|segment| segment.completed));
        assert!(world.open().is_err(), "the directory is locked");
    }
}

#[test]
fn a_stream_continues_after_any_of_its_positions_and_follows_new_changes() {
    let table = captured("a");
    let world = world(vec![table.clone()]);
    let engine = world.open().unwrap();
    (0..100).for_each(|k| write(&engine, &table, k, 400).unwrap());
    let mut stream = engine.change_stream(Position::ZERO);
    for k in 0..100 {
        let position = stream.next_record().unwrap().unwrap().position;
        assert_eq!(stream.position(), position);
        let rest: Vec<_> = (k + 1..100).map(|k| ("a".to_owned(), k)).collect();
        assert_eq!(changes(&engine, position), rest);
    }
    for k in 100..200 {
        assert!(stream.next_record().unwrap().is_none());
        write(&engine, &table, k, 400).unwrap();
        let record = stream.next_record().unwrap().unwrap();
        assert_eq!(record.changes[0].update.key, testing::key(k));
    }
}

#[test]
fn changes_outlive_flushes_restarts_alterations_and_drops_until_a_consumer_removes_them() {
    let table = captured("a");
    let mut world = world(vec![table.clone()]);
    let engine = world.open().unwrap();
    (0..50).for_each(|k| write(&engine, &table, k, 500).unwrap());
    engine.flush(None).unwrap();
    engine.close().unwrap();
    drop(engine);
    // Altered, in the next process: other columns, and captured no more.
    let altered = Arc::new(table.with_params(TableParams::default()));
    world.tables = vec![altered.clone()];
    let engine = world.open().unwrap();
    (50..60).for_each(|k| write(&engine, &altered, k, 500).unwrap());
    assert_eq!(keys(&engine), (0..50).collect::<Vec<_>>());
    engine.drop_table(table.id).unwrap();
    drop(engine);
    world.tables = Vec::new();
    world.fs = world.fs.kill();
    let engine = world.open().unwrap();
    assert_eq!(keys(&engine), (0..50).collect::<Vec<_>>());
    let end = {
        let mut stream = engine.change_stream(Position::ZERO);
        while stream.next_record().unwrap().is_some() {}
        stream.position()
    };
    let before = raw(&world).len();
    // The one in which the position lies has its end record after it.
    let removed = remove_captured(&world.fs, Path::new(RAW), end).unwrap();
    assert_eq!(raw(&world).len(), before - 2 * removed);
    assert!(removed > 0 && captured_segments(&world.fs, Path::new(RAW)).unwrap().len() <= 1);
    let next = Position { segment: end.segment + 1, offset: 0 };
    remove_captured(&world.fs, Path::new(RAW), next).unwrap();
    assert_eq!(raw(&world), [] as [String; 0]);
}

#[test]
fn without_space_changes_of_captured_tables_are_refused_and_others_are_not() {
    let (a, b) = (captured("a"), simple_table("b", TableParams::default()));
    let mut world = world(vec![a.clone(), b.clone()]);
    world.options.cdc.total_space = Some(80 << 10);
    let engine = world.open().unwrap();
    let refused = (0..1000).find(|k| write(&engine, &a, *k, 1000).is_err()).unwrap();
    assert!((60..85).contains(&refused), "{refused} changes fit");
    let error = write(&engine, &a, refused, 1000).unwrap_err();
    assert!(matches!(error, EngineError::CdcFull { .. }));
    assert_eq!(
        error.to_string(),
        "Rejecting mutation to keyspace ks. Free up space in db/cdc_raw by processing CDC logs. Total CDC bytes on \
         disk is 81920."
    );
    let batch = [mutation(&b, insert(1, b"x", 1)), mutation(&a, insert(1, b"x", 1))];
    assert!(matches!(engine.apply(&batch), Err(EngineError::CdcFull { .. })));
    (0..100).for_each(|k| write(&engine, &b, k, 1000).unwrap());
    assert!(write(&engine, &a, refused, 1000).is_err());
    // The directory is measured again after the interval.
    let mut stream = engine.change_stream(Position::ZERO);
    (0..refused).for_each(|_| drop(stream.next_record().unwrap().unwrap()));
    assert!(stream.next_record().unwrap().is_none());
    assert!(remove_captured(&world.fs, Path::new(RAW), stream.position()).unwrap() > 2);
    world.pass(1);
    write(&engine, &a, refused, 1000).unwrap();
    assert_eq!(stream.next_record().unwrap().unwrap().changes[0].update.key, testing::key(refused));
}

#[test]
fn without_blocking_the_oldest_segments_are_removed_instead() {
    let table = captured("a");
    let mut world = world(vec![table.clone()]);
    world.options.cdc.total_space = Some(80 << 10);
    world.options.cdc.block_writes = false;
    let engine = world.open().unwrap();
    (0..500).for_each(|k| write(&engine, &table, k, 1000).unwrap());
    let found = keys(&engine);
    assert!(found.len() > 20 && found.len() < 100 && found.last() == Some(&499), "{found:?}");
    assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    let used: u64 = captured_segments(&world.fs, Path::new(RAW)).unwrap().iter().map(|one| one.length).sum();
    assert!(used <= 96 << 10, "{used}");
}

#[test]
fn segments_without_captured_changes_leave_nothing_behind() {
    let (a, b) = (captured("a"), simple_table("b", TableParams::default()));
    let world = world(vec![a.clone(), b.clone()]);
    let engine = world.open().unwrap();
    (0..200).for_each(|k| write(&engine, &b, k, 1000).unwrap());
    engine.flush(None).unwrap();
    engine.close().unwrap();
    assert_eq!(raw(&world), [] as [String; 0]);
}

#[test]
fn disabled_it_captures_nothing_and_keeps_what_was_captured() {
    let table = captured("a");
    let mut world = world(vec![table.clone()]);
    let engine = world.open().unwrap();
    (0..30).for_each(|k| write(&engine, &table, k, 1000).unwrap());
    drop(engine);
    world.fs = world.fs.kill();
    world.options.cdc.enabled = false;
    for _ in 0..2 {
        let engine = world.open().unwrap();
        (30..60).for_each(|k| write(&engine, &table, k, 1000).unwrap());
        engine.flush(None).unwrap();
        assert_eq!(keys(&engine), (0..30).collect::<Vec<_>>());
        engine.close().unwrap();
    }
    let none = World::new(vec![table.clone()]);
    write(&none.open().unwrap(), &table, 1, 10).unwrap();
    assert!(none.fs.read_dir(Path::new(RAW)).is_err());
}

#[test]
fn changes_that_are_not_durable_are_not_read() {
    let table = captured("a");
    let mut world = world(vec![table.clone()]);
    world.options.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    let engine = world.open().unwrap();
    write(&engine, &table, 1, 10).unwrap();
    assert_eq!(keys(&engine), [] as [i32; 0]);
    engine.sync_log().unwrap();
    assert_eq!(keys(&engine), [1]);
    write(&engine, &table, 2, 10).unwrap();
    assert_eq!(keys(&engine), [1]);
    engine.flush(None).unwrap();
    assert_eq!(keys(&engine), [1, 2]);
}

#[test]
fn a_segment_with_damage_is_an_error_that_names_file_and_offset() {
    let table = captured("a");
    let world = world(vec![table.clone()]);
    let engine = world.open().unwrap();
    (0..3).for_each(|k| write(&engine, &table, k, 100).unwrap());
    let segment = captured_segments(&world.fs, Path::new(RAW)).unwrap().remove(0);
    world.fs.corrupt(&segment.path, u64::from(segment.durable.unwrap()) - 20, 1);
    let mut stream = engine.change_stream(Position::ZERO);
    assert!(stream.next_record().unwrap().is_some());
    assert!(stream.next_record().unwrap().is_some());
    let error = stream.next_record().unwrap_err().to_string();
    assert!(error.contains("cdc_raw/CommitLog-101-") && error.contains("fails its checksum"), "{error}");
}
