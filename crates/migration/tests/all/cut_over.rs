//! Cut-overs whose outcome is not known at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cassette_migration::{
    CutOver, Event, ForwardError, LogPoint, Move, MoveError, SourceControl, Stall, StallError, Until,
};
use tempfile::TempDir;

use super::support::{Events, Served, follow, job};

/// A source that forwards, whose first answers are lost.
struct Lossy {
    server: Arc<dyn SourceControl>,
    lost: AtomicUsize,
}

impl SourceControl for Lossy {
    fn point(&self) -> Result<LogPoint, String> {
        self.server.point()
    }

    fn check_target(&self, target: &str) -> Result<(), String> {
        self.server.check_target(target)
    }

    fn stall(&self, target: &str, at_most: Duration) -> Result<Stall, StallError> {
        self.server.stall(target, at_most)
    }

    fn release(&self, _: u64) -> Result<(), String> {
        panic!("the source forwards")
    }

    fn forward(&self, _: u64) -> Result<(), ForwardError> {
        let lost = self.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |lost| lost.checked_sub(1));
        match lost {
            Ok(_) => Err(ForwardError::Undecided("no response within 30s".to_owned())),
            Err(_) => Ok(()),
        }
    }
}

/// Cuts over, while this many answers are lost.
fn cut_over(lost: usize) -> (Result<(), MoveError>, Events) {
    let (target, directory) = (Served::start(), TempDir::new().unwrap());
    let data = directory.path().join("data");
    let source = Served::capturing(&data);
    source.execute(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    source.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int) WITH cdc = true");
    let pause_max = Duration::from_secs(60);
    let options = CutOver { target: target.address.clone(), pause_max, accepts_open_target: false };
    let mut follow = follow(&source, &data, Until::CutOver(options)).unwrap();
    follow.control = Arc::new(Lossy { server: follow.control, lost: AtomicUsize::new(lost) });
    let job = Move { follow: Some(follow), ..job(source.place(), target.settings(), &directory) };
    let events = Events::default();
    (job.run(&events).map(drop), events)
}

#[test]
fn a_lost_answer_is_resolved_by_a_repeated_request() {
    let (done, events) = cut_over(2);
    done.unwrap();
    assert!(events.0.lock().iter().any(|event| matches!(event, Event::CutOver { .. })));
}

#[test]
fn a_cut_over_without_any_answer_is_reported_as_unknown_and_not_as_refused() {
    let (done, _) = cut_over(usize::MAX);
    let error = done.unwrap_err();
    assert!(matches!(error, MoveError::Undecided(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("is unknown: no response within 30s") && text.contains("same command"), "{text}");
}
