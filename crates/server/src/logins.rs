//! Verifies logins of all listeners, within common limits of failures and of concurrent checks.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use bytes::Bytes;

use crate::{
    authentication::{Authenticator, Negotiation, Verdict, login_limit::LoginLimit},
    metrics::Metrics,
    threads::{ThreadClient, Threads},
};

/// The message for a client that may not log in at present.
pub(crate) const TOO_MANY_FAILURES: &str =
    "too many failed logins from this address or as this role: try again later";

/// Verifies logins.
#[derive(Debug)]
pub(crate) struct LoginGate {
    limit: LoginLimit,
    /// Threads that verify identities.
    threads: Arc<Threads>,
    metrics: Arc<Metrics>,
    /// When the server was created: the start of the time of [`LoginLimit`].
    started: Instant,
}

/// Verifies logins for a listener besides that of CQL: failures count together.
#[derive(Debug, Clone)]
pub struct Logins {
    pub(crate) gate: Arc<LoginGate>,
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
}

/// The result of a step of a login.
pub(crate) enum Judgement {
    Verdict(Verdict),
    /// Too many logins have failed: the token was not evaluated.
    TooManyFailures,
}

impl LoginGate {
    pub fn new(threads: Arc<Threads>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { limit: LoginLimit::default(), threads, metrics, started: Instant::now() })
    }

    /// Evaluates a token of a client on a blocking thread, and counts failures. Returns the
    /// negotiation for the client's next token.
    pub async fn evaluate(
        &self,
        client: ThreadClient,
        mut negotiation: Box<dyn Negotiation>,
        token: Bytes,
    ) -> (Box<dyn Negotiation>, Judgement) {
        let thread = Arc::clone(&self.threads).acquire(client).await;
        let role = negotiation.claimed_role(&token);
        if !self.limit.permits(client.address, role.as_deref(), self.started.elapsed()) {
            self.metrics.logins_refused.fetch_add(1, Ordering::Relaxed);
            return (negotiation, Judgement::TooManyFailures);
        }
        let metrics = Arc::clone(&self.metrics);
        let evaluated = tokio::task::spawn_blocking(move || {
            let verdict = evaluate(&mut *negotiation, &token, |panic| {
                metrics.panicked("AUTH_RESPONSE", panic);
            });
            drop(thread);
            (negotiation, verdict)
        });
        // The closure does not panic, and nothing aborts it while the runtime lives.
        let Ok((negotiation, verdict)) = evaluated.await else { return std::future::pending().await };
        if matches!(verdict, Verdict::Refused(_)) {
            self.limit.failed(client.address, role.as_deref(), self.started.elapsed());
            self.metrics.logins_failed.fetch_add(1, Ordering::Relaxed);
        }
        (negotiation, Judgement::Verdict(verdict))
    }

    /// Counts a wrong token of a client, which needs no thread. Returns whether the client may try
    /// another one at once.
    pub fn token_failed(&self, address: std::net::IpAddr) -> bool {
        let now = self.started.elapsed();
        let is_permitted = self.limit.permits(address, None, now);
        let counter = if is_permitted { &self.metrics.logins_failed } else { &self.metrics.logins_refused };
        counter.fetch_add(1, Ordering::Relaxed);
        if is_permitted {
            self.limit.failed(address, None, now);
        }
        is_permitted
    }

    /// Counts a failed TLS handshake.
    pub fn handshake_failed(&self) {
        self.metrics.tls_handshakes_failed.fetch_add(1, Ordering::Relaxed);
    }
}

fn evaluate(
    negotiation: &mut dyn Negotiation,
    token: &Bytes,
    panicked: impl FnOnce(&(dyn Any + Send)),
) -> Verdict {
    // Only the client that caused a panic can use the negotiation again.
    catch_unwind(AssertUnwindSafe(|| negotiation.evaluate(token))).unwrap_or_else(|panic| {
        panicked(&*panic);
        Verdict::Failed("Unexpected error".to_owned())
    })
}
