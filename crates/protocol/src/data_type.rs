//! Types as \[option\], the notation of column types in result metadata.

use std::sync::Arc;

use cassette_rows::types::{DataType, NESTING_MAX, UserType, parse_class_name};

use crate::{
    ProtocolError, Version,
    notation::{Reader, write_count, write_short, write_string},
};

/// The ids of \[option\].
mod id {
    pub const CUSTOM: u16 = 0x0000;
    pub const ASCII: u16 = 0x0001;
    pub const BIGINT: u16 = 0x0002;
    pub const BLOB: u16 = 0x0003;
    pub const BOOLEAN: u16 = 0x0004;
    pub const COUNTER: u16 = 0x0005;
    pub const DECIMAL: u16 = 0x0006;
    pub const DOUBLE: u16 = 0x0007;
    pub const FLOAT: u16 = 0x0008;
    pub const INT: u16 = 0x0009;
    /// Obsolete since v3, but still accepted.
    pub const TEXT: u16 = 0x000A;
    pub const TIMESTAMP: u16 = 0x000B;
    pub const UUID: u16 = 0x000C;
    pub const VARCHAR: u16 = 0x000D;
    pub const VARINT: u16 = 0x000E;
    pub const TIMEUUID: u16 = 0x000F;
    pub const INET: u16 = 0x0010;
    pub const DATE: u16 = 0x0011;
    pub const TIME: u16 = 0x0012;
    pub const SMALLINT: u16 = 0x0013;
    pub const TINYINT: u16 = 0x0014;
    pub const DURATION: u16 = 0x0015;
    pub const LIST: u16 = 0x0020;
    pub const MAP: u16 = 0x0021;
    pub const SET: u16 = 0x0022;
    pub const UDT: u16 = 0x0030;
    pub const TUPLE: u16 = 0x0031;
}

/// Returns the id of a type and the first version that supports it. Types without an id are custom:
/// their value is a class name.
fn option_id(data_type: &DataType) -> (u16, Version) {
    match data_type {
        DataType::Ascii => (id::ASCII, Version::V3),
        DataType::BigInt => (id::BIGINT, Version::V3),
        DataType::Blob => (id::BLOB, Version::V3),
        DataType::Boolean => (id::BOOLEAN, Version::V3),
        DataType::Counter => (id::COUNTER, Version::V3),
        DataType::Date => (id::DATE, Version::V4),
        DataType::Decimal => (id::DECIMAL, Version::V3),
        DataType::Double => (id::DOUBLE, Version::V3),
        DataType::Duration => (id::DURATION, Version::V5),
        DataType::Empty | DataType::Vector { .. } | DataType::Custom(_) => (id::CUSTOM, Version::V3),
        DataType::Float => (id::FLOAT, Version::V3),
        DataType::Inet => (id::INET, Version::V3),
        DataType::Int => (id::INT, Version::V3),
        DataType::SmallInt => (id::SMALLINT, Version::V4),
        DataType::Text => (id::VARCHAR, Version::V3),
        DataType::Time => (id::TIME, Version::V4),
        DataType::Timestamp => (id::TIMESTAMP, Version::V3),
        DataType::TimeUuid => (id::TIMEUUID, Version::V3),
        DataType::TinyInt => (id::TINYINT, Version::V4),
        DataType::Uuid => (id::UUID, Version::V3),
        DataType::VarInt => (id::VARINT, Version::V3),
        DataType::List { .. } => (id::LIST, Version::V3),
        DataType::Set { .. } => (id::SET, Version::V3),
        DataType::Map { .. } => (id::MAP, Version::V3),
        DataType::Tuple(_) => (id::TUPLE, Version::V3),
        DataType::Udt { .. } => (id::UDT, Version::V3),
    }
}

