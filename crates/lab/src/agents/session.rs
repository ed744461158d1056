//! An agent's side of a connection.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError, mpsc};
use std::time::{Duration, Instant};

use super::PROTOCOL;
use super::host::Shared;
use super::job::Job;
use super::link::Link;
use super::message::{
    AgentInfo, Finished, FromAgent, JOB_LENGTH_MAX, OBSERVES_ONLY, Side, ToAgent, challenge, version_conflict,
};
use crate::recording::{LiveCounts, LiveSender, RecordParts};
use crate::results::{Machine, MachineUse, ProcessReport, ProcessUse, disturbance};
use crate::run::{Control, HeldStart};

/// Maximum time of a driver to prove that it has the token.
const GREETING_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a refused peer may take to read why.
const LINGER: Duration = Duration::from_secs(1);
/// How long the machine is watched when a driver connects.
const BUSY_SAMPLE: Duration = Duration::from_millis(200);
/// Interval between reports of the progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// Maximum time until an event in this process is noticed.
const CHECK_EVERY: Duration = Duration::from_millis(20);
/// How far the start of a phase may lie ahead, and behind, before the clock must have been set.
const START_AHEAD_MAX: Duration = Duration::from_secs(60);
const START_LATE_MAX: Duration = Duration::from_secs(1);

/// Serves a peer until it closes the connection. Returns why it was refused, if it was.
pub(super) fn serve(shared: &Shared, link: &mut Link, peer: &str) -> io::Result<Option<String>> {
    let refused = |link: &mut Link, reason: String| -> io::Result<Option<String>> {
        link.send(&FromAgent::Refused { reason: reason.clone() })?;
        link.linger(LINGER);
        Ok(Some(reason))
    };
    let own_challenge = challenge();
    link.send(&FromAgent::Greeting {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        challenge: own_challenge.clone(),
    })?;
    let hello = match link.receive(Instant::now() + GREETING_TIME_MAX) {
        Ok(Some(hello)) => hello,
        Ok(None) => return refused(link, "no proof of the token in time".to_owned()),
        Err(error) => return refused(link, error.to_string()),
    };
    let ToAgent::Hello { protocol, version, challenge, proof } = hello else {
        return refused(link, "expected a proof of the token first".to_owned());
    };
    // Versions are compared after the token, so that only drivers learn more than the greeting.
    if !Side::Driver.verifies(&shared.settings.token, &own_challenge, &challenge, &proof) {
        return refused(link, "the driver's token is not the agent's".to_owned());
    }
    if let Some(conflict) = version_conflict(protocol, &version) {
        return refused(link, conflict);
    }
    let _driving = match shared.driver.try_lock() {
        Ok(driving) => driving,
        // Nothing of an earlier driver is used again.
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return refused(link, "another driver uses the agent".to_owned()),
    };
    shared.log(&format!("driver {peer} connected"));
    link.set_line_length_max(JOB_LENGTH_MAX);
    let info = AgentInfo {
        name: shared.name.clone(),
        machine: Machine::this(),
        load: disturbance::others_now(BUSY_SAMPLE),
        observes: shared.settings.observes,
    };
    let proof = Side::Agent.proof(&shared.settings.token, &own_challenge, &challenge);
    link.send(&FromAgent::Welcome { proof, info: Box::new(info) })?;
    let ended = jobs(shared, link);
    shared.log(&match &ended {
        Ok(()) => format!("driver {peer} left"),
        Err(error) => format!("driver {peer} left: {error}"),
    });
    Ok(None)
}

/// Executes the driver's messages until it closes the connection.
fn jobs(shared: &Shared, link: &mut Link) -> io::Result<()> {
    loop {
        let message = match link.receive(Instant::now() + Duration::from_secs(60)) {
            Ok(None) => continue,
            Ok(Some(message)) => message,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => {
                // The driver reads why, if it still reads.
                let _ = link.send(&FromAgent::Refused { reason: error.to_string() });
                link.linger(LINGER);
                return Err(error);
            }
        };
        match message {
            ToAgent::Clock => link.send(&FromAgent::Clock { now_us: shared.settings.clock.now_micros() })?,
            ToAgent::Observe => link.send(&observed(shared))?,
            ToAgent::Job(job) => {
                let answer = match permitted(shared, &job) {
                    Ok(()) => execute(shared, link, &job)?,
                    Err(reason) => FromAgent::Failed { reason },
                };
                shared.log(&match &answer {
                    FromAgent::Finished(finished) => format!(
                        "{}: {} operations, {} failed{}",
                        job.phase,
                        finished.records.operations(),
                        finished.records.failed(),
                        finished.stopped.as_ref().map(|why| format!("; stopped: {why}")).unwrap_or_default()
                    ),
                    FromAgent::Failed { reason } => format!("{}: {reason}", job.phase),
                    _ => String::new(),
                });
                link.send(&answer)?;
            }
            // Crosses the end of the phase that it was to stop.
            ToAgent::Stop { .. } => {}
            ToAgent::Hello { .. } | ToAgent::Start { .. } => {
                return Err(io::Error::other("a message that starts nothing"));
            }
        }
    }
}

/// Checks a job. An agent beside a server executes none: its token must not permit more.
fn permitted(shared: &Shared, job: &Job) -> Result<(), String> {
    if shared.settings.observes.is_some() {
        return Err(OBSERVES_ONLY.to_owned());
    }
    job.check()
}

