//! What guardrails write to the log: at most one line a minute for each, with a count of the others.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a guardrail that has just been logged stays silent.
const SILENCE: Duration = Duration::from_secs(60);

/// When each guardrail was logged last, and how often it was violated since.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Vec<(&'static str, Instant, u64)>>);

impl Log {
    /// Logs a violation of the guardrail called `name`.
    pub fn note(&self, name: &'static str, message: &str) {
        let now = Instant::now();
        let mut logged = self.0.lock();
        let suppressed = match logged.iter_mut().find(|(logged, ..)| *logged == name) {
            Some((_, last, suppressed)) if now.duration_since(*last) < SILENCE => {
                *suppressed += 1;
                return;
            }
            Some((_, last, suppressed)) => {
                *last = now;
                std::mem::take(suppressed)
            }
            None => {
                logged.push((name, now, 0));
                0
            }
        };
        drop(logged);
        match suppressed {
            0 => tracing::warn!("{message}"),
            others => tracing::warn!("{message} ({others} more of {name} since it was logged last)"),
        }
    }
}
