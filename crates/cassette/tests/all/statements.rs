//! Statements as an application executes them: page by page, with conditions, in batches, by name.

use cassette::{Applied, Database, MaybeUnset, Session, StatementOptions, Value, named, options::BatchKind};

fn session() -> Session {
    let session = Database::in_memory().unwrap().session();
    for statement in [
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE app",
        "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))",
        "CREATE TABLE counts (k int PRIMARY KEY, n counter)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    session
}

fn fill(session: &Session, rows: i32) {
    for c in 0..rows {
        session.execute("INSERT INTO t (k, c, v) VALUES (0, ?, ?)", (c, format!("row {c}"))).unwrap();
    }
}

fn pages_of(size: i32) -> StatementOptions {
    StatementOptions { page_size: Some(size), ..StatementOptions::default() }
}

#[test]
fn pages_follow_each_other_whatever_their_size() {
    let session = session();
    fill(&session, 25);
    for size in [1, 7, 25, 100] {
        let rows = session.query_iter_with("SELECT c, v FROM t WHERE k = ?", (0,), &pages_of(size)).unwrap();
        let rows: Vec<(i32, String)> = rows.typed().map(Result::unwrap).collect();
        let expected: Vec<_> = (0..25).map(|c| (c, format!("row {c}"))).collect();
        assert_eq!(rows, expected, "pages of {size}");
    }
    let select = session.prepare("SELECT c FROM t").unwrap();
    assert_eq!(session.query_iter_with(&select, (), &pages_of(4)).unwrap().count(), 25);
    assert_eq!(session.query_iter("INSERT INTO t (k, c) VALUES (1, 1)", ()).unwrap().count(), 0);
}

#[test]
fn a_page_ends_early_when_its_rows_are_large() {
    let session = session();
    let large = "x".repeat(300 << 10);
    for c in 0..9 {
        session.execute("INSERT INTO t (k, c, v) VALUES (0, ?, ?)", (c, &large)).unwrap();
    }
    let mut rows = session.query_iter("SELECT c, v FROM t WHERE k = 0", ()).unwrap();
    assert_eq!(rows.next().unwrap().unwrap().get::<String>("v").unwrap(), large);
    // The rest of the first page is in memory, and what follows is read later.
    session.execute("DELETE FROM t WHERE k = 0 AND c > 4", ()).unwrap();
    let rest: Vec<i32> = rows.map(|row| row.unwrap().get("c").unwrap()).collect();
    assert_eq!(rest, [1, 2, 3, 4]);
}

#[test]
fn an_iterator_outlives_its_session_and_moves_to_another_thread() {
    let rows = {
        let session = session();
        fill(&session, 10);
        session.query_iter_with("SELECT c FROM t", (), &pages_of(3)).unwrap()
    };
    let kept: Vec<_> = std::thread::spawn(move || rows.map(Result::unwrap).collect()).join().unwrap();
    let last: i32 = kept[9].get(0).unwrap();
    assert_eq!((kept.len(), last, kept[0].columns().len()), (10, 9, 1));
}

#[test]
fn pages_after_a_schema_change_have_the_new_columns() {
    let session = session();
    fill(&session, 4);
    let mut rows = session.query_iter_with("SELECT * FROM t WHERE k = ?", (0,), &pages_of(2)).unwrap();
    assert_eq!(rows.next().unwrap().unwrap().columns().len(), 3);
    session.execute("ALTER TABLE t ADD w int", ()).unwrap();
    let columns: Vec<usize> = rows.map(|row| row.unwrap().columns().len()).collect();
    assert_eq!(columns, [3, 4, 4]);
}

#[test]
fn an_error_between_pages_ends_the_rows() {
    let session = session();
    fill(&session, 6);
    let mut rows = session.query_iter_with("SELECT c FROM t", (), &pages_of(2)).unwrap();
    rows.next().unwrap().unwrap();
    session.execute("DROP TABLE t", ()).unwrap();
    rows.next().unwrap().unwrap();
    rows.next().unwrap().unwrap_err();
    assert!(rows.next().is_none());
}

#[test]
fn a_conditional_write_returns_what_prevented_it() {
    let session = session();
    let insert = "INSERT INTO t (k, c, v) VALUES (?, ?, ?) IF NOT EXISTS";
    let applied = session.execute(insert, (1, 1, "first")).unwrap().applied::<(i32, i32, String)>();
    assert_eq!(applied.unwrap(), Applied::Yes);
    let applied = session.execute(insert, (1, 1, "second")).unwrap().applied::<(i32, i32, String)>();
    assert_eq!(applied.unwrap(), Applied::No(Some((1, 1, "first".to_owned()))));

    let update = "UPDATE t SET v = ? WHERE k = 1 AND c = 1 IF v = ?";
    assert!(session.execute(update, ("third", "first")).unwrap().is_applied().unwrap());
    let refused = session.execute(update, ("fourth", "first")).unwrap();
    assert_eq!(refused.applied::<(String,)>().unwrap(), Applied::No(Some(("third".to_owned(),))));

    let missing = session.execute("DELETE FROM t WHERE k = 2 AND c = 2 IF EXISTS", ()).unwrap();
    assert_eq!(missing.applied::<(i32,)>().unwrap(), Applied::No(None));
    let error = session.execute("SELECT v FROM t", ()).unwrap().is_applied().unwrap_err();
    assert_eq!(error.to_string(), "cannot tell whether the write was applied: it had no conditions");
}

#[test]
fn a_batch_has_texts_and_prepared_statements_with_one_timestamp() {
    let session = session();
    let insert = session.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)").unwrap();
    let mut batch = session.batch();
    batch.add(&insert, (1, 1, "a")).unwrap().add("UPDATE t SET v = ? WHERE k = 1 AND c = 2", ("b",)).unwrap();
    batch.timestamp(7);
    assert!(batch.add("UPDATE t SET v = ?", ("c",)).is_err());
    assert!(batch.add(&insert, (1,)).is_err());
    assert_eq!(batch.len(), 2);
    batch.execute().unwrap();
    let rows = session.execute("SELECT v, WRITETIME(v) FROM t WHERE k = 1", ()).unwrap();
    let rows: Vec<(String, i64)> = rows.typed().map(Result::unwrap).collect();
    assert_eq!(rows, [("a".to_owned(), 7), ("b".to_owned(), 7)]);
}

