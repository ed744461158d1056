//! The archived commit log of a repository: what was written between backups.
//!
//! ```text
//! log/<chain>/CommitLog-<version>-<id>.log     a segment of the commit log, as the database wrote it
//! log/<chain>/CommitLog-<version>-<id>.json    its record: length, checksum, times, the segment before it
//! log/<chain>/through.json                     the time up to which everything acknowledged is archived
//! log/<chain>/removed.json                     segments below this id are not needed and being removed
//! ```
//!
//! A chain is the uninterrupted log of one database; another one begins when the database was
//! opened without archiving. A segment is stored before its record, so one without a record does
//! not count. Each record names the segment before it: a missing one is noticed.

mod archiver;
mod chain;
mod point;

pub use archiver::{Archived, LogArchiver};
pub(crate) use chain::{LogRepository, chain_name};
pub(crate) use point::time_text;
pub use point::{Until, parse_until};
