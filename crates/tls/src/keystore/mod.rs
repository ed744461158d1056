//! Private keys and certificates in the formats that Cassandra reads: PEM, PKCS #12 and Java's own
//! (JKS).

mod decryption;
mod jks;
mod pem;
mod pkcs12;
mod x509;

use thiserror::Error;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The first bytes of a keystore in Java's own format.
const JKS_MAGIC: [u8; 4] = [0xFE, 0xED, 0xFE, 0xED];

/// The first bytes of a keystore in the format of the provider SunJCE.
const JCEKS_MAGIC: [u8; 4] = [0xCE, 0xCE, 0xCE, 0xCE];

const JCEKS: &str = "JCEKS; convert it: keytool -importkeystore -srckeystore FILE -srcstoretype JCEKS -destkeystore \
                     NEW -deststoretype PKCS12";

/// The tag of a sequence of DER, which a PKCS #12 file is.
const SEQUENCE: u8 = 0x30;

/// The iterations of key derivation that one file may cost, in all: some seconds. Java accepts
/// 5,000,000 each; its tools and OpenSSL write 10,000 and less.
const ITERATIONS_MAX: u32 = 20_000_000;

/// Why a keystore cannot be used.
#[derive(Debug, Error)]
pub(crate) enum KeystoreError {
    #[error("expected a keystore in {format}, found damaged data: {detail}")]
    Malformed { format: &'static str, detail: String },
    #[error("the password does not open the keystore; set it with keystore_password or truststore_password")]
    Password,
    #[error("{0}")]
    Unsupported(String),
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Content(&'static str),
}

/// What encrypted content may be read with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access<'a> {
    pub password: Option<&'a str>,
    /// The iterations of key derivation that one file may cost, in all.
    pub iterations_max: u32,
}

impl<'a> Access<'a> {
    pub fn new(password: Option<&'a str>) -> Self {
        Self { password, iterations_max: ITERATIONS_MAX }
    }
}

type Result<T> = std::result::Result<T, KeystoreError>;

/// A private key, and the certificates of its chain, its own first.
pub(crate) struct Identity {
    pub key: PrivateKeyDer<'static>,
    pub certificates: Vec<CertificateDer<'static>>,
}

/// The contents of a keystore.
#[derive(Default)]
struct Entries {
    identities: Vec<Identity>,
    /// Certificates that are in the store to be trusted.
    trusted: Vec<CertificateDer<'static>>,
}

/// Returns the private key of a keystore and its certificates.
///
/// # Errors
/// If the keystore is damaged or encrypted with another password, or has no key or several.
pub(crate) fn identity(content: &[u8], access: Access<'_>) -> Result<Identity> {
    let Some(entries) = binary(content, access)? else { return pem::identity(content, access) };
    let mut identities = entries.identities.into_iter();
    match (identities.next(), identities.next()) {
        (None, _) => Err(KeystoreError::Content("expected a private key, found none")),
        (Some(identity), None) if identity.certificates.is_empty() => {
            Err(KeystoreError::Content("expected a certificate for the private key, found none"))
        }
        (Some(identity), None) => Ok(identity),
        (Some(_), Some(_)) => Err(KeystoreError::Content("expected one private key, found several")),
    }
}

/// Returns the certificates of a truststore: those stored to be trusted, and, as Java does, the
/// own certificate of each private key.
///
/// # Errors
/// If the truststore is damaged or encrypted with another password, or has no certificate.
pub(crate) fn trusted(content: &[u8], access: Access<'_>) -> Result<Vec<CertificateDer<'static>>> {
    let Some(entries) = binary(content, access)? else { return pem::certificates(content) };
    let mut trusted = entries.trusted;
    trusted.extend(entries.identities.into_iter().filter_map(|one| one.certificates.into_iter().next()));
    if trusted.is_empty() {
        return Err(KeystoreError::Content("expected trusted certificates, found none"));
    }
    Ok(trusted)
}

/// Returns the secret key with an alias, of a keystore in PKCS #12: the only format of Java with
/// secret keys whose definition is public.
///
/// # Errors
/// If the keystore is damaged, encrypted with another password or of another format, or has no such
/// key.
pub(crate) fn secret_key(content: &[u8], access: Access<'_>, alias: &str) -> Result<Vec<u8>> {
    let found = match content {
        [SEQUENCE, ..] => return pkcs12::secret_key(content, access, alias),
        _ if content.starts_with(&JCEKS_MAGIC) => JCEKS,
        _ if content.starts_with(&JKS_MAGIC) => "JKS, which has no secret keys",
        _ => "another format",
    };
    Err(KeystoreError::Unsupported(format!("expected PKCS #12, found {found}")))
}

/// Reads a keystore that is not PEM. `None` if it is.
fn binary(content: &[u8], access: Access<'_>) -> Result<Option<Entries>> {
    if content.starts_with(&JKS_MAGIC) {
        return jks::parse(content, access).map(Some);
    }
    if content.starts_with(&JCEKS_MAGIC) {
        return Err(KeystoreError::Unsupported(format!("expected PEM, PKCS #12 or JKS, found {JCEKS}")));
    }
    if content.first() == Some(&SEQUENCE) {
        return pkcs12::parse(content, access).map(Some);
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
