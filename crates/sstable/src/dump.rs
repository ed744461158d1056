//! An SSTable as JSON, as `sstabledump -t` prints it: every version, tombstone and timestamp.
//!
//! ```text
//! [{"table kind":"REGULAR","partition":{"key":["1"],"position":18,"deletion_info":{…}},"rows":[
//!   {"type":"row","position":18,"clustering":[…],"liveness_info":{…},"deletion_info":{…},"cells":[…]},
//!   {"type":"range_tombstone_bound","start":{"type":"inclusive","clustering":[…,"*"],"deletion_info":{…}}}]}]
//! ```
//! Timestamps are microseconds, local deletion times and expirations seconds since 1970, both as text. Positions are
//! those where rows begin in the uncompressed Data.

use std::io::{self, Write};

use cassette_rows::types::quote_identifier;
use cassette_rows::{
    Cell, Clustering, ColumnMetadata, DataType, DeletionTime, LivenessInfo, RangeTombstoneMarker, Row, Side,
    TableMetadata, Unfiltered, key,
};
use serde_json::{Map, Value, json};

use crate::chunked_file::Caching;
use crate::reader::SSTableReader;

/// How values are shown. This floor knows types but not how CQL writes their values.
pub trait ValueText {
    /// The value as a JSON document.
    fn json(&self, data_type: &DataType, value: &[u8]) -> Value;

    /// The value as text, for keys and paths.
    fn text(&self, data_type: &DataType, value: &[u8]) -> String;
}

/// Shows every value as hexadecimal digits.
#[derive(Debug, Clone, Copy)]
pub struct Hex;

impl ValueText for Hex {
    fn json(&self, data_type: &DataType, value: &[u8]) -> Value {
        Value::String(self.text(data_type, value))
    }

    fn text(&self, _: &DataType, value: &[u8]) -> String {
        value.iter().fold(String::from("0x"), |text, byte| format!("{text}{byte:02x}"))
    }
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
    /// Writes everything as JSON, a row a line; `now` (seconds since 1970) says what has expired.
    pub fn dump(&self, values: &dyn ValueText, now: u32, out: &mut dyn Write) -> Result<(), DumpError> {
        let shown = Shown { table: self.table(), values, now };
        let mut cursor = self.data_cursor(Caching::LeaveAlone);
        out.write_all(b"[")?;
        let mut separator = "\n";
        while !cursor.at_end() {
            let header = cursor.partition_header()?;
            let mut position = cursor.offset();
            let mut partition = Map::new();
            partition.insert("key".into(), shown.partition_key(header.key.key()));
            partition.insert("position".into(), position.into());
            shown.deletion(header.deletion, &mut partition);
            let partition = Value::Object(partition);
            write!(out, "{separator}{{\"table kind\":\"REGULAR\",\"partition\":{partition},\"rows\":[")?;
            separator = ",\n";
            let mut row_separator = "\n";
            if let Some(row) = header.static_row {
                write!(out, "{row_separator}{}", shown.row(&row, position, true))?;
                row_separator = ",\n";
            }
            loop {
                let pending = cursor.next_head()?;
                if pending.is_end() {
                    break;
                }
                if let Some(unfiltered) = cursor.body(pending)? {
                    let line = match &unfiltered {
                        Unfiltered::Row(row) => shown.row(row, position, false),
                        Unfiltered::Marker(marker) => shown.marker(marker),
                    };
                    write!(out, "{row_separator}{line}")?;
                    row_separator = ",\n";
                }
                position = cursor.offset();
            }
            out.write_all(b"]}")?;
        }
        out.write_all(b"\n]\n")?;
        Ok(())
    }
}

/// What is needed to show anything.
struct Shown<'a> {
    table: &'a TableMetadata,
    values: &'a dyn ValueText,
    now: u32,
}

