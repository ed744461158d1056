//! Result metadata: the columns of a result, and their cached encoding.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cassette_rows::types::DataType;

use crate::{
    ProtocolError, Version,
    data_type::{decode_data_type, encode_data_type},
    notation::{Reader, write_string},
};

/// The bits of `<flags>` in metadata.
pub(crate) mod metadata_flag {
    pub const GLOBAL_TABLES_SPEC: i32 = 0x0001;
    pub const HAS_MORE_PAGES: i32 = 0x0002;
    pub const NO_METADATA: i32 = 0x0004;
    pub const METADATA_CHANGED: i32 = 0x0008;
}

/// A column of a result, or a bind marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The keyspace of its table.
    pub keyspace: Arc<str>,
    /// Its table.
    pub table: Arc<str>,
    /// The column's name or alias, or the bind marker's.
    pub name: Arc<str>,
    /// The type of its values.
    pub data_type: DataType,
}

/// The columns of a result in order, with their encoded form for each version once it was
/// requested.
///
/// Prepared statements keep one, and every execution uses its bytes; clones share them.
#[derive(Debug, Clone, Default)]
pub struct ResultMetadata(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    columns: Vec<ColumnSpec>,
    encoded: [OnceLock<EncodedColumns>; Version::SUPPORTED.len()],
}

/// `<global_table_spec>?<col_spec_1>…<col_spec_n>` for one version.
#[derive(Debug)]
pub(crate) struct EncodedColumns {
    count: i32,
    global_table: bool,
    specs: Bytes,
}

impl ResultMetadata {
    /// Metadata of these columns.
    pub fn new(columns: Vec<ColumnSpec>) -> Self {
        Self(Arc::new(Inner { columns, encoded: Default::default() }))
    }

    /// Returns the columns.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.0.columns
    }

    /// Returns the columns in the encoding of `version`, which the first call creates.
    pub(crate) fn encoded(&self, version: Version) -> &EncodedColumns {
        let slot = match version {
            Version::V3 => &self.0.encoded[0],
            Version::V4 => &self.0.encoded[1],
            Version::V5 => &self.0.encoded[2],
        };
        slot.get_or_init(|| EncodedColumns::new(&self.0.columns, version))
    }

    /// `<global_table_spec>?<col_spec_1>…<col_spec_n>`
    pub(crate) fn decode_columns(
        reader: &mut Reader<'_>,
        count: usize,
        global_table: bool,
    ) -> Result<Self, ProtocolError> {
        let mut table: (Arc<str>, Arc<str>) = Default::default();
        if global_table {
            table = (reader.read_string()?.into(), reader.read_string()?.into());
        }
        // The shortest specification: an empty name and a type without value.
        let mut columns = Vec::with_capacity(reader.bounded(count, 4));
        for _ in 0..count {
            if !global_table {
                table = (reader.read_string()?.into(), reader.read_string()?.into());
            }
            columns.push(ColumnSpec {
                keyspace: Arc::clone(&table.0),
                table: Arc::clone(&table.1),
                name: reader.read_string()?.into(),
                data_type: decode_data_type(reader)?,
            });
        }
        Ok(Self::new(columns))
    }
}

impl PartialEq for ResultMetadata {
    fn eq(&self, other: &Self) -> bool {
        self.0.columns == other.0.columns
    }
}

impl Eq for ResultMetadata {}

impl EncodedColumns {
    fn new(columns: &[ColumnSpec], version: Version) -> Self {
        let same_table = |column: &ColumnSpec, other: &ColumnSpec| {
            column.keyspace == other.keyspace && column.table == other.table
        };
        let global = columns.first().filter(|first| columns.iter().all(|column| same_table(first, column)));
        let mut specs = Vec::new();
        if let Some(first) = global {
            write_string(&first.keyspace, &mut specs);
            write_string(&first.table, &mut specs);
        }
        for column in columns {
            if global.is_none() {
                write_string(&column.keyspace, &mut specs);
                write_string(&column.table, &mut specs);
            }
            write_string(&column.name, &mut specs);
            encode_data_type(&column.data_type, version, &mut specs);
        }
        Self {
            count: i32::try_from(columns.len()).expect("a statement has fewer than 2^31 columns"),
            global_table: global.is_some(),
            specs: specs.into(),
        }
    }

    /// How many columns there are.
    pub(crate) fn count(&self) -> i32 {
        self.count
    }

    /// Returns whether all columns belong to one table, which is then named once.
    pub(crate) fn has_global_table(&self) -> bool {
        self.global_table
    }

    /// Returns the flags that describe `specs`.
    pub(crate) fn flags(&self) -> i32 {
        if self.global_table { metadata_flag::GLOBAL_TABLES_SPEC } else { 0 }
    }

    /// Returns the same, but flags the absence of columns as absence of metadata: for statements
    /// without a result.
    pub(crate) fn flags_or_no_metadata(&self) -> i32 {
        if self.count == 0 { metadata_flag::NO_METADATA } else { self.flags() }
    }

    /// The encoded table and columns.
    pub(crate) fn specs(&self) -> &[u8] {
        &self.specs
    }
}
