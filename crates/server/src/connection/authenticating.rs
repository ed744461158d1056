//! Evaluates the tokens of AUTH_RESPONSE on separate threads.

use std::sync::Arc;

use cassette_protocol::{
    Request, Response, Version,
    request::AuthResponse,
    response::{Error, ErrorDetail},
};

use super::{Connection, handshake::Stage, waiting::Waiting};
use crate::{
    Backend,
    authentication::Negotiation,
    logins::{Judgement, TOO_MANY_FAILURES},
};

/// An evaluated token.
pub(super) struct Judged {
    stream: i16,
    version: Version,
    negotiation: Box<dyn Negotiation>,
    verdict: Judgement,
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
        let Some(negotiation) = negotiation.take() else {
            return Some(Request::AuthResponse(AuthResponse { token: Some(token) }));
        };
        let shared = Arc::clone(&self.shared);
        let client = self.permit.thread_client();
        let judged = async move {
            let (negotiation, verdict) = shared.logins.evaluate(client, negotiation, token).await;
            Judged { stream, version, negotiation, verdict }
        };
        self.waiting = Some(Waiting::authentication(judged));
        None
    }

    /// Answers an evaluated token.
    pub(super) fn authenticated(&mut self, judged: Judged) {
        let Judged { stream, version, negotiation, verdict } = judged;
        self.stage = Stage::Authenticating(Some(negotiation));
        let answer = match verdict {
            Judgement::Verdict(verdict) => self.judge(verdict),
            Judgement::TooManyFailures => Err(Error::new(ErrorDetail::Overloaded, TOO_MANY_FAILURES)),
        };
        let response = answer.unwrap_or_else(Response::Error);
        self.respond(stream, &response);
        self.after_handshake(&response, version);
    }
}
