//! Two builds of `cassette`, measured in turns: which is faster, and by how much.
//!
//! Each round measures both builds, one right after the other, and rounds alternate which one is
//! first. A difference is that of a round's pair, so changes of the machine that last longer than a
//! round affect neither verdict nor interval.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::format::rounded;
use crate::results::PhaseReport;
use crate::statistics::{Comparison, Verdict, compare_pairs, correct_by_holm, mean};

/// Index of a build: the old one, the new one.
pub const OLD: usize = 0;
/// See [`OLD`].
pub const NEW: usize = 1;

/// Throughput, the metric of which more is better.
const THROUGHPUT: &str = "ops/s";
/// Processor time of the engine's process, an embedded engine's with the client's.
const CPU: &str = "CPU µs/op";

/// The values of a metric, by build and round.
type Values = [Vec<f64>; 2];

/// The phases of all rounds.
#[derive(Debug, Default)]
pub struct Rounds {
    /// In the order of the first round.
    phases: Vec<MeasuredPhase>,
}

/// A phase on an engine.
#[derive(Debug)]
struct MeasuredPhase {
    name: String,
    metrics: Vec<(String, Values)>,
}

/// A metric of a phase, of both builds.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// Engine and phase: `served, run a`.
    pub phase: String,
    /// `ops/s`, `CPU µs/op`, or an operation's `p99 µs`.
    pub metric: String,
    /// Values of the old and the new build, by round.
    pub values: Values,
    /// The new build compared with the old one.
    pub comparison: Comparison,
}

impl Rounds {
    /// Adds the phases that a build had on an engine in a round.
    pub fn add(&mut self, engine: &str, build: usize, phases: &[PhaseReport]) {
        for phase in phases {
            let name = format!("{engine}, {}", phase.name);
            let at = self.phases.iter().position(|known| known.name == name).unwrap_or_else(|| {
                self.phases.push(MeasuredPhase { name, metrics: Vec::new() });
                self.phases.len() - 1
            });
            let metrics = &mut self.phases[at].metrics;
            for (metric, value) in metrics_of(phase) {
                let at = metrics.iter().position(|(known, _)| *known == metric).unwrap_or_else(|| {
                    metrics.push((metric, Default::default()));
                    metrics.len() - 1
                });
                metrics[at].1[build].push(value);
            }
        }
    }

    /// Compares the builds. Metrics that not every round has of both are left out.
    pub fn differences(self) -> Vec<Difference> {
        let mut differences = Vec::new();
        for MeasuredPhase { name: phase, metrics } in self.phases {
            for (metric, values) in metrics {
                if let Some(comparison) = compare_pairs(&values[OLD], &values[NEW]) {
                    differences.push(Difference { phase: phase.clone(), metric, values, comparison });
                }
            }
        }
        // One family per metric, as in experiments: what is read together is corrected together.
        let mut families: BTreeMap<String, Vec<&mut Comparison>> = BTreeMap::new();
        for difference in &mut differences {
            let family = difference.metric.split_once(' ').map_or("", |(_, rest)| rest);
            families.entry(family.to_owned()).or_default().push(&mut difference.comparison);
        }
        families.values_mut().for_each(|family| correct_by_holm(family));
        differences
    }
}

fn metrics_of(phase: &PhaseReport) -> Vec<(String, f64)> {
    let mut metrics = vec![(THROUGHPUT.to_owned(), phase.throughput)];
    let cost = phase.processes.first().and_then(|process| process.cpu_us_per_operation);
    metrics.extend(cost.map(|cost| (CPU.to_owned(), cost)));
    let latencies = phase.latencies.iter();
    metrics.extend(latencies.map(|(kind, latency)| (format!("{kind} p99 µs"), latency.response.p99_us)));
    metrics
}

