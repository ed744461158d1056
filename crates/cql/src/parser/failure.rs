//! Formats failures in Cassandra's words.
//!
//! ANTLR 3 generates Cassandra's parser. A token that can only be one thing and is not causes
//! `mismatched input ... expecting ...`; a token that fits none of several continuations causes `no
//! viable alternative at input ...`. Then follows the text from ten tokens before (blanks count as
//! tokens) to two after, with the offending token in square brackets. The parser reads tokens as it
//! needs them, so the text ends earlier where it had not read further.

use super::Parser;
use crate::error::SyntaxError;
use crate::lexer::{Lexer, Token, TokenKind, unquote};

/// A failure before it is formatted.
#[derive(Debug)]
pub(super) struct Failure {
    kind: FailureKind,
    /// The offending token.
    token: Token,
    /// The token shown in brackets: the parser's position when it looked ahead to `token`.
    shown: Token,
}

/// The kinds of failures.
#[derive(Debug)]
pub(super) enum FailureKind {
    /// Only this token was possible.
    Mismatched(TokenKind),
    /// One of a few tokens was possible.
    MismatchedSet,
    /// No continuation matches.
    NoViable,
    /// Grammatical text that is rejected immediately.
    Refused(String),
    /// Exceeds the nesting limit.
    TooDeep(u32),
    /// Exceeds the limit of chained operators.
    TooLong(u32),
}

impl Failure {
    /// Returns whether the text is grammatical and rejected for its meaning.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.kind, FailureKind::Refused(_))
    }

    /// Returns whether the text is rejected for its size, independent of its meaning.
    pub(super) fn is_limit(&self) -> bool {
        matches!(self.kind, FailureKind::TooDeep(_) | FailureKind::TooLong(_))
    }
}

impl Parser<'_> {
    /// Creates a failure at the current token.
    pub(super) fn fail(&self, kind: FailureKind) -> Box<Failure> {
        Box::new(Failure { kind, token: self.current, shown: self.current })
    }

    /// Creates the failure of a token that differs from the only possible one.
    pub(super) fn mismatched(&self, expected: TokenKind) -> Box<Failure> {
        self.fail(FailureKind::Mismatched(expected))
    }

    /// Creates the failure of a token that fits none of several continuations.
    pub(super) fn no_viable(&self) -> Box<Failure> {
        self.fail(FailureKind::NoViable)
    }

    /// Creates the failure of the `n`th token ahead, which fits none of several continuations.
    pub(super) fn no_viable_ahead(&mut self, n: usize) -> Box<Failure> {
        let token = if n == 0 { self.current } else { self.peek_token(n) };
        // This decision failed, so no token was predicted.
        self.predicted = None;
        Box::new(Failure { kind: FailureKind::NoViable, token, shown: self.current })
    }

    /// Creates the failure of grammatical text that is rejected with this message.
    pub(super) fn refused(&self, message: impl Into<String>) -> Box<Failure> {
        self.fail(FailureKind::Refused(message.into()))
    }

    /// Creates the failure of a number beyond 32 bits, with the text of Java's exception.
    pub(super) fn not_an_int(&self, text: &str) -> Box<Failure> {
        self.refused(format!(
            "Failed parsing statement: [{}] reason: NumberFormatException For input string: \"{text}\"",
            self.source
        ))
    }

    /// Returns the message. A lexical error takes precedence if the lexer reached it.
    pub(super) fn explain(&mut self, failure: Failure) -> SyntaxError {
        if let Some(error) = self.lexical_error() {
            return error;
        }
        let Failure { kind, token, shown } = failure;
        let text = token_text(self.source, token);
        let what = match kind {
            FailureKind::Refused(message) => {
                return SyntaxError { message, line: None, column: None, interrupted: None };
            }
            FailureKind::Mismatched(expected) => {
                format!("mismatched input '{text}' expecting {}", expected.token_name())
            }
            FailureKind::MismatchedSet => format!("mismatched input '{text}' expecting set null"),
            FailureKind::NoViable => format!("no viable alternative at input '{text}'"),
            FailureKind::TooDeep(limit) => format!("nested deeper than {limit} levels at input '{text}'"),
            FailureKind::TooLong(limit) => {
                format!("expression of more than {limit} operators at input '{text}'")
            }
        };
        let snippet = snippet(self.source, shown, self.furthest, self.predicted);
        if token.kind == TokenKind::Eof {
            return SyntaxError {
                message: format!("line 0:-1 {what}{snippet}"),
                line: Some(0),
                column: None,
                interrupted: None,
            };
        }
        let place = place(self.source, token.start as usize);
        let message = format!("line {}:{} {what}{snippet}", place.line, place.column);
        SyntaxError { message, line: Some(place.line), column: Some(place.column), interrupted: None }
    }

    /// Returns the error of an invalid token, if the lexer reached it.
    fn lexical_error(&self) -> Option<SyntaxError> {
        let mut lexer = Lexer::new(self.source);
        let token = loop {
            let token = lexer.next_token();
            match token.kind {
                TokenKind::Error => break token,
                TokenKind::Eof => return None,
                _ if token.start >= self.furthest => return None,
                _ => {}
            }
        };
        let problem = Lexer::problem_at(self.source, token.start as usize);
        let place = place(self.source, problem.offset);
        let message = format!("line {}:{} {}", place.line, place.column, problem.message);
        Some(SyntaxError { message, line: Some(place.line), column: Some(place.column), interrupted: None })
    }
}

