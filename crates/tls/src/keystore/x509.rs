//! The names in certificates, which connect those of a chain.

use der::{AnyRef, Decode, Reader, SliceReader, Tag, TagNumber};
use tokio_rustls::rustls::pki_types::CertificateDer;

/// The maximum number of certificates in a chain.
const CHAIN_LENGTH_MAX: usize = 10;

/// Who signed a certificate and for whom it is, in DER.
#[derive(PartialEq, Eq)]
struct Names<'a> {
    issuer: &'a [u8],
    subject: &'a [u8],
}

/// Returns the chain of a certificate: itself, its issuer's, and so on, as far as `others` has
/// them. A certificate that signed itself ends it.
pub(super) fn chain(
    own: CertificateDer<'static>,
    others: &[CertificateDer<'static>],
) -> Vec<CertificateDer<'static>> {
    let mut chain = vec![own];
    while chain.len() < CHAIN_LENGTH_MAX {
        let Some(names) = chain.last().and_then(|last| names(last)) else { break };
        if names.issuer == names.subject {
            break;
        }
        let is_issuer = |other: &&CertificateDer<'_>| {
            self::names(other).is_some_and(|other| other.subject == names.issuer)
        };
        let Some(issuer) = others.iter().find(is_issuer).cloned() else { break };
        chain.push(issuer);
    }
    chain
}

/// Returns the names in a certificate. `None` if it is malformed.
///
/// ```text
/// Certificate    ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signature }
/// tbsCertificate ::= SEQUENCE { [0] version OPTIONAL, serialNumber, signature, issuer, validity,
///                               subject, ... }                         (RFC 5280, section 4.1)
/// ```
fn names(certificate: &[u8]) -> Option<Names<'_>> {
    let certificate = AnyRef::from_der(certificate).ok()?;
    let mut certificate = SliceReader::new(certificate.value()).ok()?;
    let signed: AnyRef<'_> = certificate.decode().ok()?;
    let mut fields = SliceReader::new(signed.value()).ok()?;
    let version = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };
    if Tag::peek(&fields).ok()? == version {
        fields.tlv_bytes().ok()?;
    }
    let (_serial, _algorithm) = (fields.tlv_bytes().ok()?, fields.tlv_bytes().ok()?);
    let issuer = fields.tlv_bytes().ok()?;
    let _validity = fields.tlv_bytes().ok()?;
    Some(Names { issuer, subject: fields.tlv_bytes().ok()? })
}
