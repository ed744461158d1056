//! The client of the admin endpoint.

use std::io::ErrorKind;
use std::time::Duration;

use cassette_admin_api::{CutOverAnswer, CutOverRequest, Done, Operation};
use cassette_admin_api::{RefusalKind, Refused};
use serde::de::DeserializeOwned;
use ureq::unversioned::resolver::DefaultResolver;

use super::connection::Connection;
use super::cut_over::StepFailure;
use super::unix_socket::UnixConnector;
use super::{Failure, Result};

/// The maximum length of a report, in bytes.
const REPORT_LENGTH_MAX: u64 = 256 << 20;

/// A node's admin endpoint.
pub(super) struct Client {
    agent: ureq::Agent,
    /// `host:port`, or the path of a Unix socket, for messages.
    node: String,
    /// `host:port`.
    authority: String,
    scheme: &'static str,
    /// The value of the header `Authorization`.
    authorization: Option<String>,
}

impl Client {
    /// Creates a client of the endpoint at `host` and `port`, without connecting.
    pub fn new(host: &str, port: &str, connection: Connection) -> Result<Self> {
        if port.parse::<u16>().is_err() {
            return Err(Failure::usage(format!("{port} is no port number")));
        }
        let mut config =
            ureq::Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0);
        let Connection { authorization, tls, socket } = connection;
        if let Some(tls) = &tls {
            config = config.tls_config(tls.ureq().clone());
        }
        let scheme = if tls.is_some() { "https" } else { "http" };
        let node = if host.contains(':') {
            format!("[{}]:{port}", host.trim_matches(['[', ']']))
        } else {
            format!("{host}:{port}")
        };
        if let Some(path) = socket {
            let node = path.display().to_string();
            let agent =
                ureq::Agent::with_parts(config.build(), UnixConnector(path), DefaultResolver::default());
            // The server accepts any name of this machine.
            return Ok(Self { agent, node, authority: "localhost".to_owned(), scheme, authorization });
        }
        Ok(Self { agent: config.build().into(), authority: node.clone(), node, scheme, authorization })
    }

    /// Reads a report.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let request = self.authorized(self.agent.get(format!("{}://{}{path}", self.scheme, self.authority)));
        self.read(request.call())
    }

    /// Executes an operation, and waits until it is complete.
    pub fn operate(&self, operation: &Operation) -> Result<Done> {
        let body = serde_json::to_vec(operation).map_err(|error| Failure::Error(error.to_string()))?;
        let request = self.agent.post(format!("{}://{}/v1/operations", self.scheme, self.authority));
        let answer = self.authorized(request).header("Content-Type", "application/json").send(&body[..]);
        self.read(answer)
    }

    /// Executes a step of a cut-over, and waits until it is complete, for at most `time_max`.
    pub fn cut_over(
        &self,
        request: &CutOverRequest,
        time_max: Duration,
    ) -> std::result::Result<CutOverAnswer, StepFailure> {
        let body = serde_json::to_vec(request).map_err(|error| StepFailure::Refused(error.to_string()))?;
        let request = self.agent.post(format!("{}://{}/v1/cut_over", self.scheme, self.authority));
        let request = self.authorized(request).header("Content-Type", "application/json");
        let answer = request.config().timeout_global(Some(time_max)).build().send(&body[..]);
        let no_answer = |error: ureq::Error| {
            let reason = match &error {
                ureq::Error::Timeout(_) => format!("no response within {time_max:?}"),
                error => self.explain(error),
            };
            StepFailure::Unknown(format!("'{}': {reason}", self.node))
        };
        let mut answer = answer.map_err(no_answer)?;
        let status = answer.status();
        let body =
            answer.body_mut().with_config().limit(REPORT_LENGTH_MAX).read_to_vec().map_err(no_answer)?;
        if status.is_success() {
            // The step was executed.
            return serde_json::from_slice(&body).map_err(|error| {
                let version = "use the same version as the server";
                StepFailure::Unknown(format!("unknown response of '{}': {error}; {version}", self.node))
            });
        }
        Err(match serde_json::from_slice::<Refused>(&body) {
            Ok(refused) if matches!(status.as_u16(), 401 | 403 | 429) => {
                StepFailure::Refused(self.denied(status.as_u16(), &refused.error))
            }
            Ok(Refused { error, kind }) => match kind {
                RefusalKind::WrongUse | RefusalKind::NotFound | RefusalKind::Invalid => {
                    StepFailure::Refused(error)
                }
                RefusalKind::Failed => StepFailure::Failed(error),
                RefusalKind::Unknown => StepFailure::Unknown(error),
            },
            Err(_) => {
                let reason = format!("'{}' answers {status}: {}", self.node, String::from_utf8_lossy(&body));
                if status.is_client_error() {
                    StepFailure::Refused(reason)
                } else {
                    StepFailure::Unknown(reason)
                }
            }
        })
    }

    fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.authorization {
            Some(value) => request.header("Authorization", value),
            None => request,
        }
    }

    fn read<T: DeserializeOwned>(
        &self,
        answer: std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<T> {
        let unreachable = |error: ureq::Error| {
            let cause = match &error {
                ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                    "ConnectException: 'Connection refused'.".to_owned()
                }
                error => self.explain(error),
            };
            Failure::Unreachable(format!("Failed to connect to '{}' - {cause}", self.node))
        };
        let mut answer = answer.map_err(unreachable)?;
        let is_done = answer.status().is_success();
        let body =
            answer.body_mut().with_config().limit(REPORT_LENGTH_MAX).read_to_vec().map_err(unreachable)?;
        if is_done {
            return serde_json::from_slice(&body).map_err(|error| {
                Failure::Error(format!(
                    "unknown response of '{}': {error}; use the same version as the server",
                    self.node
                ))
            });
        }
        let status = answer.status().as_u16();
        Err(match serde_json::from_slice::<Refused>(&body) {
            Ok(refused) if matches!(status, 401 | 403 | 429) => {
                Failure::Unreachable(self.denied(status, &refused.error))
            }
            Ok(refused) => refused.into(),
            Err(_) => {
                let said = String::from_utf8_lossy(&body);
                Failure::Error(format!("'{}' answers {}: {said}", self.node, answer.status()))
            }
        })
    }
}

