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

/// Lets the workers of a phase go together.
#[derive(Debug)]
pub struct Gate {
    barrier: Barrier,
    start: OnceLock<Instant>,
}

impl Gate {
    /// For `workers` threads.
    pub fn new(workers: usize) -> Self {
        Self { barrier: Barrier::new(workers), start: OnceLock::new() }
    }

    /// Waits for all workers; gives each the same start.
    pub fn pass(&self) -> Instant {
        self.barrier.wait();
        *self.start.get_or_init(Instant::now)
    }
}
