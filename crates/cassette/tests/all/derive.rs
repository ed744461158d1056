//! Structs as rows, as values of markers, and as user-defined types.

use std::collections::{BTreeMap, BTreeSet};

use cassette::{BindValues, Database, FromRow, MaybeUnset, Session, UdtValue};

#[derive(Debug, Clone, PartialEq, UdtValue)]
struct Address {
    zip: Option<i32>,
    street: String,
    #[cassette(skip)]
    is_checked: bool,
}

#[derive(Debug, Clone, PartialEq, FromRow, BindValues)]
struct Names {
    #[cassette(rename = "name")]
    full: String,
    nickname: Option<String>,
}

#[derive(Debug, Clone, PartialEq, FromRow, BindValues)]
struct User {
    id: i32,
    #[cassette(flatten)]
    names: Names,
    tags: BTreeSet<String>,
    visits: BTreeMap<String, i64>,
    home: Option<Address>,
    others: Vec<Address>,
    #[cassette(skip)]
    is_cached: bool,
}

#[derive(FromRow, BindValues)]
struct Pair<K, V> {
    k: K,
    v: V,
}

const ALL: &str = "SELECT id, name, nickname, tags, visits, home, others FROM app.users";
const INSERT: &str = "INSERT INTO app.users (id, name, nickname, tags, visits, home, others) \
                      VALUES (?, ?, ?, ?, ?, ?, ?)";

fn session() -> Session {
    let session = Database::in_memory().unwrap().session();
    for statement in [
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE app.address (street text, zip int)",
        "CREATE TABLE app.users (id int PRIMARY KEY, name text, nickname text, tags set<text>, \
         visits map<text, bigint>, home frozen<address>, others list<frozen<address>>)",
        "CREATE TABLE app.pairs (k int PRIMARY KEY, v text)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    session
}

fn ada() -> User {
    let home = Address { zip: Some(8000), street: "Main".to_owned(), is_checked: false };
    User {
        id: 1,
        names: Names { full: "Ada".to_owned(), nickname: None },
        tags: BTreeSet::from(["a".to_owned(), "b".to_owned()]),
        visits: BTreeMap::from([("home".to_owned(), 3)]),
        home: Some(home.clone()),
        others: vec![home, Address { zip: None, street: "Side".to_owned(), is_checked: false }],
        is_cached: false,
    }
}

#[test]
fn a_struct_is_written_and_read_with_nested_fields_and_types() {
    let session = session();
    session.execute(INSERT, ada()).unwrap();
    assert_eq!(session.query_one::<User>(ALL, ()).unwrap(), ada());
}

#[test]
fn fields_without_a_marker_and_columns_without_a_field_are_ignored() {
    let session = session();
    session.execute("INSERT INTO app.users (id, name) VALUES (:id, :name)", ada()).unwrap();
    let names: Names = session.query_one(ALL, ()).unwrap();
    assert_eq!(names, ada().names);
}

#[test]
fn a_marker_without_a_field_and_a_field_without_a_column_are_errors() {
    let session = session();
    let pair = Pair { k: 1, v: "one" };
    let error = session.execute("INSERT INTO app.pairs (k, v) VALUES (:k, :w)", &pair).unwrap_err();
    assert_eq!(error.to_string(), "Missing value for bind marker w");
    session.execute("INSERT INTO app.pairs (k, v) VALUES (?, ?)", &pair).unwrap();
    let error = session.query_one::<Names>("SELECT k FROM app.pairs", ()).unwrap_err();
    assert_eq!(error.to_string(), "the result has no column name");
}

#[test]
fn parameters_of_a_struct_are_any_values() {
    let session = session();
    let insert = "INSERT INTO app.pairs (k, v) VALUES (?, ?)";
    session.execute(insert, Pair { k: 1_i64, v: MaybeUnset::Set("one") }).unwrap();
    session.execute(insert, Pair { k: 1_i64, v: MaybeUnset::<&str>::Unset }).unwrap();
    let pair: Pair<i32, Option<String>> = session.query_one("SELECT k, v FROM app.pairs", ()).unwrap();
    assert_eq!((pair.k, pair.v.as_deref()), (1, Some("one")));
}

#[test]
fn a_user_defined_type_lists_what_does_not_fit() {
    #[derive(Debug, UdtValue)]
    struct Wrong {
        street: String,
        town: String,
    }
    let session = session();
    let insert = "INSERT INTO app.users (id, home) VALUES (1, ?)";
    let wrong = Wrong { street: String::new(), town: String::new() };
    let error = session.execute(insert, (&wrong,)).unwrap_err();
    assert_eq!(error.to_string(), "home: Unknown field 'town' in value of user defined type address");
    let error = session.execute("INSERT INTO app.pairs (k, v) VALUES (1, ?)", (&wrong,)).unwrap_err();
    assert_eq!(error.to_string(), "v: cannot convert Wrong: expected a user-defined type, found text");

    session.execute(INSERT, ada()).unwrap();
    let error = session.query_one::<(Wrong,)>("SELECT home FROM app.users", ()).unwrap_err();
    assert_eq!(error.to_string(), "home: user defined type address has no field town");
}

#[test]
fn a_field_added_to_a_type_is_null_in_values_written_before() {
    #[derive(Debug, PartialEq, UdtValue)]
    struct Longer {
        street: String,
        town: Option<String>,
    }
    let session = session();
    session.execute(INSERT, ada()).unwrap();
    session.execute("ALTER TYPE app.address ADD town text", ()).unwrap();
    let (home,): (Longer,) = session.query_one("SELECT home FROM app.users", ()).unwrap();
    assert_eq!(home, Longer { street: "Main".to_owned(), town: None });
    let (old,): (Address,) = session.query_one("SELECT home FROM app.users", ()).unwrap();
    session.execute("INSERT INTO app.users (id, home) VALUES (2, ?)", (&old,)).unwrap();
    let (home,): (Longer,) = session.query_one("SELECT home FROM app.users WHERE id = 2", ()).unwrap();
    assert_eq!(home.town, None);
}
