//! Certificates of clients: Cassandra's `MutualTlsAuthenticator`, and
//! `MutualTlsWithPasswordFallbackAuthenticator`.

use cassette_database::{Database, DatabaseError, IdentityLogin};
use tracing::error;

use super::{Authenticator, Negotiation, PasswordAuthenticator, Peer, Verdict, spiffe_id};

/// Looks up the role of the SPIFFE ID in a client's certificate (`SpiffeCertificateValidator`). The
/// TLS handshake has verified the certificate and its dates.
#[derive(Debug, Clone)]
pub struct CertificateAuthenticator {
    database: Database,
    /// Authenticates clients without a certificate.
    passwords: Option<PasswordAuthenticator>,
}

impl CertificateAuthenticator {
    const CLASS: &'static str = "org.apache.cassandra.auth.MutualTlsAuthenticator";
    const CLASS_WITH_PASSWORDS: &'static str =
        "org.apache.cassandra.auth.MutualTlsWithPasswordFallbackAuthenticator";

    /// Uses the identities of `database`. Clients must have a certificate.
    pub fn new(database: Database) -> Self {
        Self { database, passwords: None }
    }

    /// Lets clients without a certificate log in with passwords.
    #[must_use]
    pub fn with_passwords(self) -> Self {
        Self { passwords: Some(PasswordAuthenticator::new(self.database.clone())), ..self }
    }
}

impl Authenticator for CertificateAuthenticator {
    fn class_name(&self) -> &str {
        if self.passwords.is_some() { Self::CLASS_WITH_PASSWORDS } else { Self::CLASS }
    }

    fn accepts_certificates(&self) -> bool {
        true
    }

    fn negotiate(&self, peer: Peer<'_>) -> Box<dyn Negotiation> {
        match (&self.passwords, peer.certificate) {
            (Some(passwords), None) => passwords.negotiate(peer),
            (_, certificate) => Box::new(Exchange {
                database: self.database.clone(),
                certificate: certificate.map(<[u8]>::to_vec),
            }),
        }
    }
}

/// An exchange of one token, which has no meaning.
struct Exchange {
    database: Database,
    certificate: Option<Vec<u8>>,
}

impl Negotiation for Exchange {
    fn evaluate(&mut self, _token: &[u8]) -> Verdict {
        let Some(certificate) = &self.certificate else {
            return Verdict::Refused("Invalid or not supported certificate".to_owned());
        };
        let Some(identity) = spiffe_id(certificate) else {
            return Verdict::Refused("Unable to extract Spiffe from the certificate".to_owned());
        };
        match self.database.log_in_with_identity(identity) {
            Ok(IdentityLogin::Accepted(role)) => Verdict::Authenticated { role },
            Ok(IdentityLogin::NotPermitted(role)) => {
                Verdict::Refused(format!("{role} is not permitted to log in"))
            }
            Ok(IdentityLogin::Unknown) => {
                Verdict::Refused(format!("Certificate identity '{identity}' not authorized"))
            }
            // No role can have such an identity.
            Err(DatabaseError::Invalid(reason)) => Verdict::Refused(reason),
            Err(error) => {
                error!(%error, "cannot look up the identity of a certificate");
                Verdict::Failed("Unable to perform authentication: identities cannot be read".to_owned())
            }
        }
    }
}
