//! Buckets behind TLS, with certificates that fit and that do not.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use super::Objects;
use super::remote::RemoteObjects;

/// A server that stores objects, with a certificate for one name.
struct Server {
    directory: TempDir,
    /// Stops the server on drop.
    _runtime: Runtime,
    endpoint: String,
}

impl Server {
    fn with_name(name: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let authority_key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = parameters.self_signed(&authority_key).unwrap();
        std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(parameters, authority_key);
        let certificate =
            CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let endpoint = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        runtime.spawn(async move {
            let objects = Arc::new(Mutex::new(HashMap::new()));
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, objects) = (acceptor.clone(), Arc::clone(&objects));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = answer(BufReader::new(stream), &objects).await;
                    }
                });
            }
        });
        Self { directory, _runtime: runtime, endpoint }
    }

    fn authority(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    fn open(&self, authorities: Option<&str>) -> crate::Result<RemoteObjects> {
        let builder = AmazonS3Builder::new()
            .with_access_key_id("key")
            .with_secret_access_key("secret")
            .with_region("here")
            .with_endpoint(&self.endpoint);
        RemoteObjects::open_with("s3://bucket/p", builder, authorities, false)
    }

    fn error(&self, authorities: Option<&str>) -> String {
        self.open(authorities).and_then(|objects| objects.read("x")).unwrap_err().to_string()
    }
}

/// Stores the bodies of PUT requests, and returns them to GET requests.
async fn answer(
    mut stream: BufReader<tokio_rustls::server::TlsStream<tokio::net::TcpStream>>,
    objects: &Mutex<HashMap<String, Vec<u8>>>,
) -> std::io::Result<()> {
    loop {
        let (mut request, mut length) = (String::new(), 0);
        if stream.read_line(&mut request).await? == 0 {
            return Ok(());
        }
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await?;
            if header.trim().is_empty() {
                break;
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let mut words = request.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().to_owned());
        let found = match method {
            "PUT" => {
                objects.lock().insert(path, body);
                Some(Vec::new())
            }
            _ => objects.lock().get(&path).cloned(),
        };
        let status = if found.is_some() { "200 OK" } else { "404 Not Found" };
        let found = found.unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"1\"\r\nLast-Modified: Tue, 24 Nov 2026 10:00:00 \
             GMT\r\n\r\n",
            found.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&found).await?;
        stream.flush().await?;
    }
}

#[test]
fn objects_behind_tls_are_written_and_read_with_the_authority_of_the_server() {
    let server = Server::with_name("127.0.0.1");
    let objects = server.open(Some(server.authority().to_str().unwrap())).unwrap();
    assert_eq!(objects.read("x").unwrap(), None);
    objects.put("x", b"content").unwrap();
    assert_eq!(objects.read("x").unwrap().unwrap(), b"content");
}

#[test]
fn a_certificate_that_does_not_fit_is_one_clear_error_without_a_repetition() {
    let server = Server::with_name("127.0.0.1");
    let unknown = "s3://bucket/p/x: cannot read: the server's certificate is signed by an unknown authority: \
                   specify its certificate, in PEM, in AWS_CA_BUNDLE";
    assert_eq!(server.error(None), unknown);
    let other = Server::with_name("other.example");
    assert_eq!(server.error(Some(other.authority().to_str().unwrap())), unknown);
    let error = other.error(Some(other.authority().to_str().unwrap()));
    assert!(
        error.starts_with("s3://bucket/p/x: cannot read: the server's certificate is not for this name: "),
        "{error}"
    );
    assert!(error.ends_with("; check AWS_ENDPOINT_URL and the certificate"), "{error}");
}

#[test]
fn a_file_of_authorities_that_cannot_be_used_is_refused_by_name() {
    let server = Server::with_name("127.0.0.1");
    let missing = server.directory.path().join("none.pem");
    let error = server.error(Some(missing.to_str().unwrap()));
    assert!(error.starts_with("s3://bucket/p: AWS_CA_BUNDLE: ") && error.contains("none.pem"), "{error}");
    std::fs::write(&missing, "no certificate").unwrap();
    let error = server.error(Some(missing.to_str().unwrap()));
    assert!(error.ends_with("expected certificates in PEM, found none"), "{error}");
}