/// Appends a type as \[option\]. The wire format does not distinguish frozen types.
pub(crate) fn encode_data_type(data_type: &DataType, version: Version, buffer: &mut Vec<u8>) {
    let (option_id, since) = option_id(data_type);
    if option_id == id::CUSTOM || version < since {
        write_short(id::CUSTOM, buffer);
        write_string(&data_type.class_name(), buffer);
        return;
    }
    write_short(option_id, buffer);
    match data_type {
        DataType::List { element, .. } | DataType::Set { element, .. } => {
            encode_data_type(element, version, buffer);
        }
        DataType::Map { key, value, .. } => {
            encode_data_type(key, version, buffer);
            encode_data_type(value, version, buffer);
        }
        DataType::Tuple(items) => {
            write_count(items.len(), buffer);
            for item in items.iter() {
                encode_data_type(item, version, buffer);
            }
        }
        DataType::Udt { definition, .. } => {
            write_string(&definition.keyspace, buffer);
            write_string(&definition.name, buffer);
            write_count(definition.fields.len(), buffer);
            for (name, field_type) in &definition.fields {
                write_string(name, buffer);
                encode_data_type(field_type, version, buffer);
            }
        }
        _ => {}
    }
}

/// Reads a type as \[option\]. The outermost collection or UDT becomes non-frozen, nested ones
/// frozen.
pub(crate) fn decode_data_type(reader: &mut Reader<'_>) -> Result<DataType, ProtocolError> {
    decode_at_depth(reader, 0)
}

fn decode_at_depth(reader: &mut Reader<'_>, depth: usize) -> Result<DataType, ProtocolError> {
    if depth > NESTING_MAX {
        return Err(ProtocolError::Invalid(format!("A type is nested more than {NESTING_MAX} levels deep")));
    }
    let frozen = depth > 0;
    let nested = |reader: &mut Reader<'_>| decode_at_depth(reader, depth + 1);
    Ok(match reader.read_short()? {
        id::CUSTOM => {
            let name = reader.read_string()?;
            let (data_type, _) =
                parse_class_name(name).map_err(|error| ProtocolError::Invalid(error.to_string()))?;
            data_type
        }
        id::ASCII => DataType::Ascii,
        id::BIGINT => DataType::BigInt,
        id::BLOB => DataType::Blob,
        id::BOOLEAN => DataType::Boolean,
        id::COUNTER => DataType::Counter,
        id::DECIMAL => DataType::Decimal,
        id::DOUBLE => DataType::Double,
        id::FLOAT => DataType::Float,
        id::INT => DataType::Int,
        id::TEXT | id::VARCHAR => DataType::Text,
        id::TIMESTAMP => DataType::Timestamp,
        id::UUID => DataType::Uuid,
        id::VARINT => DataType::VarInt,
        id::TIMEUUID => DataType::TimeUuid,
        id::INET => DataType::Inet,
        id::DATE => DataType::Date,
        id::TIME => DataType::Time,
        id::SMALLINT => DataType::SmallInt,
        id::TINYINT => DataType::TinyInt,
        id::DURATION => DataType::Duration,
        id::LIST => DataType::List { element: nested(reader)?.into(), frozen },
        id::SET => DataType::Set { element: nested(reader)?.into(), frozen },
        id::MAP => DataType::Map { key: nested(reader)?.into(), value: nested(reader)?.into(), frozen },
        id::TUPLE => {
            let count = usize::from(reader.read_short()?);
            let mut items = Vec::with_capacity(reader.bounded(count, 2));
            for _ in 0..count {
                items.push(nested(reader)?);
            }
            DataType::Tuple(items.into())
        }
        id::UDT => {
            let keyspace = reader.read_string()?.to_owned();
            let name = reader.read_string()?.to_owned();
            let count = usize::from(reader.read_short()?);
            // The shortest field: an empty name and a type without value.
            let mut fields = Vec::with_capacity(reader.bounded(count, 4));
            for _ in 0..count {
                fields.push((reader.read_string()?.to_owned(), nested(reader)?));
            }
            DataType::Udt { definition: Arc::new(UserType::new(keyspace, name, fields)), frozen }
        }
        other => return Err(ProtocolError::Invalid(format!("Unknown option id {other}"))),
    })
}
