//! Transactions with the built server and timelocks, and on Apache Cassandra.

mod cassandra;
mod checker;
mod memory;
#[path = "../support/cassandra.rs"]
mod nodes;
#[path = "../support/process.rs"]
mod process;
mod starting;
#[path = "../../../transactions/tests/all/suite.rs"]
mod suite;
mod timelocks;
