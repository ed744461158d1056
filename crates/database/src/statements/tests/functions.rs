//! User-defined functions. `tests/conformance/functions` compares the answers with Cassandra's.

use std::sync::Arc;

use cassette_vfs::FakeFileSystem;
use parking_lot::Mutex;

use super::role_testing::{error, lines, run};
use crate::api::database::{Database, Options};
use crate::basics::error::DatabaseError;
use crate::basics::response::SchemaChange;
use crate::schema::system::SCHEMA;
use crate::schema::system::encode::{Value, mutation, row_of};
use crate::store::authorization::AuthSettings;

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const TWICE: &str = "CREATE FUNCTION k.twice(a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS \
                     'return a * 2'";
const THRICE: &str = "CREATE OR REPLACE FUNCTION k.twice(a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE \
                      lua AS 'return a * 3'";
const ADD: &str = "CREATE FUNCTION k.plus(s int, a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS \
                   'return (s or 0) + (a or 0)'";
const TOTAL: &str = "CREATE AGGREGATE k.total(int) SFUNC plus STYPE int FINALFUNC twice INITCOND 1";

fn open_at(fs: &FakeFileSystem, change: impl FnOnce(&mut Options)) -> Database {
    let mut options = Options {
        auth: AuthSettings { passwords: true, permissions: true, ..AuthSettings::default() },
        file_system: Arc::new(fs.clone()),
        ..Options::new("/data")
    };
    options.functions.enabled = true;
    options.engine.background_threads = false;
    options.engine.auto_snapshot = false;
    options.engine.commitlog_segment_size = 1 << 20;
    change(&mut options);
    Database::open(options).unwrap()
}

fn open() -> Database {
    open_at(&FakeFileSystem::new(), |_| ())
}

/// A table, a function and an aggregate.
fn with_functions(database: &Database) {
    run(
        database,
        &[
            KEYSPACE,
            "CREATE TABLE k.t (k int PRIMARY KEY, v int)",
            "INSERT INTO k.t (k, v) VALUES (1, 10)",
            "INSERT INTO k.t (k, v) VALUES (2, 20)",
            TWICE,
            ADD,
            TOTAL,
        ],
    );
}

#[test]
fn functions_are_refused_unless_they_are_enabled() {
    let fs = FakeFileSystem::new();
    let database = open_at(&fs, |_| ());
    with_functions(&database);
    database.close().unwrap();
    let database = open_at(&fs, |options| options.functions.enabled = false);
    let disabled = "User-defined functions are disabled. Set `user_defined_functions_enabled: true` in the \
        configuration file (--config) to enable them.";
    for cql in [THRICE, "SELECT k.twice(v) FROM k.t", "SELECT k.total(v) FROM k.t"] {
        assert_eq!(error(&database, "", cql), disabled, "{cql}");
    }
    run(&database, &["SELECT v FROM k.t", "DROP AGGREGATE k.total", "DROP FUNCTION k.twice"]);
}

#[test]
fn functions_survive_a_restart_and_a_crash() {
    let fs = FakeFileSystem::new();
    let database = open_at(&fs, |_| ());
    with_functions(&database);
    run(
        &database,
        &[
            "CREATE TYPE k.p (x int, y int)",
            "CREATE FUNCTION k.keep(a p, b list<int>, c tuple<int, text>, d map<text, int>) CALLED ON NULL INPUT \
             RETURNS p LANGUAGE lua AS 'return a'",
        ],
    );
    let described = "DESCRIBE KEYSPACE k";
    let before = lines(&database, "", described);
    assert_eq!(before.iter().filter(|line| line.contains("CREATE FUNCTION")).count(), 3, "{before:?}");
    drop(database);
    let database = open_at(&fs, |_| ());
    assert_eq!(lines(&database, "", described), before);
    // 1 + 10 + 20, twice.
    assert_eq!(lines(&database, "", "SELECT k.total(v) FROM k.t"), ["62"]);
}

