//! The library as an application uses it.

use cassette::{Database, Error};

const KEYSPACE: &str =
    "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

#[test]
fn what_is_written_is_read_by_type_and_is_there_when_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let session = database.session();
    session.execute(KEYSPACE, ()).unwrap();
    session.execute("USE app", ()).unwrap();
    session
        .execute(
            "CREATE TABLE users (id int PRIMARY KEY, name text, tags set<text>, visits map<text, bigint>)",
            (),
        )
        .unwrap();
    let insert = session.prepare("INSERT INTO users (id, name, tags) VALUES (?, ?, ?)").unwrap();
    for id in 0..10 {
        session.execute(&insert, (id, format!("user {id}"), vec!["a", "b"])).unwrap();
    }
    let mut batch = session.batch();
    batch
        .add(&insert, (10, "ten", vec!["c"]))
        .unwrap()
        .add(&insert, (11, None::<&str>, None::<Vec<&str>>))
        .unwrap();
    batch.execute().unwrap();
    drop(batch);
    database.close().unwrap();
    drop((insert, session, database));

    let session = Database::open(directory.path()).unwrap().session();
    let rows = session.execute("SELECT name, tags FROM app.users WHERE id = ?", (10,)).unwrap();
    let row = rows.first().unwrap();
    assert_eq!(row.get::<String>("name").unwrap(), "ten");
    assert_eq!(row.get::<Vec<String>>(1).unwrap(), ["c"]);
    let rows = session.execute("SELECT name FROM app.users WHERE id = 11", ()).unwrap();
    assert_eq!(rows.first().unwrap().get::<Option<String>>("name").unwrap(), None);
    assert_eq!(session.execute("SELECT id FROM app.users", ()).unwrap().len(), 12);
}

#[test]
fn sessions_in_threads_have_their_own_keyspace_and_share_the_data() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    for keyspace in ["one", "two"] {
        let session = database.session();
        session.execute(&KEYSPACE.replace("app", keyspace), ()).unwrap();
        session.execute(&format!("CREATE TABLE {keyspace}.t (k int PRIMARY KEY, v text)"), ()).unwrap();
    }
    std::thread::scope(|scope| {
        for keyspace in ["one", "two"] {
            let session = database.session();
            scope.spawn(move || {
                session.execute(&format!("USE {keyspace}"), ()).unwrap();
                for key in 0..200 {
                    session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (key, keyspace)).unwrap();
                }
            });
        }
    });
    let session = database.session();
    for keyspace in ["one", "two"] {
        let rows = session.execute(&format!("SELECT v FROM {keyspace}.t"), ()).unwrap();
        assert_eq!(rows.len(), 200);
        assert!(rows.iter().all(|row| row.get::<String>("v").unwrap() == keyspace));
    }
}

#[test]
fn a_directory_is_open_once_and_a_closed_database_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let error = Database::open(directory.path()).unwrap_err();
    assert!(error.to_string().contains("is in use"), "{error}");
    let session = database.session();
    session.execute(KEYSPACE, ()).unwrap();
    session.execute("CREATE TABLE app.t (k int PRIMARY KEY)", ()).unwrap();
    database.close().unwrap();
    let error = session.execute("INSERT INTO app.t (k) VALUES (1)", ()).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
    Database::open(directory.path()).unwrap();
}

#[test]
fn mistakes_are_errors_of_their_class() {
    let directory = tempfile::tempdir().unwrap();
    let session = Database::open(directory.path()).unwrap().session();
    assert!(matches!(session.execute("SELEC 1", ()), Err(Error::Syntax { .. })));
    assert!(matches!(session.execute("SELECT * FROM nowhere.t", ()), Err(Error::Invalid(_))));
}
