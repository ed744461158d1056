//! Verification of values: each must be valid for its type.

use cassette_rows::{DataType, PartitionStream, Result, Row, StorageError, TableMetadata, Unfiltered, key};

use crate::descriptor::Component;
use crate::reader::SSTableReader;

impl SSTableReader {
    /// Validates every value against its type. Returns the first error.
    pub fn verify_values(&self) -> Result<()> {
        verify_values(self)
    }
}

fn verify_values(reader: &SSTableReader) -> Result<()> {
    let mut scan = reader.scan_all()?;
    while let Some(header) = scan.next_partition()? {
        let partition = header.key.key();
        let wrong = |detail: String| {
            let path = reader.descriptor().path(Component::Data);
            StorageError::corrupt(path, format!("partition {partition:02x?}: {detail}"))
        };
        check_key(reader.table(), partition).map_err(wrong)?;
        if let Some(row) = &header.static_row {
            check_row(reader.table(), row).map_err(wrong)?;
        }
        while let Some(unfiltered) = scan.next_unfiltered()? {
            if let Unfiltered::Row(row) = &unfiltered {
                check_row(reader.table(), row).map_err(wrong)?;
            }
        }
    }
    Ok(())
}

/// Validates a partition key of the table.
pub(crate) fn check_key(table: &TableMetadata, partition: &[u8]) -> std::result::Result<(), String> {
    let columns = &table.partition_key;
    let components = key::components(partition, columns.len())
        .ok_or_else(|| "its key has not the components that the table's has".to_owned())?;
    for (column, value) in columns.iter().zip(components) {
        let valid = column.data_type.validate(value);
        valid.map_err(|error| format!("key column {}: {error}", column.name))?;
    }
    Ok(())
}

/// Validates every value of a row; returns the first error.
pub(crate) fn check_row(table: &TableMetadata, row: &Row) -> std::result::Result<(), String> {
    for (column, value) in table.clustering.iter().zip(row.clustering().values()) {
        if let Some(value) = value {
            let valid = column.data_type.validate(value);
            valid.map_err(|error| format!("clustering column {}: {error}", column.name))?;
        }
    }
    for cell in row.cells().filter(|cell| !cell.is_tombstone()) {
        let Some(column) = table.column_by_id(cell.column) else { continue };
        let wrong = |error| format!("column {}: {error}", column.name);
        let data_type = match cell.path {
            Some(path) => {
                if let Some(path_type) = column.data_type.path_type() {
                    path_type.validate(path).map_err(wrong)?;
                }
                column.data_type.cell_type(path)
            }
            None => Some(&column.data_type),
        };
        match data_type {
            // Its cells contain contexts of shards, not values.
            Some(DataType::Counter) | None => {}
            Some(data_type) => data_type.validate(cell.value).map_err(wrong)?,
        }
    }
    Ok(())
}
