//! PKCS #12 (RFC 7292), as keytool and OpenSSL write it, in DER.

use der::asn1::{ObjectIdentifier, OctetStringRef};
use der::{AnyRef, Decode, Reader, Sequence, SliceReader};
use pkcs5::AlgorithmIdentifierRef;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::decryption::{Integrity, Unlocker};
use super::{Access, Entries, Identity, KeystoreError, Result, x509};

const DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const ENCRYPTED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.6");

const KEY_BAG: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.10.1.1");
const ENCRYPTED_KEY_BAG: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.10.1.2");
const CERTIFICATE_BAG: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.10.1.3");

const SECRET_BAG: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.10.1.5");

const X509_CERTIFICATE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.22.1");

/// The attribute that a key and its certificate have in common.
const LOCAL_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.21");
/// The attribute with the alias of an entry.
const FRIENDLY_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.20");
/// The attribute by which Java marks trusted certificates.
const TRUSTED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.113894.746875.1.1");

/// PFX. Its content is an AuthenticatedSafe: a sequence of contents, plain or encrypted.
#[derive(Sequence)]
struct Pfx<'a> {
    version: u8,
    safe: Content<'a>,
    #[asn1(optional = "true")]
    mac: Option<MacData<'a>>,
}

#[derive(Sequence)]
struct Content<'a> {
    kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    content: AnyRef<'a>,
}

#[derive(Sequence)]
struct MacData<'a> {
    digest: DigestInfo<'a>,
    salt: &'a OctetStringRef,
    #[asn1(default = "one_iteration")]
    iterations: u32,
}

fn one_iteration() -> u32 {
    1
}

#[derive(Sequence)]
struct DigestInfo<'a> {
    algorithm: AlgorithmIdentifierRef<'a>,
    digest: &'a OctetStringRef,
}

#[derive(Sequence)]
struct EncryptedData<'a> {
    version: u8,
    content: EncryptedContent<'a>,
}

#[derive(Sequence)]
struct EncryptedContent<'a> {
    kind: ObjectIdentifier,
    algorithm: AlgorithmIdentifierRef<'a>,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT")]
    data: &'a OctetStringRef,
}

/// SafeBag: a key, a certificate, or something else, with attributes.
#[derive(Sequence)]
struct Bag<'a> {
    kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    value: AnyRef<'a>,
    /// A set whose order other tools do not keep to that of DER.
    #[asn1(optional = "true")]
    attributes: Option<AnyRef<'a>>,
}

#[derive(Sequence)]
struct CertificateBag<'a> {
    kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    value: &'a OctetStringRef,
}

/// A secret key as Java stores it: encrypted in the same way as a private key.
#[derive(Sequence)]
struct SecretBag<'a> {
    kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    value: &'a OctetStringRef,
}

/// PrivateKeyInfo, whose key is that of a symmetric cipher.
#[derive(Sequence)]
struct SecretKeyInfo<'a> {
    version: u8,
    algorithm: AlgorithmIdentifierRef<'a>,
    key: &'a OctetStringRef,
}

struct Key {
    der: Vec<u8>,
    id: Option<Vec<u8>>,
}

struct Certificate {
    der: CertificateDer<'static>,
    id: Option<Vec<u8>>,
    is_trusted: bool,
}

/// What the bags of a file contain.
#[derive(Default)]
struct Bags {
    keys: Vec<Key>,
    certificates: Vec<Certificate>,
    /// The aliases of secret keys.
    aliases: Vec<String>,
    /// The secret key that was searched for.
    secret: Option<Vec<u8>>,
}

/// Reads a file.
///
/// # Errors
/// If it is damaged, or encrypted in another way or with another password.
pub(super) fn parse(content: &[u8], access: Access<'_>) -> Result<Entries> {
    bags(content, access, None)?.entries()
}

/// Returns the secret key with an alias, whose case does not matter, as in Java.
///
/// # Errors
/// As [`parse`], and if there is no such key.
pub(super) fn secret_key(content: &[u8], access: Access<'_>, alias: &str) -> Result<Vec<u8>> {
    let bags = bags(content, access, Some(alias))?;
    bags.secret.ok_or_else(|| {
        let found = if bags.aliases.is_empty() { "none".to_owned() } else { bags.aliases.join(", ") };
        KeystoreError::Missing(format!("expected a secret key with alias {alias}, found {found}"))
    })
}

fn bags(content: &[u8], access: Access<'_>, secret: Option<&str>) -> Result<Bags> {
    let pfx = Pfx::from_der(content).map_err(malformed)?;
    if pfx.safe.kind != DATA {
        let detail = "expected a keystore protected by a password, found one protected by a public key";
        return Err(KeystoreError::Unsupported(detail.to_owned()));
    }
    let mut unlocker = Unlocker::new(access);
    let safe = octets(pfx.safe.content)?;
    if let Some(mac) = &pfx.mac {
        let integrity = Integrity {
            hash: mac.digest.algorithm.oid,
            salt: mac.salt.as_bytes(),
            iterations: mac.iterations,
            code: mac.digest.digest.as_bytes(),
        };
        unlocker.verify(safe, &integrity)?;
    }
    let mut bags = Bags::default();
    for content in Vec::<Content<'_>>::from_der(safe).map_err(malformed)? {
        match content.kind {
            DATA => bags.read(octets(content.content)?, &mut unlocker, secret)?,
            ENCRYPTED_DATA => {
                let encrypted: EncryptedData<'_> = content.content.decode_as().map_err(malformed)?;
                let EncryptedContent { algorithm, data, .. } = encrypted.content;
                let safe = unlocker.decrypt(&algorithm, data.as_bytes())?;
                bags.read(&safe, &mut unlocker, secret)?;
            }
            other => return Err(malformed(format!("unknown content {other}"))),
        }
    }
    Ok(bags)
}

