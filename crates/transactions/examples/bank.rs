//! A bank: money moves between accounts, and none is made or lost, whoever moves it at the same time.

use cassette_transactions::{Column, ConflictHandler, Error, Result, Transactions};

/// Balances by account.
pub struct Bank {
    transactions: Transactions,
    balance: Column<String, i64>,
}

/// Why money was not moved.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("{account} has {balance}, less than {amount}")]
pub struct TooLittle {
    account: String,
    balance: i64,
    amount: i64,
}

impl Bank {
    /// With its table made if it is not there.
    pub fn open(transactions: Transactions) -> Result<Self> {
        let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell)?;
        Ok(Self { transactions, balance: accounts.column("balance") })
    }

    /// Adds money from outside.
    pub fn deposit(&self, account: &str, amount: i64) -> Result<()> {
        self.transactions.run(|tx| {
            let balance = self.balance.get(tx, account)?.unwrap_or(0);
            self.balance.put(tx, account, balance + amount)
        })
    }

    /// Both accounts change, or neither. Somebody else's transfer in between makes this one run again, on what is there then.
    pub fn transfer(&self, from: &str, to: &str, amount: i64) -> Result<()> {
        self.transactions.run(|tx| {
            let balance = self.balance.get(tx, from)?.unwrap_or(0);
            if balance < amount {
                return Err(Error::caller(TooLittle { account: from.to_owned(), balance, amount }));
            }
            self.balance.put(tx, from, balance - amount)?;
            let other = self.balance.get(tx, to)?.unwrap_or(0);
            self.balance.put(tx, to, other + amount)
        })
    }

    /// The sum of accounts at one moment.
    pub fn sum(&self, accounts: &[&str]) -> Result<i64> {
        self.transactions.read(|tx| {
            let mut sum = 0;
            for account in accounts {
                sum += self.balance.get(tx, account)?.unwrap_or(0);
            }
            Ok(sum)
        })
    }
}

/// Moves money to and fro in two threads at once.
pub fn run(transactions: Transactions) -> Result<()> {
    let bank = Bank::open(transactions)?;
    bank.deposit("alice", 100)?;
    bank.transfer("alice", "bob", 30)?;
    std::thread::scope(|scope| {
        let there = scope.spawn(|| (0..20).try_for_each(|_| bank.transfer("alice", "bob", 1)));
        let back = scope.spawn(|| (0..20).try_for_each(|_| bank.transfer("bob", "alice", 1)));
        for thread in [there, back] {
            thread.join().expect("it does not panic")?;
        }
        Ok::<_, Error>(())
    })?;
    assert_eq!(bank.sum(&["alice", "bob"])?, 100);
    let error = bank.transfer("bob", "alice", 1_000).unwrap_err();
    assert_eq!(error.to_string(), "bob has 30, less than 1000");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let database = cassette_database::Database::open(directory.path())?;
    Ok(run(Transactions::embedded(database, "bank")?)?)
}
