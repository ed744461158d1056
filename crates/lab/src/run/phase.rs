//! One phase: drives the workers and samples them meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::series::{Second, Series};
use super::worker::{OpenLoop, WorkerLimits};
use super::{Control, Counters, Target, Worker};
use crate::LabError;
use crate::recording::{LiveCounts, LiveView, Recorder};
use crate::results::process::ProcessUse;
use crate::results::{MachineUse, PhaseReport, ProcessReport};
use crate::workload::StreamFactory;
use crate::workload::stream::share_of;

/// Interval between samples of the workers.
const SAMPLE_PERIOD: Duration = Duration::from_millis(250);

/// Observes the progress of an experiment, on another thread than the one that started it.
pub trait Observer: Sync {
    /// Called at the beginning of a phase.
    fn on_phase_start(&self, plan: &PhasePlan);
    /// Called periodically during a phase.
    fn on_progress(&self, view: &LiveView);
    /// Returns a reason to end the whole experiment early. Called as often as the progress; results
    /// so far are reported.
    fn stop_reason(&self) -> Option<String> {
        None
    }
    /// Called at the end of a phase.
    fn on_phase_end(&self, report: &PhaseReport);
}

/// The rate of an open loop, in operations per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Rate at the start of the phase.
    pub from: f64,
    /// Rate at the end of the phase, reached linearly; `None` for a constant rate. Requires a phase
    /// bounded by time.
    pub to: Option<f64>,
}

impl Rate {
    /// Creates a constant rate.
    pub const fn steady(rate: f64) -> Self {
        Self { from: rate, to: None }
    }
}

/// How a phase is driven, and its bounds.
#[derive(Debug, Clone)]
pub struct PhasePlan {
    /// Name in the report.
    pub name: String,
    /// Repeat it belongs to.
    pub repeat: usize,
    /// Number of concurrent operations.
    pub in_flight: usize,
    /// Maximum number of operations; `None` for no bound.
    pub operations: Option<u64>,
    /// Maximum duration; `None` for no bound.
    pub time: Option<Duration>,
    /// Rate of an open loop; `None` for a closed one.
    pub rate: Option<Rate>,
    /// Whether workers of an open loop busy-wait for their next start instead of sleeping.
    pub spin: bool,
    /// Pids of the servers, whose processor time and memory are measured.
    pub server_pids: Vec<u32>,
    /// Whether to record a series with one point per second.
    pub series: bool,
}

/// Measurements of a phase.
#[derive(Debug)]
pub struct Measured {
    /// Report of the whole phase.
    pub report: PhaseReport,
    /// Complete records, for statistics of a part of the phase.
    pub recorder: Recorder,
    /// One point per second, if requested.
    pub series: Vec<Second>,
    /// Common start of the workers.
    pub start: Instant,
    /// Counters of the engine before the phase.
    pub before: Counters,
    /// Counters of the engine after the phase.
    pub after: Counters,
}

