//! Writes whose view rows make their commit log record larger than half a segment, or than a whole
//! one.

use std::sync::atomic::Ordering;

use cassette_engine::Mutation;
use cassette_engine::commitlog::SyncMode;
use cassette_rows::{Clustering, DecoratedKey, PartitionUpdate, RowBuilder, TableMetadata};

use super::*;
use crate::basics::timeouts::Timeout;

const TABLE: &str = "CREATE TABLE ks.t (k int, c int, v int, w int, a blob, b blob, PRIMARY KEY (k, c))";
const VIEWS: [&str; 2] = [
    "CREATE MATERIALIZED VIEW ks.by_v AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL AND c IS \
     NOT NULL PRIMARY KEY (v, k, c)",
    "CREATE MATERIALIZED VIEW ks.by_w AS SELECT * FROM ks.t WHERE w IS NOT NULL AND k IS NOT NULL AND c IS \
     NOT NULL PRIMARY KEY (w, k, c)",
];

/// Limits mutations to 16 KiB, and to 1 MiB with their view rows.
fn small(options: &mut Options) {
    options.engine.commitlog_segment_size = 32 << 10;
    options.engine.memtable_heap_space = 1 << 20;
}

fn defaults(_: &mut Options) {}

fn with_views(world: &World, change: fn(&mut Options)) -> Database {
    let database = world.open_with(change);
    let session = database.session();
    execute(&session, &[crate::store::views::tests::TABLE[0], TABLE]);
    execute(&session, &VIEWS);
    database
}

/// Key columns and the lengths of blobs, equal in table and views.
fn rows(database: &Database) -> Vec<(i32, i32, i32, i32, usize, usize)> {
    let session = database.session();
    let rows_of = |table: &str| {
        let rows = session.execute(&format!("SELECT k, c, v, w, a, b FROM ks.{table}"), ());
        let rows = rows.unwrap_or_else(|error| panic!("{table}: {error}"));
        let int = |bytes: Option<&[u8]>| i32::from_be_bytes(bytes.unwrap().try_into().unwrap());
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let mut found: Vec<_> = rows
            .iter()
            .map(|row| {
                let int = |column| int(row.bytes(column));
                (int(0), int(1), int(2), int(3), length(row.bytes(4)), length(row.bytes(5)))
            })
            .collect();
        found.sort_unstable();
        found
    };
    let of_table = rows_of("t");
    assert_eq!(rows_of("by_v"), of_table, "by_v");
    assert_eq!(rows_of("by_w"), of_table, "by_w");
    of_table
}

const INSERT: &str = "INSERT INTO ks.t (k, c, v, w, a) VALUES (?, ?, ?, ?, ?)";
const GROW: &str = "UPDATE ks.t SET b = ? WHERE k = ? AND c = ?";

#[test]
fn with_default_settings_a_row_of_22_mb_reaches_all_views_and_is_replayed() {
    let mut world = World::new();
    let database = with_views(&world, defaults);
    let session = database.session();
    let (length, growth) = (15_500_000, 6_500_000);
    session.execute(INSERT, (1, 1, 10, 20, vec![7u8; length])).unwrap();
    session.execute(GROW, (vec![8u8; growth], 1, 1)).unwrap();
    assert_eq!(rows(&database), [(1, 1, 10, 20, length, growth)]);
    world.clock.advance(Duration::from_micros(10));
    // A few bytes that move two entries of the whole row.
    session.execute("UPDATE ks.t SET v = 11, w = 21 WHERE k = 1 AND c = 1", ()).unwrap();
    let moved = [(1, 1, 11, 21, length, growth)];
    assert_eq!(rows(&database), moved);
    world.fs = world.fs.crash(1);
    drop((session, database));
    let database = world.open();
    assert_eq!(rows(&database), moved);
    database.close().unwrap();
    assert_eq!(rows(&world.open()), moved);
}

