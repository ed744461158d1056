//! Serves HTTP to clients that are not authenticated: the admin endpoint and the timelock.
//!
//! [`serve`] bounds what a client can occupy without sending requests: connections, and the time
//! that they wait for a request's head, for its body and for the client to read a response.
//! [`host`] checks the host that a request names, which protects against DNS rebinding.

pub mod host;
mod serve;
mod stream;

pub use serve::{BodyError, Limits, buffered, serve};
