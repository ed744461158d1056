//! Evaluates the tokens of AUTH_RESPONSE on separate threads.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use cassette_protocol::{
    Request, Response, Version,
    request::AuthResponse,
    response::{Error, ErrorDetail},
};

use super::{Connection, handshake::Stage, waiting::Waiting};
use crate::{
    Backend,
    authentication::{Negotiation, Verdict},
};

/// An evaluated token.
pub(super) struct Judged {
    stream: i16,
    version: Version,
    negotiation: Box<dyn Negotiation>,
    verdict: Judgement,
}

enum Judgement {
    Verdict(Verdict),
    /// Too many logins have failed: the token was not evaluated.
    TooManyFailures,
}

impl<B: Backend> Connection<B> {
    /// Begins to evaluate the token of an AUTH_RESPONSE, if the connection waits for one. Until it
    /// is evaluated, nothing is read. Returns any other request.
    pub(super) fn authenticate(
        &mut self,
        stream: i16,
        version: Version,
        request: Request,
    ) -> Option<Request> {
        let Stage::Authenticating(negotiation) = &mut self.stage else { return Some(request) };
        let token = match request {
            Request::AuthResponse(AuthResponse { token }) => token.unwrap_or_default(),
            other => return Some(other),
        };
        // Present whenever nothing else is being waited for.
        let Some(mut negotiation) = negotiation.take() else {
            return Some(Request::AuthResponse(AuthResponse { token: Some(token) }));
        };
        let shared = Arc::clone(&self.shared);
        let client = self.permit.thread_client();
        let judged = async move {
            let thread = Arc::clone(&shared.limits.auth_threads).acquire(client).await;
            let role = negotiation.claimed_role(&token);
            let now = shared.started.elapsed();
            if !shared.logins.permits(client.address, role.as_deref(), now) {
                let verdict = Judgement::TooManyFailures;
                return Judged { stream, version, negotiation, verdict };
            }
            let metrics = Arc::clone(&shared.metrics);
            let evaluated = tokio::task::spawn_blocking(move || {
                let verdict = evaluate(&mut *negotiation, &token, |panic| {
                    metrics.panicked("AUTH_RESPONSE", panic);
                });
                drop(thread);
                Judged { stream, version, negotiation, verdict: Judgement::Verdict(verdict) }
            });
            // The closure does not panic, and nothing aborts it while the runtime lives.
            let Ok(judged) = evaluated.await else { return std::future::pending().await };
            if matches!(judged.verdict, Judgement::Verdict(Verdict::Refused(_))) {
                shared.logins.failed(client.address, role.as_deref(), shared.started.elapsed());
            }
            judged
        };
        self.waiting = Some(Waiting::authentication(judged));
        None
    }

    /// Answers an evaluated token.
    pub(super) fn authenticated(&mut self, judged: Judged) {
        let Judged { stream, version, negotiation, verdict } = judged;
        self.stage = Stage::Authenticating(Some(negotiation));
        let metrics = &self.shared.metrics;
        let answer = match verdict {
            Judgement::Verdict(verdict) => {
                if matches!(verdict, Verdict::Refused(_)) {
                    metrics.logins_failed.fetch_add(1, Ordering::Relaxed);
                }
                self.judge(verdict)
            }
            Judgement::TooManyFailures => {
                metrics.logins_refused.fetch_add(1, Ordering::Relaxed);
                let message = "too many failed logins from this address or as this role: try again later";
                Err(Error::new(ErrorDetail::Overloaded, message))
            }
        };
        let response = answer.unwrap_or_else(Response::Error);
        self.respond(stream, &response);
        self.after_handshake(&response, version);
    }
}

fn evaluate(
    negotiation: &mut dyn Negotiation,
    token: &Bytes,
    panicked: impl FnOnce(&(dyn std::any::Any + Send)),
) -> Verdict {
    // Only the client that caused a panic can use the negotiation again.
    catch_unwind(AssertUnwindSafe(|| negotiation.evaluate(token))).unwrap_or_else(|panic| {
        panicked(&*panic);
        Verdict::Failed("Unexpected error".to_owned())
    })
}
