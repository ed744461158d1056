//! State that all connections share.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use cassette_protocol::response::Event;
use tokio::{sync::broadcast, task::JoinError};

use crate::{
    Backend, ServerConfig, authentication::login_limit::LoginLimit, limits::Limits, metrics::Metrics,
};

/// Settings, backend, limits and metrics of a server, and the events for its connections.
#[derive(Debug)]
pub(crate) struct Shared<B: Backend> {
    pub config: ServerConfig,
    pub backend: Arc<B>,
    pub limits: Arc<Limits>,
    pub metrics: Arc<Metrics>,
    pub events: broadcast::Sender<Arc<Event>>,
    pub logins: LoginLimit,
    /// When the server was created: the start of the time of [`LoginLimit`].
    pub started: Instant,
}

impl<B: Backend> Shared<B> {
    /// Lets the backend update its metrics. A panic must not end the server.
    pub fn tick(&self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.backend.tick())) {
            self.metrics.panicked("updating metrics", &*panic);
        }
    }

    /// Reports a connection that ended with a panic. Its resources are released by then.
    pub fn connection_ended(&self, ended: Result<(), JoinError>) {
        if let Err(Ok(panic)) = ended.map_err(JoinError::try_into_panic) {
            self.metrics.panicked("a connection", &*panic);
        }
    }
}