#[test]
fn a_crash_at_any_operation_leaves_a_large_row_in_all_views_or_nowhere() {
    let base = World::new();
    with_views(&base, small).close().unwrap();
    let (length, growth) = (15_000, 14_000);
    let states = [
        vec![],
        vec![(1, 1, 10, 20, length, 0)],
        vec![(1, 1, 10, 20, length, growth)],
        vec![(1, 1, 11, 21, length, growth)],
    ];
    for operations in 1.. {
        let world = World { fs: base.fs.fork(), clock: base.clock.clone() };
        let database = world.open_with(small);
        let session = database.session();
        world.fs.fail_from(world.fs.operations() + operations);
        let steps: [&dyn Fn() -> bool; 3] = [
            &|| session.execute(INSERT, (1, 1, 10, 20, vec![7u8; length])).is_ok(),
            &|| session.execute(GROW, (vec![8u8; growth], 1, 1)).is_ok(),
            &|| session.execute("UPDATE ks.t SET v = 11, w = 21 WHERE k = 1 AND c = 1", ()).is_ok(),
        ];
        let acknowledged = steps.iter().take_while(|step| step()).count();
        for fs in [world.fs.crash(operations), world.fs.kill()] {
            fs.heal();
            let world = World { fs, clock: world.clock.clone() };
            let found = rows(&world.open_with(small));
            let state = states.iter().position(|state| *state == found);
            assert!(
                state == Some(acknowledged) || state == Some(acknowledged + 1),
                "after {operations} operations and {acknowledged} acknowledged: {found:?}"
            );
        }
        if acknowledged == steps.len() {
            break;
        }
    }
}

#[test]
fn a_write_of_several_partitions_may_be_larger_than_a_segment() {
    let world = World::new();
    let database = with_views(&world, small);
    let session = database.session();
    let all: Vec<i32> = (0..5).collect();
    session
        .execute("UPDATE ks.t SET a = ?, v = 1, w = 2 WHERE k IN ? AND c = 0", (vec![7u8; 15_000], all))
        .unwrap();
    assert_eq!(rows(&database).len(), 5);
    session
        .execute(
            "INSERT INTO ks.t (k, c, v, w, a) VALUES (?, 0, 1, 2, ?) IF NOT EXISTS",
            (9, vec![7u8; 15_000]),
        )
        .unwrap();
    world.clock.advance(Duration::from_micros(10));
    session.execute("UPDATE ks.t SET v = 8 WHERE k = 9 AND c = 0 IF v = 1", ()).unwrap();
    assert_eq!(rows(&database).last(), Some(&(9, 0, 8, 2, 15_000, 0)));
}

#[test]
fn a_mutation_larger_than_half_a_segment_is_refused_in_cassandras_words() {
    let world = World::new();
    let database = with_views(&world, small);
    let session = database.session();
    for statement in [INSERT, "INSERT INTO ks.t (k, c, v, w, a) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"] {
        let error = session.execute(statement, (1, 1, 10, 20, vec![7u8; 17_000])).unwrap_err();
        assert!(matches!(error, DatabaseError::WriteFailure { .. }), "{error:?}");
        let text = error.to_string();
        let expected = "/16384) for keyspace: ks. Top keys are: t.1";
        assert!(
            text.starts_with("Rejected an oversized mutation (170") && text.ends_with(expected),
            "{text}"
        );
    }
    // All changes of one partition are one mutation, regardless of the number of statements.
    let batch = "BEGIN BATCH INSERT INTO ks.t (k, c, v, w, a) VALUES (1, 1, 10, 20, ?); \
                 INSERT INTO ks.t (k, c, v, w, a) VALUES (1, 2, 10, 20, ?); APPLY BATCH";
    let error = session.execute(batch, (vec![7u8; 9000], vec![7u8; 9000])).unwrap_err();
    assert!(error.to_string().contains("Rejected an oversized mutation (180"), "{error}");
    assert_eq!(rows(&database), []);
}

