//! A run's report as one page that needs no network: figures as SVG, drawn here, and the tables under them.
//!
//! Bars with intervals are comparisons of groups; lines are the series of one part. Every drawing has a text that says
//! what it shows, and every figure in it stands in a table too.

use std::fmt::Write;

use super::markdown;
use crate::experiments::analysis::{Metric, PhaseAnalysis};
use crate::experiments::{Analysis, ExperimentFile, PartResult, RunInfo};
use crate::reasons;

const STYLE: &str = include_str!("report.css");

/// Points of a line at most: a phone is not wider.
const POINTS_MAX: usize = 600;

/// The whole page.
pub fn report(
    info: &RunInfo,
    file: Option<&ExperimentFile>,
    analysis: &Analysis,
    parts: &[PartResult],
) -> String {
    let mut out = String::new();
    let title = escaped(file.map_or("", |file| file.title.as_str()));
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{name}</title><style>{STYLE}</style></head>\n\
         <body><header><h1>{name}</h1><p>{title}</p></header>\n<main>\n",
        name = escaped(&info.name),
    );
    verdict(&mut out, info, analysis, parts);
    list(&mut out, "reasons", "Reasons", &reasons::of_run(info, analysis, parts));
    out.push_str("<section aria-labelledby=\"figures\"><h2 id=\"figures\">Figures</h2>\
        <p>Means over repeats; the thin line is the 95&nbsp;% interval. Longer is better for throughput, shorter for latency.</p>");
    for phase in &analysis.phases {
        let _ = write!(out, "<h3>{}</h3><div class=\"charts\">", escaped(&phase.name));
        for metric in charted(phase) {
            bars(&mut out, analysis, phase, metric);
        }
        out.push_str("</div>");
    }
    out.push_str("</section>\n");
    series(&mut out, analysis, parts);
    // The Markdown report's tables, from where its figures begin.
    let text = markdown::report(info, file, analysis, parts);
    let tables = text.find("\n## Figures in tables").map_or("", |at| &text[at..]);
    out.push_str(&tables_of(tables));
    if let Some(file) = file
        && !file.description.is_empty()
    {
        let _ = write!(out, "<section><h2>About</h2><p>{}</p></section>", escaped(file.description.trim()));
    }
    let _ = write!(
        out,
        "<section><h2>The experiment's file</h2><details><summary>{}</summary><pre>{}</pre></details></section>\n\
         <section><h2>Raw figures</h2><details><summary>As CSV</summary><pre>{}</pre></details></section>\n\
         </main></body></html>\n",
        escaped(&info.origin),
        escaped(&info.file),
        escaped(&super::csv::report(parts))
    );
    out
}

fn verdict(out: &mut String, info: &RunInfo, analysis: &Analysis, parts: &[PartResult]) {
    out.push_str("<section class=\"verdict\" aria-labelledby=\"verdict\"><h2 id=\"verdict\">Verdict</h2>");
    if parts.len() < info.parts.len() {
        let _ = write!(
            out,
            "<p class=\"bad\">Not finished: {} of {} parts are done.</p>",
            parts.len(),
            info.parts.len()
        );
    }
    if analysis.verdicts.is_empty() {
        out.push_str("<p>There is one configuration only, and nothing to compare it with.</p>");
    }
    out.push_str("<ul>");
    for sentence in &analysis.verdicts {
        let class = match sentence {
            failed if failed.contains("FAILED") => " class=\"bad\"",
            none if none.contains("no difference shown") || none.contains("nothing can be said") => {
                " class=\"none\""
            }
            _ => "",
        };
        let _ = write!(out, "<li{class}>{}</li>", escaped(sentence));
    }
    out.push_str("</ul></section>\n");
}

fn list(out: &mut String, id: &str, title: &str, sentences: &[String]) {
    if sentences.is_empty() {
        return;
    }
    let _ = write!(out, "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{title}</h2><ul>");
    sentences.iter().for_each(|sentence| {
        let _ = write!(out, "<li>{}</li>", escaped(sentence));
    });
    out.push_str("</ul></section>\n");
}

