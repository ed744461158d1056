//! Listener, connections, sessions: the native protocol over TCP.
//!
//! One task serves a connection (see `connection`); what a request does is the [`Backend`]'s business.

pub mod authentication;
pub mod backend;
mod config;
mod connection;
mod limits;
mod server;

pub use backend::{Answer, Backend, Effort};
pub use config::ServerConfig;
pub use server::Server;
