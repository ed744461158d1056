//! Encoding and decoding of rows of system tables, by column name.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cassette_engine::Mutation;
use cassette_rows::row::Cell;
use cassette_rows::types::collection;
use cassette_rows::{
    Clustering, DecoratedKey, DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TTL, PartitionUpdate, Row,
    RowBuilder, TableMetadata,
};

/// A column value to write.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// The bytes of one value, which may be a frozen collection.
    Bytes(Vec<u8>),
    /// The elements of a non-frozen set, which replace all previous elements.
    Set(Vec<Vec<u8>>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Bytes(value.to_be_bytes().to_vec())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Bytes(value.to_be_bytes().to_vec())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bytes(vec![u8::from(value)])
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Bytes(value.to_be_bytes().to_vec())
    }
}

impl From<uuid::Uuid> for Value {
    fn from(value: uuid::Uuid) -> Self {
        Self::Bytes(value.as_bytes().to_vec())
    }
}

impl From<std::net::IpAddr> for Value {
    fn from(address: std::net::IpAddr) -> Self {
        Self::Bytes(match address {
            std::net::IpAddr::V4(address) => address.octets().to_vec(),
            std::net::IpAddr::V6(address) => address.octets().to_vec(),
        })
    }
}

/// A frozen map of texts.
impl From<&BTreeMap<String, String>> for Value {
    fn from(map: &BTreeMap<String, String>) -> Self {
        let mut out = Vec::new();
        collection::write_map(&mut out, map.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())));
        Self::Bytes(out)
    }
}

/// A frozen list of texts, or a frozen set whose elements are in order.
impl From<&[String]> for Value {
    fn from(list: &[String]) -> Self {
        let mut out = Vec::new();
        collection::write_list(&mut out, list.iter().map(String::as_bytes));
        Self::Bytes(out)
    }
}

/// A frozen list of booleans.
impl From<&[bool]> for Value {
    fn from(list: &[bool]) -> Self {
        let mut out = Vec::new();
        let bytes: Vec<[u8; 1]> = list.iter().map(|value| [u8::from(*value)]).collect();
        collection::write_list(&mut out, bytes.iter().map(<[u8; 1]>::as_slice));
        Self::Bytes(out)
    }
}

/// Returns the partition key of text `key`.
pub(crate) fn text_key(key: &str) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(key.as_bytes()))
}

/// Returns a row of `table` with these values, written at `timestamp` (microseconds), which deletes
/// all earlier values.
///
/// # Panics
/// If the table has no such column: tables and names are constants.
pub(crate) fn row(
    table: &TableMetadata,
    clustering: &[&str],
    values: &[(&str, Value)],
    timestamp: i64,
) -> Row {
    row_of(table, &text_clustering(clustering), values, timestamp)
}

/// [`row`] with clustering values of any type, as bytes.
pub(crate) fn row_of(
    table: &TableMetadata,
    clustering: &[&[u8]],
    values: &[(&str, Value)],
    timestamp: i64,
) -> Row {
    let replaced = DeletionTime::new(timestamp - 1, seconds(timestamp));
    build_row(table, clustering, Some(replaced), values, timestamp)
}

/// Returns a row that leaves other columns unchanged.
pub(crate) fn row_update(
    table: &TableMetadata,
    clustering: &[&str],
    values: &[(&str, Value)],
    timestamp: i64,
) -> Row {
    row_update_of(table, &text_clustering(clustering), values, timestamp)
}

/// [`row_update`] with clustering values of any type, as bytes.
pub(crate) fn row_update_of(
    table: &TableMetadata,
    clustering: &[&[u8]],
    values: &[(&str, Value)],
    timestamp: i64,
) -> Row {
    build_row(table, clustering, None, values, timestamp)
}

fn build_row(
    table: &TableMetadata,
    clustering: &[&[u8]],
    deletion: Option<DeletionTime>,
    values: &[(&str, Value)],
    timestamp: i64,
) -> Row {
    let mut builder = RowBuilder::new(Clustering::of(clustering));
    builder.liveness(LivenessInfo::new(timestamp));
    if let Some(deletion) = deletion {
        builder.deletion(deletion);
    }
    put_values(&mut builder, table, values, timestamp);
    builder.finish()
}

/// Returns the deletion of a row.
pub(crate) fn row_deletion(clustering: &[&str], timestamp: i64) -> Row {
    row_deletion_of(&text_clustering(clustering), timestamp)
}

/// [`row_deletion`] with clustering values of any type, as bytes.
pub(crate) fn row_deletion_of(clustering: &[&[u8]], timestamp: i64) -> Row {
    let mut builder = RowBuilder::new(Clustering::of(clustering));
    builder.deletion(DeletionTime::new(timestamp, seconds(timestamp)));
    builder.finish()
}

fn text_clustering<'a>(clustering: &[&'a str]) -> Vec<&'a [u8]> {
    clustering.iter().map(|text| text.as_bytes()).collect()
}

