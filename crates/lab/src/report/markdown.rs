//! The report of a run as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::matrix;
use crate::cql::{CONSISTENCY, NODES, REPLICATION, STATEMENT_CONSISTENCY, TOKEN_AWARENESS};
use crate::experiments::analysis::{Metric, NO_DIFFERENCE, PhaseAnalysis};
use crate::experiments::{Analysis, ExperimentFile, PartResult, RunInfo};
use crate::format::rounded;
use crate::reasons;
use crate::statistics::{Estimate, Verdict};

/// Beyond this many, the terminal shows the number of "no difference shown" verdicts instead of
/// each.
const NONE_TOLD_MAX: usize = 6;

/// Formats the output for the terminal: the verdicts, and a table per phase.
pub fn summary(analysis: &Analysis) -> String {
    let mut out = String::new();
    let is_none = |verdict: &&String| verdict.contains(NO_DIFFERENCE);
    let none = analysis.verdicts.iter().filter(is_none).count();
    for verdict in &analysis.verdicts {
        if none <= NONE_TOLD_MAX || !is_none(&verdict) {
            let _ = writeln!(out, "- {verdict}");
        }
    }
    if none > NONE_TOLD_MAX {
        let _ = writeln!(out, "- {NO_DIFFERENCE} in {none} more comparisons; the report has them.");
    }
    for phase in &analysis.phases {
        out.push_str(&terminal_table(analysis, phase));
    }
    let compared = analysis.groups.iter().any(|group| group.baseline.is_some());
    let marks = match (compared, analysis.across_runs) {
        (false, _) => "",
        (true, false) => "; ▲ higher and ▼ lower than what it is compared with (p < 0.05)",
        (true, true) => {
            "; ▲ higher and ▼ lower than in the first run, by more than the noise within each run"
        }
    };
    let _ = writeln!(out, "\nLatencies and CPU/op in µs{marks}.");
    out
}

/// Formats a table with groups as rows and throughput with its interval, processor time, and p50
/// and p99 of each kind of operation as columns.
fn terminal_table(analysis: &Analysis, phase: &PhaseAnalysis) -> String {
    let is_shown = |metric: &&Metric| {
        let latency = metric.name.ends_with(" p50") || metric.name.ends_with(" p99");
        metric.higher_is_better() || metric.name == "CPU/op" || (latency && !metric.name.contains(", step "))
    };
    let shown: Vec<&Metric> = phase.metrics.iter().filter(is_shown).collect();
    let mut rows = vec![vec![phase.name.clone()]];
    rows[0].extend(shown.iter().map(|metric| match metric.name.as_str() {
        "throughput" => "ops/s (95 % interval)".to_owned(),
        name => name.to_owned(),
    }));
    for (index, group) in analysis.groups.iter().enumerate() {
        if shown.iter().all(|metric| metric.estimates[index].is_none()) {
            continue;
        }
        let mut row = vec![format!("  {}", group.label())];
        row.extend(shown.iter().map(|metric| {
            let estimate = metric.estimates[index].as_ref();
            let text = match (metric.higher_is_better(), estimate) {
                (false, Some(estimate)) => rounded(estimate.mean),
                _ => estimated(estimate),
            };
            // The space of a mark is reserved, so that numbers are aligned.
            format!("{text}{:<2}", mark(metric, index))
        }));
        rows.push(row);
    }
    let width =
        |column: usize| rows.iter().map(|row| row[column].trim_end().chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut out = String::from("\n");
    for (number, row) in rows.iter().enumerate() {
        let mut line = format!("{:<1$}", row[0], widths[0]);
        for (cell, width) in row[1..].iter().zip(&widths[1..]) {
            let cell = if number == 0 { format!("{cell}  ") } else { cell.clone() };
            let _ = write!(line, "  {cell:>0$}", width + 2);
        }
        let _ = writeln!(out, "{line}");
    }
    out
}

/// Returns ` ▲` if the value is significantly higher than the baseline's, ` ▼` if it is lower.
pub(super) fn mark(metric: &Metric, group: usize) -> &'static str {
    match metric.comparisons[group].map(|comparison| comparison.verdict()) {
        Some(Verdict::Higher) => " ▲",
        Some(Verdict::Lower) => " ▼",
        _ => "",
    }
}

