//! Statements that took longer than a threshold, aggregated by their text and logged at intervals,
//! as Cassandra's monitoring does.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cassette_cql::obscure_passwords;
use parking_lot::Mutex;

/// The maximum number of executions that are kept between two reports, as in Cassandra; the others
/// are counted.
const OPERATIONS_MAX: usize = 50;

/// The number of texts of the latest slow statements.
const LATEST_MAX: usize = 50;

/// The maximum length of a text, in characters.
const TEXT_LENGTH_MAX: usize = 1000;

/// The slow statements of a database.
#[derive(Debug)]
pub(crate) struct SlowQueries {
    /// Microseconds; `u64::MAX` disables the log.
    timeout_micros: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Those since the last report, in order of their first execution.
    pending: Vec<SlowQuery>,
    pending_by_text: HashMap<String, usize>,
    executions: usize,
    dropped: u64,
    reported: Duration,
    /// By their last execution, oldest first.
    latest: VecDeque<SlowQuery>,
}

/// A statement that was slow, with its executions together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowQuery {
    /// The text without passwords and without values of bind markers.
    pub text: String,
    /// The number of slow executions.
    pub count: u64,
    /// The duration of all of them.
    pub total: Duration,
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
    /// When the last one ended, milliseconds since 1970.
    pub last_millis: i64,
}

impl SlowQuery {
    fn new(text: String, elapsed: Duration, now_millis: i64) -> Self {
        Self { text, count: 1, total: elapsed, min: elapsed, max: elapsed, last_millis: now_millis }
    }

    fn add(&mut self, elapsed: Duration, now_millis: i64) {
        self.count += 1;
        self.total += elapsed;
        self.min = self.min.min(elapsed);
        self.max = self.max.max(elapsed);
        self.last_millis = now_millis;
    }
}

impl SlowQueries {
    /// Creates the log; `None` disables it.
    pub fn new(timeout: Option<Duration>) -> Self {
        let micros =
            timeout.map_or(u64::MAX, |timeout| u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX));
        Self { timeout_micros: AtomicU64::new(micros), state: Mutex::default() }
    }

    /// Returns whether a statement that took `elapsed` is slow.
    #[inline]
    pub fn is_slow(&self, elapsed: Duration) -> bool {
        elapsed.as_micros() >= u128::from(self.timeout_micros.load(Ordering::Relaxed))
    }

    /// Records a slow execution.
    #[cold]
    pub fn record(&self, text: &str, elapsed: Duration, now_millis: i64) {
        let text: String = obscure_passwords(text).chars().take(TEXT_LENGTH_MAX).collect();
        let state = &mut *self.state.lock();
        state.keep_latest(&text, elapsed, now_millis);
        if state.executions == OPERATIONS_MAX {
            state.dropped += 1;
            return;
        }
        state.executions += 1;
        match state.pending_by_text.get(&text).and_then(|index| state.pending.get_mut(*index)) {
            Some(known) => known.add(elapsed, now_millis),
            None => {
                state.pending_by_text.insert(text.clone(), state.pending.len());
                state.pending.push(SlowQuery::new(text, elapsed, now_millis));
            }
        }
    }

    /// Returns the message for the log about slow statements since the last call, in
    /// Cassandra's format; `None` without any. `now` is a monotonic time.
    pub fn report(&self, now: Duration) -> Option<String> {
        let state = &mut *self.state.lock();
        let since = now.saturating_sub(state.reported).as_millis();
        state.reported = now;
        if state.pending.is_empty() && state.dropped == 0 {
            return None;
        }
        let (pending, dropped) = (std::mem::take(&mut state.pending), std::mem::take(&mut state.dropped));
        state.pending_by_text.clear();
        state.executions = 0;
        let timeout = self.timeout_micros.load(Ordering::Relaxed) / 1000;
        let number = pending.len() as u64 + dropped;
        let mut message = format!("{number} operations were slow in the last {since} msecs:");
        for SlowQuery { text, count, total, min, max, .. } in &pending {
            // Writing to a string does not fail.
            let _ = match count {
                1 => write!(
                    message,
                    "\n<{text}>, time {} msec - slow timeout {timeout} msec",
                    total.as_millis()
                ),
                _ => write!(
                    message,
                    "\n<{text}>, was slow {count} times: avg/min/max {}/{}/{} msec - slow timeout {timeout} msec",
                    total.as_millis() / u128::from(*count),
                    min.as_millis(),
                    max.as_millis()
                ),
            };
        }
        if dropped > 0 {
            let _ = write!(message, "\n... ({dropped} were dropped)");
        }
        Some(message)
    }

    /// Returns the latest slow statements, the newest first.
    pub fn latest(&self) -> Vec<SlowQuery> {
        self.state.lock().latest.iter().rev().cloned().collect()
    }
}

