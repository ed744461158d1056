//! One of the workers that together do a phase.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::phase::Rate;
use super::recorder::Recorder;
use crate::engine::Failure;
use crate::ycsb::{Operation, OperationStream};

/// A worker whose operations fail this often in a row ends the phase: the engine is gone, not slow.
const FAILURES_IN_A_ROW_MAX: u64 = 1000;

/// What all workers of a phase listen to.
#[derive(Debug, Default)]
pub struct Control {
    stopped: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl Control {
    /// Ends the phase early; the first reason given is kept.
    pub fn stop(&self, reason: impl Into<String>) {
        let mut kept = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_with(|| reason.into());
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the phase is to end.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Why it was ended early, if it was.
    pub fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An operation a worker is to do.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// What to do.
    pub operation: Operation,
    /// When it should start; `None` in a closed loop: now.
    pub intended: Option<Instant>,
}

/// A stream of operations with their starts and the record of how they went.
#[derive(Debug)]
pub struct Worker {
    /// Names keys and fills values.
    pub stream: OperationStream,
    /// Where results go.
    pub recorder: Recorder,
    pace: Pace,
    /// Operations still to be given out; `None` for no bound.
    left: Option<u64>,
    time: Option<Duration>,
    deadline: Option<Instant>,
    rate: Option<OpenLoop>,
    control: Arc<Control>,
}

/// What bounds and paces a worker.
#[derive(Debug, Clone)]
pub struct WorkerLimits {
    /// How many operations it does; `None` for no bound.
    pub operations: Option<u64>,
    /// For how long it goes on; `None` for no bound.
    pub time: Option<Duration>,
    /// How its starts are planned in an open loop; `None` for a closed loop.
    pub rate: Option<OpenLoop>,
}

/// A worker's place in an open loop.
#[derive(Debug, Clone, Copy)]
pub struct OpenLoop {
    /// Operations a second over all workers.
    pub rate: Rate,
    /// How many workers there are.
    pub workers: usize,
    /// Which of them this is.
    pub worker: usize,
    /// Whether it waits busily for its next start instead of sleeping.
    pub spin: bool,
}

impl Worker {
    /// A worker that has not started.
    pub fn new(
        stream: OperationStream,
        recorder: Recorder,
        limits: WorkerLimits,
        control: Arc<Control>,
    ) -> Self {
        let WorkerLimits { operations, time, rate } = limits;
        Self { stream, recorder, pace: Pace::Closed, left: operations, time, deadline: None, rate, control }
    }

    /// Sets the clock: the phase starts at `start`.
    pub fn start(&mut self, start: Instant) {
        self.deadline = self.time.map(|time| start + time);
        self.recorder.start(start);
        if let Some(OpenLoop { rate, workers, worker, .. }) = self.rate {
            super::pace::wake_punctually();
            self.pace = match (rate.to, self.time) {
                (Some(to), Some(time)) => Pace::ramp(start, rate.from, to, time, workers, worker),
                _ => Pace::open(start, rate.from, workers, worker),
            };
        }
    }

    /// The next operation; `None` when the worker is done.
    ///
    /// `now` need not be exact: it is compared with the phase's end.
    pub fn next_task(&mut self, now: Instant) -> Option<Task> {
        if self.left == Some(0) || self.control.stopped() || self.deadline.is_some_and(|end| now >= end) {
            return None;
        }
        let intended = self.pace.next_start();
        if let (Some(intended), Some(end)) = (intended, self.deadline)
            && intended >= end
        {
            return None;
        }
        self.left = self.left.map(|left| left - 1);
        Some(Task { operation: self.stream.next_operation(), intended })
    }

    /// Waits until `due`, if that is still to come.
    pub fn wait_until(&self, due: Instant) {
        let spin = self.rate.is_some_and(|open| open.spin);
        super::pace::wait_until(due, spin);
    }

    /// Counts a failed operation; too many in a row end the phase.
    pub fn fail(&mut self, failure: Failure) {
        let message = failure.message.clone();
        if self.recorder.failure(failure) == FAILURES_IN_A_ROW_MAX {
            self.control.stop(format!(
                "{FAILURES_IN_A_ROW_MAX} operations failed in a row, the last with: {message}"
            ));
        }
    }

    /// Ends the phase for all workers.
    pub fn stop(&self, reason: impl Into<String>) {
        self.control.stop(reason);
    }
}
