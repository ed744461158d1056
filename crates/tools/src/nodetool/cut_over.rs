//! The client of a move that controls the source's server.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cassette_admin_api::{CutOverAnswer, CutOverRequest};
use cassette_tls::ClientTls;

use super::Failure;
use super::client::Client;
use super::connection::Connection;

/// Time for a step that waits for requests in execution: longer than the server's own limits. A
/// point takes at most a minute; a stall takes at most half a minute, after at most a minute for
/// the check of the target.
const WAITING_STEP_MAX: Duration = Duration::from_secs(120);
/// Time for other steps.
const STEP_MAX: Duration = Duration::from_secs(30);

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepFailure {
    /// The server refused it, and would do so again.
    Refused(String),
    /// The server did not complete it; another attempt may succeed.
    Failed(String),
    /// No response, or one that says so: the server may or may not have executed it.
    Unknown(String),
}

/// The admin endpoint of a server that a move controls.
pub struct CutOverClient(Client);

impl CutOverClient {
    /// Creates a client of `host:port`, or of the Unix socket `unix:PATH`, without connecting.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn new(
        address: &str,
        credentials: Option<(&str, &str)>,
        tls: Option<ClientTls>,
    ) -> Result<Self, String> {
        let authorization = credentials
            .map(|(user, password)| format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))));
        let socket = address.strip_prefix("unix:").map(PathBuf::from);
        let (host, port) = match &socket {
            Some(_) => ("localhost", "0"),
            None => address.rsplit_once(':').ok_or_else(|| format!("expected HOST:PORT, found {address}"))?,
        };
        let connection = Connection { authorization, tls, socket };
        let client = Client::new(host.trim_matches(['[', ']']), port, connection);
        client.map(Self).map_err(text)
    }

    /// Executes a step, and waits until it is complete.
    ///
    /// # Errors
    /// If the server refuses it, fails, or does not respond in time.
    pub fn perform(&self, request: &CutOverRequest) -> Result<CutOverAnswer, StepFailure> {
        let time_max = match request {
            CutOverRequest::Point | CutOverRequest::Check { .. } | CutOverRequest::Stall { .. } => {
                WAITING_STEP_MAX
            }
            CutOverRequest::Release { .. } | CutOverRequest::Forward { .. } => STEP_MAX,
        };
        self.0.cut_over(request, time_max)
    }
}

fn text(failure: Failure) -> String {
    match failure {
        Failure::Usage(text)
        | Failure::Said(text)
        | Failure::NotFound(text)
        | Failure::Unreachable(text)
        | Failure::Error(text) => text,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Performs a step at a server that answers with `answer`, or not at all.
    fn failure(answer: Option<&str>) -> StepFailure {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = CutOverClient::new(&listener.local_addr().unwrap().to_string(), None, None).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let mut received = stream.read(&mut request).unwrap();
                while !request[..received].ends_with(b"}") {
                    received += stream.read(&mut request[received..]).unwrap();
                }
                if let Some(answer) = answer {
                    write!(stream, "HTTP/1.1 {answer}").unwrap();
                    return;
                }
                // Until the client gives up.
                while stream.read(&mut request).unwrap_or(0) > 0 {}
            });
            client.0.cut_over(&CutOverRequest::Forward { stall: 7 }, Duration::from_millis(200)).unwrap_err()
        })
    }

    fn response(status: &str, body: &str) -> String {
        format!("{status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    #[test]
    fn a_step_without_a_response_is_unknown_and_the_error_states_the_time() {
        let StepFailure::Unknown(reason) = failure(None) else { panic!("a request that was sent") };
        assert!(reason.ends_with("no response within 200ms"), "{reason}");
        for answer in ["200 OK\r\nContent-Length: 10\r\n\r\n{", "", "200 OK\r\nContent-Length: 2\r\n\r\nno"] {
            assert!(matches!(failure(Some(answer)), StepFailure::Unknown(_)), "{answer:?}");
        }
    }

    #[test]
    fn a_unix_socket_has_the_same_timeout() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("admin");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let client = CutOverClient::new(&format!("unix:{}", path.display()), None, None).unwrap();
        let failed = client.0.cut_over(&CutOverRequest::Forward { stall: 7 }, Duration::from_millis(200));
        let Err(StepFailure::Unknown(reason)) = failed else { panic!("{failed:?}") };
        assert!(reason.ends_with("no response within 200ms"), "{reason}");
    }

    #[test]
    fn only_a_refusal_shows_that_a_step_has_no_effect() {
        let refused = |kind: &str| format!("{{\"error\":\"why\",\"kind\":\"{kind}\"}}");
        let why = || "why".to_owned();
        for (status, kind, expected) in [
            ("400 Bad Request", "invalid", StepFailure::Refused(why())),
            ("400 Bad Request", "wrong_use", StepFailure::Refused(why())),
            ("500 Internal Server Error", "failed", StepFailure::Failed(why())),
            ("500 Internal Server Error", "unknown", StepFailure::Unknown(why())),
        ] {
            assert_eq!(failure(Some(&response(status, &refused(kind)))), expected, "{kind}");
        }
        let denied = failure(Some(&response("401 Unauthorized", &refused("invalid"))));
        assert!(matches!(denied, StepFailure::Refused(_)));
        let unexpected = failure(Some(&response("422 Unprocessable Entity", "unknown variant")));
        assert!(matches!(unexpected, StepFailure::Refused(_)));
        let gateway = failure(Some(&response("502 Bad Gateway", "no server")));
        assert!(matches!(gateway, StepFailure::Unknown(_)));
    }
}
