//! Words, numbers, strings: the tokens whose end must be searched for.

use super::keywords;
use super::{LexicalProblem, Symbol, TokenKind};

/// A token that starts with a letter: a keyword, a boolean, a name, a UUID or an ISO 8601 duration.
pub(super) fn word(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let rest = &bytes[start..];
    let length = rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_').unwrap_or(rest.len());
    let word = &rest[..length];
    if let Some(keyword) = keywords::lookup(word) {
        return (TokenKind::Keyword(keyword), start + length);
    }
    if length == 8 && is_uuid(rest) {
        return (TokenKind::Uuid, start + UUID_LENGTH);
    }
    if word[0] == b'P'
        && let Some(duration) = iso_duration(rest).filter(|duration| *duration >= length)
    {
        return (TokenKind::Duration, start + duration);
    }
    if word == b"expr" && rest.get(length) == Some(&b'(') {
        return (TokenKind::Symbol(Symbol::ExprOpen), start + length + 1);
    }
    if word.eq_ignore_ascii_case(b"true") || word.eq_ignore_ascii_case(b"false") {
        return (TokenKind::Boolean, start + length);
    }
    (TokenKind::Ident, start + length)
}

/// A token that starts with a digit.
pub(super) fn number(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let rest = &bytes[start..];
    if is_uuid(rest) {
        return (TokenKind::Uuid, start + UUID_LENGTH);
    }
    if rest[0] == b'0' && matches!(rest.get(1), Some(b'x' | b'X')) {
        let digits = rest[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        return (TokenKind::Hex, start + 2 + digits);
    }
    unsigned_number(bytes, start)
}

/// A token that starts with `-` and is neither a comment nor `-=`.
pub(super) fn minus(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let rest = &bytes[start + 1..];
    if rest.first() == Some(&b'P')
        && let Some(length) = iso_duration(rest)
    {
        return (TokenKind::Duration, start + 1 + length);
    }
    match rest.first() {
        Some(b'0'..=b'9') => unsigned_number(bytes, start + 1),
        Some(b'n' | b'N') if starts_with_word(rest, b"nan") => (TokenKind::NegativeNaN, start + 4),
        Some(b'i' | b'I') if starts_with_word(rest, b"infinity") => (TokenKind::NegativeInfinity, start + 9),
        _ => (TokenKind::Symbol(Symbol::Minus), start + 1),
    }
}

fn starts_with_word(rest: &[u8], word: &[u8]) -> bool {
    rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

/// An integer, a float or a duration in units, at a digit. An integer before `..` ends there.
fn unsigned_number(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let mut at = digits_end(bytes, start);
    if unit_length(&bytes[at..]) > 0 {
        return (TokenKind::Duration, unit_duration_end(bytes, at));
    }
    let mut kind = TokenKind::Integer;
    if bytes.get(at) == Some(&b'.') {
        let dots = bytes[at..].iter().take(3).take_while(|b| **b == b'.').count();
        match dots {
            2 => return (TokenKind::Integer, at),
            3 => return (TokenKind::Float, at + 1),
            _ => {}
        }
        kind = TokenKind::Float;
        at = digits_end(bytes, at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let end = digits_end(bytes, at + 1 + sign);
        if end > at + 1 + sign {
            return (TokenKind::Float, end);
        }
    }
    (kind, at)
}

fn digits_end(bytes: &[u8], at: usize) -> usize {
    at + bytes.get(at..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count()
}

/// The end of a duration whose first unit stands at `at`: `unit (digits unit)*`.
fn unit_duration_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at += unit_length(&bytes[at..]);
        let next = digits_end(bytes, at);
        if next == at || unit_length(&bytes[next..]) == 0 {
            return at;
        }
        at = next;
    }
}

/// The length in bytes of the longest duration unit that `rest` starts with: y mo w d h m s ms us µs ns.
fn unit_length(rest: &[u8]) -> usize {
    let Some(first) = rest.first() else { return 0 };
    let second = rest.get(1).map_or(0, u8::to_ascii_lowercase);
    match (first.to_ascii_lowercase(), second) {
        (b'm', b'o' | b's') | (b'u' | b'n', b's') => 2,
        (b'y' | b'w' | b'd' | b'h' | b'm' | b's', _) => 1,
        // U+00B5 is C2 B5 in UTF-8
        (0xC2, 0xB5) if matches!(rest.get(2), Some(b's' | b'S')) => 3,
        _ => 0,
    }
}

/// The length of the longest ISO 8601 duration that `rest` starts with, `P` included. All letters are capitals.
fn iso_duration(rest: &[u8]) -> Option<usize> {
    if let Some(length) = iso_alternative_duration(rest) {
        return Some(length);
    }
    let mut at = 1;
    let mut last = 0;
    // each designator at most once and in order; a week stands alone
    for designator in [b'Y', b'M', b'D'] {
        at = designated(rest, at, designator, &mut last);
    }
    if last == 0 {
        designated(rest, at, b'W', &mut last);
        if last > 0 {
            return Some(last);
        }
    }
    if rest.get(at) == Some(&b'T') {
        let mut time = at + 1;
        for designator in [b'H', b'M', b'S'] {
            time = designated(rest, time, designator, &mut last);
        }
    }
    (last > 0).then_some(last)
}

/// Steps over `digits designator` at `at`, if they are there, and then sets `last` to the new position.
fn designated(rest: &[u8], at: usize, designator: u8, last: &mut usize) -> usize {
    let end = digits_end(rest, at);
    if end > at && rest.get(end) == Some(&designator) {
        *last = end + 1;
        return end + 1;
    }
    at
}

/// `PYYYY-MM-DDThh:mm:ss`
fn iso_alternative_duration(rest: &[u8]) -> Option<usize> {
    const SHAPE: &[u8] = b"P0000-00-00T00:00:00";
    matches_shape(rest, SHAPE, |b| b.is_ascii_digit()).then_some(SHAPE.len())
}

const UUID_SHAPE: &[u8] = b"00000000-0000-0000-0000-000000000000";
const UUID_LENGTH: usize = UUID_SHAPE.len();

fn is_uuid(rest: &[u8]) -> bool {
    rest.get(8) == Some(&b'-') && matches_shape(rest, UUID_SHAPE, |b| b.is_ascii_hexdigit())
}

/// Whether `rest` starts with bytes like `shape`, where a `0` stands for any byte that `is_digit`.
fn matches_shape(rest: &[u8], shape: &[u8], is_digit: impl Fn(u8) -> bool) -> bool {
    rest.len() >= shape.len()
        && shape
            .iter()
            .zip(rest)
            .all(|(expected, b)| if *expected == b'0' { is_digit(*b) } else { b == expected })
}

/// `'text'` with inner quotes doubled.
pub(super) fn string(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    match closing_quote(bytes, start) {
        Some(end) => (TokenKind::String, end),
        None => (TokenKind::Error, bytes.len()),
    }
}

/// `"name"` with inner quotes doubled, or `""`.
pub(super) fn quoted_name(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    match closing_quote(bytes, start) {
        Some(end) if end == start + 2 => (TokenKind::EmptyQuotedName, end),
        Some(end) => (TokenKind::QuotedName, end),
        None => (TokenKind::Error, bytes.len()),
    }
}

/// The offset after the quote that closes the one at `start`.
fn closing_quote(bytes: &[u8], start: usize) -> Option<usize> {
    let quote = bytes[start];
    let mut at = start + 1;
    loop {
        at += bytes[at..].iter().position(|b| *b == quote)? + 1;
        if bytes.get(at) != Some(&quote) {
            return Some(at);
        }
        at += 1;
    }
}

/// `$$text$$`
pub(super) fn dollar_string(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    match bytes[start + 2..].windows(2).position(|pair| pair == b"$$") {
        Some(length) => (TokenKind::String, start + 2 + length + 2),
        None => (TokenKind::Error, bytes.len()),
    }
}

/// See [`super::Lexer::problem_at`].
pub(super) fn problem_at(source: &str, start: usize) -> LexicalProblem {
    let rest = source.get(start..).unwrap_or_default();
    if rest.starts_with(['\'', '"'])
        || rest.starts_with("$$")
        || rest.starts_with("--")
        || rest.starts_with('/')
    {
        let message = "mismatched character '<EOF>'".to_string();
        return LexicalProblem { message, offset: source.len() };
    }
    let character = rest.chars().next().map_or("<EOF>".to_string(), |c| c.to_string());
    LexicalProblem { message: format!("no viable alternative at character '{character}'"), offset: start }
}
