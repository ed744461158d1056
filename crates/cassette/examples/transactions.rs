//! A transfer between two accounts: a transaction with snapshot isolation.

use cassette::Database;
use cassette::transactions::{ConflictHandler, Result, Transactions};

fn main() -> Result<()> {
    run(Database::in_memory().expect("an empty database in memory"))
}

/// Moves money, and checks that none is lost.
pub fn run(database: Database) -> Result<()> {
    let transactions = Transactions::embedded(database, "bank")?;
    let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell)?;
    let balance = accounts.column::<String, i64>("balance");
    transactions.run(|tx| balance.put(tx, "alice", 70))?;
    transactions.run(|tx| {
        let has = balance.get(tx, "alice")?.unwrap_or(0);
        balance.put(tx, "alice", has - 20)?;
        balance.put(tx, "bob", 20)
    })?;
    let both = transactions.read(|tx| Ok((balance.get(tx, "alice")?, balance.get(tx, "bob")?)))?;
    assert_eq!(both, (Some(50), Some(20)));
    println!("alice has 50, bob has 20");
    Ok(())
}