#[test]
fn more_view_rows_than_memtables_may_hold_are_refused_and_nothing_is_written() {
    let world = World::new();
    let database = with_views(&world, small);
    let session = database.session();
    for k in 0..40 {
        session.execute(INSERT, (k, 0, 10, 20, vec![7u8; 15_000])).unwrap();
    }
    let before = rows(&database);
    world.clock.advance(Duration::from_micros(10));
    // Twice 600 kB.
    let all: Vec<i32> = (0..40).collect();
    let error = session.execute("UPDATE ks.t SET v = 11, w = 21 WHERE k IN ? AND c = 0", (all,)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("expected at most 1048576") && text.contains("memtable_heap_space"), "{text}");
    assert_eq!(rows(&database), before);
    let some: Vec<i32> = (0..20).collect();
    session.execute("UPDATE ks.t SET v = 11, w = 21 WHERE k IN ? AND c = 0", (some,)).unwrap();
    assert_eq!(rows(&database).iter().filter(|row| row.2 == 11).count(), 20);
}

#[test]
fn a_view_is_built_over_a_partition_larger_than_any_commit_log_record() {
    let world = World::new();
    let database = world.open_with(small);
    let session = database.session();
    execute(&session, &[crate::store::views::tests::TABLE[0], TABLE]);
    for c in 0..150 {
        session.execute(INSERT, (1, c, 10, c, vec![7u8; 15_000])).unwrap();
    }
    execute(&session, &VIEWS);
    assert_eq!(rows(&database).len(), 150);
    drop(session);
    database.close().unwrap();
    assert_eq!(rows(&world.open_with(small)).len(), 150);
}

/// Large writes wait for partition locks, for each other's view rows, and for admission by the
/// engine, in this order.
#[test]
fn large_writes_of_many_threads_all_reach_their_views() {
    let world = World::new();
    let database = with_views(&world, |options| {
        options.engine.background_threads = true;
        options.engine.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(1) };
        options.engine.commitlog_segment_size = 2 << 20;
        options.engine.memtable_heap_space = 16 << 20;
    });
    execute(&database.session(), &["CREATE TABLE ks.other (k int PRIMARY KEY, a blob)"]);
    let value = vec![7u8; 700_000];
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (session, value) = (database.session(), &value);
            scope.spawn(move || {
                for turn in 0..8 {
                    // Two threads write each partition; a write adds 700 kB to the table and to
                    // each view.
                    let values = (thread % 3, thread, thread * 10 + turn, turn, value.clone());
                    session.execute(INSERT, values).unwrap();
                    match thread {
                        0 => session
                            .execute("INSERT INTO ks.other (k, a) VALUES (?, ?)", (turn, value.clone())),
                        1 => session.execute("UPDATE ks.t SET v = 8 WHERE k = 1 AND c = 1 IF w = ?", (turn,)),
                        // A large row and a small one, in partitions of two other threads.
                        2 => session
                            .execute("UPDATE ks.t SET v = 1, w = ? WHERE k IN (0, 2) AND c = 2", (turn,)),
                        _ => session.execute("INSERT INTO ks.other (k) VALUES (?)", (turn,)),
                    }
                    .unwrap();
                }
            });
        }
    });
    let found = rows(&database);
    assert_eq!(found.iter().filter(|row| row.4 == value.len()).count(), 6);
    database.close().unwrap();
    assert_eq!(rows(&world.open()), found);
}

/// Two views, and writes that need not wait for a sync.
fn periodic(options: &mut Options) {
    options.engine.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(1) };
    options.engine.commitlog_segment_size = 8 << 20;
    options.engine.memtable_heap_space = 64 << 20;
}

fn periodic_with_threads(options: &mut Options) {
    periodic(options);
    options.engine.background_threads = true;
}