impl Bags {
    fn read(&mut self, content: &[u8], unlocker: &mut Unlocker<'_>, secret: Option<&str>) -> Result<()> {
        for bag in Vec::<Bag<'_>>::from_der(content).map_err(malformed)? {
            let id = attribute(bag.attributes, LOCAL_KEY_ID)?.map(<[u8]>::to_vec);
            match bag.kind {
                KEY_BAG => self.keys.push(Key { der: encoded(bag.value)?, id }),
                ENCRYPTED_KEY_BAG => {
                    let der = unlocker.private_key(&encoded(bag.value)?)?;
                    self.keys.push(Key { der, id });
                }
                CERTIFICATE_BAG => {
                    let certificate: CertificateBag<'_> = bag.value.decode_as().map_err(malformed)?;
                    if certificate.kind == X509_CERTIFICATE {
                        let der = certificate.value.as_bytes().to_vec().into();
                        let is_trusted = attribute(bag.attributes, TRUSTED_KEY_USAGE)?.is_some();
                        self.certificates.push(Certificate { der, id, is_trusted });
                    }
                }
                SECRET_BAG if secret.is_some() => {
                    let alias = friendly_name(bag.attributes)?;
                    let is_wanted =
                        secret.is_some_and(|wanted| alias.to_lowercase() == wanted.to_lowercase());
                    if is_wanted && self.secret.is_none() {
                        self.secret = Some(secret_key_of(bag.value, unlocker)?);
                    }
                    self.aliases.push(alias);
                }
                // Other secrets, lists of revocations and others.
                _ => {}
            }
        }
        Ok(())
    }

    fn entries(self) -> Result<Entries> {
        let Self { keys, certificates, .. } = self;
        // OpenSSL does not mark the certificates of a truststore.
        let are_all_trusted = keys.is_empty() && !certificates.iter().any(|one| one.is_trusted);
        let all: Vec<_> = certificates.iter().map(|one| one.der.clone()).collect();
        let identity = |key: Key| {
            let own = certificates.iter().find(|one| key.id.is_some() && one.id == key.id);
            let own = own.or(certificates.first()).ok_or(KeystoreError::Content(
                "expected a certificate for the private key of the keystore, found none",
            ))?;
            let certificates = x509::chain(own.der.clone(), &all);
            Ok(Identity { key: PrivatePkcs8KeyDer::from(key.der).into(), certificates })
        };
        let identities = keys.into_iter().map(identity).collect::<Result<_>>()?;
        let trusted = certificates.iter().filter(|one| one.is_trusted || are_all_trusted);
        Ok(Entries { identities, trusted: trusted.map(|one| one.der.clone()).collect() })
    }
}

/// Decrypts the secret key in a bag.
fn secret_key_of(bag: AnyRef<'_>, unlocker: &mut Unlocker<'_>) -> Result<Vec<u8>> {
    let bag: SecretBag<'_> = bag.decode_as().map_err(malformed)?;
    if bag.kind != ENCRYPTED_KEY_BAG {
        return Err(malformed(format!("secret of unknown kind {}", bag.kind)));
    }
    let decrypted = unlocker.private_key(bag.value.as_bytes())?;
    let info = SecretKeyInfo::from_der(&decrypted).map_err(malformed)?;
    Ok(info.key.as_bytes().to_vec())
}

/// Returns the alias of an entry, which is in UTF-16; empty without one.
fn friendly_name(attributes: Option<AnyRef<'_>>) -> Result<String> {
    let Some(value) = attribute(attributes, FRIENDLY_NAME)? else { return Ok(String::new()) };
    let text = AnyRef::from_der(value).map_err(malformed)?;
    let units = text.value().chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    Ok(char::decode_utf16(units).map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

/// Returns the first value of an attribute, in DER.
fn attribute<'a>(attributes: Option<AnyRef<'a>>, kind: ObjectIdentifier) -> Result<Option<&'a [u8]>> {
    let Some(attributes) = attributes else { return Ok(None) };
    let mut attributes = SliceReader::new(attributes.value()).map_err(malformed)?;
    while !attributes.is_finished() {
        let attribute: AnyRef<'a> = attributes.decode().map_err(malformed)?;
        let mut attribute = SliceReader::new(attribute.value()).map_err(malformed)?;
        let found: ObjectIdentifier = attribute.decode().map_err(malformed)?;
        if found == kind {
            let values: AnyRef<'a> = attribute.decode().map_err(malformed)?;
            return Ok(Some(values.value()));
        }
    }
    Ok(None)
}

fn octets(content: AnyRef<'_>) -> Result<&[u8]> {
    let octets: &OctetStringRef = content.decode_as().map_err(malformed)?;
    Ok(octets.as_bytes())
}

fn encoded(value: AnyRef<'_>) -> Result<Vec<u8>> {
    der::Encode::to_der(&value).map_err(malformed)
}

fn malformed(error: impl std::fmt::Display) -> KeystoreError {
    KeystoreError::Malformed { format: "PKCS #12", detail: error.to_string() }
}
