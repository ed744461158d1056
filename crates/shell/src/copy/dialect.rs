//! Comma-separated values as Python's `csv` module reads and writes them.
//!
//! Crates for CSV recognise escapes in quoted fields only; cqlsh also writes them in others.

use std::io::{self, BufRead};

use super::options::CopyOptions;

/// Bytes of the longest row.
const ROW_LENGTH_MAX: usize = 256 << 20;

/// The fields of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    bytes: Vec<u8>,
    /// Where each field ends.
    ends: Vec<usize>,
}

impl Record {
    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the fields.
    pub fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| self.bytes.get(start..*end).unwrap_or_default())
    }

    fn end_field(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

/// The characters with a meaning.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    delimiter: u8,
    quote: u8,
    escape: u8,
}

impl Dialect {
    /// Returns the dialect of the options.
    pub fn of(options: &CopyOptions) -> Self {
        Self::new(options.delimiter, options.quote, options.escape)
    }

    /// Returns the dialect of these characters.
    pub fn new(delimiter: u8, quote: u8, escape: u8) -> Self {
        Self { delimiter, quote, escape }
    }

    /// Whether quotes in quoted fields are doubled, not escaped.
    fn doubles(self) -> bool {
        self.quote == self.escape
    }

    /// Reads a row; `None` at the end. Empty lines are skipped.
    ///
    /// # Errors
    /// If the input fails, or a row is too long.
    pub fn read(self, input: &mut impl BufRead) -> io::Result<Option<Record>> {
        let mut record = Record::default();
        let mut state = State::FieldStart;
        loop {
            let buffer = input.fill_buf()?;
            if buffer.is_empty() {
                let is_empty = record.ends.is_empty() && record.bytes.is_empty();
                if is_empty && state == State::FieldStart {
                    return Ok(None);
                }
                record.end_field();
                return Ok(Some(record));
            }
            let mut used = 0;
            // The state before the end of the row, once that was read.
            let mut ended = None;
            for byte in buffer {
                used += 1;
                let before = state;
                state = self.step(state, *byte, &mut record);
                if state == State::RowEnd {
                    ended = Some(before);
                    break;
                }
            }
            input.consume(used);
            if record.bytes.len() > ROW_LENGTH_MAX {
                let text = format!("a row has more than {ROW_LENGTH_MAX} bytes: a quote may be missing");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            if let Some(before) = ended {
                // Quotes without content are a field.
                if record.len() > 1 || !record.bytes.is_empty() || before == State::QuoteInQuotes {
                    return Ok(Some(record));
                }
                record = Record::default();
                state = State::FieldStart;
            }
        }
    }

    fn step(self, state: State, byte: u8, record: &mut Record) -> State {
        use State::{Escaped, EscapedInQuotes, Field, FieldStart, QuoteInQuotes, Quotes, RowEnd};
        match state {
            FieldStart | Field | QuoteInQuotes => match byte {
                b'\n' => {
                    // A line can end with a carriage return, too.
                    let start = record.ends.last().copied().unwrap_or(0);
                    if record.bytes.len() > start && record.bytes.last() == Some(&b'\r') && state == Field {
                        record.bytes.pop();
                    }
                    record.end_field();
                    RowEnd
                }
                _ if byte == self.delimiter => {
                    record.end_field();
                    FieldStart
                }
                _ if state == QuoteInQuotes && byte == self.quote => {
                    record.bytes.push(byte);
                    Quotes
                }
                _ if state == FieldStart && byte == self.quote => Quotes,
                _ if byte == self.escape && !self.doubles() => Escaped,
                _ => {
                    record.bytes.push(byte);
                    Field
                }
            },
            Escaped => {
                record.bytes.push(byte);
                Field
            }
            Quotes if byte == self.escape && !self.doubles() => EscapedInQuotes,
            Quotes if byte == self.quote => QuoteInQuotes,
            Quotes | EscapedInQuotes => {
                record.bytes.push(byte);
                Quotes
            }
            RowEnd => RowEnd,
        }
    }

    /// Appends a row. Fields are quoted if they need it.
    pub fn write<'a>(self, fields: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
        let start = out.len();
        let mut count = 0;
        for field in fields {
            if count > 0 {
                out.push(self.delimiter);
            }
            count += 1;
            self.write_field(field, out);
        }
        if count == 1 && out.len() == start {
            // An empty line is no row.
            out.extend_from_slice(&[self.quote, self.quote]);
        }
        out.push(b'\n');
    }

    fn write_field(self, field: &str, out: &mut Vec<u8>) {
        let (mut is_quoted, mut is_escaped) = (field.as_bytes().first() == Some(&self.quote), false);
        for byte in field.bytes() {
            let is_quote = byte == self.quote;
            is_quoted |=
                byte == self.delimiter || byte == b'\n' || byte == b'\r' || is_quote && self.doubles();
            is_escaped |= is_quote || byte == self.escape;
        }
        if is_quoted {
            out.push(self.quote);
        }
        if is_escaped {
            for byte in field.bytes() {
                if byte == self.quote || byte == self.escape {
                    out.push(self.escape);
                }
                out.push(byte);
            }
        } else {
            out.extend_from_slice(field.as_bytes());
        }
        if is_quoted {
            out.push(self.quote);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    FieldStart,
    Field,
    Escaped,
    Quotes,
    EscapedInQuotes,
    QuoteInQuotes,
    RowEnd,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PYTHON: Dialect = Dialect { delimiter: b',', quote: b'"', escape: b'\\' };
    const DOUBLED: Dialect = Dialect { delimiter: b';', quote: b'"', escape: b'"' };

    fn read(dialect: Dialect, text: &str) -> Vec<Vec<String>> {
        let mut input = io::BufReader::with_capacity(3, text.as_bytes());
        let mut rows = Vec::new();
        while let Some(record) = dialect.read(&mut input).unwrap() {
            rows.push(record.fields().map(|field| String::from_utf8(field.to_vec()).unwrap()).collect());
        }
        rows
    }

    #[test]
    fn fields_of_cqlsh_are_read() {
        assert_eq!(
            read(PYTHON, "1,a\\\"b,\"x,\\\"y\\\"\nz\"\r\n\n2,,a\\\\\n3,\"\",it's \"q\"\n"),
            [vec!["1", "a\"b", "x,\"y\"\nz"], vec!["2", "", "a\\"], vec!["3", "", "it's \"q\""]]
        );
        assert_eq!(read(DOUBLED, "1;\"a\"\"b;\";c\\d"), [["1", "a\"b;", "c\\d"]]);
    }

    #[test]
    fn fields_are_read_as_they_were_written() {
        let fields =
            ["", "a,b", "\"q\"", "a\"b", "back\\slash", "line\nfeed", " blank ", "日本", "x;y", "\r"];
        for dialect in [PYTHON, DOUBLED] {
            let mut out = Vec::new();
            dialect.write(fields.iter().copied(), &mut out);
            for field in fields {
                dialect.write([field].into_iter(), &mut out);
            }
            let rows = read(dialect, std::str::from_utf8(&out).unwrap());
            assert_eq!(rows[0], fields);
            let single: Vec<&str> = rows[1..].iter().map(|row| row[0].as_str()).collect();
            assert_eq!(single, fields);
        }
    }
}
