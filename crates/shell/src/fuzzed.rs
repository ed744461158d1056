//! What the fuzz target `shell` checks of the parsers of input and files.

use crate::copy::Dialect;
use crate::cqlshrc::Cqlshrc;
use crate::input::{place_of, rest, split};
use crate::interactive::{Names, complete};

/// Splits an input into statements and commands.
///
/// # Panics
/// If their texts are not those at their offsets, in ascending order, or a place is outside of the
/// input.
pub fn input(text: &str) {
    let found = split(text);
    let mut end = 0;
    for unit in &found.units {
        assert!(unit.start >= end, "{unit:?} begins before {end}");
        assert!(text[unit.start..].starts_with(unit.text), "{unit:?}");
        end = unit.start + unit.text.len();
        unit.word();
        let problem = unit.problem.as_ref().map(|(_, offset)| *offset);
        let place = place_of(text, problem.unwrap_or(unit.start));
        assert!(place.line_start <= place.offset && place.offset <= text.len(), "{place:?}");
    }
    if let Some(start) = found.incomplete {
        assert!(start >= end && text.is_char_boundary(start), "{start}");
        let unit = rest(text, start);
        assert!(text[start..].starts_with(unit.text), "{unit:?}");
    }
}

/// Reads a file as rows of comma-separated values, and writes those that are UTF-8 again. The first
/// three bytes are the delimiter, the quote and the escape character.
///
/// # Panics
/// If a row that was written is not read with the same fields.
pub fn rows(bytes: &[u8]) {
    let Some(([delimiter, quote, escape], mut content)) = bytes.split_first_chunk::<3>() else { return };
    let dialect = Dialect::new(*delimiter, *quote, *escape);
    while let Ok(Some(record)) = dialect.read(&mut content) {
        let fields: Option<Vec<&str>> =
            record.fields().map(|field| std::str::from_utf8(field).ok()).collect();
        // One character cannot have two meanings, and a byte of a longer one has none.
        let is_plain = |byte: &u8| byte.is_ascii_punctuation() || *byte == b'\t';
        let is_distinct = delimiter != quote && delimiter != escape;
        let (Some(fields), true) =
            (fields, is_distinct && [delimiter, quote, escape].into_iter().all(is_plain))
        else {
            continue;
        };
        let mut written = Vec::new();
        dialect.write(fields.iter().copied(), &mut written);
        let again = dialect.read(&mut &written[..]);
        let again = again.ok().flatten().unwrap_or_else(|| panic!("no row in {written:?}"));
        let read: Vec<&[u8]> = again.fields().collect();
        let expected: Vec<&[u8]> = fields.iter().map(|field| field.as_bytes()).collect();
        assert_eq!(read, expected, "in {:?}", String::from_utf8_lossy(&written));
    }
}

/// Reads a configuration file.
pub fn configuration(text: &str) {
    let read = Cqlshrc::parse(text);
    for section in ["ui", "connection", "copy"] {
        for (name, value) in read.section(section) {
            assert_eq!(read.get(section, name), Some(value));
        }
    }
    let _ = (read.number::<u16>("connection", "port"), read.flag("ui", "color"));
}

/// Completes each word of a line.
///
/// # Panics
/// If a completion would begin after the cursor, or within a character.
pub fn completion(line: &str) {
    let names = Names::default();
    for position in (0..=line.len()).filter(|at| line.is_char_boundary(*at)).take(64) {
        let (start, _) = complete(line, position, &names);
        assert!(start <= position && line.is_char_boundary(start), "{start} at {position}");
    }
}
