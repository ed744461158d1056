//! All mistakes of a configuration file, each with its line.

use std::ops::Range;
use std::path::Path;

use super::{GUARDRAILS, WITHOUT_EFFECT, old_names};

/// The keys with an effect, one per line, besides guardrails.
const WITH_EFFECT: &str = include_str!("with_effect.txt");

/// The maximum number of mistakes that are reported.
const REPORTED_MAX: usize = 20;

/// The maximum number of keys that are examined as the cause of a mistake. Files of Cassandra have
/// fewer.
const EXAMINED_MAX: usize = 1000;

/// A mistake, and the line of the key that causes it, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub line: Option<usize>,
    pub reason: String,
}

/// A key at the top of a file, and its lines, from 0.
#[derive(Debug, PartialEq, Eq)]
struct Block<'a> {
    key: &'a str,
    lines: Range<usize>,
}

/// Finds the mistakes of a file by removing, one after the other, the keys that cause them. `check`
/// returns the first mistake of a text.
pub(super) fn find(text: &str, check: impl Fn(&str) -> Result<(), String>) -> Vec<Problem> {
    let (mut text, mut found) = (text.to_owned(), Vec::new());
    let mut removed: Vec<String> = Vec::new();
    while let Err(reason) = check(&text) {
        // A key may need another one that was removed: that is no second mistake.
        if found.len() == REPORTED_MAX || removed.iter().any(|key| names(&reason, key)) {
            break;
        }
        let Some((key, lines, left)) = cause(&text, &reason, &check) else {
            found.push(Problem { line: None, reason });
            break;
        };
        found.push(Problem { line: Some(lines.start + 1), reason });
        removed.push(key);
        text = left;
    }
    found.sort_by_key(|problem| problem.line);
    found
}

/// Finds the key without which the check has another result, its lines, and the text without them.
/// Keys that the reason names come first.
fn cause(
    text: &str,
    reason: &str,
    check: impl Fn(&str) -> Result<(), String>,
) -> Option<(String, Range<usize>, String)> {
    let mut blocks = blocks(text);
    blocks.sort_by_key(|block| !names(reason, block.key));
    blocks.into_iter().take(EXAMINED_MAX).find_map(|block| {
        let left = without(text, &block.lines);
        check(&left)
            .err()
            .is_none_or(|other| other != reason)
            .then(|| (block.key.to_owned(), block.lines, left))
    })
}

/// Returns whether a text contains a key as a whole word.
fn names(text: &str, key: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == key)
}

/// Returns the keys at the top of a text. A value continues in the lines that do not begin with a
/// key.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let key = line.split_once(':').map(|(key, _)| key.trim_end());
        let is_key =
            |key: &&str| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match key.filter(is_key) {
            Some(key) => blocks.push(Block { key, lines: number..number + 1 }),
            None => {
                if let Some(block) = blocks.last_mut() {
                    block.lines.end = number + 1;
                }
            }
        }
    }
    blocks
}

/// Returns a text with empty lines instead of some, so that the others keep their numbers.
fn without(text: &str, lines: &Range<usize>) -> String {
    let kept = |(number, line)| if lines.contains(&number) { "" } else { line };
    text.lines().enumerate().flat_map(|line| [kept(line), "\n"]).collect()
}

/// Formats the mistakes of the file at `path`.
pub(super) fn describe(path: &Path, problems: &[Problem]) -> String {
    let describe = |problem: &Problem| match problem.line {
        Some(line) => format!("{}:{line}: {}", path.display(), problem.reason),
        None => format!("{}: {}", path.display(), problem.reason),
    };
    match problems {
        [problem] => describe(problem),
        _ => {
            let lines: String = problems.iter().map(|problem| format!("\n  {}", describe(problem))).collect();
            let more = if problems.len() == REPORTED_MAX { " or more" } else { "" };
            format!("the configuration has {}{more} mistakes:{lines}", problems.len())
        }
    }
}

/// Returns a known key that was probably meant by an unknown one.
pub(super) fn similar(unknown: &str) -> Option<&'static str> {
    let guardrails = GUARDRAILS.iter().map(|guardrail| guardrail.name);
    let known = WITH_EFFECT.lines().chain(guardrails).chain(WITHOUT_EFFECT.lines()).chain(old_names::all());
    let distances = known.map(|key| (distance(unknown, key), key));
    let max = (unknown.len() / 5).clamp(1, 4);
    distances.filter(|(distance, _)| *distance <= max).min().map(|(_, key)| key)
}

/// Returns the number of insertions, deletions, replacements and exchanges of neighbours that make
/// one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replaced = last[j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn problems(text: &str) -> Vec<(usize, String)> {
        let found = super::find(text, |text| Config::check_text(text, Path::new("data"), |_| Ok(())));
        found.into_iter().map(|problem| (problem.line.unwrap_or(0), problem.reason)).collect()
    }

    #[test]
    fn all_mistakes_are_found_with_their_lines() {
        let text = "# a file\ncluster_name: x\nmemtable_heap_spce: 1MiB\n\nrow_cache_size: lots\n\
                    commitlog_sync: sometimes\nclient_encryption_options:\n  enabled: maybe\n\
                    key_cache_size: 10MiB\nbatch_size_warn_threshold: 5\nrpc_address: nowhere\n";
        let found = problems(text);
        let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 5, 6, 7, 10, 11], "{found:#?}");
        for ((_, reason), says) in found.iter().zip([
            "did you mean memtable_heap_space?",
            "row_cache_size: lots: expected a size",
            "commitlog_sync: sometimes",
            "client_encryption_options",
            "Invalid data storage: 5",
            "rpc_address: nowhere",
        ]) {
            assert!(reason.contains(says), "{reason}");
        }
        assert_eq!(problems("cluster_name: x\nkey_cache_size: 10MiB\n"), []);
    }

    #[test]
    fn a_mistake_of_two_keys_is_reported_once() {
        let found = problems("tables_warn_threshold: 5\ntables_fail_threshold: 3\n");
        assert_eq!(found.len(), 1, "{found:?}");
        let found = problems("authorizer: CassandraAuthorizer\n");
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1], "{found:?}");
    }

    #[test]
    fn what_is_no_yaml_has_one_mistake() {
        for text in ["[", "a", "- a\n- b\n", "cluster_name: [\n"] {
            assert_eq!(problems(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn similar_keys_are_proposed_and_others_not() {
        for (unknown, known) in [
            ("memtable_heap_spce", Some("memtable_heap_space")),
            ("rowcache_size", Some("row_cache_size")),
            ("table_warn_threshold", Some("tables_warn_threshold")),
            ("native_transport_prot", Some("native_transport_port")),
            ("read_request_timeouts", Some("read_request_timeout")),
            ("numtokens", Some("num_tokens")),
            ("completely_unrelated", None),
            ("x", None),
        ] {
            assert_eq!(similar(unknown), known, "{unknown}");
        }
    }

    #[test]
    fn the_list_of_keys_is_complete() {
        let sources =
            [include_str!("mod.rs"), include_str!("timeouts.rs"), include_str!("authentication.rs")].concat();
        for key in WITH_EFFECT.lines() {
            assert!(sources.contains(&format!("\n    {key}: Option<")), "{key} is no key");
        }
        let config = include_str!("mod.rs").split_once("pub struct Config {").unwrap().1;
        for line in config.split_once("\n}").unwrap().0.lines() {
            let Some((key, _)) = line.trim().split_once(": Option<") else { continue };
            assert!(WITH_EFFECT.lines().any(|known| known == key), "{key} is not in with_effect.txt");
        }
    }
}
