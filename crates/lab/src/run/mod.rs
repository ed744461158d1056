//! Driving an engine: when operations start, how long they took, which failed.

pub mod live;
pub mod pace;
pub mod recorder;
pub mod threads;
pub mod worker;

use std::sync::Barrier;
use std::sync::OnceLock;
use std::time::Instant;

use crate::LabError;
use crate::engine::{EngineInfo, TableShape};
pub use recorder::{Histogram, Recorder};
pub use worker::{Control, Worker};

/// An engine together with the way it is driven.
pub trait Target {
    /// What a report says of the engine.
    fn describe(&self) -> EngineInfo;

    /// Makes the table, if it is not there; `replace` empties it first, if it is.
    fn create_table(&mut self, shape: &TableShape, replace: bool) -> Result<(), LabError>;

    /// Takes the table as it is for the phases to come; it must have been made, now or before.
    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError>;

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
