//! A view shows its base table's rows under another key after all writes, deletions, flushes and
//! losses.

mod large;
mod truncation;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cassette_vfs::{FakeFileSystem, ManualClock};
use proptest::prelude::*;

use crate::api::database::{Database, Options};
use crate::api::embedded::Session;
use crate::basics::error::DatabaseError;

struct World {
    fs: FakeFileSystem,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> Self {
        Self { fs: FakeFileSystem::new(), clock: Arc::new(ManualClock::at_micros(1_000_000_000_000)) }
    }

    fn open(&self) -> Database {
        self.open_with(|_| {})
    }

    fn open_with(&self, change: impl FnOnce(&mut Options)) -> Database {
        let mut options = Options {
            file_system: Arc::new(self.fs.clone()),
            clock: self.clock.clone(),
            materialized_views_enabled: true,
            ..Options::new("/data")
        };
        options.engine.commitlog_sync = cassette_engine::commitlog::SyncMode::Batch;
        options.engine.background_threads = false;
        change(&mut options);
        Database::open(options).unwrap()
    }
}

const TABLE: [&str; 3] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "USE ks",
    "CREATE TABLE t (k int, c int, v int, w int, x int, m map<int, int>, PRIMARY KEY (k, c))",
];
/// Tables without collections take another path in reads.
const FLAT_TABLE: [&str; 3] =
    [TABLE[0], TABLE[1], "CREATE TABLE t (k int, c int, v int, w int, x int, m int, PRIMARY KEY (k, c))"];

/// `part` omits columns and has only the base table's key columns; see [`check_part`].
const VIEWS: [&str; 4] = [
    "CREATE MATERIALIZED VIEW by_v AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT \
     NULL PRIMARY KEY (v, k, c)",
    "CREATE MATERIALIZED VIEW by_c AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, \
     k) WITH CLUSTERING ORDER BY (k DESC)",
    "CREATE MATERIALIZED VIEW part AS SELECT k, c, w FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
    "CREATE MATERIALIZED VIEW few AS SELECT k, c, v, w FROM t WHERE k > 0 AND c IN (0, 2) AND v IS NOT NULL \
     PRIMARY KEY ((k, v), c)",
];

