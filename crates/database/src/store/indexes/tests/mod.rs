mod analyzed;
mod concurrent;
mod crashes;
mod metrics;

use std::sync::Arc;

use bytes::Bytes;
use cassette_vfs::{FakeFileSystem, FileSystem, ManualClock};
use proptest::prelude::*;

use crate::api::database::{Database, Options};
use crate::api::embedded::{Rows, Session};
use crate::basics::error::DatabaseError;
use crate::basics::request::StatementOptions;

/// A database whose files survive it.
struct Files {
    fs: FakeFileSystem,
    clock: Arc<ManualClock>,
}

impl Files {
    fn new() -> Self {
        Self { fs: FakeFileSystem::new(), clock: Arc::new(ManualClock::at_micros(1_700_000_000_000_000)) }
    }

    fn options(&self) -> Options {
        let options = Options::new("/data");
        Options {
            file_system: Arc::new(self.fs.clone()),
            clock: self.clock.clone(),
            engine: cassette_engine::Options { background_threads: false, ..options.engine },
            ..options
        }
    }

    fn open(&self) -> (Database, Session) {
        let database = Database::open(self.options()).unwrap();
        let session = database.session();
        run(
            &session,
            "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        run(&session, "USE ks");
        (database, session)
    }
}

#[track_caller]
fn run(session: &Session, cql: &str) -> Rows {
    session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"))
}

/// The values of each row, read in pages of `size` rows.
fn pages(session: &Session, cql: &str, size: i32) -> Result<Vec<Vec<Option<Bytes>>>, DatabaseError> {
    let mut all = Vec::new();
    let mut state = None;
    loop {
        let options =
            StatementOptions { page_size: Some(size), paging_state: state, ..StatementOptions::default() };
        let rows = session.execute_with(cql, (), &options)?;
        let columns = rows.columns().len();
        all.extend(
            rows.iter().map(|row| {
                (0..columns).map(|i| row.bytes(i).map(Bytes::copy_from_slice)).collect::<Vec<_>>()
            }),
        );
        state = rows.paging_state().cloned();
        if state.is_none() {
            return Ok(all);
        }
    }
}

fn ints(session: &Session, cql: &str) -> Vec<i32> {
    run(session, cql).iter().map(|row| row.get::<i32>(0).unwrap()).collect()
}

const TABLES: [&str; 2] = ["indexed", "plain"];

const INDEXES: [&str; 12] = [
    "CREATE INDEX i_v ON indexed (v)",
    "CREATE INDEX i_w ON indexed (w)",
    "CREATE INDEX i_c ON indexed (c)",
    "CREATE INDEX i_d ON indexed (d)",
    "CREATE INDEX i_j ON indexed (j)",
    "CREATE INDEX i_s ON indexed (s)",
    "CREATE INDEX i_st ON indexed (st)",
    "CREATE INDEX i_mk ON indexed (KEYS(m))",
    "CREATE INDEX i_mv ON indexed (m)",
    "CREATE INDEX i_me ON indexed (ENTRIES(m))",
    "CREATE INDEX i_l ON indexed (l)",
    "CREATE INDEX i_f ON indexed (FULL(f))",
];

const ATTACHED: [&str; 12] = [
    "CREATE INDEX i_v ON indexed (v) USING 'sai'",
    "CREATE INDEX i_w ON indexed (w) USING 'sai'",
    "CREATE INDEX i_c ON indexed (c) USING 'sai'",
    "CREATE INDEX i_d ON indexed (d) USING 'sai'",
    "CREATE INDEX i_j ON indexed (j) USING 'sai'",
    "CREATE INDEX i_s ON indexed (s) USING 'sai'",
    "CREATE INDEX i_st ON indexed (st) USING 'sai'",
    "CREATE INDEX i_mk ON indexed (KEYS(m)) USING 'sai'",
    "CREATE INDEX i_mv ON indexed (m) USING 'sai'",
    "CREATE INDEX i_me ON indexed (ENTRIES(m)) USING 'sai'",
    "CREATE INDEX i_l ON indexed (l) USING 'sai'",
    "CREATE INDEX i_f ON indexed (FULL(f)) USING 'sai'",
];

/// Queries that only storage-attached indexes support.
fn attached_queries(x: i32) -> Vec<String> {
    let y = x + 1;
    vec![
        format!("v > {x}"),
        format!("v >= {x} AND v < {y}"),
        format!("v <= {x} LIMIT 4"),
        format!("v > {x} PER PARTITION LIMIT 1"),
        format!("c > {x}"),
        format!("d >= {x}"),
        format!("j >= {x}"),
        format!("s > {x}"),
        format!("v = {x} AND w = 'w{y}'"),
        format!("v > {x} AND w = 'w{y}'"),
        format!("v > {x} AND s = {y}"),
        format!("v > {x} AND c < 3"),
        format!("v = {x} AND c = {y}"),
        format!("j = 1 AND v > {x}"),
        format!("st CONTAINS {x} AND st CONTAINS {y} AND v >= 0"),
        format!("k = 1 AND j = 0 AND v > {x}"),
        format!("k = 1 AND j = 0 AND c < 3 AND v > {x}"),
        format!("token(k, j) > 0 AND v <= {x}"),
        format!("c > {x} AND d <= {y}"),
        format!("k = 1 AND j = 0 AND d > {x} AND c <= {y}"),
    ]
}

/// The conditions after WHERE; the table without indexes is filtered.
fn queries(x: i32) -> Vec<String> {
    let y = x + 1;
    vec![
        format!("v = {x}"),
        format!("w = 'w{x}'"),
        format!("c = {x}"),
        format!("d = {x}"),
        format!("j = {x}"),
        format!("s = {x}"),
        format!("st CONTAINS {x}"),
        format!("m CONTAINS KEY 'k{x}'"),
        format!("m CONTAINS {x}"),
        format!("m['k{x}'] = {y}"),
        format!("l CONTAINS {x}"),
        format!("f = [{x}]"),
        format!("k = 1 AND j = 0 AND v = {x}"),
        format!("k = 1 AND j = 0 AND c > 0 AND v = {x}"),
        format!("token(k, j) > 0 AND v = {x}"),
        format!("v = {x} AND w = 'w{y}' ALLOW FILTERING"),
        format!("v = {x} AND c = {y} ALLOW FILTERING"),
        format!("v = {x} AND k = 1 ALLOW FILTERING"),
        format!("s = {x} AND v > 0 ALLOW FILTERING"),
        format!("v = {x} LIMIT 3"),
        format!("v = {x} PER PARTITION LIMIT 1"),
        format!("j = {x} PER PARTITION LIMIT 2"),
        format!("s = {x} PER PARTITION LIMIT 1 LIMIT 2"),
    ]
}

fn create_tables(session: &Session) {
    for table in TABLES {
        run(
            session,
            &format!(
                "CREATE TABLE {table} (k int, j int, c int, d int, s int static, v int, w text, st \
                 set<int>, m map<text, int>, l list<int>, f frozen<list<int>>, PRIMARY KEY ((k, j), c, d)) \
                 WITH CLUSTERING ORDER BY (c DESC, d ASC)"
            ),
        );
    }
}

/// Every query returns the same rows by index and by filtering.
#[track_caller]
fn assert_alike(session: &Session, queries: impl Iterator<Item = String>, size: i32) {
    for query in queries {
        let (condition, filtering) = match query.strip_suffix(" ALLOW FILTERING") {
            Some(condition) => (condition, " ALLOW FILTERING"),
            None => (query.as_str(), ""),
        };
        let found = pages(session, &format!("SELECT * FROM indexed WHERE {condition}{filtering}"), size);
        let found = match found {
            // The index does not exist yet.
            Err(DatabaseError::Invalid(_)) => continue,
            found => found.unwrap(),
        };
        let expected =
            pages(session, &format!("SELECT * FROM plain WHERE {condition} ALLOW FILTERING"), 5000).unwrap();
        assert_eq!(found, expected, "{query}, pages of {size}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A statement on `TABLE`.
    Write(String),
    CreateIndex(usize),
    DropIndex(usize),
    Flush,
    Compact,
    Wait(u64),
    Reopen,
    Truncate,
}

fn write() -> impl Strategy<Value = String> {
    let small = || 0..4i32;
    let row = || (0..3i32, 0..2i32, small(), 0..2i32).prop_map(|(k, j, c, d)| (k, j, c, d));
    let using = || {
        (0..12i64, prop_oneof![4 => Just(0), 1 => 1..20u32])
            .prop_map(|(time, ttl)| format!("USING TIMESTAMP {} AND TTL {ttl}", 1000 + time))
    };
    let time = || (0..12i64).prop_map(|time| format!("USING TIMESTAMP {}", 1000 + time));
    let place = |(k, j, c, d): (i32, i32, i32, i32)| format!("k = {k} AND j = {j} AND c = {c} AND d = {d}");
    prop_oneof![
        4 => (row(), small(), small(), using()).prop_map(|((k, j, c, d), v, w, using)| format!(
            "INSERT INTO TABLE (k, j, c, d, v, w, f) VALUES ({k}, {j}, {c}, {d}, {v}, 'w{w}', [{v}]) {using}"
        )),
        1 => (row(), using()).prop_map(|((k, j, c, d), using)| format!(
            "INSERT INTO TABLE (k, j, c, d) VALUES ({k}, {j}, {c}, {d}) {using}"
        )),
        3 => (row(), small(), using()).prop_map(move |(at, v, using)| format!(
            "UPDATE TABLE {using} SET v = {v} WHERE {}", place(at)
        )),
        1 => (0..3, 0..2, small(), using()).prop_map(|(k, j, s, using)| format!(
            "UPDATE TABLE {using} SET s = {s} WHERE k = {k} AND j = {j}"
        )),
        2 => (row(), small(), small(), using()).prop_map(move |(at, x, y, using)| format!(
            "UPDATE TABLE {using} SET st = st + {{{x}, {y}}}, m = m + {{'k{x}': {y}}} WHERE {}", place(at)
        )),
        1 => (row(), small(), small(), using()).prop_map(move |(at, x, y, using)| format!(
            "UPDATE TABLE {using} SET st = {{{x}}}, m = {{'k{x}': {y}}}, l = [{x}, {y}, {x}] WHERE {}", place(at)
        )),
        1 => (row(), small(), time()).prop_map(move |(at, x, time)| format!(
            "UPDATE TABLE {time} SET st = st - {{{x}}}, m = m - {{'k{x}'}} WHERE {}", place(at)
        )),
        1 => (row(), time()).prop_map(move |(at, time)| format!(
            "DELETE v, l, s FROM TABLE {time} WHERE {}", place(at)
        ).replace(", s", "")),
        1 => (row(), time()).prop_map(move |(at, time)| format!("DELETE FROM TABLE {time} WHERE {}", place(at))),
        1 => (0..3, 0..2, small(), time()).prop_map(|(k, j, c, time)| format!(
            "DELETE FROM TABLE {time} WHERE k = {k} AND j = {j} AND c > {c}"
        )),
        1 => (0..3, 0..2, time()).prop_map(|(k, j, time)| format!(
            "DELETE FROM TABLE {time} WHERE k = {k} AND j = {j}"
        )),
        1 => (row(), row(), small()).prop_map(|(a, b, v)| {
            let insert = |(k, j, c, d): (i32, i32, i32, i32), v: i32| format!(
                "INSERT INTO TABLE (k, j, c, d, v) VALUES ({k}, {j}, {c}, {d}, {v})"
            );
            format!("BEGIN BATCH USING TIMESTAMP 1006 {}; {}; APPLY BATCH", insert(a, v), insert(b, v + 1))
        }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => write().prop_map(Step::Write),
        3 => (0..INDEXES.len()).prop_map(Step::CreateIndex),
        1 => (0..INDEXES.len()).prop_map(Step::DropIndex),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        2 => (1..10u64).prop_map(Step::Wait),
        1 => Just(Step::Reopen),
        1 => (0..6).prop_map(|n| if n == 0 { Step::Truncate } else { Step::Flush }),
    ];
    proptest::collection::vec(step, 10..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_finds_what_a_look_at_every_row_finds(steps in steps(), first in 0..12usize, size in 1..7i32) {
        check(&steps, &INDEXES, first, &|| Box::new((0..4).flat_map(queries)), size);
    }

    #[test]
    fn a_storage_attached_index_finds_what_a_look_at_every_row_finds(
        steps in steps(), first in 0..12usize, size in 1..7i32
    ) {
        let all = |x| queries(x).into_iter().chain(attached_queries(x));
        check(&steps, &ATTACHED, first, &|| Box::new((0..4).flat_map(all)), size);
    }
}

type Queries = Box<dyn Iterator<Item = String>>;

/// Executes the steps with some of `indexes`, and then all queries.
fn check(steps: &[Step], indexes: &[&str; 12], first: usize, queries: &dyn Fn() -> Queries, size: i32) {
    let files = Files::new();
    let (mut database, mut session) = files.open();
    create_tables(&session);
    for index in &indexes[first..] {
        run(&session, index);
    }
    for step in steps {
        match step {
            Step::Write(cql) => {
                for table in TABLES {
                    run(&session, &cql.replace("TABLE", table));
                }
            }
            Step::CreateIndex(i) => {
                run(&session, &indexes[*i].replace("INDEX", "INDEX IF NOT EXISTS"));
            }
            Step::DropIndex(i) => {
                let name = indexes[*i].split(' ').nth(2).unwrap();
                run(&session, &format!("DROP INDEX IF EXISTS {name}"));
            }
            Step::Flush => database.engine().flush(None).unwrap(),
            Step::Compact => {
                database.engine().flush(None).unwrap();
                for table in database.catalog().keyspace("ks").unwrap().stored_tables() {
                    database.engine().compact(table.id).unwrap();
                }
            }
            Step::Wait(seconds) => files.clock.advance(std::time::Duration::from_secs(*seconds)),
            Step::Reopen => {
                database.close().unwrap();
                drop((database, session));
                (database, session) = files.open();
            }
            Step::Truncate => {
                // The name of a snapshot contains the millisecond.
                files.clock.advance(std::time::Duration::from_millis(1));
                TABLES.iter().for_each(|table| drop(run(&session, &format!("TRUNCATE {table}"))))
            }
        }
    }
    assert_alike(&session, queries(), size);
    // The queries have removed stale entries.
    assert_alike(&session, queries(), 5000);
}

fn prepared_table() -> (Files, Database, Session) {
    let files = Files::new();
    let (database, session) = files.open();
    run(&session, "CREATE TABLE t (k int PRIMARY KEY, v int)");
    run(&session, "CREATE INDEX ON t (v)");
    (files, database, session)
}

fn live_entries(database: &Database) -> usize {
    use cassette_rows::{PartitionStream, Selection, Unfiltered};
    let catalog = database.catalog();
    let mut count = 0;
    for index in catalog.keyspace("ks").unwrap().indexes.values() {
        let range = cassette_engine::KeyRange::ALL;
        let mut stream = database.engine().scan(index.storage.id, &range, &Selection::all()).unwrap();
        while stream.next_partition().unwrap().is_some() {
            while let Some(next) = stream.next_unfiltered().unwrap() {
                count += usize::from(matches!(next, Unfiltered::Row(row) if row.is_live(0)));
            }
        }
    }
    count
}

#[test]
fn a_write_takes_the_entry_of_what_it_replaces_with_it() {
    let (_files, database, session) = prepared_table();
    for v in 0..5 {
        run(&session, &format!("INSERT INTO t (k, v) VALUES (1, {v})"));
        database.engine().flush(None).unwrap();
        assert_eq!(live_entries(&database), 1);
    }
    run(&session, "DELETE FROM t WHERE k = 1");
    assert_eq!(live_entries(&database), 0);
}

/// Whichever indexed columns a write changes, an index has no more entries than rows have values.
#[test]
fn what_a_write_leaves_alone_keeps_its_entry_and_what_it_changes_does_not() {
    for using in ["", "USING 'sai'"] {
        let files = Files::new();
        let (database, session) = files.open();
        run(
            &session,
            "CREATE TABLE t (k int, c int, v int, w text, s int static, f frozen<list<int>>, PRIMARY KEY (k, c))",
        );
        for column in ["v", "w", "s", "FULL(f)"] {
            run(&session, &format!("CREATE INDEX ON t ({column}) {using}"));
        }
        for (write, entries) in [
            ("INSERT INTO t (k, c, v, w, s, f) VALUES (1, 1, 1, 'a', 1, [1]) USING TIMESTAMP 10", 4),
            ("INSERT INTO t (k, c, v, w, s, f) VALUES (1, 1, 1, 'a', 1, [1]) USING TIMESTAMP 20", 4),
            ("INSERT INTO t (k, c, v, w, s, f) VALUES (1, 1, 2, 'b', 2, [2]) USING TIMESTAMP 30", 4),
            ("UPDATE t USING TIMESTAMP 40 SET w = 'c' WHERE k = 1 AND c = 1", 4),
            // The earlier value is superseded without being read: its entry stays until a reader
            // removes it.
            ("UPDATE t USING TIMESTAMP 5 SET w = 'd' WHERE k = 1 AND c = 1", 5),
            ("UPDATE t USING TIMESTAMP 50 SET w = 'd' WHERE k = 1 AND c = 1", 4),
            ("UPDATE t USING TIMESTAMP 60 SET v = null WHERE k = 1 AND c = 1", 3),
            ("DELETE f FROM t USING TIMESTAMP 60 WHERE k = 1 AND c = 1", 2),
            ("INSERT INTO t (k, c, v, w) VALUES (1, 1, 3, 'e') USING TIMESTAMP 70", 3),
            ("DELETE FROM t USING TIMESTAMP 80 WHERE k = 1 AND c = 1", 1),
            ("DELETE s FROM t USING TIMESTAMP 80 WHERE k = 1", 0),
            ("INSERT INTO t (k, c, v, w, s) VALUES (1, 1, 3, 'e', 4) USING TIMESTAMP 90", 3),
            ("DELETE FROM t USING TIMESTAMP 99 WHERE k = 1", 0),
        ] {
            run(&session, write);
            assert_eq!(live_entries(&database), entries, "{write} {using}");
            database.engine().flush(None).unwrap();
        }
    }
}

#[test]
fn rows_that_a_refresh_brings_are_found_by_indexes() {
    let files = Files::new();
    let (database, session) = files.open();
    run(&session, "CREATE TABLE t (k int PRIMARY KEY, v int, st set<int>)");
    run(&session, "CREATE INDEX ON t (v)");
    run(&session, "CREATE INDEX ON t (st) USING 'sai'");
    for k in 0..20 {
        run(&session, &format!("INSERT INTO t (k, v, st) VALUES ({k}, {}, {{{}}})", k % 3, k % 4));
    }
    let options = cassette_engine::SnapshotOptions { name: "s", skip_flush: false, ttl_seconds: None };
    let snapshot = database.snapshot(&["ks.t".to_owned()], &options).unwrap().remove(0);
    files.clock.advance(std::time::Duration::from_millis(1));
    run(&session, "TRUNCATE t");
    run(&session, "INSERT INTO t (k, v, st) VALUES (3, 1, {1})");
    let table = database.catalog().table("ks", "t").unwrap().directory_name();
    let own = std::path::Path::new("/data/data/ks").join(table);
    for file in files.fs.read_dir(&snapshot.directory).unwrap() {
        if let Some(rest) = file.name.strip_prefix("nb-1-") {
            let to = own.join(format!("nb-70-{rest}"));
            files.fs.hard_link(&snapshot.directory.join(&file.name), &to).unwrap();
        }
    }
    assert_eq!(database.refresh("ks", "t").unwrap().len(), 1);
    let found = |cql: &str| {
        let mut found = ints(&session, cql);
        found.sort_unstable();
        found
    };
    assert_eq!(found("SELECT k FROM t WHERE v = 0"), [0, 6, 9, 12, 15, 18]);
    assert_eq!(found("SELECT k FROM t WHERE v = 1"), [1, 3, 4, 7, 10, 13, 16, 19]);
    assert_eq!(found("SELECT k FROM t WHERE st CONTAINS 3"), [7, 11, 15, 19]);
}

/// The number of rows that a query returns, and of partitions of `ks.t` that it reads.
fn reads_of(database: &Database, session: &Session, cql: &str) -> (usize, u64) {
    let table = database.catalog().table("ks", "t").unwrap().id;
    let metrics = database.engine().table_metrics(table).unwrap();
    let before = metrics.sstables_per_read.count();
    let rows = run(session, cql).len();
    (rows, metrics.sstables_per_read.count() - before)
}

#[test]
fn of_several_indexes_the_one_with_the_fewest_entries_finds_the_rows() {
    for using in ["", "USING 'sai'"] {
        let files = Files::new();
        let (database, session) = files.open();
        run(&session, "CREATE TABLE t (k int PRIMARY KEY, many int, few int, half int)");
        for column in ["many", "few", "half"] {
            run(&session, &format!("CREATE INDEX ON t ({column}) {using}"));
        }
        for k in 0..200 {
            let (few, half) = (k / 3, k % 2);
            run(&session, &format!("INSERT INTO t (k, many, few, half) VALUES ({k}, 1, {few}, {half})"));
        }
        let asked = |condition: &str| {
            reads_of(&database, &session, &format!("SELECT k FROM t WHERE {condition} ALLOW FILTERING"))
        };
        assert_eq!(asked("many = 1 AND few = 7"), (3, 3), "{using}");
        assert_eq!(asked("few = 7 AND many = 1"), (3, 3), "{using}");
        assert_eq!(asked("many = 1 AND few = 1000"), (0, 0), "{using}");
        // No index has few entries: rows without an entry in one of them are not read.
        assert_eq!(asked("many = 1 AND half = 1"), (100, 100), "{using}");
        assert_eq!(asked("half = 1 AND many = 1"), (100, 100), "{using}");
        if !using.is_empty() {
            assert_eq!(asked("many = 1 AND few > 65"), (2, 2));
            let (rows, reads) = asked("many > 0 AND half = 1 AND few <= 0");
            assert!(rows == 1 && reads <= 3, "{reads} reads");
        }
    }
}

#[test]
fn a_reader_removes_stale_entries() {
    let (_files, database, session) = prepared_table();
    run(&session, "INSERT INTO t (k, v) VALUES (1, 7)");
    // An earlier write of a value that was never visible.
    run(&session, "INSERT INTO t (k, v) VALUES (1, 5) USING TIMESTAMP 10");
    assert_eq!(live_entries(&database), 2);
    assert_eq!(ints(&session, "SELECT k FROM t WHERE v = 5"), [0i32; 0]);
    assert_eq!(live_entries(&database), 1);
    assert_eq!(ints(&session, "SELECT k FROM t WHERE v = 7"), [1]);
}

#[test]
fn sstables_of_an_index_lie_in_the_directory_of_its_table() {
    let (files, database, session) = prepared_table();
    run(&session, "INSERT INTO t (k, v) VALUES (1, 7)");
    database.engine().flush(None).unwrap();
    let catalog = database.catalog();
    let table = catalog.table("ks", "t").unwrap();
    let base = std::path::Path::new("/data/data/ks").join(table.directory_name());
    let names = |path: &std::path::Path| -> Vec<String> {
        files.fs.read_dir(path).unwrap().into_iter().map(|entry| entry.name).collect()
    };
    assert!(names(&base).contains(&".t_v_idx".to_owned()));
    assert!(names(&base.join(".t_v_idx")).contains(&"nb-1-big-Data.db".to_owned()));
    run(&session, "DROP INDEX t_v_idx");
    assert!(!names(&base).contains(&".t_v_idx".to_owned()));
    assert_eq!(ints(&session, "SELECT k FROM t"), [1]);
}

#[test]
fn an_index_made_again_under_its_name_has_nothing_of_the_one_before() {
    let (files, database, session) = prepared_table();
    run(&session, "INSERT INTO t (k, v) VALUES (1, 7)");
    database.engine().flush(None).unwrap();
    run(&session, "DROP INDEX t_v_idx");
    run(&session, "TRUNCATE t");
    run(&session, "INSERT INTO t (k, v) VALUES (2, 7)");
    run(&session, "CREATE INDEX ON t (v)");
    assert_eq!(live_entries(&database), 1);
    assert_eq!(ints(&session, "SELECT k FROM t WHERE v = 7"), [2]);
    drop((database, session));
    let (database, session) = files.open();
    assert_eq!(live_entries(&database), 1);
    assert_eq!(ints(&session, "SELECT k FROM t WHERE v = 7"), [2]);
}

#[test]
fn a_prepared_statement_uses_an_index_as_soon_as_it_is_there() {
    let files = Files::new();
    let (_database, session) = files.open();
    run(&session, "CREATE TABLE t (k int PRIMARY KEY, v int)");
    let insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)").unwrap();
    session.execute(&insert, (1, 7)).unwrap();
    assert!(session.prepare("SELECT k FROM t WHERE v = ?").is_err());
    run(&session, "CREATE INDEX ON t (v)");
    session.execute(&insert, (2, 7)).unwrap();
    let select = session.prepare("SELECT k FROM t WHERE v = ?").unwrap();
    assert_eq!(session.execute(&select, (7,)).unwrap().len(), 2);
    run(&session, "DROP INDEX t_v_idx");
    assert!(session.execute(&select, (7,)).is_err());
}

#[test]
fn an_index_that_is_not_built_answers_no_query() {
    let (_files, database, session) = prepared_table();
    let catalog = database.catalog();
    let index = &catalog.keyspace("ks").unwrap().indexes["t_v_idx"];
    database.store().build_states().index(index).start_over();
    let error = session.execute("SELECT k FROM t WHERE v = 1", ()).unwrap_err();
    assert!(matches!(error, DatabaseError::ReadFailure { .. }), "{error}");
    assert_eq!(error.to_string(), "The secondary index 't_v_idx' is not yet available");
    // The build includes concurrent writes.
    run(&session, "INSERT INTO t (k, v) VALUES (3, 1)");
    crate::statements::builds::build_index(database.store(), index);
    assert_eq!(ints(&session, "SELECT k FROM t WHERE v = 1"), [3]);
}

#[test]
fn the_schema_of_a_user_directory_works_as_written() {
    let files = Files::new();
    let (_database, session) = files.open();
    run(
        &session,
        "CREATE TABLE user_quorum_rw (id text PRIMARY KEY, channel text, countrycode text, createdby text, \
         createddate text, currentlogintime text, dob text, email text, emailverified boolean, firstname \
         text, flagsvalue int, framework map<text, frozen<list<text>>>, gender text, grade list<text>, \
         language list<text>, lastname text, loginid text, password text, phone text, phoneverified \
         boolean, profilevisibility map<text, text>, status int, updatedby text, updateddate text, userid \
         text, username text, usertype text)",
    );
    for column in ["userid", "loginid", "email", "status", "phone", "username"] {
        run(&session, &format!("CREATE INDEX inx_t3uq_{column} ON ks.user_quorum_rw ({column})"));
    }
    for i in 0..20 {
        run(
            &session,
            &format!(
                "INSERT INTO user_quorum_rw (id, userid, loginid, email, status, phone, username, grade, \
                 framework) VALUES ('id{i}', 'u{i}', 'l{i}', 'e{i}', {}, 'p{i}', 'n{i}', ['1'], \
                 {{'board': ['x']}})",
                i % 2
            ),
        );
    }
    for (column, prefix) in
        [("userid", 'u'), ("loginid", 'l'), ("email", 'e'), ("phone", 'p'), ("username", 'n')]
    {
        let rows = run(&session, &format!("SELECT id FROM user_quorum_rw WHERE {column} = '{prefix}7'"));
        assert_eq!(rows.first().unwrap().get::<String>(0).unwrap(), "id7");
    }
    assert_eq!(run(&session, "SELECT * FROM user_quorum_rw WHERE status = 1").len(), 10);
}

#[test]
fn an_earlier_write_that_brings_a_row_back_is_found() {
    let files = Files::new();
    let (_database, session) = files.open();
    run(&session, "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))");
    run(&session, "CREATE INDEX ON t (c)");
    let found = |session: &Session| ints(session, "SELECT k FROM t WHERE c = 1");
    run(&session, "UPDATE t USING TIMESTAMP 9 SET v = 1 WHERE k = 1 AND c = 1");
    run(&session, "DELETE v FROM t USING TIMESTAMP 10 WHERE k = 1 AND c = 1");
    assert_eq!(found(&session), [0i32; 0]);
    run(&session, "INSERT INTO t (k, c) VALUES (1, 1) USING TIMESTAMP 5");
    assert_eq!(found(&session), [1]);
    run(&session, "DELETE FROM t USING TIMESTAMP 6 WHERE k = 1 AND c = 1");
    assert_eq!(found(&session), [0i32; 0]);
    // The part that expires last keeps the row, regardless of later writes.
    run(&session, "UPDATE t USING TIMESTAMP 20 AND TTL 100 SET v = 1 WHERE k = 1 AND c = 1");
    run(&session, "INSERT INTO t (k, c) VALUES (1, 1) USING TIMESTAMP 30 AND TTL 5");
    files.clock.advance(std::time::Duration::from_secs(50));
    assert_eq!(found(&session), [1]);
    files.clock.advance(std::time::Duration::from_secs(60));
    assert_eq!(found(&session), [0i32; 0]);
}

#[test]
fn attached_indexes_of_clustering_columns_answer_ranges_of_several_of_them() {
    let (_database, session) = Files::new().open();
    run(&session, "CREATE TABLE sc (p int, a int, b int, PRIMARY KEY (p, a, b))");
    for (p, a, b) in [(1, 0, 4), (1, 1, 1), (1, 2, 2), (2, 1, 2), (2, 1, 3)] {
        run(&session, &format!("INSERT INTO sc (p, a, b) VALUES ({p}, {a}, {b})"));
    }
    let sorted = |clause: &str| {
        let mut found = ints(&session, &format!("SELECT b FROM sc WHERE {clause}"));
        found.sort_unstable();
        found
    };
    let refused = |clause: &str| {
        session.execute(&format!("SELECT b FROM sc WHERE {clause}"), ()).unwrap_err().to_string()
    };
    const BEHIND_A_RANGE: &str = "Clustering column \"b\" cannot be restricted (preceding column \"a\" is \
        restricted by a non-EQ relation)";
    assert_eq!(refused("a <= 1 AND b < 3"), BEHIND_A_RANGE);
    run(&session, "CREATE INDEX sc_a ON sc (a)");
    run(&session, "CREATE INDEX sc_b ON sc (b)");
    assert_eq!(refused("a <= 1 AND b < 3"), BEHIND_A_RANGE);
    assert!(refused("a <= 1 AND b = 2").ends_with("use ALLOW FILTERING"));
    run(&session, "DROP INDEX sc_a");
    run(&session, "DROP INDEX sc_b");

    run(&session, "CREATE INDEX sc_b ON sc (b) USING 'sai'");
    assert!(refused("a <= 1 AND b < 3").ends_with("use ALLOW FILTERING"));
    run(&session, "CREATE INDEX sc_a ON sc (a) USING 'sai'");
    assert_eq!(sorted("a <= 1 AND b < 3"), [1, 2]);
    assert_eq!(sorted("b < 3 AND a <= 1"), [1, 2]);
    assert_eq!(sorted("p = 1 AND a <= 1 AND b < 3"), [1]);
    assert_eq!(sorted("a <= 1 AND b = 2"), [2]);
}
