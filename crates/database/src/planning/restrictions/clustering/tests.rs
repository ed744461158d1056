//! Slices of WHERE clauses, as text.

use std::sync::Arc;
use std::time::Duration;

use cassette_rows::{Bound, Side};
use cassette_vfs::FakeFileSystem;

use crate::api::database::{Database, Options};
use crate::api::embedded::Rows;
use crate::basics::error::DatabaseError;
use crate::basics::request::{BoundValue, StatementOptions, Values};
use crate::basics::timeouts::Timeout;
use crate::execution::Execution;
use crate::statements::plan::{Plan, Planned};
use crate::without_waiting;

fn database() -> Database {
    let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
    let database = Database::open(options).unwrap();
    let session = database.session();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int, a int, b int, c int, PRIMARY KEY (k, a, b, c)) WITH CLUSTERING ORDER BY \
         (a ASC, b DESC, c ASC)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    database
}

/// `[1,2 .. 1]` is the range from just before the rows that begin with 1,2 to just after those that
/// begin with 1. A round bracket is on the other side of its rows.
fn slices(database: &Database, clause: &str, values: &[BoundValue<'_>]) -> Result<String, String> {
    let filtering = if clause.ends_with("FILTERING") { "" } else { " " };
    let cql = format!("SELECT * FROM ks.t WHERE k = 0 AND {clause}{filtering}");
    let planned = Planned::new(&cql, &database.catalog(), None).map_err(|error| error.to_string())?;
    let Plan::Select(select) = &planned.plan else { panic!("{cql}") };
    let options = StatementOptions::default();
    let execution = Execution::new(database.store(), &planned.catalog, values, &options, None);
    let slices = select.restrictions().clustering.slices(&execution).map_err(|error| error.to_string())?;
    let prefix = |bound: &Bound| {
        let number = |value: Option<&[u8]>| match value {
            Some(bytes) => i32::from_be_bytes(bytes.try_into().unwrap()).to_string(),
            None => "null".into(),
        };
        bound.prefix.values().map(number).collect::<Vec<_>>().join(",")
    };
    let text = slices.as_slice().iter().map(|slice| {
        let open = if slice.start.side == Side::Before { '[' } else { '(' };
        let close = if slice.end.side == Side::Before { ')' } else { ']' };
        format!("{open}{} .. {}{close}", prefix(&slice.start), prefix(&slice.end))
    });
    let filters = select.restrictions().filters.len();
    let filters = if filters > 0 { format!(" and {filters} filters") } else { String::new() };
    Ok(text.collect::<Vec<_>>().join(" ") + &filters)
}

#[test]
fn clauses_become_slices_in_the_order_of_the_table() {
    let database = database();
    for (clause, expected) in [
        ("a = 1", "[1 .. 1]"),
        ("a > 1", "(1 .. ]"),
        ("a >= 1 AND a < 3", "[1 .. 3)"),
        ("a = 1 AND b = 2", "[1,2 .. 1,2]"),
        // Greater values of b sort first.
        ("a = 1 AND b > 2", "[1 .. 1,2)"),
        ("a = 1 AND b <= 2", "[1,2 .. 1]"),
        ("a = 1 AND b > 2 AND b < 5", "(1,5 .. 1,2)"),
        ("a IN (3, 1) AND b = 2", "[1,2 .. 1,2] [3,2 .. 3,2]"),
        ("a IN (1, 1)", "[1 .. 1]"),
        ("(a, b) = (1, 2)", "[1,2 .. 1,2]"),
        ("(a, b) IN ((3, 4), (1, 2))", "[1,2 .. 1,2] [3,4 .. 3,4]"),
        // a = 1 and b above 2, or a above 1: separate slices, since b is descending.
        ("(a, b) > (1, 2)", "[1 .. 1,2) (1 .. ]"),
        ("(a, b) >= (1, 2)", "[1 .. 1,2] (1 .. ]"),
        ("(a, b) < (1, 2)", "[ .. 1) (1,2 .. 1]"),
        ("a = 1 AND (b, c) > (2, 3)", "[1 .. 1,2) (1,2,3 .. 1,2]"),
        ("(a, b, c) > (1, 2, 3) AND (a) < (2)", "[1 .. 1,2) (1,2,3 .. 1,2] (1 .. 2)"),
        ("a > 5 AND a < 3", ""),
        ("a > 1 AND b = 2 ALLOW FILTERING", "(1 .. ] and 1 filters"),
        ("b = 2 ALLOW FILTERING", "[ .. ] and 1 filters"),
        ("a = 1 AND c = 3 ALLOW FILTERING", "[1 .. 1] and 1 filters"),
        ("(b, c) = (2, 3) ALLOW FILTERING", "[ .. ] and 2 filters"),
    ] {
        assert_eq!(slices(&database, clause, &[]).as_deref(), Ok(expected), "{clause}");
    }
}

#[test]
fn clauses_that_contradict_themselves_are_refused_in_cassandras_words() {
    let database = database();
    for (clause, expected) in [
        ("a = 1 AND a = 2", "a cannot be restricted by more than one relation if it includes an Equal"),
        ("a > 1 AND a > 2", "More than one restriction was found for the start bound on a"),
        ("a > 1 AND (a, b) > (1, 2)", "More than one restriction was found for the start bound on a"),
        (
            "a > 1 AND b = 2",
            "Clustering column \"b\" cannot be restricted (preceding column \"a\" is restricted by a non-EQ relation)",
        ),
        (
            "b = 2",
            "PRIMARY KEY column \"b\" cannot be restricted as preceding column \"a\" is not restricted",
        ),
        (
            "(a, c) = (1, 2)",
            "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: (a, c) = (1, 2)",
        ),
        ("(a, b) = (1)", "Expected 2 elements in value tuple, but got 1: (1)"),
        ("(b, c) > (2, 3) ALLOW FILTERING", "Multi-column slice restrictions cannot be used for filtering."),
    ] {
        assert_eq!(slices(&database, clause, &[]), Err(expected.to_owned()), "{clause}");
    }
}

/// Cassandra reports any of several contradictions, and the columns of a relation in any order.
#[test]
fn of_several_contradictions_that_of_the_first_column_is_reported() {
    let database = database();
    for (clause, expected) in [
        (
            "a = 1 AND b = 2 AND c = 3 AND (a, b, c) = (1, 2, 3)",
            "a cannot be restricted by more than one relation if it includes an Equal",
        ),
        (
            "a IN (1, 2) AND b > 2 AND (a, b) = (1, 2)",
            "a cannot be restricted by more than one relation if it includes a IN",
        ),
        (
            "a = 1 AND b > 2 AND (b, c) = (1, 2)",
            "Column \"b\" cannot be restricted by both an equality and an inequality relation",
        ),
        (
            "(a, b) = (1, 2) AND (a, b, c) > (1, 2, 3)",
            "a ,b cannot be restricted by more than one relation if it includes an Equal",
        ),
        (
            "a > 1 AND b > 1 AND (a, b) < (3, 3) ALLOW FILTERING",
            "Column \"b\" cannot be restricted by two inequalities not starting with the same column",
        ),
        (
            "a > 1 AND b = 1 AND (a, b) < (3, 3) ALLOW FILTERING",
            "b cannot be restricted by more than one relation if it includes an Equal",
        ),
    ] {
        assert_eq!(slices(&database, clause, &[]), Err(expected.to_owned()), "{clause}");
    }
}

#[test]
fn a_tuple_bound_whole_restricts_and_filters_item_by_item() {
    let database = database();
    let tuple: Vec<u8> =
        [2, 3].iter().flat_map(|n: &i32| [4_i32.to_be_bytes(), n.to_be_bytes()].concat()).collect();
    let bound = [BoundValue::Set(&tuple)];
    assert_eq!(slices(&database, "(a, b) = ?", &bound).as_deref(), Ok("[2,3 .. 2,3]"));
    assert_eq!(
        slices(&database, "(b, c) = ? ALLOW FILTERING", &bound).as_deref(),
        Ok("[ .. ] and 2 filters")
    );

    let session = database.session();
    for (a, b, c) in [(1, 2, 3), (1, 3, 2), (5, 2, 3)] {
        session.execute(&format!("INSERT INTO ks.t (k, a, b, c) VALUES (0, {a}, {b}, {c})"), ()).unwrap();
    }
    let mut filtered = Rows::default();
    let cql = "SELECT a FROM ks.t WHERE k = 0 AND (b, c) = ? ALLOW FILTERING";
    let options = StatementOptions::default();
    database.query(None, cql, Values::positional(&bound), &options, &mut filtered).unwrap();
    let found: Vec<i32> = filtered.iter().map(|row| row.get(0).unwrap()).collect();
    assert_eq!(found, [1, 5]);

    // A one-item tuple in IN is equivalent to its item.
    let list = [&[0, 0, 0, 1][..], &8_i32.to_be_bytes(), &4_i32.to_be_bytes(), &2_i32.to_be_bytes()].concat();
    for (clause, bound) in [
        ("(b) IN ((2), (7))", &[][..]),
        ("(b) IN (?, ?)", &[BoundValue::Set(&tuple[..8]), BoundValue::Set(&tuple[..8])]),
        ("(b) IN ?", &[BoundValue::Set(&list)]),
    ] {
        let mut filtered = Rows::default();
        let cql = format!("SELECT a FROM ks.t WHERE k = 0 AND {clause} ALLOW FILTERING");
        database.query(None, &cql, Values::positional(bound), &options, &mut filtered).unwrap();
        let found: Vec<i32> = filtered.iter().map(|row| row.get(0).unwrap()).collect();
        assert_eq!(found, [1, 5], "{cql}");
    }
}

#[test]
fn ranges_of_tuples_that_an_index_answers_are_refused_as_in_cassandra() {
    let database = database();
    let session = database.session();
    for cql in ["CREATE INDEX ON ks.t (a) USING 'sai'", "CREATE INDEX ON ks.t (b) USING 'sai'"] {
        session.execute(cql, ()).unwrap();
    }
    const REFUSED: &str = "Multi-column slice restrictions cannot be used for filtering.";
    for (clause, expected) in [
        ("(a, b) > (0, 1)", Err(REFUSED)),
        ("(a, b) > (0, 1) ALLOW FILTERING", Err(REFUSED)),
        ("a > 0 AND (b) < (3)", Err(REFUSED)),
        ("k = 0 AND (a, b) > (0, 1)", Ok(())),
        (
            "a < 3 AND b < 3 AND c < 3",
            Err("Clustering column \"c\" cannot be restricted (preceding column \"b\" is restricted by a \
                 non-EQ relation)"),
        ),
        ("b = 1 AND c = 1", Err(crate::planning::restrictions::ALLOW_FILTERING_MESSAGE)),
        // Reasons are reported in the order of Cassandra's checks.
        (
            "b = 1 AND c = 1 PER PARTITION LIMIT 1",
            Err("PER PARTITION LIMIT is not allowed with aggregate queries."),
        ),
    ] {
        let what = if clause.contains("LIMIT") { "count(*)" } else { "*" };
        let cql = format!("SELECT {what} FROM ks.t WHERE {clause}");
        let answer = session.execute(&cql, ()).map(drop).map_err(|error| error.to_string());
        assert_eq!(answer, expected.map_err(str::to_owned), "{cql}");
    }
}

fn query(database: &Database, cql: &str) -> Result<usize, DatabaseError> {
    database.session().execute(cql, ()).map(|rows| rows.len())
}

fn list(count: usize) -> String {
    (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_huge_product_of_in_lists_is_refused_before_it_is_built() {
    let database = database();
    database
        .session()
        .execute("CREATE TABLE ks.p (a int, b int, c int, PRIMARY KEY ((a, b, c)))", ())
        .unwrap();
    database.session().execute("INSERT INTO ks.t (k, a, b, c) VALUES (0, 7, 7, 7)", ()).unwrap();
    let lists = |n: usize| format!("a IN ({0}) AND b IN ({0}) AND c IN ({0})", list(n));
    for (cql, product) in [
        (format!("SELECT * FROM ks.t WHERE k = 0 AND {}", lists(2000)), "clustering key produces 4000000"),
        (format!("DELETE FROM ks.t WHERE k = 0 AND {}", lists(2000)), "clustering key produces 4000000"),
        (format!("SELECT * FROM ks.p WHERE {}", lists(2000)), "partition key produces 4000000"),
        (
            format!("DELETE FROM ks.t WHERE k IN ({0}) AND a = 1 AND b = 1 AND c IN ({0})", list(2000)),
            "primary key produces 4000000",
        ),
    ] {
        let error = query(&database, &cql).unwrap_err();
        let expected = format!(
            "Aborting query because the cartesian product of the IN restrictions on {product} values, this \
             exceeds the maximum of 100000."
        );
        assert_eq!(error, DatabaseError::Invalid(expected));
    }
    let smaller = format!("SELECT * FROM ks.t WHERE k = 0 AND {}", lists(40));
    assert_eq!(query(&database, &smaller), Ok(1));
    // Repeated values count once.
    let repeated = vec!["7"; 5000].join(", ");
    let repeated = format!("SELECT * FROM ks.t WHERE k = 0 AND a IN ({repeated}) AND b IN ({repeated})");
    assert_eq!(query(&database, &repeated), Ok(1));
    // A single list is limited only by the size of the request.
    let alone = format!("SELECT * FROM ks.t WHERE k = 0 AND a IN ({})", list(110_000));
    assert_eq!(query(&database, &alone), Ok(1));
}

#[test]
fn a_large_product_does_not_run_on_a_thread_that_serves_others() {
    let database = database();
    let lists = |n: usize| format!("SELECT * FROM ks.t WHERE k = 0 AND a IN ({0}) AND b IN ({0})", list(n));
    let at_once = |cql: &str| without_waiting(|| query(&database, cql));
    assert_eq!(at_once(&lists(16)), Ok(0));
    assert_eq!(at_once(&lists(17)), Err(DatabaseError::WouldBlock));
    let keys = |n: usize| format!("SELECT * FROM ks.t WHERE k IN ({})", list(n));
    assert_eq!(at_once(&keys(16)), Ok(0));
    assert_eq!(at_once(&keys(17)), Err(DatabaseError::WouldBlock));
}

#[test]
fn a_value_written_to_very_many_partitions_is_refused() {
    let database = database();
    database.session().execute("CREATE TABLE ks.large (k int PRIMARY KEY, v blob)", ()).unwrap();
    let value = "00".repeat(1 << 20);
    let cql = format!("UPDATE ks.large SET v = 0x{value} WHERE k IN ({})", list(200));
    let error = query(&database, &cql).unwrap_err().to_string();
    assert!(error.starts_with("the values to write to 200 partitions take more than 128 MiB"), "{error}");
    assert_eq!(query(&database, "SELECT k FROM ks.large"), Ok(0));
}

#[test]
fn a_product_of_in_lists_is_built_within_the_deadline() {
    let database = database();
    let cql = format!("SELECT * FROM ks.t WHERE k = 0 AND a IN ({0}) AND b IN ({0})", list(100));
    query(&database, &cql).unwrap();
    database.timeouts().set(Timeout::Read, Some(Duration::ZERO));
    assert_eq!(query(&database, &cql).unwrap_err().code(), 0x1200);
}
