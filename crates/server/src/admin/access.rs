//! Who may use the endpoint, and for what.
//!
//! A client proves its identity with the name and the password of a role, a bearer token or a
//! certificate. Names and passwords are verified as those of CQL clients, with the same limits of
//! failures.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cassette_database::AdminAccess;
use cassette_http::Peer;
use cassette_http::credentials::Credentials;
use cassette_tls::secret::{Tokens, is_equal};
use parking_lot::Mutex;

use super::Admin;
use super::http::refuse;
use crate::authentication::{self, Verdict};
use crate::logins::{Judgement, Logins, TOO_MANY_FAILURES};
use crate::threads::ThreadClient;

/// The levels of tokens in their file; see [`Level`].
pub const TOKEN_LEVELS: &[&str] = &["read-only", "operator"];

/// What a client may do. A later level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Read metrics and reports.
    ReadOnly,
    /// Execute operations, too.
    Operator,
}

/// How clients are authenticated.
#[derive(Debug, Clone, Default)]
pub struct Access {
    logins: Option<Logins>,
    tokens: Option<Arc<Tokens>>,
}

/// The state of a connection.
#[derive(Debug, Clone)]
pub(super) struct OfConnection {
    pub peer: Peer,
    /// Distinguishes the connection from those of CQL, which count upwards.
    number: u64,
    /// The last login that was verified: as connections of CQL, one of HTTP verifies a password
    /// once.
    login: Arc<Mutex<Option<Login>>>,
}

#[derive(Debug)]
struct Login {
    username: String,
    password: String,
}

impl OfConnection {
    pub fn new(peer: &Peer) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(u64::MAX);
        let number = NUMBERS.fetch_sub(1, Ordering::Relaxed);
        Self { peer: peer.clone(), number, login: Arc::default() }
    }

    fn has_verified(&self, username: &str, password: &str) -> bool {
        // Clients of a proxy may share the connection: no comparison of passwords must reveal where
        // they differ.
        self.login.lock().as_ref().is_some_and(|login| {
            login.username == username && is_equal(login.password.as_bytes(), password.as_bytes())
        })
    }
}

impl Access {
    /// Requires names and passwords that `logins` verifies, or one of `tokens`. Without an
    /// authenticator and tokens, every client has full access.
    pub fn new(logins: Logins, tokens: Option<Arc<Tokens>>) -> Self {
        Self { logins: Some(logins), tokens }
    }

    /// Returns whether every client has full access.
    pub fn is_open(&self) -> bool {
        !self.has_passwords() && self.tokens.is_none()
    }

    pub(super) fn handshake_failed(&self) {
        if let Some(logins) = &self.logins {
            logins.gate.handshake_failed();
        }
    }

    fn has_passwords(&self) -> bool {
        self.logins.as_ref().is_some_and(|logins| logins.authenticator.is_some())
    }

    /// Returns the level of a token or of a certificate.
    fn level_in_file(&self, find: impl FnOnce(&Tokens) -> Option<usize>) -> Option<Level> {
        match self.tokens.as_deref().and_then(find)? {
            0 => Some(Level::ReadOnly),
            _ => Some(Level::Operator),
        }
    }

