//! Rows as JSON, CSV and Markdown, for other programs.

use cassette_cql::values::json;
use cassette_protocol::{ColumnSpec, Rows};

use crate::values::{Formats, escaped};

/// The format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Tables as in cqlsh
    #[default]
    Table,
    /// One JSON object a line for each row
    Json,
    /// Comma-separated values with a header
    Csv,
    /// A table in Markdown
    Markdown,
}

impl Format {
    /// The formats with their names.
    pub const ALL: [(Self, &str); 4] =
        [(Self::Table, "TABLE"), (Self::Json, "JSON"), (Self::Csv, "CSV"), (Self::Markdown, "MARKDOWN")];

    /// Returns the format with this name in any case.
    pub fn parse(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
        found.map(|(format, _)| *format)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(format, _)| *format == self).map_or("TABLE", |(_, name)| name)
    }
}

/// Appends each row as a JSON object and a line feed. Values are those of `SELECT JSON`; names are
/// those of the columns.
pub fn write_json(rows: &Rows, out: &mut String) {
    let columns = rows.metadata.columns();
    for row in rows {
        out.push('{');
        for (index, (column, cell)) in columns.iter().zip(row).enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            out.push_str(&serde_json::Value::from(&*column.name).to_string());
            out.push_str(": ");
            match cell {
                Some(bytes) => out.push_str(&json::encode_value(&column.data_type, bytes)),
                None => out.push_str("null"),
            }
        }
        out.push_str("}\n");
    }
}

/// Appends rows as comma-separated values, with the names first if `with_header`. Null is an empty
/// field, and an empty text is quoted.
pub fn write_csv(rows: &Rows, with_header: bool, formats: &Formats, out: &mut String) {
    let columns = rows.metadata.columns();
    let mut line = |fields: &mut dyn Iterator<Item = String>| {
        for (index, field) in fields.enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&field);
        }
        out.push('\n');
    };
    if with_header {
        line(&mut columns.iter().map(|column| csv_field(&column.name)));
    }
    for row in rows {
        line(&mut columns.iter().zip(row).map(|(column, cell)| match cell {
            None => String::new(),
            Some([]) => "\"\"".to_owned(),
            cell => csv_field(&plain(column, cell, formats)),
        }));
    }
}

/// The text of a value: text as it is, other values as in tables.
fn plain(column: &ColumnSpec, cell: Option<&[u8]>, formats: &Formats) -> String {
    use cassette_rows::DataType::{Ascii, Text};
    match (&column.data_type, cell) {
        (Text | Ascii, Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        (data_type, cell) => formats.show(data_type, cell, false).text,
    }
}

fn csv_field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Appends rows as a table in Markdown, with the names first if `with_header`.
pub fn write_markdown(rows: &Rows, with_header: bool, formats: &Formats, out: &mut String) {
    let columns = rows.metadata.columns();
    let cell = |text: &str| text.replace('|', "\\|");
    if with_header {
        let names: Vec<String> = columns.iter().map(|column| cell(&escaped(&column.name))).collect();
        let rule: Vec<&str> =
            columns.iter().map(|column| if is_number(column) { "--:" } else { "---" }).collect();
        out.push_str(&format!("| {} |\n| {} |\n", names.join(" | "), rule.join(" | ")));
    }
    for row in rows {
        let fields: Vec<String> = columns
            .iter()
            .zip(row)
            .map(|(column, bytes)| cell(&formats.show(&column.data_type, bytes, false).text))
            .collect();
        out.push_str(&format!("| {} |\n", fields.join(" | ")));
    }
}

fn is_number(column: &ColumnSpec) -> bool {
    cassette_cql::values::number::is_numeric(&column.data_type)
}

#[cfg(test)]
mod tests {
    use cassette_protocol::{EncodedRows, MetadataMode, ResultMetadata, RowsEncoder, Version};
    use cassette_rows::DataType;

    use super::*;

    fn rows() -> Rows {
        let column = |name: &str, data_type| ColumnSpec {
            keyspace: "k".into(),
            table: "t".into(),
            name: name.into(),
            data_type,
        };
        let columns = vec![column("k", DataType::Int), column("Va l", DataType::Text)];
        let mut body = Vec::new();
        let mut encoder =
            RowsEncoder::begin(&mut body, Version::V5, &ResultMetadata::new(columns), MetadataMode::Full);
        for (k, v) in [(1i32, Some("a|b,\"c\"\n")), (2, None), (3, Some(""))] {
            encoder.push(Some(&k.to_be_bytes()));
            encoder.push(v.map(str::as_bytes));
            encoder.end_row();
        }
        encoder.finish(None);
        EncodedRows::new(body.into(), Version::V5).decode(None).unwrap()
    }

    #[test]
    fn json_has_an_object_a_line() {
        let mut out = String::new();
        write_json(&rows(), &mut out);
        assert_eq!(
            out,
            "{\"k\": 1, \"Va l\": \"a|b,\\\"c\\\"\\n\"}\n{\"k\": 2, \"Va l\": null}\n{\"k\": 3, \"Va l\": \"\"}\n"
        );
    }

    #[test]
    fn csv_distinguishes_null_from_an_empty_text() {
        let mut out = String::new();
        write_csv(&rows(), true, &Formats::default(), &mut out);
        assert_eq!(out, "k,Va l\n1,\"a|b,\"\"c\"\"\n\"\n2,\n3,\"\"\n");
    }

    #[test]
    fn markdown_escapes_its_separators() {
        let mut out = String::new();
        write_markdown(&rows(), true, &Formats::default(), &mut out);
        assert_eq!(out, "| k | Va l |\n| --: | --- |\n| 1 | a\\|b,\"c\"\\n |\n| 2 | null |\n| 3 |  |\n");
    }
}
