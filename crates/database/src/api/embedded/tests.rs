use std::collections::{BTreeMap, BTreeSet};

use super::{MaybeUnset, Session, Unset, Value};
use crate::api::database::Database;

fn session() -> Session {
    let session = Database::in_memory().unwrap().session();
    let keyspace =
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    session.execute(keyspace, ()).unwrap();
    session.execute("USE ks", ()).unwrap();
    session
}

#[test]
fn values_of_every_type_come_back_as_they_were_given() {
    let session = session();
    session.execute("CREATE TYPE u (a int, b text)", ()).unwrap();
    let columns = [
        ("ascii", Value::Text("abc".into())),
        ("bigint", Value::BigInt(-1 << 40)),
        ("blob", Value::Blob(vec![0, 255])),
        ("boolean", Value::Boolean(true)),
        ("date", Value::Date(1 << 31)),
        ("decimal", Value::Decimal { unscaled: (-12345).into(), scale: 2 }),
        ("double", Value::Double(1.5)),
        ("duration", Value::Duration { months: 1, days: 2, nanoseconds: 3 }),
        ("float", Value::Float(0.1)),
        ("inet", Value::Inet("::1".parse().unwrap())),
        ("int", Value::Int(i32::MIN)),
        ("smallint", Value::SmallInt(-7)),
        ("text", Value::Text("größer".into())),
        ("time", Value::Time(86_399_999_999_999)),
        ("timestamp", Value::Timestamp(-1)),
        ("tinyint", Value::TinyInt(-128)),
        ("uuid", Value::Uuid(uuid::Uuid::from_u128(1 << 100))),
        ("varint", Value::VarInt((i128::from(i64::MAX) * 7).into())),
        ("list<int>", Value::List(vec![Value::Int(2), Value::Int(1)])),
        ("set<text>", Value::Set(vec![Value::Text("a".into()), Value::Text("b".into())])),
        ("map<text, int>", Value::Map(vec![(Value::Text("k".into()), Value::Int(1))])),
        ("tuple<int, text>", Value::Tuple(vec![Value::Null, Value::Text("t".into())])),
        ("u", Value::UserType(vec![("a".into(), Value::Int(1)), ("b".into(), Value::Null)])),
        ("vector<float, 2>", Value::List(vec![Value::Float(1.0), Value::Float(2.0)])),
    ];
    for (i, (data_type, value)) in columns.iter().enumerate() {
        session.execute(&format!("CREATE TABLE t{i} (k int PRIMARY KEY, v {data_type})"), ()).unwrap();
        let insert = session.prepare(&format!("INSERT INTO t{i} (k, v) VALUES (1, ?)")).unwrap();
        session.execute(&insert, (value,)).unwrap();
        let rows = session.execute(&format!("SELECT v FROM t{i}"), ()).unwrap();
        assert_eq!(rows.first().unwrap().get::<Value>("v").unwrap(), *value, "{data_type}");
    }
}

