//! The matrix of a report: what each configuration changes in each phase.

use crate::experiments::Analysis;
use crate::experiments::analysis::{Metric, headlines};
use crate::format::rounded;
use crate::statistics::Verdict;

/// What the comparison of a group shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Better,
    Worse,
    NotShown,
    /// From one repeat, whose noise is unknown.
    Unknown,
}

impl Change {
    /// Returns its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NotShown => "not shown",
            Self::Unknown => "one repeat",
        }
    }

    fn of(metric: &Metric, group: usize) -> Option<Self> {
        let comparison = metric.comparisons[group].as_ref()?;
        let is_higher = match comparison.verdict() {
            Verdict::Higher => true,
            Verdict::Lower => false,
            Verdict::NoDifferenceShown => return Some(Self::NotShown),
            Verdict::TooFewRepeats => return Some(Self::Unknown),
        };
        Some(if is_higher == metric.higher_is_better() { Self::Better } else { Self::Worse })
    }
}

/// The result of a group in a phase: its value, or its change against its baseline.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub text: String,
    /// Absent for a group that is compared with none.
    pub change: Option<Change>,
}

/// A metric of a phase: throughput, or a percentile if the rate was fixed.
#[derive(Debug)]
pub(super) struct Line {
    /// The phase, and the metric if it is not the throughput.
    pub name: String,
    /// By group; absent for a group without the phase.
    pub cells: Vec<Option<Cell>>,
}

/// Returns the lines of the matrix.
pub(super) fn lines(analysis: &Analysis) -> Vec<Line> {
    let phases = analysis.phases.iter();
    phases.flat_map(|phase| headlines(phase).map(|metric| line(&phase.name, metric))).collect()
}

fn line(phase: &str, metric: &Metric) -> Line {
    let (name, unit) = match metric.name.as_str() {
        "throughput" => (phase.to_owned(), "/s"),
        "rate" => (format!("{phase}, rate"), "/s"),
        other => (format!("{phase}, {other}"), " µs"),
    };
    let cell = |group: usize| {
        let estimate = metric.estimates[group].as_ref()?;
        let Some(comparison) = &metric.comparisons[group] else {
            return Some(Cell { text: format!("{}{unit}", rounded(estimate.mean)), change: None });
        };
        let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
        let interval = comparison.interval.map_or(String::new(), |interval| {
            format!(" ({} to {})", percent(interval.low), percent(interval.high))
        });
        let text = format!("{} %{interval}", percent(comparison.ratio));
        Some(Cell { text, change: Change::of(metric, group) })
    };
    Line { name, cells: (0..metric.estimates.len()).map(cell).collect() }
}

/// Returns one sentence about all comparisons: how many show what, and the largest difference.
pub(super) fn headline(analysis: &Analysis) -> String {
    let lines = lines(analysis);
    let changes: Vec<Change> =
        lines.iter().flat_map(|line| &line.cells).flatten().filter_map(|cell| cell.change).collect();
    if changes.is_empty() {
        return "One configuration was measured; there is nothing to compare it with.".into();
    }
    let count = |wanted: Change| changes.iter().filter(|change| **change == wanted).count();
    let (better, worse) = (count(Change::Better), count(Change::Worse));
    let all = match changes.len() {
        1 => "The comparison".to_owned(),
        many => format!("Of {many} comparisons, "),
    };
    let show = |number: usize| if number == 1 { "1 shows".to_owned() } else { format!("{number} show") };
    let counts = match (changes.len(), better, worse, count(Change::Unknown)) {
        (1, 1, ..) => " shows an improvement".into(),
        (1, _, 1, _) => " shows a deterioration".into(),
        (1, .., 1) => " is of one repeat a side, whose noise is unknown".into(),
        (1, ..) => " shows no difference".into(),
        (many, _, _, unknown) if many == unknown => {
            "all are of one repeat a side, whose noise is unknown".into()
        }
        (_, 0, 0, _) => "none shows a difference".into(),
        (_, better, 0, _) => format!("{} an improvement", show(better)),
        (_, 0, worse, _) => format!("{} a deterioration", show(worse)),
        _ => format!("{} an improvement and {worse} a deterioration", show(better)),
    };
    let largest = largest(analysis).map_or(String::new(), |largest| format!("; the largest: {largest}"));
    format!("{all}{counts}{largest}.")
}

/// Describes the largest significant difference of a headline metric.
fn largest(analysis: &Analysis) -> Option<String> {
    let mut largest: Option<(f64, String)> = None;
    for phase in &analysis.phases {
        for metric in headlines(phase) {
            for (index, group) in analysis.groups.iter().enumerate() {
                if !matches!(Change::of(metric, index), Some(Change::Better | Change::Worse)) {
                    continue;
                }
                let Some(comparison) = &metric.comparisons[index] else { continue };
                let size = comparison.ratio.ln().abs();
                if largest.as_ref().is_none_or(|(other, _)| size > *other) {
                    let percent = (comparison.ratio - 1.0) * 100.0;
                    let text =
                        format!("{} of {} in {}, {percent:+.1} %", metric.name, group.label(), phase.name);
                    largest = Some((size, text));
                }
            }
        }
    }
    largest.map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::analysis::tests::run_of;

    fn analysis(groups: &[(&str, &[f64])]) -> Analysis {
        let (info, parts) = run_of(groups);
        Analysis::new(&info, None, &parts)
    }

    #[test]
    fn the_matrix_has_values_of_the_baseline_and_changes_of_others() {
        let found = lines(&analysis(&[
            ("base", &[1000.0, 1010.0, 990.0]),
            ("fast", &[1500.0, 1510.0, 1490.0]),
            ("same", &[990.0, 1015.0, 1002.0]),
        ]));
        let cells: Vec<&Cell> = found[0].cells.iter().flatten().collect();
        assert_eq!((found[0].name.as_str(), cells[0].text.as_str()), ("run a", "1,000/s"));
        assert!(cells[1].text.starts_with("+50.0 % (+4"), "{}", cells[1].text);
        let changes: Vec<Option<Change>> = cells.iter().map(|cell| cell.change).collect();
        assert_eq!(changes, [None, Some(Change::Better), Some(Change::NotShown)]);
    }

    #[test]
    fn the_headline_counts_what_is_shown_and_tells_the_largest() {
        let text = headline(&analysis(&[
            ("base", &[1000.0, 1010.0, 990.0]),
            ("fast", &[1500.0, 1510.0, 1490.0]),
            ("slow", &[300.0, 301.0, 299.0]),
            ("same", &[990.0, 1015.0, 1002.0]),
        ]));
        assert_eq!(
            text,
            "Of 3 comparisons, 1 shows an improvement and 1 a deterioration; the largest: throughput of noop, slow \
             in run a, -70.0 %."
        );
        let same = headline(&analysis(&[("base", &[1000.0, 1010.0]), ("same", &[990.0, 1015.0])]));
        assert_eq!(same, "The comparison shows no difference.");
        let one = headline(&analysis(&[("base", &[1000.0, 1010.0])]));
        assert!(one.starts_with("One configuration"), "{one}");
        let single = headline(&analysis(&[("base", &[1000.0]), ("other", &[2000.0])]));
        assert!(single.contains("noise is unknown"), "{single}");
    }
}
