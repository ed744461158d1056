//! The embedded API: Rust values in, Rust values out.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! use cassette_database::Database;
//!
//! let session = Database::open(path)?.session();
//! session.execute(
//!     "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
//!     (),
//! )?;
//! session.execute("USE app", ())?;
//! session.execute("CREATE TABLE users (id int PRIMARY KEY, name text)", ())?;
//! session.execute("INSERT INTO users (id, name) VALUES (?, ?)", (1, "Ada"))?;
//! for row in &session.execute("SELECT name FROM users WHERE id = ?", (1,))? {
//!     let name: String = row.get("name")?;
//!     assert_eq!(name, "Ada");
//! }
//! # Ok(())
//! # }
//! ```

mod applied;
mod batch;
mod bind;
mod bind_named;
mod bound;
mod error_kind;
mod from_cql;
mod from_row;
mod maintenance;
mod metrics_snapshot;
mod named;
mod open_options;
mod plans;
mod query;
mod read_only;
mod renamed_schema;
mod restore;
mod row_iter;
mod rows;
mod session;
mod to_cql;
mod tuple_sizes;
mod types;
mod udt;
mod unset;
mod value;

pub use applied::Applied;
pub use batch::Batch;
pub use bind::{BindValues, Encoded};
pub use bind_named::{BindNamed, bind_by_name};
pub use bound::BoundStatement;
pub use error_kind::ErrorKind;
pub use from_cql::FromCql;
pub use from_row::FromRow;
pub use metrics_snapshot::{CacheSnapshot, MetricsSnapshot, RequestSnapshot, TableSnapshot};
pub use named::{Named, NoMore};
pub use open_options::OpenOptions;
pub use query::{Query, Statement};
pub use renamed_schema::RestoreNames;
pub use restore::{SnapshotRestore, keyspace_definitions};
pub use row_iter::RowIter;
pub use rows::{ColumnIndex, Iter, OwnedRow, Row, Rows};
pub use session::Session;
pub use to_cql::{ToCql, Written};
pub use udt::{UdtReader, write_udt};
pub use unset::{MaybeUnset, Unset};
pub use value::Value;

#[cfg(test)]
mod tests;
