//! Texts with several statements, and their execution.

use std::borrow::Cow;

use cassette_cql::keywords::Keyword;
use cassette_cql::lexer::{Lexer, Symbol, TokenKind};
use cassette_database::{DatabaseError, Session};

use crate::error::{Error, Result};

/// Returns the statements of a text with their offsets, without the semicolons between them.
///
/// An invalid token does not end its statement: parsing that reports it with the place.
fn statements(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some((start, end, next)) = next_statement(text, rest) {
        if start < end {
            found.push((start, text[start..end].trim_end()));
        }
        rest = next;
    }
    found
}

/// Returns where the statement after `from` starts and ends, and where to look for the next one.
fn next_statement(text: &str, from: usize) -> Option<(usize, usize, usize)> {
    let source = text.get(from..)?;
    let mut lexer = Lexer::new(source);
    let first = lexer.next_token();
    if first.kind == TokenKind::Eof {
        return None;
    }
    // Semicolons within a batch separate its statements.
    let is_batch = first.kind == TokenKind::Keyword(Keyword::Begin);
    let start = from + first.start as usize;
    let mut last = [first.kind; 2];
    let mut token = first;
    loop {
        match token.kind {
            TokenKind::Eof | TokenKind::Error => return Some((start, text.len(), text.len())),
            TokenKind::Symbol(Symbol::Semicolon)
                if !is_batch
                    || last == [TokenKind::Keyword(Keyword::Apply), TokenKind::Keyword(Keyword::Batch)] =>
            {
                return Some((start, from + token.start as usize, from + token.end as usize));
            }
            kind => last = [last[1], kind],
        }
        token = lexer.next_token();
    }
}

/// Returns a text whose last line is ended. To the lexer, as to Cassandra's, a comment ends with
/// its line, and one that the text ends in is an error.
fn with_last_line_ended(text: &str) -> Cow<'_, str> {
    if text.ends_with('\n') { Cow::Borrowed(text) } else { Cow::Owned(format!("{text}\n")) }
}

/// Executes the statements of a text one after the other. Messages name the text `name`.
pub fn execute(session: &Session, name: &str, text: &str) -> Result<()> {
    let text = &*with_last_line_ended(text);
    for (offset, statement) in statements(text) {
        session.execute(statement, ()).map_err(|source| {
            let (line, column) = place(text, offset, &source);
            Error::Statement { script: name.to_owned(), line, column, source: Box::new(source) }
        })?;
    }
    Ok(())
}

/// Returns the line and the column, from 1, of an error in the statement at `offset`.
fn place(text: &str, offset: usize, error: &DatabaseError) -> (usize, usize) {
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    match error.position() {
        // The line of a position counts from 1, its column from 0.
        Some((1, within)) => (line, column + within as usize),
        Some((below, within)) => (line + below as usize - 1, within as usize + 1),
        None => (line, column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let text = with_last_line_ended(text);
        statements(&text).into_iter().map(|(_, statement)| statement.to_owned()).collect()
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_strings_comments_and_batches() {
        let text = "-- a; b\nINSERT INTO t (k) VALUES ('x;y') ; ;\n\
                    BEGIN BATCH DELETE FROM t WHERE k = 1; DELETE FROM t WHERE k = 2; APPLY BATCH;\nSELECT $$;$$";
        let found = split(text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "INSERT INTO t (k) VALUES ('x;y')");
        assert!(found[1].starts_with("BEGIN") && found[1].ends_with("APPLY BATCH"));
        assert_eq!(found[2], "SELECT $$;$$");
        assert_eq!(split(" ;; -- nothing"), Vec::<String>::new());
    }

    #[test]
    fn an_invalid_token_is_not_skipped() {
        assert_eq!(split("SELECT 1; SELECT ^ ; SELECT 2"), ["SELECT 1", "SELECT ^ ; SELECT 2"]);
        assert_eq!(split("SELECT 'open; SELECT 2"), ["SELECT 'open; SELECT 2"]);
    }
}