impl State {
    fn keep_latest(&mut self, text: &str, elapsed: Duration, now_millis: i64) {
        let known = self.latest.iter().position(|known| known.text == text);
        let query = match known.and_then(|index| self.latest.remove(index)) {
            Some(mut known) => {
                known.add(elapsed, now_millis);
                known
            }
            None => SlowQuery::new(text.to_owned(), elapsed, now_millis),
        };
        if self.latest.len() == LATEST_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(query);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLIS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn only_statements_beyond_the_timeout_are_slow() {
        let slow = SlowQueries::new(Some(MILLIS(500)));
        assert!(!slow.is_slow(MILLIS(499)));
        assert!(slow.is_slow(MILLIS(500)));
        assert!(!SlowQueries::new(None).is_slow(Duration::from_secs(1 << 40)));
    }

    #[test]
    fn executions_of_a_text_are_one_line_of_the_report() {
        let slow = SlowQueries::new(Some(MILLIS(500)));
        assert_eq!(slow.report(MILLIS(1000)), None);
        slow.record("SELECT a", MILLIS(600), 1);
        slow.record("SELECT b", MILLIS(700), 2);
        slow.record("SELECT a", MILLIS(1000), 3);
        let message = "2 operations were slow in the last 5000 msecs:\n\
            <SELECT a>, was slow 2 times: avg/min/max 800/600/1000 msec - slow timeout 500 msec\n\
            <SELECT b>, time 700 msec - slow timeout 500 msec";
        assert_eq!(slow.report(MILLIS(6000)).as_deref(), Some(message));
        assert_eq!(slow.report(MILLIS(11_000)), None, "it is reported once");
        let latest = slow.latest();
        assert_eq!(
            latest.iter().map(|query| query.text.as_str()).collect::<Vec<_>>(),
            ["SELECT a", "SELECT b"]
        );
        assert_eq!((latest[0].count, latest[0].last_millis), (2, 3));
    }

    #[test]
    fn many_slow_statements_are_counted_and_take_bounded_memory() {
        let slow = SlowQueries::new(Some(MILLIS(1)));
        for number in 0..1000 {
            slow.record(&format!("SELECT {number} {}", "x".repeat(5000)), MILLIS(2), number);
        }
        let latest = slow.latest();
        assert_eq!(latest.len(), LATEST_MAX);
        assert!(latest.iter().all(|query| query.text.len() == TEXT_LENGTH_MAX));
        let message = slow.report(MILLIS(5000)).unwrap();
        assert!(
            message.starts_with("1000 operations were slow in the last 5000 msecs:\n"),
            "{}",
            &message[..99]
        );
        assert!(message.ends_with("\n... (950 were dropped)"));
    }

    #[test]
    fn passwords_are_obscured() {
        let slow = SlowQueries::new(Some(MILLIS(1)));
        slow.record("ALTER ROLE a WITH PASSWORD = 'geheim'", MILLIS(2), 1);
        assert_eq!(slow.latest()[0].text, "ALTER ROLE a WITH PASSWORD *******");
        assert!(!slow.report(MILLIS(9)).unwrap().contains("geheim"));
    }
}