/// Throughput, processor time, and of each operation the mean and the 99th percentile.
fn charted(phase: &PhaseAnalysis) -> impl Iterator<Item = &Metric> {
    phase.metrics.iter().filter(|metric| {
        let latency = metric.name.ends_with(" mean") || metric.name.ends_with(" p99");
        metric.higher_is_better() || metric.name == "CPU/op" || (latency && !metric.name.contains(", step "))
    })
}

/// One bar a group, with its interval.
fn bars(out: &mut String, analysis: &Analysis, phase: &PhaseAnalysis, metric: &Metric) {
    const WIDTH: f64 = 420.0;
    const ROW: f64 = 40.0;
    let found: Vec<(usize, &crate::statistics::Estimate)> = metric
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
    let unit = if metric.higher_is_better() { "operations a second" } else { "µs" };
    let described: Vec<String> = found
        .iter()
        .map(|(index, estimate)| {
            format!("{}: {}", analysis.groups[*index].label(), markdown::estimated(Some(estimate)))
        })
        .collect();
    let height = ROW * found.len() as f64 + 4.0;
    let _ = write!(
        out,
        "<figure><figcaption>{}, {unit}</figcaption><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        escaped(&metric.name),
        escaped(&format!("{}, {} in {unit}. {}", phase.name, metric.name, described.join("; ")))
    );
    let x = |value: f64| (value.max(0.0) / largest) * (WIDTH - 2.0);
    for (row, (index, estimate)) in found.iter().enumerate() {
        let y = row as f64 * ROW;
        let _ = write!(
            out,
            "<text x=\"0\" y=\"{:.1}\">{}</text><text x=\"{WIDTH}\" y=\"{:.1}\" class=\"value\">{}</text>\
             <rect class=\"bar g{}\" x=\"0\" y=\"{:.1}\" width=\"{:.1}\" height=\"16\" rx=\"2\"/>",
            y + 13.0,
            escaped(&analysis.groups[*index].label()),
            y + 13.0,
            markdown::figure(estimate.mean),
            index % 6,
            y + 18.0,
            x(estimate.mean)
        );
        if let Some(interval) = estimate.interval {
            let (low, high, middle) = (x(interval.low), x(interval.high), y + 26.0);
            let _ = write!(
                out,
                "<path class=\"interval\" d=\"M{low:.1} {:.1}V{:.1}M{low:.1} {middle:.1}H{high:.1}M{high:.1} {:.1}V{:.1}\"/>",
                middle - 5.0,
                middle + 5.0,
                middle - 5.0,
                middle + 5.0
            );
        }
    }
    out.push_str("</svg></figure>");
}

/// What is drawn of a series: a name, and what each second had.
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

/// The first repeat of each group, all phases one after the other.
fn series(out: &mut String, analysis: &Analysis, parts: &[PartResult]) {
    out.push_str(
        "<section aria-labelledby=\"series\"><h2 id=\"series\">Second by second</h2>\
        <p>One repeat of each configuration. Dashed lines are where phases begin.</p>",
    );
    for (index, group) in analysis.groups.iter().enumerate() {
        let label = group.label();
        // The first one is open: what there is to see is seen.
        let open = if index == 0 { " open" } else { "" };
        let Some(result) = parts.iter().find(|result| result.part.label() == label) else { continue };
        let _ = write!(
            out,
            "<details{open}><summary>{}, repeat {}</summary><div class=\"charts\">",
            escaped(&label),
            result.part.repeat
        );
        for (name, value) in LINES {
            line(out, result, name, *value);
        }
        out.push_str("</div></details>");
    }
    out.push_str("</section>\n");
}