#[test]
fn prepared_statements_follow_replaced_functions_and_end_with_dropped_ones() {
    let database = open();
    with_functions(&database);
    let session = database.session();
    let statement = session.prepare("SELECT k.twice(v) FROM k.t WHERE k = 1").unwrap();
    let value = || -> Result<i32, DatabaseError> {
        let rows = session.execute(&statement, ())?;
        rows.first().unwrap().get(0)
    };
    assert_eq!(value().unwrap(), 20);
    run(&database, &[THRICE]);
    assert_eq!(value().unwrap(), 30);
    run(&database, &["DROP AGGREGATE k.total", "DROP FUNCTION k.twice"]);
    assert!(value().is_err());
    run(&database, &[TWICE]);
    assert_eq!(value().unwrap(), 20);
}

#[test]
fn aggregates_call_replaced_functions() {
    let database = open();
    with_functions(&database);
    run(&database, &[THRICE]);
    assert_eq!(lines(&database, "", "SELECT k.total(v) FROM k.t"), ["93"]);
}

#[test]
fn failures_name_the_function_and_its_arguments() {
    let database = open();
    with_functions(&database);
    run(
        &database,
        &[
            "CREATE FUNCTION k.fails(a int, b text) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'error(b)'",
        ],
    );
    let failed = database.session().execute("SELECT k.fails(v, 'no') FROM k.t", ());
    let Err(DatabaseError::FunctionFailure { keyspace, function, argument_types, message }) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!((keyspace.as_str(), function.as_str()), ("k", "fails"));
    assert_eq!(argument_types, ["int", "text"]);
    assert_eq!(message, "k.fails:1: no");
}

#[test]
fn other_languages_are_refused_by_name() {
    let database = open();
    run(&database, &[KEYSPACE]);
    let create = "CREATE FUNCTION k.f(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return a;'";
    assert_eq!(
        error(&database, "", create),
        "User-defined functions in language 'java' are not supported by Cassette; supported are: lua"
    );
}

/// A function of Cassandra in a data directory that was adopted.
#[test]
fn stored_functions_in_java_are_kept_and_cannot_be_called() {
    let fs = FakeFileSystem::new();
    let database = open_at(&fs, |_| ());
    with_functions(&database);
    let table = database.catalog().table(SCHEMA, "functions").unwrap().clone();
    let list = |texts: &[&str]| {
        let mut bytes = Vec::new();
        cassette_rows::types::collection::write_list(&mut bytes, texts.iter().map(|text| text.as_bytes()));
        bytes
    };
    let values = [
        ("argument_names", Value::Bytes(list(&["a"]))),
        ("body", "return a;".into()),
        ("called_on_null_input", true.into()),
        ("language", "java".into()),
        ("return_type", "int".into()),
    ];
    let types = list(&["int"]);
    let row = row_of(&table, &[b"old".as_slice(), &types], &values, 1);
    database.store().engine().apply(&[mutation(&table, "k", vec![row])]).unwrap();
    database.close().unwrap();
    let database = open_at(&fs, |_| ());
    let called = error(&database, "", "SELECT k.old(v) FROM k.t");
    assert!(called.starts_with("User-defined functions in language 'java' are not supported"), "{called}");
    let described = lines(&database, "", "DESCRIBE FUNCTION k.old").join("\n");
    assert!(described.contains("LANGUAGE java\n    AS $$return a;$$;"), "{described}");
    let replacement = "CREATE OR REPLACE FUNCTION k.old(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS \
                       'return a'";
    run(&database, &[replacement]);
    assert_eq!(lines(&database, "", "SELECT k.old(v) FROM k.t WHERE k = 1"), ["10"]);
}

