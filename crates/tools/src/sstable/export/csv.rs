//! Comma-separated values, quoted as in RFC 4180; lines end in a line feed alone.

use std::io::{self, Write};

use cassette_cql::values::text::{to_literal, to_text};
use cassette_rows::DataType;

use super::RowWriter;
use super::rows::Column;

pub struct CsvRows {
    out: Box<dyn Write>,
    types: Vec<DataType>,
}

impl CsvRows {
    /// Writes the header.
    pub fn new(mut out: Box<dyn Write>, columns: &[Column]) -> io::Result<Self> {
        let names: Vec<_> = columns.iter().map(|column| quoted(&column.name)).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(Self { out, types: columns.iter().map(|column| column.data_type.clone()).collect() })
    }
}

impl RowWriter for CsvRows {
    fn write(&mut self, values: &[Option<Vec<u8>>]) -> anyhow::Result<()> {
        for (i, (data_type, value)) in self.types.iter().zip(values).enumerate() {
            if i > 0 {
                self.out.write_all(b",")?;
            }
            if let Some(value) = value {
                self.out.write_all(field(data_type, value).as_bytes())?;
            }
        }
        Ok(self.out.write_all(b"\n")?)
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }
}

/// Formats a value that is not null; never empty.
fn field(data_type: &DataType, value: &[u8]) -> String {
    let text = match data_type {
        DataType::Blob => to_literal(data_type, Some(value)),
        _ => to_text(data_type, value),
    };
    if text.is_empty() { "\"\"".to_owned() } else { quoted(&text) }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_necessary_and_empty_ones_differ_from_null() {
        assert_eq!(field(&DataType::Text, b"a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(field(&DataType::Text, b""), "\"\"");
        assert_eq!(field(&DataType::Blob, &[0xca, 0xfe]), "0xcafe");
        assert_eq!(field(&DataType::Int, &[0, 0, 0, 7]), "7");
    }
}
