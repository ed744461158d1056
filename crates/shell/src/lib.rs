//! The shell for CQL, `cassette cql`: cqlsh's commands and output on a running server, on the
//! database in a directory, and read-only on snapshots and directories of Cassandra.
//!
//! [`run`] executes the command. The modules are layers, with the start of the shell on top
//! (`ARCHITECTURE.md`).

mod arguments;
mod commands;
mod connect;
mod copy;
mod cqlshrc;
mod error;
#[doc(hidden)]
pub mod fuzzed;
mod import;
mod input;
mod interactive;
mod link;
mod load;
mod output;
mod pointer;
mod schema;
mod session;
mod shell;
mod start;
mod values;
mod words;

pub use arguments::CqlArguments;
pub use start::run;

#[cfg(test)]
mod tests;