impl Client {
    /// Describes a failure of the connection.
    fn explain(&self, error: &ureq::Error) -> String {
        if let Some(cause) = cassette_tls::explain_ureq(error) {
            let authority = cause.contains("unknown authority").then_some(" (--tls-ca)");
            let certificate = cause.contains("certificate of the client").then_some(" (--tls-certificate)");
            return cause + authority.or(certificate).unwrap_or_default();
        }
        // A server with TLS closes a connection that begins without, after an alert that is no
        // response.
        let is_no_http = matches!(error, ureq::Error::Protocol(_))
            || matches!(error, ureq::Error::Io(error) if matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
            ));
        if is_no_http && self.scheme == "http" {
            return format!("{error}; does the node use TLS at this port? Then specify --tls-ca");
        }
        error.to_string()
    }

    /// Describes why the node denies access.
    fn denied(&self, status: u16, error: &str) -> String {
        let advice = match (status, &self.authorization) {
            (401, None) => ": specify --username and --password-file, or --token-file",
            _ => "",
        };
        format!("'{}' denies access: {error}{advice}", self.node)
    }
}

impl From<Refused> for Failure {
    fn from(Refused { error, kind }: Refused) -> Self {
        match kind {
            RefusalKind::WrongUse => Self::Usage(error),
            RefusalKind::NotFound => Self::NotFound(error),
            RefusalKind::Invalid | RefusalKind::Failed | RefusalKind::Unknown => Self::Error(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_rejection_determines_its_format() {
        let error = || "Keyspace [ks] does not exist.".to_owned();
        for (kind, expected) in [
            ("wrong_use", Failure::Usage(error())),
            ("not_found", Failure::NotFound(error())),
            ("invalid", Failure::Error(error())),
            ("failed", Failure::Error(error())),
            ("unknown", Failure::Error(error())),
        ] {
            let body = format!("{{\"error\":\"{}\",\"kind\":\"{kind}\"}}", error());
            let refused: Refused = serde_json::from_str(&body).unwrap();
            assert_eq!(Failure::from(refused), expected, "{kind}");
        }
    }
}
