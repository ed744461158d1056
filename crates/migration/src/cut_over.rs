//! The cut-over: stalls the source, applies the last changes, and lets the source forward its
//! clients.
//!
//! ```text
//! follow until little is left -> stall -> drain -> forward, or release and try again
//! ```
//!
//! Until the source is requested to forward, the target has received copies only, and aborting
//! loses nothing. The source decides alone: it forwards, or serves, and never both.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cassette_database::Position;

use crate::client::{Client, Cluster};
use crate::control::{ForwardError, LogPoint, Stall, StallError};
use crate::error::{MoveError, Result, unsuitable};
use crate::event::Event;
use crate::follow::Follower;
use crate::following::{CutOver, Following, Until};

/// A stall is attempted when the changes of one round were applied within this part of its time.
const ROUND_PART: u32 = 3;
/// Rounds that take no longer are short enough in any case.
const ROUND_MIN: Duration = Duration::from_millis(100);
/// Number of stalls that may take too long.
const ATTEMPTS_MAX: usize = 5;
/// Pause between two stalls.
const ATTEMPT_PAUSE: Duration = Duration::from_secs(2);
/// How often the source is requested to forward, as long as its decision is unknown.
const DECISION_ATTEMPTS_MAX: usize = 10;
const DECISION_PAUSE: Duration = Duration::from_millis(500);

/// How an attempt ended.
enum Attempt {
    Done(Duration),
    /// The source continued, for this reason.
    TooLong(String),
}

