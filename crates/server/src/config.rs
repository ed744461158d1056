//! The settings of the server, under cassandra.yaml's names without their `native_transport_`
//! prefix.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use cassette_protocol::MESSAGE_LENGTH_MAX_DEFAULT;
use cassette_tls::Tls;

use crate::{authentication::Authenticator, threads};

/// The server's settings.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The address to listen on (`rpc_address` and `native_transport_port`). Port 0 selects a free
    /// one.
    pub listen_address: SocketAddr,
    /// The longest accepted message, including its header, in bytes
    /// (`native_transport_max_frame_size`).
    pub max_frame_size: usize,
    /// The maximum number of connections (`native_transport_max_concurrent_connections`); `None`
    /// for no limit.
    pub max_concurrent_connections: Option<usize>,
    /// The same for one address (`native_transport_max_concurrent_connections_per_ip`).
    pub max_concurrent_connections_per_ip: Option<usize>,
    /// The maximum number of sockets of connections: a forwarded one has a second socket, to the
    /// target. `None` for no limit.
    pub max_sockets: Option<usize>,
    /// The maximum number of concurrent requests that may wait for a disk
    /// (`native_transport_max_threads`).
    pub max_threads: usize,
    /// The same for one connection, so that a client which does not read its answers cannot
    /// accumulate them.
    pub max_threads_per_connection: usize,
    /// The maximum number of logins that are verified concurrently
    /// (`native_transport_max_auth_threads`).
    pub max_auth_threads: usize,
    /// Bytes of requests in memory above which reading pauses
    /// (`native_transport_max_request_data_in_flight`).
    pub max_request_data_in_flight: usize,
    /// The same for one address (`native_transport_max_request_data_in_flight_per_ip`).
    pub max_request_data_in_flight_per_ip: usize,
    /// The longest body of a response, in bytes (`native_transport_max_response_size`, not in
    /// Cassandra).
    pub max_response_size: usize,
    /// Bytes of responses in memory until clients have read them
    /// (`native_transport_max_response_data_in_flight`, not in Cassandra).
    pub max_response_data_in_flight: usize,
    /// The same for one address (`native_transport_max_response_data_in_flight_per_ip`).
    pub max_response_data_in_flight_per_ip: usize,
    /// Connections without traffic for this long are closed (`native_transport_idle_timeout`).
    pub idle_timeout: Option<Duration>,
    /// Connections whose handshake takes longer are closed.
    pub handshake_timeout: Duration,
    /// Verifies the identity of clients (`authenticator`). `None` accepts every client, as
    /// `AllowAllAuthenticator` does.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// Encrypts connections (`client_encryption_options`). `None` accepts clients without TLS only.
    pub tls: Option<Tls>,
    /// The CQL version in SUPPORTED.
    pub cql_version: String,
    /// How long a stopping server waits for requests in flight and for clients to receive their
    /// answers.
    pub stop_timeout: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen_address: (Ipv4Addr::LOCALHOST, 9042).into(),
            max_frame_size: MESSAGE_LENGTH_MAX_DEFAULT,
            max_concurrent_connections: None,
            max_concurrent_connections_per_ip: None,
            max_sockets: None,
            max_threads: default_max_threads(),
            max_threads_per_connection: 16,
            max_auth_threads: default_max_auth_threads(),
            max_request_data_in_flight: 64 << 20,
            max_request_data_in_flight_per_ip: 32 << 20,
            max_response_size: 128 << 20,
            max_response_data_in_flight: 256 << 20,
            max_response_data_in_flight_per_ip: 128 << 20,
            idle_timeout: None,
            handshake_timeout: Duration::from_secs(30),
            authenticator: None,
            tls: None,
            cql_version: "3.4.7".to_owned(),
            stop_timeout: Duration::from_secs(10),
        }
    }
}

impl ServerConfig {
    /// Returns the number of threads of a runtime for requests that may block: including those
    /// reserved for addresses that have none, and some for the admin endpoint, which must respond
    /// while requests compute.
    pub fn blocking_threads(&self) -> usize {
        const ADMIN: usize = 8;
        let max = self.max_threads.max(1);
        let auth = self.max_auth_threads.max(1);
        max + threads::reserved(max) + auth + threads::reserved(auth) + ADMIN
    }
}

/// Half of the processors, so that requests keep the others while many clients log in.
fn default_max_auth_threads() -> usize {
    (threads::processors() / 2).clamp(1, 4)
}

/// Four for each processor: enough to keep a disk busy, and few enough that their stacks and caches
/// are small compared with the data. Cassandra's 128 wait for replicas; these only wait for a disk.
fn default_max_threads() -> usize {
    (4 * threads::processors()).clamp(8, 128)
}
