//! The results of all repeats, metric by metric.

use std::fmt::Write;

use super::axis::{Axis, tick};
use super::{BELOW, LETTER, difference, figure, fill_class, shortened, unit};
use crate::experiments::Analysis;
use crate::experiments::analysis::{Metric, PhaseAnalysis};
use crate::format::rounded;
use crate::report::html::escaped;
use crate::report::markdown::{estimated, mark};
use crate::statistics::Estimate;

const WIDTH: f64 = 340.0;
const ROW: f64 = 40.0;

/// Draws the metrics of all phases.
pub(in crate::report) fn repeats(out: &mut String, analysis: &Analysis) {
    out.push_str(
        "<section aria-labelledby=\"repeats\"><h2 id=\"repeats\">All repeats</h2>\
        <p>Bars are means, points are repeats, and thin lines are 95&nbsp;% intervals of the means. Longer is better \
        for throughput, shorter for processor time and latency. <span class=\"good\">Better</span> and \
        <span class=\"worse\">worse</span> than what it is compared with are marked where the difference is \
        significant (p &lt; 0.05).</p>",
    );
    for phase in &analysis.phases {
        let _ = write!(out, "<h3>{}</h3><div class=\"charts\">", escaped(&phase.name));
        for metric in charted(phase) {
            chart(out, analysis, phase, metric);
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

fn chart(out: &mut String, analysis: &Analysis, phase: &PhaseAnalysis, metric: &Metric) {
    let found: Vec<(usize, &Estimate)> = metric
        .estimates
        .iter()
        .enumerate()
        .filter_map(|(index, found)| Some((index, found.as_ref()?)))
        .collect();
    // An interval may be far longer than the repeats; it ends where the chart does.
    let largest = metric.values.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
    let highs = found.iter().filter_map(|(_, estimate)| Some(estimate.interval?.high));
    let largest = highs.fold(largest, f64::max).min(largest * 1.5);
    let axis = Axis::linear((0.0, largest), (1.0, WIDTH - 14.0));
    let bottom = ROW * found.len() as f64 + 4.0;
    let unit = unit(&metric.name);
    let mut body = String::new();
    for at in axis.ticks() {
        let x = axis.at(at);
        let anchor = if at == 0.0 { "start" } else { "middle" };
        let _ = write!(
            body,
            "<path class=\"grid\" d=\"M{x:.1} 0V{bottom:.1}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" \
             text-anchor=\"{anchor}\">{}</text>",
            bottom + 13.0,
            tick(at)
        );
    }
    let mut described = Vec::new();
    for (row, (index, estimate)) in found.iter().enumerate() {
        let y = row as f64 * ROW;
        let value = format!("{}{}", rounded(estimate.mean), mark(metric, *index));
        let difference = difference(analysis, metric, *index);
        let class = difference.as_ref().map_or("", |(class, _)| *class);
        // The label must leave room for the value.
        let room = (WIDTH - LETTER * (value.chars().count() + 2) as f64) / LETTER;
        let fill = fill_class(*index);
        let _ = write!(
            body,
            "<text x=\"0\" y=\"{:.1}\">{}</text><text x=\"{WIDTH}\" y=\"{:.1}\" class=\"value {class}\">{value}</text>\
             <rect class=\"bar {fill}\" x=\"1\" y=\"{:.1}\" width=\"{:.1}\" height=\"16\" rx=\"2\"/>",
            y + 13.0,
            escaped(&shortened(&analysis.groups[*index].label(), room as usize)),
            y + 13.0,
            y + 18.0,
            axis.at(estimate.mean) - 1.0
        );
        let middle = y + 26.0;
        if let Some(interval) = estimate.interval {
            let (low, high) = (axis.at(interval.low), axis.at(interval.high));
            let _ = write!(body, "<path class=\"interval\" d=\"M{low:.1} {middle:.1}H{high:.1}\"/>");
        }
        for value in &metric.values[*index] {
            let _ = write!(
                body,
                "<circle class=\"repeat {fill}\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"4\"/>",
                axis.at(*value)
            );
        }
        let verdict = difference.map_or(String::new(), |(_, words)| format!(", {words}"));
        described.push(format!(
            "{}: {}{verdict}",
            analysis.groups[*index].label(),
            estimated(Some(estimate))
        ));
    }
    let title = format!("{}, {unit}", metric.name);
    let alternative = format!("{}, {} in {unit}. {}", phase.name, metric.name, described.join("; "));
    figure(out, &title, (WIDTH, bottom + BELOW), &alternative, &body);
}