impl Following<'_> {
    /// Applies changes after the copy, until the move ends.
    pub fn finish(&self, follower: &mut Follower<'_>, target: &Cluster) -> Result<()> {
        match &self.follow.until {
            Until::Stopped(stop) => {
                self.run(follower, || stop.load(Ordering::Relaxed))?;
                self.point().map(drop)
            }
            Until::CaughtUp => {
                let point = self.point()?;
                self.drain(follower, point.captured, None)?;
                let mut recorded = Position::ZERO;
                self.record(follower, &mut recorded)?;
                self.report(follower)
            }
            Until::CutOver(options) => self.cut_over(follower, target, options),
        }
    }

    /// Cuts over.
    ///
    /// # Errors
    /// If the changes cannot be applied in time, the schema has changed, or the source refuses. It
    /// serves its clients then, unless the error says that this is unknown.
    fn cut_over(&self, follower: &mut Follower<'_>, target: &Cluster, options: &CutOver) -> Result<()> {
        let mut recorded = follower.position();
        let mut clock = Clock { client: Client::new(target), nodes: target.nodes() };
        let mut last = String::new();
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 0 {
                std::thread::sleep(ATTEMPT_PAUSE);
            }
            let point = self.approach(follower, ROUND_MIN.max(options.pause_max / ROUND_PART))?;
            self.record(follower, &mut recorded)?;
            let behind = point.last_timestamp.saturating_sub(clock.slowest()?);
            let behind = Duration::from_micros(u64::try_from(behind).unwrap_or(0));
            if behind > options.pause_max {
                return unsuitable(format!(
                    "the target's clock is {behind:?} behind: its writes would be shadowed by earlier ones of \
                     the source; synchronize the clocks"
                ));
            }
            match self.attempt(follower, &mut clock, options) {
                Ok(Attempt::Done(pause)) => {
                    let pause_seconds = pause.as_secs_f64();
                    self.observer.event(&Event::CutOver { pause_seconds });
                    return Ok(());
                }
                Ok(Attempt::TooLong(reason)) => {
                    let text = format!("the source continued: {reason}");
                    self.observer.event(&Event::Warning { text });
                    last = reason;
                }
                Err(error) => return Err(error),
            }
        }
        unsuitable(format!(
            "the cut-over took longer than {:?} in {ATTEMPTS_MAX} attempts ({last}): cut over when there are \
             fewer or shorter requests, or allow a longer pause; the source serves its clients",
            options.pause_max
        ))
    }

    /// Applies changes until a round of new ones takes no longer than `round_max`.
    fn approach(&self, follower: &mut Follower<'_>, round_max: Duration) -> Result<LogPoint> {
        loop {
            let start = Instant::now();
            let point = self.point()?;
            self.drain(follower, point.captured, None)?;
            if start.elapsed() <= round_max {
                return Ok(point);
            }
            self.report(follower)?;
        }
    }

    fn attempt(
        &self,
        follower: &mut Follower<'_>,
        clock: &mut Clock<'_>,
        options: &CutOver,
    ) -> Result<Attempt> {
        let control = &self.follow.control;
        let start = Instant::now();
        let deadline = start + options.pause_max;
        let Stall { number, point } = match control.stall(&options.target, options.pause_max) {
            Ok(stall) => stall,
            // Requests in execution may take longer than a pause.
            Err(StallError::Failed(reason)) => return Ok(Attempt::TooLong(reason)),
            Err(StallError::Refused(reason)) => {
                return unsuitable(format!("the source does not stall its clients: {reason}"));
            }
        };
        let drained = self.check(&point).and_then(|()| {
            let is_drained = self.drain(follower, point.captured, Some(deadline))?;
            Ok(is_drained && clock.wait_for(point.last_timestamp, deadline)?)
        });
        match drained {
            Ok(true) => {}
            Ok(false) => {
                self.release(number);
                return Ok(Attempt::TooLong("the last changes were not applied in time".to_owned()));
            }
            Err(error) => {
                self.release(number);
                return Err(error);
            }
        }
        match self.forward(number) {
            Ok(()) => Ok(Attempt::Done(start.elapsed())),
            Err(ForwardError::Refused(reason)) => {
                self.release(number);
                if Instant::now() >= deadline {
                    return Ok(Attempt::TooLong(reason));
                }
                unsuitable(format!("the source does not forward: {reason}"))
            }
            Err(ForwardError::Undecided(reason)) => Err(MoveError::Undecided(reason)),
        }
    }

    /// Requests the source to forward, again if no answer arrives: it answers a repeated request
    /// like the first one.
    fn forward(&self, stall: u64) -> std::result::Result<(), ForwardError> {
        for _ in 1..DECISION_ATTEMPTS_MAX {
            match self.follow.control.forward(stall) {
                Err(ForwardError::Undecided(reason)) => {
                    let text = format!("whether the source forwards is unknown yet: {reason}");
                    self.observer.event(&Event::Warning { text });
                    std::thread::sleep(DECISION_PAUSE);
                }
                decided => return decided,
            }
        }
        self.follow.control.forward(stall)
    }

    fn release(&self, stall: u64) {
        if let Err(reason) = self.follow.control.release(stall) {
            let text = format!("the source resumes when the stall ends by itself: {reason}");
            self.observer.event(&Event::Warning { text });
        }
    }
}

/// The clocks of the target's nodes, which stamp the writes of clients after the cut-over.
struct Clock<'c> {
    client: Client<'c>,
    nodes: usize,
}

impl Clock<'_> {
    /// Waits until all clocks are above a timestamp, in microseconds: later writes must not be
    /// shadowed by earlier ones. Returns `false` at `deadline`.
    fn wait_for(&mut self, timestamp: i64, deadline: Instant) -> Result<bool> {
        while self.slowest()? <= timestamp {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Instant::now() < deadline)
    }

    /// Returns the least time of the nodes in microseconds, rounded down to milliseconds.
    fn slowest(&mut self) -> Result<i64> {
        let mut slowest = i64::MAX;
        for node in 0..self.nodes {
            let text = "SELECT toTimestamp(now()) AS t FROM system.local";
            let page = self.client.query_node(node, text)?;
            let millis = page.get(0, "t").and_then(|value| value.as_ref().try_into().ok());
            let Some(millis) = millis.map(i64::from_be_bytes) else {
                return unsuitable("the target does not return its time");
            };
            slowest = slowest.min(millis.saturating_mul(1000));
        }
        Ok(slowest)
    }
}
