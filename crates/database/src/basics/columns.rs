//! Values of columns in rows, and the order in which results list columns.

use std::borrow::Cow;
use std::sync::Arc;

use cassette_rows::merge::counter;
use cassette_rows::schema::compare_column_names;
use cassette_rows::types::collection;
use cassette_rows::{ColumnMetadata, DataType, Row, TableMetadata};

/// Returns the value of a static or regular column at `now` (seconds since 1970), or `None` if it
/// has none. The cells of a complex column are serialized into one collection.
pub(crate) fn value_of<'r>(row: &'r Row, column: &ColumnMetadata, now: u32) -> Option<Cow<'r, [u8]>> {
    if column.data_type == DataType::Counter {
        let cell = row.cell(column.id).filter(|cell| cell.is_live(now))?;
        return Some(Cow::Owned(counter::total(cell.value).to_be_bytes().to_vec()));
    }
    if !column.data_type.is_multi_cell() {
        return row.cell(column.id).filter(|cell| cell.is_live(now)).map(|cell| Cow::Borrowed(cell.value));
    }
    let live: Vec<(&[u8], &[u8])> = row
        .cells_of(column.id)
        .filter(|cell| cell.is_live(now))
        .map(|cell| (cell.path.unwrap_or_default(), cell.value))
        .collect();
    if live.is_empty() {
        return None;
    }
    let mut out = Vec::new();
    match &column.data_type {
        DataType::Set { .. } => collection::write_list(&mut out, live.iter().map(|(path, _)| *path)),
        DataType::Map { .. } => collection::write_map(&mut out, live.iter().copied()),
        DataType::Udt { definition, .. } => {
            let field = |index: u16| {
                let path = index.to_be_bytes();
                live.iter().find(|(p, _)| *p == path).map(|(_, value)| *value)
            };
            collection::write_tuple(&mut out, (0u16..).take(definition.fields.len()).map(field));
        }
        _ => collection::write_list(&mut out, live.iter().map(|(_, value)| *value)),
    }
    Some(Cow::Owned(out))
}

/// Returns the columns of `SELECT *`: partition key, clustering, static and regular columns. The
/// last two groups are sorted by name (see [`compare_column_names`]). Hidden columns are excluded.
pub(crate) fn wildcard(table: &TableMetadata) -> Vec<Arc<ColumnMetadata>> {
    let mut statics: Vec<_> = table.static_columns().cloned().collect();
    let mut regulars: Vec<_> = table.regular_columns().cloned().collect();
    for columns in [&mut statics, &mut regulars] {
        columns.sort_by(|a, b| compare_column_names((&a.name, false), (&b.name, false)));
    }
    let mut columns: Vec<_> =
        table.partition_key.iter().chain(&table.clustering).cloned().chain(statics).chain(regulars).collect();
    columns.retain(|column| !table.is_hidden(column));
    columns
}
