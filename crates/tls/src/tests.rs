use std::fs;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedKey, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType, date_time_ymd, generate_simple_self_signed,
};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::*;

/// A new private key and a certificate for it, in PEM.
fn identity() -> (String, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (signing_key.serialize_pem(), cert.pem())
}

fn written(directory: &Path, name: &str, content: impl AsRef<[u8]>) -> std::path::PathBuf {
    let path = directory.join(name);
    fs::write(&path, content).unwrap();
    path
}

fn error_of(options: TlsOptions) -> String {
    Tls::new(options).unwrap_err().to_string()
}

#[test]
fn files_that_are_not_key_and_certificates_are_errors_that_name_them() {
    let directory = TempDir::new().unwrap();
    let (key, certificate) = identity();
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("empty", Vec::new(), "expected a private key in PEM, found none"),
        ("certificate", certificate.clone().into(), "expected a private key in PEM, found none"),
        ("key", key.clone().into(), "expected certificates in PEM, found none"),
        ("encrypted", (encrypted.to_owned() + &certificate).into(), "keystore_password"),
        ("jks", vec![0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2], "in JKS, found damaged data"),
        ("p12", vec![0x30, 0x82, 1, 2], "in PKCS #12, found damaged data"),
        ("other", (key + &identity().1).into(), "KeyMismatch"),
    ];
    for (name, content, expected) in cases {
        let keystore = written(directory.path(), name, content);
        let error = error_of(TlsOptions { keystore: Keystore::new(keystore), ..TlsOptions::default() });
        assert!(error.contains(expected) && error.contains(name), "{name}: {error}");
    }
    let long = written(directory.path(), "long", vec![b' '; (4 << 20) + 1]);
    assert!(
        error_of(TlsOptions { keystore: Keystore::new(long), ..TlsOptions::default() }).contains("at most")
    );
    let missing =
        TlsOptions { keystore: Keystore::new(directory.path().join("missing")), ..TlsOptions::default() };
    assert!(error_of(missing).starts_with("cannot read"));
}

#[test]
fn options_without_a_meaning_are_errors_that_name_them() {
    let directory = TempDir::new().unwrap();
    let (key, certificate) = identity();
    let keystore = written(directory.path(), "server.pem", key + &certificate);
    let options = TlsOptions { keystore: Keystore::new(keystore), ..TlsOptions::default() };
    let suites = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let old = TlsOptions { protocols: suites(&["TLSv1.1"]), ..options.clone() };
    assert!(error_of(old).contains("accepted_protocols: expected TLSv1.2 or TLSv1.3, found TLSv1.1"));
    let weak = TlsOptions { cipher_suites: suites(&["TLS_RSA_WITH_AES_128_CBC_SHA"]), ..options.clone() };
    let error = error_of(weak);
    assert!(error.contains("TLS_AES_256_GCM_SHA384") && error.contains("found TLS_RSA_WITH"), "{error}");
    let no_roots = TlsOptions { client_certificates: ClientCertificates::Required, ..options.clone() };
    assert!(error_of(no_roots).starts_with("truststore"));
    // No suite of TLS 1.2 is left for TLS 1.2.
    let contradiction = TlsOptions {
        protocols: suites(&["TLSv1.2"]),
        cipher_suites: suites(&["TLS_AES_256_GCM_SHA384"]),
        ..options.clone()
    };
    assert!(error_of(contradiction).contains("accepted_protocols"));
    let named = TlsOptions {
        protocols: suites(&["TLSv1.2"]),
        cipher_suites: suites(&["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]),
        ..options
    };
    assert!(Tls::new(named).is_ok());
}

#[test]
fn replaced_files_are_read_again_and_damaged_ones_leave_the_previous_in_use() {
    let directory = TempDir::new().unwrap();
    let (key, certificate) = identity();
    let keystore = written(directory.path(), "server.pem", key + &certificate);
    let tls = Tls::new(TlsOptions { keystore: Keystore::new(keystore), ..TlsOptions::default() }).unwrap();
    assert!(!tls.reload_if_changed().unwrap());
    let first = tls.shared.config.load_full();
    written(directory.path(), "server.pem", "damaged");
    tls.reload_if_changed().unwrap_err();
    assert!(Arc::ptr_eq(&first, &tls.shared.config.load_full()));
    let (key, certificate) = identity();
    // Longer than before, whatever the resolution of times.
    written(directory.path(), "server.pem", format!("{key}{certificate}\n\n"));
    assert!(tls.reload_if_changed().unwrap());
    assert!(!Arc::ptr_eq(&first, &tls.shared.config.load_full()));
    assert!(!tls.reload_if_changed().unwrap());
}

/// A certificate for clients until the start of a year, and its private key.
fn client(issuer: &Issuer<'_, KeyPair>, end: i32) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::default();
    parameters.subject_alt_names = vec![SanType::URI("spiffe://domain/app".try_into().unwrap())];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    (parameters.not_before, parameters.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(end, 1, 1));
    let certificate = parameters.signed_by(&key, issuer).unwrap();
    (certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into())
}

#[tokio::test]
async fn certificates_of_clients_are_accepted_until_they_expire() {
    let directory = TempDir::new().unwrap();
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let trusted = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let keystore = written(directory.path(), "server.pem", signing_key.serialize_pem() + &cert.pem());
    let truststore = written(directory.path(), "ca.pem", trusted.pem());
    let tls = Tls::new(TlsOptions {
        keystore: Keystore::new(keystore),
        truststore: Some(Keystore::new(truststore)),
        client_certificates: ClientCertificates::Required,
        ..TlsOptions::default()
    });
    let tls = tls.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    for (end, is_accepted) in [(2021, false), (4096, true)] {
        let (certificate, key) = client(&issuer, end);
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate.clone()], key)
            .unwrap();
        let connecting = async {
            let stream = TcpStream::connect(address).await.unwrap();
            let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
            // In TLS 1.3, the client receives the server's refusal after its own handshake.
            connector.connect("localhost".try_into().unwrap(), stream).await
        };
        let accepting = async { tls.accept(listener.accept().await.unwrap().0).await };
        let (_client, accepted) = tokio::join!(connecting, accepting);
        match accepted {
            Ok(socket) => {
                assert!(is_accepted);
                assert_eq!(socket.client_certificate(), Some(certificate.as_ref()));
            }
            Err(error) => {
                assert!(!is_accepted && error.to_string().contains("certificate expired"), "{error}");
            }
        }
    }
}
