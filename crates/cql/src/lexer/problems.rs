//! Reasons why a text is not a token, in ANTLR's words.

use super::LexicalProblem;
use super::literals::{PERIOD_SHAPE, UUID_SHAPE, digits_end, must_be_uuid, unit_duration_end};

/// See [`super::Lexer::problem_at`].
pub(super) fn problem_at(source: &str, start: usize) -> LexicalProblem {
    let rest = source.as_bytes().get(start..).unwrap_or_default();
    let end = source.len();
    let second = rest.get(1).copied();
    match rest.first() {
        Some(b'\'') => mismatched(source, end, "'''"),
        Some(b'"') if second.is_none() => no_viable(source, end),
        Some(b'"') => mismatched(source, end, "'\"'"),
        Some(b'$') if second != Some(b'$') => mismatched(source, start + 1, "'$'"),
        Some(b'$') if rest.len() == 2 || rest.ends_with(b"$") => mismatched(source, end, "'$'"),
        Some(b'$') => mismatched(source, end - last_char_length(source), "'$'"),
        Some(b'/') if second == Some(b'*') => {
            mismatched(source, end, if rest.len() > 2 && rest.ends_with(b"*") { "'/'" } else { "'*'" })
        }
        Some(b'/') => mismatched(source, end, "set null"),
        Some(b'!') => mismatched(source, start + 1, "'='"),
        Some(b'-') => after_minus(source, start),
        Some(b'P') => off_shape(source, start, PERIOD_SHAPE, |b| b.is_ascii_digit()),
        Some(b'a'..=b'f' | b'A'..=b'F') => off_uuid(source, start),
        Some(b'0'..=b'9') => number(source, start, false),
        _ => no_viable(source, start),
    }
}

fn after_minus(source: &str, start: usize) -> LexicalProblem {
    let bytes = source.as_bytes();
    let rest = &bytes[start + 1..];
    let word: &[u8] = match rest.first() {
        Some(b'-') => return mismatched(source, bytes.len(), "set null"),
        Some(b'n' | b'N') => b"nan",
        Some(b'i' | b'I') => b"infinity",
        Some(b'P') => return no_viable(source, signed_duration_end(bytes, start + 2)),
        _ => return number(source, start + 1, true),
    };
    let same = word.iter().zip(rest).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    mismatched(source, start + 1 + same, "set null")
}

/// Returns where the duration with parts from `at` on becomes invalid.
fn signed_duration_end(bytes: &[u8], mut at: usize) -> usize {
    for designators in [b"YMD", b"HMS"] {
        for designator in designators {
            let end = digits_end(bytes, at);
            if end > at && bytes.get(end) == Some(designator) {
                at = end + 1;
            }
        }
        if bytes.get(at) != Some(&b'T') {
            break;
        }
        at += 1;
    }
    digits_end(bytes, at)
}

/// A number that becomes invalid: in a UUID, after `e`, or in a duration. Its digits start at
/// `start`.
fn number(source: &str, start: usize, signed: bool) -> LexicalProblem {
    let bytes = source.as_bytes();
    let mut at = digits_end(bytes, start);
    let fraction = bytes.get(at) == Some(&b'.');
    if fraction {
        at = digits_end(bytes, at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let digits = at + 1 + sign;
        let next = bytes.get(digits);
        if signed || fraction || sign > 0 || at - start >= 8 {
            let character = character_at(source, digits);
            let message = format!("required (...)+ loop did not match anything at character '{character}'");
            return LexicalProblem { message, offset: digits };
        }
        return if next.is_some_and(u8::is_ascii_hexdigit) {
            off_uuid(source, start)
        } else {
            no_viable(source, digits)
        };
    }
    match unit_duration_end(bytes, at) {
        Err(broken) => match source.get(broken..).and_then(|rest| rest.chars().next()) {
            Some(unit @ ('u' | 'U' | 'n' | 'N' | 'µ')) => {
                mismatched(source, broken + unit.len_utf8(), "set null")
            }
            _ if !signed && must_be_uuid(&bytes[start..], broken - start) => off_uuid(source, start),
            _ => no_viable(source, broken),
        },
        Ok(_) => off_uuid(source, start),
    }
}

fn off_uuid(source: &str, start: usize) -> LexicalProblem {
    off_shape(source, start, UUID_SHAPE, |b| b.is_ascii_hexdigit())
}

/// Returns the first character at or after `start` that does not match `shape`, where a `0` is any
/// byte for which `is_digit` holds.
fn off_shape(source: &str, start: usize, shape: &[u8], is_digit: impl Fn(u8) -> bool) -> LexicalProblem {
    let rest = &source.as_bytes()[start..];
    let fits = |(expected, b): &(&u8, &u8)| if **expected == b'0' { is_digit(**b) } else { expected == b };
    let same = shape.iter().zip(rest).take_while(fits).count();
    match shape.get(same) {
        None | Some(b'0') => mismatched(source, start + same, "set null"),
        Some(expected) => mismatched(source, start + same, &format!("'{}'", char::from(*expected))),
    }
}

fn mismatched(source: &str, offset: usize, expected: &str) -> LexicalProblem {
    let character = character_at(source, offset);
    LexicalProblem { message: format!("mismatched character '{character}' expecting {expected}"), offset }
}

fn no_viable(source: &str, offset: usize) -> LexicalProblem {
    let character = character_at(source, offset);
    LexicalProblem { message: format!("no viable alternative at character '{character}'"), offset }
}

fn character_at(source: &str, offset: usize) -> String {
    let character = source.get(offset..).and_then(|rest| rest.chars().next());
    match character {
        None => "<EOF>".to_string(),
        Some('\n') => "\\n".to_string(),
        Some('\r') => "\\r".to_string(),
        Some('\t') => "\\t".to_string(),
        Some(other) => other.to_string(),
    }
}

fn last_char_length(source: &str) -> usize {
    source.chars().next_back().map_or(0, char::len_utf8)
}
