//! Moves between servers in this process, and with Apache Cassandra.

mod cassandra;
mod copies;
mod errors;
mod files;
mod followed;
mod random;
mod support;
mod verification;