#[test]
fn calls_and_changes_need_permissions_on_functions() {
    let database = open();
    with_functions(&database);
    run(&database, &["CREATE ROLE u", "GRANT SELECT ON k.t TO u", "GRANT MODIFY ON k.t TO u"]);
    let refused = |cql: &str, permission: &str, resource: &str| {
        let expected = format!("User u has no {permission} permission on <{resource}> or any of its parents");
        assert_eq!(error(&database, "u", cql), expected, "{cql}");
    };
    let twice = "function k.twice(int)";
    refused("SELECT k.twice(v) FROM k.t", "EXECUTE", twice);
    refused("INSERT INTO k.t (k, v) VALUES (3, k.twice(1))", "EXECUTE", twice);
    refused("SELECT k.total(v) FROM k.t", "EXECUTE", "function k.total(int)");
    refused(TWICE, "CREATE", "all functions in k");
    refused(THRICE, "ALTER", twice);
    refused("DROP FUNCTION k.twice", "DROP", twice);
    refused("DROP AGGREGATE k.total(int)", "DROP", "function k.total(int)");

    run(&database, &["GRANT EXECUTE ON FUNCTION k.twice(int) TO u"]);
    assert_eq!(lines(&database, "u", "SELECT k.twice(v) FROM k.t WHERE k = 1"), ["20"]);
    run(&database, &["GRANT EXECUTE ON FUNCTION k.total(int) TO u"]);
    refused("SELECT k.total(v) FROM k.t", "EXECUTE", "function k.plus(int, int)");
    run(&database, &["GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE k TO u"]);
    assert_eq!(lines(&database, "u", "SELECT k.total(v) FROM k.t"), ["62"]);

    run(&database, &["GRANT CREATE ON ALL FUNCTIONS IN KEYSPACE k TO u"]);
    let own = "CREATE FUNCTION k.own(a text) CALLED ON NULL INPUT RETURNS text LANGUAGE lua AS 'return a'";
    lines(&database, "u", own);
    let granted = "SELECT resource, permissions FROM system_auth.role_permissions WHERE role = 'u' AND resource = \
                   'functions/k/own[org.apache.cassandra.db.marshal.UTF8Type]'";
    assert_eq!(lines(&database, "", granted).len(), 1);
    // What was granted on a dropped function does not apply to another one of its name.
    lines(&database, "u", "DROP FUNCTION k.own");
    assert_eq!(lines(&database, "", granted).len(), 0);
    let missing = error(&database, "", "GRANT EXECUTE ON FUNCTION k.own(text) TO u");
    assert_eq!(missing, "Resource <function k.own(text)> doesn't exist");
}

#[test]
fn listeners_receive_events_of_functions_and_aggregates() {
    let database = open();
    let seen: Arc<Mutex<Vec<SchemaChange>>> = Arc::default();
    let all = seen.clone();
    let _subscription = database.on_schema_change(move |change| all.lock().push(change.clone()));
    with_functions(&database);
    run(&database, &[THRICE, "DROP AGGREGATE k.total", "DROP FUNCTION k.twice(int)", "DROP KEYSPACE k"]);
    let seen: Vec<String> = seen
        .lock()
        .iter()
        .map(|event| {
            format!("{:?} {:?} {}({})", event.kind, event.target, event.name, event.arguments.join(", "))
        })
        .collect();
    assert_eq!(
        seen,
        [
            "Created Keyspace ()",
            "Created Table t()",
            "Created Function twice(int)",
            "Created Function plus(int, int)",
            "Created Aggregate total(int)",
            "Updated Function twice(int)",
            "Updated Aggregate total(int)",
            "Dropped Aggregate total(int)",
            "Dropped Function twice(int)",
            "Dropped Table t()",
            "Dropped Function plus(int, int)",
            "Dropped Keyspace ()",
        ]
    );
}

#[test]
fn slow_calls_cause_one_warning() {
    let database = open_at(&FakeFileSystem::new(), |options| {
        options.functions.warn_timeout = std::time::Duration::ZERO;
    });
    with_functions(&database);
    let rows = database.session().execute("SELECT k.twice(v) FROM k.t", ()).unwrap();
    assert_eq!(rows.warnings(), ["User defined function k.twice : (int) -> int ran longer than 0ms"]);
}

#[test]
fn bound_values_are_arguments() {
    let database = open();
    with_functions(&database);
    let session = database.session();
    session.execute("INSERT INTO k.t (k, v) VALUES (?, k.twice(?))", (3, 4)).unwrap();
    assert_eq!(lines(&database, "", "SELECT v FROM k.t WHERE k = 3"), ["8"]);
    let rows = session.execute("SELECT k.twice(?) FROM k.t WHERE k = k.twice(?)", (5, 1)).unwrap();
    assert_eq!(rows.first().unwrap().get::<i32>(0).unwrap(), 10);
}
