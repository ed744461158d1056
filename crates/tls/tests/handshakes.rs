//! Handshakes of clients and servers with certificates that fit and that do not.

use std::fs;
use std::path::{Path, PathBuf};

use cassette_tls::rustls::pki_types::ServerName;
use cassette_tls::rustls::{self};
use cassette_tls::{ClientCertificates, ClientTls, ClientTlsOptions, Keystore, Tls, TlsOptions, explain};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

/// An authority with its file.
struct Authority {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        fs::write(directory.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { directory, issuer: Issuer::new(parameters, key) }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Signs a certificate that is valid until the start of a year; returns the files with it and
    /// with its key.
    fn sign(&self, name: &str, purpose: ExtendedKeyUsagePurpose, until: i32) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        parameters.extended_key_usages = vec![purpose];
        (parameters.not_before, parameters.not_after) =
            (date_time_ymd(2000, 1, 1), date_time_ymd(until, 1, 1));
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let path = |kind: &str| self.directory.path().join(format!("{name}-{until}-{kind}.pem"));
        fs::write(path("certificate"), certificate.pem()).unwrap();
        fs::write(path("key"), key.serialize_pem()).unwrap();
        (path("certificate"), path("key"))
    }

    fn server(&self, name: &str, until: i32) -> TlsOptions {
        let (certificate, key) = self.sign(name, ExtendedKeyUsagePurpose::ServerAuth, until);
        let keystore = Keystore { private_key: Some(key), ..Keystore::new(certificate) };
        TlsOptions { keystore, ..TlsOptions::default() }
    }

    fn client(&self, authorities: &Path, until: i32) -> ClientTls {
        let (certificate, key) = self.sign("client", ExtendedKeyUsagePurpose::ClientAuth, until);
        ClientTls::new(&ClientTlsOptions {
            authorities: authorities.to_owned(),
            certificate: Some(certificate),
            private_key: Some(key),
        })
        .unwrap()
    }
}

fn client(authorities: PathBuf) -> ClientTls {
    ClientTls::new(&ClientTlsOptions { authorities, ..ClientTlsOptions::default() }).unwrap()
}

/// Sends a byte to a server and back; returns why it failed, or the certificate of the client.
async fn exchanged(server: Option<TlsOptions>, client: &ClientTls) -> Result<Option<Vec<u8>>, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        let Some(options) = server else {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            return None;
        };
        let mut socket = Tls::new(options).unwrap().accept(stream).await.ok()?;
        let mut byte = [0];
        socket.read_exact(&mut byte).await.ok()?;
        socket.write_all(&byte).await.ok()?;
        socket.flush().await.ok()?;
        socket.client_certificate().map(<[u8]>::to_owned)
    });
    let exchange = async {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(client.config().clone()).connect(name, stream).await?;
        stream.write_all(b"x").await?;
        stream.read_u8().await
    };
    let done: std::io::Result<u8> = exchange.await;
    let certificate = served.await.unwrap();
    match done {
        Ok(_) => Ok(certificate),
        Err(error) => {
            let cause = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
            Err(cause.map_or_else(|| error.to_string(), explain))
        }
    }
}

#[tokio::test]
async fn a_server_is_accepted_with_a_valid_certificate_for_its_name_only() {
    let (ours, foreign) = (Authority::new(), Authority::new());
    let trusting = client(ours.file());
    assert_eq!(exchanged(Some(ours.server("localhost", 4000)), &trusting).await, Ok(None));
    for (server, expected) in [
        (Some(foreign.server("localhost", 4000)), "signed by an unknown authority"),
        (Some(ours.server("localhost", 2001)), "has expired"),
        (Some(ours.server("other.example", 4000)), "not for this name"),
        (None, "does not use TLS"),
    ] {
        let error = exchanged(server, &trusting).await.unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[tokio::test]
async fn a_client_is_accepted_with_a_valid_certificate_only() {
    let (ours, foreign) = (Authority::new(), Authority::new());
    let server = |client_certificates| TlsOptions {
        truststore: Some(Keystore::new(ours.file())),
        client_certificates,
        ..ours.server("localhost", 4000)
    };
    let (required, optional) = (ClientCertificates::Required, ClientCertificates::Optional);
    let accepted = exchanged(Some(server(required)), &ours.client(&ours.file(), 4000)).await;
    assert!(accepted.unwrap().is_some_and(|certificate| !certificate.is_empty()));
    assert_eq!(exchanged(Some(server(optional)), &client(ours.file())).await, Ok(None));
    for (certificates, client, expected) in [
        (required, client(ours.file()), "requires a certificate of the client"),
        (required, foreign.client(&ours.file(), 4000), "does not accept the certificate"),
        (required, ours.client(&ours.file(), 2001), "does not accept the certificate"),
        (optional, foreign.client(&ours.file(), 4000), "does not accept the certificate"),
    ] {
        let error = exchanged(Some(server(certificates)), &client).await.unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn files_of_clients_that_do_not_belong_together_are_errors() {
    let ours = Authority::new();
    let (certificate, key) = ours.sign("client", ExtendedKeyUsagePurpose::ClientAuth, 4000);
    let (_, other_key) = ours.sign("other", ExtendedKeyUsagePurpose::ClientAuth, 4000);
    let error = |options: ClientTlsOptions| ClientTls::new(&options).unwrap_err().to_string();
    let options = ClientTlsOptions { authorities: ours.file(), ..ClientTlsOptions::default() };
    let missing = ClientTlsOptions { authorities: "/nonexistent/ca.pem".into(), ..options.clone() };
    assert!(error(missing).starts_with("cannot read /nonexistent/ca.pem"));
    let alone = ClientTlsOptions { private_key: Some(key.clone()), ..options.clone() };
    assert!(error(alone).contains("a private key without a certificate"));
    let mismatch = ClientTlsOptions {
        certificate: Some(certificate.clone()),
        private_key: Some(other_key),
        ..options.clone()
    };
    assert!(error(mismatch).contains("KeyMismatch"));
    let no_key = ClientTlsOptions { certificate: Some(certificate), ..options.clone() };
    assert!(error(no_key).contains("expected a private key"));
    let no_authority = ClientTlsOptions { authorities: key, ..options };
    assert!(error(no_authority).contains("expected certificates in PEM, found none"));
}
