//! The messages that open a connection, and REGISTER.

use cassette_protocol::{
    Request, Response, Version,
    request::{Register, Startup},
    response::{AuthChallenge, AuthSuccess, Authenticate, Error, ErrorDetail, Supported},
};
use tracing::debug;

use super::Connection;
use crate::{
    Backend,
    authentication::{Negotiation, Peer, Verdict},
    metrics::StageSeen,
};

/// The state of a connection's handshake.
pub(super) enum Stage {
    /// Waits for STARTUP.
    Established,
    /// Waits for the client's authentication; `None` while its token is evaluated.
    Authenticating(Option<Box<dyn Negotiation>>),
    /// Serves requests.
    Ready,
}

impl<B: Backend> Connection<B> {
    /// Answers a message that needs no backend, or that comes at the wrong stage.
    pub(super) fn handshake(&mut self, request: Request, version: Version) -> Response {
        let answer = match (&mut self.stage, request) {
            (Stage::Established | Stage::Ready, Request::Options(_)) => {
                Ok(Response::Supported(Supported::with_cql_version(&self.shared.config.cql_version)))
            }
            (Stage::Established, Request::Startup(startup)) => self.start_up(&startup, version),
            (Stage::Established, request) => Err(protocol_error(format!(
                "Unexpected message {}, expecting STARTUP or OPTIONS",
                request.opcode()
            ))),
            (Stage::Authenticating(_), request) => Err(protocol_error(format!(
                "Unexpected message {}, expecting AUTH_RESPONSE",
                request.opcode()
            ))),
            (Stage::Ready, Request::Register(register)) => self.register(&register, version),
            (Stage::Ready, request) => Err(protocol_error(format!(
                "Unexpected message {}, the connection is already initialized",
                request.opcode()
            ))),
        };
        answer.unwrap_or_else(Response::Error)
    }

    /// Applies the effects of an answer after it is encoded: READY and AUTHENTICATE are still plain
    /// envelopes.
    pub(super) fn after_handshake(&mut self, response: &Response, version: Version) {
        if matches!(self.stage, Stage::Established) {
            let next = match response {
                Response::Ready => Stage::Ready,
                Response::Authenticate(_) => {
                    let Some(authenticator) = &self.shared.config.authenticator else { return };
                    let certificate = self.stream.client_certificate();
                    let peer = Peer { address: self.peer, certificate };
                    Stage::Authenticating(Some(authenticator.negotiate(peer)))
                }
                _ => return,
            };
            self.registered.stage(match &next {
                Stage::Authenticating(_) => StageSeen::Authenticating,
                _ => StageSeen::Ready,
            });
            self.stage = next;
            self.encoder.fix_version(version, self.agreed_compression);
            self.decoder.fix_version(version, self.agreed_compression);
            self.input_max = self.usual_input_length();
        } else if matches!(response, Response::AuthSuccess(_)) {
            self.stage = Stage::Ready;
            self.registered.stage(StageSeen::Ready);
        }
        if matches!(self.stage, Stage::Ready) {
            self.watchdog.let_in();
            self.decoder.set_message_length_max(self.shared.config.max_frame_size);
        }
    }

    fn start_up(&mut self, startup: &Startup, version: Version) -> Result<Response, Error> {
        startup.check_cql_version()?;
        self.agreed_compression = startup.compression(version)?;
        self.throw_on_overload = startup.option(Startup::THROW_ON_OVERLOAD) == Some("1");
        self.startup = Some(startup.clone());
        self.registered.started(version as u8, startup.options.iter().cloned().collect());
        debug!(
            "{} speaks {version}, driver {} {}",
            self.peer,
            startup.option(Startup::DRIVER_NAME).unwrap_or("unknown"),
            startup.option(Startup::DRIVER_VERSION).unwrap_or_default(),
        );
        Ok(match &self.shared.config.authenticator {
            Some(authenticator) => {
                Response::Authenticate(Authenticate { authenticator: authenticator.class_name().to_owned() })
            }
            None => Response::Ready,
        })
    }

    pub(super) fn judge(&mut self, verdict: Verdict) -> Result<Response, Error> {
        match verdict {
            Verdict::Challenge(token) => {
                Ok(Response::AuthChallenge(AuthChallenge { token: Some(token.into()) }))
            }
            Verdict::Authenticated { role } => {
                debug!("{} is {role}", self.peer);
                self.registered.logged_in(&role);
                self.shared.backend.logged_in(&self.session, &role);
                Ok(Response::AuthSuccess(AuthSuccess { token: None }))
            }
            Verdict::Refused(reason) => {
                self.shared.backend.login_failed(&self.session, &reason);
                Err(Error::new(ErrorDetail::BadCredentials, reason))
            }
            Verdict::Failed(reason) => Err(Error::new(ErrorDetail::ServerError, reason)),
        }
    }

    fn register(&mut self, register: &Register, version: Version) -> Result<Response, Error> {
        use cassette_protocol::request::EventType;
        for event_type in &register.event_types {
            if *event_type == EventType::TraceComplete && version < Version::V4 {
                return Err(protocol_error(format!(
                    "Event {event_type} not valid for protocol version {version}"
                )));
            }
        }
        if self.events.receiver.is_none() {
            self.events.receiver = Some(self.shared.events.subscribe());
            self.events.phase = Some(self.shared.gate.phase());
        }
        for event_type in &register.event_types {
            if !self.events.wanted.contains(event_type) {
                self.events.wanted.push(*event_type);
            }
        }
        Ok(Response::Ready)
    }
}

fn protocol_error(message: String) -> Error {
    Error::new(ErrorDetail::ProtocolError, message)
}