/// Executes `statement` in a thread while another large write is in progress. Calls `meanwhile`
/// once it waits for that. Returns whether it was applied.
fn while_stalled(database: &Database, statement: &str, meanwhile: impl FnOnce(&Session)) -> bool {
    let large = &database.store().large_view_writes;
    let other = large.lock().unwrap();
    let waits = || large.waits.load(Ordering::SeqCst);
    let before = waits();
    std::thread::scope(|scope| {
        let stalled = scope.spawn(|| {
            let rows = database.session().execute(statement, ()).unwrap();
            rows.iter().all(|row| row.bytes(0) == Some(&[1]))
        });
        while waits() == before && !stalled.is_finished() {
            std::thread::yield_now();
        }
        assert!(!stalled.is_finished(), "{statement}: did not wait");
        meanwhile(&database.session());
        drop(other);
        stalled.join().unwrap()
    })
}

/// Executes a statement that must not have to wait.
fn at_once(session: &Session, statement: &str) {
    let result = crate::without_waiting(|| session.execute(statement, ()));
    result.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

#[test]
fn a_large_write_that_waits_for_another_one_blocks_no_write_of_its_partition() {
    let world = World::new();
    let database = with_views(&world, periodic);
    let length = 700_000;
    database.session().execute(INSERT, (1, 1, 10, 20, vec![7u8; length])).unwrap();
    world.clock.advance(Duration::from_micros(10));
    let moved = "UPDATE ks.t SET v = 11, w = 21 WHERE k = 1 AND c = 1";
    assert!(while_stalled(&database, moved, |session| {
        at_once(session, "INSERT INTO ks.t (k, c, v, w) VALUES (1, 2, 5, 6)");
        at_once(session, "UPDATE ks.t SET v = 8 WHERE k = 1 AND c = 2 IF w = 6");
        // The row that is moved is read again.
        at_once(session, "UPDATE ks.t SET b = 0x0102 WHERE k = 1 AND c = 1");
    }));
    assert_eq!(rows(&database), [(1, 1, 11, 21, length, 2), (1, 2, 8, 6, 0, 0)]);
}

#[test]
fn a_large_conditional_write_that_waits_decides_again_afterwards() {
    let world = World::new();
    let database = with_views(&world, periodic);
    let length = 1_200_000;
    database.session().execute(INSERT, (1, 1, 10, 20, vec![7u8; length])).unwrap();
    world.clock.advance(Duration::from_micros(10));
    let moved = "UPDATE ks.t SET v = 11 WHERE k = 1 AND c = 1 IF v = 10";
    let applied = while_stalled(&database, moved, |session| {
        at_once(session, "UPDATE ks.t SET b = 0x01 WHERE k = 1 AND c = 1");
    });
    assert!(applied);
    assert_eq!(rows(&database), [(1, 1, 11, 20, length, 1)]);
    world.clock.advance(Duration::from_micros(10));
    let moved = "UPDATE ks.t SET v = 12 WHERE k = 1 AND c = 1 IF b = 0x01";
    let applied = while_stalled(&database, moved, |session| {
        at_once(session, "UPDATE ks.t SET b = 0x0203 WHERE k = 1 AND c = 1");
    });
    assert!(!applied, "the condition holds no more");
    assert_eq!(rows(&database), [(1, 1, 11, 20, length, 2)]);
}

/// Executes a large write in a thread while the engine is busy with that of another. Calls
/// `meanwhile` once it waits.
fn while_engine_is_busy<T: Send>(
    database: &Database,
    write: impl FnOnce(Session) -> T + Send,
    meanwhile: impl FnOnce(&Arc<TableMetadata>),
) -> T {
    let engine = database.engine();
    let table = database.catalog().table("ks", "t").unwrap().clone();
    let mut row = RowBuilder::new(Clustering::of(&[&[0; 4]]));
    row.live_cell(table.column("a").unwrap().id, &vec![7; 9 << 20], 1);
    let mut update = PartitionUpdate::new(partition(0));
    update.rows.push(row.finish());
    let other = engine.try_admit(&[Mutation { table: table.clone(), update }], None).unwrap();
    let stalls = || engine.metrics().writes_stalled.get();
    let before = stalls();
    std::thread::scope(|scope| {
        let stalled = scope.spawn(|| write(database.session()));
        while stalls() == before && !stalled.is_finished() {
            std::thread::yield_now();
        }
        meanwhile(&table);
        drop(other);
        stalled.join().unwrap()
    })
}

fn partition(k: i32) -> DecoratedKey {
    DecoratedKey::new(k.to_be_bytes().to_vec().into())
}

#[test]
fn a_write_that_waits_for_the_engine_locks_no_partition() {
    let world = World::new();
    let database = with_views(&world, periodic_with_threads);
    let engine = database.engine();
    let value = || vec![7u8; 700_000];
    let is_free = |table: &Arc<TableMetadata>| {
        assert!(engine.try_lock_partition(table.id, &partition(1)).is_some(), "the partition is locked");
    };
    while_engine_is_busy(&database, |session| session.execute(INSERT, (1, 1, 10, 20, value())), is_free)
        .unwrap();
    let conditional = format!("{INSERT} IF NOT EXISTS");
    let write = |session: Session| session.execute(&conditional, (1, 2, 10, 20, value()));
    while_engine_is_busy(&database, write, is_free).unwrap();
    let expected = [(1, 1, 10, 20, 700_000, 0), (1, 2, 10, 20, 700_000, 0)];
    assert_eq!(rows(&database), expected);
    database.close().unwrap();
    assert_eq!(rows(&world.open()), expected);
}

#[test]
fn a_write_that_waits_for_the_engine_ends_with_a_write_timeout() {
    let world = World::new();
    let database = with_views(&world, periodic_with_threads);
    database.store().timeouts().set(Timeout::Write, Some(Duration::from_secs(2)));
    let write = |session: Session| session.execute(INSERT, (1, 1, 10, 20, vec![7u8; 700_000]));
    let ended = std::sync::Barrier::new(2);
    let outcome = while_engine_is_busy(
        &database,
        |session| {
            let outcome = write(session);
            ended.wait();
            outcome
        },
        |_| {
            world.clock.advance(Duration::from_secs(3));
            // The other write is in progress until this one has ended.
            ended.wait();
        },
    );
    let error = outcome.unwrap_err();
    assert!(matches!(error, DatabaseError::WriteTimeout { .. }), "{error:?}");
    assert_eq!(rows(&database), []);
}

#[test]
fn a_deletion_that_covers_more_view_rows_than_memory_holds_names_its_remedy() {
    let world = World::new();
    let database = with_views(&world, small);
    let session = database.session();
    for c in 0..3000 {
        session.execute(INSERT, (1, c, 10, c, vec![7u8; 10])).unwrap();
    }
    world.clock.advance(Duration::from_micros(10));
    for deletion in ["k = 1", "k = 1 AND c >= 10"] {
        let error = session.execute(&format!("DELETE FROM ks.t WHERE {deletion}"), ()).unwrap_err();
        assert!(matches!(error, DatabaseError::Invalid(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("1048576") && text.contains("smaller ranges of clustering columns"), "{text}");
    }
    assert_eq!(rows(&database).len(), 3000);
    for from in (0..3000).step_by(500) {
        session.execute("DELETE FROM ks.t WHERE k = 1 AND c >= ? AND c < ?", (from, from + 500)).unwrap();
    }
    session.execute("DELETE FROM ks.t WHERE k = 1", ()).unwrap();
    assert_eq!(rows(&database), []);
}

#[test]
fn a_partition_whose_rows_are_larger_than_memtables_may_be_is_deleted_with_its_view_rows() {
    let world = World::new();
    let database = with_views(&world, small);
    let session = database.session();
    for c in 0..150 {
        session.execute(INSERT, (1, c, 10, c, vec![7u8; 15_000])).unwrap();
    }
    world.clock.advance(Duration::from_micros(10));
    session.execute("DELETE FROM ks.t WHERE k = 1", ()).unwrap();
    assert_eq!(rows(&database), []);
}
