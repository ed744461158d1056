//! JKS, the format of Java's own keystores before Java 9.
//!
//! ```text
//! FEEDFEED | version u32 (1, 2) | number of entries u32 | entries | SHA-1 of password and all before
//! entry:        tag u32 | alias (u16 length, bytes) | created i64 | content
//! content of 1: key (u32 length, bytes) | number of certificates u32 | certificates
//! content of 2: a certificate
//! certificate:  type (u16 length, "X.509"), from version 2 | u32 length, DER
//! key:          EncryptedPrivateKeyInfo of algorithm 1.3.6.1.4.1.42.2.17.1.1, whose data is
//!               salt [20] | key XOR stream | SHA-1 of password and key [20]
//! ```
//!
//! The stream is a sequence of SHA-1 values, each of the password and the previous one, the first
//! of the password and the salt. Passwords are in UTF-16BE. The last value is over the password,
//! "Mighty Aphrodite" and the file. Source: observed files of keytool, `-storetype JKS`.

use der::asn1::{ObjectIdentifier, OctetStringRef};
use der::{Decode, Sequence};
use pkcs5::AlgorithmIdentifierRef;
use sha1::{Digest, Sha1};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::{Access, Entries, Identity, JKS_MAGIC, KeystoreError, Result};

/// What the password is followed by in the checksum of a file.
const WHITENER: &[u8] = b"Mighty Aphrodite";

const KEY_PROTECTOR: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.42.2.17.1.1");

/// The length of a SHA-1 value, and of a salt.
const HASH_LENGTH: usize = 20;

const PRIVATE_KEY: u32 = 1;
const CERTIFICATE: u32 = 2;

/// EncryptedPrivateKeyInfo.
#[derive(Sequence)]
struct ProtectedKey<'a> {
    algorithm: AlgorithmIdentifierRef<'a>,
    data: &'a OctetStringRef,
}

/// Reads a file. Without a password its checksum is not compared, as in Java; its keys cannot be
/// decrypted then.
///
/// # Errors
/// If the file is damaged or its password is another.
pub(super) fn parse(content: &[u8], access: Access<'_>) -> Result<Entries> {
    let password =
        access.password.map(|text| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>());
    let (body, checksum) = content.split_last_chunk::<HASH_LENGTH>().ok_or_else(truncated)?;
    if let Some(password) = &password
        && hash(&[password, WHITENER, body]) != *checksum
    {
        return Err(KeystoreError::Password);
    }
    let mut fields = Fields(body.get(JKS_MAGIC.len()..).ok_or_else(truncated)?);
    let version = fields.u32()?;
    if !(1..=2).contains(&version) {
        return Err(malformed(&format!("version {version}")));
    }
    let mut entries = Entries::default();
    for _ in 0..fields.u32()? {
        let tag = fields.u32()?;
        let alias_length = fields.u16()?;
        fields.bytes(alias_length.into())?;
        let _created = fields.bytes(8)?;
        match tag {
            PRIVATE_KEY => entries.identities.push(fields.identity(version, password.as_deref())?),
            CERTIFICATE => entries.trusted.push(fields.certificate(version)?),
            other => return Err(malformed(&format!("entry of type {other}"))),
        }
    }
    if fields.0.is_empty() { Ok(entries) } else { Err(malformed("bytes after the last entry")) }
}

/// The rest of a file.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(truncated)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(truncated)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Reads a length and as many bytes.
    fn sized(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.u32()?).map_err(|_| truncated())?;
        self.bytes(length)
    }

    fn certificate(&mut self, version: u32) -> Result<CertificateDer<'static>> {
        if version > 1 {
            let length = self.u16()?;
            let kind = self.bytes(length.into())?;
            if kind != b"X.509" {
                return Err(malformed("a certificate that is not X.509"));
            }
        }
        Ok(self.sized()?.to_vec().into())
    }

    fn identity(&mut self, version: u32, password: Option<&[u8]>) -> Result<Identity> {
        let key = self.sized()?;
        let count = self.u32()?;
        // Each takes bytes of the file, so their number needs no bound.
        let certificates = (0..count).map(|_| self.certificate(version)).collect::<Result<_>>()?;
        let key = decrypted(key, password.ok_or(KeystoreError::Password)?)?;
        Ok(Identity { key: PrivatePkcs8KeyDer::from(key).into(), certificates })
    }
}

fn decrypted(key: &[u8], password: &[u8]) -> Result<Vec<u8>> {
    let key = ProtectedKey::from_der(key).map_err(|error| malformed(&error.to_string()))?;
    if key.algorithm.oid != KEY_PROTECTOR {
        return Err(malformed(&format!("a key encrypted with algorithm {}", key.algorithm.oid)));
    }
    let (salt, rest) = key.data.as_bytes().split_first_chunk::<HASH_LENGTH>().ok_or_else(truncated)?;
    let (encrypted, checksum) = rest.split_last_chunk::<HASH_LENGTH>().ok_or_else(truncated)?;
    let mut key = Vec::with_capacity(encrypted.len());
    let mut stream = *salt;
    for block in encrypted.chunks(HASH_LENGTH) {
        stream = hash(&[password, &stream]);
        key.extend(block.iter().zip(stream).map(|(byte, mask)| byte ^ mask));
    }
    if hash(&[password, &key]) == *checksum { Ok(key) } else { Err(KeystoreError::Password) }
}

fn hash(parts: &[&[u8]]) -> [u8; HASH_LENGTH] {
    let mut hash = Sha1::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn truncated() -> KeystoreError {
    malformed("the file ends early")
}

fn malformed(detail: &str) -> KeystoreError {
    KeystoreError::Malformed { format: "JKS", detail: detail.to_owned() }
}
