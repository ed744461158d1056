//! The table of counts, and its comparison with a run.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The growth beyond which a check fails, percent.
const GROWTH_MAX: u64 = 3;
/// The change beyond which an update replaces a count, percent. Smaller ones keep their line, so
/// that a commit changes the counts that it influences, and several small growths add up.
const CHANGE_MIN: u64 = 1;

/// Instructions per operation, by case.
pub type Counts = BTreeMap<String, u64>;

/// The table of counts: a comment with the tools of the run, and a line for each case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Compiler, libraries and tools that the counts depend on.
    pub tools: String,
    /// The counts.
    pub counts: Counts,
}

const TOOLS: &str = "# Counted with ";

impl Table {
    /// Parses a table.
    ///
    /// # Errors
    /// Returns the line that is not a comment, and not a name with a count.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut table = Self::default();
        for line in text.lines() {
            if let Some(tools) = line.strip_prefix(TOOLS) {
                table.tools = tools.to_owned();
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [name, count] = fields[..] else { return Err(invalid(line)) };
            let count = count.parse().ok().filter(|count| *count > 0).ok_or_else(|| invalid(line))?;
            if table.counts.insert(name.to_owned(), count).is_some() {
                return Err(format!("invalid table of counts: {name} occurs twice"));
            }
        }
        Ok(table)
    }

    /// Returns the text of the table, with the cases in the order of `names`.
    pub fn to_text(&self, names: &[&str]) -> String {
        let mut text = format!(
            "# Instructions per operation. `make bench-guard` compares them with the code, and\n\
             # `make bench-guard-update` changes them; CONTRIBUTING.md describes both.\n\
             {TOOLS}{}\n\n",
            self.tools
        );
        for name in names {
            if let Some(count) = self.counts.get(*name) {
                writeln!(text, "{name:32}{count:>9}").expect("a string accepts all text");
            }
        }
        text
    }

    /// Takes over the counts of a run that differ by more than 1 %.
    pub fn update(&mut self, tools: &str, run: &Counts) {
        tools.clone_into(&mut self.tools);
        for (name, count) in run {
            let recorded = self.counts.entry(name.clone()).or_insert(*count);
            if differs(*recorded, *count, CHANGE_MIN) {
                *recorded = *count;
            }
        }
    }
}

fn invalid(line: &str) -> String {
    format!("invalid table of counts: expected a name and a positive number, found {line:?}")
}

/// Returns whether a count differs from the recorded one by more than so many percent.
fn differs(recorded: u64, count: u64, percent: u64) -> bool {
    recorded.abs_diff(count) * 100 > recorded * percent
}

/// How a case compares with its recorded count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// At most 3 % more or less.
    Same,
    /// More than 3 % more.
    Grown,
    /// More than 3 % less. The lower count should be recorded, so that it is guarded, too.
    Shrunk,
    /// The table does not contain the case.
    New,
}

impl Verdict {
    /// Compares a count with the recorded one.
    pub fn of(recorded: Option<u64>, count: u64) -> Self {
        match recorded {
            None => Self::New,
            Some(recorded) if !differs(recorded, count, GROWTH_MAX) => Self::Same,
            Some(recorded) if count > recorded => Self::Grown,
            Some(_) => Self::Shrunk,
        }
    }

    /// Whether the check fails.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Grown | Self::New)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        Table::parse(text).unwrap()
    }

    #[test]
    fn only_growth_beyond_3_percent_and_missing_counts_fail() {
        let failures = [1000, 1030, 1031, 969, 10].map(|count| Verdict::of(Some(1000), count).is_failure());
        assert_eq!(failures, [false, false, true, false, false]);
        assert!(Verdict::of(None, 1000).is_failure());
    }

    #[test]
    fn shrinking_beyond_3_percent_is_reported() {
        let verdicts = [969, 970, 1000].map(|count| Verdict::of(Some(1000), count));
        assert_eq!(verdicts, [Verdict::Shrunk, Verdict::Same, Verdict::Same]);
    }

    #[test]
    fn an_update_keeps_counts_that_have_hardly_changed() {
        let mut table = table("# Counted with rustc 1\n\na 1000\nb 1000\nc 1000\n");
        let run = [("a", 1009), ("b", 1011), ("d", 5)].map(|(name, count)| (name.to_owned(), count));
        table.update("rustc 2", &run.into());
        let expected = [("a", 1000), ("b", 1011), ("c", 1000), ("d", 5)];
        assert_eq!(table.counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
        assert_eq!(table.tools, "rustc 2");
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let table = table("# Counted with rustc 1, glibc 2\nread 1200\nwrite   7\n");
        let text = table.to_text(&["write", "read", "absent"]);
        assert_eq!(Table::parse(&text), Ok(table));
        assert!(text.find("write").unwrap() < text.find("read ").unwrap(), "{text}");
    }

    #[test]
    fn a_damaged_table_is_rejected() {
        for line in ["read", "read 0", "read -1", "read 1 2", "read many", "<<<<<<< ours", "a 1\na 2"] {
            let error = Table::parse(line).unwrap_err();
            assert!(error.starts_with("invalid table of counts"), "{error}");
        }
    }
}