/// Formats the whole report.
pub fn report(
    info: &RunInfo,
    file: Option<&ExperimentFile>,
    analysis: &Analysis,
    parts: &[PartResult],
) -> String {
    let mut out = String::new();
    let title = file.map_or("", |file| file.title.as_str());
    let _ = writeln!(out, "# {}\n\n{title}\n", info.name);
    if parts.len() < info.parts.len() {
        let _ = writeln!(out, "**Not finished: {} of {} parts are done.**\n", parts.len(), info.parts.len());
    }
    out.push_str(&overview(analysis));
    out.push_str(&verdict(info, analysis, parts));
    out.push_str(&compared(analysis, parts));
    let _ = writeln!(
        out,
        "\n## Results in tables\n\nMeans over repeats with 95 % intervals; latencies in microseconds."
    );
    for phase in &analysis.phases {
        let _ = writeln!(out, "\n### {}\n", phase.name);
        out.push_str(&phase_table(analysis, phase));
    }
    out.push_str(&published(analysis));
    out.push_str(&counters(analysis, parts));
    out.push_str(&settings(parts));
    out.push_str(&super::agents::table(parts));
    out.push_str(&environment(info));
    out
}

/// Formats the headline and the matrix of phases and configurations.
fn overview(analysis: &Analysis) -> String {
    let labels: Vec<String> = analysis.groups.iter().map(|group| group.label()).collect();
    let mut out = format!("**{}**\n\n| phase | {} |\n", matrix::headline(analysis), labels.join(" | "));
    let _ = writeln!(out, "|---|{}", "--:|".repeat(labels.len()));
    for line in matrix::lines(analysis) {
        let cells = line.cells.iter().map(|cell| match cell {
            None => "-".to_owned(),
            Some(cell) => match cell.change {
                None => cell.text.clone(),
                Some(change) => format!("{}, {}", cell.text, change.word()),
            },
        });
        let _ = writeln!(out, "| {} | {} |", line.name, cells.collect::<Vec<_>>().join(" | "));
    }
    out.push('\n');
    out
}

/// Formats what the comparisons show, and why.
fn verdict(info: &RunInfo, analysis: &Analysis, parts: &[PartResult]) -> String {
    let mut out = String::from("## Verdict\n\n");
    for verdict in &analysis.verdicts {
        let _ = writeln!(out, "- {verdict}");
    }
    if analysis.verdicts.is_empty() {
        let _ = writeln!(out, "There is one configuration only, and nothing to compare it with.");
    }
    let reasons = reasons::of_run(info, analysis, parts);
    if !reasons.is_empty() {
        let _ = writeln!(out, "\n## Reasons\n");
        for reason in reasons {
            let _ = writeln!(out, "- {reason}");
        }
    }
    out
}

/// Formats published results beside those of this run, if the experiment has any.
fn published(analysis: &Analysis) -> String {
    let mut out = String::new();
    if analysis.published.is_empty() {
        return out;
    }
    let _ = writeln!(
        out,
        "\n## Published results beside ours\n\n\
         | phase | configuration | metric | published | ours | note |\n\
         |---|---|---|--:|---|---|"
    );
    for beside in &analysis.published {
        let published = &beside.published;
        let ours = beside.ours.iter();
        let ours: Vec<String> =
            ours.map(|(engine, estimate)| format!("{engine}: {}", estimated(Some(estimate)))).collect();
        let ours = if ours.is_empty() { "not measured".to_owned() } else { ours.join("; ") };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {ours} | {} |",
            published.phase,
            published.configuration,
            published.metric,
            rounded(published.value),
            published.note
        );
    }
    out
}

