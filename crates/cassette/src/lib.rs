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
//! for row in &session.execute("SELECT k, v FROM ks.t", ())? {
//!     let (k, v): (i32, String) = (row.get("k")?, row.get("v")?);
//!     assert_eq!((k, v.as_str()), (1, "one"));
//! }
//! database.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Database`] is the directory, [`Session`] executes CQL, [`Rows`] are its results, and [`Value`]
//! is any CQL value. Rust types convert to and from CQL by the traits of [`convert`].
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `derive` (default) | `#[derive(FromRow, BindValues, UdtValue)]`: structs as rows, as values of markers, as user-defined types |
//! | `transactions` | `transactions`: snapshot isolation over any number of partitions, embedded |
//! | `cluster` | transactions whose data is on a CQL cluster, and the driver for it |
//! | `timelock` | the server that issues timestamps and locks to transactions of several processes, and its client |
//!
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

pub use cassette_database::named;
pub use cassette_database::{
    Applied, Batch, BatchKind, Consistency, Database, DatabaseError, MaybeUnset, Options, OwnedRow, Query,
    Result, Row, RowIter, Rows, Session, Statement, StatementOptions, Unset, Value,
};
#[cfg(feature = "derive")]
pub use cassette_derive::{BindValues, FromRow, UdtValue};
#[cfg(feature = "transactions")]
pub use cassette_transactions as transactions;

/// Conversion of Rust values to and from CQL values.
pub mod convert {
    pub use cassette_database::ColumnSpec;
    pub use cassette_database::embedded::{
        BindNamed, BindValues, ColumnIndex, Encoded, FromCql, FromRow, ToCql, Written,
    };
    #[doc(hidden)]
    pub use cassette_database::embedded::{UdtReader, bind_by_name, write_udt};
    pub use cassette_rows::DataType;
}

/// The layers below, for options and maintenance. Any release may change them.
#[doc(hidden)]
pub mod internals {
    pub use cassette_database as database;
    pub use cassette_engine as engine;
    pub use cassette_rows as rows;
    pub use cassette_vfs as vfs;
}

/// Compiles the programs of the tutorial.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorial.md")]
struct Tutorial;

/// Compiles and runs the code of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Guide;
