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
//! The public library is the database floor's: [`Database`] and [`Session`]; and, above it, [`transactions`]:
//!
//! ```
//! use cassette::{Database, transactions::{ConflictHandler, Transactions}};
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
//! # assert_eq!(transactions.read(|tx| balance.get(tx, "alice"))?, Some(50));
//! # Ok(())
//! # }
//! ```

pub use cassette_database::*;
pub use cassette_transactions as transactions;
