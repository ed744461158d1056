//! Change data capture.

use std::collections::BTreeSet;

use cassette_rows::TableParams;

use super::*;
use crate::EngineError;
use crate::cdc::{
    CapturedSegment, ChangeStream, ChangeStreamError, captured_chain, captured_segments, remove_captured,
};
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

/// The names of segments and indexes.
fn raw(world: &World) -> Vec<String> {
    let names = world.fs.read_dir(Path::new(RAW)).unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.starts_with("CommitLog-")).collect()
}

/// Removes the segment at `path` and its index, as consumers of Cassandra do.
fn remove(world: &World, segment: &CapturedSegment) {
    world.fs.remove_file(&segment.path).unwrap();
    let index = segment.path.to_string_lossy().replace(".log", "_cdc.idx");
    world.fs.remove_file(Path::new(&index)).unwrap();
}

/// Reads to the end, and checks that this is what a consumer must have read.
fn drain(engine: &Engine, stream: &mut ChangeStream) -> usize {
    let point = engine.sync_captured().unwrap().unwrap();
    let mut count = 0;
    while stream.next_record().unwrap().is_some() {
        count += 1;
    }
    assert!(stream.consumed() >= point.captured, "{} {point:?}", stream.consumed());
    assert!(point.end >= point.captured);
    count
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

#[test]
fn segments_that_are_removed_before_they_are_read_are_an_error_until_they_are_skipped() {
    let table = captured("a");
    let world = world(vec![table.clone()]);
    let engine = world.open().unwrap();
    (0..200).for_each(|k| write(&engine, &table, k, 400).unwrap());
    let mut stream = engine.change_stream(Position::ZERO);
    let first = stream.next_record().unwrap().unwrap().position;
    let segments = captured_segments(&world.fs, Path::new(RAW)).unwrap();
    assert!(segments.len() > 4 && segments[0].id == first.segment);
    segments[1..3].iter().for_each(|segment| remove(&world, segment));
    // From the beginning, and at a position of an earlier stream.
    for mut stream in [stream, engine.change_stream(first)] {
        let error = loop {
            match stream.next_record() {
                Ok(record) => assert_eq!(record.unwrap().position.segment, first.segment),
                Err(error) => break error,
            }
        };
        let ChangeStreamError::Missing { after, first, last } = error else { panic!("{error}") };
        assert_eq!((after, first, last), (stream.consumed(), segments[1].id, segments[2].id));
        assert!(stream.next_record().is_err(), "the stream stays before them");
        stream.skip_missing();
        assert_eq!(stream.next_record().unwrap().unwrap().position.segment, segments[3].id);
        while stream.next_record().unwrap().is_some() {}
    }
    // Removed entirely, also what was being read, with a restart in between.
    let mut stream = engine.change_stream(first);
    stream.next_record().unwrap().unwrap();
    engine.close().unwrap();
    let engine = world.open().unwrap();
    captured_segments(&world.fs, Path::new(RAW)).unwrap().iter().for_each(|segment| remove(&world, segment));
    while let Ok(record) = stream.next_record() {
        assert!(record.is_some(), "the rest is missing");
    }
    let mut other = engine.change_stream(first);
    assert!(other.next_record().is_err());
    assert!(engine.change_stream(Position::ZERO).next_record().unwrap().is_none());
}

#[test]
fn a_consumer_at_the_end_has_read_what_it_must_whatever_happens_to_log_and_segments() {
    let (a, b) = (captured("a"), simple_table("b", TableParams::default()));
    let mut world = world(vec![a.clone(), b.clone()]);
    let mut engine = world.open().unwrap();
    let mut consumed = engine.sync_captured().unwrap().unwrap().end;
    for round in 0..12 {
        let mut stream = engine.change_stream(consumed);
        (0..40).for_each(|k| write(&engine, if (k + round) % 5 == 0 { &a } else { &b }, k, 500).unwrap());
        assert_eq!(drain(&engine, &mut stream), 8, "round {round}");
        consumed = stream.consumed();
        if round % 3 == 0 {
            remove_captured(&world.fs, Path::new(RAW), consumed).unwrap();
        }
        if round % 2 == 0 {
            engine.flush(None).unwrap();
        }
        match round % 4 {
            1 => engine.close().unwrap(),
            3 => world.fs = world.fs.kill(),
            _ => continue,
        }
        drop(engine);
        engine = world.open().unwrap();
        assert_eq!(drain(&engine, &mut engine.change_stream(consumed)), 0);
    }
}

#[test]
fn a_chain_continues_across_restarts_and_ends_when_changes_are_not_captured_or_elsewhere() {
    let table = captured("a");
    let mut world = world(vec![table.clone()]);
    let chain = |world: &World, directory: &str| {
        world.pass(1);
        let engine = world.open().unwrap();
        write(&engine, &table, 1, 10).unwrap();
        let point = engine.sync_captured().unwrap();
        engine.close().unwrap();
        let found = captured_chain(&world.fs, Path::new(directory)).unwrap();
        point.inspect(|point| assert_eq!(Some(point.chain), found)).map(|point| point.chain)
    };
    let first = chain(&world, RAW);
    assert!(first.is_some());
    assert_eq!(chain(&world, RAW), first);
    world.fs = world.fs.kill();
    assert_eq!(chain(&world, RAW), first);
    world.options.cdc.enabled = false;
    assert_eq!(chain(&world, RAW), None);
    world.options.cdc.enabled = true;
    let second = chain(&world, RAW);
    assert_ne!(second, first);
    world.options.cdc.directory = Some("db/elsewhere".into());
    let third = chain(&world, "db/elsewhere");
    world.options.cdc.directory = None;
    let fourth = chain(&world, RAW);
    assert_eq!(BTreeSet::from([first, second, third, fourth]).len(), 4);
}

#[test]
fn statistics_are_those_of_the_changes_that_no_consumer_has_removed() {
    let table = captured("a");
    let mut world = world(vec![table.clone()]);
    let engine = world.open().unwrap();
    let stats = engine.captured().unwrap();
    assert_eq!((stats.bytes, stats.oldest_age, stats.total_space), (0, Duration::ZERO, 1 << 20));
    (0..100).for_each(|k| write(&engine, &table, k, 400).unwrap());
    world.pass(60);
    let before = engine.captured().unwrap();
    let segments = captured_segments(&world.fs, Path::new(RAW)).unwrap();
    let durable: u64 = segments.iter().filter_map(|segment| segment.durable.map(u64::from)).sum();
    let disk: u64 = segments.iter().map(|segment| segment.length).sum();
    assert_eq!((before.bytes, before.disk_bytes), (durable, disk));
    assert!(before.bytes > 40_000 && before.oldest_age >= Duration::from_secs(59), "{before:?}");
    let end = engine.sync_captured().unwrap().unwrap().end;
    assert!(remove_captured(&world.fs, Path::new(RAW), end).unwrap() > 1);
    assert!(engine.captured().unwrap().bytes < before.bytes);
    drop(engine);
    world.options.cdc.enabled = false;
    world.fs = world.fs.kill();
    assert_eq!(world.open().unwrap().captured(), None);
}
