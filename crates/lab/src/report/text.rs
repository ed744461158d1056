//! Reports for the terminal: tables of fixed width.

use std::fmt::Write;

use crate::format::grouped;
use crate::results::{Percentiles, PhaseReport, ProcessReport, Report};

/// Formats the lines above the tables: engine, machine and settings.
pub fn heading(report: &Report) -> String {
    let Report { engine, machine, driving, .. } = report;
    let mut out = String::new();
    let _ = writeln!(out, "engine   {} {}", engine.name, engine.version);
    for (name, value) in &engine.settings {
        let _ = writeln!(out, "         {name}: {value}");
    }
    let _ = writeln!(
        out,
        "machine  {}, {} processors, {:.1} GiB, {}",
        machine.processor,
        machine.processors,
        machine.memory_bytes as f64 / (1u64 << 30) as f64,
        machine.system
    );
    let loop_kind = match driving.rate {
        None => "closed loop".to_string(),
        Some(rate) => format!(
            "open loop at {} operations a second, latency from the intended start",
            grouped(rate.round() as u64)
        ),
    };
    let _ = writeln!(out, "driven   {} at a time, {loop_kind}, seed {}", driving.in_flight, driving.seed);
    out
}

/// Formats one phase: throughput, failures, latencies, processes.
pub fn phase(report: &PhaseReport) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}: {} operations in {:.2} s, {} ops/s, {}",
        report.name,
        grouped(report.operations),
        report.seconds,
        grouped(report.throughput.round() as u64),
        if report.failed == 0 {
            "none failed".to_string()
        } else {
            format!("{} FAILED", grouped(report.failed))
        }
    );
    if let Some(reason) = &report.stopped {
        let _ = writeln!(out, "  STOPPED EARLY: {reason}");
    }
    for (class, failures) in &report.failures {
        let _ = writeln!(
            out,
            "  failed {} times: {class}; the first: {}",
            grouped(failures.count),
            failures.first
        );
    }
    if !report.latencies.is_empty() {
        let _ = writeln!(
            out,
            "  {:<18}{:>12}{:>11}{:>11}{:>11}{:>11}{:>11}{:>12}",
            "latency in µs", "count", "mean", "p50", "p95", "p99", "p99.9", "max"
        );
    }
    for (kind, latencies) in &report.latencies {
        latency_line(&mut out, kind, &latencies.response);
        if let Some(service) = &latencies.service {
            latency_line(&mut out, "  once asked", service);
        }
    }
    report.processes.iter().for_each(|process| process_line(&mut out, process));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if let Some(text) = report.disturbance.and_then(|disturbance| disturbance.text(processors)) {
        let _ = writeln!(out, "  disturbed: {text}");
    }
    out
}

fn latency_line(out: &mut String, kind: &str, values: &Percentiles) {
    let Percentiles { count, mean_us, p50_us, p95_us, p99_us, p99_9_us, max_us, .. } = values;
    let _ = write!(out, "  {kind:<18}{:>12}", grouped(*count));
    for value in [mean_us, p50_us, p95_us, p99_us, p99_9_us] {
        let _ = write!(out, "{:>11}", microseconds(*value));
    }
    let _ = writeln!(out, "{:>12}", microseconds(*max_us));
}

fn process_line(out: &mut String, process: &ProcessReport) {
    let cpu = process.cpu_seconds();
    let per_operation = match process.cpu_us_per_operation {
        Some(us) => format!("{us:.1} µs CPU an operation ({cpu:.1} s)"),
        None => format!("{cpu:.1} s CPU"),
    };
    let written = match process.written_bytes {
        Some(bytes) => format!(", {} MiB written", grouped(bytes >> 20)),
        None => String::new(),
    };
    let host = process.host.as_ref().map_or(String::new(), |host| format!(" on {host}"));
    let files = process.open_files.map_or(String::new(), |files| format!(", {files} open files"));
    let _ = writeln!(
        out,
        "  {}{host}: {per_operation}, at most {} MiB resident, {} threads{files}{written}",
        process.role,
        grouped(process.rss_bytes_max >> 20),
        process.threads
    );
}