#[test]
fn bound_sets_and_maps_are_the_same_in_whatever_order_they_are_sent() {
    let session = session();
    let ints = |numbers: &[i32]| Value::Set(numbers.iter().map(|number| Value::Int(*number)).collect());
    let map = |entries: &[(i32, i32)]| {
        Value::Map(entries.iter().map(|(k, v)| (Value::Int(*k), Value::Int(*v))).collect())
    };
    for table in [
        "CREATE TABLE sets (k frozen<set<int>>, c frozen<set<int>>, f frozen<set<int>>, s set<int>, v int, \
         PRIMARY KEY (k, c))",
        "CREATE TABLE maps (k frozen<map<int, int>>, c frozen<map<int, int>>, f frozen<map<int, int>>, s \
         map<int, int>, v int, PRIMARY KEY (k, c))",
    ] {
        session.execute(table, ()).unwrap();
    }
    for (table, literal, sent) in
        [("sets", "{-1, 1}", ints(&[1, -1, 1])), ("maps", "{-1: 5, 1: 6}", map(&[(1, 7), (-1, 5), (1, 6)]))]
    {
        let insert = format!(
            "INSERT INTO {table} (k, c, f, s, v) VALUES ({literal}, {literal}, {literal}, {literal}, 1)"
        );
        session.execute(&insert, ()).unwrap();
        let stored = session.execute(&format!("SELECT k, c, f, s FROM {table}"), ()).unwrap();
        let stored: Vec<Value> = (0..4).map(|i| stored.first().unwrap().get(i).unwrap()).collect();

        let insert = format!("INSERT INTO {table} (k, c, f, s, v) VALUES (?, ?, ?, ?, 2)");
        session.execute(&insert, (&sent, &sent, &sent, &sent)).unwrap();
        let rows = session.execute(&format!("SELECT k, c, f, s, v FROM {table}"), ()).unwrap();
        assert_eq!(rows.len(), 1, "{table}");
        let row = rows.first().unwrap();
        assert_eq!((0..4).map(|i| row.get(i).unwrap()).collect::<Vec<Value>>(), stored, "{table}");
        assert_eq!(row.get::<i32>(4).unwrap(), 2);

        let list = Value::List(vec![sent.clone()]);
        for (cql, values) in [
            ("SELECT v FROM _ WHERE k = ? AND c = ?", vec![&sent, &sent]),
            ("SELECT v FROM _ WHERE k IN ? AND c IN ?", vec![&list, &list]),
            ("SELECT v FROM _ WHERE k IN (?) AND (c) = (?)", vec![&sent, &sent]),
            ("SELECT v FROM _ WHERE f = ? ALLOW FILTERING", vec![&sent]),
        ] {
            let rows = session.execute(&cql.replace('_', table), values).unwrap();
            assert_eq!(rows.len(), 1, "{cql} of {table}");
        }
        let conditional =
            format!("UPDATE {table} SET v = 3 WHERE k = ? AND c = ? IF f = ? AND s = ? AND f IN ?");
        let applied = session.execute(&conditional, (&sent, &sent, &sent, &sent, &list)).unwrap();
        assert!(applied.first().unwrap().get::<bool>(0).unwrap(), "{table}");
    }
}

#[test]
fn rust_collections_are_written_and_read() {
    let session = session();
    session
        .execute("CREATE TABLE t (k int PRIMARY KEY, l list<int>, s set<text>, m map<int, text>)", ())
        .unwrap();
    let set = BTreeSet::from(["x", "y"]);
    let map = BTreeMap::from([(2, "two"), (1, "one")]);
    session.execute("INSERT INTO t (k, l, s, m) VALUES (?, ?, ?, ?)", (1, vec![3, 1], set, map)).unwrap();
    let rows = session.execute("SELECT l, s, m FROM t WHERE k = 1", ()).unwrap();
    let row = rows.first().unwrap();
    assert_eq!(row.get::<Vec<i32>>("l").unwrap(), [3, 1]);
    assert_eq!(row.get::<BTreeSet<String>>("s").unwrap(), BTreeSet::from(["x".into(), "y".into()]));
    let map: BTreeMap<i32, String> = row.get(2).unwrap();
    assert_eq!(map[&2], "two");
}

#[test]
fn a_value_of_another_type_is_refused_by_name() {
    let session = session();
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v text)", ()).unwrap();
    let insert = "INSERT INTO t (k, v) VALUES (?, ?)";
    let error = session.execute(insert, (1, 2)).unwrap_err().to_string();
    assert!(error.starts_with("v: "), "{error}");
    let error = session.execute(insert, (1i64 << 40, "v")).unwrap_err().to_string();
    assert!(error.contains("out of the range of CQL's int"), "{error}");
    let error = session.execute(insert, (1,)).unwrap_err().to_string();
    assert_eq!(error, "there were 2 markers(?) in CQL but 1 bound variables");
    session.execute(insert, (1, None::<String>)).unwrap();
    let rows = session.execute("SELECT v FROM t", ()).unwrap();
    let row = rows.first().unwrap();
    assert_eq!(row.get::<Option<String>>("v").unwrap(), None);
    assert!(row.get::<String>("v").is_err());
    assert!(row.get::<String>("w").is_err());
}

