//! Receives the rows that engines read.

use std::hint::black_box;

use super::Failure;
use crate::workload::stream::ValueRule;

/// Receives the rows of one read or scan.
///
/// Touches each field's bytes, so that no engine gains by leaving them unread. Keeps them only if
/// values are checked, by [`verify`](Self::verify), after the clock has stopped.
#[derive(Debug, Default)]
pub struct RowSink {
    rule: Option<ValueRule>,
    rows: u64,
    bytes: u64,
    /// First byte of the first row's first value: `[applied]` of a conditional statement.
    first_byte: Option<u8>,
    kept: Vec<u8>,
    /// Ends in `kept`: of a row's key (field `None`) and of each of its fields.
    marks: Vec<(Option<usize>, usize)>,
}

impl RowSink {
    /// Creates a sink that checks rows by `rule`, if there is one.
    pub fn new(rule: Option<ValueRule>) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Clears the rows of the previous operation.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.bytes = 0;
        self.first_byte = None;
        self.kept.clear();
        self.marks.clear();
    }

    /// Begins a row.
    pub fn row(&mut self, key: &[u8]) {
        if self.rows == 0 {
            self.first_byte = key.first().copied();
        }
        self.rows += 1;
        self.bytes += key.len() as u64;
        if self.rule.is_some() {
            self.keep(None, key);
        }
    }

    /// Adds the field with index `field` to the row.
    pub fn field(&mut self, field: usize, value: &[u8]) {
        self.bytes += value.len() as u64;
        black_box(value.last());
        if self.rule.is_some() {
            self.keep(Some(field), value);
        }
    }

    fn keep(&mut self, field: Option<usize>, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        self.marks.push((field, self.kept.len()));
    }

    /// Returns the first byte of the first row's first value.
    pub fn first_byte(&self) -> Option<u8> {
        self.first_byte
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of bytes in keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks that every row has the expected fields with the right values. `Ok` if nothing is to
    /// be checked.
    pub fn verify(&mut self, field: Option<usize>) -> Result<(), Failure> {
        let Some(rule) = &mut self.rule else { return Ok(()) };
        let expected = if field.is_some() { 1 } else { rule.field_count() };
        let wrong = |what: String| Err(Failure::new("wrong data", what));
        let mut start = 0;
        let mut key = "";
        let mut seen = expected;
        for (mark, end) in &self.marks {
            let bytes = &self.kept[start..*end];
            start = *end;
            match mark {
                None if seen != expected => {
                    return wrong(format!("record {key} has {seen} fields instead of {expected}"));
                }
                None => {
                    seen = 0;
                    let Ok(text) = std::str::from_utf8(bytes) else {
                        return wrong(format!("key {bytes:x?} is not text"));
                    };
                    key = text;
                }
                Some(field) => {
                    seen += 1;
                    if !rule.is_right(key, *field, bytes) {
                        let shown = String::from_utf8_lossy(bytes);
                        return wrong(format!("field {field} of record {key} holds {shown:?}"));
                    }
                }
            }
        }
        if seen != expected {
            return wrong(format!("record {key} has {seen} fields instead of {expected}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{KeySpace, StreamFactory};
    use crate::ycsb::{CoreWorkload, FieldValues};

    fn sink_and_values() -> (RowSink, FieldValues) {
        let mut workload = CoreWorkload::core('c').unwrap();
        workload.set_pair("dataintegrity=true").unwrap();
        let mut stream = StreamFactory::run(&workload, KeySpace::starting_at(1000), 1).unwrap().stream(0);
        let mut values = FieldValues::default();
        stream.write_values("user1", None, &mut values);
        (RowSink::new(stream.value_rule()), values)
    }

    #[test]
    fn whole_right_rows_pass() {
        let (mut sink, values) = sink_and_values();
        for _ in 0..2 {
            sink.row(b"user1");
            values.iter().for_each(|(field, value)| sink.field(field, value));
        }
        assert_eq!(sink.verify(None), Ok(()));
        assert_eq!((sink.rows(), sink.bytes()), (2, 2 * 1005));
        sink.clear();
        sink.row(b"user1");
        let (field, value) = values.iter().nth(3).unwrap();
        sink.field(field, value);
        assert_eq!(sink.verify(Some(3)), Ok(()));
    }

    #[test]
    fn changed_bytes_missing_fields_and_foreign_keys_are_detected() {
        let (mut sink, values) = sink_and_values();
        sink.row(b"user1");
        values.iter().skip(1).for_each(|(field, value)| sink.field(field, value));
        assert!(sink.verify(None).unwrap_err().message.contains("9 fields instead of 10"));
        sink.row(b"user1");
        assert!(sink.verify(None).unwrap_err().message.contains("9 fields instead of 10"));

        sink.clear();
        sink.row(b"user2");
        values.iter().for_each(|(field, value)| sink.field(field, value));
        assert!(sink.verify(None).unwrap_err().message.contains("field 0 of record user2"));

        sink.clear();
        sink.row(b"user1");
        let mut changed = values.iter().next().unwrap().1.to_vec();
        changed[50] ^= 1;
        sink.field(0, &changed);
        assert_eq!(sink.verify(None).unwrap_err().class, "wrong data");
    }

    #[test]
    fn values_are_kept_only_for_verification() {
        let mut sink = RowSink::new(None);
        sink.row(b"user1");
        sink.field(0, b"anything");
        assert_eq!(sink.verify(None), Ok(()));
        assert!(sink.kept.is_empty());
    }
}