fn execute(session: &Session, statements: &[&str]) {
    for statement in statements {
        session.execute(statement, ()).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

type Found = BTreeMap<Vec<Option<Vec<u8>>>, usize>;

/// The rows of a query, sorted.
fn found(session: &Session, cql: &str) -> Found {
    let rows = session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
    let mut found = Found::new();
    for row in rows.iter() {
        let values = (0..rows.columns().len()).map(|i| row.bytes(i).map(<[u8]>::to_vec)).collect();
        *found.entry(values).or_default() += 1;
    }
    found
}

/// Compares each view with the query that it represents.
fn check(session: &Session, when: &str) {
    for (columns, view, base) in [
        ("v, k, c, w, x, m", "by_v", "v > -1000"),
        ("v, k, c, w, x, m", "by_c", "k > -1000"),
        ("k, c, v, w", "few", "k > 0 AND c IN (0, 2) AND v > -1000"),
    ] {
        let expected = found(session, &format!("SELECT {columns} FROM t WHERE {base} ALLOW FILTERING"));
        let found = found(session, &format!("SELECT {columns} FROM {view}"));
        assert_eq!(found, expected, "{view} {when}");
    }
    check_part(session, when);
}

/// Checks Cassandra's rule: of the columns that such a view omits, the live ones make the entry
/// exist by its liveness. When the last of them is deleted while a shown cell keeps the row alive,
/// that liveness is not removed. If the cell then expires or is deleted, the row no longer exists,
/// but its entry does, without cells, until it is written or deleted again (CASSANDRA-11500). No
/// row is missing, and none shows a value that it does not have.
fn check_part(session: &Session, when: &str) {
    let expected = found(session, "SELECT k, c, w FROM t");
    let found = found(session, "SELECT k, c, w FROM part");
    for row in expected.keys() {
        assert!(found.contains_key(row), "part lacks {row:?} {when}");
    }
    for entry in found.keys().filter(|entry| !expected.contains_key(*entry)) {
        assert_eq!(entry[2], None, "part has {entry:?} {when}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write(String),
    Flush,
    Compact,
    Pass(u64),
    Crash(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let row = || (0..2i32, 0..3i32).prop_map(|(k, c)| format!("k = {k} AND c = {c}"));
    let value = || prop_oneof![4 => (0..3i32).prop_map(|v| v.to_string()), 1 => Just("null".to_owned())];
    let ttl =
        || prop_oneof![4 => Just(String::new()), 1 => (1..30u32).prop_map(|ttl| format!("USING TTL {ttl}"))];
    let set = || {
        prop_oneof![
            3 => value().prop_map(|v| format!("v = {v}")),
            2 => value().prop_map(|w| format!("w = {w}")),
            2 => value().prop_map(|x| format!("x = {x}")),
            1 => (0..3i32, value()).prop_map(|(key, value)| format!("m[{key}] = {value}")),
            1 => (0..3i32).prop_map(|key| format!("m = {{{key}: 1}}")),
        ]
    };
    let write = prop_oneof![
        3 => (0..2i32, 0..3i32, value(), value(), ttl()).prop_map(|(k, c, v, w, ttl)|
            format!("INSERT INTO t (k, c, v, w) VALUES ({k}, {c}, {v}, {w}) {ttl}")),
        1 => (0..2i32, 0..3i32).prop_map(|(k, c)| format!("INSERT INTO t (k, c) VALUES ({k}, {c})")),
        6 => (set(), row(), ttl()).prop_map(|(set, row, ttl)| format!("UPDATE t {ttl} SET {set} WHERE {row}")),
        1 => (set(), row()).prop_map(|(set, row)| format!("UPDATE t SET {set} WHERE {row} IF EXISTS")),
        1 => (row(), row(), value(), value()).prop_map(|(a, b, v, w)| format!(
            "BEGIN BATCH UPDATE t SET v = {v} WHERE {a}; UPDATE t SET v = {w} WHERE {b}; APPLY BATCH")),
        1 => row().prop_map(|row| format!("DELETE FROM t WHERE {row}")),
        1 => row().prop_map(|row| format!("DELETE v FROM t WHERE {row}")),
        1 => row().prop_map(|row| format!("DELETE w, m FROM t WHERE {row}")),
        1 => (0..2i32, 0..3i32).prop_map(|(k, c)| format!("DELETE FROM t WHERE k = {k} AND c < {c}")),
        1 => (0..2i32).prop_map(|k| format!("DELETE FROM t WHERE k = {k}")),
    ];
    let step = prop_oneof![
        12 => write.prop_map(Step::Write),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => (1..20u64).prop_map(Step::Pass),
        1 => (0..1000u64).prop_map(Step::Crash),
    ];
    prop::collection::vec(step, 1..40)
}

fn run(steps: &[Step], views_after: usize) {
    run_on(&TABLE, steps, views_after);
    // Without steps that only maps support.
    let is_flat = |step: &&Step| !matches!(step, Step::Write(cql) if cql.contains("m[") || cql.contains("{"));
    let flat: Vec<_> = steps.iter().filter(is_flat).cloned().collect();
    run_on(&FLAT_TABLE, &flat, views_after);
}

fn run_on(table: &[&str], steps: &[Step], views_after: usize) {
    let mut world = World::new();
    let mut database = world.open();
    let mut session = database.session();
    execute(&session, table);
    for (number, step) in steps.iter().enumerate() {
        if number == views_after {
            execute(&session, &VIEWS);
        }
        match step {
            // Null as a value of the key is accepted: it deletes.
            Step::Write(cql) => {
                drop(session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}")))
            }
            Step::Flush => database.engine().flush(None).unwrap(),
            Step::Compact => {
                database.engine().flush(None).unwrap();
                for table in database.catalog().keyspace("ks").unwrap().tables.values() {
                    database.engine().compact(table.id).unwrap();
                }
            }
            Step::Pass(seconds) => world.clock.advance(Duration::from_secs(*seconds)),
            Step::Crash(seed) => {
                world.fs = world.fs.crash(*seed);
                drop((session, database));
                database = world.open();
                session = database.session();
                execute(&session, &["USE ks"]);
            }
        }
        world.clock.advance(Duration::from_micros(10));
        if number >= views_after {
            check(&session, &format!("after step {number}, {step:?}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn views_are_what_their_queries_give(steps in steps(), views_after in 0..20usize) {
        run(&steps, views_after);
    }
}

fn writes(statements: &[&str]) -> Vec<Step> {
    statements.iter().map(|cql| Step::Write((*cql).to_owned())).collect()
}

#[test]
fn an_entry_that_comes_back_after_its_partition_was_deleted_shows_nothing_from_before() {
    let steps = writes(&[
        "INSERT INTO t (k, c, v, w) VALUES (0, 1, 1, 1)",
        "UPDATE t SET v = 2 WHERE k = 0 AND c = 1",
        "DELETE FROM t WHERE k = 0",
        "UPDATE t SET v = 1 WHERE k = 0 AND c = 1",
        "INSERT INTO t (k, c, v, w) VALUES (1, 1, 1, 1)",
        "UPDATE t SET v = 2 WHERE k = 1 AND c = 1",
        "DELETE FROM t WHERE k = 1 AND c < 2",
        "UPDATE t SET v = 1 WHERE k = 1 AND c = 1",
    ]);
    run(&steps, 0);
}

#[test]
fn a_write_older_than_a_deletion_of_its_range_makes_no_entry() {
    // The clock is at 1,000,000,000,000.
    run(
        &writes(&[
            "DELETE FROM t USING TIMESTAMP 1000000000020 WHERE k = 0 AND c > 0",
            "INSERT INTO t (k, c, v, w) VALUES (0, 1, 1, 1) USING TIMESTAMP 1000000000010",
            "UPDATE t USING TIMESTAMP 1000000000020 SET v = 2, w = 3 WHERE k = 0 AND c = 2",
            "INSERT INTO t (k, c, v) VALUES (0, 1, 1) USING TIMESTAMP 1000000000030",
            "UPDATE t USING TIMESTAMP 1000000000015 SET w = 3 WHERE k = 0 AND c = 1",
            "DELETE FROM t USING TIMESTAMP 1000000000040 WHERE k = 0",
        ]),
        0,
    );
}

#[test]
fn the_end_of_a_row_that_only_updates_made_is_stored_as_files_can_hold_it() {
    let mut steps = writes(&["UPDATE t SET v = 1 WHERE k = 0 AND c = 0"]);
    steps.push(Step::Flush);
    steps.extend(writes(&["DELETE v FROM t WHERE k = 0 AND c = 0"]));
    steps.push(Step::Flush);
    run(&steps, 0);
}

#[test]
fn an_entry_that_a_column_left_out_had_made_exist_outlives_its_row_as_in_cassandra() {
    let world = World::new();
    let database = world.open();
    let session = database.session();
    execute(&session, &TABLE);
    execute(&session, &VIEWS);
    let count = |from: &str| found(&session, &format!("SELECT k, c, w FROM {from}")).len();
    let step = |cql: &str| {
        execute(&session, &[cql]);
        world.clock.advance(Duration::from_micros(10));
    };
    step("UPDATE t USING TTL 1 SET w = 0 WHERE k = 1 AND c = 0");
    step("UPDATE t SET v = 0 WHERE k = 1 AND c = 0");
    step("DELETE v FROM t WHERE k = 1 AND c = 0");
    world.clock.advance(Duration::from_secs(2));
    assert_eq!((count("t"), count("part"), count("by_c")), (0, 1, 0));
    step("DELETE FROM t WHERE k = 1 AND c = 0");
    assert_eq!(count("part"), 1, "there was no row any more that could have been deleted");
    step("INSERT INTO t (k, c) VALUES (1, 0)");
    step("DELETE FROM t WHERE k = 1 AND c = 0");
    assert_eq!((count("t"), count("part")), (0, 0));
}

#[test]
fn a_view_is_built_over_rows_that_are_in_sstables() {
    let mut steps = writes(&["INSERT INTO t (k, c, v, w) VALUES (0, 0, 0, 0)"]);
    steps.push(Step::Flush);
    steps.extend(writes(&["INSERT INTO t (k, c) VALUES (1, 0)"]));
    run(&steps, 2);
}

#[test]
fn a_view_of_many_partitions_is_built_over_what_is_there_and_goes_on_after_a_crash() {
    let mut world = World::new();
    let database = world.open();
    let session = database.session();
    execute(&session, &TABLE);
    let insert = session.prepare("INSERT INTO t (k, c, v) VALUES (?, 0, ?)").unwrap();
    for k in 0..1300 {
        session.execute(&insert, (k, k % 7)).unwrap();
    }
    execute(&session, &VIEWS);
    check(&session, "after it was built");
    let built = "SELECT view_name FROM system.built_views WHERE keyspace_name = 'ks'";
    assert_eq!(session.execute(built, ()).unwrap().len(), 4);
    let flushed = database.catalog().keyspace("ks").unwrap().views["by_v"].table.id;
    database.engine().flush(Some(flushed)).unwrap();
    // As after a crash before any progress was stored: the view is truncated and built again.
    for view in database.catalog().keyspace("ks").unwrap().views.values() {
        crate::store::views::unbuild(database.store(), view).unwrap();
    }
    world.fs = world.fs.crash(5);
    world.clock.advance(Duration::from_secs(1));
    drop((session, database, insert));
    let database = world.open();
    let session = database.session();
    execute(&session, &["USE ks"]);
    check(&session, "after a crash");
    assert_eq!(session.execute(built, ()).unwrap().len(), 4);
    // No statement removed what was flushed.
    let kept: Vec<_> = database.engine().snapshots().unwrap();
    assert_eq!(kept.iter().map(|kept| &*kept.table).collect::<Vec<_>>(), ["by_v"]);
    assert!(kept[0].true_size > 0);
    execute(&session, &["DROP MATERIALIZED VIEW by_v"]);
    assert_eq!(session.execute(built, ()).unwrap().len(), 3);
}

#[test]
fn writers_of_the_same_rows_keep_views_in_step() {
    let world = World::new();
    let database = world.open();
    let session = database.session();
    execute(&session, &TABLE);
    execute(&session, &VIEWS);
    let update = session.prepare("UPDATE t SET v = ? WHERE k = ? AND c = ?").unwrap();
    let both = "BEGIN BATCH UPDATE t SET v = 1 WHERE k = 0 AND c = 0; UPDATE t SET v = 2 WHERE k = 1 AND c \
        = 0; APPLY BATCH";
    std::thread::scope(|scope| {
        for thread in 0..4_i32 {
            let (session, update) = (&session, &update);
            scope.spawn(move || {
                for i in 0..150_i32 {
                    session.execute(update, ((i + thread) % 5, i % 2, i % 3)).unwrap();
                    if i % 10 == 0 {
                        session.execute(both, ()).unwrap();
                        session.execute("UPDATE t SET v = 9 WHERE k = 0 AND c = 1 IF EXISTS", ()).unwrap();
                    }
                }
            });
        }
    });
    check(&session, "after all writers");
}

#[test]
fn truncation_and_altered_bases_are_followed_and_views_are_off_by_default() {
    let world = World::new();
    let database = world.open();
    let session = database.session();
    execute(&session, &TABLE);
    execute(&session, &VIEWS);
    execute(&session, &["INSERT INTO t (k, c, v) VALUES (1, 0, 5)", "ALTER TABLE t ADD y int"]);
    execute(&session, &["UPDATE t SET y = 8 WHERE k = 1 AND c = 0", "ALTER TABLE t RENAME k TO kk"]);
    assert_eq!(found(&session, "SELECT v, kk, c, y FROM by_v"), found(&session, "SELECT v, kk, c, y FROM t"));
    drop((session, database));
    let database = world.open();
    let session = database.session();
    execute(&session, &["USE ks"]);
    assert_eq!(found(&session, "SELECT v, kk, c, y FROM by_v"), found(&session, "SELECT v, kk, c, y FROM t"));
    let refused = database.refresh("ks", "t").unwrap_err().to_string();
    assert!(refused.contains("SSTables cannot be taken into ks.t"), "{refused}");
    execute(&session, &["TRUNCATE t"]);
    assert!(found(&session, "SELECT * FROM by_c").is_empty());

    let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
    let session = Database::open(options).unwrap().session();
    execute(&session, &TABLE);
    let refused = session.execute(VIEWS[0], ()).unwrap_err().to_string();
    assert!(refused.contains("Set `materialized_views_enabled: true`"), "{refused}");
}

#[test]
fn bind_markers_in_definitions_are_refused_as_invalid() {
    let database = World::new().open();
    let session = database.session();
    execute(&session, &TABLE);
    let view =
        "CREATE MATERIALIZED VIEW o AS SELECT * FROM ks.t WHERE k = ? AND c IS NOT NULL PRIMARY KEY (c, k)";
    for answer in [
        database.prepare(None, view).map(drop),
        session.execute(view, (1,)).map(drop),
        session.execute(view, ()).map(drop),
    ] {
        let message = "Bind variables are not allowed in CREATE MATERIALIZED VIEW statements";
        assert!(matches!(&answer, Err(DatabaseError::Invalid(text)) if text == message), "{answer:?}");
    }
    for cql in [
        "CREATE TABLE ks.u (k int PRIMARY KEY) WITH compression = {'class': ?}",
        "CREATE TABLE ks.u (k int PRIMARY KEY) WITH comment = ?",
        "ALTER TABLE ks.t WITH compaction = {'class': ?}",
        "CREATE KEYSPACE o WITH replication = {'class': 'SimpleStrategy', 'replication_factor': ?}",
        "CREATE INDEX ON ks.t (v) WITH OPTIONS = {'a': ?}",
        "CREATE CUSTOM INDEX ON ks.t (v) USING 'sai' WITH OPTIONS = {'case_sensitive': ?}",
        "SELECT m[?] FROM ks.t",
        "SELECT m[?..?] FROM ks.t",
        "SELECT ? FROM ks.t",
        "SELECT (int) ? FROM ks.t",
        "SELECT k FROM ks.t ORDER BY v ANN OF ? LIMIT ?",
        "SELECT k FROM ks.t WHERE token(k) > ? AND expr(i, ?) GROUP BY k PER PARTITION LIMIT ? ALLOW FILTERING",
        "UPDATE ks.t USING TTL ? AND TIMESTAMP ? SET m[?] = ? WHERE k = ? AND c = ? IF m[?] = ? AND v IN (?, ?)",
        "BEGIN BATCH USING TIMESTAMP ? DELETE m[?] FROM ks.t WHERE k = ? AND c IN ? APPLY BATCH",
        "INSERT INTO ks.t JSON ? USING TTL ?",
        "DESCRIBE TABLE ?",
        "USE ?",
        "TRUNCATE ?",
        "CREATE AGGREGATE ks.a (int) SFUNC f STYPE int INITCOND ?",
    ] {
        if let Err(error) = database.prepare(None, cql) {
            assert!(
                matches!(
                    error,
                    DatabaseError::Invalid(_) | DatabaseError::Syntax { .. } | DatabaseError::Config(_)
                ),
                "{cql}: {error:?}"
            );
        }
    }
}

#[test]
fn an_entry_that_ended_stays_gone_when_the_clock_is_set_back() {
    let world = World::new();
    let database = world.open();
    let session = database.session();
    execute(&session, &TABLE);
    execute(&session, &[VIEWS[3], "UPDATE t SET v = 4 WHERE k = 1 AND c = 2"]);
    world.clock.advance(Duration::from_secs(100_000));
    execute(&session, &["UPDATE t SET v = 3 WHERE k = 1 AND c = 2"]);
    world.clock.set_micros(1_000_000_000_000);
    let entries = |v: i32| found(&session, &format!("SELECT k, c FROM few WHERE k = 1 AND v = {v}")).len();
    assert_eq!((entries(4), entries(3)), (0, 1));
}

/// Found by the simulation (seed 24470): views were truncated before the truncation of the base
/// table failed, and stayed empty.
#[test]
fn a_view_shows_its_base_after_a_truncation_that_failed() {
    let world = World::new();
    let database = world.open();
    let session = database.session();
    execute(&session, &TABLE);
    execute(&session, &VIEWS);
    execute(
        &session,
        &["INSERT INTO t (k, c, v) VALUES (1, 0, 5)", "INSERT INTO t (k, c, v) VALUES (1, 2, 6)"],
    );
    world.fs.fail_when(|operation| {
        let path = operation.path.to_string_lossy();
        (path.contains("/ks/t-") && path.ends_with("-Data.db")).then_some(std::io::ErrorKind::StorageFull)
    });
    session.execute("TRUNCATE t", ()).unwrap_err();
    world.fs.heal();
    let rows = found(&session, "SELECT v, k, c FROM t");
    assert_eq!(rows.len(), 2);
    assert_eq!(found(&session, "SELECT v, k, c FROM by_v"), rows);
    execute(&session, &["TRUNCATE t"]);
    assert!(found(&session, "SELECT v, k, c FROM by_v").is_empty());
}