#[test]
fn a_batch_is_applied_whole() {
    let session = session();
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v int)", ()).unwrap();
    let insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)").unwrap();
    let mut batch = session.batch();
    for k in 0..10 {
        batch.add(&insert, (k, k * k)).unwrap();
    }
    batch.execute().unwrap();
    assert_eq!(session.execute("SELECT * FROM t", ()).unwrap().len(), 10);
}

#[test]
fn conditional_writes_of_the_same_partition_wait_in_turn_and_one_is_applied() {
    let session = session();
    session.execute("CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))", ()).unwrap();
    let insert = session.prepare("INSERT INTO t (k, c, v) VALUES (1, ?, ?) IF NOT EXISTS").unwrap();
    let applied_by = |thread: i32| {
        let is_applied = |c: &i32| {
            let answer = session.execute(&insert, (*c, thread)).unwrap();
            answer.first().unwrap().get::<bool>(0).unwrap()
        };
        (0..100).filter(is_applied).count()
    };
    let applied_by = &applied_by;
    let applied: usize = std::thread::scope(|scope| {
        let writers = (0..4).map(|thread| scope.spawn(move || applied_by(thread))).collect::<Vec<_>>();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(applied, 100);
}

#[test]
fn an_omitted_value_leaves_its_column_as_it_is() {
    let session = session();
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v int, w int)", ()).unwrap();
    let insert = "INSERT INTO t (k, v, w) VALUES (?, ?, ?)";
    let stored =
        || session.query_one::<(Option<i32>, Option<i32>)>("SELECT v, w FROM t WHERE k = 1", ()).unwrap();
    session.execute(insert, (1, 10, 20)).unwrap();
    session.execute(insert, (1, Unset, 21)).unwrap();
    assert_eq!(stored(), (Some(10), Some(21)));
    session.execute(insert, (1, MaybeUnset::Set(11), MaybeUnset::<i32>::from_option(None))).unwrap();
    assert_eq!(stored(), (Some(11), Some(21)));
    let named =
        BTreeMap::from([("k", MaybeUnset::Set(1)), ("v", MaybeUnset::Unset), ("w", MaybeUnset::Set(22))]);
    session.execute(insert, named).unwrap();
    assert_eq!(stored(), (Some(11), Some(22)));
    let mut batch = session.batch();
    batch.add(&session.prepare(insert).unwrap(), (1, Unset, None::<i32>)).unwrap();
    batch.execute().unwrap();
    assert_eq!(stored(), (Some(11), None));
    let error = session.execute("INSERT INTO t (k) VALUES (?)", (Unset,)).unwrap_err().to_string();
    assert!(error.contains("unset"), "{error}");
}

#[test]
fn an_omitted_element_of_a_collection_is_refused() {
    let session = session();
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v list<int>)", ()).unwrap();
    let values = vec![MaybeUnset::Set(1), MaybeUnset::Unset];
    let error = session.execute("INSERT INTO t (k, v) VALUES (1, ?)", (values,)).unwrap_err().to_string();
    assert!(error.contains("unset is not supported inside collections"), "{error}");
}

