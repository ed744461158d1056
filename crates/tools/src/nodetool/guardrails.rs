//! `getguardrailsconfig`: guardrails in the format of Cassandra's nodetool.

use cassette_admin_api::GuardrailReport;
use serde_json::{Value, json};

use super::arguments::Invocation;
use super::text::Table;
use super::{Failure, Result};

/// The parts of the list, in their order.
const CATEGORIES: [&str; 4] = ["flags", "thresholds", "values", "others"];

/// The guardrails that a command line selects.
pub(super) struct Listed {
    rows: Vec<(String, String)>,
    /// The value of a single guardrail is printed alone.
    is_one: bool,
}

impl Listed {
    pub fn new(reports: &[GuardrailReport], invocation: &Invocation) -> Result<Self> {
        let category = invocation.option("--category");
        if let Some(unknown) = category.filter(|category| !CATEGORIES.contains(category)) {
            return Err(Failure::usage(format!(
                "Illegal value for -c/--category used: '{unknown}'. Supported values are {}.",
                CATEGORIES.join(",")
            )));
        }
        let name = match &invocation.arguments[..] {
            [] => None,
            [name] if category.is_none() => Some(name.as_str()),
            [_] => {
                return Err(Failure::usage("Do not specify additional arguments when --category/-c is set."));
            }
            _ => {
                return Err(Failure::usage(
                    "Specify only one guardrail name to get the configuration of or no name to get the configuration \
                     of all of them.",
                ));
            }
        };
        let mut rows: Vec<(usize, String, String)> = Vec::new();
        for report in reports {
            let (pair, is_failure) = pair_of(&report.name, reports);
            let is_meant = match name {
                // Guardrails without a command in Cassandra are shown only if they are named.
                None => report.in_cassandra,
                Some(name) => name == report.name || pair.as_deref() == Some(name),
            };
            if !is_meant {
                continue;
            }
            let value = report.value.clone().unwrap_or_else(|| "null".to_owned());
            let part = category_of(&report.name);
            match pair.filter(|pair| !invocation.has("--expand") && name.is_none_or(|name| name == pair)) {
                None => rows.push((part, report.name.clone(), value)),
                Some(pair) => match rows.iter_mut().find(|(_, name, _)| *name == pair) {
                    None => rows.push((part, pair, value)),
                    Some((_, _, shown)) if is_failure => *shown = format!("[{value}, {shown}]"),
                    Some((_, _, shown)) => *shown = format!("[{shown}, {value}]"),
                },
            }
        }
        if let (Some(name), true) = (name, rows.is_empty()) {
            return Err(Failure::usage(format!("Guardrail {name} not found.")));
        }
        rows.retain(|(part, _, _)| category.is_none_or(|category| CATEGORIES[*part] == category));
        // Thresholds of a pair are adjacent if both are shown.
        rows.sort_by_key(|(part, name, _)| {
            let base = name.replace("_fail_threshold", "_threshold").replace("_warn_threshold", "_threshold");
            (*part, base, name.clone())
        });
        let is_one = rows.len() == 1 && category.is_none();
        Ok(Self { rows: rows.into_iter().map(|(_, name, value)| (name, value)).collect(), is_one })
    }

    pub fn text(&self) -> String {
        let mut table = Table::default();
        for (name, value) in &self.rows {
            if self.is_one { table.row([value]) } else { table.row([name, value]) }
        }
        table.text(" ")
    }

    pub fn data(&self) -> Value {
        self.rows
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// Returns the common name of a pair of thresholds, if this is one of a pair, and whether it is
/// that of failure.
fn pair_of(name: &str, reports: &[GuardrailReport]) -> (Option<String>, bool) {
    for (end, other, is_failure) in
        [("_warn_threshold", "_fail_threshold", false), ("_fail_threshold", "_warn_threshold", true)]
    {
        if let Some(base) = name.strip_suffix(end)
            && reports.iter().any(|report| report.name.strip_suffix(other) == Some(base))
        {
            return (Some(format!("{base}_threshold")), is_failure);
        }
    }
    (None, false)
}

/// The index in [`CATEGORIES`].
fn category_of(name: &str) -> usize {
    // Cassandra's nodetool treats these two as flags.
    let is_flag = name.ends_with("_enabled") || name == "zero_ttl_on_twcs_warned";
    match name {
        _ if is_flag => 0,
        name if name.ends_with("_threshold") => 1,
        name if ["_warned", "_ignored", "_disallowed"].iter().any(|end| name.ends_with(end)) => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use cassette_database::{GUARDRAILS, Guardrails};

    use super::super::arguments::{self, Parsed};
    use super::*;

    /// Returns our answer and that of Cassandra 5.0.8's nodetool. `None` if rejected.
    fn answer(guardrails: &Guardrails, command: &str) -> std::result::Result<String, Failure> {
        let words: Vec<String> = command.split(' ').skip(1).map(str::to_owned).collect();
        let Parsed::Run(invocation) = arguments::parse(&words)? else { panic!("{command}: help") };
        if invocation.command == "setguardrailsconfig" {
            let Some((name, arguments)) = invocation.arguments.split_first() else {
                return Err(Failure::usage("No arguments."));
            };
            guardrails.set_by_name(name, arguments).map_err(Failure::Usage)?;
            return Ok(String::new());
        }
        let report = |guardrail: &cassette_database::Guardrail| GuardrailReport {
            name: guardrail.name.to_owned(),
            value: guardrails.text(guardrail.key),
            in_cassandra: guardrail.in_nodetool,
        };
        let reports: Vec<GuardrailReport> = GUARDRAILS.iter().map(report).collect();
        Ok(Listed::new(&reports, &invocation)?.text())
    }

    /// Lists differ by the guardrails without effect here, and so in the width of columns.
    fn lines(text: &str) -> Vec<String> {
        let known = |line: &&str| {
            let name = line.split(' ').next().unwrap_or_default();
            !line.contains(' ')
                || name.starts_with('[')
                || GUARDRAILS.iter().any(|g| g.listed_name() == name || g.name == name)
        };
        text.lines().filter(known).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn guardrails_are_shown_and_changed_as_by_cassandras_nodetool() {
        let recorded: Value = serde_json::from_str(include_str!("recorded/guardrails.json")).unwrap();
        let guardrails = Guardrails::default();
        for entry in recorded.as_array().unwrap() {
            let command = entry["statement"].as_str().unwrap();
            let expected = &entry["answer"];
            let out = expected["out"].as_str().unwrap();
            match answer(&guardrails, command) {
                Ok(text) => {
                    assert_eq!(expected["exit"], 0, "{command}: {text}");
                    assert_eq!(lines(&text), lines(out), "{command}");
                }
                Err(Failure::Usage(message)) => {
                    let message =
                        format!("nodetool: {message}\nSee 'nodetool help' or 'nodetool help <command>'.\n");
                    assert_eq!(message, out, "{command}");
                }
                Err(other) => panic!("{command}: {other:?}"),
            }
        }
    }
}
