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
//! The public library is the database floor's: [`Database`] and [`Session`].

pub use cassette_database::*;
