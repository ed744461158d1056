//! A bank: transfers between accounts preserve the total, however many run concurrently.

use cassette_transactions::{Column, ConflictHandler, Error, Result, Transactions};

/// Balances by account.
pub struct Bank {
    transactions: Transactions,
    balance: Column<String, i64>,
}

/// An account has too little money for a transfer.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("{account} has {balance}, less than {amount}")]
pub struct TooLittle {
    account: String,
    balance: i64,
    amount: i64,
}

impl Bank {
    /// Opens the bank, creating its table if needed.
    pub fn open(transactions: Transactions) -> Result<Self> {
        let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell)?;
        Ok(Self { transactions, balance: accounts.column("balance") })
    }

    /// Deposits money from outside.
    pub fn deposit(&self, account: &str, amount: i64) -> Result<()> {
        self.transactions.run(|tx| {
            let balance = self.balance.get(tx, account)?.unwrap_or(0);
            self.balance.put(tx, account, balance + amount)
        })
    }

    /// Changes both accounts or neither. A concurrent transfer makes this one run again on the new
    /// balances.
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

    /// Returns the sum of accounts at one moment.
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

/// Transfers money back and forth in two threads.
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
