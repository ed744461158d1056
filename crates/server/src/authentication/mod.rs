//! Authentication of clients. Without an authenticator every client is accepted.
//!
//! Each step of an exchange runs on a blocking thread, of which few are granted at a time, fairly
//! between addresses (`native_transport_max_auth_threads`). [`login_limit`] bounds failed logins
//! before that. [`logins`](crate::logins) does both, for CQL and the admin endpoint.

mod certificate;
pub(crate) mod login_limit;
mod password;
pub mod plain;
mod spiffe;

use std::{fmt::Debug, net::SocketAddr};

pub use certificate::CertificateAuthenticator;
pub use password::PasswordAuthenticator;
pub use spiffe::spiffe_id;

/// A client that is to be authenticated.
#[derive(Debug, Clone, Copy)]
pub struct Peer<'a> {
    /// Its address.
    pub address: SocketAddr,
    /// Its certificate in DER, which the TLS handshake has verified.
    pub certificate: Option<&'a [u8]>,
}

/// Verifies the identity of clients.
pub trait Authenticator: Debug + Send + Sync {
    /// Returns the name in AUTHENTICATE, from which drivers select the mechanism.
    fn class_name(&self) -> &str;

    /// Returns whether a certificate can be all that a client proves its identity with.
    fn accepts_certificates(&self) -> bool {
        false
    }

    /// Starts an exchange with a client.
    fn negotiate(&self, peer: Peer<'_>) -> Box<dyn Negotiation>;
}

/// One exchange.
pub trait Negotiation: Send {
    /// Returns the role that a client claims with a token, to count failed logins by it. Runs on a
    /// thread that serves other clients.
    fn claimed_role(&self, _token: &[u8]) -> Option<String> {
        None
    }

    /// Evaluates the client's next token. Can compute and block.
    fn evaluate(&mut self, token: &[u8]) -> Verdict;
}

/// The result of evaluating a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The client must respond to this challenge.
    Challenge(Vec<u8>),
    /// The client has proved to be this role.
    Authenticated {
        /// The name of the role.
        role: String,
    },
    /// Rejected, with the reason for the client.
    Refused(String),
    /// The identity could not be verified, for a reason that is not the client's.
    Failed(String),
}
