//! Types of columns and markers.

use cassette::convert::DataType;

/// A type of CQL. The numbers are those of the native protocol, but for `vector`.
#[repr(C)]
#[expect(missing_docs, reason = "the variants are CQL's type names")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    Custom = 0,
    Ascii = 1,
    Bigint = 2,
    Blob = 3,
    Boolean = 4,
    Counter = 5,
    Decimal = 6,
    Double = 7,
    Float = 8,
    Int = 9,
    Timestamp = 11,
    Uuid = 12,
    Text = 13,
    Varint = 14,
    Timeuuid = 15,
    Inet = 16,
    Date = 17,
    Time = 18,
    Smallint = 19,
    Tinyint = 20,
    Duration = 21,
    List = 32,
    Map = 33,
    Set = 34,
    Udt = 48,
    Tuple = 49,
    Vector = 256,
}

impl ColumnType {
    /// Returns the number of a type.
    pub(crate) fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Ascii => Self::Ascii,
            DataType::BigInt => Self::Bigint,
            DataType::Blob => Self::Blob,
            DataType::Boolean => Self::Boolean,
            DataType::Counter => Self::Counter,
            DataType::Decimal => Self::Decimal,
            DataType::Double => Self::Double,
            DataType::Float => Self::Float,
            DataType::Int => Self::Int,
            DataType::Timestamp => Self::Timestamp,
            DataType::Uuid => Self::Uuid,
            DataType::Text => Self::Text,
            DataType::VarInt => Self::Varint,
            DataType::TimeUuid => Self::Timeuuid,
            DataType::Inet => Self::Inet,
            DataType::Date => Self::Date,
            DataType::Time => Self::Time,
            DataType::SmallInt => Self::Smallint,
            DataType::TinyInt => Self::Tinyint,
            DataType::Duration => Self::Duration,
            DataType::List { .. } => Self::List,
            DataType::Map { .. } => Self::Map,
            DataType::Set { .. } => Self::Set,
            DataType::Udt { .. } => Self::Udt,
            DataType::Tuple(_) => Self::Tuple,
            DataType::Vector { .. } => Self::Vector,
            DataType::Empty | DataType::Custom(_) => Self::Custom,
        }
    }
}