fn line(out: &mut String, result: &PartResult, name: &str, value: fn(&crate::run::Second) -> Option<f64>) {
    const WIDTH: f64 = 420.0;
    const HEIGHT: f64 = 110.0;
    let end = result.phases.iter().map(|phase| phase.at + phase.seconds).fold(0.1, f64::max);
    let mut points: Vec<(f64, f64)> = Vec::new();
    for phase in &result.phases {
        let seconds = phase.figures.iter().flat_map(|figures| &figures.series);
        points.extend(seconds.filter_map(|second| Some((phase.at + second.at, value(second)?))));
    }
    let largest = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    if points.len() < 2 || largest <= 0.0 {
        return;
    }
    // The largest of neighbours stands for them: a stall must not vanish.
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
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escaped(name),
        escaped(&format!(
            "{name} over {end:.0} seconds: {} on average, {} at most",
            markdown::figure(mean),
            markdown::figure(largest)
        ))
    );
    for phase in &result.phases {
        let at = x(phase.at);
        let _ = write!(
            out,
            "<path class=\"mark\" d=\"M{at:.1} 14V{HEIGHT}\"><title>{}</title></path>",
            escaped(&phase.name)
        );
    }
    let path: Vec<String> =
        thinned.iter().map(|(at, value)| format!("{:.1} {:.1}", x(*at), y(*value))).collect();
    let _ = write!(
        out,
        "<path class=\"line\" d=\"M{}\"/><text x=\"0\" y=\"10\">{}</text><text x=\"{WIDTH}\" y=\"10\" class=\"value\">{end:.0} s</text></svg></figure>",
        path.join("L"),
        markdown::figure(largest)
    );
}

/// The tables, headings and lists of the Markdown that this program writes, as HTML: not more of Markdown than that.
fn tables_of(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("### ") {
            let _ = write!(out, "<h3>{}</h3>", escaped(heading));
        } else if let Some(heading) = line.strip_prefix("## ") {
            let _ = write!(out, "<h2>{}</h2>", escaped(heading));
        } else if line.starts_with('|') {
            let _ = write!(
                out,
                "<div class=\"table\" tabindex=\"0\"><table><thead><tr>{}</tr></thead><tbody>",
                cells(line, "th scope=\"col\"")
            );
            lines.next_if(|rule| rule.starts_with("|---"));
            while let Some(row) = lines.next_if(|row| row.starts_with('|')) {
                let _ = write!(out, "<tr>{}</tr>", cells(row, "td"));
            }
            out.push_str("</tbody></table></div>\n");
        } else if let Some(item) = line.strip_prefix("- ") {
            let _ = write!(out, "<p class=\"item\">{}</p>", escaped(item));
        } else if !line.is_empty() {
            let _ = write!(out, "<p>{}</p>", escaped(line));
        }
    }
    out
}

fn cells(row: &str, tag: &str) -> String {
    let inner = row.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let name = tag.split(' ').next().unwrap_or(tag);
    // A bar within a cell is written `\|`.
    let hidden = inner.replace("\\|", "\u{0}");
    let cells = hidden.split('|').map(|cell| escaped(&cell.trim().replace('\u{0}', "|")));
    cells
        .map(|cell| {
            let mark = cell
                .replace('▲', "<abbr title=\"higher than the baseline\">▲</abbr>")
                .replace('▼', "<abbr title=\"lower than the baseline\">▼</abbr>");
            format!("<{tag}>{mark}</{name}>")
        })
        .collect()
}

/// Text as HTML, in elements and in attributes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::analysis::tests::run_of;
    use crate::run::Second;

    fn page() -> String {
        let (mut info, mut parts) =
            run_of(&[("base", &[1000.0, 1010.0, 990.0]), ("more <b>", &[1500.0, 1510.0, 1490.0])]);
        info.name = "a <script>".into();
        for result in &mut parts {
            let figures = result.phases[0].figures.as_mut().unwrap();
            figures.series = (1..=20)
                .map(|at| Second {
                    at: f64::from(at) / 2.0,
                    seconds: 0.5,
                    operations: 500,
                    ..Second::default()
                })
                .collect();
        }
        let analysis = Analysis::new(&info, None, &parts);
        report(&info, None, &analysis, &parts)
    }

    #[test]
    fn the_page_needs_no_network_and_escapes_what_it_shows() {
        let page = page();
        for outside in ["http:", "https:", "src=", "@import", "url(", "<script"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("more &lt;b&gt;"));
        let verdict = page.find("50.0 % faster").unwrap();
        assert!(verdict < page.find("<svg").unwrap());
        assert!(page.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn every_drawing_says_what_it_shows() {
        let page = page();
        let drawings = page.matches("<svg").count();
        assert!(drawings >= 3, "{drawings}");
        assert_eq!(page.matches("role=\"img\" aria-label=\"").count(), drawings);
        assert!(page.contains("noop, base: 1,000"), "the label holds the figures");
    }
}
