//! Raw results of a run as CSV (RFC 4180): one value per line, for spreadsheets and scripts.

use std::fmt::Write;

use crate::experiments::PartResult;

/// Formats the results of all parts.
pub fn report(parts: &[PartResult]) -> String {
    let mut out = String::from("part,repeat,engine,configuration,phase,metric,value\r\n");
    for result in parts {
        let part = &result.part;
        for phase in &result.phases {
            let Some(statistics) = &phase.statistics else { continue };
            let mut metrics = statistics.metrics();
            metrics.push(("seconds".into(), statistics.report.seconds));
            metrics.push(("operations".into(), statistics.report.operations as f64));
            metrics.push(("failed".into(), statistics.report.failed as f64));
            metrics.push(("warm-up seconds".into(), statistics.steady.from));
            for process in &statistics.report.processes {
                metrics.push((format!("{} cpu seconds", process.role), process.cpu_seconds()));
                metrics.push((format!("{} rss bytes", process.role), process.rss_bytes_max as f64));
            }
            metrics.extend(statistics.after.iter().map(|(name, value)| (format!("after {name}"), *value)));
            for (metric, value) in metrics {
                let texts =
                    [&part.engine, &part.configuration, &phase.name, &metric].map(|text| quoted(text));
                let _ = write!(out, "{},{},{},{value}\r\n", part.number, part.repeat, texts.join(","));
            }
        }
    }
    out
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_a_line_and_commas_are_quoted() {
        let (_, mut parts) = crate::experiments::analysis::tests::run_of(&[("base", &[1000.5])]);
        parts[0].part.configuration = "a, \"b\"".into();
        let text = report(&parts);
        assert!(text.contains("1,1,noop,\"a, \"\"b\"\"\",run a,throughput,1000.5\r\n"), "{text}");
    }
}
