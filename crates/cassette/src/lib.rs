//! Cassandra boxed: a CQL database to embed.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! let database = cassette::Database::open(path)?;
//! let session = database.session();
//! session.execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
//! session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text)", ())?;
//! session.execute("INSERT INTO ks.t (k, v) VALUES (?, ?)", (1, "one"))?;
//! for row in session.execute("SELECT k, v FROM ks.t", ())?.typed::<(i32, String)>() {
//!     let (k, v) = row?;
//!     assert_eq!((k, v.as_str()), (1, "one"));
//! }
//! database.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! | type | is |
//! | --- | --- |
//! | [`Database`], [`OpenOptions`] | an open directory, and how it is opened |
//! | [`Session`] | executes statements in a keyspace |
//! | [`Rows`], [`Row`], [`RowIter`] | a result: in memory, or read page by page |
//! | [`Statement`], [`Batch`] | a prepared statement; writes that are applied together |
//! | [`Value`], [`Unset`], [`MaybeUnset`] | any CQL value; values that are omitted |
//! | [`Applied`] | the result of a conditional write |
//! | [`Error`], [`ErrorKind`] | what failed, and what to do about it |
//!
//! Rust types convert to and from CQL by the traits of [`convert`]; tuples, and structs with
//! `#[derive(FromRow)]`, are rows. Snapshots are in [`backup`], counters in [`metrics`], and what
//! few programs need in [`options`].
//!
//! The guide, `docs/embedding.md` in the sources, has chapters on structs, types, threads and
//! asynchronous programs, durability, memory, backups and errors. Programs to start from are in the
//! directory `examples` of the package.
//!
//! # Guarantees
//!
//! - A write that was acknowledged survives the end of the process, however it ends.
//!   `commitlog_sync` decides what a power failure may cost.
//! - Writes to one partition, and batches, are applied as a whole or not at all.
//! - Every call blocks, and any number of threads may call; the feature `async` adds calls that
//!   return futures.
//! - Tables are stored as Cassandra's SSTables, of version `nb`.
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `derive` (default) | `#[derive(FromRow)]`, `#[derive(BindValues)]`, `#[derive(UdtValue)]` |
//! | `async` | `AsyncSession`: calls return futures, which run on tokio |
//! | `chrono`, `jiff`, `time` | their timestamps, dates and times as values of `timestamp`, `date` and `time` |
//! | `bigdecimal` | `BigDecimal` as a value of `decimal` |
//! | `serde_json` | `Value` as a value of any type, in the JSON of CQL |
//! | `lua` | user-defined functions, whose bodies are in Lua |
//! | `transactions` | `transactions`: snapshot isolation over any number of partitions, embedded |
//! | `cluster` | transactions whose data is on a CQL cluster, and the driver for it |
//! | `timelock` | the server that issues timestamps and locks to transactions of several processes, and its client |
#![cfg_attr(
    feature = "transactions",
    doc = r#"
# Transactions

```
use cassette::{Database, transactions::{ConflictHandler, Transactions}};
# fn main() -> Result<(), Box<dyn std::error::Error>> {
# let directory = tempfile::tempdir()?;
# let path = directory.path();
let transactions = Transactions::embedded(Database::open(path)?, "bank")?;
let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell)?;
let balance = accounts.column::<String, i64>("balance");
transactions.run(|tx| balance.put(tx, "alice", 70))?;
transactions.run(|tx| {
    let has = balance.get(tx, "alice")?.unwrap_or(0);
    balance.put(tx, "alice", has - 20)?;
    balance.put(tx, "bob", 20)
})?;
# assert_eq!(transactions.read(|tx| balance.get(tx, "alice"))?, Some(50));
# Ok(())
# }
```
"#
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod settings;

pub use cassette_database::{
    Applied, Batch, Database, DatabaseError as Error, ErrorKind, MaybeUnset, OpenOptions, OwnedRow, Result,
    Row, RowIter, Rows, Session, Statement, StatementOptions, Unset, Value, named,
};
#[cfg(feature = "async")]
pub mod asynchronous;
#[cfg(feature = "async")]
pub use asynchronous::AsyncSession;
#[cfg(feature = "derive")]
pub use cassette_derive::{BindValues, FromRow, UdtValue};
#[cfg(feature = "transactions")]
pub use cassette_transactions as transactions;

/// Change data capture: [`OpenOptions::cdc`], [`Database::change_stream`].
pub mod changes {
    pub use cassette_database::{Change, ChangeRecord, ChangeStream, ChangeStreamError, Position};
    pub use cassette_engine::CdcSettings;
}

/// Encryption of the commit log: [`OpenOptions::commitlog_encryption`].
#[cfg(feature = "encryption")]
pub mod encryption {
    pub use cassette_encryption::{AesGcm, Key, KeyError, Keys, keys_in_file};
}

/// Conversion of Rust values to and from CQL values.
pub mod convert {
    pub use cassette_database::ColumnSpec;
    pub use cassette_database::embedded::{
        BindNamed, BindValues, ColumnIndex, Encoded, FromCql, FromRow, Query, ToCql, Written,
    };
    #[doc(hidden)]
    pub use cassette_database::embedded::{UdtReader, bind_by_name, write_udt};
    pub use cassette_rows::DataType;
}

/// Snapshots and imports: [`Database::snapshot`], [`Database::restore`], [`Database::import`].
pub mod backup {
    pub use cassette_database::{ImportOptions, ImportedSSTable, Snapshot, SnapshotFilter, SnapshotOptions};
}

/// Metrics at one moment: [`Database::metrics_snapshot`].
pub mod metrics {
    pub use cassette_database::embedded::{CacheSnapshot, MetricsSnapshot, RequestSnapshot, TableSnapshot};
}

/// Options that few programs change, and the types of errors' fields.
pub mod options {
    #[doc(hidden)]
    pub use crate::settings::set;
    pub use cassette_database::{
        AbortReason, BatchKind, Cause, Consistency, Options, RequestTimeouts, Seed, Timeout, WriteType,
    };
    pub use cassette_engine::DiskFailurePolicy;
    pub use cassette_engine::commitlog::SyncMode;
}

/// The layers below, for options and maintenance. Any release may change them.
#[doc(hidden)]
pub mod internals {
    pub use cassette_database as database;
    pub use cassette_engine as engine;
    pub use cassette_rows as rows;
    pub use cassette_vfs as vfs;
}

/// Compiles and runs the code of the front page.
#[cfg(all(doctest, feature = "transactions"))]
#[doc = include_str!("../../../README.md")]
struct FrontPage;

/// Compiles and runs the code of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackagePage;

/// Compiles the programs of the tutorial.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorial.md")]
struct Tutorial;

/// Compiles and runs the code of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Guide;

/// Compiles and runs the code of the guide to transactions.
#[cfg(all(doctest, feature = "transactions"))]
#[doc = include_str!("../../../docs/transactions-guide.md")]
struct TransactionsGuide;
