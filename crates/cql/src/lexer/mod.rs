//! Tokenizes text without copying: a token is a kind and a range of the source.
//!
//! Source of the lexical rules: `Lexer.g` of Apache Cassandra 5.0.8.

mod literals;
mod problems;

use std::borrow::Cow;

use crate::keywords::Keyword;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A keyword.
    Keyword(Keyword),
    /// A bare word that is not a keyword.
    Ident,
    /// `"name"`, not empty.
    QuotedName,
    /// `""`
    EmptyQuotedName,
    /// `'text'` or `$$text$$`
    String,
    /// `12`, `-12`
    Integer,
    /// `1.`, `-1.5`, `1e3`
    Float,
    /// `true`, `false`
    Boolean,
    /// `1h30m`, `P1Y`
    Duration,
    /// `123e4567-e89b-12d3-a456-426614174000`
    Uuid,
    /// `0xCAFE`
    Hex,
    /// `-NaN`
    NegativeNaN,
    /// `-Infinity`
    NegativeInfinity,
    /// One of [`Symbol`].
    Symbol(Symbol),
    /// The end of the source.
    Eof,
    /// No token can start or continue here; [`Lexer::problem_at`] returns the reason.
    Error,
}

macro_rules! symbols {
    ($($variant:ident $text:literal $name:literal,)*) => {
        /// A token with a constant spelling.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Symbol {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
        }

        impl Symbol {
            /// The token's name in error messages.
            pub fn token_name(self) -> &'static str {
                match self {
                    $(Symbol::$variant => $name,)*
                }
            }
        }
    };
}

symbols! {
    NotEqual "!=" "'!='",
    Percent "%" "'%'",
    ParenOpen "(" "'('",
    ParenClose ")" "')'",
    Plus "+" "'+'",
    PlusEqual "+=" "'+='",
    Comma "," "','",
    Minus "-" "'-'",
    MinusEqual "-=" "'-='",
    Dot "." "'.'",
    Slash "/" "'/'",
    Colon ":" "':'",
    Semicolon ";" "';'",
    Less "<" "'<'",
    LessEqual "<=" "'<='",
    Equal "=" "'='",
    Greater ">" "'>'",
    GreaterEqual ">=" "'>='",
    BracketOpen "[" "'['",
    Star "*" "'\\*'",
    BracketClose "]" "']'",
    ExprOpen "expr(" "'expr('",
    BraceOpen "{" "'{'",
    BraceClose "}" "'}'",
    QuestionMark "?" "QMARK",
    Range ".." "RANGE",
}

impl TokenKind {
    /// The token's name in error messages.
    pub fn token_name(self) -> &'static str {
        match self {
            TokenKind::Keyword(keyword) => keyword.token_name(),
            TokenKind::Ident => "IDENT",
            TokenKind::QuotedName => "QUOTED_NAME",
            TokenKind::EmptyQuotedName => "EMPTY_QUOTED_NAME",
            TokenKind::String => "STRING_LITERAL",
            TokenKind::Integer => "INTEGER",
            TokenKind::Float => "FLOAT",
            TokenKind::Boolean => "BOOLEAN",
            TokenKind::Duration => "DURATION",
            TokenKind::Uuid => "UUID",
            TokenKind::Hex => "HEXNUMBER",
            TokenKind::NegativeNaN => "K_NEGATIVE_NAN",
            TokenKind::NegativeInfinity => "K_NEGATIVE_INFINITY",
            TokenKind::Symbol(symbol) => symbol.token_name(),
            TokenKind::Eof => "EOF",
            TokenKind::Error => "<invalid>",
        }
    }
}

/// A token: its kind, and the bytes `start..end` of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The kind.
    pub kind: TokenKind,
    /// Offset of its first byte.
    pub start: u32,
    /// Offset after its last byte.
    pub end: u32,
}

/// Reads tokens from a source one by one, skipping white space and comments. A copy is cheap, and
/// reads the same tokens again.
#[derive(Clone, Copy, Debug)]
pub struct Lexer<'a> {
    source: &'a str,
    position: usize,
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of `source`, which must be shorter than 4 GiB.
    pub fn new(source: &'a str) -> Lexer<'a> {
        Lexer { source, position: 0 }
    }

    /// Returns the next token. At the end it returns [`TokenKind::Eof`] repeatedly; at an invalid
    /// token, [`TokenKind::Error`] repeatedly.
    pub fn next_token(&mut self) -> Token {
        let bytes = self.source.as_bytes();
        let start = match skip_blanks(bytes, self.position) {
            Ok(start) => start,
            Err(start) => {
                self.position = start;
                return Token { kind: TokenKind::Error, start: start as u32, end: bytes.len() as u32 };
            }
        };
        let (kind, end) = scan(bytes, start);
        self.position = if kind == TokenKind::Error { start } else { end };
        Token { kind, start: start as u32, end: end as u32 }
    }

    /// Returns the reason and the position of a [`TokenKind::Error`] with this `start`, in ANTLR's
    /// words.
    pub fn problem_at(source: &str, start: usize) -> LexicalProblem {
        problems::problem_at(source, start)
    }
}

