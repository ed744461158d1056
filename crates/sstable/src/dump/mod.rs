//! What an SSTable holds, as text: every version, tombstone and timestamp, letter for letter as sstabledump prints it.
//!
//! [`DumpFormat::Json`] and [`DumpFormat::JsonLines`] are for programs, [`DumpFormat::Rows`] has a row or marker a line. Positions are
//! those where rows begin in the uncompressed Data.

mod json;
mod rows;
mod time;

use std::io::{self, Write};

use cassette_rows::{DataType, DecoratedKey, PartitionHeader, TableMetadata, key};

use crate::chunked_file::Caching;
use crate::data::Cursor;
use crate::reader::SSTableReader;
use json::JsonWriter;

/// How values are shown. This floor knows types but not how CQL writes their values.
pub trait ValueText {
    /// The value as JSON.
    fn json(&self, data_type: &DataType, value: &[u8]) -> String;

    /// The value as text, for keys and paths.
    fn text(&self, data_type: &DataType, value: &[u8]) -> String;

    /// The value as a CQL literal.
    fn literal(&self, data_type: &DataType, value: &[u8]) -> String;
}

/// Shows every value as hexadecimal digits.
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

/// How a dump is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpFormat {
    /// One JSON array of partitions.
    Json,
    /// A partition a line, each a JSON object (`-l`).
    JsonLines,
    /// A row or marker a line (`-d`).
    Rows,
    /// One JSON array of partition keys (`-e`).
    Keys,
}

/// What to dump, and how.
#[derive(Clone)]
pub struct DumpOptions<'a> {
    /// The layout.
    pub format: DumpFormat,
    /// Timestamps and local deletion times as numbers; else as dates (`-t`).
    pub raw_timestamps: bool,
    /// Only these partitions, in this order (`-k`); `None` for all.
    pub keys: Option<&'a [DecoratedKey]>,
    /// None of these, by their key as [`ValueText`] shows it (`-x`).
    pub excluded: &'a [String],
    /// What has expired before this is called expired; seconds since 1970.
    pub now: u32,
}

/// What stops a dump.
#[derive(Debug)]
pub enum DumpError {
    /// The SSTable cannot be read on.
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
    /// Writes what it holds as text, in memory for one row.
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

    /// Calls `dump` with the cursor at the first row of each partition that the options name; it has to leave the cursor at
    /// the partition's end.
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
                    match excluded(&header) {
                        true => cursor.skip_partition()?,
                        false => dump(header, &mut cursor)?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// What is needed to show anything.
struct Shown<'a> {
    table: &'a TableMetadata,
    values: &'a dyn ValueText,
    options: &'a DumpOptions<'a>,
}

impl Shown<'_> {
    /// The key's components. Bytes that are not a key of this table are shown rather than hidden.
    fn key_texts(&self, bytes: &[u8]) -> Vec<String> {
        let columns = &self.table.partition_key;
        let components = key::components(bytes, columns.len()).unwrap_or_else(|| vec![bytes]);
        columns
            .iter()
            .zip(components)
            .map(|(column, value)| self.values.text(&column.data_type, value))
            .collect()
    }

    /// The key in one piece.
    fn key_text(&self, bytes: &[u8]) -> String {
        partition_key_text(self.table, self.values, bytes)
    }
}

/// A partition key as Cassandra's tools write it: its value, or its components between colons; a colon within one has a
/// backslash before it.
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