/// Formats the medians over the repeats with their spread, one line per phase; empty for a single
/// repeat.
pub fn summary(report: &Report) -> String {
    let mut out = String::new();
    if report.driving.repeats < 2 {
        return out;
    }
    let _ = writeln!(out, "medians of {} (least to most)", report.driving.repeats);
    let _ = writeln!(out, "  {:<10}{:>10}{:>26}{:>14}", "phase", "ops/s", "(least to most)", "CPU µs/op");
    let mut names: Vec<&str> = Vec::new();
    for phase in &report.phases {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    for name in names {
        let phases: Vec<&PhaseReport> = report.phases.iter().filter(|phase| phase.name == name).collect();
        let (least, middle, most) = spread(phases.iter().map(|phase| phase.throughput));
        let range = format!("({} to {})", grouped(least.round() as u64), grouped(most.round() as u64));
        let cpu = phases.iter().filter_map(|phase| phase.processes.first()?.cpu_us_per_operation);
        let (_, cpu, _) = spread(cpu);
        let _ = writeln!(out, "  {name:<10}{:>10}{range:>26}{cpu:>14.1}", grouped(middle.round() as u64));
    }
    out
}

/// Returns minimum, median and maximum; zeros without values. The median of an even number of
/// values is the mean of the middle two.
fn spread(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (values.first(), values.last()) else { return (0.0, 0.0, 0.0) };
    let half = values.len() / 2;
    let median = if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 };
    (*least, median, *most)
}

/// Formats microseconds with significant digits: 3.21, 45.6, 12,345.
fn microseconds(us: f64) -> String {
    match us {
        ..10.0 => format!("{us:.2}"),
        ..1000.0 => format!("{us:.1}"),
        _ => grouped(us.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::recording::Recorder;
    use crate::recording::recorder::Timing;
    use crate::workload::{Failure, OperationKind};

    #[test]
    fn thousands_are_apart() {
        let shown = [0, 999, 1000, 12345, 1234567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "12,345", "1,234,567"]);
        assert_eq!([3.214, 45.64, 12345.4].map(microseconds), ["3.21", "45.6", "12,345"]);
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(spread([3.0, 1.0, 2.0].into_iter()), (1.0, 2.0, 3.0));
        assert_eq!(spread([4.0, 1.0, 2.0, 3.0].into_iter()), (1.0, 2.5, 4.0));
        assert_eq!(spread([].into_iter()), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_phase_shows_failures_and_aligned_columns() {
        let mut recorder = Recorder::new(Arc::default());
        let start = Instant::now();
        let end = start + Duration::from_micros(200);
        recorder.operation(OperationKind::Read, Timing { intended: None, start, end });
        recorder.operation(OperationKind::ReadModifyWrite, Timing { intended: None, start, end });
        recorder.failure(Failure::not_found("user1"));
        let mut report = PhaseReport::of("run f".into(), 1, 0.5, &recorder, &[]);
        report.processes.push(ProcessReport {
            role: "server".into(),
            pid: 1,
            host: None,
            user_seconds: 0.25,
            system_seconds: 0.5,
            cpu_us_per_operation: Some(84.25),
            rss_bytes_max: 5 << 20,
            threads: 3,
            open_files: Some(40),
            written_bytes: Some(7 << 20),
            read_bytes: None,
        });
        let expected = "\
run f: 2 operations in 0.50 s, 4 ops/s, 1 FAILED
  failed 1 times: not found; the first: record user1 not found
  latency in µs            count       mean        p50        p95        p99      p99.9         max
  READ                         1      200.1      200.1      200.1      200.1      200.1       200.1
  READ-MODIFY-WRITE            1      200.1      200.1      200.1      200.1      200.1       200.1
  server: 84.2 µs CPU an operation (0.8 s), at most 5 MiB resident, 3 threads, 40 open files, 7 MiB written
";
        // The histogram rounds 200.0 to its buckets.
        let shown = phase(&report).replace("200.0", "200.1");
        assert_eq!(shown, expected);
    }
}
