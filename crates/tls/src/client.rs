//! TLS of a client's connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig};

use crate::keystore::Identity;
use crate::{Keystore, TlsError};

/// The files with which a client verifies servers, and its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientTlsOptions {
    /// The certificates of the authorities that sign those of servers, in PEM.
    pub authorities: PathBuf,
    /// The certificate of the client and the chain of those that sign it, in PEM.
    pub certificate: Option<PathBuf>,
    /// The private key, if it is not in the file of the certificate.
    pub private_key: Option<PathBuf>,
}

/// Encrypts connections of a client, and verifies the servers. Clones share the certificates.
#[derive(Debug, Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    #[cfg(feature = "ureq")]
    ureq: ureq::tls::TlsConfig,
}

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// If a file is unreadable or contains something else, or key and certificate do not belong
    /// together.
    pub fn new(options: &ClientTlsOptions) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let rejected = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::rejected(&path, source)
        };
        let identity = match (&options.certificate, &options.private_key) {
            (Some(path), key) => {
                let keystore = Keystore { private_key: key.clone(), ..Keystore::new(path) };
                Some((path, keystore.identity()?))
            }
            (None, None) => None,
            (None, Some(_)) => {
                return Err(TlsError::Option(
                    "a private key without a certificate: expected the file of the certificate, too"
                        .to_owned(),
                ));
            }
        };
        let authorities = Keystore::new(&options.authorities);
        #[cfg(feature = "ureq")]
        let ureq = for_ureq(&authorities, identity.as_ref().map(|(_, identity)| identity), &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(rejected(&options.authorities))?
            .with_root_certificates(authorities.roots()?);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((path, Identity { key, certificates })) => {
                builder.with_client_auth_cert(certificates, key).map_err(rejected(path))?
            }
        };
        Ok(Self {
            config: Arc::new(config),
            #[cfg(feature = "ureq")]
            ureq,
        })
    }

    /// Returns the configuration for `rustls`.
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Encrypts a connection to the server named `host`, whose certificate must have that name.
    ///
    /// # Errors
    /// If the handshake fails. No time limit applies.
    pub async fn connect(
        &self,
        host: &str,
        stream: tokio::net::TcpStream,
    ) -> std::io::Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
        let name = rustls::pki_types::ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidInput, error))?;
        tokio_rustls::TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await
    }

    /// Returns the configuration for `ureq`.
    #[cfg(feature = "ureq")]
    pub fn ureq(&self) -> &ureq::tls::TlsConfig {
        &self.ureq
    }
}

/// Returns the configuration for `ureq`, which makes its own one for `rustls`.
#[cfg(feature = "ureq")]
fn for_ureq(
    authorities: &Keystore,
    identity: Option<&Identity>,
    provider: &Arc<rustls::crypto::CryptoProvider>,
) -> Result<ureq::tls::TlsConfig, TlsError> {
    use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

    let owned = |der: &[u8]| Certificate::from_der(der).to_owned();
    let roots: Vec<_> = authorities.trusted()?.iter().map(|der| owned(der)).collect();
    let identity = identity.map(|Identity { key, certificates }| {
        let chain: Vec<_> = certificates.iter().map(|der| owned(der)).collect();
        let key =
            PrivateKey::from_pem(pem(key).as_bytes()).map_err(|error| TlsError::Option(error.to_string()))?;
        Ok(ClientCert::new_with_certs(&chain, key))
    });
    let identity = identity.transpose()?;
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .client_cert(identity)
        .unversioned_rustls_crypto_provider(provider.clone())
        .build())
}

/// Returns a private key in PEM, which `ureq` reads.
#[cfg(feature = "ureq")]
fn pem(key: &rustls::pki_types::PrivateKeyDer<'_>) -> String {
    use base64::Engine;
    use rustls::pki_types::PrivateKeyDer;

    let label = match key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    let content = base64::engine::general_purpose::STANDARD.encode(key.secret_der());
    format!("-----BEGIN {label}-----\n{content}\n-----END {label}-----\n")
}

/// Describes why a handshake with a server failed, and what to do.
pub fn explain(error: &rustls::Error) -> String {
    use rustls::Error;
    match error {
        Error::InvalidCertificate(why) => match why {
            // The signature is wrong if another authority has the same name.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "the server's certificate is signed by an unknown authority: specify its certificate"
                    .to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server's certificate has expired".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("the server's certificate is not for this name: {why}")
            }
            why => format!("the server's certificate is invalid: {why}"),
        },
        Error::InvalidMessage(_) => "the server does not use TLS at this address".to_owned(),
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server requires a certificate of the client: specify one".to_owned()
        }
        Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied),
        ) => format!("the server does not accept the certificate of the client ({alert:?})"),
        error => format!("TLS failed: {error}"),
    }
}

/// Returns the failure of a handshake in an error of `ureq`, with what to do.
#[cfg(feature = "ureq")]
pub fn explain_ureq(error: &ureq::Error) -> Option<String> {
    match error {
        ureq::Error::Rustls(error) => Some(explain(error)),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref::<rustls::Error>().map(explain),
        _ => None,
    }
}
