//! A database for each test: in memory, empty, and gone when it is dropped.

use cassette::{Database, Result, Session};

fn main() -> Result<()> {
    run()
}

/// The schema under test.
fn session() -> Result<Session> {
    let session = Database::in_memory()?.session();
    session.execute(
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        (),
    )?;
    session.execute("USE app", ())?;
    session.execute("CREATE TABLE counts (name text PRIMARY KEY, n counter)", ())?;
    Ok(session)
}

/// The code under test.
fn count(session: &Session, name: &str) -> Result<i64> {
    session.execute("UPDATE counts SET n = n + 1 WHERE name = ?", (name,))?;
    Ok(session.query_one::<(i64,)>("SELECT n FROM counts WHERE name = ?", (name,))?.0)
}

/// Two tests, neither of which sees the other's rows.
pub fn run() -> Result<()> {
    let (first, second) = (session()?, session()?);
    assert_eq!((count(&first, "a")?, count(&first, "a")?), (1, 2));
    assert_eq!(count(&second, "a")?, 1);
    println!("both counted from 1");
    Ok(())
}