impl Shown<'_> {
    fn partition_key(&self, bytes: &[u8]) -> Value {
        let columns = &self.table.partition_key;
        // Bytes that are not a key of this table are shown rather than hidden.
        let components = key::components(bytes, columns.len()).unwrap_or_else(|| vec![bytes]);
        let texts =
            columns.iter().zip(components).map(|(column, value)| self.values.text(&column.data_type, value));
        texts.collect::<Vec<_>>().into()
    }

    fn clustering(&self, prefix: &Clustering, out: &mut Map<String, Value>) {
        if prefix.is_empty() {
            return;
        }
        let mut values = prefix.values();
        let shown = self.table.clustering.iter().map(|column| match values.next() {
            Some(Some(value)) => self.values.json(&column.data_type, value),
            Some(None) => Value::Null,
            // A bound says nothing about the columns beyond its prefix.
            None => "*".into(),
        });
        out.insert("clustering".into(), shown.collect());
    }

    fn deletion(&self, deletion: DeletionTime, out: &mut Map<String, Value>) {
        if !deletion.is_live() {
            let shown = json!({
                "marked_deleted": deletion.timestamp.to_string(),
                "local_delete_time": deletion.local_deletion_time.to_string(),
            });
            out.insert("deletion_info".into(), shown);
        }
    }

    fn row(&self, row: &Row, position: u64, is_static: bool) -> Value {
        let mut out = Map::new();
        out.insert("type".into(), if is_static { "static_block" } else { "row" }.into());
        out.insert("position".into(), position.into());
        self.clustering(row.clustering(), &mut out);
        let liveness = row.liveness();
        if !liveness.is_empty() {
            let mut shown = Map::new();
            shown.insert("tstamp".into(), liveness.timestamp.to_string().into());
            if liveness.is_expiring() {
                self.expiration(liveness.ttl, liveness.local_expiration, &mut shown);
            }
            out.insert("liveness_info".into(), shown.into());
        }
        self.deletion(row.deletion(), &mut out);
        let mut cells = Vec::new();
        let mut deletions = row.complex_deletions().iter().peekable();
        let mut show_deletions = |until: Option<&Cell<'_>>, cells: &mut Vec<Value>| {
            while let Some((column, deletion)) =
                deletions.next_if(|(column, _)| until.is_none_or(|cell| *column <= cell.column))
            {
                let Some(column) = self.table.column_by_id(*column) else { continue };
                let mut shown = self.named(column);
                self.deletion(*deletion, &mut shown);
                cells.push(shown.into());
            }
        };
        for cell in row.cells() {
            show_deletions(Some(&cell), &mut cells);
            cells.extend(
                self.table.column_by_id(cell.column).map(|column| self.cell(column, &cell, &liveness)),
            );
        }
        show_deletions(None, &mut cells);
        out.insert("cells".into(), cells.into());
        out.into()
    }

    fn named(&self, column: &ColumnMetadata) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("name".into(), quote_identifier(&column.name).into());
        out
    }

    fn cell(&self, column: &ColumnMetadata, cell: &Cell<'_>, liveness: &LivenessInfo) -> Value {
        let mut out = self.named(column);
        let mut data_type = &column.data_type;
        if let Some(path) = cell.path {
            let text = match data_type {
                DataType::Udt { definition, .. } => {
                    let index = path.try_into().map_or(usize::MAX, |bytes| u16::from_be_bytes(bytes).into());
                    definition.fields.get(index).map(|(name, _)| name.clone())
                }
                _ => data_type.path_type().map(|path_type| self.values.text(path_type, path)),
            };
            out.insert("path".into(), vec![text.unwrap_or_else(|| Hex.text(data_type, path))].into());
            data_type = data_type.cell_type(path).unwrap_or(&DataType::Blob);
        }
        if cell.is_tombstone() {
            let shown = json!({ "local_delete_time": cell.local_deletion_time.to_string() });
            out.insert("deletion_info".into(), shown);
        } else {
            out.insert("value".into(), self.values.json(data_type, cell.value));
        }
        if liveness.is_empty() || cell.timestamp != liveness.timestamp {
            out.insert("tstamp".into(), cell.timestamp.to_string().into());
        }
        if cell.is_expiring() && (liveness.is_empty() || cell.ttl != liveness.ttl) {
            self.expiration(cell.ttl, cell.local_deletion_time, &mut out);
        }
        out.into()
    }

    fn expiration(&self, ttl: u32, expires_at: u32, out: &mut Map<String, Value>) {
        out.insert("ttl".into(), ttl.into());
        out.insert("expires_at".into(), expires_at.to_string().into());
        out.insert("expired".into(), (expires_at <= self.now).into());
    }

    fn marker(&self, marker: &RangeTombstoneMarker) -> Value {
        let mut out = Map::new();
        let boundary = marker.open.is_some() && marker.close.is_some();
        let kind = if boundary { "range_tombstone_boundary" } else { "range_tombstone_bound" };
        out.insert("type".into(), kind.into());
        for (name, deletion, inclusive) in [
            ("start", marker.open, marker.bound.side == Side::Before),
            ("end", marker.close, marker.bound.side == Side::After),
        ] {
            let Some(deletion) = deletion else { continue };
            let mut bound = Map::new();
            bound.insert("type".into(), if inclusive { "inclusive" } else { "exclusive" }.into());
            self.clustering(&marker.bound.prefix, &mut bound);
            self.deletion(deletion, &mut bound);
            out.insert(name.into(), bound.into());
        }
        out.into()
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
