pub mod node;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cassette_vfs::FakeFileSystem;
use proptest::prelude::*;

use crate::api::database::{Database, Options};
use crate::api::embedded::{Rows, Session};
use crate::basics::error::DatabaseError;
use crate::basics::request::StatementOptions;

fn session() -> Session {
    let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
    let session = Database::open(options).unwrap().session();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE ks",
        "CREATE TABLE t (k int, c int, d int, v int, s int static, PRIMARY KEY (k, c, d)) WITH CLUSTERING \
         ORDER BY (c ASC, d DESC)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    session
}

/// The values of each row.
fn values(rows: &Rows) -> Vec<Vec<Option<Vec<u8>>>> {
    let columns = rows.columns().len();
    rows.iter().map(|row| (0..columns).map(|i| row.bytes(i).map(<[u8]>::to_vec)).collect()).collect()
}

fn page(session: &Session, cql: &str, size: i32, state: Option<Bytes>) -> Result<Rows, DatabaseError> {
    let options =
        StatementOptions { page_size: Some(size), paging_state: state, ..StatementOptions::default() };
    session.execute_with(cql, (), &options)
}

/// Whether a condition holds for a row.
type Holds = Box<dyn Fn(i32, i32) -> bool>;

const PAGED: [&str; 15] = [
    "SELECT * FROM t",
    "SELECT k, c, d FROM t WHERE k = 1",
    "SELECT k, c, d FROM t WHERE k = 1 ORDER BY c DESC",
    "SELECT k, c, d FROM t WHERE k = 1 AND c IN (0, 2) AND d > 0",
    "SELECT k, c, d FROM t WHERE k IN (2, 0, 1)",
    "SELECT k, c, d FROM t WHERE k IN (2, 0, 1) LIMIT 5",
    "SELECT k, c, d FROM t LIMIT 7",
    "SELECT k, c, d FROM t PER PARTITION LIMIT 2",
    "SELECT k, c, d FROM t PER PARTITION LIMIT 2 LIMIT 5",
    "SELECT DISTINCT k, s FROM t",
    "SELECT DISTINCT k, count(*) FROM t GROUP BY k",
    "SELECT k, c, v FROM t WHERE v > 1 ALLOW FILTERING",
    "SELECT k, c, count(*), max(d) FROM t GROUP BY k, c",
    "SELECT k, c, count(*) FROM t GROUP BY k, c PER PARTITION LIMIT 2 LIMIT 5",
    "SELECT k, s, count(*) FROM t GROUP BY k",
];

