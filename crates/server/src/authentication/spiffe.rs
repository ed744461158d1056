//! The SPIFFE ID in a client's certificate: a URI among its alternative names.

use der::{AnyRef, Decode, Reader, SliceReader, Tag, TagNumber, Tagged};

/// The extensions of a certificate.
const EXTENSIONS: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber(3) };

/// The object identifier of the alternative names of the subject, 2.5.29.17.
const SUBJECT_ALTERNATIVE_NAMES: [u8; 3] = [0x55, 0x1D, 0x11];

/// A name that is a URI.
const URI: Tag = Tag::ContextSpecific { constructed: false, number: TagNumber(6) };

const SCHEME: &str = "spiffe://";

/// Returns the first SPIFFE ID in a certificate in DER; `None` if it is malformed or has none.
///
/// ```text
/// tbsCertificate ::= SEQUENCE { ..., [3] SEQUENCE OF Extension OPTIONAL }
/// Extension      ::= SEQUENCE { extnID, critical DEFAULT FALSE, extnValue OCTET STRING }
/// SubjectAltName ::= SEQUENCE OF GeneralName, of which [6] is a URI        (RFC 5280, 4.2.1.6)
/// ```
pub fn spiffe_id(certificate: &[u8]) -> Option<&str> {
    let certificate = AnyRef::from_der(certificate).ok()?;
    let signed = elements(certificate.value())?.next()?;
    let extensions = elements(signed.value())?.find(|field| field.tag() == EXTENSIONS)?;
    let extensions = elements(extensions.value())?.next()?;
    elements(extensions.value())?.find_map(id_of_extension)
}

/// Returns the first SPIFFE ID of an extension, if that has alternative names.
fn id_of_extension(extension: AnyRef<'_>) -> Option<&str> {
    let mut fields = elements(extension.value())?;
    if fields.next()?.value() != SUBJECT_ALTERNATIVE_NAMES {
        return None;
    }
    let value = fields.find(|field| field.tag() == Tag::OctetString)?;
    let names = elements(value.value())?.next()?;
    elements(names.value())?
        .filter(|name| name.tag() == URI)
        .filter_map(|name| std::str::from_utf8(name.value()).ok())
        .find(|uri| uri.starts_with(SCHEME) && uri.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// Iterates over the elements of a sequence; ends at a malformed one.
fn elements(content: &[u8]) -> Option<impl Iterator<Item = AnyRef<'_>>> {
    let mut reader = SliceReader::new(content).ok()?;
    Some(std::iter::from_fn(move || if reader.is_finished() { None } else { reader.decode().ok() }).fuse())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate(names: &[SanType]) -> Vec<u8> {
        let mut parameters = CertificateParams::default();
        parameters.subject_alt_names = names.to_vec();
        parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn uri(text: &str) -> SanType {
        SanType::URI(text.try_into().unwrap())
    }

    #[test]
    fn the_first_uri_with_the_scheme_of_spiffe_is_the_identity() {
        let names = [
            SanType::DnsName("spiffe.example".try_into().unwrap()),
            uri("https://example.org/spiffe://x"),
            uri("spiffe://domain/first"),
            uri("spiffe://domain/second"),
        ];
        assert_eq!(spiffe_id(&certificate(&names)), Some("spiffe://domain/first"));
        assert_eq!(spiffe_id(&certificate(&names[..2])), None);
        assert_eq!(spiffe_id(&certificate(&[])), None);
        assert_eq!(spiffe_id(&certificate(&[uri("spiffe://domain/a\0b")])), None);
    }

    #[test]
    fn the_identity_of_a_certificate_of_openssl_is_read() {
        let certificate = include_bytes!("../../../tls/testdata/keystores/spiffe.der");
        assert_eq!(spiffe_id(certificate), Some("spiffe://example.com/app"));
    }

    #[test]
    fn damaged_certificates_have_no_other_identity() {
        let certificate = certificate(&[uri("spiffe://domain/a")]);
        for length in 0..certificate.len() {
            assert_eq!(spiffe_id(&certificate[..length]), None, "{length}");
        }
        for (position, bit) in (0..certificate.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut damaged = certificate.clone();
            damaged[position] ^= 1 << bit;
            // It must not panic, whatever it returns.
            let _ = spiffe_id(&damaged);
        }
    }
}