fn put_values(builder: &mut RowBuilder, table: &TableMetadata, values: &[(&str, Value)], timestamp: i64) {
    let mut values: Vec<_> = values
        .iter()
        .map(|(name, value)| match table.column(name) {
            Some(column) => (column.id, value),
            None => panic!("{} has no column {name}", table.qualified_name()),
        })
        .collect();
    values.sort_by_key(|(id, _)| *id);
    for (column, value) in values {
        match value {
            Value::Bytes(bytes) => {
                builder.live_cell(column, bytes, timestamp);
            }
            Value::Set(elements) => {
                let mut elements: Vec<_> = elements.iter().collect();
                elements.sort();
                builder.complex_deletion(column, DeletionTime::new(timestamp - 1, seconds(timestamp)));
                for element in elements {
                    builder.cell(Cell {
                        column,
                        path: Some(element),
                        value: &[],
                        timestamp,
                        ttl: NO_TTL,
                        local_deletion_time: NO_DELETION_TIME,
                    });
                }
            }
        }
    }
}

/// Converts microseconds to seconds since 1970.
pub(crate) fn seconds(micros: i64) -> u32 {
    u32::try_from(micros.div_euclid(1_000_000)).unwrap_or(0)
}

/// Returns a mutation of one partition of `table`.
pub(crate) fn mutation(table: &Arc<TableMetadata>, key: &str, rows: Vec<Row>) -> Mutation {
    let mut update = PartitionUpdate::new(text_key(key));
    for row in rows {
        update.add_row(row, table);
    }
    Mutation { table: table.clone(), update }
}

/// Returns the deletion of one partition of `table`.
pub(crate) fn partition_deletion(table: &Arc<TableMetadata>, key: &str, timestamp: i64) -> Mutation {
    let mut update = PartitionUpdate::new(text_key(key));
    update.deletion = DeletionTime::new(timestamp, seconds(timestamp));
    Mutation { table: table.clone(), update }
}

/// A row that was read, with its table.
#[derive(Debug)]
pub(crate) struct StoredRow<'a> {
    pub table: &'a TableMetadata,
    pub row: &'a Row,
    pub now: u32,
}

impl<'a> StoredRow<'a> {
    /// Returns the live value of a simple column.
    pub fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        let cell = self.row.cell(self.table.column(name)?.id)?;
        cell.is_live(self.now).then_some(cell.value)
    }

    /// Returns the value of clustering column `index` as text.
    pub fn clustering_text(&self, index: usize) -> Option<&'a str> {
        std::str::from_utf8(self.row.clustering().value(index)?).ok()
    }

    /// Returns the value of clustering column `index`, a frozen list of texts.
    pub fn clustering_list(&self, index: usize) -> Option<Vec<String>> {
        let items = collection::read_list(self.row.clustering().value(index)?);
        Some(items.flatten().map(|item| String::from_utf8_lossy(item).into_owned()).collect())
    }

    pub fn text(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }

    pub fn int(&self, name: &str) -> Option<i32> {
        Some(i32::from_be_bytes(self.bytes(name)?.try_into().ok()?))
    }

    pub fn long(&self, name: &str) -> Option<i64> {
        Some(i64::from_be_bytes(self.bytes(name)?.try_into().ok()?))
    }

    pub fn double(&self, name: &str) -> Option<f64> {
        Some(f64::from_be_bytes(self.bytes(name)?.try_into().ok()?))
    }

    pub fn boolean(&self, name: &str) -> Option<bool> {
        Some(self.bytes(name)? != [0])
    }

    pub fn uuid(&self, name: &str) -> Option<uuid::Uuid> {
        uuid::Uuid::from_slice(self.bytes(name)?).ok()
    }

    /// Returns the live elements of a non-frozen map: keys and values.
    pub fn elements(&self, name: &str) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let (row, now) = (self.row, self.now);
        let cells = self.table.column(name).map(|column| row.cells_of(column.id));
        let live = cells.into_iter().flatten().filter(move |cell| cell.is_live(now));
        live.filter_map(|cell| Some((cell.path?, cell.value)))
    }

    /// Returns the live elements of a non-frozen set of texts.
    pub fn text_set(&self, name: &str) -> Vec<&'a str> {
        let Some(column) = self.table.column(name) else { return Vec::new() };
        let live = self.row.cells_of(column.id).filter(|cell| cell.is_live(self.now));
        live.filter_map(|cell| std::str::from_utf8(cell.path?).ok()).collect()
    }

    /// Returns a frozen map of texts.
    pub fn text_map(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(collection::read_map(self.bytes(name)?).map(|(key, value)| (text(key), text(value))).collect())
    }

    /// Returns a frozen list or set of texts.
    pub fn text_list(&self, name: &str) -> Option<Vec<String>> {
        let items = collection::read_list(self.bytes(name)?);
        Some(items.flatten().map(|item| String::from_utf8_lossy(item).into_owned()).collect())
    }

    /// Returns a frozen list of booleans.
    pub fn boolean_list(&self, name: &str) -> Option<Vec<bool>> {
        let items = collection::read_list(self.bytes(name)?);
        Some(items.flatten().map(|item| item.iter().any(|byte| *byte != 0)).collect())
    }
}
