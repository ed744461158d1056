//! The interface for authentication. Without an authenticator every client is accepted.

use std::{fmt::Debug, net::SocketAddr};

/// Verifies the identity of clients.
pub trait Authenticator: Debug + Send + Sync {
    /// Returns the name in AUTHENTICATE, from which drivers select the mechanism.
    fn class_name(&self) -> &str;

    /// Starts an exchange with a client.
    fn negotiate(&self, peer: SocketAddr) -> Box<dyn Negotiation>;
}

/// One exchange. It can compute (hash passwords) but must not block.
pub trait Negotiation: Send {
    /// Evaluates the client's next token.
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
}
