//! Charts of a report, as SVG: bars with intervals compare groups, lines are the series of one
//! part.

use std::fmt::Write;

use super::html::escaped;
use super::markdown::{self, mark};
use crate::experiments::analysis::{Metric, PhaseAnalysis};
use crate::experiments::{Analysis, PartResult};
use crate::format::rounded;
use crate::statistics::{Estimate, Verdict};

/// Maximum number of points in a line: a phone is no wider.
const POINTS_MAX: usize = 600;

/// Width of charts in their units, which are about a pixel of the column.
const WIDTH: f64 = 340.0;

/// Approximate width of a letter.
const LETTER: f64 = 6.2;

/// Draws the bars of all phases.
pub(super) fn charts(out: &mut String, analysis: &Analysis) {
    out.push_str(
        "<section aria-labelledby=\"charts\"><h2 id=\"charts\">Charts</h2>\
        <p>Means over repeats; the thin line is the 95&nbsp;% interval. Longer is better for throughput, shorter for \
        processor time and latency. <span class=\"good\">Better</span> and <span class=\"worse\">worse</span> \
        than what it is compared with are marked where the difference is significant (p &lt; 0.05).</p>",
    );
    for phase in &analysis.phases {
        let _ = write!(out, "<h3>{}</h3><div class=\"charts\">", escaped(&phase.name));
        for metric in charted(phase) {
            bars(out, analysis, phase, metric);
        }
        out.push_str("</div>");
    }
    out.push_str("</section>\n");
}

/// Returns the charted metrics: throughput, processor time, and mean and 99th percentile of each
/// operation.
fn charted(phase: &PhaseAnalysis) -> impl Iterator<Item = &Metric> {
    phase.metrics.iter().filter(|metric| {
        let latency = metric.name.ends_with(" mean") || metric.name.ends_with(" p99");
        metric.higher_is_better() || metric.name == "CPU/op" || (latency && !metric.name.contains(", step "))
    })
}

/// Returns a significant difference between a group and its baseline: the style class and the text.
fn difference(analysis: &Analysis, metric: &Metric, group: usize) -> Option<(&'static str, String)> {
    let comparison = metric.comparisons[group].as_ref()?;
    let baseline = analysis.groups[analysis.groups[group].baseline?].label();
    let word = match comparison.verdict() {
        Verdict::Higher => "higher",
        Verdict::Lower => "lower",
        _ => return None,
    };
    let class = if (comparison.ratio > 1.0) == metric.higher_is_better() { "good" } else { "worse" };
    let percent = (comparison.ratio - 1.0).abs() * 100.0;
    Some((class, format!("{percent:.1} % {word} than {baseline}")))
}

/// Draws one bar per group with its interval.
fn bars(out: &mut String, analysis: &Analysis, phase: &PhaseAnalysis, metric: &Metric) {
    const ROW: f64 = 40.0;
    let found: Vec<(usize, &Estimate)> = metric
        .estimates
        .iter()
        .enumerate()
        .filter_map(|(index, found)| Some((index, found.as_ref()?)))
        .collect();
    let largest = found
        .iter()
        .map(|(_, estimate)| {
            estimate.interval.map_or(estimate.mean, |interval| interval.high.max(estimate.mean))
        })
        .fold(f64::MIN_POSITIVE, f64::max);
    let unit = match metric.name.as_str() {
        "CPU/op" => "µs of processor time",
        _ if metric.higher_is_better() => "operations a second",
        _ => "µs",
    };
    let described: Vec<String> = found
        .iter()
        .map(|(index, estimate)| {
            let verdict =
                difference(analysis, metric, *index).map_or(String::new(), |(_, words)| format!(", {words}"));
            format!("{}: {}{verdict}", analysis.groups[*index].label(), markdown::estimated(Some(estimate)))
        })
        .collect();
    let height = ROW * found.len() as f64 + 4.0;
    let _ = write!(
        out,
        "<figure><figcaption>{}, {unit}</figcaption><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}\">",
        escaped(&metric.name),
        escaped(&format!("{}, {} in {unit}. {}", phase.name, metric.name, described.join("; ")))
    );
    let x = |value: f64| (value.max(0.0) / largest) * (WIDTH - 2.0);
    for (row, (index, estimate)) in found.iter().enumerate() {
        let y = row as f64 * ROW;
        let value = format!("{}{}", rounded(estimate.mean), mark(metric, *index));
        let class = difference(analysis, metric, *index).map_or("", |(class, _)| class);
        // The label must leave room for the value.
        let room = (WIDTH - LETTER * (value.chars().count() + 2) as f64) / LETTER;
        let _ = write!(
            out,
            "<text x=\"0\" y=\"{:.1}\">{}</text><text x=\"{WIDTH}\" y=\"{:.1}\" class=\"value {class}\">{value}</text>\
             <rect class=\"bar g{}\" x=\"0\" y=\"{:.1}\" width=\"{:.1}\" height=\"16\" rx=\"2\"/>",
            y + 13.0,
            escaped(&shortened(&analysis.groups[*index].label(), room as usize)),
            y + 13.0,
            index % 6,
            y + 18.0,
            x(estimate.mean)
        );
        if let Some(interval) = estimate.interval {
            let (low, high, middle) = (x(interval.low), x(interval.high), y + 26.0);
            let _ = write!(
                out,
                "<path class=\"interval\" d=\"M{low:.1} {:.1}V{:.1}M{low:.1} {middle:.1}H{high:.1}M{high:.1} \
                 {:.1}V{:.1}\"/>",
                middle - 5.0,
                middle + 5.0,
                middle - 5.0,
                middle + 5.0
            );
        }
    }
    out.push_str("</svg></figure>");
}