/// The lengths of pages of two rows are those of Cassandra: clients that stop at the first page
/// that is not full would never stop if a full page were the last one.
#[test]
fn a_full_page_is_followed_by_another_unless_no_row_can_follow() {
    let session = session();
    for (k, c) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        session.execute(&format!("INSERT INTO t (k, c, d, v) VALUES ({k}, {c}, 0, 0)"), ()).unwrap();
    }
    session.execute("CREATE INDEX ON t (v)", ()).unwrap();
    session.execute("CREATE TABLE single (k int PRIMARY KEY)", ()).unwrap();
    session.execute("INSERT INTO single (k) VALUES (1)", ()).unwrap();
    session.execute("INSERT INTO single (k) VALUES (2)", ()).unwrap();
    for (cql, lengths) in [
        ("SELECT * FROM t", &[2, 2, 0][..]),
        ("SELECT * FROM t WHERE k = 1", &[2, 0]),
        ("SELECT * FROM t WHERE k IN (0, 1)", &[2, 2, 0]),
        ("SELECT * FROM t WHERE k = 9", &[0]),
        ("SELECT * FROM t LIMIT 4", &[2, 2]),
        ("SELECT * FROM t LIMIT 3", &[2, 1]),
        ("SELECT * FROM t WHERE k = 1 PER PARTITION LIMIT 2", &[2]),
        ("SELECT * FROM t PER PARTITION LIMIT 2", &[2, 2, 0]),
        ("SELECT * FROM t WHERE v = 0", &[2, 2, 0]),
        ("SELECT * FROM t WHERE d = 0 ALLOW FILTERING", &[2, 2, 0]),
        ("SELECT DISTINCT k FROM t", &[2, 0]),
        ("SELECT DISTINCT k FROM t WHERE k IN (0, 1)", &[2]),
        ("SELECT k, count(*) FROM t GROUP BY k", &[2, 0]),
        ("SELECT k, c FROM t GROUP BY k, c", &[2, 2, 0]),
        ("SELECT k, c FROM t GROUP BY k, c LIMIT 2", &[2]),
        ("SELECT k, c FROM t GROUP BY k, c PER PARTITION LIMIT 1", &[2, 0]),
        ("SELECT count(*) FROM t", &[1]),
        ("SELECT * FROM single", &[2, 0]),
        ("SELECT * FROM single WHERE k IN (1, 2)", &[2]),
        ("SELECT * FROM single WHERE k IN (1, 2, 9)", &[2, 0]),
    ] {
        let (mut found, mut state) = (Vec::new(), None);
        loop {
            let rows = page(&session, cql, 2, state.take()).unwrap();
            found.push(rows.len());
            state = rows.paging_state().cloned();
            if state.is_none() {
                break;
            }
        }
        assert_eq!(found, lengths, "{cql}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_of_any_size_give_the_rows_of_no_pages(
        rows in prop::collection::vec((0..4, 0..3, 0..4, 0..4), 0..24),
        statics in prop::collection::vec(0..6, 0..3),
        size in 1..7,
    ) {
        let session = session();
        for (k, c, d, v) in rows {
            session.execute(&format!("INSERT INTO t (k, c, d, v) VALUES ({k}, {c}, {d}, {v})"), ()).unwrap();
        }
        for k in statics {
            session.execute(&format!("INSERT INTO t (k, s) VALUES ({k}, 1)"), ()).unwrap();
        }
        for cql in PAGED {
            let whole = values(&session.execute(cql, ()).unwrap());
            let mut paged = Vec::new();
            let mut state = None;
            loop {
                let rows = page(&session, cql, size, state.take()).unwrap();
                // Only the last page may be short or empty.
                paged.extend(values(&rows));
                state = rows.paging_state().cloned();
                if state.is_none() {
                    break;
                }
                prop_assert_eq!(rows.len(), size as usize, "{}", cql);
            }
            prop_assert_eq!(paged, whole, "{} in pages of {}", cql, size);
        }
    }

    #[test]
    fn a_paging_state_from_elsewhere_is_refused_and_never_believed(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let answer = page(&session(), "SELECT * FROM t", 2, Some(bytes.into()));
        prop_assert!(matches!(answer, Ok(_) | Err(DatabaseError::Protocol(_))));
    }

    #[test]
    fn slices_and_range_deletions_agree_with_a_sorted_map(
        rows in prop::collection::btree_set((0..4, 0..4), 0..14),
        (c, low, high) in (0..4, 0..4, 0..4),
        delete in any::<bool>(),
    ) {
        let session = session();
        let mut model = BTreeMap::new();
        for (c, d) in rows {
            session.execute(&format!("INSERT INTO t (k, c, d, v) VALUES (1, {c}, {d}, 0)"), ()).unwrap();
            model.insert((c, d), ());
        }
        let clauses: [(String, Holds); 6] = [
            (format!("c = {c} AND d > {low} AND d <= {high}"), Box::new(move |x, y| x == c && y > low && y <= high)),
            (format!("c >= {low} AND c < {high}"), Box::new(move |x, _| x >= low && x < high)),
            (format!("(c, d) > ({low}, {c})"), Box::new(move |x, y| (x, y) > (low, c))),
            (format!("(c, d) >= ({low}, {c}) AND (c) <= \
                ({high})"), Box::new(move |x, y| (x, y) >= (low, c) && x <= high)),
            (format!("(c, d) > ({low}, {c}) AND c < {high}"), Box::new(move |x, y| (x, y) > (low, c) && x < high)),
            (format!("c IN ({low}, {high}) AND d >= {c}"), Box::new(move |x, y| (x == low || x == high) && y >= c)),
        ];
        for (clause, holds) in clauses {
            let read = |cql: &str| -> Vec<(i32, i32)> {
                let rows = session.execute(cql, ()).unwrap();
                let mut found: Vec<_> =
                    rows.iter().map(|row| (row.get("c").unwrap(), row.get("d").unwrap())).collect();
                found.sort_unstable();
                found
            };
            let expected: Vec<_> = model.keys().copied().filter(|(x, y)| holds(*x, *y)).collect();
            prop_assert_eq!(read(&format!("SELECT c, d FROM t WHERE k = 1 AND {clause}")), expected, "{}", clause);
            if delete {
                session.execute(&format!("DELETE FROM t WHERE k = 1 AND {clause}"), ()).unwrap();
                model.retain(|(x, y), ()| !holds(*x, *y));
                prop_assert_eq!(read("SELECT c, d FROM t WHERE k = 1"), model.keys().copied().collect::<Vec<_>>());
            }
        }
    }
}

