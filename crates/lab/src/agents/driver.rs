//! The driver's side: connects to agents, starts their shares of a phase together, and merges their
//! records.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cassette_tls::secret::Token;
use cassette_vfs::Clock;

use super::clock::Difference;
use super::job::{ClientSpec, Job, KeyShare};
use super::member::Member;
use super::message::{AgentInfo, Finished, JOB_LENGTH_MAX, OBSERVES_ONLY};
use crate::LabError;
use crate::recording::{LiveCounts, Recorder};
use crate::run::{Control, Crew, Executed, Measured, Observer, PhasePlan, RemoteServer, Target};
use crate::workload::stream::share_of;
use crate::workload::{KeyBounds, StatementSpec};

/// How far ahead the start of a phase is set, so that the message reaches every agent before.
const START_AHEAD: Duration = Duration::from_millis(200);

/// The agents that take part in a run.
pub struct Agents {
    /// Empty after an error: an agent may still work on a phase that the others have left.
    members: Mutex<Vec<Member>>,
    addresses: Vec<String>,
    observed: Vec<RemoteServer>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agents").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// The keys of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// A load inserts the keys from this number on.
    Load(u64),
    /// A run uses the existing keys and inserts new ones.
    Run(KeyBounds),
}

/// What the agents execute; [`PhasePlan`] says how much of it.
#[derive(Debug, Clone)]
pub struct AgentWork {
    /// How they connect to the servers.
    pub client: ClientSpec,
    /// The workload, by YCSB's property names.
    pub properties: BTreeMap<String, String>,
    /// Statements instead of the workload's operations.
    pub statements: Option<StatementSpec>,
    /// Names of the kinds of operations defined by the workload.
    pub kind_names: Vec<String>,
    /// The keys.
    pub keys: Keys,
    /// Seed of random choices.
    pub seed: u64,
}

impl Agents {
    /// Connects to all agents and compares their clocks with `clock`.
    ///
    /// # Errors
    /// If one cannot be reached, has another token or version, is in use, or its clock is wrong.
    pub fn connect(addresses: &[String], token: &Token, clock: Arc<dyn Clock>) -> Result<Self, LabError> {
        let addresses: Vec<String> = addresses.iter().map(|address| super::with_port(address)).collect();
        let mut seen = BTreeSet::new();
        if let Some(twice) = addresses.iter().find(|address| !seen.insert(*address)) {
            return Err(LabError::Usage(format!("agent {twice} is listed twice")));
        }
        let mut members = Vec::new();
        for address in &addresses {
            let mut member = Member::connect(address, token)
                .map_err(|error| LabError::engine(&format!("agent {address}"), "connect", error))?;
            if member.info.observes.is_some() {
                return Err(member.error("connect", OBSERVES_ONLY));
            }
            member.compared_clock(clock.as_ref())?;
            members.push(member);
        }
        Ok(Self { members: Mutex::new(members), addresses, observed: Vec::new(), clock })
    }

    /// Connects to agents that observe the processes of servers.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and if one observes no process.
    pub fn observing(mut self, addresses: &[String], token: &Token) -> Result<Self, LabError> {
        for address in addresses {
            let address = super::with_port(address);
            let name = format!("agent {address}");
            let known = self.observed.iter().any(|server| server.agent == address);
            if known || self.addresses.contains(&address) {
                return Err(LabError::Usage(format!("{name} is listed twice")));
            }
            let failed = |error: io::Error| LabError::engine(&name, "observe", error);
            let mut member = Member::connect(&address, token).map_err(failed)?;
            let none = || failed(io::Error::other("it observes no process: start it with --observe"));
            let pid = member.info.observes.ok_or_else(none)?;
            member.observe().map_err(failed)?;
            let sample = move || member.observe().map_err(|error| error.to_string());
            self.observed.push(RemoteServer::new(address, pid, sample));
        }
        Ok(self)
    }

    /// Returns the servers that are observed.
    pub fn observed(&self) -> Vec<RemoteServer> {
        self.observed.clone()
    }

    /// Returns the number of agents that execute operations.
    pub fn count(&self) -> usize {
        self.addresses.len()
    }

    /// Describes each agent: its name, its processors, and whether other programs use them.
    pub fn descriptions(&self) -> Vec<String> {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        let description = |member: &Member| {
            let AgentInfo { name, machine, load, .. } = &member.info;
            let busy = load.as_ref().and_then(|load| load.text(machine.processors));
            let busy = busy.map(|text| format!("; warning: {text}")).unwrap_or_default();
            format!("agent {} on {name}, {} processors{busy}", member.address, machine.processors)
        };
        let observer =
            |server: &RemoteServer| format!("agent {} observes process {}", server.agent, server.pid);
        members.iter().map(description).chain(self.observed.iter().map(observer)).collect()
    }

    /// Runs a phase on all agents. Returns its measurements, and how many new keys each agent
    /// assigned.
    ///
    /// # Errors
    /// If an agent fails or disappears, or its clock is wrong. The results of the others are then
    /// not returned: they are not those of the phase. No further phase can be run.
    pub fn measure(
        &self,
        plan: &PhasePlan,
        work: &AgentWork,
        target: &dyn Target,
        observer: &dyn Observer,
    ) -> Result<(Measured, Vec<u64>), LabError> {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        if members.is_empty() {
            return Err(LabError::Usage(
                "the connections to the agents were closed after an error".to_owned(),
            ));
        }
        let measured = self.measured(&mut members, plan, work, target, observer);
        if measured.is_err() {
            // Agents stop when their connection is closed.
            members.clear();
        }
        measured
    }