/// Returns what the observed process has used.
fn observed(shared: &Shared) -> FromAgent {
    let Some(pid) = shared.settings.observes else {
        return FromAgent::Failed { reason: "it observes no process: start it with --observe".to_owned() };
    };
    match ProcessUse::of(pid) {
        Ok(usage) => FromAgent::Observed { usage },
        Err(error) => FromAgent::Failed { reason: error.to_string() },
    }
}

/// Executes a job, and reports its progress meanwhile. Returns the result.
///
/// # Errors
/// If the connection breaks: the workers then end.
fn execute(shared: &Shared, link: &mut Link, job: &Job) -> io::Result<FromAgent> {
    let live: Vec<Arc<LiveCounts>> = (0..job.workers).map(|_| Arc::default()).collect();
    let (ready, is_ready) = mpsc::channel();
    let (start, starts) = mpsc::channel();
    let control = Arc::new(Control::held(HeldStart { ready, start: Mutex::new(starts) }));
    let rss_bytes_max = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let result = finished(shared, job, &control, &live);
            result.map(|mut finished| {
                let peak = rss_bytes_max.load(Ordering::Relaxed);
                finished.process.rss_bytes_max = finished.process.rss_bytes_max.max(peak);
                FromAgent::Finished(Box::new(finished))
            })
        });
        let mut start = Some(start);
        let mut sender = LiveSender::default();
        let mut progress_at = Instant::now();
        let mut serve = || -> io::Result<()> {
            if is_ready.try_recv().is_ok() {
                link.send(&FromAgent::Ready)?;
            }
            if Instant::now() >= progress_at {
                progress_at = Instant::now() + PROGRESS_EVERY;
                link.send(&FromAgent::Progress(sender.next(live.iter().map(Arc::as_ref))))?;
                if let Ok(now) = ProcessUse::of(std::process::id()) {
                    rss_bytes_max.fetch_max(now.rss_bytes, Ordering::Relaxed);
                }
            }
            match link.receive(Instant::now() + CHECK_EVERY)? {
                None => {}
                Some(ToAgent::Stop { reason }) => {
                    control.stop(reason);
                    start = None;
                }
                Some(ToAgent::Start { at_us }) => {
                    let now_us = shared.settings.clock.now_micros();
                    match (start_after(at_us, now_us), start.take()) {
                        // The receiver is gone if the workers could not connect.
                        (Ok(after), Some(start)) => {
                            let _ = start.send(Instant::now() + after);
                        }
                        (Ok(_), None) => return Err(io::Error::other("a second start")),
                        (Err(reason), _) => control.stop(reason),
                    }
                }
                Some(_) => return Err(io::Error::other("a message that does not belong to a phase")),
            }
            Ok(())
        };
        let mut ended = Ok(());
        while ended.is_ok() && !work.is_finished() {
            ended = serve();
        }
        if let Err(error) = &ended {
            control.stop(format!("the driver is gone: {error}"));
        }
        drop(start);
        let result = work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended?;
        link.send(&FromAgent::Progress(sender.next(live.iter().map(Arc::as_ref))))?;
        Ok(result.unwrap_or_else(|reason| FromAgent::Failed { reason }))
    })
}

/// Returns how long to wait for a start, in the agent's time.
fn start_after(at_us: i64, now_us: i64) -> Result<Duration, String> {
    let ahead_us = at_us.saturating_sub(now_us);
    let after = Duration::from_micros(ahead_us.max(0).unsigned_abs());
    let late = Duration::from_micros(ahead_us.min(0).unsigned_abs());
    if after > START_AHEAD_MAX || late > START_LATE_MAX {
        return Err(format!(
            "the start is {} ms away by the agent's clock: was it set during the run?",
            ahead_us / 1000
        ));
    }
    Ok(after)
}

/// Executes the operations of a job and returns its results.
fn finished(
    shared: &Shared,
    job: &Job,
    control: &Arc<Control>,
    live: &[Arc<LiveCounts>],
) -> Result<Finished, String> {
    let prepared = job.prepare(&shared.settings.login)?;
    let pid = std::process::id();
    let before = ProcessUse::of(pid).map_err(|error| error.to_string())?;
    let machine = MachineUse::now();
    let (executed, new_keys) = prepared.run(job, control, live)?;
    let after = ProcessUse::of(pid).map_err(|error| error.to_string())?;
    let operations = executed.recorder.operations;
    Ok(Finished {
        records: RecordParts::from(&executed.recorder),
        seconds: executed.time.as_secs_f64(),
        new_keys,
        process: ProcessReport::between("laboratory", pid, (&before, &after), operations),
        // A server may run on the agent's machine, whose process is not known.
        disturbance: machine.zip(MachineUse::now()).map(|(before, now)| now.since(&before, None)),
        stopped: control.reason(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_only_a_changed_clock_explains_is_refused() {
        let now = 1_700_000_000_000_000;
        assert_eq!(start_after(now + 250_000, now), Ok(Duration::from_millis(250)));
        assert_eq!(start_after(now - 900_000, now), Ok(Duration::ZERO));
        for wrong in [now + 61_000_000, now - 1_100_000, i64::MIN, i64::MAX] {
            assert!(start_after(wrong, now).unwrap_err().contains("was it set"), "{wrong}");
        }
    }
}
