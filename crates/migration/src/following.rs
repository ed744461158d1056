//! Following changes while rows are copied and after that, until a condition holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cassette_database::Position;
use parking_lot::{Condvar, Mutex};

use crate::client::Cluster;
use crate::control::{self, LogPoint, SourceControl};
use crate::error::{Result, unsuitable};
use crate::event::{Event, Observer};
use crate::follow::{Captured, Follower};
use crate::progress::{FollowStart, Progress};
use crate::schema::Keyspace;

/// Pause when there are no changes.
const IDLE_PAUSE: Duration = Duration::from_millis(10);
/// Interval of durable records of the position, and of reports.
const RECORD_PAUSE: Duration = Duration::from_secs(1);

/// Interval of checks that the source does nothing that changes do not contain. Each waits for the
/// requests in execution, and syncs the commit log.
const CHECK_PAUSE: Duration = Duration::from_secs(10);

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
    /// Whether the target may admit clients without a login although the source does not.
    pub accepts_open_target: bool,
}

/// The followed changes of a running move.
pub struct Following<'m> {
    pub follow: &'m Follow,
    pub progress: &'m Progress,
    pub observer: &'m dyn Observer,
    /// Set when a thread of the move has failed.
    pub failed: &'m AtomicBool,
}

impl FollowStart {
    /// Returns the start of a move whose copy begins after `point`.
    pub fn at(point: &LogPoint) -> Self {
        let Position { segment, offset } = match point.position {
            // Nothing is captured yet: unlike a stream from the beginning, this one misses nothing.
            Position::ZERO => Position { segment: 0, offset: Position::END_OF_SEGMENT },
            position => position,
        };
        Self { segment, offset, chain: point.chain.clone(), state: point.state.clone() }
    }

    /// Checks that nothing has happened until `point` that captured changes do not contain.
    pub fn check(&self, point: &LogPoint) -> Result<()> {
        const AGAIN: &str = "start again with another --progress file, into empty keyspaces";
        if self.chain != point.chain {
            return unsuitable(format!(
                "the source has not captured all changes since the move started: it was started without \
                 cdc_enabled or with another cdc_raw_directory meanwhile; {AGAIN}"
            ));
        }
        if self.state != point.state {
            return unsuitable(format!(
                "the schema of the source was changed, or a table truncated, since the move started: captured \
                 changes do not contain that; {AGAIN}"
            ));
        }
        Ok(())
    }
}

/// The checks of the source beside the application of changes.
#[derive(Default)]
struct Checks {
    is_over: Mutex<bool>,
    ended: Condvar,
    failed: AtomicBool,
}

impl Checks {
    fn end(&self) {
        *self.is_over.lock() = true;
        self.ended.notify_all();
    }

    fn have_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Waits for `pause`, or until the checks are over, and returns whether they are.
    fn is_over_after(&self, pause: Duration) -> bool {
        let mut is_over = self.is_over.lock();
        self.ended.wait_while_for(&mut is_over, |is_over| !*is_over, pause);
        *is_over
    }
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
    /// once a second. Checks meanwhile that the source does nothing that changes do not contain.
    pub fn run(&self, follower: &mut Follower<'_>, is_over: impl Fn() -> bool) -> Result<()> {
        let checks = Checks::default();
        std::thread::scope(|scope| {
            let checking = scope.spawn(|| self.check_repeatedly(&checks, CHECK_PAUSE));
            let followed = self.follow_until(follower, || checks.have_failed() || is_over());
            checks.end();
            let checked = checking.join().unwrap_or_else(|_| unsuitable("a thread of the move panicked"));
            // The check knows the reason why changes cannot be applied any more.
            checked.and(followed)
        })
    }

    fn check_repeatedly(&self, checks: &Checks, pause: Duration) -> Result<()> {
        let mut is_unknown = false;
        while !checks.is_over_after(pause) {
            match self.follow.control.point() {
                Ok(point) => {
                    is_unknown = false;
                    if let Err(error) = self.check(&point) {
                        checks.failed.store(true, Ordering::Relaxed);
                        self.failed.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
                // It may be restarting. The move does not end without a check.
                Err(reason) if !is_unknown => {
                    is_unknown = true;
                    let text =
                        format!("whether the source's schema has changed is unknown for now: {reason}");
                    self.observer.event(&Event::Warning { text });
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn follow_until(&self, follower: &mut Follower<'_>, is_over: impl Fn() -> bool) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{ForwardError, Stall, StallError};
    use crate::progress::Header;

    /// A server whose points are prepared; its requests fail afterwards.
    struct Prepared(Mutex<Vec<std::result::Result<LogPoint, String>>>);

    impl SourceControl for Prepared {
        fn point(&self) -> std::result::Result<LogPoint, String> {
            self.0.lock().pop().unwrap_or_else(|| Err("no more points".to_owned()))
        }

        fn check_target(&self, _: &str) -> std::result::Result<(), String> {
            Ok(())
        }

        fn stall(&self, _: &str, _: Duration) -> std::result::Result<Stall, StallError> {
            self.point().map(|point| Stall { number: 1, point }).map_err(StallError::Failed)
        }

        fn release(&self, _: u64) -> std::result::Result<(), String> {
            Ok(())
        }

        fn forward(&self, _: u64) -> std::result::Result<(), ForwardError> {
            Err(ForwardError::Refused("it is prepared".to_owned()))
        }
    }

    #[derive(Default)]
    struct Events(Mutex<Vec<Event>>);

    impl Observer for Events {
        fn event(&self, event: &Event) {
            self.0.lock().push(event.clone());
        }
    }

    #[test]
    fn repeated_checks_outlast_a_source_that_does_not_respond_and_end_with_a_change_of_its_schema() {
        let directory = tempfile::tempdir().unwrap();
        let chain = format!("{:032x}", 7);
        std::fs::write(directory.path().join("chain"), format!("{chain}\n")).unwrap();
        let point = |state: &str| LogPoint {
            position: Position::ZERO,
            captured: Position::ZERO,
            chain: chain.clone(),
            blocks_writes: true,
            state: state.to_owned(),
            last_timestamp: 0,
        };
        let failed = || Err("it restarts".to_owned());
        let mut points = vec![Ok(point("a")), failed(), failed(), Ok(point("a")), failed(), Ok(point("b"))];
        points.reverse();
        let header = Header {
            version: 1,
            from: "a".into(),
            to: "b".into(),
            ranges: 1,
            started_micros: 0,
            tables: Vec::new(),
            follows: Some(FollowStart::at(&point("a"))),
        };
        let follow = Follow {
            captured: Captured { directory: directory.path().to_owned(), encryption: None, removes: false },
            control: Arc::new(Prepared(Mutex::new(points))),
            until: Until::CaughtUp,
        };
        let progress = Progress::open(&directory.path().join("progress"), &header).unwrap();
        let (events, failed) = (Events::default(), AtomicBool::new(false));
        let following =
            Following { follow: &follow, progress: &progress, observer: &events, failed: &failed };
        let checks = Checks::default();
        let error = following.check_repeatedly(&checks, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("the schema of the source was changed"), "{error}");
        assert!(checks.have_failed() && failed.load(Ordering::Relaxed));
        assert_eq!(events.0.lock().len(), 2, "one warning for each time without response");
        checks.end();
        following.check_repeatedly(&checks, CHECK_PAUSE).unwrap();
    }
}