    /// Returns the response to a client that has not proved its identity. It is the same whatever
    /// is wrong: it reveals no roles.
    fn unauthenticated(&self, reason: &str) -> Response {
        let mut response = refuse(StatusCode::UNAUTHORIZED, reason);
        let challenges = [
            (self.has_passwords(), "Basic realm=\"Cassette\", charset=\"UTF-8\""),
            (self.tokens.is_some(), "Bearer realm=\"Cassette\""),
        ];
        for (_, challenge) in challenges.into_iter().filter(|(is_accepted, _)| *is_accepted) {
            response.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

const MISSING: &str = "the request has no credentials: a user name and a password, or a token, are required";
const WRONG: &str = "wrong user name, password or token";
const UNKNOWN: &str = "the certificate has no identity of a role that may log in";

/// Who sent a request, as the log shows it.
#[derive(Debug, Clone)]
pub(super) enum Requester {
    Role(String),
    Token,
    Certificate,
    UnixSocket,
    /// No client has to log in.
    Anonymous,
}

impl fmt::Display for Requester {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Names of roles may have any characters.
            Self::Role(name) => write!(formatter, "role {name:?}"),
            Self::Token => formatter.write_str("a token"),
            Self::Certificate => formatter.write_str("a certificate"),
            Self::UnixSocket => formatter.write_str("the Unix socket"),
            Self::Anonymous => formatter.write_str("an anonymous client"),
        }
    }
}

/// Passes on requests of clients that have proved their identity, with their [`Level`] and
/// [`Requester`].
pub(super) async fn authenticated(
    State(admin): State<Arc<Admin>>,
    Extension(connection): Extension<OfConnection>,
    mut request: Request,
    next: Next,
) -> Response {
    let credentials = match Credentials::of(request.headers()) {
        Ok(credentials) => credentials,
        Err(reason) => return admin.access.unauthenticated(reason),
    };
    match level(&admin, &connection, credentials).await {
        Ok((level, requester)) => {
            request.extensions_mut().insert(level);
            request.extensions_mut().insert(requester);
            next.run(request).await
        }
        Err(refused) => refused,
    }
}

/// Rejects requests of clients that may only read.
pub(super) async fn operators_only(
    Extension(level): Extension<Level>,
    request: Request,
    next: Next,
) -> Response {
    if level < Level::Operator {
        let reason = "this requires the level operator: log in as a superuser or as a role that has EXECUTE \
                      or MODIFY on ALL MBEANS, or use the token of an operator";
        return refuse(StatusCode::FORBIDDEN, reason);
    }
    next.run(request).await
}

async fn level(
    admin: &Arc<Admin>,
    connection: &OfConnection,
    credentials: Option<Credentials>,
) -> Result<(Level, Requester), Response> {
    let access = &admin.access;
    // The permissions of the socket's file decide who can connect to it.
    let Some(address) = connection.peer.address else { return Ok((Level::Operator, Requester::UnixSocket)) };
    if access.is_open() {
        return Ok((Level::Operator, Requester::Anonymous));
    }
    match credentials {
        None => {
            let Some(certificate) = connection.peer.certificate.as_deref() else {
                return Err(access.unauthenticated(MISSING));
            };
            if let Some(level) = access.level_in_file(|tokens| tokens.level_of_certificate(certificate)) {
                return Ok((level, Requester::Certificate));
            }
            let role = verify_certificate(access, connection, certificate).await?;
            let level = level_of_role(admin, role.clone()).await?;
            Ok((level, Requester::Role(role)))
        }
        Some(Credentials::Bearer(token)) => {
            if let Some(level) = access.level_in_file(|tokens| tokens.level(&token)) {
                return Ok((level, Requester::Token));
            }
            // Valid tokens are always accepted: they are too long to guess.
            match &access.logins {
                Some(logins) if !logins.gate.token_failed(address) => Err(too_many_failures()),
                _ => Err(access.unauthenticated(WRONG)),
            }
        }
        Some(Credentials::Basic { username, password }) => {
            if !connection.has_verified(&username, &password) {
                verify(access, connection, &username, &password).await?;
                *connection.login.lock() = Some(Login { username: username.clone(), password });
            }
            let level = level_of_role(admin, username.clone()).await?;
            Ok((level, Requester::Role(username)))
        }
    }
}

/// Verifies a name and a password, as those of a CQL client.
async fn verify(
    access: &Access,
    connection: &OfConnection,
    username: &str,
    password: &str,
) -> Result<(), Response> {
    let token = format!("\0{username}\0{password}").into_bytes();
    // Without the certificate, whose role may be another one: this is about the password.
    let role = log_in(access, connection, None, token).await?;
    if role == username { Ok(()) } else { Err(access.unauthenticated(WRONG)) }
}

/// Returns the role of the identity in a certificate, as for CQL clients.
async fn verify_certificate(
    access: &Access,
    connection: &OfConnection,
    certificate: &[u8],
) -> Result<String, Response> {
    let authenticator = access.logins.as_ref().and_then(|logins| logins.authenticator.as_ref());
    if !authenticator.is_some_and(|authenticator| authenticator.accepts_certificates()) {
        return Err(access.unauthenticated(MISSING));
    }
    // Drivers send an empty token with a certificate.
    log_in(access, connection, Some(certificate), Vec::new()).await
}

/// Returns the role that the authenticator of CQL clients accepts a token as.
async fn log_in(
    access: &Access,
    connection: &OfConnection,
    certificate: Option<&[u8]>,
    token: Vec<u8>,
) -> Result<String, Response> {
    let wrong = if certificate.is_some() { UNKNOWN } else { WRONG };
    let Some((logins, authenticator)) =
        access.logins.as_ref().and_then(|logins| Some((logins, logins.authenticator.as_ref()?)))
    else {
        return Err(access.unauthenticated(wrong));
    };
    let Some(address) = connection.peer.address else { return Err(access.unauthenticated(wrong)) };
    let negotiation =
        authenticator.negotiate(authentication::Peer { address: SocketAddr::new(address, 0), certificate });
    let client = ThreadClient { address, connection: connection.number };
    match logins.gate.evaluate(client, negotiation, token.into()).await.1 {
        Judgement::Verdict(Verdict::Authenticated { role }) => Ok(role),
        Judgement::Verdict(Verdict::Refused(_)) => Err(access.unauthenticated(wrong)),
        Judgement::Verdict(Verdict::Failed(reason)) => Err(refuse(StatusCode::INTERNAL_SERVER_ERROR, reason)),
        // There is no second token in a request.
        Judgement::Verdict(Verdict::Challenge(_)) => {
            Err(refuse(StatusCode::INTERNAL_SERVER_ERROR, "the authenticator does not support HTTP"))
        }
        Judgement::TooManyFailures => Err(too_many_failures()),
    }
}

/// Returns what a role may do at present, also on a connection where it has logged in before.
async fn level_of_role(admin: &Arc<Admin>, role: String) -> Result<Level, Response> {
    let access = super::http::on_blocking_thread(Arc::clone(admin), move |admin| {
        let access = admin.database.admin_access(&role);
        (role, access)
    });
    match access.await? {
        (_, Ok(AdminAccess::Operator)) => Ok(Level::Operator),
        (_, Ok(AdminAccess::ReadOnly)) => Ok(Level::ReadOnly),
        (role, Ok(AdminAccess::None)) => Err(refuse(
            StatusCode::FORBIDDEN,
            format!("{role} is no superuser, and has neither SELECT nor EXECUTE nor MODIFY on ALL MBEANS"),
        )),
        (_, Err(error)) => {
            tracing::error!(%error, "cannot read permissions for the admin endpoint");
            Err(refuse(StatusCode::INTERNAL_SERVER_ERROR, "permissions cannot be read"))
        }
    }
}

fn too_many_failures() -> Response {
    let response = refuse(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_FAILURES);
    ([(header::RETRY_AFTER, "1")], response).into_response()
}
