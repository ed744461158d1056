//! TLS of connections to object stores: which authorities are trusted, and what failures mean.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::{Certificate, ClientOptions};
use rustls::CertificateError;

/// The name of the variable with the file of the trusted authorities, as for Amazon's programs.
pub(super) const CA_BUNDLE: &str = "AWS_CA_BUNDLE";
/// The maximum length of that file, bytes.
const CA_BUNDLE_LENGTH_MAX: u64 = 16 << 20;

/// Trusts the authorities in `path`, in PEM, and no others; without a path, those of the system.
///
/// # Errors
/// If the file cannot be read, or has no certificate.
pub(super) fn with_authorities(options: ClientOptions, path: Option<&str>) -> Result<ClientOptions, String> {
    let Some(path) = path else { return Ok(options) };
    let invalid = |detail: String| format!("{CA_BUNDLE}: {path}: {detail}");
    let length = std::fs::metadata(path).map_err(|error| invalid(error.to_string()))?.len();
    if length > CA_BUNDLE_LENGTH_MAX {
        return Err(invalid(format!("expected at most {CA_BUNDLE_LENGTH_MAX} bytes, found {length}")));
    }
    let content = std::fs::read(path).map_err(|error| invalid(error.to_string()))?;
    let certificates = Certificate::from_pem_bundle(&content).map_err(|error| invalid(error.to_string()))?;
    if certificates.is_empty() {
        return Err(invalid("expected certificates in PEM, found none".to_owned()));
    }
    let options = options.with_no_system_certificates(true);
    Ok(certificates.into_iter().fold(options, ClientOptions::with_root_certificate))
}

/// A failed handshake, with what to do.
#[derive(Debug)]
pub(super) struct TlsFailure(String);

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for TlsFailure {}

/// Returns the failed handshake that an error is about.
pub(super) fn failure_in<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a TlsFailure> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<TlsFailure>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Creates clients that do not repeat requests whose handshake failed: it would fail again.
#[derive(Debug, Default)]
pub(super) struct TlsConnector;

impl HttpConnector for TlsConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(ReqwestConnector::default().connect(options)?)))
    }
}

#[derive(Debug)]
struct Service(HttpClient);

impl HttpService for Service {
    fn call<'service, 'call>(
        &'service self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'call>>
    where
        'service: 'call,
        Self: 'call,
    {
        Box::pin(async move {
            self.0.execute(request).await.map_err(|error| match handshake_error(&error) {
                Some(tls) => HttpError::new(HttpErrorKind::Unknown, TlsFailure(explain(tls))),
                None => error,
            })
        })
    }
}

/// Returns the error of TLS among the causes of an error.
fn handshake_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        // The error within an I/O error is not its source, but the source of that.
        let within = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = within.map(|within| within as &(dyn StdError + 'static)).or_else(|| error.source());
    }
    None
}

fn explain(error: &rustls::Error) -> String {
    let text = cassette_tls::explain(error);
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => format!("{text}, in PEM, in {CA_BUNDLE}"),
        _ => format!("{text}; check AWS_ENDPOINT_URL and the certificate"),
    }
}
