//! Series of whole parts, second by second, with a line for each group.

use std::fmt::Write;

use super::axis::{Axis, tick};
use super::{BELOW, LETTER, figure, line_class, shortened};
use crate::experiments::{Analysis, PartResult};
use crate::format::rounded;
use crate::report::html::escaped;
use crate::run::Second;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 150.0;
/// Width of the values beside the vertical axis.
const BESIDE: f64 = 40.0;
/// Height above a chart for the names of its phases.
const ABOVE: f64 = 16.0;

/// Maximum number of points in a line.
const POINTS_MAX: usize = 300;

/// Phases that begin within this share of the time of all begin together.
const TOGETHER: f64 = 0.02;

/// A series: its name, and the value of each second.
type Series = (&'static str, fn(&Second) -> Option<f64>);

const MIB: f64 = (1 << 20) as f64;

const SERIES: &[Series] = &[
    ("operations a second", |second| Some(second.throughput())),
    ("p99 of all operations, µs", |second| second.p99_us),
    ("processors busy, server", |second| Some(second.server_cpu)),
    ("processors busy, client", |second| Some(second.client_cpu)),
    ("resident memory, MiB", |second| Some(second.rss_bytes as f64 / MIB)),
    ("read from disk, MiB a second", |second| Some(second.read_bytes as f64 / MIB)),
    ("written to disk, MiB a second", |second| Some(second.written_bytes as f64 / MIB)),
    ("compactions pending", |second| second.counters.get("compactions_pending").copied()),
    ("SSTables", |second| second.counters.get("sstables").copied()),
    ("SSTables without a level", |second| second.counters.get("sstables_unleveled").copied()),
    ("disk used, MiB", |second| second.counters.get("disk_bytes").map(|bytes| bytes / MIB)),
];

/// Draws the first repeat of each group, all phases in sequence.
pub(in crate::report) fn timelines(out: &mut String, analysis: &Analysis, parts: &[PartResult]) {
    let first = |label: &str| parts.iter().find(|result| result.part.label() == label);
    let shown: Vec<(usize, &PartResult)> = analysis
        .groups
        .iter()
        .enumerate()
        .filter_map(|(index, group)| Some((index, first(&group.label())?)))
        .collect();
    let mut charts = String::new();
    for series in SERIES {
        chart(&mut charts, analysis, &shown, series);
    }
    if charts.is_empty() {
        return;
    }
    out.push_str(
        "<section aria-labelledby=\"series\"><h2 id=\"series\">Second by second</h2>\
         <p>The first repeat of each configuration. Vertical lines are where phases begin, and where statements are \
         executed; they have the color of a configuration whose phases begin at other times than those of the \
         first.</p>",
    );
    super::legend(out, analysis);
    let phases = shown.first().map_or(String::new(), |(_, part)| starts(part));
    let _ = writeln!(out, "<p>Phases: {}.</p><div class=\"pair\">{charts}</div></section>", escaped(&phases));
}

/// Returns when each phase began, as text.
fn starts(part: &PartResult) -> String {
    let start =
        |phase: &crate::experiments::PhaseResult| format!("{} s {}", rounded(phase.at.round()), phase.name);
    part.phases.iter().map(start).collect::<Vec<_>>().join(", ")
}

/// Returns the points of a part, with the greatest of neighbouring values for all of them: a stall
/// must not vanish.
fn points(part: &PartResult, value: fn(&Second) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for phase in &part.phases {
        let seconds = phase.statistics.iter().flat_map(|statistics| &statistics.series);
        points.extend(seconds.filter_map(|second| Some((phase.at + second.at, value(second)?))));
    }
    let together = points.len().div_ceil(POINTS_MAX).max(1);
    let thinned = points.chunks(together);
    thinned.map(|chunk| (chunk[0].0, chunk.iter().map(|(_, value)| *value).fold(0.0, f64::max))).collect()
}

fn chart(out: &mut String, analysis: &Analysis, shown: &[(usize, &PartResult)], (name, value): &Series) {
    let lines: Vec<(usize, Vec<(f64, f64)>)> =
        shown.iter().map(|(group, part)| (*group, points(part, *value))).collect();
    let largest = lines.iter().flat_map(|(_, points)| points).map(|(_, value)| *value).fold(0.0, f64::max);
    // Lines that would appear as 0 are omitted.
    if lines.iter().all(|(_, points)| points.len() < 2) || largest < 0.005 {
        return;
    }
    let phases = shown.iter().flat_map(|(_, part)| &part.phases);
    let end = phases.map(|phase| phase.at + phase.seconds).fold(0.1, f64::max);
    let bottom = ABOVE + HEIGHT;
    let vertical = Axis::linear((0.0, largest), (bottom, ABOVE + 4.0));
    let horizontal = |at: f64| BESIDE + at / end * (WIDTH - BESIDE - 4.0);
    let mut body = String::new();
    for value in vertical.ticks() {
        let y = vertical.at(value);
        let _ = write!(
            body,
            "<path class=\"grid\" d=\"M{BESIDE} {y:.1}H{WIDTH}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            BESIDE - 4.0,
            y + 4.0,
            tick(value)
        );
    }
    for at in Axis::linear((0.0, end), (0.0, 1.0)).ticks().into_iter().filter(|at| *at <= end) {
        let _ = write!(
            body,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
            horizontal(at),
            bottom + 14.0,
            tick(at)
        );
    }
    marks(&mut body, shown, end, &horizontal, bottom);
    let mut described = Vec::new();
    for (group, points) in lines.iter().filter(|(_, points)| !points.is_empty()) {
        let path: Vec<String> = points
            .iter()
            .map(|(at, value)| format!("{:.1} {:.1}", horizontal(*at), vertical.at(*value)))
            .collect();
        let _ = write!(body, "<path class=\"line {}\" d=\"M{}\"/>", line_class(*group), path.join("L"));
        let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
        let highest = values.iter().copied().fold(0.0, f64::max);
        described.push(format!(
            "{}: {} on average, {} at most",
            analysis.groups[*group].label(),
            rounded(crate::statistics::mean(&values)),
            rounded(highest)
        ));
    }
    let alternative = format!("{name} over {end:.0} seconds. {}", described.join("; "));
    figure(out, name, (WIDTH, bottom + BELOW), &alternative, &body);
}

/// Draws where phases begin: with their names those of the first part, and those of others that
/// begin at other times.
fn marks(
    body: &mut String,
    shown: &[(usize, &PartResult)],
    end: f64,
    horizontal: &dyn Fn(f64) -> f64,
    bottom: f64,
) {
    let Some((_, first)) = shown.first() else { return };
    let mut drawn: Vec<f64> = Vec::new();
    for (number, (group, part)) in shown.iter().enumerate() {
        for phase in &part.phases {
            let is_known = drawn.iter().any(|at| (at - phase.at).abs() < TOGETHER * end);
            let class = match (number, phase.statistics.is_some()) {
                (0, true) => "mark".to_owned(),
                (0, false) => "mark statement".to_owned(),
                _ if is_known => continue,
                _ => format!("mark {}", line_class(*group)),
            };
            let x = horizontal(phase.at);
            let _ = write!(
                body,
                "<path class=\"{class}\" d=\"M{x:.1} {ABOVE}V{bottom:.1}\"><title>{}</title></path>",
                escaped(&phase.name)
            );
            if number == 0 {
                drawn.push(phase.at);
            }
        }
    }
    for phase in &first.phases {
        let next = first.phases.iter().map(|other| other.at).find(|at| *at > phase.at).unwrap_or(end);
        let letters = ((next - phase.at) / end * (WIDTH - BESIDE) / LETTER) as usize;
        // Fewer letters are useless; the list above contains all names.
        if letters >= phase.name.chars().count().min(5) {
            let _ = write!(
                body,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                horizontal(phase.at) + 2.0,
                ABOVE - 5.0,
                escaped(&shortened(&phase.name, letters))
            );
        }
    }
}
