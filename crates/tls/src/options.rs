//! The options of TLS, under the names of Cassandra's `client_encryption_options`.

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};

use crate::TlsError;
use crate::files::{FileVersion, Keystore};

/// The prefix of the names of cipher suites of TLS 1.3 in `rustls`. Java's names have that of
/// all others.
const TLS13_PREFIX: (&str, &str) = ("TLS13_", "TLS_");

/// Which clients have to present a certificate (`require_client_auth`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// None (`false`).
    #[default]
    Ignored,
    /// Those that have one; it must be valid (`optional`).
    Optional,
    /// All (`true`).
    Required,
}

/// How connections of clients are encrypted.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// The private key and the chain of certificates (`keystore`).
    pub keystore: Keystore,
    /// The certificates that sign those of clients (`truststore`).
    pub truststore: Option<Keystore>,
    /// Whether clients may connect without TLS, too (`optional`).
    pub is_optional: bool,
    /// Which clients have to present a certificate (`require_client_auth`).
    pub client_certificates: ClientCertificates,
    /// `TLSv1.2`, `TLSv1.3` (`accepted_protocols`); both if empty.
    pub protocols: Vec<String>,
    /// Java's names of the permitted cipher suites (`cipher_suites`); all if empty.
    pub cipher_suites: Vec<String>,
}

impl TlsOptions {
    pub(crate) fn file_versions(&self) -> Vec<FileVersion> {
        [Some(&self.keystore), self.truststore.as_ref()]
            .into_iter()
            .flatten()
            .flat_map(Keystore::versions)
            .collect()
    }

    pub(crate) fn protocol_versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
        let version = |name: &String| match name.as_str() {
            "TLSv1.2" => Ok(&TLS12),
            "TLSv1.3" => Ok(&TLS13),
            other => Err(TlsError::Option(format!(
                "accepted_protocols: expected TLSv1.2 or TLSv1.3, found {other}"
            ))),
        };
        if self.protocols.is_empty() {
            return Ok(vec![&TLS13, &TLS12]);
        }
        self.protocols.iter().map(version).collect()
    }

    /// Returns the cryptography with the permitted cipher suites.
    pub(crate) fn provider(&self) -> Result<CryptoProvider, TlsError> {
        let mut provider = ring::default_provider();
        if self.cipher_suites.is_empty() {
            return Ok(provider);
        }
        // In the order of the option, which is that of preference.
        let suites = self.cipher_suites.iter().map(|name| {
            let found = provider.cipher_suites.iter().find(|suite| suite_name(**suite) == *name);
            found.copied().ok_or_else(|| {
                let known: Vec<String> = provider.cipher_suites.iter().copied().map(suite_name).collect();
                TlsError::Option(format!(
                    "cipher_suites: expected some of {}, found {name}",
                    known.join(", ")
                ))
            })
        });
        provider.cipher_suites = suites.collect::<Result<_, _>>()?;
        Ok(provider)
    }
}

/// Returns Java's name of a version of TLS.
pub(crate) fn protocol_name(version: ProtocolVersion) -> String {
    match version {
        ProtocolVersion::TLSv1_2 => "TLSv1.2".to_owned(),
        ProtocolVersion::TLSv1_3 => "TLSv1.3".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Returns Java's name of a cipher suite.
pub(crate) fn suite_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    match name.strip_prefix(TLS13_PREFIX.0) {
        Some(rest) => format!("{}{rest}", TLS13_PREFIX.1),
        None => name,
    }
}
