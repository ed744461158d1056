//! Input split into statements and commands, with their positions.

use cassette_cql::keywords::Keyword;
use cassette_cql::lexer::{Lexer, Symbol, TokenKind};

/// Commands that a line feed ends as well as a semicolon.
const LINE_COMMANDS: [&str; 19] = [
    "help",
    "?",
    "consistency",
    "serial",
    "describe",
    "desc",
    "show",
    "source",
    "capture",
    "login",
    "tracing",
    "expand",
    "paging",
    "exit",
    "quit",
    "clear",
    "cls",
    "history",
    "format",
];

/// A statement or a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// The text without the semicolon.
    pub text: &'a str,
    /// The offset of the text in the input.
    pub start: usize,
    /// Why the text has no tokens, and the offset in the input of the place.
    pub problem: Option<(String, usize)>,
}

impl Unit<'_> {
    /// Returns the first word in lower case.
    pub fn word(&self) -> String {
        let end = self.text.find(|c: char| !c.is_alphanumeric() && c != '_');
        let word = if self.text.starts_with(['.', '?']) {
            self.text.split_whitespace().next().unwrap_or_default()
        } else {
            &self.text[..end.unwrap_or(self.text.len())]
        };
        word.to_lowercase()
    }
}

/// The units of an input, and whether text without an end follows them.
#[derive(Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// The complete units.
    pub units: Vec<Unit<'a>>,
    /// The offset of a unit that has begun and needs more input.
    pub incomplete: Option<usize>,
}

/// Splits an input. Units end at semicolons outside of strings, comments and batches, and some
/// commands at the end of their line.
pub fn split(input: &str) -> Split<'_> {
    let mut split = Split { units: Vec::new(), incomplete: None };
    let mut at = 0;
    while let Some(next) = scan_unit(input, at, &mut split) {
        at = next;
    }
    split
}

/// Returns the text of a unit that the end of the input has to end.
pub fn rest<'a>(input: &'a str, start: usize) -> Unit<'a> {
    let text = input.get(start..).unwrap_or_default().trim_end();
    let mut lexer = Lexer::new(text);
    let problem = loop {
        let token = lexer.next_token();
        match token.kind {
            TokenKind::Eof => break None,
            TokenKind::Error => {
                let problem = Lexer::problem_at(text, token.start as usize);
                break Some((problem.message, start + token.start as usize));
            }
            _ => {}
        }
    };
    Unit { text, start, problem }
}

/// Reads one unit from `at` on. Returns where the next one begins; `None` at the end.
fn scan_unit<'a>(input: &'a str, at: usize, split: &mut Split<'a>) -> Option<usize> {
    let rest = &input[at..];
    let mut lexer = Lexer::new(rest);
    let first = lexer.next_token();
    if first.kind == TokenKind::Eof {
        return None;
    }
    let begin = first.start as usize;
    let word = rest[begin..first.end as usize].to_lowercase();
    if first.kind == TokenKind::Error && is_open_comment(&rest[begin..]) {
        // A comment at the end is no statement.
        return if rest[begin..].starts_with("/*") { incomplete(split, at + begin) } else { None };
    }
    if word == "." {
        let length = rest[begin..].find('\n').unwrap_or(rest.len() - begin);
        let text = rest[begin..begin + length].trim_end().trim_end_matches(';').trim_end();
        split.units.push(Unit { text, start: at + begin, problem: None });
        return Some(at + begin + length);
    }
    let ends_with_line = LINE_COMMANDS.contains(&word.as_str());
    let is_batch = first.kind == TokenKind::Keyword(Keyword::Begin);
    let mut previous = [first.kind; 2];
    let mut token = first;
    loop {
        if token.kind == TokenKind::Error {
            return problem(input, at, begin, token.start as usize, split);
        }
        let is_end = match token.kind {
            TokenKind::Eof => return incomplete(split, at + begin),
            TokenKind::Symbol(Symbol::Semicolon) if is_batch => {
                previous == [TokenKind::Keyword(Keyword::Apply), TokenKind::Keyword(Keyword::Batch)]
            }
            TokenKind::Symbol(Symbol::Semicolon) => true,
            _ => false,
        };
        if is_end {
            push(split, input, at + begin, at + token.start as usize);
            return Some(at + token.end as usize);
        }
        previous = [previous[1], token.kind];
        let before = token.end as usize;
        token = lexer.next_token();
        if ends_with_line {
            let gap = &rest[before..(token.start as usize).max(before)];
            if let Some(line_feed) = gap.find('\n') {
                push(split, input, at + begin, at + before);
                return Some(at + before + line_feed + 1);
            }
        }
    }
}

fn is_open_comment(text: &str) -> bool {
    text.starts_with("--") || text.starts_with("//") || text.starts_with("/*")
}

