//! Names and passwords of roles: Cassandra's `PasswordAuthenticator`.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
};

use cassette_database::{DEFAULT_SUPERUSER, Database, Login};
use tracing::{error, warn};

use super::{Authenticator, Negotiation, Peer, Verdict, plain};

/// Verifies names and passwords with the roles of a database.
#[derive(Debug, Clone)]
pub struct PasswordAuthenticator {
    database: Database,
}

impl PasswordAuthenticator {
    /// Cassandra's name of the class.
    pub const CLASS: &'static str = "org.apache.cassandra.auth.PasswordAuthenticator";

    /// Uses the roles of `database`.
    pub fn new(database: Database) -> Self {
        Self { database }
    }
}

impl Authenticator for PasswordAuthenticator {
    fn class_name(&self) -> &str {
        Self::CLASS
    }

    fn negotiate(&self, peer: Peer<'_>) -> Box<dyn Negotiation> {
        Box::new(Exchange { database: self.database.clone(), peer: peer.address })
    }
}

/// An exchange of one token.
struct Exchange {
    database: Database,
    peer: SocketAddr,
}

/// Whether a login with the default password has been logged.
static DEFAULT_PASSWORD_USED: AtomicBool = AtomicBool::new(false);

impl Negotiation for Exchange {
    fn claimed_role(&self, token: &[u8]) -> Option<String> {
        plain::decode(token).ok().map(|credentials| credentials.username.to_owned())
    }

    fn evaluate(&mut self, token: &[u8]) -> Verdict {
        let plain::Credentials { username, password } = match plain::decode(token) {
            Ok(credentials) => credentials,
            Err(reason) => return Verdict::Refused(reason),
        };
        match self.database.log_in(username, password) {
            Ok(Login::Accepted) => {
                if username == DEFAULT_SUPERUSER
                    && password == DEFAULT_SUPERUSER
                    && !DEFAULT_PASSWORD_USED.swap(true, Ordering::Relaxed)
                {
                    warn!(
                        "{} has logged in as {username} with the default password: change it with \
                         ALTER ROLE {username} WITH PASSWORD",
                        self.peer.ip()
                    );
                }
                Verdict::Authenticated { role: username.to_owned() }
            }
            Ok(Login::NotPermitted) => Verdict::Refused(format!("{username} is not permitted to log in")),
            Ok(Login::Rejected) => {
                Verdict::Refused(format!("Provided username {username} and/or password are incorrect"))
            }
            Err(error) => {
                error!(%error, "cannot verify a password");
                Verdict::Failed("Unable to perform authentication: roles cannot be read".to_owned())
            }
        }
    }
}
