//! The table in the dictionary of a captured table: consumers of changes have no other schema.

use std::collections::BTreeSet;

use cassette_rows::types::parse_class_name;
use cassette_rows::{ColumnKind, ColumnMetadata, TableId, TableMetadata, TableParams, vint};
use uuid::Uuid;

use crate::log::commitlog::TableVersion;

/// Introduces the table. A dictionary without it ends after its columns.
const CAPTURED: u8 = 1;

/// Appends the table, if its changes are captured.
pub(super) fn encode(table: &TableMetadata, out: &mut Vec<u8>) {
    if !table.params.cdc {
        return;
    }
    out.push(CAPTURED);
    vint::write_bytes(out, table.keyspace.as_bytes());
    vint::write_bytes(out, table.name.as_bytes());
    for columns in [&table.partition_key, &table.clustering] {
        vint::write_unsigned(out, columns.len() as u64);
        for column in columns {
            vint::write_bytes(out, column.name.as_bytes());
            vint::write_bytes(out, column.data_type.clustering_class_name(column.reversed).as_bytes());
        }
    }
    for column in table.columns.iter().flatten() {
        vint::write_bytes(out, column.data_type.class_name().as_bytes());
    }
}

/// A column of the first part of a dictionary.
pub(super) struct DictionaryColumn<'a> {
    pub id: usize,
    pub is_static: bool,
    pub is_complex: bool,
    pub name: &'a str,
}

/// Reads the columns of a dictionary; `None` if it has none.
pub(super) fn columns<'a>(input: &mut &'a [u8]) -> Option<Vec<DictionaryColumn<'a>>> {
    let mut columns = Vec::new();
    for _ in 0..vint::read_unsigned(input)? {
        let id = usize::from(u16::try_from(vint::read_unsigned(input)?).ok()?);
        let (kind, rest) = input.split_first()?;
        *input = rest;
        let name = text(input)?;
        let (is_static, is_complex) = (kind & super::kind::STATIC != 0, kind & super::kind::COMPLEX != 0);
        columns.push(DictionaryColumn { id, is_static, is_complex, name });
    }
    Some(columns)
}

/// Returns whether what follows the columns of a dictionary is nothing, or a table.
pub(super) fn is_end(rest: &[u8]) -> bool {
    matches!(rest, [] | [CAPTURED, ..])
}

/// Returns whether a dictionary is that of a captured table.
pub(crate) fn is_captured(mut dictionary: &[u8]) -> bool {
    columns(&mut dictionary).is_some() && dictionary.first() == Some(&CAPTURED)
}

/// Returns the table of a dictionary: `Some(None)` if its changes are not captured, `None` if the
/// bytes are not a dictionary.
pub(crate) fn captured_table(version: TableVersion, mut dictionary: &[u8]) -> Option<Option<TableMetadata>> {
    let input = &mut dictionary;
    let stored = columns(input)?;
    if input.is_empty() {
        return Some(None);
    }
    let (CAPTURED, rest) = input.split_first().map(|(first, rest)| (*first, rest))? else { return None };
    *input = rest;
    let (keyspace, name) = (text(input)?, text(input)?);
    let mut all = Vec::new();
    for kind in [ColumnKind::PartitionKey, ColumnKind::Clustering] {
        let count = vint::read_unsigned(input)?;
        for position in 0..usize::try_from(count).ok()? {
            let name = text(input)?;
            let (data_type, reversed) = parse_class_name(text(input)?).ok()?;
            all.push(ColumnMetadata { reversed, ..ColumnMetadata::new(name, kind, position, data_type) });
        }
        if all.is_empty() {
            return None;
        }
    }
    for column in &stored {
        let (data_type, reversed) = parse_class_name(text(input)?).ok()?;
        if reversed || data_type.is_multi_cell() != column.is_complex {
            return None;
        }
        let kind = if column.is_static { ColumnKind::Static } else { ColumnKind::Regular };
        all.push(ColumnMetadata::new(column.name, kind, 0, data_type));
    }
    let names: BTreeSet<&str> = all.iter().map(|column| column.name.as_str()).collect();
    if !input.is_empty() || names.len() != all.len() || all.len() > TableMetadata::COLUMNS_MAX {
        return None;
    }
    let id = TableId(Uuid::from_u128(version.table));
    let params = TableParams { cdc: true, ..TableParams::default() };
    let mut table = TableMetadata::new(id, keyspace, name, all, params);
    table.version = version.schema;
    Some(Some(table))
}

fn text<'a>(input: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(vint::read_bytes(input)?).ok()
}