    fn measured(
        &self,
        members: &mut [Member],
        plan: &PhasePlan,
        work: &AgentWork,
        target: &dyn Target,
        observer: &dyn Observer,
    ) -> Result<(Measured, Vec<u64>), LabError> {
        let jobs = jobs(plan, work, members.len())?;
        let mut differences = Vec::new();
        for (member, job) in members.iter_mut().zip(&jobs) {
            differences.push(member.compared_clock(self.clock.as_ref())?);
            member.send_job(job).map_err(|error| member.error(&plan.name, error))?;
        }
        for member in members.iter_mut() {
            member.wait_until_ready().map_err(|error| member.error(&plan.name, error))?;
        }

        let control = Control::default();
        let live: Vec<Arc<LiveCounts>> = members.iter().map(|_| Arc::default()).collect();
        let kind_names = &work.kind_names[..];
        let crew = Crew { live: &live, control: &control, is_here: false, kind_names };
        let mut shares = Vec::new();
        let execute = || {
            let (executed, finished) = self.execute(members, &differences, plan, &control, &live)?;
            shares = finished;
            Ok(executed)
        };
        let mut measured = plan.observe(&crew, target, observer, execute)?;

        let report = &mut measured.report;
        report.processes.extend(shares.iter().map(|share| share.process.clone()));
        for ((member, share), (job, difference)) in
            members.iter().zip(&shares).zip(jobs.iter().zip(&differences))
        {
            report.agents.push(member.report(job, *difference, share));
        }
        Ok((measured, shares.iter().map(|share| share.new_keys).collect()))
    }

    /// Starts the agents together and follows them until all have finished.
    fn execute(
        &self,
        members: &mut [Member],
        differences: &[Difference],
        plan: &PhasePlan,
        control: &Control,
        live: &[Arc<LiveCounts>],
    ) -> Result<(Executed, Vec<Finished>), LabError> {
        let start = Instant::now() + START_AHEAD;
        let start_us = self.clock.now_micros() + START_AHEAD.as_micros() as i64;
        let results: Vec<Result<Finished, LabError>> = std::thread::scope(|scope| {
            let followers: Vec<_> = members
                .iter_mut()
                .zip(differences)
                .zip(live)
                .map(|((member, difference), live)| {
                    scope.spawn(move || {
                        let at_us = start_us.saturating_add(difference.ahead_us);
                        let result = member.follow(at_us, control, live);
                        result.map_err(|error| {
                            // The other agents must not work for a phase without result.
                            control.stop(format!("agent {}: {error}", member.address));
                            member.error(&plan.name, error)
                        })
                    })
                })
                .collect();
            let joined = followers.into_iter().map(|follower| follower.join());
            joined.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        let shares = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut recorder = Recorder::new(Arc::default());
        let mut time = Duration::ZERO;
        for (member, share) in members.iter().zip(&shares) {
            let records = share.records.recorder().map_err(io::Error::other);
            recorder.merge(&records.map_err(|error| member.error(&plan.name, error))?);
            let seconds = Duration::try_from_secs_f64(share.seconds).map_err(io::Error::other);
            time = time.max(seconds.map_err(|error| member.error(&plan.name, error))?);
        }
        Ok((Executed { recorder, start, time }, shares))
    }
}

/// Divides a phase among so many agents.
fn jobs(plan: &PhasePlan, work: &AgentWork, agents: usize) -> Result<Vec<Job>, LabError> {
    if plan.in_flight < agents {
        return Err(LabError::Usage(format!(
            "{}: {} threads cannot be divided among {agents} agents",
            plan.name, plan.in_flight
        )));
    }
    let in_flight: Vec<usize> =
        (0..agents).map(|agent| share_of(plan.in_flight as u64, agents, agent) as usize).collect();
    let workers: Vec<usize> =
        in_flight.iter().map(|in_flight| work.client.connections.clamp(1, *in_flight)).collect();
    let all_workers: usize = workers.iter().sum();
    let mut jobs = Vec::new();
    let (mut first_worker, mut first_key) = (
        0,
        match work.keys {
            Keys::Load(first) => first,
            Keys::Run(_) => 0,
        },
    );
    for agent in 0..agents {
        let keys = match work.keys {
            Keys::Load(_) => KeyShare::Load { first: first_key },
            Keys::Run(bounds) => KeyShare::Run { bounds, turn: agent as u64, agents: agents as u64 },
        };
        jobs.push(Job {
            phase: plan.name.clone(),
            client: work.client.clone(),
            properties: work.properties.clone(),
            statements: work.statements.clone(),
            keys,
            seed: work.seed,
            in_flight: in_flight[agent],
            workers: workers[agent],
            first_worker,
            all_workers,
            operations: plan.operations,
            seconds: plan.time.map(|time| time.as_secs_f64()),
            rate: plan.rate.map(|rate| (rate.from, rate.to)),
        });
        let own = first_worker..first_worker + workers[agent];
        first_worker = own.end;
        let operations = |worker| plan.operations.map_or(0, |total| share_of(total, all_workers, worker));
        first_key = own.map(operations).fold(first_key, u64::saturating_add);
    }
    for job in &jobs {
        job.check().map_err(|error| LabError::Usage(format!("{}: {error}", plan.name)))?;
        let length = serde_json::to_vec(job).map_or(usize::MAX, |text| text.len());
        // Some of the message is not the job.
        if length > JOB_LENGTH_MAX - 1024 {
            let text = format!("{}: statements of over {} MiB", plan.name, JOB_LENGTH_MAX >> 20);
            return Err(LabError::Usage(text));
        }
    }
    Ok(jobs)
}
