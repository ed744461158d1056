//! Transactions with snapshot isolation over cells with versions: embedded in a database, or on any CQL cluster.
//!
//! `docs/transactions.md` is the protocol; code that is a step of it names the step.

pub mod encoding;
pub mod service;
pub mod store;
pub mod timelock;
mod timestamp;

pub use timestamp::{Conclusion, Timestamp};
