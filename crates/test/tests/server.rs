//! The server of the kit with an unmodified driver, and its keyspaces.

use std::net::TcpStream;

use cassette_test::{Error, Keyspace, LOCAL_DATACENTER, Server};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

const SCHEMA: &str = "tests/schema/users.cql";
const ROWS: &str = "tests/schema/rows.cql";

async fn connect(server: &Server, keyspace: &Keyspace) -> Session {
    let builder = SessionBuilder::new().known_node_addr(server.address());
    builder.use_keyspace(keyspace.name(), false).build().await.unwrap()
}

fn count(keyspace: &Keyspace, table: &str) -> i64 {
    let (count,) = keyspace.session().query_one(&*format!("SELECT count(*) FROM {table}"), ()).unwrap();
    count
}

#[tokio::test]
async fn a_driver_uses_a_keyspace_with_the_schema_of_files() {
    let server = Server::start().unwrap();
    let keyspace = server.keyspace_from([SCHEMA, ROWS]).unwrap();
    let session = connect(&server, &keyspace).await;
    let node = &session.get_cluster_state().get_nodes_info()[0].clone();
    assert_eq!(node.datacenter.as_deref(), Some(LOCAL_DATACENTER));

    session.query_unpaged("UPDATE visits SET visits = visits + 2 WHERE id = 7", ()).await.unwrap();
    let rows = session.query_unpaged("SELECT id FROM users WHERE name = ?", ("grace",)).await.unwrap();
    assert_eq!(rows.into_rows_result().unwrap().single_row::<(i32,)>().unwrap(), (2,));
    assert_eq!((count(&keyspace, "users"), count(&keyspace, "visits")), (2, 1));
    // The runtime of this test has one thread, which the end of the server must not need.
    drop(server);
}

#[tokio::test]
async fn an_injected_fault_is_an_error_of_the_driver() {
    let server = Server::builder().configure(|options| options.fault_injection = true).start().unwrap();
    let keyspace = server.keyspace_of("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
    const RULE: &str = "INSERT INTO system_testing.cassette_faults (id, effect, table_name, message) \
                        VALUES ('a', 'unavailable', 't', 'as the test wants')";
    server.execute(RULE).unwrap();
    let session = connect(&server, &keyspace).await;
    let error = session.query_unpaged("SELECT k FROM t", ()).await.unwrap_err().to_string();
    assert!(error.contains("as the test wants"), "{error}");
    server.execute("TRUNCATE system_testing.cassette_faults").unwrap();
    session.query_unpaged("SELECT k FROM t", ()).await.unwrap();
}

#[test]
fn a_reset_removes_the_rows_and_keeps_the_schema() {
    let server = Server::start().unwrap();
    let (first, second) = (server.keyspace_from([SCHEMA]).unwrap(), server.keyspace_from([SCHEMA]).unwrap());
    for _ in 0..3 {
        first.execute_file(ROWS).unwrap();
        second.execute_file(ROWS).unwrap();
        first.execute("UPDATE visits SET visits = visits + 1 WHERE id = 1").unwrap();
        first.reset().unwrap();
        assert_eq!((count(&first, "users"), count(&first, "visits"), count(&second, "users")), (0, 0, 2));
        let by_index = first.session().execute("SELECT id FROM users WHERE name = 'grace'", ()).unwrap();
        assert!(by_index.is_empty());
    }
    server.reset(second.name()).unwrap();
    assert_eq!(count(&second, "users"), 0);
}

#[test]
fn a_keyspace_is_dropped_with_its_value_also_if_its_schema_has_a_mistake() {
    let server = Server::start().unwrap();
    let keyspaces = |server: &Server| {
        let rows =
            server.database().session().execute("SELECT keyspace_name FROM system_schema.keyspaces", ());
        let names = rows.unwrap().typed::<(String,)>().map(|row| row.unwrap().0).collect::<Vec<_>>();
        names.into_iter().filter(|name| !name.starts_with("system")).collect::<Vec<_>>()
    };
    let keyspace = server.keyspace().unwrap();
    assert_eq!(keyspaces(&server), [keyspace.name()]);
    server.keyspace_of("CREATE TABLE t (k int)").unwrap_err();
    assert_eq!(keyspaces(&server), [keyspace.name()]);
    drop(keyspace);
    assert!(keyspaces(&server).is_empty());
}

#[test]
fn an_error_of_a_script_has_the_place_of_the_mistake() {
    let server = Server::start().unwrap();
    let keyspace = server.keyspace().unwrap();
    let place = |text: &str| match keyspace.execute(text).unwrap_err() {
        Error::Statement { script, line, column, .. } => {
            assert_eq!(script, "CQL");
            (line, column)
        }
        other => panic!("{other}"),
    };
    assert_eq!(place("CREATE TABLE a (k int PRIMARY KEY);\n  CREATE TABLES b (k int PRIMARY KEY);"), (2, 10));
    assert_eq!(place("CREATE TABLE c (\n  k int PRIMARY KY);"), (2, 17));
    // A statement that is not valid for the schema has the place of its beginning.
    assert_eq!(place("INSERT INTO a (k) VALUES (1); INSERT INTO a (x) VALUES (1);"), (1, 31));
    assert_eq!(count(&keyspace, "a"), 1);

    let missing = server.keyspace_from(["tests/schema/missing.cql"]).unwrap_err();
    assert!(missing.to_string().starts_with("cannot read tests/schema/missing.cql: "), "{missing}");
}

#[test]
fn a_server_that_was_dropped_does_not_listen() {
    let server = Server::start().unwrap();
    let (address, other) = (server.address(), Server::start().unwrap());
    assert_ne!(address, other.address());
    let connection = TcpStream::connect(address).unwrap();
    drop(server);
    assert!(TcpStream::connect(address).is_err());
    drop(connection);
    TcpStream::connect(other.address()).unwrap();
}

#[test]
fn a_server_in_a_directory_has_its_rows_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let start = || Server::builder().directory(directory.path().join("data")).start().unwrap();
    let create =
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
                  CREATE TABLE app.t (k int PRIMARY KEY);
                  INSERT INTO app.t (k) VALUES (1);";
    start().execute(create).unwrap();
    let server = start();
    let (k,): (i32,) = server.database().session().query_one("SELECT k FROM app.t", ()).unwrap();
    assert_eq!(k, 1);
}

