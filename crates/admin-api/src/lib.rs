//! The admin endpoint's reports and operations, as JSON carries them between a server and its clients.

mod model;
mod refusal;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub use model::*;
pub use refusal::{RefusalKind, Refused};

/// The address of the endpoint by default: 7199 is the port at which Cassandra's nodetool looks for a node.
pub const ADDRESS_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7199);
