//! The rows of Parquet files, and their values.

use std::fs::File;

use cassette_cql::values::{collections, temporal, text};
use cassette_rows::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};

use super::rows;
use crate::values::ParseFormats;

/// Nanoseconds of a microsecond and a millisecond.
const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000_000;

/// An open file.
pub struct ParquetRows {
    names: Vec<String>,
    count: u64,
    rows: RowIter<'static>,
}

impl ParquetRows {
    /// Opens a file.
    ///
    /// # Errors
    /// If it is no Parquet.
    pub fn open(file: File) -> Result<Self, ParquetError> {
        let reader = SerializedFileReader::new(file)?;
        let metadata = reader.metadata().file_metadata();
        let names = metadata.schema().get_fields().iter().map(|field| field.name().to_owned()).collect();
        let count = u64::try_from(metadata.num_rows()).unwrap_or(0);
        Ok(Self { names, count, rows: RowIter::from_file_into(Box::new(reader)) })
    }

    /// Returns the names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Returns the number of rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the fields of the next row.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn next(&mut self) -> Result<Option<Vec<(String, rows::Field)>>, ParquetError> {
        let Some(row) = self.rows.next().transpose()? else { return Ok(None) };
        let fields = row.into_columns().into_iter();
        Ok(Some(fields.map(|(name, field)| (name, rows::Field::Parquet(field))).collect()))
    }
}

/// Converts a field to a value of a type. `None` is null.
///
/// # Errors
/// If it is no such value.
pub fn value(data_type: &DataType, field: &Field, formats: &ParseFormats) -> Result<Option<Vec<u8>>, String> {
    let parse = |text: String| formats.parse(data_type, &text);
    let nested = |data_type: &DataType, field: &Field| {
        value(data_type, field, formats)?.ok_or_else(|| "null in a collection".to_owned())
    };
    let unexpected = || format!("expected {data_type}, found {field}");
    match field {
        Field::Null => Ok(None),
        Field::Bool(is_true) => parse(if *is_true { "True" } else { "False" }.to_owned()),
        Field::Str(text) if matches!(data_type, DataType::Text | DataType::Ascii) => {
            text::from_text(data_type, text).map(Some).map_err(|error| error.to_string())
        }
        Field::Str(text) => parse(text.clone()),
        Field::Bytes(bytes) => {
            let bytes = bytes.data().to_vec();
            data_type.validate(&bytes).map_err(|error| error.to_string())?;
            Ok(Some(bytes))
        }
        Field::Date(days) => parse(date(*days)),
        Field::TimeMillis(time) => parse(temporal::time_to_text(i64::from(*time) * MILLI)),
        Field::TimeMicros(time) => parse(temporal::time_to_text(time.saturating_mul(MICRO))),
        Field::TimestampMillis(ms) => parse(ms.to_string()),
        Field::TimestampMicros(micros) => parse(micros.div_euclid(1000).to_string()),
        Field::ListInternal(list) => {
            let elements = |element: &DataType| {
                list.elements().iter().map(|item| nested(element, item)).collect::<Result<Vec<_>, String>>()
            };
            match data_type {
                DataType::List { element, .. } => Ok(Some(collections::build_list(&elements(element)?))),
                DataType::Set { element, .. } => {
                    Ok(Some(collections::build_set(element, elements(element)?)))
                }
                DataType::Vector { element, dimension } => {
                    let built = collections::build_vector(element, *dimension, &elements(element)?);
                    built.map(Some).map_err(|error| error.to_string())
                }
                _ => Err(unexpected()),
            }
        }
        Field::MapInternal(map) => {
            let DataType::Map { key, value, .. } = data_type else { return Err(unexpected()) };
            let entries = map.entries().iter().map(|(k, v)| Ok((nested(key, k)?, nested(value, v)?)));
            Ok(Some(collections::build_map(key, entries.collect::<Result<Vec<_>, String>>()?)))
        }
        Field::Group(row) => group(data_type, row, formats).unwrap_or_else(|| Err(unexpected())).map(Some),
        // Numbers.
        other => parse(other.to_string()),
    }
}

/// Converts the fields of a group to a user-defined type by their names, or to a tuple by their
/// order. `None` for other types.
fn group(data_type: &DataType, row: &Row, formats: &ParseFormats) -> Option<Result<Vec<u8>, String>> {
    let fields: Vec<(&String, &Field)> = row.get_column_iter().collect();
    let values: Result<Vec<Option<Vec<u8>>>, String> = match data_type {
        DataType::Udt { definition, .. } => definition
            .fields
            .iter()
            .map(|(name, data_type)| match fields.iter().find(|(known, _)| *known == name) {
                Some((_, field)) => value(data_type, field, formats),
                None => Ok(None),
            })
            .collect(),
        DataType::Tuple(types) => types
            .iter()
            .zip(&fields)
            .map(|(data_type, (_, field))| value(data_type, field, formats))
            .collect(),
        _ => return None,
    };
    Some(values.map(|values| collections::build_tuple(&values)))
}

fn date(days: i32) -> String {
    let shifted = i64::from(days) + (1 << 31);
    u32::try_from(shifted).map_or_else(|_| days.to_string(), temporal::date_to_text)
}
