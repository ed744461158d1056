//! Concurrent writers, readers and builds.

use super::*;

#[test]
fn writers_while_an_index_is_built_miss_nothing() {
    let files = Files::new();
    let (database, session) = files.open();
    run(&session, "CREATE TABLE t (k int PRIMARY KEY, v int)");
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let session = database.session();
            scope.spawn(move || {
                session.execute("USE ks", ()).unwrap();
                let insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)").unwrap();
                for i in 0..400 {
                    session.execute(&insert, (i % 100 * 2 + thread, i % 3)).unwrap();
                }
            });
        }
        for _ in 0..5 {
            run(&session, "CREATE INDEX IF NOT EXISTS i ON t (v)");
            run(&session, "DROP INDEX i");
        }
        run(&session, "CREATE INDEX i ON t (v)");
    });
    let all = run(&session, "SELECT k, v FROM t");
    for wanted in 0..3 {
        let of_row =
            |row: crate::api::embedded::Row<'_>| (row.get::<i32>(0).unwrap(), row.get::<i32>(1).unwrap());
        let expected: Vec<i32> =
            all.iter().map(of_row).filter(|(_, v)| *v == wanted).map(|(k, _)| k).collect();
        assert_eq!(ints(&session, &format!("SELECT k FROM t WHERE v = {wanted}")), expected);
    }
}

/// Rows of `ks.t` as `(k, c, v, s, st)`.
type Seen = (i32, Option<i32>, Option<i32>, Option<i32>, Vec<i32>);

fn seen(rows: &Rows) -> Vec<Seen> {
    let row = |row: crate::api::embedded::Row<'_>| {
        let set: Option<std::collections::BTreeSet<i32>> = row.get(4).unwrap();
        let set = set.unwrap_or_default().into_iter().collect();
        (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap(), row.get(3).unwrap(), set)
    };
    rows.iter().map(row).collect()
}

/// Whether a row matches the query condition of this number.
fn holds(condition: usize, x: i32, (_, c, v, s, st): &Seen) -> bool {
    match condition {
        0 => *v == Some(x),
        1 => *s == Some(x),
        2 => st.contains(&x),
        _ => *c == Some(x),
    }
}

const CONDITIONS: [&str; 4] = ["v =", "s =", "st CONTAINS", "c ="];

#[test]
fn readers_see_nothing_stale_while_others_write_flush_and_build_and_miss_nothing_in_the_end() {
    for using in ["", "USING 'sai'"] {
        let files = Files::new();
        let (database, session) = files.open();
        run(&session, "CREATE TABLE t (k int, c int, v int, s int static, st set<int>, PRIMARY KEY (k, c))");
        let create = |i: usize, column: &str| format!("CREATE INDEX i{i} ON t ({column}) {using}");
        for (i, column) in ["v", "s", "st", "c"].into_iter().enumerate() {
            run(&session, &create(i, column));
        }
        let done = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let session = database.session();
                let done = &done;
                scope.spawn(move || {
                    run(&session, "USE ks");
                    let mut random = rand_of(seed);
                    let mut next = |below: u64| (random() % below) as i32;
                    for _ in 0..400 {
                        let (k, c, x) = (next(3), next(4), next(4));
                        let row = format!("WHERE k = {k} AND c = {c}");
                        run(
                            &session,
                            &match next(8) {
                                0 | 1 => {
                                    format!("INSERT INTO t (k, c, v, st) VALUES ({k}, {c}, {x}, {{{x}}})")
                                }
                                2 => format!("UPDATE t SET v = {x}, st = st + {{{x}}} {row}"),
                                3 => format!("UPDATE t SET s = {x} WHERE k = {k}"),
                                4 => format!("UPDATE t SET st = st - {{{x}}} {row}"),
                                5 => format!("DELETE FROM t WHERE k = {k} AND c > {c}"),
                                6 => format!("DELETE v FROM t {row}"),
                                _ => format!("DELETE FROM t {row}"),
                            },
                        );
                    }
                    done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                });
            }
            let mut round = 0;
            while done.load(std::sync::atomic::Ordering::Relaxed) < 2 {
                round += 1;
                for (i, condition) in CONDITIONS.iter().enumerate() {
                    let x = round % 4;
                    let query = format!("SELECT k, c, v, s, st FROM t WHERE {condition} {x}");
                    for row in seen(&run(&session, &query)) {
                        assert!(holds(i, x, &row), "{query} {using}: {row:?}");
                    }
                }
                match round % 8 {
                    0 => database.engine().flush(None).unwrap(),
                    4 => {
                        run(&session, "DROP INDEX i0");
                        run(&session, &create(0, "v"));
                    }
                    _ => {}
                }
            }
        });
        let all = seen(&run(&session, "SELECT k, c, v, s, st FROM t"));
        for (i, condition) in CONDITIONS.iter().enumerate() {
            for x in 0..4 {
                let expected: Vec<_> = all.iter().filter(|row| holds(i, x, row)).cloned().collect();
                let query = format!("SELECT k, c, v, s, st FROM t WHERE {condition} {x}");
                assert_eq!(seen(&run(&session, &query)), expected, "{query} {using}");
            }
        }
    }
}

/// Pseudorandom numbers, determined by the seed: xorshift.
fn rand_of(seed: u64) -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ (seed + 1);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    }
}
