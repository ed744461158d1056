//! Authentication: a seam. Without an authenticator everybody is let in.

use std::{fmt::Debug, net::SocketAddr};

/// Decides whether a client is who it says.
pub trait Authenticator: Debug + Send + Sync {
    /// The name that AUTHENTICATE tells: drivers choose the mechanism by it.
    fn class_name(&self) -> &str;

    /// Starts an exchange with a client.
    fn negotiate(&self, peer: SocketAddr) -> Box<dyn Negotiation>;
}

/// One exchange. It may compute (hash passwords) but not wait for anybody.
pub trait Negotiation: Send {
    /// Takes the client's next token.
    fn evaluate(&mut self, token: &[u8]) -> Verdict;
}

/// What an exchange came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The client is to answer this.
    Challenge(Vec<u8>),
    /// The client is who it says, which is this role.
    Authenticated {
        /// The role's name.
        role: String,
    },
    /// It is not, for this reason: what the client is told.
    Refused(String),
}
