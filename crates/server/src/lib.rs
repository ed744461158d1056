//! Listener, connections, sessions: the native protocol over TCP.
//!
//! One task serves a connection (see `connection`); what a request does is the [`Backend`]'s business, which is the
//! database floor, or a script in tests.

pub mod admin;
pub mod authentication;
pub mod backend;
mod body;
mod budget;
mod client_history;
mod config;
mod connection;
mod database;
pub mod descriptors;
mod figures;
mod limits;
mod result;
mod running;
mod server;
mod threads;

pub use backend::{Answer, Backend, Effort};
pub use body::Body;
pub use config::ServerConfig;
pub use database::ClientSession;
pub use server::Server;