/// The reason why no token could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexicalProblem {
    /// The reason.
    pub message: String,
    /// The offset of the offending byte; the source's length for an unexpected end.
    pub offset: usize,
}

/// Returns the offset of the first byte at or after `at` that belongs to neither white space nor a
/// comment; or `Err` with the offset of an unterminated comment. A line comment must end with a
/// line feed or carriage return.
fn skip_blanks(bytes: &[u8], mut at: usize) -> Result<usize, usize> {
    loop {
        match bytes.get(at) {
            Some(b' ' | b'\t' | b'\n' | b'\r') => at += 1,
            Some(b'-') if bytes.get(at + 1) == Some(&b'-') => at = line_comment_end(bytes, at)?,
            Some(b'/') if bytes.get(at + 1) == Some(&b'/') => at = line_comment_end(bytes, at)?,
            Some(b'/') if bytes.get(at + 1) == Some(&b'*') => {
                let body = &bytes[at + 2..];
                let length = body.windows(2).position(|pair| pair == b"*/").ok_or(at)?;
                at += 2 + length + 2;
            }
            _ => return Ok(at),
        }
    }
}

fn line_comment_end(bytes: &[u8], at: usize) -> Result<usize, usize> {
    let length = bytes[at..].iter().position(|b| matches!(b, b'\n' | b'\r')).ok_or(at)?;
    Ok(at + length + 1)
}

/// Returns the kind and end of the token at `start`, which is not white space.
fn scan(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let Some(&first) = bytes.get(start) else { return (TokenKind::Eof, start) };
    let second = bytes.get(start + 1).copied().unwrap_or(0);
    let symbol = |symbol, length| (TokenKind::Symbol(symbol), start + length);
    match first {
        b'a'..=b'z' | b'A'..=b'Z' => literals::word(bytes, start),
        b'0'..=b'9' => literals::number(bytes, start),
        b'\'' => literals::string(bytes, start),
        b'"' => literals::quoted_name(bytes, start),
        b'$' if second == b'$' => literals::dollar_string(bytes, start),
        b'(' => symbol(Symbol::ParenOpen, 1),
        b')' => symbol(Symbol::ParenClose, 1),
        b',' => symbol(Symbol::Comma, 1),
        b'?' => symbol(Symbol::QuestionMark, 1),
        b':' => symbol(Symbol::Colon, 1),
        b';' => symbol(Symbol::Semicolon, 1),
        b'=' => symbol(Symbol::Equal, 1),
        b'<' if second == b'=' => symbol(Symbol::LessEqual, 2),
        b'<' => symbol(Symbol::Less, 1),
        b'>' if second == b'=' => symbol(Symbol::GreaterEqual, 2),
        b'>' => symbol(Symbol::Greater, 1),
        b'!' if second == b'=' => symbol(Symbol::NotEqual, 2),
        b'+' if second == b'=' => symbol(Symbol::PlusEqual, 2),
        b'+' => symbol(Symbol::Plus, 1),
        b'-' if second == b'=' => symbol(Symbol::MinusEqual, 2),
        b'-' => literals::minus(bytes, start),
        b'.' if second == b'.' => symbol(Symbol::Range, 2),
        b'.' => symbol(Symbol::Dot, 1),
        b'*' => symbol(Symbol::Star, 1),
        b'/' => symbol(Symbol::Slash, 1),
        b'%' => symbol(Symbol::Percent, 1),
        b'[' => symbol(Symbol::BracketOpen, 1),
        b']' => symbol(Symbol::BracketClose, 1),
        b'{' => symbol(Symbol::BraceOpen, 1),
        b'}' => symbol(Symbol::BraceClose, 1),
        _ => (TokenKind::Error, bytes.len()),
    }
}

/// Returns the content of a string or quoted name with the text `raw`, without quotes and with
/// doubled ones reduced to one.
pub fn unquote(raw: &str) -> Cow<'_, str> {
    if let Some(inner) = raw.strip_prefix("$$") {
        return Cow::Borrowed(inner.strip_suffix("$$").unwrap_or(inner));
    }
    let mut chars = raw.chars();
    let Some(quote @ ('\'' | '"')) = chars.next() else { return Cow::Borrowed(raw) };
    let inner = chars.as_str().strip_suffix(quote).unwrap_or(chars.as_str());
    match quote {
        _ if !inner.contains(quote) => Cow::Borrowed(inner),
        '\'' => Cow::Owned(inner.replace("''", "'")),
        _ => Cow::Owned(inner.replace("\"\"", "\"")),
    }
}

#[cfg(test)]
mod tests;