impl PhasePlan {
    /// Runs the phase.
    pub fn measure(
        &self,
        factory: &StreamFactory,
        target: &dyn Target,
        observer: &dyn Observer,
    ) -> Result<Measured, LabError> {
        let count = target.worker_count(self.in_flight);
        let control = Arc::new(Control::default());
        let live: Vec<Arc<LiveCounts>> = (0..count).map(|_| Arc::default()).collect();
        let workers = (0..count)
            .map(|worker| {
                let limits = WorkerLimits {
                    operations: self.operations.map(|total| share_of(total, count, worker)),
                    time: self.time,
                    rate: self.rate.map(|rate| OpenLoop { rate, workers: count, worker, spin: self.spin }),
                };
                let recorder = Recorder::new(Arc::clone(&live[worker]));
                Worker::new(factory.stream(worker), recorder, limits, Arc::clone(&control))
            })
            .collect();

        observer.on_phase_start(self);
        let mut sampler = target.sampler();
        let before = sampler.as_mut().map(|sample| sample()).unwrap_or_default();
        let mut processes = Processes::sample(&self.server_pids)?;
        let machine = MachineUse::now();
        let done = AtomicBool::new(false);
        let mut series = Series::new(self.series);
        let driven = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut view = LiveView::default();
                while !done.load(Ordering::Acquire) {
                    std::thread::park_timeout(SAMPLE_PERIOD);
                    view.sample(live.iter().map(Arc::as_ref));
                    observer.on_progress(&view);
                    if let Some(reason) = observer.stop_reason() {
                        control.stop(reason);
                    }
                    processes.watch();
                    if series.is_due() {
                        let counters = sampler.as_mut().map(|sample| sample()).unwrap_or_default();
                        series.sample(live.iter().map(Arc::as_ref), &processes.seconds_and_bytes(), counters);
                    }
                }
            });
            // Also if the target panics: the scope waits for the watcher.
            let _release = OnDrop(|| {
                done.store(true, Ordering::Release);
                watcher.thread().unpark();
            });
            target.drive(workers, self.in_flight)
        })?;
        let after = sampler.as_mut().map(|sample| sample()).unwrap_or_default();

        let mut all = Recorder::new(Arc::default());
        driven.workers.iter().for_each(|worker| all.merge(&worker.recorder));
        let seconds = (driven.end - driven.start).as_secs_f64();
        let mut report = PhaseReport::of(self.name.clone(), self.repeat, seconds, &all, factory.kind_names());
        report.stopped = control.reason();
        report.processes = processes.finish(all.operations, &mut report.stopped)?;
        let knows_processes = !self.server_pids.is_empty() || target.is_embedded();
        let own_seconds =
            knows_processes.then(|| report.processes.iter().map(ProcessReport::cpu_seconds).sum::<f64>());
        report.disturbance =
            machine.zip(MachineUse::now()).map(|(before, now)| now.since(&before, own_seconds));
        let series = series.finish();
        Ok(Measured { report, recorder: all, series, start: driven.start, before, after })
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

struct Process {
    role: &'static str,
    pid: u32,
    before: ProcessUse,
    latest: ProcessUse,
    rss_bytes_max: u64,
}

/// Processes sampled during a phase: the servers first, if there are any, then this one.
struct Processes(Vec<Process>);

impl Processes {
    fn sample(server_pids: &[u32]) -> Result<Self, LabError> {
        let servers = server_pids.iter().map(|pid| ("server", *pid));
        let looked = servers.chain([("laboratory", std::process::id())]).map(|(role, pid)| {
            let now = ProcessUse::of(pid)?;
            Ok(Process { role, pid, before: now, latest: now, rss_bytes_max: now.rss_bytes })
        });
        Ok(Self(looked.collect::<Result<_, LabError>>()?))
    }

    fn watch(&mut self) {
        for process in &mut self.0 {
            // A process that ended is reported when the phase ends.
            if let Ok(now) = ProcessUse::of(process.pid) {
                process.latest = now;
                process.rss_bytes_max = now.rss_bytes.max(process.rss_bytes_max);
            }
        }
    }

    /// Returns what servers and this process have used until the last sample: see
    /// [`Series::sample`].
    fn seconds_and_bytes(&self) -> [ProcessUse; 2] {
        let of = |role: &str| {
            let mut sum = ProcessUse::default();
            for process in self.0.iter().filter(|process| process.role == role) {
                sum.add(&process.latest);
            }
            sum
        };
        [of("server"), of("laboratory")]
    }

    /// Reports the usage. The death of a server becomes the reason why the phase stopped; the
    /// results so far are kept.
    fn finish(self, operations: u64, stopped: &mut Option<String>) -> Result<Vec<ProcessReport>, LabError> {
        let mut reports = Vec::new();
        for process in self.0 {
            let Process { role, pid, before, latest, rss_bytes_max } = process;
            let now = ProcessUse::of(pid).unwrap_or_else(|_| {
                stopped.get_or_insert_with(|| format!("the server process {pid} has ended"));
                latest
            });
            let user_seconds = now.user_seconds - before.user_seconds;
            let system_seconds = now.system_seconds - before.system_seconds;
            let difference = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
            reports.push(ProcessReport {
                role: role.to_owned(),
                pid,
                user_seconds,
                system_seconds,
                cpu_us_per_operation: (operations > 0)
                    .then(|| (user_seconds + system_seconds) * 1e6 / operations as f64),
                rss_bytes_max: rss_bytes_max.max(now.rss_bytes),
                threads: now.threads,
                open_files: now.open_files,
                written_bytes: difference(now.written_bytes, before.written_bytes),
                read_bytes: difference(now.read_bytes, before.read_bytes),
            });
        }
        Ok(reports)
    }
}
