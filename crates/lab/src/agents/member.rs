//! The driver's connection to an agent.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use cassette_tls::secret::Token;
use cassette_vfs::Clock;

use super::PROTOCOL;
use super::clock::Difference;
use super::job::Job;
use super::link::Link;
use super::message::{
    AgentInfo, Finished, FromAgent, GREETING_LENGTH_MAX, RECORDS_LENGTH_MAX, Side, ToAgent, challenge,
    reason, version_conflict,
};
use crate::LabError;
use crate::format::printable;
use crate::recording::LiveCounts;
use crate::results::{AgentReport, Machine, ProcessUse};
use crate::run::Control;

/// Maximum time of an agent to accept a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum time without a message of an agent that owes one: it reports its progress several times
/// a second.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Maximum time of an agent to connect to the servers and prepare the statements.
const READY_TIME_MAX: Duration = Duration::from_secs(300);
/// Maximum time of an agent to read the usage of the observed process.
const OBSERVATION_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum time of an agent to end a phase: its workers wait for the responses to their requests.
const STOP_TIME_MAX: Duration = Duration::from_secs(120);
/// The maximum number of bytes or threads of a process: sums over processes do not overflow.
const COUNT_MAX: u64 = 1 << 53;
/// The maximum length of the names of an agent's machine.
const NAME_LENGTH_MAX: usize = 100;
/// Maximum time until an event in this process is noticed.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// A connected agent.
#[derive(Debug)]
pub(super) struct Member {
    pub address: String,
    pub info: AgentInfo,
    link: Link,
    /// Number of observations that it has not sent yet.
    owed: usize,
}

