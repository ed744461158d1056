//! Driving an engine: when operations start, how long they took, which failed.

pub mod live;
pub mod pace;
pub mod phase;
pub mod recorder;
pub mod series;
pub mod threads;
pub mod worker;

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::OnceLock;
use std::time::Instant;

use crate::LabError;
use crate::engine::{EngineInfo, TableShape};
pub use phase::{Measured, Observer, PhasePlan, Rate};
pub use recorder::{Histogram, Recorder};
pub use series::Second;
pub use worker::{Control, Worker};

/// Figures of an engine by name. Those that end in `_total` only grow while it runs; the others are as of now.
pub type Counters = BTreeMap<String, f64>;

/// Looks at an engine's counters.
pub type Sampler<'a> = Box<dyn FnMut() -> Counters + Send + 'a>;

/// What can be done to an engine between two phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Execute a CQL statement.
    Cql(String),
    /// Write memtables to disk.
    Flush,
    /// Compact all there is, to the end.
    Compact,
    /// Forget what the engine and the system keep of files in memory.
    DropCaches,
    /// Stop it in order and start it again.
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
    /// What a report says of the engine.
    fn describe(&self) -> EngineInfo;

    /// Makes the table, if it is not there; `replace` empties it first, if it is.
    fn create_table(&mut self, shape: &TableShape, replace: bool) -> Result<(), LabError>;

    /// Takes the table as it is for the phases to come; it must have been made, now or before.
    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError>;

    /// Does something to the engine while no phase runs.
    fn act(&mut self, action: &Action) -> Result<(), LabError>;

    /// What looks at the engine's counters, if it has any.
    fn sampler(&self) -> Option<Sampler<'_>> {
        None
    }

    /// Why it does not answer any more, as far as that can be seen of it: asked after a phase that had to stop.
    fn why_gone(&self) -> Option<String> {
        None
    }

    /// The processes of the engine, where it has its own on this machine.
    fn server_pids(&self) -> Vec<u32> {
        Vec::new()
    }

    /// How many workers keep `in_flight` operations under way together.
    fn worker_count(&self, in_flight: usize) -> usize;

    /// Runs the workers to their end, each in its thread, all starting together; gives them back in the same order
    /// with when the phase started and ended.
    fn drive(&self, workers: Vec<Worker>, in_flight: usize) -> Result<Driven, LabError>;
}

/// A phase that was driven to its end.
#[derive(Debug)]
pub struct Driven {
    /// The workers, with what they recorded.
    pub workers: Vec<Worker>,
    /// When they were let go.
    pub start: Instant,
    /// When the last one ended.
    pub end: Instant,
}

/// Runs `work` for each worker in a thread of its own, all starting together, to the last one's end.
///
/// What a worker needs (`S`: a session, a connection) comes with it, opened before any thread waits for the others: one
/// that cannot be opened must not leave the others waiting.
pub(crate) fn drive_together<S: Send>(
    workers: Vec<(Worker, S)>,
    work: impl Fn(&mut S, &mut Worker) + Sync,
) -> Driven {
    let gate = Gate::new(workers.len());
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

/// Lets the workers of a phase go together.
#[derive(Debug)]
struct Gate {
    barrier: Barrier,
    start: OnceLock<Instant>,
}

impl Gate {
    fn new(workers: usize) -> Self {
        Self { barrier: Barrier::new(workers), start: OnceLock::new() }
    }

    /// Waits for all workers; gives each the same start.
    fn pass(&self) -> Instant {
        self.barrier.wait();
        *self.start.get_or_init(Instant::now)
    }
}
