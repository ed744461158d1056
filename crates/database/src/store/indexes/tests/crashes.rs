//! Crashes at every step of the maintenance of entries.

use cassette_engine::{ImportOptions, SnapshotOptions};

use super::*;

#[test]
fn rows_and_their_entries_are_in_step_after_any_crash() {
    crash_at_many_places(&INDEXES);
}

#[test]
fn rows_and_their_entries_in_storage_attached_indexes_are_in_step_after_any_crash() {
    crash_at_many_places(&ATTACHED);
}

fn crash_at_many_places(indexes: &[&str; 12]) {
    let write = |session: &Session, k: i32| -> Result<(), DatabaseError> {
        for table in TABLES {
            session.execute(
                &format!(
                    "INSERT INTO {table} (k, j, c, d, v, w) VALUES ({}, 0, {}, 0, {}, 'w1')",
                    k % 5,
                    k % 3,
                    k % 4
                ),
                (),
            )?;
        }
        Ok(())
    };
    for at in (1..400).step_by(23) {
        let files = Files::new();
        {
            let (database, session) = files.open();
            create_tables(&session);
            run(&session, indexes[0]);
            (0..10).for_each(|k| write(&session, k).unwrap());
            database.engine().sync_log().unwrap();
            files.fs.fail_from(files.fs.operations() + at);
            let _ = (|| -> Result<(), DatabaseError> {
                for k in 10..40 {
                    write(&session, k)?;
                    match k {
                        15 => drop(session.execute(indexes[1], ())?),
                        20 | 30 => drop(database.engine().flush(None)),
                        25 => drop(session.execute("DROP INDEX i_v", ())?),
                        28 => drop(session.execute(indexes[0], ())?),
                        35 => drop(session.execute("TRUNCATE indexed", ())?),
                        _ => drop(database.engine().sync_log()),
                    }
                }
                Ok(())
            })();
        }
        let files = Files { fs: files.fs.crash(at), clock: files.clock };
        let (_database, session) = files.open();
        for x in 0..4 {
            for condition in [format!("v = {x}"), format!("w = 'w{x}'")] {
                let query = format!("SELECT k, c FROM indexed WHERE {condition}");
                let all = pages(&session, &format!("{query} ALLOW FILTERING"), 5000).unwrap();
                let scanned = filtered(&session, x, condition.starts_with('v'));
                assert_eq!(all, scanned, "{condition}, failing from operation {at}");
            }
        }
    }
}

/// Writes without commit log are flushed table by table; afterwards indexes and views must be
/// consistent.
#[test]
fn once_writes_are_durable_a_crash_loses_neither_rows_nor_their_entries() {
    for at in (0..260).step_by(13) {
        let files = Files::new();
        let open = |fs: FakeFileSystem| {
            let files = Files { fs, clock: files.clock.clone() };
            let database =
                Database::open(Options { materialized_views_enabled: true, ..files.options() }).unwrap();
            let session = database.session();
            (database, session)
        };
        let insert = |session: &Session, k: i32, v: i32| {
            session.execute(&format!("INSERT INTO d.t (k, v, w) VALUES ({k}, {v}, {v})"), ())
        };
        let mut durable = false;
        {
            let (database, session) = open(files.fs.clone());
            for cql in [
                "CREATE KEYSPACE d WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} \
                 AND durable_writes = false",
                "CREATE TABLE d.t (k int PRIMARY KEY, v int, w int)",
                "CREATE INDEX ON d.t (v)",
                "CREATE INDEX ON d.t (w) USING 'sai'",
                "CREATE MATERIALIZED VIEW d.by_v AS SELECT * FROM d.t WHERE v IS NOT NULL AND k IS NOT NULL \
                 PRIMARY KEY (v, k)",
            ] {
                run(&session, cql);
            }
            (0..20).for_each(|k| drop(insert(&session, k, k % 4).unwrap()));
            let table = database.catalog().table("d", "t").unwrap().id;
            database.engine().flush(Some(table)).unwrap();
            (0..10).for_each(|k| drop(insert(&session, k, k % 3).unwrap()));
            files.fs.fail_from(files.fs.operations() + at);
            durable |= session.execute("ALTER KEYSPACE d WITH durable_writes = true", ()).is_ok();
            let _ = insert(&session, 30, 1);
            let _ = database.engine().flush(Some(table));
        }
        let (_database, session) = open(files.fs.crash(at));
        let all = run(&session, "SELECT k, v FROM d.t");
        let all: Vec<(i32, i32)> = all.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect();
        if durable {
            let is_there = |k: i32| all.contains(&(k, if k < 10 { k % 3 } else { k % 4 }));
            assert!((0..20).all(is_there), "failing from operation {at}: {all:?}");
        }
        for v in 0..4 {
            let mut expected: Vec<i32> = all.iter().filter(|row| row.1 == v).map(|row| row.0).collect();
            for query in ["d.t WHERE v", "d.t WHERE w"] {
                let found = ints(&session, &format!("SELECT k FROM {query} = {v}"));
                assert_eq!(found, expected, "{query} = {v}, failing from operation {at}");
            }
            expected.sort_unstable();
            let found = ints(&session, &format!("SELECT k FROM d.by_v WHERE v = {v}"));
            assert_eq!(found, expected, "v = {v} in the view, failing from operation {at}");
        }
    }
}

