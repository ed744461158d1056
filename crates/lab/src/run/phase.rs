//! One phase: drives the workers and samples them meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::processes::{Processes, RemoteServer};
use super::series::{Second, Series};
use super::worker::{OpenLoop, WorkerLimits};
use super::{Control, Counters, Driven, Target, Worker};
use crate::LabError;
use crate::recording::{LiveCounts, LiveView, Recorder};
use crate::results::{MachineUse, PhaseReport};
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
    /// The same of servers on other machines.
    pub remote_servers: Vec<RemoteServer>,
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

/// Who executes the operations of a phase.
#[derive(Debug)]
pub struct Crew<'a> {
    /// Counts of the workers while they work, or of the agents.
    pub live: &'a [Arc<LiveCounts>],
    /// Ends the phase early.
    pub control: &'a Control,
    /// Whether the workers are in this process.
    pub is_here: bool,
    /// Names of the kinds of operations defined by the workload.
    pub kind_names: &'a [String],
}

/// Operations that a crew executed.
#[derive(Debug)]
pub struct Executed {
    /// Records of all workers.
    pub recorder: Recorder,
    /// Common start of the workers.
    pub start: Instant,
    /// Time until the last worker ended.
    pub time: Duration,
}

impl From<Driven> for Executed {
    fn from(driven: Driven) -> Self {
        let mut recorder = Recorder::new(Arc::default());
        driven.workers.iter().for_each(|worker| recorder.merge(&worker.recorder));
        Self { recorder, start: driven.start, time: driven.end - driven.start }
    }
}

impl PhasePlan {
    /// Runs the phase with workers in this process.
    pub fn measure(
        &self,
        factory: &StreamFactory,
        target: &dyn Target,
        observer: &dyn Observer,
    ) -> Result<Measured, LabError> {
        let count = target.worker_count(self.in_flight);
        let control = Arc::new(Control::default());
        let live: Vec<Arc<LiveCounts>> = (0..count).map(|_| Arc::default()).collect();
        let workers = self.workers(factory, &control, &live, (0, count));
        let kind_names = factory.kind_names();
        let crew = Crew { live: &live, control: &control, is_here: true, kind_names };
        self.observe(&crew, target, observer, || Ok(target.drive(workers, self.in_flight)?.into()))
    }

    /// Creates a worker for each of `live`. Together with those of other processes they are `count`
    /// workers, of which `first` is the number of the first one here: each has its own share of the
    /// operations, its own random numbers and its own turn in an open loop.
    pub fn workers(
        &self,
        factory: &StreamFactory,
        control: &Arc<Control>,
        live: &[Arc<LiveCounts>],
        (first, count): (usize, usize),
    ) -> Vec<Worker> {
        let worker = |(worker, live): (usize, &Arc<LiveCounts>)| {
            let limits = WorkerLimits {
                operations: self.operations.map(|total| share_of(total, count, worker)),
                time: self.time,
                rate: self.rate.map(|rate| OpenLoop { rate, workers: count, worker, spin: self.spin }),
            };
            let recorder = Recorder::new(Arc::clone(live));
            Worker::new(factory.stream(worker), recorder, limits, Arc::clone(control))
        };
        (first..).zip(live).map(worker).collect()
    }

    /// Runs the phase by `execute`, which starts the crew and waits for its end, and samples crew,
    /// target and machine meanwhile.
    pub fn observe(
        &self,
        crew: &Crew<'_>,
        target: &dyn Target,
        observer: &dyn Observer,
        execute: impl FnOnce() -> Result<Executed, LabError>,
    ) -> Result<Measured, LabError> {
        let Crew { live, control, is_here, kind_names } = crew;
        observer.on_phase_start(self);
        let mut sampler = target.sampler();
        let before = sampler.as_mut().map(|sample| sample()).unwrap_or_default();
        let mut processes = Processes::sample(&self.server_pids, &self.remote_servers, *is_here)?;
        let machine = MachineUse::now().filter(|_| *is_here);
        let done = AtomicBool::new(false);
        let mut series = Series::new(self.series);
        let executed = std::thread::scope(|scope| {
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
            execute()
        })?;
        let after = sampler.as_mut().map(|sample| sample()).unwrap_or_default();

        let Executed { recorder, start, time } = executed;
        let seconds = time.as_secs_f64();
        let mut report = PhaseReport::of(self.name.clone(), self.repeat, seconds, &recorder, kind_names);
        report.stopped = control.reason();
        let (reports, own_seconds) = processes.finish(recorder.operations, &mut report.stopped);
        report.processes = reports;
        let has_servers = !(self.server_pids.is_empty() && self.remote_servers.is_empty());
        let own_seconds = (has_servers || target.is_embedded()).then_some(own_seconds);
        report.disturbance =
            machine.zip(MachineUse::now()).map(|(before, now)| now.since(&before, own_seconds));
        let series = series.finish();
        Ok(Measured { report, recorder, series, start, before, after })
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