impl Member {
    /// Connects to the agent at an address with a port; both prove that they have the token.
    pub fn connect(address: &str, token: &Token) -> io::Result<Self> {
        let mut stream = Err(io::Error::other("the name has no address"));
        for address in address.to_socket_addrs()? {
            stream = TcpStream::connect_timeout(&address, CONNECT_TIME_MAX);
            if stream.is_ok() {
                break;
            }
        }
        let mut link = Link::new(stream?, GREETING_LENGTH_MAX)?;
        let (agent_challenge, own_challenge) = match next(&mut link)? {
            FromAgent::Greeting { protocol, version, challenge: agent_challenge } => {
                if let Some(conflict) = version_conflict(protocol, &version) {
                    return Err(io::Error::other(conflict));
                }
                (agent_challenge, challenge())
            }
            other => return Err(unexpected(other)),
        };
        link.send(&ToAgent::Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            challenge: own_challenge.clone(),
            proof: Side::Driver.proof(token, &agent_challenge, &own_challenge),
        })?;
        match next(&mut link)? {
            FromAgent::Welcome { proof, info } => {
                if !Side::Agent.verifies(token, &agent_challenge, &own_challenge, &proof) {
                    return Err(io::Error::other("the agent's token is not the driver's"));
                }
                link.set_line_length_max(RECORDS_LENGTH_MAX);
                let mut info = *info;
                let Machine { processor, processors, system, .. } = &mut info.machine;
                for text in [&mut info.name, processor, system] {
                    *text = printable(text, NAME_LENGTH_MAX);
                }
                *processors = (*processors).max(1);
                Ok(Self { address: address.to_owned(), info, link, owed: 0 })
            }
            other => Err(unexpected(other)),
        }
    }

    pub fn error(&self, attempt: &str, error: impl std::fmt::Display) -> LabError {
        LabError::engine(&format!("agent {}", self.address), attempt, error)
    }

    /// Compares the clocks.
    pub fn compared_clock(&mut self, clock: &dyn Clock) -> Result<Difference, LabError> {
        let link = &mut self.link;
        let measured = Difference::measure(clock, || {
            link.send(&ToAgent::Clock)?;
            match next(link)? {
                FromAgent::Clock { now_us } => Ok(now_us),
                other => Err(unexpected(other)),
            }
        });
        let difference = measured.map_err(|error| self.error("clock", error))?;
        difference.check().map_err(|error| self.error("clock", error))?;
        Ok(difference)
    }

    /// Returns what the observed process has used. A late answer does not end the connection.
    pub fn observe(&mut self) -> io::Result<ProcessUse> {
        self.observe_until(Instant::now() + OBSERVATION_TIME_MAX)
    }

    fn observe_until(&mut self, until: Instant) -> io::Result<ProcessUse> {
        self.link.send(&ToAgent::Observe)?;
        self.owed += 1;
        loop {
            let answer = self.link.receive(until)?.ok_or_else(|| silent(OBSERVATION_TIME_MAX))?;
            self.owed -= 1;
            match answer {
                // That of an earlier call, which did not wait for it.
                FromAgent::Observed { .. } if self.owed > 0 => {}
                FromAgent::Observed { usage } => return plausible(usage),
                other => return Err(unexpected(other)),
            }
        }
    }

    /// Gives the agent its share of a phase.
    pub fn send_job(&mut self, job: &Job) -> io::Result<()> {
        self.link.send(&ToAgent::Job(Box::new(job.clone())))
    }

    /// Waits until the agent's workers have connected and prepared their statements.
    pub fn wait_until_ready(&mut self) -> io::Result<()> {
        let until = Instant::now() + READY_TIME_MAX;
        loop {
            if Instant::now() > until {
                let text = format!("not ready within {} s", READY_TIME_MAX.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            match next(&mut self.link)? {
                FromAgent::Progress(_) => {}
                FromAgent::Ready => return Ok(()),
                other => return Err(unexpected(other)),
            }
        }
    }

    /// Starts the agent's workers and counts their progress in `live` until they have finished.
    pub fn follow(&mut self, at_us: i64, control: &Control, live: &LiveCounts) -> io::Result<Finished> {
        self.link.send(&ToAgent::Start { at_us })?;
        let started = Instant::now();
        let mut stopped_at: Option<Instant> = None;
        loop {
            if stopped_at.is_none() && control.stopped() {
                stopped_at = Some(Instant::now());
                let reason = control.reason().unwrap_or_default();
                self.link.send(&ToAgent::Stop { reason })?;
            }
            if stopped_at.is_some_and(|at| at.elapsed() > STOP_TIME_MAX) {
                let text = format!("still at work {} s after it was stopped", STOP_TIME_MAX.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            match self.link.receive(Instant::now() + CHECK_EVERY)? {
                // Records take a while on a slow network, and show that the agent is alive.
                None if self.link.received_at().max(started).elapsed() > SILENCE_MAX => {
                    return Err(silent(SILENCE_MAX));
                }
                None => {}
                Some(FromAgent::Progress(progress)) => live.add(&progress).map_err(io::Error::other)?,
                Some(FromAgent::Finished(mut finished)) => {
                    finished.process.role = "laboratory".to_owned();
                    finished.process.host = Some(self.address.clone());
                    if let Some(text) = &finished.stopped {
                        // The others end, too: the phase would otherwise continue with less load.
                        control.stop(format!("agent {}: {}", self.address, reason(text)));
                    }
                    return Ok(*finished);
                }
                Some(other) => return Err(unexpected(other)),
            }
        }
    }

    /// Reports its share of a phase.
    pub fn report(&self, job: &Job, difference: Difference, share: &Finished) -> AgentReport {
        AgentReport {
            name: self.info.name.clone(),
            address: self.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: self.info.machine.clone(),
            load: self.info.load,
            clock_ahead_ms: difference.ahead_us as f64 / 1e3,
            clock_uncertainty_ms: difference.uncertainty_us as f64 / 1e3,
            in_flight: job.in_flight,
            operations: share.records.operations(),
            failed: share.records.failed(),
            seconds: share.seconds,
            process: share.process.clone(),
            disturbance: share.disturbance,
        }
    }
}

/// Receives the next message of an agent that owes one.
fn next(link: &mut Link) -> io::Result<FromAgent> {
    link.receive(Instant::now() + SILENCE_MAX)?.ok_or_else(|| silent(SILENCE_MAX))
}

fn silent(time: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no message for {} s", time.as_secs()))
}

/// Refuses usage that no process can have.
fn plausible(usage: ProcessUse) -> io::Result<ProcessUse> {
    let ProcessUse { rss_bytes, threads, open_files, written_bytes, read_bytes, .. } = usage;
    let counts = [Some(rss_bytes), Some(threads), open_files, written_bytes, read_bytes];
    if counts.into_iter().flatten().any(|count| count > COUNT_MAX) {
        return Err(io::Error::other("a process with more bytes or threads than a machine has"));
    }
    Ok(usage)
}

/// Returns the error for a message out of place, which is the reason of a refusal or failure.
fn unexpected(message: FromAgent) -> io::Error {
    io::Error::other(match message {
        FromAgent::Refused { reason: text } | FromAgent::Failed { reason: text } => reason(&text),
        _ => "a message out of place".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_observation_that_comes_late_is_not_taken_for_the_next_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut agent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let link = Link::new(listener.accept().unwrap().0, GREETING_LENGTH_MAX).unwrap();
        let (name, machine) = ("db".to_owned(), Machine::this());
        let info = AgentInfo { name, machine, load: None, observes: Some(7) };
        let mut member = Member { address: "db:7299".into(), info, link, owed: 0 };
        let mut answer = |usage: ProcessUse| {
            let mut line = serde_json::to_vec(&FromAgent::Observed { usage }).unwrap();
            line.push(b'\n');
            agent.write_all(&line).unwrap();
        };
        let with_threads = |threads| ProcessUse { threads, ..ProcessUse::default() };
        let late = member.observe_until(Instant::now()).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        for threads in 1..4 {
            answer(with_threads(threads));
        }
        assert_eq!([2, 3].map(|_| member.observe().unwrap().threads), [2, 3]);
        answer(with_threads(u64::MAX));
        assert!(member.observe().unwrap_err().to_string().contains("more bytes or threads"));
    }
}
