//! Tracks the sessions of each connection, to detect killed clients.
//!
//! A session whose connections are all closed expires soon, so that others do not wait long for its
//! locks. That is safe at any time: a client that is alive finds out at C9, or at C10 finds its
//! transaction rolled back. A live client reconnects with its next heartbeat, before its session
//! expires.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::server::LockService;

/// Maximum number of tracked sessions per connection. Clients have one; a proxy may multiplex many,
/// and those beyond the limit expire by age.
const SESSIONS_MAX: usize = 1024;

/// An open connection. Dropped when it is closed and its last request has ended.
#[derive(Default)]
pub(super) struct Connection(Mutex<Carried>);

#[derive(Default)]
struct Carried {
    service: Weak<LockService>,
    sessions: BTreeSet<u64>,
}

impl Connection {
    /// Records that the connection carries requests of `session`.
    pub fn carries(&self, service: &Arc<LockService>, session: u64) {
        let mut carried = self.0.lock();
        if carried.sessions.len() < SESSIONS_MAX && carried.sessions.insert(session) {
            carried.service = Arc::downgrade(service);
            service.connected(session);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let carried = self.0.get_mut();
        if let Some(service) = carried.service.upgrade() {
            service.disconnected(&carried.sessions);
        }
    }
}

/// Connection over which a request arrived.
#[derive(Clone, Default)]
pub(super) struct OfConnection(pub Arc<Connection>);