fn push<'a>(split: &mut Split<'a>, input: &'a str, start: usize, end: usize) {
    let text = input[start..end].trim_end();
    if !text.is_empty() {
        split.units.push(Unit { text, start, problem: None });
    }
}

fn incomplete(split: &mut Split<'_>, start: usize) -> Option<usize> {
    split.incomplete = Some(start);
    None
}

/// Handles what is no token: a string or a comment that needs more input, or an invalid character,
/// which makes the text up to the next semicolon invalid.
fn problem<'a>(
    input: &'a str,
    at: usize,
    begin: usize,
    place: usize,
    split: &mut Split<'a>,
) -> Option<usize> {
    let rest = &input[at..];
    let problem = Lexer::problem_at(rest, place);
    let is_open = rest[place..].starts_with(['\'', '"', '$']) || is_open_comment(&rest[place..]);
    if is_open && problem.offset + 1 >= rest.len() {
        return incomplete(split, at + begin);
    }
    let Some(length) = rest[place..].find(';') else { return incomplete(split, at + begin) };
    let text = rest[begin..place + length].trim_end();
    let message = format!("invalid character {:?}", rest[place..].chars().next().unwrap_or(' '));
    split.units.push(Unit { text, start: at + begin, problem: Some((message, at + place)) });
    Some(at + place + length + 1)
}

/// A place in an input, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The offset in bytes of the line's beginning.
    pub line_start: usize,
    /// The offset in bytes in the input.
    pub offset: usize,
}

/// Returns the line of an offset.
pub fn place_of(input: &str, offset: usize) -> Place {
    let before = input.get(..offset).unwrap_or(input);
    Place {
        line: before.matches('\n').count() + 1,
        line_start: before.rfind('\n').map_or(0, |at| at + 1),
        offset: before.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(input: &str) -> Vec<&str> {
        split(input).units.iter().map(|unit| unit.text).collect()
    }

    #[test]
    fn semicolons_in_strings_comments_and_batches_end_nothing() {
        let input = "SELECT ';' FROM \"a;b\"; -- x ; y\nSELECT $$ ; $$ FROM t /* ; */;\n\
                     BEGIN BATCH INSERT INTO t (k) VALUES (1); INSERT INTO t (k) VALUES (2); APPLY BATCH; \
                     SELECT 1;";
        let found = texts(input);
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(found[0], "SELECT ';' FROM \"a;b\"");
        assert_eq!(found[1], "SELECT $$ ; $$ FROM t /* ; */");
        assert!(found[2].starts_with("BEGIN") && found[2].ends_with("APPLY BATCH"));
    }

    #[test]
    fn commands_of_one_line_end_with_it() {
        assert_eq!(texts("DESCRIBE\n"), ["DESCRIBE"]);
        assert_eq!(
            texts("consistency quorum\nSELECT 1\n;\nexit\n"),
            ["consistency quorum", "SELECT 1", "exit"]
        );
        assert_eq!(texts("PAGING 5; EXPAND ON\n"), ["PAGING 5", "EXPAND ON"]);
        assert_eq!(texts("? select\n"), ["? select"]);
        assert_eq!(texts(".import 'a b.csv' ks.t\nSELECT 1;"), [".import 'a b.csv' ks.t", "SELECT 1"]);
        assert_eq!(split("copy t to 'x'\n").incomplete, Some(0), "COPY needs a semicolon");
    }

    #[test]
    fn what_has_no_end_waits_for_more() {
        for input in
            ["SELECT", "SELECT 'a;\n", "SELECT 1; SELECT $$ ;\n", "SELECT /* ;\n", "BEGIN BATCH a; b;\n"]
        {
            assert!(split(input).incomplete.is_some(), "{input}");
        }
        for input in ["", " \n", ";;", "-- only a comment\n", "-- only a comment", "SELECT 1; // x"] {
            assert_eq!(split(input).incomplete, None, "{input}");
        }
    }

    #[test]
    fn invalid_characters_are_reported_with_their_place() {
        let input = "SELECT 1;\nSELECT ~ 2; SELECT 3;";
        let split = split(input);
        assert_eq!(split.units.len(), 3);
        let (message, at) = split.units[1].problem.clone().unwrap();
        assert_eq!((message.as_str(), at), ("invalid character '~'", input.find('~').unwrap()));
        assert_eq!(place_of(input, at).line, 2);
    }

    #[test]
    fn words_are_found_in_any_case() {
        let word = |input: &str| split(input).units[0].word();
        assert_eq!(word("SELECT 1;"), "select");
        assert_eq!(word("?\n"), "?");
        assert_eq!(word(".Import a b\n"), ".import");
    }
}
