//! A worker of a phase.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::phase::Rate;
use crate::recording::Recorder;
use crate::workload::{Failure, Operation, OperationStream};

/// Number of consecutive failures of a worker that ends the phase: the engine is gone, not slow.
const FAILURES_IN_A_ROW_MAX: u64 = 1000;

/// The maximum sleep between two checks whether a start that lies ahead was called off.
const START_CHECK_PERIOD: Duration = Duration::from_millis(50);

/// Shared control of a phase's workers.
#[derive(Debug, Default)]
pub struct Control {
    stopped: AtomicBool,
    reason: Mutex<Option<String>>,
    held: Option<HeldStart>,
}

/// A start that another thread determines.
#[derive(Debug)]
pub struct HeldStart {
    /// Receives a message once all workers are ready.
    pub ready: mpsc::Sender<()>,
    /// Sends the start. Without a sender, the phase does not start.
    pub start: Mutex<mpsc::Receiver<Instant>>,
}

impl Control {
    /// Creates the control of workers that start when `held` sends the start.
    pub fn held(held: HeldStart) -> Self {
        Self { held: Some(held), ..Self::default() }
    }

    /// Returns the start of the phase, once all workers are ready; waits for one that lies ahead.
    pub(super) fn begin(&self) -> Instant {
        let Some(held) = &self.held else { return Instant::now() };
        let _ = held.ready.send(());
        let start = held.start.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(start) = start else {
            self.stop("it was called off before its start");
            return Instant::now();
        };
        super::pace::wake_punctually();
        loop {
            let left = start.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stopped() {
                return start;
            }
            super::pace::wait_until(Instant::now() + left.min(START_CHECK_PERIOD), false);
        }
    }

    /// Ends the phase early; the first reason is kept.
    pub fn stop(&self, reason: impl Into<String>) {
        let mut kept = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_with(|| reason.into());
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether the phase is to end.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns why it ended early, if it did.
    pub fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An operation to execute.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// The operation.
    pub operation: Operation,
    /// Intended start; `None` in a closed loop: now.
    pub intended: Option<Instant>,
}

/// A stream of operations with their schedule and their records.
#[derive(Debug)]
pub struct Worker {
    /// Names keys and generates values.
    pub stream: OperationStream,
    /// Records of the operations.
    pub recorder: Recorder,
    pace: Pace,
    /// Remaining operations; `None` for no bound.
    left: Option<u64>,
    time: Option<Duration>,
    deadline: Option<Instant>,
    rate: Option<OpenLoop>,
    control: Arc<Control>,
}

/// Bounds and schedule of a worker.
#[derive(Debug, Clone)]
pub struct WorkerLimits {
    /// Number of operations; `None` for no bound.
    pub operations: Option<u64>,
    /// Maximum duration; `None` for no bound.
    pub time: Option<Duration>,
    /// Schedule in an open loop; `None` for a closed loop.
    pub rate: Option<OpenLoop>,
}

/// A worker's position in an open loop.
#[derive(Debug, Clone, Copy)]
pub struct OpenLoop {
    /// Operations per second over all workers.
    pub rate: Rate,
    /// Number of workers.
    pub workers: usize,
    /// Index of this worker.
    pub worker: usize,
    /// Whether it busy-waits for its next start instead of sleeping.
    pub spin: bool,
}

impl Worker {
    /// Creates a worker that has not started.
    pub fn new(
        stream: OperationStream,
        recorder: Recorder,
        limits: WorkerLimits,
        control: Arc<Control>,
    ) -> Self {
        let WorkerLimits { operations, time, rate } = limits;
        Self { stream, recorder, pace: Pace::Closed, left: operations, time, deadline: None, rate, control }
    }

    /// Sets the start of the phase.
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

    /// Returns the next operation; `None` when the worker is done.
    ///
    /// `now` need not be exact: it is compared with the end of the phase.
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

    /// Returns the control that it shares with the other workers.
    pub(super) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Waits until `due`.
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
