//! Transactions with snapshot isolation over cells with versions: embedded in a database, or on any CQL cluster.
//!
//! ```
//! use cassette_transactions::{ConflictHandler, Error, Transactions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! let database = cassette_database::Database::open(directory.path())?;
//! let transactions = Transactions::embedded(database, "bank")?;
//! let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell)?;
//! transactions.run(|tx| {
//!     tx.put(&accounts, "alice", "balance", "70")?;
//!     tx.put(&accounts, "bob", "balance", "30")
//! })?;
//! transactions.run(|tx| {
//!     let balance = tx.get(&accounts, "alice", "balance")?.unwrap_or_default();
//!     let balance: i64 = std::str::from_utf8(&balance).map_err(Error::caller)?.parse().map_err(Error::caller)?;
//!     tx.put(&accounts, "alice", "balance", (balance - 20).to_string())?;
//!     tx.put(&accounts, "bob", "balance", "50")
//! })?;
//! assert_eq!(transactions.read(|tx| tx.get(&accounts, "alice", "balance"))?.as_deref(), Some(&b"50"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! `docs/transactions.md` is the protocol; code that is a step of it names the step.

pub mod encoding;
mod error;
pub mod service;
pub mod store;
pub mod timelock;
mod timestamp;
mod transaction;

pub use error::{Error, Outcome, Result};
pub use timestamp::{Conclusion, Timestamp};
pub use transaction::{ConflictHandler, Options, RowOfCells, Table, Transaction, Transactions};