/// Formats the machine, the versions and the command.
fn environment(info: &RunInfo) -> String {
    let mut out = String::new();
    let machine = &info.machine;
    let _ = writeln!(
        out,
        "\n## Machine, versions, command\n\n- command: `{}`\n- started: {}\n- Cassette {}\n- machine: {}, {} \
         processors, {:.1} GiB, {}\n\
         - scale: {}\n- comparisons: Welch's t-test on logarithms of the repeats' results, corrected by Holm for all \
         comparisons of one metric\n",
        info.command,
        info.started_at,
        info.version,
        machine.processor,
        machine.processors,
        machine.memory_bytes as f64 / (1u64 << 30) as f64,
        machine.system,
        info.scale
    );
    out
}

/// Formats the requested settings of each group: the matrix values, in columns.
pub(super) fn compared(analysis: &Analysis, parts: &[PartResult]) -> String {
    let asked = |label: &str| {
        let part = parts.iter().find(|result| result.part.label() == label);
        let mut asked = part.map(|result| result.options.clone()).unwrap_or_default();
        if let Some(table) = part.map(|result| &result.table).filter(|table| !table.is_empty()) {
            asked.insert("table WITH".into(), table.clone());
        }
        asked
    };
    let rows: Vec<_> = analysis.groups.iter().map(|group| (group, asked(&group.label()))).collect();
    let mut names: Vec<&String> = rows.iter().flat_map(|(_, asked)| asked.keys()).collect();
    names.sort();
    names.dedup();
    let mut out =
        String::from("\n## What was compared\n\n| engine, configuration | repeats | compared with |");
    names.iter().for_each(|name| {
        let _ = write!(out, " {name} |");
    });
    let _ = writeln!(out, "\n|---|--:|---|{}", "---|".repeat(names.len()));
    for (group, asked) in &rows {
        let with = group.baseline.map_or("-".to_owned(), |baseline| analysis.groups[baseline].label());
        let _ = write!(out, "| {} | {} | {with} |", group.label(), group.repeats);
        for name in &names {
            let value = asked.get(*name).map_or("default".to_owned(), |value| value.replace('|', "\\|"));
            let _ = write!(out, " {value} |");
        }
        out.push('\n');
    }
    out.push_str(&clusters(parts));
    out
}

