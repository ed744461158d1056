//! Writes whose view rows make their commit log record larger than half a segment, or than a whole one.

use cassette_engine::commitlog::SyncMode;

use super::*;

const TABLE: &str = "CREATE TABLE ks.t (k int, c int, v int, w int, a blob, b blob, PRIMARY KEY (k, c))";
const VIEWS: [&str; 2] = [
    "CREATE MATERIALIZED VIEW ks.by_v AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, k, c)",
    "CREATE MATERIALIZED VIEW ks.by_w AS SELECT * FROM ks.t WHERE w IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (w, k, c)",
];

/// Mutations of 16 KiB, and 1 MiB with their view rows.
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

/// Key columns and the lengths of blobs, in table and views alike.
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
    // A few bytes that bring two entries of the whole row with them.
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
    // The changes of one partition are one mutation, in however many statements.
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

/// Large writes wait for locks of partitions, for each other's view rows, and for the engine to admit them, in this order.
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
                    // Two threads write each partition; a write brings 700 kB to the table and to each view.
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
