//! The admin endpoint's reports and operations, which server and clients exchange as JSON.

mod model;
mod refusal;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub use model::*;
pub use refusal::{RefusalKind, Refused};

/// The default address of the endpoint: Cassandra's nodetool expects JMX at port 7199.
pub const ADDRESS_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7199);
