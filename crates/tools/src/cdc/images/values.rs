//! Rows as JSON objects, as SELECT JSON shows them at a time.

use cassette_cql::values::json::encode_value;
use cassette_rows::merge::counter;
use cassette_rows::types::collection::{write_item, write_list, write_map};
use cassette_rows::{Cell, ColumnId, ColumnKind, ColumnMetadata, DataType, Row, TableMetadata};

use super::super::json::object;

/// Returns the columns of a row of `stored` at `now`, seconds since 1970, with the columns of
/// `shown`, a version of the same table. `None` if a reader sees no row; of a static row, if it has
/// no value.
pub(super) fn row_object(
    row: &Row,
    stored: &TableMetadata,
    shown: &TableMetadata,
    now: u32,
) -> Option<String> {
    let is_visible = |cell: &Cell<'_>| cell.is_live(now) && stored.has_cells_of(cell.column, cell.timestamp);
    if !row.liveness().is_live(now) && !row.cells().any(|cell| is_visible(&cell)) {
        return None;
    }
    Some(columns(shown, ColumnKind::Regular, |column| value(row, stored, column, is_visible)))
}

/// Returns the values of a static row as [`row_object`] does those of others.
pub(super) fn static_object(
    row: Option<&Row>,
    stored: &TableMetadata,
    shown: &TableMetadata,
    now: u32,
) -> Option<String> {
    let row = row?;
    let is_visible = |cell: &Cell<'_>| cell.is_live(now) && stored.has_cells_of(cell.column, cell.timestamp);
    if !row.cells().any(|cell| is_visible(&cell)) {
        return None;
    }
    Some(columns(shown, ColumnKind::Static, |column| value(row, stored, column, is_visible)))
}

fn columns(
    shown: &TableMetadata,
    kind: ColumnKind,
    value: impl Fn(&ColumnMetadata) -> Option<String>,
) -> String {
    let of_kind = shown.columns.iter().flatten().filter(|column| column.kind == kind);
    let field = |column: &std::sync::Arc<ColumnMetadata>| {
        (column.name.clone(), value(column).unwrap_or_else(|| "null".to_owned()))
    };
    object(&of_kind.map(field).collect::<Vec<_>>())
}

/// Returns the value of a column as JSON; `None` for null.
fn value(
    row: &Row,
    stored: &TableMetadata,
    shown: &ColumnMetadata,
    is_visible: impl Fn(&Cell<'_>) -> bool,
) -> Option<String> {
    let id: ColumnId = stored.column(&shown.name)?.id;
    let cells: Vec<Cell<'_>> = row.cells_of(id).filter(|cell| is_visible(cell)).collect();
    let first = cells.first()?;
    if shown.data_type == DataType::Counter {
        return Some(counter::total(first.value).to_string());
    }
    if !shown.data_type.is_multi_cell() {
        return Some(encode_value(&shown.data_type, first.value));
    }
    let frozen = shown.data_type.freeze();
    let mut bytes = Vec::new();
    let paths = || cells.iter().map(|cell| cell.path.unwrap_or_default());
    match &frozen {
        DataType::Set { .. } => write_list(&mut bytes, paths()),
        DataType::List { .. } => write_list(&mut bytes, cells.iter().map(|cell| cell.value)),
        DataType::Map { .. } => write_map(&mut bytes, paths().zip(cells.iter().map(|cell| cell.value))),
        DataType::Udt { definition, .. } => {
            for place in 0..definition.fields.len() {
                let path = u16::try_from(place).unwrap_or(u16::MAX).to_be_bytes();
                let field = cells.iter().find(|cell| cell.path == Some(&path[..]));
                write_item(&mut bytes, field.map(|cell| cell.value));
            }
        }
        _ => return None,
    }
    Some(encode_value(&frozen, &bytes))
}
