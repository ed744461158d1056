//! The latest lines of the log, for the dashboard.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use cassette_server::admin::LogLine;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::format::Content;

/// The number of lines that are kept.
const LINES: usize = 300;

/// The longest message that is kept, in bytes.
const MESSAGE_MAX: usize = 2 << 10;

/// The lines. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Recent(Arc<Mutex<VecDeque<LogLine>>>);

impl Recent {
    /// Returns the lines, the oldest first.
    pub fn lines(&self) -> Vec<LogLine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn add(&self, line: LogLine) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

impl<S: Subscriber> Layer<S> for Recent {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut message = Content::of(event).text();
        if message.len() > MESSAGE_MAX {
            let end = (0..=MESSAGE_MAX).rev().find(|at| message.is_char_boundary(*at));
            message.truncate(end.unwrap_or(0));
            message.push('…');
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.add(LogLine {
            time_millis: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            level: event.metadata().level().to_string(),
            target: event.metadata().target().to_owned(),
            message,
        });
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn the_latest_lines_are_kept_with_their_fields() {
        let recent = Recent::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(recent.clone()), || {
            for number in 0..LINES + 5 {
                tracing::warn!(number, error = "none", "cannot open");
            }
            tracing::info!("{}", "ä".repeat(MESSAGE_MAX));
        });
        let lines = recent.lines();
        assert_eq!(lines.len(), LINES);
        assert_eq!(lines[0].message, "cannot open error=none number=6");
        assert_eq!((&*lines[0].level, &*lines[LINES - 1].level), ("WARN", "INFO"));
        assert_eq!(lines[LINES - 1].message.len(), MESSAGE_MAX + '…'.len_utf8());
    }
}
