//! A snapshot is read on its own while the database goes on, and restored into another one.

use std::path::Path;

use cassette::backup::SnapshotOptions;
use cassette::{Database, FromRow, Result};

#[derive(Debug, PartialEq, FromRow)]
struct Account {
    owner: String,
    balance: i64,
}

fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("cassette-snapshot-{}", std::process::id()));
    run(&directory.join("first"), &directory.join("second"))
}

/// Uses two directories.
pub fn run(first: &Path, second: &Path) -> Result<()> {
    let database = Database::open(first)?;
    let session = database.session();
    session.execute(
        "CREATE KEYSPACE bank WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        (),
    )?;
    session.execute("CREATE TABLE bank.accounts (owner text PRIMARY KEY, balance bigint)", ())?;
    session.execute("INSERT INTO bank.accounts (owner, balance) VALUES (?, ?)", ("Ada", 70))?;
    let options = SnapshotOptions { name: "midnight", skip_flush: false, ttl_seconds: None };
    let snapshots = database.snapshot(&["bank.accounts".to_owned()], &options)?;
    session.execute("INSERT INTO bank.accounts (owner, balance) VALUES (?, ?)", ("Ada", 20))?;

    let other = Database::open(second)?;
    for snapshot in &snapshots {
        let midnight = Database::open_read_only(&snapshot.directory)?;
        assert_eq!(balance(&midnight)?, 70);
        other.restore(&snapshot.directory)?;
    }
    assert_eq!((balance(&database)?, balance(&other)?), (20, 70));
    println!("20 now, 70 at midnight");
    other.close()?;
    database.close()
}

fn balance(database: &Database) -> Result<i64> {
    let account: Account = database.session().query_one("SELECT * FROM bank.accounts", ())?;
    Ok(account.balance)
}