impl Difference {
    /// Returns whether the new build is better; `None` without a shown difference.
    pub fn is_better(&self) -> Option<bool> {
        let more_is_better = self.metric == THROUGHPUT;
        match self.comparison.verdict() {
            Verdict::Higher => Some(more_is_better),
            Verdict::Lower => Some(!more_is_better),
            Verdict::NoDifferenceShown | Verdict::TooFewRepeats => None,
        }
    }

    /// Returns whether throughput or processor time is worse by more than `percent`, with a shown
    /// difference.
    pub fn is_slower_by(&self, percent: f64) -> bool {
        let limit = 1.0 + percent / 100.0;
        let by_more = match self.metric.as_str() {
            THROUGHPUT => self.comparison.ratio < 1.0 / limit,
            CPU => self.comparison.ratio > limit,
            _ => false,
        };
        by_more && self.is_better() == Some(false)
    }
}

/// Formats a table for the terminal: a line for each metric of each phase, with the means of both
/// builds and the change.
pub fn table(differences: &[Difference]) -> String {
    let change = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
    let mut rows = vec![["", "old", "new", "change in %, 95 % interval", ""].map(str::to_owned)];
    let mut phase = "";
    for difference in differences {
        if difference.phase != phase {
            phase = &difference.phase;
            rows.push([phase, "", "", "", ""].map(str::to_owned));
        }
        let interval = difference.comparison.interval.map_or_else(
            || "one round: noise unknown".to_owned(),
            |interval| format!("{} to {}", change(interval.low), change(interval.high)),
        );
        let verdict = match difference.is_better() {
            Some(true) => "better",
            Some(false) => "worse",
            None => "",
        };
        rows.push([
            format!("  {}", difference.metric),
            rounded(mean(&difference.values[OLD])),
            rounded(mean(&difference.values[NEW])),
            format!("{} ({interval})", change(difference.comparison.ratio)),
            verdict.to_owned(),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..4).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let [name, old, new, change, verdict] = row;
        let (w0, w1, w2, w3) = (widths[0], widths[1], widths[2], widths[3]);
        let line = format!("{name:<w0$}  {old:>w1$}  {new:>w2$}  {change:>w3$}  {verdict}");
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::recording::Recorder;
    use crate::results::ProcessReport;

    fn phase(throughput: f64, cost: f64) -> PhaseReport {
        let mut report = PhaseReport::of("run a".into(), 1, 1.0, &Recorder::new(Arc::default()), &[]);
        report.throughput = throughput;
        let server = ProcessReport { role: "server".into(), ..ProcessReport::default() };
        report.processes = vec![ProcessReport { cpu_us_per_operation: Some(cost), ..server }];
        report
    }

    fn rounds(pairs: &[[(f64, f64); 2]]) -> Vec<Difference> {
        let mut rounds = Rounds::default();
        for pair in pairs {
            for build in [OLD, NEW] {
                rounds.add("served", build, &[phase(pair[build].0, pair[build].1)]);
            }
        }
        rounds.differences()
    }

    #[test]
    fn a_costlier_build_is_worse_however_the_machine_changes() {
        let found = rounds(&[
            [(1000.0, 10.0), (1010.0, 11.0)],
            [(3000.0, 10.1), (2980.0, 11.2)],
            [(2000.0, 9.9), (2004.0, 10.9)],
            [(500.0, 10.0), (498.0, 11.05)],
        ]);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].is_better(), found[1].is_better()), (None, Some(false)));
        assert!(!found[0].is_slower_by(1.0) && found[1].is_slower_by(5.0) && !found[1].is_slower_by(20.0));
        let table = table(&found);
        assert!(table.contains("served, run a\n"), "{table}");
        let line = table.lines().find(|line| line.contains("CPU")).unwrap();
        assert!(line.contains("+10.") && line.ends_with("worse"), "{table}");
    }

    #[test]
    fn one_round_shows_no_difference() {
        let found = rounds(&[[(1000.0, 10.0), (5000.0, 1.0)]]);
        assert!(found.iter().all(|difference| difference.is_better().is_none()));
        assert!(table(&found).contains("one round: noise unknown"));
    }
}
