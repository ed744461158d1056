//! Waits for memory and threads in use by others, for disconnected clients, and for idle ones.

use std::{future::Future, pin::Pin, time::Duration};

use cassette_protocol::Envelope;
use tokio::{
    io::Interest,
    net::TcpStream,
    time::{Instant, Sleep},
};
use tracing::trace;

use super::{authenticating::Judged, execution::Job};
use crate::{ServerConfig, gate::Phase, limits::Charge, threads::ThreadPermit};

/// How often a connection that is not read from checks whether its client has disconnected.
const GONE_INTERVAL: Duration = Duration::from_millis(500);

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The resource that the next request of a connection waits for. Until it is granted, nothing more
/// is read.
pub(super) enum Waiting {
    /// Memory for a message, with its length of input.
    Memory(BoxFuture<Charge>, usize),
    /// Memory and a thread for a job.
    Thread(BoxFuture<(Charge, ThreadPermit)>, Option<Box<Job>>),
    /// The evaluation of a token.
    Authentication(BoxFuture<Judged>),
    /// The end of a stall; with the request that was held, and the charge of its memory.
    Gate(BoxFuture<Phase>, Option<(Envelope, Option<Charge>)>),
}

/// A granted resource.
pub(super) enum Granted {
    Memory(Charge, usize),
    Thread(Charge, ThreadPermit, Box<Job>),
    Authentication(Judged),
    Gate(Phase, Envelope, Option<Charge>),
}

impl Waiting {
    pub fn memory(charge: impl Future<Output = Charge> + Send + 'static, input: usize) -> Self {
        Self::Memory(Box::pin(charge), input)
    }

    pub fn thread(
        granted: impl Future<Output = (Charge, ThreadPermit)> + Send + 'static,
        job: Box<Job>,
    ) -> Self {
        Self::Thread(Box::pin(granted), Some(job))
    }

    pub fn gate(
        decided: impl Future<Output = Phase> + Send + 'static,
        request: Envelope,
        charge: Option<Charge>,
    ) -> Self {
        Self::Gate(Box::pin(decided), Some((request, charge)))
    }

    pub fn authentication(judged: impl Future<Output = Judged> + Send + 'static) -> Self {
        Self::Authentication(Box::pin(judged))
    }
}

/// Waits until the resource of `waiting` is granted; forever without one.
pub(super) async fn granted(waiting: &mut Option<Waiting>) -> Granted {
    let granted = match waiting {
        None => return std::future::pending().await,
        Some(Waiting::Memory(charge, input)) => Granted::Memory(charge.await, *input),
        Some(Waiting::Thread(granted, job)) => {
            let (charge, thread) = granted.await;
            // The job is present until this completes, once.
            let Some(job) = job.take() else { return std::future::pending().await };
            Granted::Thread(charge, thread, job)
        }
        Some(Waiting::Authentication(judged)) => Granted::Authentication(judged.await),
        Some(Waiting::Gate(decided, held)) => {
            let phase = decided.await;
            // Present until this completes, once.
            let Some((request, charge)) = held.take() else { return std::future::pending().await };
            Granted::Gate(phase, request, charge)
        }
    };
    *waiting = None;
    granted
}

/// Lets the kernel acknowledge a part of a message at once. A client that writes a message in
/// several pieces without TCP_NODELAY, such as DataStax's Python driver one of over 4 KiB, sends
/// the rest only after that, which the kernel would delay by up to 40 ms.
pub(super) fn acknowledge(stream: &TcpStream) {
    // Linux resets the option by itself, so it is set for each part.
    #[cfg(target_os = "linux")]
    if let Err(error) = stream.set_quickack(true) {
        trace!("cannot set TCP_QUICKACK: {error}");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

/// Waits until the client has closed its side, while nothing is read from it.
pub(super) async fn closed_by_peer(stream: &TcpStream) {
    loop {
        tokio::time::sleep(GONE_INTERVAL).await;
        // Unread input makes it ready at once; the kind of readiness shows whether the end follows.
        let ready = stream.ready(Interest::READABLE);
        if let Ok(Ok(ready)) = tokio::time::timeout(Duration::ZERO, ready).await
            && ready.is_read_closed()
        {
            trace!("the client has gone");
            return;
        }
    }
}

/// How long a connection keeps the memory of a long answer for the next one.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// Waits until a connection that `holds` memory for output has been idle for a while; forever if
/// it does not.
pub(super) async fn idle(holds: bool) {
    if !holds {
        return std::future::pending().await;
    }
    // Boxed: few connections need the room of a timer.
    Box::pin(tokio::time::sleep(KEPT_FOR)).await;
}

/// The timeouts of idle clients: during the handshake, and then `native_transport_idle_timeout`.
pub(super) struct Watchdog {
    sleep: Option<Pin<Box<Sleep>>>,
    last_activity: Instant,
    is_let_in: bool,
    idle_timeout: Option<Duration>,
}

impl Watchdog {
    pub fn new(config: &ServerConfig) -> Self {
        let now = Instant::now();
        Self {
            sleep: Some(Box::pin(tokio::time::sleep_until(now + config.handshake_timeout))),
            last_activity: now,
            is_let_in: false,
            idle_timeout: config.idle_timeout,
        }
    }

    /// Records the end of the handshake.
    pub fn let_in(&mut self) {
        if !self.is_let_in {
            self.is_let_in = true;
            self.last_activity = Instant::now();
            let idle = self.idle_timeout.map(|timeout| self.last_activity + timeout);
            self.sleep = idle.map(|until| Box::pin(tokio::time::sleep_until(until)));
        }
    }

    /// Records activity of the client.
    #[inline]
    pub fn pat(&mut self) {
        if self.idle_timeout.is_some() {
            self.last_activity = Instant::now();
        }
    }

    /// Waits until a timeout, and returns its description.
    pub async fn barks(&mut self) -> &'static str {
        let Some(sleep) = &mut self.sleep else { return std::future::pending().await };
        loop {
            sleep.as_mut().await;
            if !self.is_let_in {
                return "until it was let in";
            }
            let Some(timeout) = self.idle_timeout else { return std::future::pending().await };
            let until = self.last_activity + timeout;
            if until <= Instant::now() {
                return "to send another request";
            }
            sleep.as_mut().reset(until);
        }
    }
}
