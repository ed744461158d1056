//! A database in a directory: a table, a row, and the row read back.

use std::path::Path;

use cassette::{Database, Result};

const KEYSPACE: &str =
    "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn main() -> Result<()> {
    run(Path::new("data"))
}

/// Creates a database in `directory`, closes it, and reads it after it is opened again.
pub fn run(directory: &Path) -> Result<()> {
    let database = Database::open(directory)?;
    let session = database.session();
    session.execute(KEYSPACE, ())?;
    session.execute("CREATE TABLE app.users (id int PRIMARY KEY, name text)", ())?;
    session.execute("INSERT INTO app.users (id, name) VALUES (?, ?)", (1, "Ada"))?;
    database.close()?;

    let session = Database::open(directory)?.session();
    let (name,) = session.query_one::<(String,)>("SELECT name FROM app.users WHERE id = ?", (1,))?;
    assert_eq!(name, "Ada");
    println!("user 1 is {name}");
    Ok(())
}
