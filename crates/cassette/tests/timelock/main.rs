//! Transactions with the built server and timelocks, and on Apache Cassandra.

mod cassandra;
mod checker;
#[path = "../../../transactions/tests/all/suite.rs"]
mod suite;
mod timelocks;