/// Returns the result of a statement with values after `state`; an error if the state is rejected.
fn rest(
    session: &Session,
    cql: &str,
    bound: (i32,),
    state: Option<&Bytes>,
) -> Result<(usize, Option<Bytes>), DatabaseError> {
    let options =
        StatementOptions { page_size: Some(1), paging_state: state.cloned(), ..StatementOptions::default() };
    let rows = session.execute_with(cql, bound, &options)?;
    Ok((rows.len(), rows.paging_state().cloned()))
}

#[track_caller]
fn refused(session: &Session, cql: &str, bound: i32, state: &Bytes) {
    let answer = rest(session, cql, (bound,), Some(state));
    assert!(
        matches!(&answer, Err(DatabaseError::Protocol(message)) if message == "Invalid value for the paging state"),
        "{cql}: {answer:?}"
    );
}

#[test]
fn a_paging_state_goes_on_with_its_own_statement_and_values_only() {
    let session = session();
    session.execute("CREATE TABLE u (k int, c int, d int, v int, PRIMARY KEY (k, c, d))", ()).unwrap();
    for (k, c) in (0..3).flat_map(|k| (0..5).map(move |c| (k, c))) {
        for table in ["t", "u"] {
            session
                .execute(&format!("INSERT INTO {table} (k, c, d, v) VALUES ({k}, {c}, 0, 0)"), ())
                .unwrap();
        }
    }
    let of_t = "SELECT c FROM t WHERE k = ?";
    let state = rest(&session, of_t, (2,), None).unwrap().1.unwrap();
    assert_eq!(rest(&session, of_t, (2,), Some(&state)).unwrap().0, 1);
    refused(&session, of_t, 1, &state);
    refused(&session, "SELECT c FROM u WHERE k = ?", 2, &state);
    refused(&session, "SELECT d FROM t WHERE k = ?", 2, &state);
    for at in 0..state.len() {
        let mut forged = state.to_vec();
        forged[at] ^= 1;
        refused(&session, of_t, 2, &forged.into());
        refused(&session, of_t, 2, &state.slice(..at));
    }
    // All partitions, in the order of their tokens: 1, 0, 2.
    let of_range = "SELECT k FROM t WHERE token(k) >= token(?)";
    let state = rest(&session, of_range, (1,), None).unwrap().1.unwrap();
    assert_eq!(rest(&session, of_range, (1,), Some(&state)).unwrap().0, 1);
    refused(&session, of_range, 2, &state);
}

#[test]
fn a_paging_state_outlives_restarts_and_schema_changes_but_not_its_data_directory() {
    let fs = FakeFileSystem::new();
    let open = |fs: &FakeFileSystem| {
        let options = Options { file_system: Arc::new(fs.clone()), ..Options::new("/data") };
        Database::open(options).unwrap()
    };
    let create = |session: &Session| {
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int, c int, PRIMARY KEY (k, c)) WITH ID = 5a1c395e-b41f-11e5-9f22-ba0be0483c18",
        ] {
            session.execute(cql, ()).unwrap();
        }
        (0..5).for_each(|c| drop(session.execute(&format!("INSERT INTO ks.t (k, c) VALUES (1, {c})"), ())));
    };
    let cql = "SELECT c FROM ks.t WHERE k = ?";
    let database = open(&fs);
    let session = database.session();
    create(&session);
    let state = rest(&session, cql, (1,), None).unwrap().1.unwrap();
    session.execute("ALTER TABLE ks.t ADD v int", ()).unwrap();
    assert_eq!(rest(&session, cql, (1,), Some(&state)).unwrap().0, 1);
    drop(session);
    database.close().unwrap();
    let session = open(&fs).session();
    let state = rest(&session, cql, (1,), Some(&state)).unwrap().1.unwrap();
    let other = open(&FakeFileSystem::new()).session();
    create(&other);
    refused(&other, cql, 1, &state);
}

#[test]
fn a_tombstone_never_reaches_to_a_null() {
    let session = session();
    session.execute("INSERT INTO t (k, c, d) VALUES (1, 1, 1)", ()).unwrap();
    for clause in ["c > null", "c < null", "c = 1 AND d >= null"] {
        let error = session.execute(&format!("DELETE FROM t WHERE k = 1 AND {clause}"), ()).unwrap_err();
        assert!(matches!(error, DatabaseError::Invalid(_)), "{clause}: {error:?}");
    }
    assert_eq!(session.execute("SELECT * FROM t", ()).unwrap().len(), 1);
}