/// A position in the source, in the units of error messages.
struct Place {
    /// Counted from 1.
    line: u32,
    /// In UTF-16 units, counted from 0.
    column: u32,
}

fn place(source: &str, offset: usize) -> Place {
    let before = source.get(..offset).unwrap_or(source);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.bytes().filter(|b| *b == b'\n').count() as u32 + 1;
    let column = before[line_start..].encode_utf16().count() as u32;
    Place { line, column }
}

/// Returns the text of a token in Cassandra's form: strings and quoted names without their quotes.
fn token_text(source: &str, token: Token) -> String {
    let raw = source.get(token.start as usize..token.end as usize).unwrap_or_default();
    match token.kind {
        TokenKind::Eof => "<EOF>".to_string(),
        TokenKind::String | TokenKind::QuotedName => unquote(raw).into_owned(),
        _ => raw.to_string(),
    }
}

/// Returns ` (...the text around [shown]...)`, without reading beyond the token that starts at
/// `furthest`, or one after the token that starts at `predicted`.
///
/// Cassandra measures tokens by their text without quotes, so the closing bracket is too early by
/// the length of the quotes; and it numbers columns per line and joins the lines without a break.
/// This does the same.
fn snippet(source: &str, shown: Token, furthest: u32, predicted: Option<u32>) -> String {
    const TOKENS_BEFORE: usize = 10;
    const TOKENS_AFTER: usize = 2;
    let tokens = all_tokens(source, furthest, predicted);
    let Some(index) = tokens.iter().position(|token| token.start == shown.start) else {
        return String::new();
    };
    let first = tokens[index.saturating_sub(TOKENS_BEFORE)];
    let last = tokens[(index + TOKENS_AFTER).min(tokens.len() - 1)];
    if last.kind == TokenKind::Eof {
        return String::new();
    }
    let shown_end = shown.start + unquoted_length(source, shown);
    let last_end = last.start + length_in_line(source, last);
    let slice = |from: u32, to: u32| source.get(from as usize..to as usize).unwrap_or_default();
    let (middle, after) = if shown_end <= last_end {
        (slice(shown.start, shown_end), slice(shown_end, last_end))
    } else {
        (slice(shown.start, last_end), "")
    };
    format!(
        " ({}{}[{middle}]{after}{})",
        if first.start == 0 { "" } else { "..." },
        slice(first.start, shown.start),
        if last_end as usize == source.len() { "" } else { "..." },
    )
    .replace('\n', "")
}

/// Returns the length of the excerpt's last token, which ends with the line.
fn length_in_line(source: &str, token: Token) -> u32 {
    let text = source.get(token.start as usize..token.end as usize).unwrap_or_default();
    let line_end = text.find('\n').unwrap_or(text.len()) as u32;
    unquoted_length(source, token).min(line_end)
}

/// Returns the bytes of as many characters from the token's start as its text has without the
/// quotes of strings and quoted names.
fn unquoted_length(source: &str, token: Token) -> u32 {
    match token.kind {
        TokenKind::String | TokenKind::QuotedName => {
            let raw = source.get(token.start as usize..token.end as usize).unwrap_or_default();
            let count = token_text(source, token).chars().count();
            raw.char_indices().nth(count).map_or(raw.len(), |(at, _)| at) as u32
        }
        _ => token.end - token.start,
    }
}

/// Returns the tokens up to the one that starts at `furthest`, or to the one after that at
/// `predicted`, with every run of white space and every comment as a separate token.
fn all_tokens(source: &str, furthest: u32, predicted: Option<u32>) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut lexer = Lexer::new(source);
    let mut end = 0;
    loop {
        let token = lexer.next_token();
        push_blanks(source, end, token, &mut tokens);
        tokens.push(token);
        end = token.end;
        let enough = token.start >= furthest && predicted.is_none_or(|predicted| token.start > predicted);
        if enough || matches!(token.kind, TokenKind::Eof | TokenKind::Error) {
            return tokens;
        }
    }
}

/// Pushes the white space and comments between `start` and the token `next`.
fn push_blanks(source: &str, mut start: u32, next: Token, tokens: &mut Vec<Token>) {
    while start < next.start {
        let blanks = source.get(start as usize..next.start as usize).unwrap_or_default();
        let length = if blanks.starts_with("/*") {
            blanks.find("*/").map(|at| at + 2)
        } else if blanks.starts_with("--") || blanks.starts_with("//") {
            blanks.find(['\n', '\r']).map(|at| at + 1)
        } else {
            blanks.find(|c: char| !c.is_ascii_whitespace())
        };
        let end = start + length.unwrap_or(blanks.len()).max(1) as u32;
        tokens.push(Token { kind: next.kind, start, end });
        start = end;
    }
}
