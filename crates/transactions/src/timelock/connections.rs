//! Which sessions a connection carries requests of: a client that was killed has none open any more.
//!
//! A session whose connections are all closed ends soon, so that nobody waits long for its locks. That is safe
//! at any time, also for a client that lives: it finds out at C9, or C10 finds its transaction rolled back. A
//! client that lives connects again with its next sign of life, before its session ends.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::server::Desk;

/// Sessions of one connection that are noted, at most. Clients have one; a proxy may carry many over one
/// connection, and those that are not noted end by their age.
const SESSIONS_MAX: usize = 1024;

/// An open connection. Dropped when it is closed and its last request has ended.
#[derive(Default)]
pub(super) struct Connection(Mutex<Carried>);

#[derive(Default)]
struct Carried {
    desk: Weak<Desk>,
    sessions: BTreeSet<u64>,
}

impl Connection {
    /// Notes that it carries requests of `session`.
    pub fn carries(&self, desk: &Arc<Desk>, session: u64) {
        let mut carried = self.0.lock();
        if carried.sessions.len() < SESSIONS_MAX && carried.sessions.insert(session) {
            carried.desk = Arc::downgrade(desk);
            desk.connected(session);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let carried = self.0.get_mut();
        if let Some(desk) = carried.desk.upgrade() {
            desk.disconnected(&carried.sessions);
        }
    }
}

/// The connection that a request came over.
#[derive(Clone, Default)]
pub(super) struct OfConnection(pub Arc<Connection>);
