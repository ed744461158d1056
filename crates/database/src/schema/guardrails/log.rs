//! The log messages of guardrails: a few a minute for each, with the number of suppressed ones.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::guard::Level;

/// The time in which a guardrail is logged a limited number of times.
const WINDOW: Duration = Duration::from_secs(60);

/// The recent messages of each guardrail.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Vec<Lately>>);

#[derive(Debug)]
struct Lately {
    name: &'static str,
    since: Instant,
    logged: u64,
    suppressed: u64,
}

impl Log {
    /// Logs a violation of the guardrail called `name`, at most one a minute.
    pub fn note(&self, name: &'static str, message: &str) {
        self.note_some(name, Level::Warn, message, 1);
    }

    /// Logs a violation of the guardrail called `name`, at most `most` a minute: a warning, or an
    /// error if a failure threshold is exceeded.
    pub fn note_some(&self, name: &'static str, level: Level, message: &str, most: u64) {
        let Some(suppressed) = self.admit(name, Instant::now(), most) else { return };
        let others = match suppressed {
            0 => String::new(),
            others => format!(" ({others} more of {name} since it was logged last)"),
        };
        match level {
            Level::Warn => tracing::warn!("{message}{others}"),
            Level::Fail => tracing::error!("{message}{others}"),
        }
    }

    /// Returns the number of violations of the guardrail called `name` that were logged within the
    /// last window.
    #[cfg(test)]
    pub fn logged(&self, name: &str) -> u64 {
        self.0.lock().iter().find(|lately| lately.name == name).map_or(0, |lately| lately.logged)
    }

    /// Returns the number of violations suppressed before; `None` if this one is suppressed, too.
    fn admit(&self, name: &'static str, now: Instant, most: u64) -> Option<u64> {
        let mut all = self.0.lock();
        let Some(lately) = all.iter_mut().find(|lately| lately.name == name) else {
            all.push(Lately { name, since: now, logged: 1, suppressed: 0 });
            return Some(0);
        };
        if now.duration_since(lately.since) >= WINDOW {
            (lately.since, lately.logged) = (now, 0);
        }
        if lately.logged >= most {
            lately.suppressed += 1;
            return None;
        }
        lately.logged += 1;
        Some(std::mem::take(&mut lately.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guardrail_logs_a_limited_number_a_minute_and_counts_the_others() {
        let (log, start) = (Log::default(), Instant::now());
        let at = |seconds, most| log.admit("a", start + Duration::from_secs(seconds), most);
        assert_eq!([at(0, 2), at(1, 2), at(2, 2), at(59, 2)], [Some(0), Some(0), None, None]);
        assert_eq!(log.admit("b", start, 1), Some(0));
        assert_eq!([at(60, 2), at(61, 2), at(62, 2)], [Some(2), Some(0), None]);
    }
}
