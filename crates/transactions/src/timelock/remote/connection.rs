//! Finds the server that leads, and asks it until it answers or time is up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RemoteOptions;
use crate::timelock::TimeLockError;
use crate::timelock::messages::{Refusal, RefusalKind};

/// The longest answer that is read, bytes.
const ANSWER_LENGTH_MAX: u64 = 1 << 20;
/// Between two tries, when nobody leads.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a server that leads but does not answer now is asked before another is.
const TRIES_OF_ONE: u32 = 4;
/// How long a server may take for what does not wait.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long a connection is kept without a request: less than the server does, so that it is not
/// closed while a request is on its way.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(15);
/// Connections that are kept, one for each thread that waits for locks at a time.
const CONNECTIONS_KEPT_MAX: usize = 64;

/// The servers of one store's timestamps.
pub(super) struct Servers {
    agent: ureq::Agent,
    addresses: Vec<String>,
    /// A leader that a server named, by another address maybe.
    named: Mutex<Option<String>>,
    /// Which was asked last.
    current: AtomicUsize,
    timeout: Duration,
}

/// How a request is repeated when its reply is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Each try has a greater number than the one before.
    Renumbered,
    /// All tries are equal.
    Same,
}

/// What came of one try.
enum Failed {
    Refused(Refusal),
    /// No answer, or none that makes sense: it may be done or not.
    Lost(String),
}

impl Servers {
    pub fn new(options: &RemoteOptions) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_idle_connections(CONNECTIONS_KEPT_MAX)
            .max_idle_connections_per_host(CONNECTIONS_KEPT_MAX)
            .max_idle_age(CONNECTION_AGE_MAX)
            .timeout_connect(Some(Duration::from_secs(1)));
        Self {
            agent: config.build().into(),
            addresses: options.servers.clone(),
            named: Mutex::default(),
            current: AtomicUsize::new(0),
            timeout: options.timeout,
        }
    }

    /// Who is asked now.
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

    /// Who leads was not there: the next, by what is known.
    fn go_on(&self, leader: Option<String>, asked: &str) {
        let mut named = self.named.lock();
        match leader.filter(|leader| leader != asked) {
            Some(leader) => *named = Some(leader),
            None => {
                *named = None;
                self.current.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The error of an answer that is none.
    pub fn nonsense(&self, what: &str) -> TimeLockError {
        let refusal = Refusal::new(RefusalKind::Never, format!("its answer is not understood: {what}"));
        TimeLockError::Refused { server: self.current(), refusal }
    }

    /// Asks whoever leads, again and again until the timeout. Each try's question is `question` of its number. The server may take
    /// `waits` longer than for what it can answer at once.
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
            let body =
                serde_json::to_vec(&question(attempt)).map_err(|error| self.nonsense(&error.to_string()))?;
            let request = self.agent.post(format!("http://{server}{path}"));
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
                        self.go_on(refusal.leader, &server);
                        format!("{server} {}", refusal.message)
                    }
                    RefusalKind::Ended => match repeat {
                        // A late copy. The next try has a greater number.
                        Repeat::Renumbered => format!("{server}: {}", refusal.message),
                        // Every further try would be refused for the same reason.
                        Repeat::Same => return Err(TimeLockError::RequestEnded { server }),
                    },
                    RefusalKind::NotNow => {
                        // One that has lost the store does not know who leads by now.
                        if attempt % TRIES_OF_ONE == TRIES_OF_ONE - 1 {
                            self.go_on(None, &server);
                        }
                        format!("{server}: {}", refusal.message)
                    }
                },
                Err(Failed::Lost(why)) => {
                    self.go_on(None, &server);
                    format!("{server}: {why}")
                }
            };
            if Instant::now() + PAUSE >= deadline {
                return Err(TimeLockError::NoLeader { waited: began.elapsed(), last });
            }
            tracing::debug!(attempt, %last, "a timelock server is asked again");
            attempt += 1;
            std::thread::sleep(PAUSE);
        }
    }

    /// Asks the server once.
    pub fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, TimeLockError> {
        let server = self.current();
        let request = self.agent.get(format!("http://{server}{path}"));
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
    let lost = |error: ureq::Error| Failed::Lost(error.to_string());
    let mut answer = answer.map_err(lost)?;
    let is_done = answer.status().is_success();
    let body = answer.body_mut().with_config().limit(ANSWER_LENGTH_MAX).read_to_vec().map_err(lost)?;
    if is_done {
        return serde_json::from_slice(&body)
            .map_err(|error| Failed::Lost(format!("its answer is none: {error}")));
    }
    match serde_json::from_slice::<Refusal>(&body) {
        Ok(refusal) => Err(Failed::Refused(refusal)),
        Err(_) => {
            let said: String = String::from_utf8_lossy(&body).chars().take(200).collect();
            Err(Failed::Lost(format!("it answers {}: {said}", answer.status())))
        }
    }
}
