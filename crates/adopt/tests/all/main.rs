//! Directories of Cassandra are adopted completely or not at all, and read without writing.

mod crashes;
mod golden;
mod layouts;
mod merging;
mod oracle;
mod read_only;
mod refusals;
mod support;
