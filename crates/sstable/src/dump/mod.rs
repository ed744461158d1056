//! The content of an SSTable as text: every version, tombstone and timestamp, in exactly the format
//! of sstabledump.
//!
//! [`DumpFormat::Json`] and [`DumpFormat::JsonLines`] are for programs, [`DumpFormat::Rows`] has a
//! row or marker per line. Positions are offsets of rows in the uncompressed Data.

mod json;
mod rows;
mod time;

use std::io::{self, Write};

use cassette_rows::{DataType, DecoratedKey, PartitionHeader, TableMetadata, key};

use crate::chunked_file::Caching;
use crate::data::Cursor;
use crate::reader::SSTableReader;
use json::JsonWriter;

/// Formats values. This layer knows types but not their CQL text.
pub trait ValueText {
    /// Returns the value as JSON.
    fn json(&self, data_type: &DataType, value: &[u8]) -> String;

    /// The value as text, for keys and paths.
    fn text(&self, data_type: &DataType, value: &[u8]) -> String;

    /// The value as a CQL literal.
    fn literal(&self, data_type: &DataType, value: &[u8]) -> String;
}

/// Formats every value as hexadecimal digits.
#[derive(Debug, Clone, Copy)]
pub struct Hex;

impl ValueText for Hex {
    fn json(&self, data_type: &DataType, value: &[u8]) -> String {
        format!("\"{}\"", self.text(data_type, value))
    }

    fn text(&self, _: &DataType, value: &[u8]) -> String {
        value.iter().fold(String::from("0x"), |text, byte| format!("{text}{byte:02x}"))
    }

    fn literal(&self, data_type: &DataType, value: &[u8]) -> String {
        self.text(data_type, value)
    }
}

/// The layout of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpFormat {
    /// One JSON array of partitions.
    Json,
    /// A partition per line, each a JSON object (`-l`).
    JsonLines,
    /// A row or marker per line (`-d`).
    Rows,
    /// One JSON array of partition keys (`-e`).
    Keys,
}

/// The selection and layout of a dump.
#[derive(Clone)]
pub struct DumpOptions<'a> {
    /// The layout.
    pub format: DumpFormat,
    /// Timestamps and local deletion times as numbers; else as dates (`-t`).
    pub raw_timestamps: bool,
    /// Only these partitions, in this order (`-k`); `None` for all.
    pub keys: Option<&'a [DecoratedKey]>,
    /// Excluded partitions, by their key as formatted by [`ValueText`] (`-x`).
    pub excluded: &'a [String],
    /// Data that expired before this time is shown as expired; seconds since 1970.
    pub now: u32,
}

/// The error that ended a dump.
#[derive(Debug)]
pub enum DumpError {
    /// The SSTable cannot be read further.
    Read(cassette_rows::StorageError),
    /// The output cannot be written.
    Write(io::Error),
}

impl std::fmt::Display for DumpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Write(error) => write!(f, "cannot write the dump: {error}"),
        }
    }
}

impl std::error::Error for DumpError {}

impl From<cassette_rows::StorageError> for DumpError {
    fn from(error: cassette_rows::StorageError) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for DumpError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl SSTableReader {
    /// Writes the content as text; keeps one row in memory.
    pub fn dump(
        &self,
        values: &dyn ValueText,
        options: &DumpOptions<'_>,
        out: &mut dyn Write,
    ) -> Result<(), DumpError> {
        let shown = Shown { table: self.table(), values, options };
        match options.format {
            DumpFormat::Json | DumpFormat::JsonLines => {
                let is_array = options.format == DumpFormat::Json;
                let mut json = JsonWriter::new(out, !is_array);
                if is_array {
                    json.begin_array()?;
                }
                self.dumped_partitions(&shown, |header, cursor| shown.partition(&mut json, header, cursor))?;
                if is_array {
                    json.end_array()?;
                }
            }
            DumpFormat::Rows => {
                self.dumped_partitions(&shown, |header, cursor| shown.debug_partition(out, header, cursor))?;
            }
            DumpFormat::Keys => {
                let mut json = JsonWriter::new(out, false);
                json.begin_array()?;
                self.dumped_partitions(&shown, |header, cursor| {
                    shown.partition_key(&mut json, header.key.key())?;
                    Ok(cursor.skip_partition()?)
                })?;
                json.end_array()?;
            }
        }
        Ok(out.flush()?)
    }

    /// Calls `dump` with the cursor at the first row of each selected partition; it must leave the
    /// cursor at the partition's end.
    fn dumped_partitions(
        &self,
        shown: &Shown<'_>,
        mut dump: impl FnMut(PartitionHeader, &mut Cursor) -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        let mut cursor = self.data_cursor(Caching::LeaveAlone);
        let excluded =
            |header: &PartitionHeader| shown.options.excluded.contains(&shown.key_text(header.key.key()));
        match shown.options.keys {
            Some(keys) => {
                for key in keys {
                    let Some(position) = self.position_of(key)? else { continue };
                    cursor.seek(position);
                    let header = cursor.partition_header()?;
                    if !excluded(&header) {
                        dump(header, &mut cursor)?;
                    }
                }
            }
            None => {
                while !cursor.at_end() {
                    let header = cursor.partition_header()?;
                    if excluded(&header) { cursor.skip_partition()? } else { dump(header, &mut cursor)? }
                }
            }
        }
        Ok(())
    }
}

/// The context of formatting.
struct Shown<'a> {
    table: &'a TableMetadata,
    values: &'a dyn ValueText,
    options: &'a DumpOptions<'a>,
}

impl Shown<'_> {
    /// Returns the key's components. Bytes that are not a key of this table are shown, too.
    fn key_texts(&self, bytes: &[u8]) -> Vec<String> {
        let columns = &self.table.partition_key;
        let components = key::components(bytes, columns.len()).unwrap_or_else(|| vec![bytes]);
        columns
            .iter()
            .zip(components)
            .map(|(column, value)| self.values.text(&column.data_type, value))
            .collect()
    }

    /// Returns the key as one text.
    fn key_text(&self, bytes: &[u8]) -> String {
        partition_key_text(self.table, self.values, bytes)
    }
}

/// Returns a partition key in the format of Cassandra's tools: its value, or its components
/// separated by colons; a colon inside one is preceded by a backslash.
pub fn partition_key_text(table: &TableMetadata, values: &dyn ValueText, bytes: &[u8]) -> String {
    let columns = &table.partition_key;
    let components = key::components(bytes, columns.len()).unwrap_or_else(|| vec![bytes]);
    let texts: Vec<_> =
        columns.iter().zip(components).map(|(column, value)| values.text(&column.data_type, value)).collect();
    match &texts[..] {
        [text] => text.clone(),
        _ => {
            let escaped = texts.into_iter().map(|text| {
                let text = text.replace(':', "\\:");
                if text.ends_with(['\\', '!']) { text + "!" } else { text }
            });
            escaped.collect::<Vec<_>>().join(":")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_two_a_byte() {
        assert_eq!(Hex.text(&DataType::Int, &[0, 0x0a, 0xff]), "0x000aff");
    }
}
