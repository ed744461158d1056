//! Drives an engine: starts operations, measures latencies, and counts failures.

pub mod pace;
pub mod phase;
mod processes;
pub mod series;
pub mod worker;

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Instant;

use crate::LabError;
use crate::results::EngineInfo;
use crate::workload::TableShape;
pub use phase::{Crew, Executed, Measured, Observer, PhasePlan, Rate};
pub use processes::RemoteServer;
pub use series::Second;
pub use worker::{Control, HeldStart, Worker};

/// Metrics of an engine by name. Those that end in `_total` are monotonic while it runs; the others
/// are current values.
pub type Counters = BTreeMap<String, f64>;

/// Samples the counters of an engine.
pub type Sampler<'a> = Box<dyn FnMut() -> Counters + Send + 'a>;

/// Actions on an engine between two phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Executes a CQL statement.
    Cql(String),
    /// Writes memtables to disk.
    Flush,
    /// Compacts everything.
    Compact,
    /// Drops the caches of the engine and the system's page cache.
    DropCaches,
    /// Stops it in order and starts it again.
    Restart,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cql(statement) => statement,
            Self::Flush => "flush",
            Self::Compact => "compact",
            Self::DropCaches => "drop-caches",
            Self::Restart => "restart",
        })
    }
}

/// An engine together with the way it is driven.
pub trait Target: Sync {
    /// Describes the engine for a report.
    fn describe(&self) -> EngineInfo;

    /// Creates the table if needed; `replace` empties an existing one first.
    fn create_table(&mut self, shape: &TableShape, replace: bool) -> Result<(), LabError>;

    /// Uses the existing table for the following phases.
    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError>;

    /// Executes an action while no phase runs.
    fn act(&mut self, action: &Action) -> Result<(), LabError>;

    /// Returns a sampler of the engine's counters, if it has any.
    fn sampler(&self) -> Option<Sampler<'_>> {
        None
    }

    /// Returns why the engine stopped responding, as far as can be observed. Called after a phase
    /// that had to stop.
    fn failure_cause(&self) -> Option<String> {
        None
    }

    /// Returns the pids of the engine, if it has processes on this machine.
    fn server_pids(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Returns whether the engine runs in this process, so that it has no others.
    fn is_embedded(&self) -> bool {
        false
    }

    /// Returns the number of workers that keep `in_flight` operations in progress together.
    fn worker_count(&self, in_flight: usize) -> usize;

    /// Runs the workers, each in a thread, all starting together. Returns them in the same order
    /// with the start and the end of the phase.
    fn drive(&self, workers: Vec<Worker>, in_flight: usize) -> Result<Driven, LabError>;
}

/// A completed phase.
#[derive(Debug)]
pub struct Driven {
    /// Workers with their records.
    pub workers: Vec<Worker>,
    /// Common start of the workers.
    pub start: Instant,
    /// End of the last worker.
    pub end: Instant,
}

/// Runs `work` for each worker in a thread, all starting together, until the last one ends.
///
/// What a worker needs (`S`: a session, a connection) is opened before any thread waits for the
/// others: a failure to open it must not leave the others waiting.
pub(crate) fn drive_together<S: Send>(
    workers: Vec<(Worker, S)>,
    work: impl Fn(&mut S, &mut Worker) + Sync,
) -> Driven {
    let control = workers.first().map(|(worker, _)| worker.control()).unwrap_or_default();
    let gate = Gate::new(workers.len(), control);
    let finished: Vec<(Worker, Instant, Instant)> = std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|(mut worker, mut with)| {
                let (gate, work) = (&gate, &work);
                scope.spawn(move || {
                    let start = gate.pass();
                    worker.start(start);
                    work(&mut with, &mut worker);
                    (worker, start, Instant::now())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let start = finished.iter().map(|(_, start, _)| *start).min().unwrap_or_else(Instant::now);
    let end = finished.iter().map(|(_, _, end)| *end).max().unwrap_or(start);
    Driven { workers: finished.into_iter().map(|(worker, ..)| worker).collect(), start, end }
}

/// Starts the workers of a phase together.
#[derive(Debug)]
struct Gate {
    barrier: Barrier,
    start: OnceLock<Instant>,
    control: Arc<Control>,
}

impl Gate {
    fn new(workers: usize, control: Arc<Control>) -> Self {
        Self { barrier: Barrier::new(workers), start: OnceLock::new(), control }
    }

    /// Waits for all workers; returns the same start to each.
    fn pass(&self) -> Instant {
        self.barrier.wait();
        *self.start.get_or_init(|| self.control.begin())
    }
}
