//! Transactions with snapshot isolation over versioned cells, embedded in a database or on any CQL
//! cluster.
//!
//! ```
//! # use cassette_database::Database;
//! # use cassette_transactions::{ConflictHandler, Transactions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! let transactions = Transactions::embedded(Database::open(path)?, "bank")?;
//! let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell)?;
//! let balance = accounts.column::<String, i64>("balance");
//! transactions.run(|tx| balance.put(tx, "alice", 70))?;
//! transactions.run(|tx| {
//!     let has = balance.get(tx, "alice")?.unwrap_or(0);
//!     balance.put(tx, "alice", has - 20)?;
//!     balance.put(tx, "bob", 20)
//! })?;
//! assert_eq!(transactions.read(|tx| balance.get(tx, "alice"))?, Some(50));
//! # Ok(())
//! # }
//! ```
//!
//! Tables consist of cells of bytes ([`Transaction::get`], [`Transaction::put`]); [`Column`] and
//! [`Columns`] add types. The examples of the crate are a bank, a queue, and a maintained index.
//!
//! `docs/transactions.md` describes the protocol. Code that implements a step of it names the step.

pub mod backup;
pub mod encoding;
mod error;
mod numbers;
pub mod service;
pub mod store;
pub mod sweep;
pub mod timelock;
mod timestamp;
mod transaction;
mod typed;

pub use error::{Error, Outcome, Result};
pub use numbers::Number;
pub use timestamp::{Timestamp, TransactionStatus};
pub use transaction::{
    Cells, ConflictHandler, Options, Range, Retries, RowOfCells, Savepoint, Table, Transaction, Transactions,
};
pub use typed::{Column, Columns, Field, Json};