#[test]
fn a_conditional_batch_and_a_batch_of_counters_return_their_results() {
    let session = session();
    let mut batch = session.batch();
    batch.add("INSERT INTO t (k, c, v) VALUES (1, 1, 'a') IF NOT EXISTS", ()).unwrap();
    batch.add("INSERT INTO t (k, c, v) VALUES (1, 2, 'b')", ()).unwrap();
    assert!(batch.execute().unwrap().is_applied().unwrap());
    assert!(!batch.execute().unwrap().is_applied().unwrap());

    let mut batch = session.batch_of_kind(BatchKind::Counter);
    batch.add("UPDATE counts SET n = n + ? WHERE k = 1", (2_i64,)).unwrap();
    batch.execute().unwrap();
    assert_eq!(session.query_one::<(i64,)>("SELECT n FROM counts", ()).unwrap(), (2,));
}

#[test]
fn values_have_names_and_any_types() {
    let session = session();
    let insert = "INSERT INTO t (k, c, v) VALUES (:k, :c, :v)";
    let (key, text) = (1, String::from("one"));
    session.execute(insert, named! { "k" => key, "c" => 2_i64, "v" => &text }).unwrap();
    session.execute(insert, named! { "v" => MaybeUnset::<&str>::Unset, "k" => 1, "c" => 2, }).unwrap();
    let values = named! { "k" => Value::from(1) };
    let row: (String,) = session.query_one("SELECT v FROM t WHERE k = :k", &values).unwrap();
    assert_eq!(row.0, "one");
    let error = session.execute(insert, named! { "k" => 1 }).unwrap_err();
    assert_eq!(error.to_string(), "Missing value for bind marker c");
    session.execute("SELECT v FROM t", named! {}).unwrap();
}

#[test]
fn values_convert_from_what_they_hold() {
    assert_eq!(Value::from("a"), Value::Text("a".to_owned()));
    assert_eq!(Value::from(1_i64), Value::BigInt(1));
    assert_eq!(Value::from(None::<i32>), Value::Null);
    assert_eq!(Value::from(Some(2.5)), Value::Double(2.5));
    assert_eq!(Value::from(vec![1_u8]), Value::Blob(vec![1]));
}