#[test]
fn terms_of_the_select_clause_are_bound() {
    let session = session();
    session.execute("INSERT INTO t (k, c, d, v) VALUES (1, 1, 1, 5)", ()).unwrap();
    let select = session.prepare("SELECT v + (int) ?, (text) ?, token(?) FROM t WHERE k = ?").unwrap();
    let rows = session.execute(&select, (3, "x", 1, 1)).unwrap();
    let row = rows.first().unwrap();
    assert_eq!((row.get::<i32>(0).unwrap(), row.get::<String>(1).unwrap()), (8, "x".to_owned()));
    let token: i64 = session.execute("SELECT token(k) FROM t", ()).unwrap().first().unwrap().get(0).unwrap();
    assert_eq!(row.get::<i64>(2).unwrap(), token);
}

#[test]
fn the_least_token_alone_stands_for_the_whole_ring() {
    let session = session();
    for k in 0..3 {
        session.execute(&format!("INSERT INTO t (k, c, d, v) VALUES ({k}, 0, 0, 0)"), ()).unwrap();
    }
    for (clause, count) in [
        ("token(k) = -9223372036854775808", 3),
        ("token(k) = 9223372036854775807", 0),
        ("token(k) = token(1)", 1),
        ("token(k) = -9223372036854775808 AND k = 1", 0),
    ] {
        let rows = session.execute(&format!("SELECT k FROM t WHERE {clause}"), ()).unwrap();
        assert_eq!(rows.len(), count, "{clause}");
    }
}

#[test]
fn what_asks_for_no_row_can_be_sorted_and_paged() {
    let session = session();
    for (clause, expected) in [
        ("k IN ()", Ok(0)),
        ("k IN (1, 2) AND c > 5 AND c < 3", Ok(0)),
        ("k IN (1, 2) AND c IN ()", Ok(0)),
        ("k IN (1, 2) AND c > 5", Err("Cannot page queries with both ORDER BY")),
        ("k IN (1, 2) AND c IN (1, 2)", Err("Cannot page queries with both ORDER BY")),
    ] {
        let cql = format!("SELECT * FROM t WHERE {clause} ORDER BY c DESC");
        match (page(&session, &cql, 1, None), expected) {
            (Ok(rows), Ok(count)) => assert_eq!(rows.len(), count, "{cql}"),
            (Err(error), Err(text)) => assert!(error.to_string().starts_with(text), "{cql}: {error}"),
            (answer, _) => panic!("{cql}: {answer:?}"),
        }
    }
}

#[test]
fn several_partitions_are_not_read_at_serial_but_page_by_page() {
    let session = session();
    let read = |clause: &str, page_size: Option<i32>| {
        let consistency = crate::basics::request::Consistency::Serial;
        let options = StatementOptions { consistency, page_size, ..StatementOptions::default() };
        session.execute_with(&format!("SELECT {clause}"), (), &options).map(drop)
    };
    const REFUSED: &str = "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time";
    for (clause, page_size, refused) in [
        ("* FROM t WHERE k IN (1, 2)", None, true),
        ("* FROM t WHERE k IN (1, 2) LIMIT 5", Some(5), true),
        ("* FROM t WHERE k IN (1, 2)", Some(5), false),
        ("* FROM t WHERE k IN (1, 1)", None, false),
        ("* FROM t", None, false),
        ("count(*) FROM t WHERE k IN (1, 2)", None, false),
    ] {
        let expected = if refused { Err(REFUSED.to_owned()) } else { Ok(()) };
        assert_eq!(read(clause, page_size).map_err(|error| error.to_string()), expected, "{clause}");
    }
}

#[test]
fn what_rows_of_several_partitions_are_sorted_by_counts_as_selected_by_distinct() {
    let session = session();
    let select = |cql: &str| session.execute(cql, ()).map(drop).map_err(|error| error.to_string());
    assert_eq!(
        select("SELECT DISTINCT k FROM t WHERE k IN (1, 2) ORDER BY c ASC"),
        Err("SELECT DISTINCT queries must only request partition key columns and/or static columns (not c)"
            .into())
    );
    for cql in [
        "SELECT DISTINCT k FROM t WHERE k = 1 ORDER BY c ASC",
        "SELECT DISTINCT k FROM t WHERE k IN (1) ORDER BY c ASC",
        "SELECT DISTINCT k FROM t WHERE k IN (1, 2)",
    ] {
        assert_eq!(select(cql), Ok(()), "{cql}");
    }
}
