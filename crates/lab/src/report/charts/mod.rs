//! Charts of a report, as SVG.
//!
//! A color stands for the same group in all charts of a page. The styles are those of the page,
//! which its script copies into a chart that is saved.

mod axis;
mod changes;
mod percentiles;
mod repeats;
mod timelines;

use std::fmt::Write;

use super::html::escaped;
use crate::experiments::Analysis;
use crate::experiments::analysis::Metric;
use crate::statistics::Verdict;

pub(super) use changes::changes;
pub(super) use percentiles::percentiles;
pub(super) use repeats::repeats;
pub(super) use timelines::timelines;

/// The number of colors; further groups have them again, with dashed lines.
const COLORS: usize = 6;

/// Approximate width of a letter, in units of charts.
const LETTER: f64 = 6.2;

/// Height of the values below a horizontal axis.
const BELOW: f64 = 18.0;

/// Returns the style class of a group's lines, or of its areas and points.
fn line_class(group: usize) -> String {
    let dashed = if group % (2 * COLORS) >= COLORS { " dashed" } else { "" };
    format!("s{}{dashed}", group % COLORS)
}

fn fill_class(group: usize) -> String {
    format!("g{}", group % COLORS)
}

/// Writes which color stands for which group, if there are several.
pub(super) fn legend(out: &mut String, analysis: &Analysis) {
    if analysis.groups.len() < 2 {
        return;
    }
    out.push_str("<ul class=\"legend\">");
    for (index, group) in analysis.groups.iter().enumerate() {
        let _ = write!(
            out,
            "<li><svg viewBox=\"0 0 24 12\" class=\"key\" aria-hidden=\"true\"><path class=\"line {}\" \
             d=\"M0 6H24\"/></svg>{}</li>",
            line_class(index),
            escaped(&group.label())
        );
    }
    out.push_str("</ul>");
}

/// Writes a chart with its title, its alternative text and what it consists of.
fn figure(out: &mut String, title: &str, (width, height): (f64, f64), alternative: &str, body: &str) {
    let _ = write!(
        out,
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{}\">{body}</svg></figure>",
        escaped(title),
        escaped(alternative)
    );
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

/// Returns the unit of a metric.
fn unit(metric: &str) -> &'static str {
    match metric {
        "throughput" | "rate" => "operations a second",
        "CPU/op" => "µs of processor time",
        _ => "µs",
    }
}

/// Returns a significant difference between a group and what it is compared with: the style class
/// and the text.
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

    #[test]
    fn groups_beyond_the_colors_have_dashed_lines() {
        assert_eq!([0, 5, 6, 11, 12].map(line_class), ["s0", "s5", "s0 dashed", "s5 dashed", "s0"]);
    }
}
