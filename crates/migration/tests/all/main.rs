//! Moves between servers in this process, and with Apache Cassandra.

mod bulk;
mod cassandra;
mod copies;
mod cut_over;
mod errors;
mod files;
mod followed;
mod import;
#[path = "../../../cli/tests/support/cassandra.rs"]
mod nodes;
mod random;
mod support;
mod verification;
