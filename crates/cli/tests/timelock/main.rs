//! Transactions with the built server and timelocks, and on Apache Cassandra.

mod cassandra;
mod checker;
mod starting;
#[path = "../../../transactions/tests/all/suite.rs"]
mod suite;
mod timelocks;
