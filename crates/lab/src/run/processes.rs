//! Processes that are sampled during a phase.

use std::sync::{Arc, Mutex, PoisonError};

use crate::LabError;
use crate::results::ProcessReport;
use crate::results::process::ProcessUse;

/// Reads what a process on another machine has used since its start.
type Sample = dyn FnMut() -> Result<ProcessUse, String> + Send;

/// A server's process on another machine.
#[derive(Clone)]
pub struct RemoteServer {
    /// Address of the agent that samples it.
    pub agent: String,
    /// Process id on its machine.
    pub pid: u32,
    sample: Arc<Mutex<Sample>>,
}

impl std::fmt::Debug for RemoteServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteServer")
            .field("agent", &self.agent)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

impl RemoteServer {
    /// Creates a process that `sample` reads.
    pub fn new(
        agent: String,
        pid: u32,
        sample: impl FnMut() -> Result<ProcessUse, String> + Send + 'static,
    ) -> Self {
        Self { agent, pid, sample: Arc::new(Mutex::new(sample)) }
    }

    fn now(&self) -> Result<ProcessUse, LabError> {
        let mut sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = || format!("observe process {}", self.pid);
        sample().map_err(|error| LabError::engine(&format!("agent {}", self.agent), attempt(), error))
    }
}

struct Process {
    role: &'static str,
    pid: u32,
    /// `None`: on this machine.
    remote: Option<RemoteServer>,
    before: ProcessUse,
    latest: ProcessUse,
    rss_bytes_max: u64,
}

impl Process {
    fn new(role: &'static str, pid: u32, remote: Option<RemoteServer>) -> Result<Self, LabError> {
        let none = ProcessUse::default();
        let mut process = Self { role, pid, remote, before: none, latest: none, rss_bytes_max: 0 };
        let now = process.now()?;
        (process.before, process.latest, process.rss_bytes_max) = (now, now, now.rss_bytes);
        Ok(process)
    }

    fn now(&self) -> Result<ProcessUse, LabError> {
        match &self.remote {
            None => ProcessUse::of(self.pid),
            Some(remote) => remote.now(),
        }
    }
}

/// Processes sampled during a phase: the servers first, if there are any, then this one, if it has
/// the workers.
pub(super) struct Processes(Vec<Process>);

impl Processes {
    pub fn sample(
        server_pids: &[u32],
        remote: &[RemoteServer],
        is_crew_here: bool,
    ) -> Result<Self, LabError> {
        let servers = server_pids.iter().map(|pid| Process::new("server", *pid, None));
        let remote = remote.iter().map(|server| Process::new("server", server.pid, Some(server.clone())));
        let own = is_crew_here.then(|| Process::new("laboratory", std::process::id(), None));
        Ok(Self(servers.chain(remote).chain(own).collect::<Result<_, LabError>>()?))
    }

    pub fn watch(&mut self) {
        for process in &mut self.0 {
            // A process that ended is reported when the phase ends.
            if let Ok(now) = process.now() {
                process.latest = now;
                process.rss_bytes_max = now.rss_bytes.max(process.rss_bytes_max);
            }
        }
    }

    /// Returns what servers and this process have used until the last sample: see
    /// [`Series::sample`](super::series::Series::sample).
    pub fn seconds_and_bytes(&self) -> [ProcessUse; 2] {
        let of = |role: &str| {
            let mut sum = ProcessUse::default();
            for process in self.0.iter().filter(|process| process.role == role) {
                sum.add(&process.latest);
            }
            sum
        };
        [of("server"), of("laboratory")]
    }

    /// Reports the usage, and the processor time used on this machine. The death of a server is the
    /// reason why the phase stopped; the results so far are kept.
    pub fn finish(self, operations: u64, stopped: &mut Option<String>) -> (Vec<ProcessReport>, f64) {
        let (mut reports, mut seconds_here) = (Vec::new(), 0.0);
        for process in self.0 {
            let now = process.now().unwrap_or_else(|error| {
                stopped.get_or_insert_with(|| match &process.remote {
                    None => format!("the server process {} has ended", process.pid),
                    Some(_) => error.to_string(),
                });
                process.latest
            });
            let used = (&process.before, &now);
            let mut report = ProcessReport::between(process.role, process.pid, used, operations);
            report.rss_bytes_max = process.rss_bytes_max.max(now.rss_bytes);
            report.host = process.remote.map(|remote| remote.agent);
            if report.host.is_none() {
                seconds_here += report.cpu_seconds();
            }
            reports.push(report);
        }
        (reports, seconds_here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_server_is_reported_as_one_and_costs_no_processor_time_here() {
        let mut seconds = 0.0;
        let remote = RemoteServer::new("db:7299".into(), 77, move || {
            seconds += 10.0;
            Ok(ProcessUse { user_seconds: seconds, rss_bytes: 5000, ..ProcessUse::default() })
        });
        let mut processes = Processes::sample(&[], &[remote], true).unwrap();
        processes.watch();
        assert_eq!(processes.seconds_and_bytes()[0].cpu_seconds(), 20.0);
        let mut stopped = None;
        let (reports, seconds_here) = processes.finish(1000, &mut stopped);
        assert_eq!((reports[0].role.as_str(), reports[0].pid, stopped), ("server", 77, None));
        assert_eq!((reports[0].host.as_deref(), &reports[1].host), (Some("db:7299"), &None));
        assert_eq!((reports[0].cpu_us_per_operation, reports[0].rss_bytes_max), (Some(20_000.0), 5000));
        assert!(seconds_here < 10.0, "{seconds_here}");
    }

    #[test]
    fn a_remote_server_that_ends_stops_the_phase_with_the_reason() {
        let mut is_alive = true;
        let remote = RemoteServer::new("db:7299".into(), 77, move || {
            if std::mem::take(&mut is_alive) { Ok(ProcessUse::default()) } else { Err("it has ended".into()) }
        });
        let mut processes = Processes::sample(&[], std::slice::from_ref(&remote), false).unwrap();
        processes.watch();
        let mut stopped = None;
        assert_eq!(processes.finish(0, &mut stopped).0.len(), 1);
        let stopped = stopped.unwrap();
        assert!(stopped.contains("agent db:7299") && stopped.contains("it has ended"), "{stopped}");
        assert!(Processes::sample(&[], &[remote], false).is_err(), "before the phase it is an error");
    }
}
