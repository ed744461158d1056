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
//! | type | is |
//! | --- | --- |
//! | [`Transactions`], [`Options`] | an open store, and how it is opened |
//! | [`Transaction`] | reads of one snapshot, and writes that take effect together |
//! | [`Table`], [`ConflictHandler`] | a table, and which concurrent transactions exclude each other in it |
//! | [`Column`], [`Columns`], [`Field`] | typed columns: with fixed names, and with names that are data |
//! | [`Index`], [`IndexKey`] | maintained secondary indexes of typed columns |
//! | [`Range`], [`Cells`] | iterators over the columns of a row, and over all cells of a table |
//! | [`Retries`] | how often and how long a failed transaction runs again |
//! | [`Error`], [`Outcome`] | why a transaction failed, and whether it may have committed |
//!
//! Tables consist of cells of bytes ([`Transaction::get`], [`Transaction::put`]). A row is a
//! partition of the store; its columns are in byte order. The examples of the crate are a bank, a
//! queue, and a maintained index.
//!
//! # Guarantees
//!
//! - A transaction reads what was committed when it began, and its own writes.
//! - Its writes take effect together, at one moment, or not at all. They are durable when
//!   [`Transaction::commit`] returns.
//! - Of two concurrent transactions that write the same cell, one fails. Tables with the handler
//!   `Ignore` are exempt.
//! - In tables with a serializable handler, and for cells that are
//!   [read for update](Transaction::get_for_update), what a transaction has read still holds when
//!   it commits.
//! - A transaction whose error is [retriable](Error::is_retriable) has had no effect, and never
//!   will.
//!
//! Reads never block writes. A read waits only for a transaction that is committing, and a commit
//! only for commits of the same cells or rows.
//!
//! # Modules
//!
//! Programs use what is listed above. [`store`], [`timelock`] and [`sweep`] have the options of
//! clusters, servers and sweepers; [`service`] and [`encoding`] are for tools that inspect a store.
//! [`backup`] adds [`Transactions::backup`] and [`Transactions::restore`], [`copy`]
//! [`Transactions::copy_to`].
//!
//! The guide is `docs/transactions-guide.md` in the sources. `docs/transactions.md` describes the
//! protocol; code that implements a step of it names the step.

pub mod backup;
pub mod copy;
pub mod encoding;
mod error;
mod index;
mod numbers;
pub mod service;
pub mod store;
pub mod sweep;
pub mod timelock;
mod timestamp;
mod transaction;
mod typed;

pub use error::{Error, Outcome, Result};
pub use index::{Entries, Index, IndexDeclaration, IndexKey, KeyPrefix, Owners};
pub use numbers::Number;
pub use timestamp::{Timestamp, TransactionStatus};
pub use transaction::{
    Built, Cells, ConflictHandler, Options, Range, Retries, RowOfCells, Savepoint, Table, Transaction,
    Transactions,
};
pub use typed::{Column, Columns, Field, Json};
