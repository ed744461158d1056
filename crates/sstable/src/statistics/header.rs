//! The encoding of an SSTable's rows: base values, types and columns.
//!
//! ```text
//! vint min ts - 1442880000000000 (wrapping), vint min ldt - 1442880000 (32 bits), vint min TTL
//! bytesV key type
//! vint n, n * bytesV                      clustering types
//! vint n, n * (bytesV name, bytesV type)  static columns
//! vint n, n * (bytesV name, bytesV type)  regular columns
//! ```

use crate::error::{Malformed, Parsed};
use crate::input::Input;
use crate::output::Output;

/// 2015-09-22 00:00 UTC, the epoch of the base values.
const TIMESTAMP_EPOCH: i64 = 1_442_880_000_000_000;
const DELETION_TIME_EPOCH: i32 = 1_442_880_000;

/// A column of the header. Types are Java class names; [`DataType`](cassette_rows::DataType) reads
/// and writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// The column's name.
    pub name: String,
    /// The class name of its type.
    pub type_name: String,
}

/// The header, without which rows cannot be decoded. Lists only columns that occur in the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SerializationHeader {
    /// Row timestamps are stored as differences to this (microseconds).
    pub min_timestamp: i64,
    /// Local deletion times are stored as differences to this (seconds).
    pub min_local_deletion_time: i32,
    /// TTLs are stored as differences to this (seconds).
    pub min_ttl: i32,
    /// The type of the partition key.
    pub key_type: String,
    /// The types of the clustering columns.
    pub clustering_types: Vec<String>,
    /// Static columns, in the order of
    /// [`compare_column_names`](cassette_rows::schema::compare_column_names).
    pub static_columns: Vec<ColumnDefinition>,
    /// Regular columns, in the same order.
    pub regular_columns: Vec<ColumnDefinition>,
}

/// The base values if nothing in the data has a timestamp, local deletion time or TTL.
pub const NO_MINIMA: (i64, i32, i32) = (TIMESTAMP_EPOCH, DELETION_TIME_EPOCH, 0);

impl SerializationHeader {
    /// Returns the component's content.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_vint(self.min_timestamp.wrapping_sub(TIMESTAMP_EPOCH) as u64);
        out.put_vint32(self.min_local_deletion_time.wrapping_sub(DELETION_TIME_EPOCH));
        out.put_vint32(self.min_ttl);
        out.put_bytes_vint(self.key_type.as_bytes());
        out.put_vint(self.clustering_types.len() as u64);
        self.clustering_types.iter().for_each(|name| out.put_bytes_vint(name.as_bytes()));
        for columns in [&self.static_columns, &self.regular_columns] {
            out.put_vint(columns.len() as u64);
            for column in columns {
                out.put_bytes_vint(column.name.as_bytes());
                out.put_bytes_vint(column.type_name.as_bytes());
            }
        }
        out
    }

    pub(super) fn decode(mut input: Input<'_>) -> Parsed<Self> {
        let (min_timestamp, min_local_deletion_time, min_ttl) = minima(&mut input)?;
        let key_type = text(&mut input)?;
        let clustering_types = (0..input.count(1)?).map(|_| text(&mut input)).collect::<Parsed<_>>()?;
        let static_columns = columns(&mut input)?;
        let regular_columns = columns(&mut input)?;
        input.end()?;
        Ok(Self {
            min_timestamp,
            min_local_deletion_time,
            min_ttl,
            key_type,
            clustering_types,
            static_columns,
            regular_columns,
        })
    }
}

/// Decodes the base values: timestamp, local deletion time, TTL.
pub(crate) fn minima(input: &mut Input<'_>) -> Parsed<(i64, i32, i32)> {
    let min_timestamp = TIMESTAMP_EPOCH.wrapping_add(input.vint()? as i64);
    let min_local_deletion_time = DELETION_TIME_EPOCH.wrapping_add(input.vint32()?);
    Ok((min_timestamp, min_local_deletion_time, input.vint32()?))
}

fn columns(input: &mut Input<'_>) -> Parsed<Vec<ColumnDefinition>> {
    (0..input.count(2)?)
        .map(|_| Ok(ColumnDefinition { name: text(input)?, type_name: text(input)? }))
        .collect()
}

fn text(input: &mut Input<'_>) -> Parsed<String> {
    let at = input.offset();
    String::from_utf8(input.bytes_vint()?.to_vec())
        .map_err(|e| Malformed::new(at, format!("text expected: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_values_wrap() {
        let header = SerializationHeader {
            min_timestamp: i64::MIN,
            min_local_deletion_time: 0,
            min_ttl: 86400,
            key_type: "k".into(),
            clustering_types: vec!["c".into()],
            static_columns: Vec::new(),
            regular_columns: vec![ColumnDefinition { name: "v".into(), type_name: "t".into() }],
        };
        let bytes = header.encode();
        assert_eq!(SerializationHeader::decode(Input::new(&bytes)).unwrap(), header);
        assert!(SerializationHeader::decode(Input::new(&bytes[..bytes.len() - 1])).is_err());
    }
}
