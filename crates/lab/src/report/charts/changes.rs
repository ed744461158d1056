//! What changes against the baseline, of all phases in one chart.

use std::fmt::Write;

use super::axis::{Axis, tick};
use super::{BELOW, LETTER, difference, figure, fill_class, shortened};
use crate::experiments::Analysis;
use crate::experiments::analysis::{Metric, PhaseAnalysis};
use crate::report::html::escaped;

const WIDTH: f64 = 560.0;
const LABELS: f64 = 215.0;
const ROW: f64 = 24.0;

/// At most so many comparisons are drawn, the surest ones: more are no overview.
const ROWS_MAX: usize = 24;

/// The metrics of a chart: its title, what lies left and right of no change, and whether it
/// contains a metric of a phase.
type Family = (&'static str, &'static str, fn(&PhaseAnalysis, &Metric) -> bool);

const FAMILIES: [Family; 3] = [
    ("Throughput", "← slower · faster →", |phase, metric| !phase.paced && metric.higher_is_better()),
    ("99th percentile of latencies", "← shorter · longer →", |phase, metric| {
        phase.paced && metric.name.ends_with(" p99") && !metric.name.contains(", step ")
    }),
    ("Processor time of an operation", "← less · more →", |_, metric| metric.name == "CPU/op"),
];

/// A comparison: its label, the group, and the change and its interval in percent.
struct Change {
    label: String,
    group: usize,
    percent: f64,
    interval: Option<(f64, f64)>,
    p: f64,
    difference: Option<(&'static str, String)>,
}

/// Draws the first two kinds of metrics of which there are comparisons.
pub(in crate::report) fn changes(out: &mut String, analysis: &Analysis) {
    let charts = FAMILIES.iter().map(|family| (family, found(analysis, family.2)));
    let charts: Vec<_> = charts.filter(|(_, changes)| !changes.is_empty()).take(2).collect();
    if charts.is_empty() {
        return;
    }
    out.push_str("<div class=\"pair\">");
    for ((title, directions, _), changes) in charts {
        chart(out, title, directions, changes);
    }
    out.push_str("</div>");
}

fn found(analysis: &Analysis, belongs: fn(&PhaseAnalysis, &Metric) -> bool) -> Vec<Change> {
    let mut changes = Vec::new();
    // The engine is the same in most runs, and labels are short.
    let engine = analysis.groups.first().map(|group| &group.engine);
    let is_one = analysis.groups.iter().all(|group| Some(&group.engine) == engine);
    for phase in &analysis.phases {
        for metric in phase.metrics.iter().filter(|metric| belongs(phase, metric)) {
            for (index, group) in analysis.groups.iter().enumerate() {
                let Some(comparison) = &metric.comparisons[index] else { continue };
                let percent = |ratio: f64| (ratio - 1.0) * 100.0;
                let kind = metric.name.strip_suffix(" p99").map_or(String::new(), |kind| format!(" {kind}"));
                let group = if is_one { group.configuration.clone() } else { group.label() };
                changes.push(Change {
                    label: format!("{}{kind}: {group}", phase.name),
                    group: index,
                    percent: percent(comparison.ratio),
                    interval: comparison
                        .interval
                        .map(|interval| (percent(interval.low), percent(interval.high))),
                    p: comparison.p,
                    difference: difference(analysis, metric, index),
                });
            }
        }
    }
    if changes.len() > ROWS_MAX {
        let mut surest: Vec<f64> = changes.iter().map(|change| change.p).collect();
        surest.sort_by(f64::total_cmp);
        let most = surest[ROWS_MAX - 1];
        changes.retain(|change| change.p <= most);
        changes.truncate(ROWS_MAX);
    }
    changes
}

fn chart(out: &mut String, title: &str, directions: &str, changes: Vec<Change>) {
    // An interval of a few noisy repeats must not make all others points.
    let largest = changes.iter().map(|change| change.percent.abs()).fold(10.0, f64::max) * 2.5;
    let ends = |change: &Change| change.interval.unwrap_or((change.percent, change.percent));
    let low = changes.iter().map(|change| ends(change).0).fold(0.0, f64::min).max(-largest);
    let high = changes.iter().map(|change| ends(change).1).fold(0.0, f64::max).min(largest);
    let axis = Axis::linear((low, high), (LABELS + 8.0, WIDTH - 14.0));
    let bottom = ROW * changes.len() as f64 + 4.0;
    let mut body = String::new();
    for at in axis.ticks() {
        let class = if at == 0.0 { "zero" } else { "grid" };
        let x = axis.at(at);
        let _ = write!(
            body,
            "<path class=\"{class}\" d=\"M{x:.1} 0V{bottom:.1}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{}{}</text>",
            bottom + 13.0,
            if at > 0.0 { "+" } else { "" },
            tick(at)
        );
    }
    let mut described = Vec::new();
    for (row, change) in changes.iter().enumerate() {
        let y = row as f64 * ROW + ROW / 2.0 + 2.0;
        let class = change.difference.as_ref().map_or("", |(class, _)| *class);
        let (low, high) = ends(change);
        let _ = write!(
            body,
            "<text class=\"{class}\" x=\"0\" y=\"{:.1}\">{}</text>\
             <path class=\"interval\" d=\"M{:.1} {y:.1}H{:.1}\"/>\
             <circle class=\"{}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>",
            y + 4.0,
            escaped(&shortened(&change.label, (LABELS / LETTER) as usize)),
            axis.at(low),
            axis.at(high),
            fill_class(change.group),
            axis.at(change.percent)
        );
        let verdict = match &change.difference {
            Some((_, words)) => words.clone(),
            None => "no difference shown".to_owned(),
        };
        described.push(format!("{}: {:+.1} %, {verdict}", change.label, change.percent));
    }
    let _ = write!(
        body,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{directions}</text>",
        axis.at(0.0).clamp(LABELS + 60.0, WIDTH - 70.0),
        bottom + 13.0 + BELOW
    );
    let title = format!("{title}, change in % with its 95 % interval");
    let alternative = format!("{title}. {}", described.join("; "));
    figure(out, &title, (WIDTH, bottom + 2.0 * BELOW), &alternative, &body);
}
