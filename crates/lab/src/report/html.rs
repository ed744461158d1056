//! The report of a run as a self-contained page: charts as SVG, and the tables below them.
//!
//! Every chart has a text alternative, and a table contains every value that it shows.

use std::fmt::Write;

use super::matrix::{self, Change};
use super::{charts, markdown};
use crate::experiments::analysis::NO_DIFFERENCE;
use crate::experiments::{Analysis, ExperimentFile, PartResult, RunInfo};
use crate::reasons;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// Formats the whole page.
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
         <body><header><h1>{name}</h1><p>{title}</p><p>{started}; {machine}, {processors} processors; Cassette \
         {version}</p></header>\n<main>\n",
        name = escaped(&info.name),
        started = escaped(&info.started_at.replace('T', " ").replace('Z', " UTC")),
        machine = escaped(&info.machine.processor),
        processors = info.machine.processors,
        version = escaped(&info.version),
    );
    overview(&mut out, info, analysis, parts);
    verdicts(&mut out, analysis);
    list(&mut out, "reasons", "Reasons", &reasons::of_run(info, analysis, parts));
    out.push_str(&tables_of(&markdown::compared(analysis, parts)));
    charts::percentiles(&mut out, analysis);
    charts::timelines(&mut out, analysis, parts);
    charts::repeats(&mut out, analysis);
    // The tables of the Markdown report, from where its results begin.
    let text = markdown::report(info, file, analysis, parts);
    let tables = text.find("\n## Results in tables").map_or("", |at| &text[at..]);
    out.push_str(&tables_of(tables));
    if let Some(file) = file
        && !file.description.is_empty()
    {
        let _ = write!(out, "<section><h2>About</h2><p>{}</p></section>", escaped(file.description.trim()));
    }
    let _ = write!(
        out,
        "<section><h2>The experiment's file</h2><details><summary>{}</summary><pre>{}</pre></details></section>\n\
         <section><h2>Raw results</h2><details><summary>As CSV</summary><pre>{}</pre></details></section>\n\
         </main>\n<template id=\"markdown\">{}</template><script>{SCRIPT}</script></body></html>\n",
        escaped(&info.origin),
        escaped(&info.file),
        escaped(&super::csv::report(parts)),
        escaped(&text)
    );
    out
}

/// Beyond this many, sentences of "no difference shown" are collapsed: the matrix has all.
const NONE_SHOWN_MAX: usize = 2;

/// Writes the headline, the matrix, and the charts of all changes.
fn overview(out: &mut String, info: &RunInfo, analysis: &Analysis, parts: &[PartResult]) {
    let _ = write!(
        out,
        "<section class=\"overview\" aria-label=\"Overview\"><p class=\"headline\">{}</p>",
        escaped(&matrix::headline(analysis))
    );
    if parts.len() < info.parts.len() {
        let _ = write!(
            out,
            "<p class=\"bad\">Not finished: {} of {} parts are done.</p>",
            parts.len(),
            info.parts.len()
        );
    }
    let heads = analysis.groups.iter().enumerate().map(|(index, group)| {
        let with = match group.baseline {
            // All others are compared with the first.
            Some(baseline) if baseline != 0 => {
                format!("<br><small>compared with {}</small>", escaped(&analysis.groups[baseline].label()))
            }
            None if index == 0 && analysis.groups.len() > 1 => "<br><small>baseline</small>".to_owned(),
            _ => String::new(),
        };
        format!("<th scope=\"col\">{}{with}</th>", escaped(&group.label()))
    });
    let _ = write!(
        out,
        "<div class=\"table\" role=\"region\" aria-label=\"Changes by phase and configuration\" tabindex=\"0\">\
         <table class=\"matrix\"><thead><tr><th scope=\"col\">phase</th>{}</tr></thead><tbody>",
        heads.collect::<String>()
    );
    for line in matrix::lines(analysis) {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escaped(&line.name));
        for cell in &line.cells {
            let (text, change) = cell.as_ref().map_or(("-", None), |cell| (&cell.text, cell.change));
            let class = match change {
                Some(Change::Better) => "good",
                Some(Change::Worse) => "worse",
                Some(Change::NotShown | Change::Unknown) => "none",
                None => "",
            };
            let word = change.map_or(String::new(), |change| format!("<br><small>{}</small>", change.word()));
            let _ = write!(out, "<td class=\"{class}\">{}{word}</td>", escaped(text));
        }
        out.push_str("</tr>");
    }
    out.push_str(
        "</tbody></table></div><p class=\"note\">Values of the baseline, and changes of the others in % \
         with 95 % intervals. <em>Not shown</em>: what is seen can be noise.</p>",
    );
    charts::changes(out, analysis);
    out.push_str("</section>\n");
}