#[test]
fn options_of_the_database_can_be_changed() {
    let view = "CREATE TABLE t (k int PRIMARY KEY, v int);
                CREATE MATERIALIZED VIEW w AS SELECT * FROM t
                WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k);
                INSERT INTO t (k, v) VALUES (1, 2);";
    assert!(Server::start().unwrap().keyspace_of(view).is_err());
    let server = Server::builder().configure(|options| options.materialized_views_enabled = true).start();
    let server = server.unwrap();
    let keyspace = server.keyspace_of(view).unwrap();
    assert_eq!(count(&keyspace, "w"), 1);
    keyspace.reset().unwrap();
    assert_eq!(count(&keyspace, "w"), 0);
}

#[tokio::test]
async fn each_reset_makes_the_same_uuids_and_times_with_a_seed() {
    let server = Server::builder().seed(7).start().unwrap();
    let keyspace = server.keyspace_of("CREATE TABLE t (id uuid PRIMARY KEY, at timestamp, n int)").unwrap();
    let other = server.keyspace_of("CREATE TABLE t (k int PRIMARY KEY, v int)").unwrap();
    let session = connect(&server, &keyspace).await;
    let insert = "INSERT INTO t (id, at, n) VALUES (uuid(), toTimestamp(now()), ?)";
    let insert = session.prepare(insert).await.unwrap();
    let mut seen = Vec::new();
    for round in 0..3 {
        for n in [1, 2] {
            session.execute_unpaged(&insert, (n,)).await.unwrap();
        }
        let rows = keyspace.session().execute("SELECT JSON id, at, n, writetime(n) FROM t", ()).unwrap();
        seen.push(rows.typed::<(String,)>().map(|row| row.unwrap().0).collect::<Vec<_>>());
        // Rows of other keyspaces remain, and later writes replace them.
        other.execute(&format!("UPDATE t SET v = {round} WHERE k = 1")).unwrap();
        let (v,): (i32,) = other.session().query_one("SELECT v FROM t WHERE k = 1", ()).unwrap();
        assert_eq!(v, round);
        keyspace.reset().unwrap();
    }
    assert_eq!(seen[0].len(), 2);
    assert!(seen.iter().all(|rows| *rows == seen[0]), "{seen:?}");
}
