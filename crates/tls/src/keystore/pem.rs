//! PEM: text with a private key and certificates.

use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::decryption::Unlocker;
use super::{Access, Identity, KeystoreError, Result};

/// The label of a private key that is encrypted with a password, as PKCS #8 has it.
const ENCRYPTED_KEY: &str = "ENCRYPTED PRIVATE KEY";

/// Reads a private key, encrypted or not, and certificates.
pub(super) fn identity(content: &[u8], access: Access<'_>) -> Result<Identity> {
    let key = match encrypted_key(content)? {
        Some(encrypted) => decrypted(&encrypted, access)?,
        None => PrivateKeyDer::from_pem_slice(content).map_err(|error| match error {
            pem::Error::NoItemsFound => KeystoreError::Content("expected a private key in PEM, found none"),
            error => malformed(&error),
        })?,
    };
    Ok(Identity { key, certificates: certificates(content)? })
}

/// Reads certificates, at least one.
pub(super) fn certificates(content: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let all: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    match all {
        Ok(all) if all.is_empty() => Err(KeystoreError::Content("expected certificates in PEM, found none")),
        Ok(all) => Ok(all),
        Err(error) => Err(malformed(&error)),
    }
}

/// Returns the DER of an encrypted private key. `None` if the file has none.
fn encrypted_key(content: &[u8]) -> Result<Option<Vec<u8>>> {
    let begin = format!("-----BEGIN {ENCRYPTED_KEY}-----");
    if !content.windows(begin.len()).any(|window| window == begin.as_bytes()) {
        return Ok(None);
    }
    // The parser skips sections whose label it does not know. The bytes of this one are not
    // interpreted as those of a plain key.
    let renamed = String::from_utf8_lossy(content).replace(ENCRYPTED_KEY, "PRIVATE KEY");
    let section =
        PrivatePkcs8KeyDer::from_pem_slice(renamed.as_bytes()).map_err(|error| malformed(&error))?;
    Ok(Some(section.secret_pkcs8_der().to_vec()))
}

fn decrypted(encrypted: &[u8], access: Access<'_>) -> Result<PrivateKeyDer<'static>> {
    if access.password.is_none() {
        let detail = "expected a password in keystore_password or keystore_password_file for the \
                      encrypted private key, found none";
        return Err(KeystoreError::Content(detail));
    }
    let key = Unlocker::new(access).private_key(encrypted)?;
    Ok(PrivatePkcs8KeyDer::from(key).into())
}

fn malformed(error: &pem::Error) -> KeystoreError {
    KeystoreError::Malformed { format: "PEM", detail: error.to_string() }
}