/// Formats, for each server, what determines how many nodes a request involves.
fn clusters(parts: &[PartResult]) -> String {
    let mut servers: BTreeMap<&str, String> = BTreeMap::new();
    for result in parts {
        let settings = &result.engine.settings;
        let Some(awareness) = settings.get(TOKEN_AWARENESS) else { continue };
        let mut text = match settings.get(NODES).map(String::as_str) {
            Some("1") => "one node".to_owned(),
            Some(nodes) => format!("{nodes} nodes"),
            None => "an unknown number of nodes".to_owned(),
        };
        for name in [REPLICATION, CONSISTENCY, STATEMENT_CONSISTENCY] {
            if let Some(value) = settings.get(name) {
                let _ = write!(text, "; {name} {value}");
            }
        }
        let _ = write!(text, "; {TOKEN_AWARENESS} {awareness}");
        servers.entry(&result.part.engine).or_insert(text);
    }
    let lines = servers.iter().map(|(engine, text)| format!("- {engine}: {text}\n"));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Formats the results of a phase in two tables: throughput and processor time of each group; and,
/// with a row for each kind of operation of each group, its latencies. So neither is wide.
fn phase_table(analysis: &Analysis, phase: &PhaseAnalysis) -> String {
    const LATENCIES: [&str; 4] = ["mean", "p50", "p95", "p99"];
    let mut out = String::new();
    let is_latency = |metric: &&Metric| metric.name.contains(' ');
    let shown: Vec<&Metric> = phase.metrics.iter().filter(|metric| !is_latency(metric)).collect();
    let names: Vec<&str> = shown.iter().map(|metric| metric.name.as_str()).collect();
    let _ = writeln!(out, "| engine, configuration | {} |", names.join(" | "));
    let _ = writeln!(out, "|---|{}", "--:|".repeat(shown.len()));
    let cell = |metric: &Metric, index: usize| {
        format!("{}{}", estimated(metric.estimates[index].as_ref()), mark(metric, index))
    };
    for (index, group) in analysis.groups.iter().enumerate() {
        if shown.iter().any(|metric| metric.estimates[index].is_some()) {
            let cells: Vec<String> = shown.iter().map(|metric| cell(metric, index)).collect();
            let _ = writeln!(out, "| {} | {} |", group.label(), cells.join(" | "));
        }
    }
    // Steps of operations and the 99.9th percentile are only in the raw results.
    let kinds = phase.metrics.iter().filter_map(|metric| metric.name.strip_suffix(" mean"));
    let kinds: Vec<&str> = kinds.filter(|kind| !kind.contains(", step ")).collect();
    if kinds.is_empty() {
        return out;
    }
    let _ = writeln!(out, "\n| operation, engine, configuration | {} |", LATENCIES.join(" | "));
    let _ = writeln!(out, "|---|{}", "--:|".repeat(LATENCIES.len()));
    for kind in kinds {
        let of_kind = LATENCIES.map(|latency| {
            let name = format!("{kind} {latency}");
            phase.metrics.iter().find(|metric| metric.name == name)
        });
        for (index, group) in analysis.groups.iter().enumerate() {
            if of_kind.iter().flatten().any(|metric| metric.estimates[index].is_some()) {
                let cells = of_kind.map(|metric| metric.map_or("-".to_owned(), |metric| cell(metric, index)));
                let _ = writeln!(out, "| {kind}: {} | {} |", group.label(), cells.join(" | "));
            }
        }
    }
    out
}

/// Formats a mean with its interval: `1,234 (1,200 to 1,268)`.
pub fn estimated(estimate: Option<&Estimate>) -> String {
    match estimate {
        None => "-".into(),
        Some(Estimate { mean, interval: None, .. }) => rounded(*mean),
        Some(Estimate { mean, interval: Some(interval), .. }) => {
            format!("{} ({} to {})", rounded(*mean), rounded(interval.low), rounded(interval.high))
        }
    }
}

/// Formats the engine's counters over each phase: means over repeats, growth of monotonic counters,
/// final values of others.
fn counters(analysis: &Analysis, parts: &[PartResult]) -> String {
    let mut out = String::new();
    for phase in &analysis.phases {
        let mut rows: BTreeMap<String, Vec<Vec<f64>>> = BTreeMap::new();
        for (index, group) in analysis.groups.iter().enumerate() {
            for result in parts.iter().filter(|result| result.part.label() == group.label()) {
                let found = result.phases.iter().filter(|found| found.name == phase.name);
                for statistics in found.filter_map(|found| found.statistics.as_ref()) {
                    for (name, value) in reasons::counted(statistics) {
                        let row = rows.entry(name).or_insert_with(|| vec![Vec::new(); analysis.groups.len()]);
                        row[index].push(value);
                    }
                }
            }
        }
        if rows.is_empty() {
            continue;
        }
        if out.is_empty() {
            out.push_str("\n## What the engines counted\n");
        }
        let labels: Vec<String> = analysis.groups.iter().map(|group| group.label()).collect();
        let _ = writeln!(
            out,
            "\n### {}\n\n| counter | {} |\n|---|{}",
            phase.name,
            labels.join(" | "),
            "--:|".repeat(labels.len())
        );
        // Counters that stayed 0 everywhere are omitted.
        let is_zero = |values: &Vec<Vec<f64>>| values.iter().flatten().all(|value| *value == 0.0);
        let (zero, rows): (BTreeMap<_, _>, BTreeMap<_, _>) =
            rows.into_iter().partition(|(_, values)| is_zero(values));
        for (name, values) in rows {
            let cell = |values: &Vec<f64>| {
                if values.is_empty() { "-".into() } else { rounded(crate::statistics::mean(values)) }
            };
            let cells: Vec<String> = values.iter().map(cell).collect();
            let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
        }
        if !zero.is_empty() {
            let names: Vec<String> = zero.into_keys().collect();
            let _ = writeln!(out, "\n0 everywhere: {}.", names.join(", "));
        }
    }
    out
}

/// Formats the settings reported by the engines, those that differ between configurations first.
fn settings(parts: &[PartResult]) -> String {
    let mut columns: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    for result in parts {
        let label = result.part.label();
        if !columns.iter().any(|(known, _)| *known == label) {
            let mut settings = result.engine.settings.clone();
            settings.insert("engine".into(), format!("{} {}", result.engine.name, result.engine.version));
            columns.push((label, settings));
        }
    }
    columns.sort_by(|a, b| a.0.cmp(&b.0));
    let mut names: Vec<&String> = columns.iter().flat_map(|(_, settings)| settings.keys()).collect();
    names.sort();
    names.dedup();
    let differs = |name: &&String| {
        let mut values = columns.iter().map(|(_, settings)| settings.get(*name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let (different, same): (Vec<&String>, Vec<&String>) = names.into_iter().partition(differs);
    let mut out = String::from("\n## Settings reported by the engines\n");
    let labels: Vec<&str> = columns.iter().map(|(label, _)| label.as_str()).collect();
    let rule = "---|".repeat(labels.len());
    let mut table = |title: &str, names: Vec<&String>| {
        if names.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n### {title}\n\n| setting | {} |\n|---|{rule}", labels.join(" | "));
        for name in names {
            let cells: Vec<String> = columns
                .iter()
                .map(|(_, settings)| settings.get(name).map_or("-".into(), |value| value.replace('|', "\\|")))
                .collect();
            let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
        }
    };
    table("Those that differ", different);
    table("Those that are the same everywhere", same);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::analysis::tests::run_of;

    #[test]
    fn the_verdict_comes_first_and_results_have_intervals() {
        let (info, parts) =
            run_of(&[("base", &[1000.0, 1010.0, 990.0]), ("more", &[1500.0, 1510.0, 1490.0])]);
        let analysis = Analysis::new(&info, None, &parts);
        let text = report(&info, None, &analysis, &parts);
        let verdict = text.find("50.0 % faster").unwrap();
        assert!(verdict < text.find("## Results in tables").unwrap(), "{text}");
        assert!(text.contains("| noop, more | 1,500 (1,475 to 1,525) ▲ |"), "{text}");
    }

    #[test]
    fn the_terminal_aligns_numbers_and_counts_missing_differences() {
        let values: Vec<(String, Vec<f64>)> = (0..9)
            .map(|number| {
                (format!("number {number}"), vec![1000.0 + f64::from(number % 8 / 7) * 5e5, 1010.0, 990.0])
            })
            .collect();
        let groups: Vec<(&str, &[f64])> =
            values.iter().map(|(name, values)| (name.as_str(), &values[..])).collect();
        let (info, parts) = run_of(&groups);
        let text = summary(&Analysis::new(&info, None, &parts));
        assert!(text.contains("- no difference shown in 8 more comparisons"), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("  noop, number")).collect();
        let ends = rows.iter().map(|row| row.chars().count());
        assert_eq!(rows.len(), 9);
        assert!(ends.clone().min() == ends.max(), "{text}");
    }

    #[test]
    fn numbers_have_their_significant_digits() {
        assert_eq!(
            [0.123, 45.67, 1234.5, -5000.0, 3.0].map(rounded),
            ["0.12", "45.7", "1,235", "-5,000", "3"]
        );
    }
}
