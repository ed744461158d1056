//! Live rows of a merged stream, column by column.

use cassette_rows::merge::counter;
use cassette_rows::schema::compare_column_names;
use cassette_rows::types::collection;
use cassette_rows::{
    ColumnKind, ColumnMetadata, DataType, PartitionStream, Result, Row, TableMetadata, Unfiltered, key,
};

/// An exported column.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    pub data_type: DataType,
}

/// The table's columns in the order of `SELECT *`: keys, clustering, static, regular.
pub fn columns(table: &TableMetadata) -> Vec<Column> {
    let column =
        |column: &ColumnMetadata| Column { name: column.name.clone(), data_type: column.data_type.clone() };
    ordered(table).into_iter().map(column).collect()
}

fn ordered(table: &TableMetadata) -> Vec<&ColumnMetadata> {
    let mut others: Vec<_> = table.columns.iter().flatten().map(|column| &**column).collect();
    others.sort_by(|a, b| {
        a.kind.cmp(&b.kind).then_with(|| compare_column_names((&a.name, false), (&b.name, false)))
    });
    let keys = table.partition_key.iter().chain(&table.clustering).map(|column| &**column);
    keys.chain(others).collect()
}

/// The rows that a complete read would return at one time.
pub struct LiveRows<'a, S> {
    stream: S,
    columns: Vec<&'a ColumnMetadata>,
    now: u32,
    values: Vec<Option<Vec<u8>>>,
    static_row: Option<Row>,
    /// Whether the current partition has returned a row; `None` outside of one.
    partition: Option<bool>,
    partitions: u64,
}

impl<'a, S: PartitionStream> LiveRows<'a, S> {
    /// `now` (seconds since 1970) determines expiration.
    pub fn new(stream: S, table: &'a TableMetadata, exported: &[Column], now: u32) -> Self {
        let columns = ordered(table);
        let values = vec![None; exported.len()];
        Self { stream, columns, now, values, static_row: None, partition: None, partitions: 0 }
    }

    /// Partitions begun so far.
    pub fn partitions(&self) -> u64 {
        self.partitions
    }

    /// The values of the next row, in the order of the columns.
    pub fn next(&mut self) -> Result<Option<&[Option<Vec<u8>>]>> {
        loop {
            let Some(shown) = self.partition else {
                let Some(header) = self.stream.next_partition()? else { return Ok(None) };
                self.partitions += 1;
                self.begin(header.key.key());
                self.static_row = header.static_row;
                self.fill(ColumnKind::Static, self.static_row.clone().as_ref());
                self.partition = Some(false);
                continue;
            };
            match self.stream.next_unfiltered()? {
                Some(Unfiltered::Row(row)) if row.is_live(self.now) => {
                    self.fill(ColumnKind::Clustering, Some(&row));
                    self.fill(ColumnKind::Regular, Some(&row));
                    self.partition = Some(true);
                    return Ok(Some(&self.values));
                }
                Some(_) => {}
                None => {
                    self.partition = None;
                    // A partition without rows returns its static columns once.
                    let has_static = self.static_row.take().is_some_and(|row| row.has_live_cell(self.now));
                    if !shown && has_static {
                        self.fill(ColumnKind::Clustering, None);
                        self.fill(ColumnKind::Regular, None);
                        return Ok(Some(&self.values));
                    }
                }
            }
        }
    }

    fn begin(&mut self, partition_key: &[u8]) {
        let count = self.columns.iter().filter(|column| column.kind == ColumnKind::PartitionKey).count();
        let components = key::components(partition_key, count).unwrap_or_default();
        for (column, value) in self.columns.iter().zip(&mut self.values) {
            if column.kind == ColumnKind::PartitionKey {
                *value = components.get(column.position).map(|value| value.to_vec());
            }
        }
    }

    fn fill(&mut self, kind: ColumnKind, row: Option<&Row>) {
        for (column, value) in self.columns.iter().zip(&mut self.values) {
            if column.kind != kind {
                continue;
            }
            *value = row.and_then(|row| match kind {
                ColumnKind::Clustering => row.clustering().value(column.position).map(<[u8]>::to_vec),
                _ => column_value(row, column, self.now),
            });
        }
    }
}

/// Returns a column's value in a row, in the encoding of the native protocol; the elements of a
/// collection as one value.
fn column_value(row: &Row, column: &ColumnMetadata, now: u32) -> Option<Vec<u8>> {
    let mut cells = row.cells_of(column.id).filter(|cell| cell.is_live(now)).peekable();
    cells.peek()?;
    let mut out = Vec::new();
    match &column.data_type {
        DataType::Counter => {
            return cells.last().map(|cell| counter::total(cell.value).to_be_bytes().to_vec());
        }
        data_type if !data_type.is_multi_cell() => return cells.last().map(|cell| cell.value.to_vec()),
        DataType::Set { .. } => {
            let paths: Vec<_> = cells.filter_map(|cell| cell.path).collect();
            collection::write_list(&mut out, paths.into_iter());
        }
        DataType::Map { .. } => {
            let entries: Vec<_> = cells.filter_map(|cell| Some((cell.path?, cell.value))).collect();
            collection::write_map(&mut out, entries.into_iter());
        }
        DataType::Udt { definition, .. } => {
            let cells: Vec<_> = cells.collect();
            let field = |index: usize| {
                let path = u16::try_from(index).ok()?.to_be_bytes();
                cells.iter().find(|cell| cell.path == Some(&path)).map(|cell| cell.value)
            };
            collection::write_tuple(&mut out, (0..definition.fields.len()).map(field));
        }
        _ => {
            let values: Vec<_> = cells.map(|cell| cell.value).collect();
            collection::write_list(&mut out, values.into_iter());
        }
    }
    Some(out)
}
