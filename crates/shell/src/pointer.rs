//! The place in a statement that an error is about.

use cassette_cql::lexer::{Lexer, TokenKind};
use cassette_protocol::response::{Error, ErrorDetail};
use unicode_width::UnicodeWidthStr;

use crate::input::place_of;

/// Longest line that is shown; longer ones are cut around the place.
const LINE_LENGTH_MAX: usize = 200;

/// Words of messages that are rarely names.
const COMMON_WORDS: [&str; 24] = [
    "a", "an", "and", "are", "be", "by", "cannot", "clause", "column", "does", "exist", "for", "in",
    "invalid", "is", "key", "keyspace", "name", "not", "of", "on", "table", "the", "type",
];

/// Returns the offset in `statement` that an error of a server is about: the position of a syntax
/// error, or the name that the message quotes.
pub fn offset_of(error: &Error, statement: &str) -> Option<usize> {
    match error.detail {
        ErrorDetail::SyntaxError => syntax_offset(&error.message, statement),
        _ => name_offset(&error.message, statement),
    }
}

/// The position of `line L:C ...`, with the column in UTF-16 units.
fn syntax_offset(message: &str, statement: &str) -> Option<usize> {
    let (_, rest) = message.split_once("line ")?;
    let (line, rest) = rest.split_once(':')?;
    let column = &rest[..rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len())];
    let (line, column): (usize, i64) = (line.parse().ok()?, column.parse().ok()?);
    let Ok(column) = usize::try_from(column) else { return Some(statement.trim_end().len()) };
    let start: usize = statement.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let text = statement.get(start..)?.lines().next().unwrap_or_default();
    let mut units = 0;
    let within = text.char_indices().find(|(_, c)| {
        let is_here = units >= column;
        units += c.len_utf16();
        is_here
    });
    Some(start + within.map_or(text.len(), |(at, _)| at))
}

/// The first token that is a word of the message and names something: the most specific word is
/// the last one that the statement contains outside of keywords.
fn name_offset(message: &str, statement: &str) -> Option<usize> {
    let words: Vec<String> = message
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .map(str::to_lowercase)
        .filter(|word| !word.is_empty() && !COMMON_WORDS.contains(&word.as_str()))
        .collect();
    // Messages name the culprit first: "Undefined column name x in table k.t".
    let mut found: Option<(usize, usize)> = None;
    let mut lexer = Lexer::new(statement);
    loop {
        let token = lexer.next_token();
        let text = &statement[token.start as usize..token.end as usize];
        let name = match token.kind {
            TokenKind::Eof | TokenKind::Error => break,
            TokenKind::Ident => text.to_lowercase(),
            TokenKind::QuotedName | TokenKind::String => text.trim_matches(['"', '\'']).to_lowercase(),
            TokenKind::Keyword(keyword)
                if keyword.class() != cassette_cql::keywords::KeywordClass::Reserved =>
            {
                text.to_lowercase()
            }
            _ => continue,
        };
        let rank = words.iter().position(|word| *word == name);
        if let Some(rank) = rank
            && found.is_none_or(|(best, _)| rank < best)
        {
            found = Some((rank, token.start as usize));
        }
    }
    found.map(|(_, at)| at)
}

/// Returns the line of `statement` with the place, and a caret under it; without a place, the
/// first line.
pub fn excerpt(statement: &str, offset: Option<usize>) -> String {
    let place = place_of(statement, offset.unwrap_or(0).min(statement.len()));
    let line = statement[place.line_start..].lines().next().unwrap_or_default();
    let within = place.offset - place.line_start;
    let (shown, within) = shorten(line, within);
    let mut text = format!("  {}", shown.replace('\t', " "));
    if offset.is_some() {
        let width = shown.get(..within).map_or(0, UnicodeWidthStr::width);
        text.push_str(&format!("\n  {:width$}^", ""));
    } else if statement.lines().count() > 1 {
        text.push_str(" ...");
    }
    text
}

/// Cuts a long line around an offset in it.
fn shorten(line: &str, within: usize) -> (String, usize) {
    if line.chars().count() <= LINE_LENGTH_MAX {
        return (line.to_owned(), within);
    }
    let position = line.get(..within).map_or(0, |before| before.chars().count());
    let first = position.saturating_sub(LINE_LENGTH_MAX / 2);
    let cut: String = line.chars().skip(first).take(LINE_LENGTH_MAX).collect();
    let at = cut.char_indices().nth(position - first).map_or(cut.len(), |(at, _)| at);
    if first == 0 { (format!("{cut}..."), at) } else { (format!("...{cut}..."), at + 3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(detail: ErrorDetail, message: &str) -> Error {
        Error { detail, message: message.to_owned() }
    }

    #[test]
    fn syntax_errors_are_pointed_at_by_line_and_column() {
        let statement = "SELECT *\n  FROMM t";
        let found = error(ErrorDetail::SyntaxError, "line 2:2 mismatched input 'FROMM' expecting K_FROM");
        assert_eq!(excerpt(statement, offset_of(&found, statement)), "    FROMM t\n    ^");
        let end = error(ErrorDetail::SyntaxError, "line 0:-1 mismatched input '<EOF>'");
        assert_eq!(excerpt("SELECT", offset_of(&end, "SELECT")), "  SELECT\n        ^");
    }

    #[test]
    fn wide_characters_before_the_place_take_two_columns() {
        let statement = "SELECT '日本' FROMM t";
        let found = error(ErrorDetail::SyntaxError, "line 1:12 mismatched input 'FROMM'");
        assert_eq!(
            excerpt(statement, offset_of(&found, statement)),
            "  SELECT '日本' FROMM t\n                ^"
        );
    }

    #[test]
    fn names_in_messages_are_pointed_at() {
        let statement = "SELECT a, b FROM k.t WHERE c = 1";
        for (message, place) in [
            ("Undefined column name b in table k.t", "b FROM"),
            ("table t does not exist", "t WHERE"),
            ("keyspace k does not exist", "k.t"),
        ] {
            let found = offset_of(&error(ErrorDetail::Invalid, message), statement).unwrap();
            assert!(statement[found..].starts_with(place), "{message}: {}", &statement[found..]);
        }
        let unknown = error(ErrorDetail::Invalid, "Cannot do this");
        assert_eq!(offset_of(&unknown, statement), None);
        assert_eq!(excerpt("SELECT a\nFROM t", None), "  SELECT a ...");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let statement = format!("SELECT {}, wrong FROM t", "a, ".repeat(300));
        let found = error(ErrorDetail::Invalid, "Undefined column name wrong");
        let text = excerpt(&statement, offset_of(&found, &statement));
        let (line, caret) = text.split_once('\n').unwrap();
        assert!(line.len() < 220);
        assert_eq!(line.find("wrong"), Some(caret.len() - 1));
    }
}
