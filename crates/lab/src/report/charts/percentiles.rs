//! Latencies by percentile, a line for each group.

use std::fmt::Write;

use super::axis::{Axis, tick};
use super::{BELOW, figure, fill_class, line_class};
use crate::experiments::Analysis;
use crate::experiments::analysis::PhaseAnalysis;
use crate::format::rounded;
use crate::report::html::escaped;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 180.0;
/// Width of the values beside the vertical axis.
const BESIDE: f64 = 40.0;

/// The percentiles of each operation.
const PERCENTILES: [&str; 4] = ["p50", "p95", "p99", "p99.9"];

/// Draws a chart for each operation of each phase.
pub(in crate::report) fn percentiles(out: &mut String, analysis: &Analysis) {
    let mut charts = String::new();
    for phase in &analysis.phases {
        let mut of_phase = String::new();
        let kinds = phase.metrics.iter().filter_map(|metric| metric.name.strip_suffix(" p50"));
        for kind in kinds.filter(|kind| !kind.contains(", step ")) {
            chart(&mut of_phase, analysis, phase, kind);
        }
        if !of_phase.is_empty() {
            let _ = write!(charts, "<h3>{}</h3><div class=\"charts\">{of_phase}</div>", escaped(&phase.name));
        }
    }
    if charts.is_empty() {
        return;
    }
    out.push_str(
        "<section aria-labelledby=\"percentiles\"><h2 id=\"percentiles\">Latencies by percentile</h2>\
         <p>Means over repeats. Lower is better; each line of the grid is a multiple of the one below.</p>",
    );
    super::legend(out, analysis);
    let _ = writeln!(out, "{charts}</section>");
}

fn chart(out: &mut String, analysis: &Analysis, phase: &PhaseAnalysis, kind: &str) {
    let mean = |group: usize, percentile: &str| {
        let name = format!("{kind} {percentile}");
        let metric = phase.metrics.iter().find(|metric| metric.name == name)?;
        metric.estimates.get(group)?.as_ref().map(|estimate| estimate.mean).filter(|mean| *mean > 0.0)
    };
    let lines: Vec<(usize, Vec<(usize, f64)>)> = (0..analysis.groups.len())
        .map(|group| {
            let points = PERCENTILES.iter().enumerate();
            (group, points.filter_map(|(at, name)| Some((at, mean(group, name)?))).collect())
        })
        .filter(|(_, points): &(usize, Vec<_>)| points.len() > 1)
        .collect();
    let values = || lines.iter().flat_map(|(_, points)| points.iter().map(|(_, value)| *value));
    if lines.is_empty() {
        return;
    }
    let ends = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let axis = Axis::logarithmic(ends, (HEIGHT, 8.0));
    let x = |at: usize| {
        let last = PERCENTILES.len() as f64 - 1.0;
        BESIDE + 10.0 + at as f64 / last * (WIDTH - BESIDE - 30.0)
    };
    let mut body = String::new();
    for value in axis.ticks() {
        let y = axis.at(value);
        let _ = write!(
            body,
            "<path class=\"grid\" d=\"M{BESIDE} {y:.1}H{WIDTH}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            BESIDE - 4.0,
            y + 4.0,
            tick(value)
        );
    }
    for (at, name) in PERCENTILES.iter().enumerate() {
        let _ = write!(
            body,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
            x(at),
            HEIGHT + 14.0
        );
    }
    let mut described = Vec::new();
    for (group, points) in &lines {
        let path: Vec<String> =
            points.iter().map(|(at, value)| format!("{:.1} {:.1}", x(*at), axis.at(*value))).collect();
        let _ = write!(body, "<path class=\"line {}\" d=\"M{}\"/>", line_class(*group), path.join("L"));
        let mut texts = Vec::new();
        for (at, value) in points {
            let text = format!("{} {}", PERCENTILES[*at], rounded(*value));
            let label = analysis.groups[*group].label();
            let _ = write!(
                body,
                "<circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: {text} µs</title></circle>",
                fill_class(*group),
                x(*at),
                axis.at(*value),
                escaped(&label)
            );
            texts.push(text);
        }
        described.push(format!("{}: {}", analysis.groups[*group].label(), texts.join(", ")));
    }
    let alternative = format!("{}, {kind}, latencies in µs. {}", phase.name, described.join("; "));
    figure(out, &format!("{kind}, µs"), (WIDTH, HEIGHT + BELOW), &alternative, &body);
}
