//! The client of the admin endpoint.

use cassette_admin_api::{Done, Operation};
use cassette_admin_api::{RefusalKind, Refused};
use serde::de::DeserializeOwned;

use super::{Failure, Result};

/// The maximum length of a report, in bytes.
const REPORT_LENGTH_MAX: u64 = 256 << 20;

/// A node's admin endpoint.
pub(super) struct Client {
    agent: ureq::Agent,
    /// `host:port`.
    node: String,
}

impl Client {
    /// Creates a client of the endpoint at `host` and `port`, without connecting.
    pub fn new(host: &str, port: &str) -> Result<Self> {
        if port.parse::<u16>().is_err() {
            return Err(Failure::usage(format!("{port} is no port number")));
        }
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
        let node = if host.contains(':') {
            format!("[{}]:{port}", host.trim_matches(['[', ']']))
        } else {
            format!("{host}:{port}")
        };
        Ok(Self { agent: config.build().into(), node })
    }

    /// Reads a report.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let answer = self.agent.get(format!("http://{}{path}", self.node)).call();
        self.read(answer)
    }

    /// Executes an operation, and waits until it is complete.
    pub fn operate(&self, operation: &Operation) -> Result<Done> {
        let body = serde_json::to_vec(operation).map_err(|error| Failure::Error(error.to_string()))?;
        let request = self.agent.post(format!("http://{}/v1/operations", self.node));
        let answer = request.header("Content-Type", "application/json").send(&body[..]);
        self.read(answer)
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
                error => format!("{error}"),
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
        Err(match serde_json::from_slice::<Refused>(&body) {
            Ok(refused) => refused.into(),
            Err(_) => {
                let said = String::from_utf8_lossy(&body);
                Failure::Error(format!("'{}' answers {}: {said}", self.node, answer.status()))
            }
        })
    }
}

impl From<Refused> for Failure {
    fn from(Refused { error, kind }: Refused) -> Self {
        match kind {
            RefusalKind::WrongUse => Self::Usage(error),
            RefusalKind::NotFound => Self::NotFound(error),
            RefusalKind::Invalid | RefusalKind::Failed => Self::Error(error),
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
        ] {
            let body = format!("{{\"error\":\"{}\",\"kind\":\"{kind}\"}}", error());
            let refused: Refused = serde_json::from_str(&body).unwrap();
            assert_eq!(Failure::from(refused), expected, "{kind}");
        }
    }
}
