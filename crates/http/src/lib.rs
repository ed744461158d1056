//! Serves HTTP: the admin endpoint and the timelock, which authenticate clients themselves.
//!
//! [`serve`] bounds what a client can occupy without sending requests: connections, and the time
//! that they wait for a request's head, for its body and for the client to read a response.
//! A [`Listener`] encrypts connections. [`host`] checks the host that a request names, which
//! protects against DNS rebinding, and [`credentials`] parses the header `Authorization`.

pub mod credentials;
pub mod host;
mod listener;
mod serve;
mod stream;

pub use listener::{Listener, Peer};
pub use serve::{BodyError, Limits, buffered, serve};
