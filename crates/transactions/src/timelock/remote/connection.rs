//! Finds the leader, and sends it requests until it responds or time is up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cassette_tls::secret::Token;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RemoteOptions;
use crate::timelock::TimeLockError;
use crate::timelock::messages::{Refusal, RefusalKind};

/// Maximum length of a response, bytes.
const ANSWER_LENGTH_MAX: u64 = 1 << 20;
/// Pause between two attempts when no server leads.
const PAUSE: Duration = Duration::from_millis(50);
/// Attempts at a leader that cannot serve now before another server is tried.
const TRIES_OF_ONE: u32 = 4;
/// How long a server may take for requests that do not wait for locks.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long an idle connection is kept: less than on the server, so that the server does not close
/// it while a request is in flight.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(15);
/// Maximum number of idle connections, one per thread that waits for locks.
const CONNECTIONS_KEPT_MAX: usize = 64;

/// The servers of one store's timestamps.
pub(super) struct Servers {
    agent: ureq::Agent,
    addresses: Vec<String>,
    /// A leader named by a server, maybe by an address that is not configured.
    named: Mutex<Option<String>>,
    /// Index of the server tried last.
    current: AtomicUsize,
    timeout: Duration,
    scheme: &'static str,
    /// Value of the header `Authorization`.
    authorization: Option<String>,
}

/// How a request is repeated when its response is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Each attempt has a greater number than the one before.
    Renumbered,
    /// All attempts are equal.
    Same,
}

/// Failure of one attempt.
enum Failed {
    Refused(Refusal),
    /// No valid response: the request may have been executed or not.
    Lost(String),
}

impl Servers {
    pub fn new(options: &RemoteOptions) -> Self {
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections(CONNECTIONS_KEPT_MAX)
            .max_idle_connections_per_host(CONNECTIONS_KEPT_MAX)
            .max_idle_age(CONNECTION_AGE_MAX)
            .timeout_connect(Some(Duration::from_secs(1)));
        if let Some(tls) = &options.tls {
            config = config.tls_config(tls.ureq().clone());
        }
        Self {
            agent: config.build().into(),
            addresses: options.servers.clone(),
            named: Mutex::default(),
            current: AtomicUsize::new(0),
            timeout: options.timeout,
            scheme: if options.tls.is_some() { "https" } else { "http" },
            authorization: options.token.as_ref().map(Token::header),
        }
    }

    /// Returns the address of the current server.
    pub fn current(&self) -> String {
        if let Some(named) = &*self.named.lock() {
            return named.clone();
        }
        let index = self.current.load(Ordering::Relaxed);
        match self.addresses.len() {
            0 => "no server".to_owned(),
            count => self.addresses[index % count].clone(),
        }
    }

    /// Continues with the next server, or with the named leader.
    fn switch_server(&self, leader: Option<String>, queries: &str) {
        let mut named = self.named.lock();
        match leader.filter(|leader| leader != queries) {
            Some(leader) => *named = Some(leader),
            None => {
                *named = None;
                self.current.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns the error of an invalid response.
    pub fn invalid_response(&self, what: &str) -> TimeLockError {
        let refusal = Refusal::new(RefusalKind::Never, format!("invalid response: {what}"));
        TimeLockError::Refused { server: self.current(), refusal }
    }

    /// Sends a request to the leader, again and again until the timeout. `question` builds the
    /// request of each attempt. The server may take `waits` longer than for requests that it can
    /// serve at once.
    pub fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        repeat: Repeat,
        mut question: impl FnMut(u32) -> Q,
        waits: Duration,
    ) -> Result<A, TimeLockError> {
        let began = Instant::now();
        let deadline = began + self.timeout + waits;
        let mut attempt = 0;
        loop {
            let server = self.current();
            let body = serde_json::to_vec(&question(attempt))
                .map_err(|error| self.invalid_response(&error.to_string()))?;
            let request = self.authorized(self.agent.post(format!("{}://{server}{path}", self.scheme)));
            let request = request.config().timeout_global(Some(ANSWER_MAX + waits)).build();
            let answer = request.header("Content-Type", "application/json").send(&body[..]);
            let last = match read(answer) {
                Ok(answer) => return Ok(answer),
                Err(Failed::Refused(refusal)) => match refusal.kind {
                    RefusalKind::LockTimeout => return Err(TimeLockError::LockTimeout { waited: waits }),
                    RefusalKind::Never | RefusalKind::Usage => {
                        return Err(TimeLockError::Refused { server, refusal });
                    }
                    RefusalKind::NotLeading => {
                        self.switch_server(refusal.leader, &server);
                        format!("{server} {}", refusal.message)
                    }
                    RefusalKind::Ended => match repeat {
                        // A stale duplicate. The next attempt has a greater number.
                        Repeat::Renumbered => format!("{server}: {}", refusal.message),
                        // Every further attempt would be refused for the same reason.
                        Repeat::Same => return Err(TimeLockError::RequestEnded { server }),
                    },
                    RefusalKind::NotNow => {
                        // A server that has lost the store does not know the leader any more.
                        if attempt % TRIES_OF_ONE == TRIES_OF_ONE - 1 {
                            self.switch_server(None, &server);
                        }
                        format!("{server}: {}", refusal.message)
                    }
                },
                Err(Failed::Lost(why)) => {
                    self.switch_server(None, &server);
                    format!("{server}: {why}")
                }
            };
            if Instant::now() + PAUSE >= deadline {
                return Err(TimeLockError::NoLeader { waited: began.elapsed(), last });
            }
            tracing::debug!(attempt, %last, "retrying the request to the timelock servers");
            attempt += 1;
            std::thread::sleep(PAUSE);
        }
    }

    fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.authorization {
            Some(value) => request.header("Authorization", value),
            None => request,
        }
    }

    /// Sends one request to the current server.
    pub fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, TimeLockError> {
        let server = self.current();
        let request = self.authorized(self.agent.get(format!("{}://{server}{path}", self.scheme)));
        let answer = request.config().timeout_global(Some(ANSWER_MAX)).build().call();
        read(answer).map_err(|failed| match failed {
            Failed::Refused(refusal) => TimeLockError::Refused { server, refusal },
            Failed::Lost(why) => {
                TimeLockError::NoLeader { waited: Duration::ZERO, last: format!("{server}: {why}") }
            }
        })
    }
}

fn read<A: DeserializeOwned>(
    answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<A, Failed> {
    let lost = |error: ureq::Error| {
        Failed::Lost(cassette_tls::explain_ureq(&error).unwrap_or_else(|| error.to_string()))
    };
    let mut answer = answer.map_err(lost)?;
    let is_done = answer.status().is_success();
    let body = answer.body_mut().with_config().limit(ANSWER_LENGTH_MAX).read_to_vec().map_err(lost)?;
    if is_done {
        return serde_json::from_slice(&body)
            .map_err(|error| Failed::Lost(format!("invalid response: {error}")));
    }
    match serde_json::from_slice::<Refusal>(&body) {
        Ok(refusal) => Err(Failed::Refused(refusal)),
        Err(_) => {
            let said: String = String::from_utf8_lossy(&body).chars().take(200).collect();
            Err(Failed::Lost(format!("response status {}: {said}", answer.status())))
        }
    }
}
