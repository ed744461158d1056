//! The `*_request_timeout` keys of the configuration file.

use std::time::Duration;

use anyhow::Context;
use cassette_database::{RequestTimeouts, Timeout};
use serde::Deserialize;

use cassette_tools::units::duration;

/// The shortest timeout; shorter ones are raised to it, as in Cassandra.
const SHORTEST: Duration = Duration::from_millis(10);

/// The keys as written, absent where the default applies.
#[derive(Debug, Default, Deserialize)]
pub(super) struct TimeoutKeys {
    read_request_timeout: Option<String>,
    range_request_timeout: Option<String>,
    write_request_timeout: Option<String>,
    counter_write_request_timeout: Option<String>,
    cas_contention_timeout: Option<String>,
    truncate_request_timeout: Option<String>,
    request_timeout: Option<String>,
}

impl TimeoutKeys {
    /// Returns Cassandra's defaults, with the changes of the file.
    pub fn timeouts(&self) -> anyhow::Result<RequestTimeouts> {
        let timeouts = RequestTimeouts::of_cassandra();
        for timeout in Timeout::ALL {
            let Some(text) = self.text(timeout) else { continue };
            let time = duration(text).context(timeout.key())?;
            if time < SHORTEST {
                tracing::info!("{}: {text} is raised to {}ms", timeout.key(), SHORTEST.as_millis());
            }
            timeouts.set(timeout, Some(time.max(SHORTEST)));
        }
        Ok(timeouts)
    }

    fn text(&self, timeout: Timeout) -> Option<&str> {
        match timeout {
            Timeout::Read => &self.read_request_timeout,
            Timeout::Range => &self.range_request_timeout,
            Timeout::Write => &self.write_request_timeout,
            Timeout::CounterWrite => &self.counter_write_request_timeout,
            Timeout::CasContention => &self.cas_contention_timeout,
            Timeout::Truncate => &self.truncate_request_timeout,
            Timeout::Request => &self.request_timeout,
        }
        .as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Config;
    use super::*;

    fn timeouts(text: &str) -> anyhow::Result<RequestTimeouts> {
        Ok(Config::parse(text)?.database(Path::new("x"))?.timeouts)
    }

    #[test]
    fn timeouts_have_cassandras_defaults_and_names() {
        let defaults = timeouts("").unwrap();
        assert_eq!(defaults.get(Timeout::Read), Some(Duration::from_secs(5)));
        assert_eq!(defaults.get(Timeout::CasContention), Some(Duration::from_millis(1800)));
        let text =
            "read_request_timeout: 7s\nwrite_request_timeout_in_ms: 300\ncas_contention_timeout: 1ms\n";
        let changed = timeouts(text).unwrap();
        assert_eq!(changed.get(Timeout::Read), Some(Duration::from_secs(7)));
        assert_eq!(changed.get(Timeout::Write), Some(Duration::from_millis(300)));
        assert_eq!(changed.get(Timeout::CasContention), Some(SHORTEST));
        let error = timeouts("range_request_timeout: soon\n").unwrap_err();
        assert!(format!("{error:#}").starts_with("range_request_timeout: soon"), "{error:#}");
    }
}
