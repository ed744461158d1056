//! Listener, connections, sessions: the native protocol over TCP.
//!
//! One task serves a connection (see `connection`); the [`Backend`] executes requests: the database
//! layer, or a script in tests.

pub mod admin;
pub mod authentication;
pub mod backend;
mod backend_database;
mod body;
mod budget;
mod client_history;
mod config;
mod connection;
pub mod descriptors;
mod faults;
mod forwarding;
mod gate;
mod limits;
mod listeners;
mod logins;
mod metrics;
pub mod query_logs;
mod result;
mod running;
mod server;
mod shared;
mod threads;

pub use backend::{Answer, Backend, Effort};
pub use backend_database::ClientSession;
pub use body::Body;
pub use cassette_tls as tls;
pub use config::ServerConfig;
pub use forwarding::{Forwarding, Marker, Proxy};
pub use gate::Gate;
pub use listeners::ServerNodes;
pub use logins::Logins;
pub use server::Server;
