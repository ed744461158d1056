//! Notification of schema changes.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::basics::response::SchemaChange;

type Listener = dyn Fn(&SchemaChange) + Send + Sync;

/// The listeners of schema changes. A listener is called after a change is durable and in force, in
/// the order of changes, on the thread that changes the schema. It must not block and must not
/// change the schema.
#[derive(Default)]
pub struct SchemaEvents {
    listeners: Mutex<Vec<Weak<Listener>>>,
}

/// A registered listener; dropping the subscription removes it.
#[must_use = "dropping the subscription ends it"]
pub struct Subscription {
    /// The only strong reference.
    _listener: Arc<Listener>,
}

impl SchemaEvents {
    /// Calls `listener` with every later change.
    pub fn subscribe(&self, listener: impl Fn(&SchemaChange) + Send + Sync + 'static) -> Subscription {
        let listener: Arc<Listener> = Arc::new(listener);
        let mut listeners = self.listeners.lock();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(&listener));
        Subscription { _listener: listener }
    }

    pub(crate) fn tell(&self, change: &SchemaChange) {
        let listeners: Vec<_> = self.listeners.lock().iter().filter_map(Weak::upgrade).collect();
        listeners.iter().for_each(|listener| listener(change));
    }
}

impl std::fmt::Debug for SchemaEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchemaEvents").field("listeners", &self.listeners.lock().len()).finish()
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Subscription")
    }
}
