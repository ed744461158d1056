//! The Rust `scylla` driver, unmodified, against `cassette serve`.

mod support;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::ControlFlow;

use scylla::client::session::Session;
use scylla::cluster::metadata::ColumnKind;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::frame::Compression;
use scylla::response::PagingState;
use scylla::statement::batch::{Batch, BatchType};
use scylla::value::{
    CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint, MaybeUnset,
    Row,
};
use scylla::{DeserializeValue, SerializeValue};
use support::cql::{builder, connect, connect_to_keyspace, execute, execute_eventually, rows};
use support::{Launch, Server};
use tempfile::TempDir;
use uuid::Uuid;

/// An empty server, and a session in keyspace `ks`. The directory is removed with the test.
async fn start() -> (TempDir, Server, Session) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let session = connect_to_keyspace(server.address()).await;
    (directory, server, session)
}

fn scalars() -> Vec<(&'static str, CqlValue)> {
    vec![
        ("ascii", CqlValue::Ascii("plain".into())),
        ("bigint", CqlValue::BigInt(i64::MIN)),
        ("blob", CqlValue::Blob(vec![0, 255])),
        ("boolean", CqlValue::Boolean(true)),
        ("date", CqlValue::Date(CqlDate((1 << 31) + 18_690))),
        (
            "decimal",
            CqlValue::Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(vec![0xfe, 0x1d, 0xc0], -7)),
        ),
        ("double", CqlValue::Double(1.5e-300)),
        ("duration", CqlValue::Duration(CqlDuration { months: -14, days: -3, nanoseconds: -5_000_000_000 })),
        ("float", CqlValue::Float(-2.5)),
        ("inet", CqlValue::Inet("2001:db8::1".parse::<IpAddr>().unwrap())),
        ("int", CqlValue::Int(i32::MAX)),
        ("smallint", CqlValue::SmallInt(i16::MIN)),
        ("text", CqlValue::Text("ünï ☃".into())),
        ("time", CqlValue::Time(CqlTime(29_574_123_456_789))),
        ("timestamp", CqlValue::Timestamp(CqlTimestamp(-1))),
        (
            "timeuuid",
            CqlValue::Timeuuid("50554d6e-29bb-11e5-b345-feff819cdc9f".parse::<CqlTimeuuid>().unwrap()),
        ),
        ("tinyint", CqlValue::TinyInt(i8::MIN)),
        ("uuid", CqlValue::Uuid(Uuid::from_u128(0x123e_4567_e89b_42d3_a456_4266_5544_0000))),
        (
            "varint",
            CqlValue::Varint(CqlVarint::from_signed_bytes_be(vec![0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scalar_comes_back_as_it_was_bound() {
    let (_directory, _server, session) = start().await;
    let scalars = scalars();
    let columns: Vec<String> = scalars.iter().map(|(name, _)| format!("c_{name} {name}")).collect();
    execute(&session, &format!("CREATE TABLE scalars (k int PRIMARY KEY, {})", columns.join(", "))).await;
    let names = scalars.iter().map(|(name, _)| format!("c_{name}")).collect::<Vec<_>>().join(", ");
    let marks = vec!["?"; scalars.len()].join(", ");
    let insert =
        session.prepare(format!("INSERT INTO scalars (k, {names}) VALUES (?, {marks})")).await.unwrap();
    let select = session.prepare(format!("SELECT {names} FROM scalars WHERE k = ?")).await.unwrap();

    let bound: Vec<Option<CqlValue>> = scalars.into_iter().map(|(_, value)| Some(value)).collect();
    let nulls: Vec<Option<CqlValue>> = vec![None; bound.len()];
    for (key, values) in [(1, &bound), (2, &nulls)] {
        let row: Vec<Option<CqlValue>> =
            std::iter::once(Some(CqlValue::Int(key))).chain(values.iter().cloned()).collect();
        session.execute_unpaged(&insert, row).await.unwrap();
        let found = session.execute_unpaged(&select, (key,)).await.unwrap().into_rows_result().unwrap();
        assert_eq!(&found.single_row::<Row>().unwrap().columns, values);
    }
}

#[derive(Debug, Clone, PartialEq, SerializeValue, DeserializeValue)]
struct Place {
    street: String,
    number: Option<i32>,
    tags: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn collections_tuples_udts_and_nests_of_them_come_back_as_they_were_bound() {
    let (_directory, _server, session) = start().await;
    execute(&session, "CREATE TYPE place (street text, number int, tags frozen<set<text>>)").await;
    execute(
        &session,
        "CREATE TABLE nested (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, bigint>, \
         t tuple<int, text, boolean>, p place, f frozen<place>, \
         d map<int, frozen<list<frozen<tuple<text, frozen<place>>>>>>)",
    )
    .await;
    let place = Place { street: "Main".into(), number: None, tags: vec!["a".into(), "b".into()] };
    type Columns = (
        Vec<i32>,
        Vec<String>,
        BTreeMap<String, i64>,
        (Option<i32>, Option<String>, Option<bool>),
        Place,
        Place,
        BTreeMap<i32, Vec<(String, Place)>>,
    );
    let bound: Columns = (
        vec![3, 1, 2],
        vec!["x".into(), "y".into()],
        [("a".into(), 1), ("b".into(), 2)].into(),
        (Some(1), None, Some(true)),
        place.clone(),
        place.clone(),
        [(7, vec![("deep".into(), place)])].into(),
    );
    let insert = session
        .prepare("INSERT INTO nested (k, l, s, m, t, p, f, d) VALUES (1, ?, ?, ?, ?, ?, ?, ?)")
        .await
        .unwrap();
    session.execute_unpaged(&insert, &bound).await.unwrap();
    let found: Vec<Columns> = rows(&session, "SELECT l, s, m, t, p, f, d FROM nested WHERE k = 1", ()).await;
    assert_eq!(found, [bound]);

    let update = session
        .prepare("UPDATE nested SET l = l + ?, s = s - ?, m[?] = ?, p.number = ? WHERE k = 1")
        .await
        .unwrap();
    session.execute_unpaged(&update, (vec![9], vec!["x"], "c", 3_i64, 5)).await.unwrap();
    type Changed = (Vec<i32>, Vec<String>, BTreeMap<String, i64>, Place);
    let found: Vec<Changed> = rows(&session, "SELECT l, s, m, p FROM nested WHERE k = 1", ()).await;
    let (list, set, map, place) = &found[0];
    assert_eq!((list.as_slice(), set.as_slice()), (&[3, 1, 2, 9][..], &["y".to_owned()][..]));
    assert_eq!(map, &[("a".into(), 1), ("b".into(), 2), ("c".into(), 3)].into());
    assert_eq!(place.number, Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_come_back_as_they_were_bound() {
    let (_directory, _server, session) = start().await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY, v vector<float, 3>, w vector<text, 2>)").await;
    let insert = session.prepare("INSERT INTO t (k, v, w) VALUES (1, ?, ?)").await.unwrap();
    let bound = (vec![1.5_f32, -2.0, 0.0], vec!["one".to_owned(), "ünï".to_owned()]);
    session.execute_unpaged(&insert, &bound).await.unwrap();
    assert_eq!(rows::<(Vec<f32>, Vec<String>)>(&session, "SELECT v, w FROM t", ()).await, [bound]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_left_unset_leaves_its_column_alone() {
    let (_directory, _server, session) = start().await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY, a int, b int)").await;
    let insert = session.prepare("INSERT INTO t (k, a, b) VALUES (1, ?, ?)").await.unwrap();
    session.execute_unpaged(&insert, (1, 2)).await.unwrap();
    session.execute_unpaged(&insert, (MaybeUnset::<i32>::Unset, MaybeUnset::Set(3))).await.unwrap();
    assert_eq!(rows::<(i32, i32)>(&session, "SELECT a, b FROM t", ()).await, [(1, 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_hold_every_row_once_and_go_on_after_a_restart() {
    let (directory, server, session) = start().await;
    execute(&session, "CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))").await;
    let insert = session.prepare("INSERT INTO t (k, c) VALUES (?, ?)").await.unwrap();
    let mut expected = Vec::new();
    for row in (0..7).flat_map(|k| (0..13).map(move |c| (k, c))) {
        session.execute_unpaged(&insert, row).await.unwrap();
        expected.push(row);
    }
    let mut select = session.prepare("SELECT k, c FROM t").await.unwrap();
    select.set_page_size(5);

    let mut found: Vec<(i32, i32)> = Vec::new();
    let mut state = PagingState::start();
    let address = server.address();
    let mut server = Some(server);
    let mut session = session;
    loop {
        let (page, next) = session.execute_single_page(&select, (), state).await.unwrap();
        let page = page.into_rows_result().unwrap();
        assert!(page.rows_num() <= 5);
        found.extend(page.rows::<(i32, i32)>().unwrap().map(Result::unwrap));
        match next.into_paging_control_flow() {
            ControlFlow::Continue(next) => state = next,
            ControlFlow::Break(()) => break,
        }
        if found.len() == 40 {
            server.take().unwrap().kill();
            server = Some(Launch::new(&directory.path().join("data")).listen(address).start());
            session = connect_to_keyspace(address).await;
        }
    }
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_prepared_and_plain_statements_apply_whole() {
    let (_directory, _server, session) = start().await;
    execute(&session, "CREATE TABLE a (k int PRIMARY KEY, v text)").await;
    execute(&session, "CREATE TABLE b (k int PRIMARY KEY, v text)").await;
    let prepared = session.prepare("INSERT INTO a (k, v) VALUES (?, ?)").await.unwrap();
    for (key, kind) in [(1, BatchType::Logged), (2, BatchType::Unlogged)] {
        let mut batch = Batch::new(kind);
        batch.append_statement(prepared.clone());
        batch.append_statement(format!("INSERT INTO b (k, v) VALUES ({key}, 'plain')").as_str());
        batch.append_statement(prepared.clone());
        session.batch(&batch, ((key, "one"), (), (key + 10, "two"))).await.unwrap();
        let found: Vec<(i32, String)> =
            rows(&session, "SELECT k, v FROM a WHERE k IN (?, ?)", (key, key + 10)).await;
        assert_eq!(found, [(key, "one".to_owned()), (key + 10, "two".to_owned())]);
        let found: Vec<(String,)> = rows(&session, "SELECT v FROM b WHERE k = ?", (key,)).await;
        assert_eq!(found, [("plain".to_owned(),)]);
    }

    // One invalid statement, and no part of the batch is applied.
    let mut batch = Batch::new(BatchType::Logged);
    batch.append_statement("INSERT INTO a (k, v) VALUES (99, 'half')");
    batch.append_statement("INSERT INTO b (k, v) VALUES (99, 99)");
    session.batch(&batch, ((), ())).await.unwrap_err();
    assert!(rows::<(i32,)>(&session, "SELECT k FROM a WHERE k = 99", ()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn conditional_writes_say_whether_they_applied_and_what_they_met() {
    let (_directory, _server, session) = start().await;
    execute(&session, "CREATE TABLE t (k int, c int, s int static, v text, PRIMARY KEY (k, c))").await;
    let insert = session.prepare("INSERT INTO t (k, c, v) VALUES (1, 1, ?) IF NOT EXISTS").await.unwrap();
    assert!(insert.is_confirmed_lwt() || !insert.is_token_aware() || insert.get_table_name() == Some("t"));
    let first = session.execute_unpaged(&insert, ("won",)).await.unwrap().into_rows_result().unwrap();
    assert_eq!(first.single_row::<Row>().unwrap().columns[0], Some(CqlValue::Boolean(true)));
    let second = session.execute_unpaged(&insert, ("lost",)).await.unwrap().into_rows_result().unwrap();
    let (applied, k, c, s, v) = second.single_row::<(bool, i32, i32, Option<i32>, String)>().unwrap();
    assert_eq!((applied, k, c, s, v.as_str()), (false, 1, 1, None, "won"));

    let update = "UPDATE t SET v = ? WHERE k = 1 AND c = 1 IF v = ?";
    assert_eq!(rows::<(bool,)>(&session, update, ("next", "won")).await, [(true,)]);
    let failed: Vec<(bool, String)> = rows(&session, update, ("again", "won")).await;
    assert_eq!(failed, [(false, "next".to_owned())]);

    let mut batch = Batch::new(BatchType::Logged);
    batch.append_statement("UPDATE t SET s = 1 WHERE k = 1 IF s = null");
    batch.append_statement("INSERT INTO t (k, c, v) VALUES (1, 2, 'batched')");
    for expected in [true, false] {
        let outcome = session.batch(&batch, ((), ())).await.unwrap().into_rows_result().unwrap();
        let row = outcome.first_row::<Row>().unwrap();
        assert_eq!(row.columns[0], Some(CqlValue::Boolean(expected)));
    }
    assert_eq!(rows::<(i32,)>(&session, "SELECT c FROM t WHERE k = 1", ()).await, [(1,), (2,)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_metadata_tells_what_was_created_and_altered() {
    let (_directory, _server, session) = start().await;
    execute(&session, "CREATE TYPE place (street text, number int)").await;
    execute(
        &session,
        "CREATE TABLE t (a int, b text, c timeuuid, d int, s bigint static, p frozen<place>, l list<int>, \
         PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)",
    )
    .await;
    execute(&session, "ALTER TABLE t ADD later map<text, int>").await;
    session.refresh_metadata().await.unwrap();

    let state = session.get_cluster_state();
    let keyspace = state.get_keyspace("ks").expect("keyspace ks");
    assert!(keyspace.durable_writes);
    let fields = &keyspace.user_defined_types["place"].field_types;
    assert_eq!(fields.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["street", "number"]);
    let table = &keyspace.tables["t"];
    assert_eq!(table.partition_key, ["a", "b"]);
    assert_eq!(table.clustering_key, ["c", "d"]);
    assert_eq!(table.columns["s"].kind, ColumnKind::Static);
    assert_eq!(table.columns["p"].kind, ColumnKind::Regular);
    assert_eq!(table.columns.len(), 8);
    for table in ["local", "peers_v2"] {
        assert!(
            state.get_keyspace("system").is_some_and(|system| system.tables.contains_key(table)),
            "{table}"
        );
    }

    execute(&session, "DROP TABLE t").await;
    session.refresh_metadata().await.unwrap();
    assert!(session.get_cluster_state().get_keyspace("ks").unwrap().tables.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn use_chooses_the_keyspace_of_names_without_one() {
    let (_directory, server, session) = start().await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY)").await;
    execute(&session, &format!("CREATE KEYSPACE \"Other\" WITH replication = {}", support::cql::REPLICATION))
        .await;
    execute(&session, "CREATE TABLE \"Other\".only_there (k int PRIMARY KEY)").await;
    session.use_keyspace("Other", true).await.unwrap();
    execute(&session, "INSERT INTO only_there (k) VALUES (1)").await;
    session.query_unpaged("INSERT INTO t (k) VALUES (1)", ()).await.unwrap_err();

    let stranger = connect(server.address()).await;
    let error = stranger.query_unpaged("SELECT * FROM t", ()).await.unwrap_err();
    assert!(matches!(database_error(&error), DbError::Invalid), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_connections_carry_what_plain_ones_do() {
    let (_directory, server, session) = start().await;
    execute(&session, "CREATE TABLE t (k text PRIMARY KEY, v blob)").await;
    for (name, compression) in [("lz4", Compression::Lz4), ("snappy", Compression::Snappy)] {
        let session = builder(server.address()).compression(Some(compression)).build().await.unwrap();
        for size in [0, 1, 100, 300_000_usize] {
            // Half of it is compressible.
            let value: Vec<u8> =
                (0..size).map(|i| if i % 2 == 0 { 0 } else { (i * i % 251) as u8 }).collect();
            session.query_unpaged("INSERT INTO ks.t (k, v) VALUES (?, ?)", (name, &value)).await.unwrap();
            let found: Vec<(Vec<u8>,)> = rows(&session, "SELECT v FROM ks.t WHERE k = ?", (name,)).await;
            assert!(found == [(value,)], "{name}: {size} bytes");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_its_prepared_statements_outlive_a_killed_server() {
    let (directory, server, session) = start().await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    let insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)").await.unwrap();
    for key in 0..100 {
        session.execute_unpaged(&insert, (key, key)).await.unwrap();
    }
    let address = server.address();
    server.kill();
    session.execute_unpaged(&insert, (100, 100)).await.unwrap_err();
    let server = Launch::new(&directory.path().join("data")).listen(address).start();
    execute_eventually(&session, "SELECT key FROM system.local").await;
    // The new process has not prepared the statement: the driver prepares it again.
    session.execute_unpaged(&insert, (101, 101)).await.unwrap();
    let mut found: Vec<(i32, i32)> = rows(&session, "SELECT k, v FROM t", ()).await;
    found.retain(|(key, _)| *key != 100);
    found.sort_unstable();
    assert_eq!(found, (0..100).chain([101]).map(|key| (key, key)).collect::<Vec<_>>());
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_come_with_the_class_that_the_driver_knows() {
    let (_directory, _server, session) = start().await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    type IsExpected = fn(&DbError) -> bool;
    let cases: [(&str, IsExpected); 5] = [
        ("SELEC * FROM t", |error| matches!(error, DbError::SyntaxError)),
        ("SELECT nothing FROM t", |error| matches!(error, DbError::Invalid)),
        ("SELECT * FROM missing", |error| matches!(error, DbError::Invalid)),
        ("CREATE TABLE t (k int PRIMARY KEY)", |error| matches!(error, DbError::AlreadyExists { .. })),
        ("CREATE TABLE u (k int PRIMARY KEY) WITH gc_grace_seconds = -1", |error| {
            matches!(error, DbError::ConfigError)
        }),
    ];
    for (cql, expected) in cases {
        let error = session.query_unpaged(cql, ()).await.unwrap_err();
        assert!(expected(database_error(&error)), "{cql}: {error:?}");
    }
}

fn database_error(error: &ExecutionError) -> &DbError {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => error,
        _ => panic!("not the server's answer: {error:?}"),
    }
}
