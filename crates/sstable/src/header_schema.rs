//! The columns of a table in the serialization headers of its SSTables.

use cassette_rows::types::{parse_class_name, parse_key_class_name};
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, TableMetadata};

use crate::descriptor::Version;
use crate::statistics::SerializationHeader;

/// Returns the name of the key column of a kind and position. Headers do not contain names of key
/// columns.
pub type KeyNames<'a> = &'a dyn Fn(ColumnKind, usize) -> String;

/// Merges the headers of several SSTables into one with the columns of all; `None` without headers.
///
/// # Errors
/// If two of them have different keys, so that they belong to different tables.
pub fn merge_headers(
    headers: impl IntoIterator<Item = SerializationHeader>,
) -> Result<Option<SerializationHeader>, String> {
    let mut whole: Option<SerializationHeader> = None;
    for header in headers {
        let Some(whole) = &mut whole else {
            whole = Some(header);
            continue;
        };
        if (&whole.key_type, &whole.clustering_types) != (&header.key_type, &header.clustering_types) {
            return Err(format!(
                "not of the same table as the one before: expected key {}, found {}",
                whole.key_type, header.key_type
            ));
        }
        for (all, new) in [
            (&mut whole.static_columns, header.static_columns),
            (&mut whole.regular_columns, header.regular_columns),
        ] {
            for column in new {
                match all.iter_mut().find(|known| known.name == column.name) {
                    // Types are only extended.
                    Some(known) => *known = column,
                    None => all.push(column),
                }
            }
        }
    }
    Ok(whole)
}

/// Returns a header of this version with the types that its columns have. Headers of `ma` do not
/// contain that user-defined types are frozen, which all were before Cassandra 3.6. Those of later
/// versions of Cassandra 3.0 do not either, and cannot be distinguished from those of 3.7 to 3.11.
#[must_use]
pub fn with_stored_types(mut header: SerializationHeader, version: Version) -> SerializationHeader {
    if version == Version::Ma {
        for column in header.static_columns.iter_mut().chain(&mut header.regular_columns) {
            if let Ok((data_type @ DataType::Udt { .. }, _)) = parse_class_name(&column.type_name) {
                column.type_name = data_type.freeze().class_name();
            }
        }
    }
    header
}

/// Returns the columns of a header.
///
/// # Errors
/// If a type class is not supported, or there are more columns than a table can have.
pub fn columns_of_header(
    header: &SerializationHeader,
    key_names: KeyNames<'_>,
) -> Result<Vec<ColumnMetadata>, String> {
    let mut columns = Vec::new();
    let count = header.clustering_types.len() + header.static_columns.len() + header.regular_columns.len();
    let key = parse_key_class_name(&header.key_type).map_err(|error| error.to_string())?;
    let count = key.len() + count;
    if count > TableMetadata::COLUMNS_MAX {
        return Err(format!(
            "too many columns in the header: expected at most {}, found {count}",
            TableMetadata::COLUMNS_MAX
        ));
    }
    for (i, data_type) in key.into_iter().enumerate() {
        let name = key_names(ColumnKind::PartitionKey, i);
        columns.push(ColumnMetadata::new(name, ColumnKind::PartitionKey, i, data_type));
    }
    for (i, class) in header.clustering_types.iter().enumerate() {
        let (data_type, reversed) = parse_class_name(class).map_err(|error| error.to_string())?;
        let name = key_names(ColumnKind::Clustering, i);
        let column = ColumnMetadata::new(name, ColumnKind::Clustering, i, data_type);
        columns.push(ColumnMetadata { reversed, ..column });
    }
    for (kind, definitions) in
        [(ColumnKind::Static, &header.static_columns), (ColumnKind::Regular, &header.regular_columns)]
    {
        for definition in definitions {
            let (data_type, _) =
                parse_class_name(&definition.type_name).map_err(|error| error.to_string())?;
            columns.push(ColumnMetadata::new(&definition.name, kind, 0, data_type));
        }
    }
    Ok(columns)
}
