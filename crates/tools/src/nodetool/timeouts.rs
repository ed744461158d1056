//! `gettimeout` and `settimeout`, with the texts of Cassandra's nodetool.

use cassette_admin_api::TimeoutReport;

use super::Failure;

const TYPES: &str = "read, range, write, counterwrite, cascontention, truncate, internodeconnect, internodeuser, \
                     internodestreaminguser, misc (general rpc_timeout_in_ms)";

/// Timeouts of connections to other nodes, which do not exist.
const OF_OTHER_NODES: [&str; 3] = ["internodeconnect", "internodeuser", "internodestreaminguser"];

/// Checks the name of a type of timeout.
fn known<'r>(name: &str, reports: &'r [TimeoutReport]) -> Result<&'r TimeoutReport, Failure> {
    if OF_OTHER_NODES.contains(&name) {
        return Err(Failure::usage(format!(
            "Timeout type {name} applies to other nodes, and a node has none here"
        )));
    }
    let found = reports.iter().find(|report| report.name == name);
    found.ok_or_else(|| Failure::usage(format!("Timeout type requires one of ({TYPES})")))
}

/// Returns the timeout for `gettimeout`.
pub fn wanted<'r>(arguments: &[String], reports: &'r [TimeoutReport]) -> Result<&'r TimeoutReport, Failure> {
    let [name] = arguments else {
        return Err(Failure::usage(format!("gettimeout requires a timeout type, one of ({TYPES})")));
    };
    known(name, reports)
}

/// Formats the output of `gettimeout`.
pub fn text(report: &TimeoutReport) -> String {
    match report.milliseconds {
        Some(milliseconds) => format!("Current timeout for type {}: {milliseconds} ms\n", report.name),
        None => format!("Current timeout for type {}: none\n", report.name),
    }
}

/// Returns the type and the milliseconds for `settimeout`.
pub fn changed(arguments: &[String], reports: &[TimeoutReport]) -> Result<(String, u64), Failure> {
    let [name, value] = arguments else {
        return Err(Failure::usage(format!(
            "Timeout type followed by value in ms (0 disables socket streaming timeout). Type should be one \
             of ({TYPES})"
        )));
    };
    let milliseconds: i64 =
        value.parse().map_err(|_| Failure::usage(format!("For input string: \"{value}\"")))?;
    let Ok(milliseconds) = u64::try_from(milliseconds) else {
        return Err(Failure::usage("timeout must be non-negative"));
    };
    Ok((known(name, reports)?.name.clone(), milliseconds))
}

#[cfg(test)]
mod tests {
    use cassette_database::{RequestTimeouts, Timeout};

    use super::super::arguments::{self, Parsed};
    use super::*;

    fn reports(timeouts: &RequestTimeouts) -> Vec<TimeoutReport> {
        let millis = |timeout| timeouts.get(timeout).map(|time| time.as_millis() as u64);
        let report = |timeout: Timeout| TimeoutReport {
            name: timeout.name().to_owned(),
            milliseconds: millis(timeout),
        };
        Timeout::ALL.into_iter().map(report).collect()
    }

    /// Returns the output of `command`, or its error.
    fn answer(timeouts: &RequestTimeouts, command: &str) -> Result<String, String> {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let message = |failure| match failure {
            Failure::Usage(message) => message,
            other => panic!("{command}: {other:?}"),
        };
        let invocation = match arguments::parse(&words) {
            Ok(Parsed::Run(invocation)) => invocation,
            Ok(_) => panic!("{command}: help"),
            Err(failure) => return Err(message(failure)),
        };
        let reports = reports(timeouts);
        if invocation.command == "gettimeout" {
            return wanted(&invocation.arguments, &reports).map(text).map_err(message);
        }
        let (name, milliseconds) = changed(&invocation.arguments, &reports).map_err(message)?;
        let timeout = Timeout::named(&name).unwrap();
        timeouts.set(timeout, Some(std::time::Duration::from_millis(milliseconds)));
        Ok(String::new())
    }

    /// The answers are those of Cassandra 5.0.8's nodetool, except for timeouts of connections to
    /// other nodes.
    #[test]
    fn timeouts_are_shown_and_changed_as_by_cassandras_nodetool() {
        let timeouts = RequestTimeouts::of_cassandra();
        let of_type = format!("Timeout type requires one of ({TYPES})");
        let shown = |name: &str, millis: u64| format!("Current timeout for type {name}: {millis} ms\n");
        let cases: [(&str, Result<String, String>); 21] = [
            ("gettimeout read", Ok(shown("read", 5000))),
            ("gettimeout range", Ok(shown("range", 10000))),
            ("gettimeout write", Ok(shown("write", 2000))),
            ("gettimeout counterwrite", Ok(shown("counterwrite", 5000))),
            ("gettimeout cascontention", Ok(shown("cascontention", 1800))),
            ("gettimeout truncate", Ok(shown("truncate", 60000))),
            ("gettimeout misc", Ok(shown("misc", 10000))),
            ("gettimeout foo", Err(of_type.clone())),
            ("settimeout read 4000", Ok(String::new())),
            ("gettimeout read", Ok(shown("read", 4000))),
            ("settimeout read 0", Ok(String::new())),
            ("gettimeout read", Ok(shown("read", 0))),
            ("settimeout -- read -5", Err("timeout must be non-negative".to_owned())),
            ("settimeout read x", Err("For input string: \"x\"".to_owned())),
            ("settimeout foo 5", Err(of_type)),
            (
                "settimeout read",
                Err(format!(
                    "Timeout type followed by value in ms (0 disables socket streaming timeout). Type should be one of \
                     ({TYPES})"
                )),
            ),
            ("settimeout misc 7", Ok(String::new())),
            ("gettimeout misc", Ok(shown("misc", 7))),
            ("settimeout write 3000", Ok(String::new())),
            ("gettimeout write", Ok(shown("write", 3000))),
            (
                "gettimeout internodeuser",
                Err("Timeout type internodeuser applies to other nodes, and a node has none here".to_owned()),
            ),
        ];
        for (command, expected) in cases {
            assert_eq!(answer(&timeouts, command), expected, "{command}");
        }
    }
}
