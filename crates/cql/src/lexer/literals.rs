//! Words, numbers, strings: the tokens of variable length.

use super::{Symbol, TokenKind};
use crate::keywords;

// Cassandra's lexer commits early to the kind of a token. `12345678-1` and `abcdef12-x` must be
// UUIDs, `1a` and `1e5a` too; `-n` must become `-NaN`, `-P` a duration; `1h2` must have another
// unit. Where a longest match would find several tokens, these are errors, and so they are here:
// text that Cassandra rejects must not get another meaning.

/// A token that starts with a letter: a keyword, a boolean, a name, a UUID or an ISO 8601 duration.
pub(super) fn word(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let rest = &bytes[start..];
    let length = rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_').unwrap_or(rest.len());
    let word = &rest[..length];
    if let Some(keyword) = keywords::lookup(word) {
        return (TokenKind::Keyword(keyword), start + length);
    }
    if length == 8 && rest.get(8) == Some(&b'-') && word.iter().all(u8::is_ascii_hexdigit) {
        return uuid_or_error(rest, start);
    }
    if word[0] == b'P' {
        if let Some(duration) = iso_duration(rest).filter(|duration| duration.length >= length) {
            return (TokenKind::Duration, start + duration.length);
        }
        if length == 5 && rest.get(5) == Some(&b'-') && word[1..].iter().all(u8::is_ascii_digit) {
            return (TokenKind::Error, bytes.len());
        }
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
    if rest[0] == b'0' && matches!(rest.get(1), Some(b'x' | b'X')) {
        let digits = rest[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        return (TokenKind::Hex, start + 2 + digits);
    }
    let (kind, end) = unsigned_number(bytes, start);
    if must_be_uuid(rest, end - start) || is_uuid(rest) {
        return uuid_or_error(rest, start);
    }
    (kind, end)
}

/// Returns whether the number of this length at the start of `rest` can only continue as a UUID: it
/// consists of hexadecimal digits, and a ninth character `-` follows, or another such digit as one
/// of the first eight.
pub(super) fn must_be_uuid(rest: &[u8], length: usize) -> bool {
    let goes_on = match rest.get(length) {
        Some(b'-') => length == 8,
        Some(next) => length < 8 && next.is_ascii_hexdigit(),
        None => false,
    };
    goes_on && rest[..length].iter().all(u8::is_ascii_hexdigit)
}

fn is_uuid(rest: &[u8]) -> bool {
    matches_shape(rest, UUID_SHAPE, |b| b.is_ascii_hexdigit())
}

fn uuid_or_error(rest: &[u8], start: usize) -> (TokenKind, usize) {
    if is_uuid(rest) {
        (TokenKind::Uuid, start + UUID_SHAPE.len())
    } else {
        (TokenKind::Error, start + rest.len())
    }
}

/// A token that starts with `-` and is neither a comment nor `-=`.
pub(super) fn minus(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let rest = &bytes[start + 1..];
    let constant = |kind, word: &[u8]| match rest.get(..word.len()) {
        Some(head) if head.eq_ignore_ascii_case(word) => (kind, start + 1 + word.len()),
        _ => (TokenKind::Error, bytes.len()),
    };
    match rest.first() {
        Some(b'0'..=b'9') => unsigned_number(bytes, start + 1),
        Some(b'n' | b'N') => constant(TokenKind::NegativeNaN, b"nan"),
        Some(b'i' | b'I') => constant(TokenKind::NegativeInfinity, b"infinity"),
        Some(b'P') => match iso_duration(rest) {
            Some(duration) if !duration.breaks_off => (TokenKind::Duration, start + 1 + duration.length),
            _ => (TokenKind::Error, bytes.len()),
        },
        _ => (TokenKind::Symbol(Symbol::Minus), start + 1),
    }
}

/// An integer, a float or a duration with units, at a digit. An integer before `..` ends there.
fn unsigned_number(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let mut at = digits_end(bytes, start);
    match bytes.get(at) {
        Some(b'.') => match bytes[at..].iter().take(3).take_while(|b| **b == b'.').count() {
            2 => return (TokenKind::Integer, at),
            3 => return (TokenKind::Float, at + 1),
            _ => at = digits_end(bytes, at + 1),
        },
        Some(b'e' | b'E') => {}
        _ => {
            return match unit_duration_end(bytes, at) {
                Ok(end) if end == at => (TokenKind::Integer, at),
                Ok(end) => (TokenKind::Duration, end),
                Err(_) => (TokenKind::Error, bytes.len()),
            };
        }
    }
    if !matches!(bytes.get(at), Some(b'e' | b'E')) {
        return (TokenKind::Float, at);
    }
    let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
    let end = digits_end(bytes, at + 1 + sign);
    if end > at + 1 + sign { (TokenKind::Float, end) } else { (TokenKind::Error, bytes.len()) }
}

pub(super) fn digits_end(bytes: &[u8], at: usize) -> usize {
    at + bytes.get(at..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count()
}

/// Returns the end of `unit (digits unit)*` at `at`, which is `at` if no unit can start; or `Err`
/// with the offset of the character that interrupts it.
pub(super) fn unit_duration_end(bytes: &[u8], mut at: usize) -> Result<usize, usize> {
    let mut digits = at;
    loop {
        match unit_length(&bytes[digits..]) {
            0 if digits == at && !starts_two_letter_unit(&bytes[at..]) => return Ok(at),
            0 => return Err(digits),
            length => at = digits + length,
        }
        digits = digits_end(bytes, at);
        if digits == at {
            return Ok(at);
        }
    }
}

/// Returns whether `rest` starts as `us`, `µs` and `ns` do, and as nothing else that can follow a
/// number's digits.
fn starts_two_letter_unit(rest: &[u8]) -> bool {
    matches!(rest, [b'u' | b'U' | b'n' | b'N', ..] | [0xC2, 0xB5, ..])
}

/// The length in bytes of the longest duration unit that `rest` starts with: y mo w d h m s ms us
/// µs ns.
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

/// The longest prefix that is an ISO 8601 duration.
struct IsoDuration {
    /// Its length in bytes, `P` included.
    length: usize,
    /// Whether an incomplete further part follows.
    breaks_off: bool,
}

/// Returns the longest ISO 8601 duration at the start of `rest`, which begins with `P`. All letters
/// are capitals.
fn iso_duration(rest: &[u8]) -> Option<IsoDuration> {
    if matches_shape(rest, PERIOD_SHAPE, |b| b.is_ascii_digit()) {
        return Some(IsoDuration { length: PERIOD_SHAPE.len(), breaks_off: false });
    }
    let date = designated(rest, 1, b"YMD");
    if date == 1 {
        let week = designated(rest, 1, b"W");
        if week > 1 {
            return Some(IsoDuration { length: week, breaks_off: false });
        }
    }
    let starts_part =
        |at: usize, last: u8| rest[at - 1] != last && rest.get(at).is_some_and(u8::is_ascii_digit);
    if rest.get(date) == Some(&b'T') {
        let time = designated(rest, date + 1, b"HMS");
        if time > date + 1 {
            return Some(IsoDuration { length: time, breaks_off: starts_part(time, b'S') });
        }
    }
    let breaks_off = rest.get(date) == Some(&b'T') || starts_part(date, b'D');
    (date > 1).then_some(IsoDuration { length: date, breaks_off })
}

/// The end of `digits designator` at `at`, for any of the designators in their order.
fn designated(rest: &[u8], mut at: usize, designators: &[u8]) -> usize {
    for designator in designators {
        let end = digits_end(rest, at);
        if end > at && rest.get(end) == Some(designator) {
            at = end + 1;
        }
    }
    at
}

/// `PYYYY-MM-DDThh:mm:ss`
pub(super) const PERIOD_SHAPE: &[u8] = b"P0000-00-00T00:00:00";

pub(super) const UUID_SHAPE: &[u8] = b"00000000-0000-0000-0000-000000000000";

/// Returns whether `rest` starts with bytes like `shape`, where a `0` represents any byte for which
/// `is_digit` holds.
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