/// Shortens a text to this many letters by removing its middle, because beginnings and ends
/// distinguish labels.
fn shortened(text: &str, letters: usize) -> String {
    let count = text.chars().count();
    if count <= letters {
        return text.to_owned();
    }
    let (first, last) = (letters.saturating_sub(1).div_ceil(2), letters.saturating_sub(1) / 2);
    let (first, last): (String, String) =
        (text.chars().take(first).collect(), text.chars().skip(count - last).collect());
    format!("{first}…{last}")
}

/// A line of a series: its name, and the value of each second.
type Line = (&'static str, fn(&crate::run::Second) -> Option<f64>);

const LINES: &[Line] = &[
    ("operations a second", |second| Some(second.throughput())),
    ("p99 of all operations, µs", |second| second.p99_us),
    ("processors busy, server", |second| Some(second.server_cpu)),
    ("processors busy, client", |second| Some(second.client_cpu)),
    ("resident memory, MiB", |second| Some(second.rss_bytes as f64 / f64::from(1 << 20))),
    ("read from disk, MiB a second", |second| Some(second.read_bytes as f64 / f64::from(1 << 20))),
    ("written to disk, MiB a second", |second| Some(second.written_bytes as f64 / f64::from(1 << 20))),
    ("compactions pending", |second| second.counters.get("compactions_pending").copied()),
    ("SSTables", |second| second.counters.get("sstables").copied()),
    ("SSTables without a level", |second| second.counters.get("sstables_unleveled").copied()),
    ("disk used, MiB", |second| second.counters.get("disk_bytes").map(|bytes| bytes / f64::from(1 << 20))),
];

/// Draws the first repeat of each group, all phases in sequence.
pub(super) fn series(out: &mut String, analysis: &Analysis, parts: &[PartResult]) {
    out.push_str(
        "<section aria-labelledby=\"series\"><h2 id=\"series\">Second by second</h2>\
        <p>One repeat of each configuration. Dashed lines are where phases begin; the number at the left is the \
        highest point.</p>",
    );
    for (index, group) in analysis.groups.iter().enumerate() {
        let label = group.label();
        // The first one is open, to show that there is something to see.
        let open = if index == 0 { " open" } else { "" };
        let Some(result) = parts.iter().find(|result| result.part.label() == label) else { continue };
        let phases: Vec<String> = result
            .phases
            .iter()
            .map(|phase| format!("{} s {}", rounded(phase.at.round()), phase.name))
            .collect();
        let _ = write!(
            out,
            "<details{open}><summary>{}, repeat {}</summary><p>Phases: {}.</p><div class=\"charts\">",
            escaped(&label),
            result.part.repeat,
            escaped(&phases.join(", "))
        );
        for (name, value) in LINES {
            line(out, result, name, *value);
        }
        out.push_str("</div></details>");
    }
    out.push_str("</section>\n");
}

fn line(out: &mut String, result: &PartResult, name: &str, value: fn(&crate::run::Second) -> Option<f64>) {
    const HEIGHT: f64 = 110.0;
    // Height below the chart for the names of the phases.
    const NAMES: f64 = 14.0;
    let end = result.phases.iter().map(|phase| phase.at + phase.seconds).fold(0.1, f64::max);
    let mut points: Vec<(f64, f64)> = Vec::new();
    for phase in &result.phases {
        let seconds = phase.statistics.iter().flat_map(|statistics| &statistics.series);
        points.extend(seconds.filter_map(|second| Some((phase.at + second.at, value(second)?))));
    }
    let largest = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    // Lines that would appear as 0 are omitted.
    if points.len() < 2 || largest < 0.005 {
        return;
    }
    // The greatest of neighbouring values represents them: a stall must not vanish.
    let together = points.len().div_ceil(POINTS_MAX);
    let thinned: Vec<(f64, f64)> = points
        .chunks(together)
        .map(|chunk| (chunk[0].0, chunk.iter().map(|(_, value)| *value).fold(0.0, f64::max)))
        .collect();
    let x = |at: f64| at / end * WIDTH;
    let y = |value: f64| HEIGHT - 4.0 - value / largest * (HEIGHT - 24.0);
    let mean = crate::statistics::mean(&points.iter().map(|(_, value)| *value).collect::<Vec<_>>());
    let _ = write!(
        out,
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
        escaped(name),
        HEIGHT + NAMES,
        escaped(&format!(
            "{name} over {end:.0} seconds: {} on average, {} at most",
            rounded(mean),
            rounded(largest)
        ))
    );
    for phase in &result.phases {
        let at = x(phase.at);
        let _ = write!(
            out,
            "<path class=\"mark\" d=\"M{at:.1} 14V{HEIGHT}\"><title>{}</title></path>",
            escaped(&phase.name)
        );
        let letters = (phase.seconds / end * WIDTH / LETTER) as usize;
        // Fewer letters are useless; the list above contains all names.
        if letters >= phase.name.chars().count().min(5) {
            let _ = write!(
                out,
                "<text class=\"phase\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                at + 2.0,
                HEIGHT + NAMES - 3.0,
                escaped(&shortened(&phase.name, letters))
            );
        }
    }
    let path: Vec<String> =
        thinned.iter().map(|(at, value)| format!("{:.1} {:.1}", x(*at), y(*value))).collect();
    let _ = write!(
        out,
        "<path class=\"line\" d=\"M{}\"/><text x=\"0\" y=\"10\">{}</text><text x=\"{WIDTH}\" y=\"10\" \
         class=\"value\">{end:.0} s</text></svg></figure>",
        path.join("L"),
        rounded(largest)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_keep_their_beginning_and_end() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("embedded, file_cache_size=64MiB", 11), "embed…64MiB");
        assert_eq!(shortened("abc", 1), "…");
        assert_eq!(shortened("abc", 0), "…");
    }
}