fn verdicts(out: &mut String, analysis: &Analysis) {
    if analysis.verdicts.is_empty() {
        return;
    }
    out.push_str("<section aria-labelledby=\"verdict\"><h2 id=\"verdict\">In words</h2>");
    let (none, told): (Vec<&String>, Vec<&String>) =
        analysis.verdicts.iter().partition(|sentence| sentence.contains(NO_DIFFERENCE));
    let items = |out: &mut String, sentences: &[&String]| {
        out.push_str("<ul>");
        for sentence in sentences {
            let class = match sentence {
                failed if failed.contains("FAILED") => " class=\"bad\"",
                none if none.contains(NO_DIFFERENCE) || none.contains("noise is unknown") => {
                    " class=\"none\""
                }
                _ => "",
            };
            let _ = write!(out, "<li{class}>{}</li>", escaped(sentence));
        }
        out.push_str("</ul>");
    };
    if !told.is_empty() {
        items(out, &told);
    }
    if none.len() <= NONE_SHOWN_MAX {
        items(out, &none);
    } else {
        let _ = write!(out, "<details><summary>No difference shown in {} comparisons</summary>", none.len());
        items(out, &none);
        out.push_str("</details>");
    }
    out.push_str("</section>\n");
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

/// Sections whose parts are collapsed because they are long and rarely read.
const FOLDED: [&str; 2] = ["What the engines counted", "Settings reported by the engines"];

/// Converts the tables, headings and lists of the generated Markdown to HTML. Supports no other
/// Markdown.
fn tables_of(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    let (mut is_folded, mut is_open) = (false, false);
    // Captions of tables for readers of the page's structure.
    let (mut section, mut part) = (String::new(), String::new());
    while let Some(line) = lines.next() {
        if line.starts_with('#') && std::mem::take(&mut is_open) {
            out.push_str("</details>");
        }
        if let Some(heading) = line.strip_prefix("### ") {
            part = escaped(heading);
            is_open = is_folded;
            // Differences are the most interesting part.
            let open = if heading.contains("differ") { " open" } else { "" };
            let _ = if is_folded {
                write!(out, "<details{open}><summary>{part}</summary>")
            } else {
                write!(out, "<h3>{part}</h3>")
            };
        } else if let Some(heading) = line.strip_prefix("## ") {
            (section, part) = (escaped(heading), String::new());
            is_folded = FOLDED.contains(&heading);
            let _ = write!(out, "<h2>{section}</h2>");
        } else if line.starts_with('|') {
            let name = if part.is_empty() { section.clone() } else { format!("{section}: {part}") };
            let _ = write!(
                out,
                "<div class=\"table\" role=\"region\" aria-label=\"{name}\" \
                 tabindex=\"0\"><table><thead><tr>{}</tr></thead><tbody>",
                cells(line, |_| "th scope=\"col\"")
            );
            lines.next_if(|rule| rule.starts_with("|---"));
            while let Some(row) = lines.next_if(|row| row.starts_with('|')) {
                let tag = |column| if column == 0 { "th scope=\"row\"" } else { "td" };
                let _ = write!(out, "<tr>{}</tr>", cells(row, tag));
            }
            out.push_str("</tbody></table></div>\n");
        } else if let Some(item) = line.strip_prefix("- ") {
            let _ = write!(out, "<p class=\"item\">{}</p>", escaped(item));
        } else if !line.is_empty() {
            let _ = write!(out, "<p>{}</p>", escaped(line));
        }
    }
    if is_open {
        out.push_str("</details>");
    }
    out
}

/// Returns the cells of a row, each in the tag of its column.
fn cells(row: &str, tag: impl Fn(usize) -> &'static str) -> String {
    let inner = row.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    // A bar within a cell is written `\|`.
    let hidden = inner.replace("\\|", "\u{0}");
    let cells = hidden.split('|').map(|cell| escaped(&cell.trim().replace('\u{0}', "|")));
    cells
        .enumerate()
        .map(|(column, cell)| {
            let tag = tag(column);
            let name = tag.split(' ').next().unwrap_or(tag);
            let mark = cell
                .replace('▲', "<abbr title=\"higher than the baseline\">▲</abbr>")
                .replace('▼', "<abbr title=\"lower than the baseline\">▼</abbr>");
            format!("<{tag}>{mark}</{name}>")
        })
        .collect()
}

/// Escapes text for HTML elements and attributes.
pub(super) fn escaped(text: &str) -> String {
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
            let statistics = result.phases[0].statistics.as_mut().unwrap();
            statistics.series = (1..=20)
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
    fn the_page_is_self_contained_and_escapes_text() {
        let page = page();
        for outside in ["http:", "https:", "src=", "@import", "url(", "<script>alert", "<b>"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("<script").count(), 1, "the name of the run is text");
        assert!(page.contains("more &lt;b&gt;"));
        let headline = page.find("The comparison shows an improvement").unwrap();
        let matrix = page.find("<td class=\"good\">+50.0 %").unwrap();
        assert!(headline < matrix && matrix < page.find("<svg").unwrap());
        assert!(
            page.contains("50.0 % faster") && page.contains("<template id=\"markdown\"># a &lt;script&gt;")
        );
        assert!(page.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn every_chart_has_a_text_alternative() {
        let page = page();
        let drawings = page.matches("<svg").count();
        assert!(drawings >= 3, "{drawings}");
        let hidden = page.matches("aria-hidden=\"true\"").count();
        assert_eq!(page.matches("role=\"img\" aria-label=\"").count() + hidden, drawings);
        assert!(page.contains("noop, base: 1,000"), "the label holds the statistics");
        assert!(page.contains("50.0 % higher than noop, base"), "{page}");
        let tables = page.matches("<table").count();
        assert_eq!(page.matches("role=\"region\" aria-label=\"").count(), tables);
    }

    #[test]
    fn elements_are_balanced_and_tables_have_row_headers() {
        let page = page();
        for tag in ["details", "section", "table", "figure", "ul", "div", "main"] {
            let opened =
                page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(page.contains("<th scope=\"row\">noop, base</th>"));
    }

    #[test]
    fn phases_are_labelled_where_they_begin() {
        assert!(page().contains("Phases: 0 s run a."), "{}", page());
    }
}