#[test]
fn one_row_is_returned_as_a_tuple_and_other_counts_are_refused() {
    let session = session();
    session.execute("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))", ()).unwrap();
    let select = "SELECT c, v FROM t WHERE k = ?";
    assert_eq!(session.query_opt::<(i32, String)>(select, (1,)).unwrap(), None);
    let error = session.query_one::<(i32, String)>(select, (1,)).unwrap_err().to_string();
    assert!(error.contains("expected exactly one, found none"), "{error}");
    for c in 0..2 {
        session.execute("INSERT INTO t (k, c, v) VALUES (1, ?, 'v')", (c,)).unwrap();
    }
    let one = "SELECT c, v FROM t WHERE k = ? AND c = ?";
    assert_eq!(session.query_one::<(i32, String)>(one, (1, 1)).unwrap(), (1, "v".to_owned()));
    let error = session.query_opt::<(i32, String)>(select, (1,)).unwrap_err().to_string();
    assert!(error.contains("expected at most one, found 2"), "{error}");
    let error = session.query_one::<(i32,)>(one, (1, 1)).unwrap_err().to_string();
    assert!(error.contains("expected 1 columns, found 2"), "{error}");
    let rows = session.execute(select, (1,)).unwrap();
    let typed = rows.typed::<(i32, String)>().collect::<crate::basics::error::Result<Vec<_>>>().unwrap();
    assert_eq!(typed, [(0, "v".to_owned()), (1, "v".to_owned())]);
}

#[test]
fn a_text_executed_again_follows_the_schema_and_the_keyspace() {
    let session = session();
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v int)", ()).unwrap();
    let select = "SELECT * FROM t WHERE k = ?";
    session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (1, 1)).unwrap();
    let columns = || session.execute(select, (1,)).map(|rows| rows.columns().len());
    assert_eq!((columns().unwrap(), columns().unwrap()), (2, 2));
    session.execute("ALTER TABLE t ADD w int", ()).unwrap();
    assert_eq!(columns().unwrap(), 3);
    let keyspace =
        "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    session.execute(keyspace, ()).unwrap();
    session.execute("USE other", ()).unwrap();
    assert!(columns().is_err());
    session.execute("USE ks", ()).unwrap();
    assert_eq!(columns().unwrap(), 3);
    session.execute("DROP TABLE t", ()).unwrap();
    assert!(columns().is_err());
}

#[test]
fn values_are_written_for_the_types_that_a_table_has_when_the_statement_is_executed() {
    let session = session();
    let options = crate::StatementOptions::default();
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v int)", ()).unwrap();
    let insert = session.prepare("INSERT INTO t (k, v) VALUES (1, ?)").unwrap();
    session.execute(&insert, (7,)).unwrap();
    // The bytes of this number are a valid text, too.
    let number = i32::from_be_bytes(*b"text");
    let bound = session.bind(&insert, (number,), &options).unwrap();
    let of_text = session.bind("INSERT INTO t (k, v) VALUES (2, ?)", (number,), &options).unwrap();
    let mut batch = session.batch();
    batch.add(&insert, (number,)).unwrap();
    let mut batch_of_text = session.batch();
    batch_of_text.add("INSERT INTO t (k, v) VALUES (3, ?)", (number,)).unwrap();

    session.execute("DROP TABLE t", ()).unwrap();
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v text)", ()).unwrap();
    assert!(session.execute(&insert, (number,)).unwrap_err().to_string().contains("text"));
    let changed = "the schema has changed since the values were bound: bind them again";
    for refused in [
        session.execute_bound(&bound).map(drop),
        batch.execute().map(drop),
        batch_of_text.execute().map(drop),
    ] {
        assert!(refused.as_ref().is_err_and(|error| error.to_string().contains(changed)), "{refused:?}");
    }
    // Its plan is that of the dropped table.
    assert!(session.execute_bound(&of_text).is_err());
    assert!(session.execute("SELECT * FROM t", ()).unwrap().is_empty());
    session.execute(&insert, ("text",)).unwrap();
    assert_eq!(session.query_one::<(String,)>("SELECT v FROM t", ()).unwrap(), ("text".to_owned(),));
}

#[test]
fn databases_in_memory_share_nothing() {
    let (first, second) = (session(), Database::in_memory().unwrap().session());
    first.execute("CREATE TABLE t (k int PRIMARY KEY)", ()).unwrap();
    assert!(second.execute("USE ks", ()).is_err());
}