/// The rows with the value, found by a scan.
fn filtered(session: &Session, x: i32, by_v: bool) -> Vec<Vec<Option<Bytes>>> {
    let (column, value) =
        if by_v { (2, Bytes::copy_from_slice(&x.to_be_bytes())) } else { (3, Bytes::from(format!("w{x}"))) };
    let all = pages(session, "SELECT k, c, v, w FROM indexed", 5000).unwrap();
    let holding = all.into_iter().filter(|row| row[column].as_ref() == Some(&value));
    holding.map(|row| row[..2].to_vec()).collect()
}

#[test]
fn a_build_that_ended_half_way_goes_on_where_it_was() {
    let mut went_on = 0;
    for at in 1..40 {
        let files = Files::new();
        {
            let (_database, session) = files.open();
            run(&session, "CREATE TABLE t (k int PRIMARY KEY, v int)");
            for k in 0..200 {
                run(&session, &format!("INSERT INTO t (k, v) VALUES ({k}, {})", k % 2));
            }
            files.fs.fail_from(files.fs.operations() + at);
            let _ = session.execute("CREATE INDEX ON t (v)", ());
        }
        let files = Files { fs: files.fs.kill(), clock: files.clock };
        let (database, session) = files.open();
        let catalog = database.catalog();
        let Some(index) = catalog.keyspace("ks").unwrap().indexes.get("t_v_idx") else { continue };
        let state = database.store().build_states().index(index);
        assert!(state.is_built());
        let (partitions, _) = state.progress();
        went_on += usize::from((1..200).contains(&partitions));
        assert_eq!(ints(&session, "SELECT k FROM t WHERE v = 1").len(), 100, "failing from operation {at}");
    }
    assert!(went_on > 0, "no build was interrupted half way");
}

/// Imported rows are found by indexes, also after a crash while the indexes are rebuilt.
#[test]
fn sstables_that_are_taken_in_are_found_by_indexes_after_any_crash() {
    let mut taken_in = 0;
    let mut refused = None;
    for (using, at) in (0..1000).step_by(143).flat_map(|at| [("", at), ("USING 'sai'", at)]) {
        let files = Files::new();
        {
            let (database, session) = files.open();
            run(
                &session,
                "CREATE TABLE t (k int, c int, v int, s int static, st set<int>, PRIMARY KEY (k, c))",
            );
            for column in ["v", "s", "st", "c"] {
                run(&session, &format!("CREATE INDEX ON t ({column}) {using}"));
            }
            let insert = |n: i32, by: i32| {
                run(
                    &session,
                    &format!(
                        "INSERT INTO t (k, c, v, s, st) VALUES ({}, {n}, {}, {}, {{{}}})",
                        n % 7,
                        n % by,
                        n % 7 + by,
                        n % by + 1
                    ),
                );
            };
            (0..60).for_each(|n| insert(n, 4));
            run(&session, "DELETE FROM t WHERE k = 3 AND c > 20");
            let options = SnapshotOptions { name: "before", skip_flush: false, ttl_seconds: None };
            let snapshot = database.snapshot(&["ks.t".to_owned()], &options).unwrap().remove(0);
            files.clock.advance(std::time::Duration::from_millis(1));
            run(&session, "TRUNCATE t");
            // Imports rows that are older than these, and new ones.
            (20..40).for_each(|n| insert(n, 3));
            run(&session, "DELETE FROM t WHERE k = 5");
            database.engine().flush(None).unwrap();
            files.fs.fail_from(files.fs.operations() + at);
            let options = ImportOptions { copy_data: true, ..ImportOptions::default() };
            match database.import("ks", "t", &snapshot.directory, &options) {
                Ok(_) => taken_in += 1,
                Err(error) => refused = Some(error),
            }
        }
        let files = Files { fs: files.fs.crash(at), clock: files.clock };
        let (_database, session) = files.open();
        let all = pages(&session, "SELECT k, c, v, s, st FROM t", 5000).unwrap();
        let int = |n: i32| Some(Bytes::copy_from_slice(&n.to_be_bytes()));
        for x in 0..10_i32 {
            // A set of one element: count, length, value.
            let set = Some(Bytes::from([&[0, 0, 0, 1, 0, 0, 0, 4][..], &x.to_be_bytes()].concat()));
            for (condition, column, value) in
                [("v =", 2, int(x)), ("s =", 3, int(x)), ("c =", 1, int(x * 6)), ("st CONTAINS", 4, set)]
            {
                let asked = if column == 1 { x * 6 } else { x };
                let query = format!("SELECT k, c, v, s, st FROM t WHERE {condition} {asked}");
                let expected: Vec<_> = all.iter().filter(|row| row[column] == value).cloned().collect();
                assert_eq!(
                    pages(&session, &query, 7).unwrap(),
                    expected,
                    "{query} {using}, failing from {at}"
                );
            }
        }
    }
    assert!(taken_in > 0, "no import came to its end: {refused:?}");
}
