//! Checks the language of comments, messages and documents, and the links and code of documents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[path = "language/code_blocks.rs"]
mod code_blocks;

/// Colloquial phrases, each with the term to use instead.
const REPLACED: [(&str, &str); 29] = [
    ("anew", "again"),
    ("are not there", "are not supported, are absent"),
    ("at hand", "available, current"),
    ("figures", "metrics, results, statistics"),
    ("floor above", "higher layer"),
    ("floor below", "lower layer"),
    ("floor plan", "layers"),
    ("for ever", "permanently"),
    ("gentle", "low-priority"),
    ("held up", "stalled"),
    ("hold up writers", "stall writes"),
    ("in the making", "incomplete"),
    ("is not there", "is not supported, is absent"),
    ("laboratory says", "report shows"),
    ("let go of", "release"),
    ("lets go", "releases"),
    ("level of promise", "durability"),
    ("nobody", "no client, no caller"),
    ("of its own", "own, separate"),
    ("pass over", "skip"),
    ("passed over", "skipped"),
    ("passes over", "skips"),
    ("promises", "guarantees"),
    ("set aside", "quarantined"),
    ("sets aside", "quarantines"),
    ("somebody", "a client, a caller"),
    ("told apart", "distinguished"),
    ("what is there", "existing, supported"),
    ("whoever", "callers that"),
];

const COLUMNS_MAX: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files below `directory` with this extension, without build outputs and hidden directories.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let (mut directories, mut files) = (vec![directory.to_owned()], Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                let is_output = ["target", "node_modules"].contains(&&*name) || name.ends_with("-results");
                if !is_output && !name.starts_with('.') {
                    directories.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Returns the first of [`REPLACED`] in a line, with its replacement.
fn replaced_phrase(line: &str) -> Option<&'static (&'static str, &'static str)> {
    let line = line.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    REPLACED.iter().find(|(phrase, _)| {
        line.match_indices(phrase).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + phrase.len()..]);
            !before.ends_with(is_word) && !after.starts_with(is_word)
        })
    })
}

fn problem(path: &Path, number: usize, what: &str) -> String {
    format!("{}:{}: {what}", path.strip_prefix(root()).unwrap().display(), number + 1)
}

fn check_phrases(path: &Path, relevant: impl Fn(&str) -> bool, problems: &mut Vec<String>) {
    let text = std::fs::read_to_string(path).unwrap();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| relevant(line)) {
        if let Some((phrase, instead)) = replaced_phrase(line) {
            problems.push(problem(path, number, &format!("expected \"{instead}\", found \"{phrase}\"")));
        }
    }
}

#[test]
fn comments_and_messages_use_standard_terms() {
    let mut problems = Vec::new();
    let is_text = |line: &str| line.contains("//") || line.contains('"');
    // An alias is a name that an earlier version wrote.
    let relevant = |line: &str| is_text(line) && !line.contains("alias = ");
    for path in files(&root().join("crates"), "rs") {
        if !path.ends_with("cli/tests/language.rs") {
            check_phrases(&path, relevant, &mut problems);
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn documents_use_standard_terms() {
    let mut problems = Vec::new();
    for path in files(&root(), "md") {
        check_phrases(&path, |_| true, &mut problems);
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Tables and fenced blocks, such as byte layouts, may be wider.
#[test]
fn comments_wrap_at_100_columns() {
    let mut problems = Vec::new();
    for path in files(&root().join("crates"), "rs") {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut is_fenced = false;
        for (number, line) in text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else {
                is_fenced = false;
                continue;
            };
            let comment = comment.trim_start_matches(['/', '!']).trim_start();
            is_fenced ^= comment.starts_with("```");
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !is_fenced && !comment.starts_with('|') {
                let what = format!("expected at most {COLUMNS_MAX} columns, found {columns}");
                problems.push(problem(&path, number, &what));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

/// The targets of links in a line: `[text](target)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The anchors of a document's headings, as they are generated for links.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_of_documents_lead_to_files_and_headings() {
    let mut problems = Vec::new();
    for path in files(&root(), "md") {
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            for link in links(line).filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
                if !target.exists() {
                    problems.push(problem(&path, number, &format!("{link} does not exist")));
                } else if !anchor.is_empty() && target.extension().is_some_and(|e| e == "md") {
                    let headings = anchors(&std::fs::read_to_string(&target).unwrap());
                    if !headings.contains(anchor) {
                        problems.push(problem(&path, number, &format!("{link} has no such heading")));
                    }
                }
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn paths_in_documents_exist() {
    let mut problems = Vec::new();
    for path in files(&root(), "md") {
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            for code in line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("crates/")) {
                let file = code.split([' ', ':']).next().unwrap();
                let is_pattern = file.contains(['<', '*', '{', '…']);
                if !is_pattern && !root().join(file).exists() {
                    problems.push(problem(&path, number, &format!("{file} does not exist")));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}
