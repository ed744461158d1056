//! Traces: the activities of one request, in Cassandra's words.
//!
//! A request runs on one thread, so its trace belongs to the thread. Without a trace, an activity
//! costs a check of one thread-local byte; its text is not created.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

thread_local! {
    static TRACING: Cell<bool> = const { Cell::new(false) };
    static TRACE: RefCell<Trace> = const { RefCell::new(Trace { since: None, events: Vec::new() }) };
}

struct Trace {
    since: Option<Instant>,
    events: Vec<TraceEvent>,
}

/// A traced activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// The activity, such as `Appending to commitlog`.
    pub activity: String,
    /// The time since the trace began.
    pub elapsed: Duration,
}

/// Records an activity, if this thread is being traced.
#[inline]
pub fn trace<T: Into<String>>(activity: impl FnOnce() -> T) {
    if TRACING.get() {
        note(activity().into());
    }
}

#[cold]
fn note(activity: String) {
    TRACE.with_borrow_mut(|trace| {
        if let Some(since) = trace.since {
            trace.events.push(TraceEvent { activity, elapsed: since.elapsed() });
        }
    });
}

/// The result of traced work.
#[derive(Debug)]
pub struct Traced<T> {
    /// The result of the work.
    pub output: T,
    /// In chronological order.
    pub events: Vec<TraceEvent>,
    /// The duration of the work.
    pub elapsed: Duration,
}

/// Runs `work` and records what is [traced](trace) on this thread. A nested trace is separate: the
/// outer one gets none of its events.
pub fn collect<T>(work: impl FnOnce() -> T) -> Traced<T> {
    /// Ends the trace also if the work panics: the thread serves other requests afterwards.
    struct Ends(bool, Option<Trace>);
    impl Drop for Ends {
        fn drop(&mut self) {
            TRACING.set(self.0);
            if let Some(outer) = self.1.take() {
                TRACE.replace(outer);
            }
        }
    }
    let began = Instant::now();
    let outer = TRACE.replace(Trace { since: Some(began), events: Vec::new() });
    let ends = Ends(TRACING.replace(true), Some(outer));
    let output = work();
    let events = TRACE.with_borrow_mut(|trace| std::mem::take(&mut trace.events));
    drop(ends);
    Traced { output, events, elapsed: began.elapsed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_are_noted_while_traced_and_their_texts_are_not_made_otherwise() {
        trace(|| -> String { panic!("tracing is off") });
        let traced = collect(|| {
            trace(|| "one");
            trace(|| format!("{}", 2));
            3
        });
        assert_eq!(traced.output, 3);
        let activities: Vec<_> = traced.events.iter().map(|event| event.activity.as_str()).collect();
        assert_eq!(activities, ["one", "2"]);
        assert!(traced.events.iter().all(|event| event.elapsed <= traced.elapsed));
        trace(|| -> String { panic!("the trace has ended") });
    }

    #[test]
    fn a_panic_ends_the_trace_of_its_thread() {
        let panicked = std::panic::catch_unwind(|| collect(|| panic!("in the work")));
        assert!(panicked.is_err());
        trace(|| -> String { panic!("the trace has ended") });
    }
}
