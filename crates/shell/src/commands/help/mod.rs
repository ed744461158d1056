//! HELP: a page for each command and for each statement of CQL.

mod cql_statements;
mod shell_commands;

use cql_statements::STATEMENTS;
use shell_commands::COMMANDS;

use crate::error::{Result, command};
use crate::output::columnize;
use crate::shell::Shell;

/// A page of HELP.
pub struct Topic {
    /// The command or statement.
    pub name: &'static str,
    /// What it is for, in a few words.
    pub summary: &'static str,
    /// Its forms.
    pub forms: &'static [&'static str],
    /// Its description.
    pub text: &'static str,
    /// Examples of it.
    pub examples: &'static [&'static str],
}

/// Columns of the pages.
const WIDTH: usize = 80;

/// The most words of a topic: CREATE MATERIALIZED VIEW.
const WORDS_MAX: usize = 3;

impl Topic {
    /// Returns its name as one word.
    fn joined(&self) -> String {
        self.name.replace(' ', "_")
    }
}

/// Returns the names of all topics, each as one word.
pub fn topics() -> impl Iterator<Item = String> {
    COMMANDS.iter().chain(&STATEMENTS).map(Topic::joined)
}

impl Shell {
    pub(super) fn help(&mut self, text: &str) -> Result<()> {
        let words: Vec<&str> = text.split_whitespace().skip(1).collect();
        if words.is_empty() {
            let names = |topics: &[Topic]| columnize(&topics.iter().map(Topic::joined).collect::<Vec<_>>());
            self.out.say(&format!(
                "\nCommands of the shell:\n\n{}\nStatements of CQL, which end with a semicolon:\n\n{}\n\
                 HELP <topic> describes one.\n\n",
                names(&COMMANDS),
                names(&STATEMENTS)
            ));
        }
        let mut rest = &words[..];
        while let [first, ..] = rest {
            let Some((topic, length)) = find(rest) else {
                return Err(command(format!("No help on {first}: HELP lists the topics.")));
            };
            self.out.say(&page(topic));
            rest = &rest[length..];
        }
        Ok(())
    }
}

/// Returns the topic that begins the words, and how many of them name it. Words of a name may be
/// joined by underscores.
fn find(words: &[&str]) -> Option<(&'static Topic, usize)> {
    let joined = |count: usize| {
        let text = words.get(..count)?.join(" ").to_uppercase().replace('_', " ");
        Some(match text.trim_start_matches('.') {
            "DESC" => "DESCRIBE".to_owned(),
            "QUIT" => "EXIT".to_owned(),
            "CLS" => "CLEAR".to_owned(),
            "BEGIN BATCH" | "APPLY BATCH" => "BATCH".to_owned(),
            other => other.replace("COLUMNFAMILY", "TABLE"),
        })
    };
    (1..=WORDS_MAX).rev().find_map(|count| {
        let wanted = joined(count)?;
        let topic = COMMANDS.iter().chain(&STATEMENTS).find(|topic| topic.name == wanted)?;
        Some((topic, count))
    })
}

/// Formats a page as a manual does.
fn page(topic: &Topic) -> String {
    let mut out = format!("\nNAME\n    {} - {}\n\nSYNOPSIS\n", topic.name, topic.summary);
    for form in topic.forms {
        out.push_str(&wrapped(form, "    ", "        "));
    }
    out.push_str("\nDESCRIPTION\n");
    for paragraph in topic.text.lines() {
        out.push_str(&wrapped(paragraph, "    ", "    "));
    }
    if !topic.examples.is_empty() {
        out.push_str("\nEXAMPLES\n");
        for example in topic.examples {
            out.push_str(&wrapped(&format!("{example};"), "    ", "        "));
        }
    }
    out.push('\n');
    out
}

/// Wraps a paragraph.
fn wrapped(text: &str, first: &str, rest: &str) -> String {
    let (mut out, mut line) = (String::new(), first.to_owned());
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = rest.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    out + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_fit_a_terminal_and_are_sorted() {
        for topic in COMMANDS.iter().chain(&STATEMENTS) {
            let longest = page(topic).lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(WIDTH), "{}", topic.name);
        }
        assert!(COMMANDS.is_sorted_by_key(|topic| topic.name));
        assert!(STATEMENTS.is_sorted_by_key(|topic| topic.name));
    }

    #[test]
    fn examples_of_statements_are_valid() {
        for topic in &STATEMENTS {
            assert!(!topic.examples.is_empty(), "{}", topic.name);
            for example in topic.examples {
                let parsed = cassette_cql::parse(example);
                assert!(parsed.is_ok(), "{example}: {}", parsed.err().unwrap());
            }
        }
    }

    #[test]
    fn topics_are_found_by_several_words_in_any_spelling() {
        let found = |text: &str| {
            let words: Vec<&str> = text.split(' ').collect();
            find(&words).map(|(topic, count)| (topic.name, count))
        };
        assert_eq!(found("create materialized view"), Some(("CREATE MATERIALIZED VIEW", 3)));
        assert_eq!(found("CREATE_TABLE select"), Some(("CREATE TABLE", 1)));
        assert_eq!(found("desc"), Some(("DESCRIBE", 1)));
        assert_eq!(found(".import"), Some(("IMPORT", 1)));
        assert_eq!(found("nonsense select"), None);
    }
}
