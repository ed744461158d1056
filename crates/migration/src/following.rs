//! Following changes while rows are copied and after that, until a condition holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cassette_database::Position;

use crate::client::Cluster;
use crate::control::{self, LogPoint, SourceControl};
use crate::error::{Result, unsuitable};
use crate::event::{Event, Observer};
use crate::follow::{Captured, Follower};
use crate::progress::Progress;
use crate::schema::Keyspace;

/// Pause when there are no changes.
const IDLE_PAUSE: Duration = Duration::from_millis(10);
/// Interval of durable records of the position, and of reports.
const RECORD_PAUSE: Duration = Duration::from_secs(1);

/// How long a network file system may take to show what another machine has written.
const VISIBLE_MAX: Duration = Duration::from_secs(2);

/// How a move follows the changes of its source.
#[derive(Clone)]
pub struct Follow {
    /// Where the source captures changes.
    pub captured: Captured,
    /// The server of the source.
    pub control: Arc<dyn SourceControl>,
    /// When the move ends.
    pub until: Until,
}

/// When a move that follows changes ends.
#[derive(Clone)]
pub enum Until {
    /// When this is set. A repeated run resumes.
    Stopped(Arc<AtomicBool>),
    /// When the target has everything that was acknowledged until the end of the copy.
    CaughtUp,
    /// When the source forwards its clients to the target.
    CutOver(CutOver),
}

/// How to cut over.
#[derive(Debug, Clone)]
pub struct CutOver {
    /// The address of the target to which the source's server forwards, `host:port`.
    pub target: String,
    /// Maximum time for which requests may be stalled; afterwards they are served by the source.
    pub pause_max: Duration,
}

/// The followed changes of a running move.
pub struct Following<'m> {
    pub follow: &'m Follow,
    pub progress: &'m Progress,
    pub observer: &'m dyn Observer,
    /// Set when a thread of the move has failed.
    pub failed: &'m AtomicBool,
}

impl<'m> Following<'m> {
    /// Returns the follower of the changes after the recorded position.
    pub fn follower(
        &self,
        keyspaces: &[Keyspace],
        target: &'m Cluster,
        workers: usize,
    ) -> Result<Follower<'m>> {
        let Some(position) = self.progress.followed() else {
            return unsuitable("the progress file has no position of changes");
        };
        Ok(Follower::new(&self.follow.captured, position, keyspaces, target, workers))
    }

    /// Applies changes while `copy` runs.
    pub fn beside<T>(&self, follower: &mut Follower<'_>, copy: impl FnOnce() -> Result<T>) -> Result<T> {
        let is_copied = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let run = || self.run(follower, || is_copied.load(Ordering::Relaxed));
            let running = scope.spawn(run);
            let copied = copy();
            is_copied.store(true, Ordering::Relaxed);
            let followed = running.join().unwrap_or_else(|_| unsuitable("a thread of the move panicked"));
            // The copy fails because of the changes, not the other way round.
            followed?;
            copied
        })
    }

    /// Applies changes until `is_over`, which is evaluated whenever there are none, and at least
    /// once a second.
    pub fn run(&self, follower: &mut Follower<'_>, is_over: impl Fn() -> bool) -> Result<()> {
        let mut recorded = (Instant::now(), follower.position());
        loop {
            let advanced = follower.advance();
            if advanced.is_err() {
                self.failed.store(true, Ordering::Relaxed);
            }
            let advanced = advanced?;
            let is_due = recorded.0.elapsed() >= RECORD_PAUSE;
            if is_due {
                self.record(follower, &mut recorded.1)?;
                recorded.0 = Instant::now();
                self.report(follower)?;
            }
            if (!advanced || is_due) && is_over() {
                return self.record(follower, &mut recorded.1);
            }
            if !advanced {
                std::thread::sleep(IDLE_PAUSE);
            }
        }
    }

    /// Applies all changes up to `captured`, which are durable. Returns `false` if they are not all
    /// applied at `deadline`.
    ///
    /// # Errors
    /// Also if the directory does not have them.
    pub fn drain(
        &self,
        follower: &mut Follower<'_>,
        captured: Position,
        deadline: Option<Instant>,
    ) -> Result<bool> {
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let mut ended = None;
        loop {
            while follower.advance()? {
                ended = None;
                if is_late() {
                    return Ok(false);
                }
            }
            if is_late() {
                return Ok(false);
            }
            if follower.position() >= captured {
                return Ok(true);
            }
            if ended.get_or_insert_with(Instant::now).elapsed() >= VISIBLE_MAX {
                return Err(follower.lacks(captured));
            }
            std::thread::sleep(IDLE_PAUSE);
        }
    }

    /// Records the position durably.
    pub fn record(&self, follower: &Follower<'_>, recorded: &mut Position) -> Result<()> {
        let position = follower.position();
        if position != *recorded {
            self.progress.follow(position)?;
            *recorded = position;
        }
        follower.remove_applied()
    }

    /// Returns a point in the source's log, before which all changes can be read.
    ///
    /// # Errors
    /// Also if something has happened since the start that changes do not contain.
    pub fn point(&self) -> Result<LogPoint> {
        let point = control::point(self.follow.control.as_ref())?;
        self.check(&point)?;
        Ok(point)
    }

    /// Checks that nothing has happened until `point` that changes do not contain.
    pub fn check(&self, point: &LogPoint) -> Result<()> {
        self.follow.captured.check(point)?;
        match &self.progress.header.follows {
            Some(start) => start.check(point),
            None => unsuitable("the progress file has no position of changes"),
        }
    }

    /// Reports how far the target is behind.
    pub fn report(&self, follower: &Follower<'_>) -> Result<()> {
        let lag = follower.lag()?;
        self.observer.event(&Event::Following {
            changes: follower.changes,
            bytes_behind: lag.bytes,
            seconds_behind: lag.seconds,
        });
        Ok(())
    }
}
