//! Private keys and certificates in files of PEM.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;

/// The maximum length of a file: chains of certificates have a few KiB, stores of all public
/// authorities some 200 KiB.
const FILE_LENGTH_MAX: u64 = 4 << 20;

/// The first bytes of Java's own format of keystores.
const JKS_MAGIC: [u8; 4] = [0xFE, 0xED, 0xFE, 0xED];

/// The private key of the server, and its certificates, its own first.
pub(super) struct Identity {
    pub key: PrivateKeyDer<'static>,
    pub certificates: Vec<CertificateDer<'static>>,
}

impl Identity {
    /// Reads a file that has both.
    pub fn read(path: &Path) -> Result<Self, TlsError> {
        let content = read(path)?;
        if is_pem_of(&content, "ENCRYPTED PRIVATE KEY") {
            let detail = "expected a private key without a password, found an encrypted one; decrypt it: \
                          openssl pkey -in FILE -out NEW, and restrict access to the file";
            return Err(invalid(path, detail));
        }
        let key = PrivateKeyDer::from_pem_slice(&content).map_err(|error| match error {
            pem::Error::NoItemsFound => invalid(path, "expected a private key in PEM, found none"),
            error => invalid(path, &format!("expected a private key in PEM: {error}")),
        })?;
        Ok(Self { key, certificates: certificates_in(path, &content)? })
    }
}

/// Reads the certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    certificates_in(path, &read(path)?)
}

fn certificates_in(path: &Path, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    match all {
        Ok(all) if all.is_empty() => Err(invalid(path, "expected certificates in PEM, found none")),
        Ok(all) => Ok(all),
        Err(error) => Err(invalid(path, &format!("expected certificates in PEM: {error}"))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let io = |source| TlsError::Io { path: path.display().to_string(), source };
    let mut content = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(FILE_LENGTH_MAX + 1).read_to_end(&mut content).map_err(io)?;
    if content.len() as u64 > FILE_LENGTH_MAX {
        return Err(invalid(path, &format!("expected at most {FILE_LENGTH_MAX} bytes, found more")));
    }
    if content.starts_with(&JKS_MAGIC) {
        let detail = "expected PEM, found a keystore of Java; convert it: keytool -importkeystore \
                      -srckeystore FILE -destkeystore NEW -deststoretype PKCS12, then openssl pkcs12 \
                      -in NEW -nodes";
        return Err(invalid(path, detail));
    }
    // The sequence that a PKCS #12 file is.
    if content.first() == Some(&0x30) {
        let detail = "expected PEM, found DER, such as PKCS #12; convert it: openssl pkcs12 -in FILE -nodes";
        return Err(invalid(path, detail));
    }
    Ok(content)
}

fn is_pem_of(content: &[u8], label: &str) -> bool {
    let begin = format!("-----BEGIN {label}-----");
    content.windows(begin.len()).any(|window| window == begin.as_bytes())
}

fn invalid(path: &Path, detail: &str) -> TlsError {
    TlsError::Invalid { path: path.display().to_string(), detail: detail.to_owned() }
}

/// Distinguishes versions of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileVersion {
    path: PathBuf,
    /// Its time of modification and length; `None` if it is unreadable.
    state: Option<(SystemTime, u64)>,
}

impl FileVersion {
    pub fn of(path: &Path) -> Self {
        let state = path.metadata().ok().and_then(|file| Some((file.modified().ok()?, file.len())));
        Self { path: path.to_owned(), state }
    }
}
