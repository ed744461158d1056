//! From a failure to Cassandra's words for it.
//!
//! Cassandra's parser is made by ANTLR 3. A token that can only be one thing and is not makes `mismatched input
//! ... expecting ...`; a token that fits none of several continuations makes `no viable alternative at input ...`.
//! Behind that stands the text from ten tokens before (blanks count as tokens) to two after, the offending token in
//! square brackets. The parser reads tokens as it needs them, so the text ends earlier where it had not read on.

use super::Parser;
use crate::error::SyntaxError;
use crate::lexer::{Lexer, Token, TokenKind, unquote};

/// What went wrong, before it is put into words.
#[derive(Debug)]
pub(super) struct Failure {
    kind: FailureKind,
    /// The token that does not fit.
    token: Token,
    /// The token that is shown in brackets: where the parser stood when it looked ahead to `token`.
    shown: Token,
}

/// The ways to fail.
#[derive(Debug)]
pub(super) enum FailureKind {
    /// Only this could have come.
    Mismatched(TokenKind),
    /// One of a few tokens could have come.
    MismatchedSet,
    /// Nothing fits.
    NoViable,
    /// The grammar fits, but what it says is refused at once.
    Refused(String),
    /// Nested deeper than the limit.
    TooDeep(u32),
    /// Chains more operators than the limit.
    TooLong(u32),
}

impl Failure {
    /// Whether the text is refused for its size, however it might be read.
    pub(super) fn is_limit(&self) -> bool {
        matches!(self.kind, FailureKind::TooDeep(_) | FailureKind::TooLong(_))
    }
}

impl Parser<'_> {
    /// A failure at the current token.
    pub(super) fn fail(&self, kind: FailureKind) -> Box<Failure> {
        Box::new(Failure { kind, token: self.current, shown: self.current })
    }

    /// The current token is not the only one possible.
    pub(super) fn mismatched(&self, expected: TokenKind) -> Box<Failure> {
        self.fail(FailureKind::Mismatched(expected))
    }

    /// The current token fits none of several continuations.
    pub(super) fn no_viable(&self) -> Box<Failure> {
        self.fail(FailureKind::NoViable)
    }

    /// Looking `n` tokens ahead from the current one, that one fits none of several continuations.
    pub(super) fn no_viable_ahead(&mut self, n: usize) -> Box<Failure> {
        let token = if n == 0 { self.current } else { self.peek_token(n) };
        // this decision came to nothing, and was built on no token
        self.predicted = None;
        Box::new(Failure { kind: FailureKind::NoViable, token, shown: self.current })
    }

    /// What was written is grammatical and still refused with this message.
    pub(super) fn refused(&self, message: impl Into<String>) -> Box<Failure> {
        self.fail(FailureKind::Refused(message.into()))
    }

    /// The failure in words. A text that is no token comes first if it was reached.
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

    /// The error of a text that is no token, if reading got that far.
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

/// A position in the source as people count it.
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

/// The text of a token as Cassandra gives it: strings and quoted names without their quotes.
fn token_text(source: &str, token: Token) -> String {
    let raw = source.get(token.start as usize..token.end as usize).unwrap_or_default();
    match token.kind {
        TokenKind::Eof => "<EOF>".to_string(),
        TokenKind::String | TokenKind::QuotedName => unquote(raw).into_owned(),
        _ => raw.to_string(),
    }
}

/// ` (...the text around [shown]...)`, reading no further than the token that starts at `furthest`, or one
/// after the token that starts at `predicted`.
///
/// Cassandra measures tokens by their text without quotes, so the closing bracket stands too early by those, and
/// numbers columns line by line, joining the lines without a break. So does this.
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

/// The length of what the excerpt shows of its last token: it ends with the line.
fn length_in_line(source: &str, token: Token) -> u32 {
    let text = source.get(token.start as usize..token.end as usize).unwrap_or_default();
    let line_end = text.find('\n').unwrap_or(text.len()) as u32;
    unquoted_length(source, token).min(line_end)
}

/// The length in bytes of a token's text, that of strings and quoted names without the quotes.
fn unquoted_length(source: &str, token: Token) -> u32 {
    match token.kind {
        TokenKind::String | TokenKind::QuotedName => token_text(source, token).len() as u32,
        _ => token.end - token.start,
    }
}

/// The tokens up to the one that starts at `furthest`, or to the one after that at `predicted`, with every run of
/// white space and every comment as a token of its own.
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
