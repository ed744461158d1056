//! A client of Cassandra's internode streaming protocol, which sends SSTables to a node.
//!
//! A session sends one SSTable to one node, over two connections to its storage port. Both begin
//! with a handshake ([`handshake`]); then messages follow ([`messages`]):
//!
//! ```text
//! control connection                         file connection
//!   -> STREAM_INIT   who streams, the plan
//!   -> PREPARE_SYN   files and bytes per table
//!   <- PREPARE_SYNACK
//!                                              -> STREAM   headers, then the bytes of the file
//!   -> KEEP_ALIVE    meanwhile
//!   <- RECEIVED      the file is written
//!   <- COMPLETE      the table has it, synced
//!   <- SESSION_FAILED at any time; the reason is in the node's log only
//! ```
//!
//! The file connection stays open until COMPLETE: a node fails a session whose connection closes.
//! Only after COMPLETE has a node kept anything; a session that ends earlier leaves no trace.
//!
//! A file is the whole SSTable, if the node replicates all its partitions; otherwise the parts of
//! Data ([`sections`]) with the partitions that it does ([`replicas`]), from which the node writes
//! another SSTable.

pub mod connection;
pub mod handshake;
pub mod header;
pub mod messages;
pub mod outgoing;
pub mod replicas;
pub mod sections;
pub mod session;
mod wire;
