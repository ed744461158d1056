//! Blocking connections to CQL servers: handshake, login, and requests in flight.
//!
//! A [`Connection`] belongs to one thread. Callers choose between [`Connection::call`], which waits
//! for one response, and [`Connection::send`] with [`Connection::receive`], which keep requests in
//! flight.

mod connection;
mod socket;

pub use connection::{Connection, ConnectionOptions, OpenError};
pub use socket::{ConnectError, Socket, explained};
