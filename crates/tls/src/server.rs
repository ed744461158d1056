//! TLS of a server's connections, with certificates from files that can be replaced while the
//! server runs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::files::FileVersion;
use crate::keystore::Identity;
use crate::socket::Socket;
use crate::{ClientCertificates, TlsError, TlsOptions};

/// The first byte of a TLS handshake: the type of its record. That of a CQL message is a version
/// of the protocol, which is far from it.
const HANDSHAKE_RECORD: u8 = 22;

/// How long, and how many bytes, a client may send after a failed handshake.
const LINGER_MAX: Duration = Duration::from_secs(1);
const LINGER_LENGTH_MAX: u64 = 64 << 10;

/// Encrypts connections of clients. Clones share their certificates.
#[derive(Debug, Clone)]
pub struct Tls {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    options: TlsOptions,
    pub(crate) config: ArcSwap<ServerConfig>,
    /// The versions of the files that `config` was made of.
    loaded: Mutex<Vec<FileVersion>>,
}

impl Tls {
    /// Reads the files of `options`.
    ///
    /// # Errors
    /// If a file is unreadable or contains something else, or the options contradict each other.
    pub fn new(options: TlsOptions) -> Result<Self, TlsError> {
        // Before the files are read: a file that is replaced meanwhile has another version later.
        let loaded = options.file_versions();
        let config = ArcSwap::from_pointee(server_config(&options)?);
        Ok(Self { shared: Arc::new(Shared { options, config, loaded: Mutex::new(loaded) }) })
    }

    /// Returns whether clients may also connect without TLS.
    pub fn is_optional(&self) -> bool {
        self.shared.options.is_optional
    }

    /// Returns which clients have to present a certificate.
    pub fn client_certificates(&self) -> ClientCertificates {
        self.shared.options.client_certificates
    }

    /// Returns whether every client must have a certificate.
    pub fn requires_certificates(&self) -> bool {
        self.shared.options.client_certificates == ClientCertificates::Required && !self.is_optional()
    }

    /// Reads the files again if one has changed, and uses them for connections that are accepted
    /// from then on. Returns whether it did.
    ///
    /// # Errors
    /// As [`new`](Self::new); the previous certificates stay in use.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let mut loaded = self.shared.loaded.lock();
        let current = self.shared.options.file_versions();
        if *loaded == current {
            return Ok(false);
        }
        self.shared.config.store(Arc::new(server_config(&self.shared.options)?));
        *loaded = current;
        Ok(true)
    }

    /// Carries out the handshake with a client; without TLS, if that is optional and the client
    /// begins without.
    ///
    /// # Errors
    /// If the connection fails, or the client is not accepted.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<Socket> {
        if self.is_optional() {
            let mut first = [0];
            let length = stream.peek(&mut first).await?;
            if length == 0 || first[0] != HANDSHAKE_RECORD {
                return Ok(Socket::Plain(stream));
            }
        }
        let acceptor = TlsAcceptor::from(self.shared.config.load_full());
        match acceptor.accept(stream).into_fallible().await {
            Ok(stream) => Ok(Socket::Encrypted(Box::new(stream))),
            Err((error, stream)) => {
                linger(stream).await;
                Err(error)
            }
        }
    }
}

/// Closes a connection, but receives what the client still sends: a reset would replace the alert,
/// which has the reason for the client.
async fn linger(mut stream: TcpStream) {
    let received = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LINGER_LENGTH_MAX), &mut tokio::io::sink()).await
    };
    // Any failure only means that the connection has ended.
    let _ = tokio::time::timeout(LINGER_MAX, received).await;
}

fn server_config(options: &TlsOptions) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(options.provider()?);
    let rejected = |path: &str| {
        let path = path.to_owned();
        move |source| TlsError::Rejected { path, source }
    };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&options.protocol_versions()?)
        .map_err(rejected("accepted_protocols, cipher_suites"))?;
    let roots = match options.client_certificates {
        ClientCertificates::Ignored => None,
        ClientCertificates::Optional | ClientCertificates::Required => Some(trusted(options)?),
    };
    let builder = match roots {
        None => builder.with_no_client_auth(),
        Some((path, roots)) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if options.client_certificates == ClientCertificates::Optional {
                verifier.allow_unauthenticated()
            } else {
                verifier
            };
            let verifier = verifier.build().map_err(|error| TlsError::Invalid {
                path,
                detail: format!("cannot verify certificates of clients: {error}"),
            })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let Identity { key, certificates } = options.keystore.identity()?;
    let rejected = rejected(&options.keystore.path.display().to_string());
    let mut config = builder.with_single_cert(certificates, key).map_err(rejected)?;
    if options.client_certificates != ClientCertificates::Ignored {
        // A resumed session would not verify the certificate again, which can have expired.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

/// Returns the certificates that sign those of clients, with the path of their file.
fn trusted(options: &TlsOptions) -> Result<(String, RootCertStore), TlsError> {
    let Some(truststore) = &options.truststore else {
        return Err(TlsError::Option(
            "truststore: expected a file with the certificates that sign those of clients, because \
             require_client_auth is set"
                .to_owned(),
        ));
    };
    Ok((truststore.path.display().to_string(), truststore.roots()?))
}
