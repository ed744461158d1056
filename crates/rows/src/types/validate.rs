//! Validates bytes as a value of a type. The error texts are Cassandra's, because drivers show them
//! to users.

use super::{DataType, UserType, collection, vector};
use crate::vint;

/// Bytes that are no value of their type, with Cassandra's text for the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(pub String);

fn invalid<T>(reason: impl Into<String>) -> Result<T, InvalidValue> {
    Err(InvalidValue(reason.into()))
}

impl DataType {
    /// Checks that `bytes`, which are not null, are a value of this type as Cassandra accepts it
    /// from a client.
    pub fn validate(&self, bytes: &[u8]) -> Result<(), InvalidValue> {
        match self {
            Self::Blob | Self::VarInt => Ok(()),
            Self::Text => {
                if std::str::from_utf8(bytes).is_ok() || is_lenient_utf8(bytes) {
                    Ok(())
                } else {
                    invalid("String didn't validate.")
                }
            }
            Self::Ascii => match bytes.iter().find(|byte| !byte.is_ascii()) {
                Some(byte) => invalid(format!("Invalid byte for ascii: {}", *byte as i8)),
                None => Ok(()),
            },
            Self::Duration => validate_duration(bytes),
            Self::List { element, .. } => {
                validate_collection("list", collection::read_list(bytes), bytes, &[element], validate_item)
            }
            Self::Set { element, .. } => {
                validate_collection("set", collection::read_list(bytes), bytes, &[element], validate_item)
            }
            Self::Map { key, value, .. } => validate_collection(
                "map",
                collection::read_map_items(bytes),
                bytes,
                &[key, value],
                validate_item,
            ),
            Self::Tuple(items) => validate_tuple(items, bytes),
            Self::Udt { definition, .. } => validate_udt(definition, bytes),
            Self::Vector { element, dimension } => validate_vector(self, element, *dimension, bytes),
            Self::Custom(custom) => custom.validate(bytes),
            Self::Int
            | Self::BigInt
            | Self::Counter
            | Self::Boolean
            | Self::TinyInt
            | Self::SmallInt
            | Self::Decimal
            | Self::Float
            | Self::Double
            | Self::Date
            | Self::Time
            | Self::Timestamp
            | Self::Uuid
            | Self::TimeUuid
            | Self::Inet
            | Self::Empty => self.validate_length(bytes),
        }
    }

    /// Checks that `bytes`, which are not null, are a value of this type that Cassandra accepts for
    /// a bind marker.
    ///
    /// Cassandra validates all bound values, and reads those of lists, sets and maps, too. Only
    /// reading fails for a negative count, which [`validate`](Self::validate) takes for zero.
    pub fn validate_bound(&self, bytes: &[u8]) -> Result<(), InvalidValue> {
        let (kind, types): (&str, &[&Self]) = match self {
            Self::List { element, .. } => ("list", &[element]),
            Self::Set { element, .. } => ("set", &[element]),
            Self::Map { key, value, .. } => ("map", &[key, value]),
            _ => return self.validate(bytes),
        };
        refuse_negative_count(kind, bytes)?;
        validate_collection(kind, self.read_items(bytes), bytes, types, |item_type, item| {
            item_type.validate_and_read(not_null(item)?)
        })
    }

    /// Checks that `bytes` are a list that Cassandra accepts for a bind marker after IN: as
    /// [`validate_bound`](Self::validate_bound), but its values can be null.
    pub fn validate_in_values(&self, bytes: &[u8]) -> Result<(), InvalidValue> {
        let Self::List { element, .. } = self else { return self.validate_bound(bytes) };
        refuse_negative_count("list", bytes)?;
        validate_collection("list", collection::read_list(bytes), bytes, &[element], |element, item| {
            item.map_or(Ok(()), |item| element.validate_and_read(item))
        })
    }

    fn validate_and_read(&self, bytes: &[u8]) -> Result<(), InvalidValue> {
        self.validate(bytes)?;
        self.refuse_negative_counts(bytes)
    }

    /// Checks a valid value for what only reading it with its parts refuses: tuples and UDTs are
    /// not divided.
    fn refuse_negative_counts(&self, bytes: &[u8]) -> Result<(), InvalidValue> {
        let (kind, types): (&str, &[&Self]) = match self {
            Self::List { element, .. } => ("list", &[element]),
            Self::Set { element, .. } => ("set", &[element]),
            Self::Map { key, value, .. } => ("map", &[key, value]),
            Self::Vector { element, dimension } => {
                let elements = vector::read_vector(element, *dimension, bytes);
                return elements
                    .take(*dimension as usize)
                    .try_for_each(|bytes| element.refuse_negative_counts(bytes));
            }
            _ => return Ok(()),
        };
        refuse_negative_count(kind, bytes)?;
        self.read_items(bytes).zip(types.iter().cycle()).try_for_each(|(item, item_type)| {
            item.map_or(Ok(()), |item| item_type.refuse_negative_counts(item))
        })
    }

    /// The items of a list or set, or the keys and values of a map in turns.
    fn read_items<'a>(&self, bytes: &'a [u8]) -> collection::Items<'a> {
        match self {
            Self::Map { .. } => collection::read_map_items(bytes),
            _ => collection::read_list(bytes),
        }
    }

    /// Checks the length of a value of a type without parts, and the version of a timeuuid.
    fn validate_length(&self, bytes: &[u8]) -> Result<(), InvalidValue> {
        let len = bytes.len();
        match self {
            Self::Int if len != 4 && len != 0 => invalid(format!("Expected 4 or 0 byte int ({len})")),
            Self::BigInt | Self::Counter if len != 8 && len != 0 => {
                invalid(format!("Expected 8 or 0 byte long ({len})"))
            }
            Self::Boolean if len > 1 => invalid(format!("Expected 1 or 0 byte value ({len})")),
            Self::TinyInt if len != 1 => invalid(format!("Expected 1 byte for a tinyint ({len})")),
            Self::SmallInt if len != 2 => invalid(format!("Expected 2 bytes for a smallint ({len})")),
            Self::Decimal if len != 0 && len < 4 => {
                invalid(format!("Expected 0 or at least 4 bytes ({len})"))
            }
            Self::Float if len != 4 && len != 0 => {
                invalid(format!("Expected 4 or 0 byte value for a float ({len})"))
            }
            Self::Double if len != 8 && len != 0 => {
                invalid(format!("Expected 8 or 0 byte value for a double ({len})"))
            }
            Self::Date if len != 4 => invalid(format!("Expected 4 byte long for date ({len})")),
            Self::Time if len != 8 => invalid(format!("Expected 8 byte long for time ({len})")),
            Self::Timestamp if len != 8 && len != 0 => {
                invalid(format!("Expected 8 or 0 byte long for date ({len})"))
            }
            Self::Uuid | Self::TimeUuid if len != 16 && len != 0 => {
                invalid(format!("UUID should be 16 or 0 bytes ({len})"))
            }
            // Cassandra reports the top half of the first byte, although the version is in the
            // seventh.
            Self::TimeUuid if len == 16 && bytes[6] & 0xf0 != 0x10 => {
                invalid(format!("Invalid version for TimeUUID type: 0x{:x}", bytes[0] >> 4))
            }
            Self::Inet if !matches!(len, 0 | 4 | 16) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                invalid(format!("Expected 4 or 16 byte inetaddress; got {hex}"))
            }
            Self::Empty if len != 0 => invalid("EmptyType only accept empty values"),
            _ => Ok(()),
        }
    }
}

fn validate_duration(bytes: &[u8]) -> Result<(), InvalidValue> {
    if bytes.len() < 3 {
        return invalid(format!("Expected at least 3 bytes for a duration ({})", bytes.len()));
    }
    let mut rest = bytes;
    let mut part = || {
        vint::read_signed(&mut rest)
            .ok_or_else(|| InvalidValue(format!("Not enough bytes to read a duration ({})", bytes.len())))
    };
    let (months, days, nanoseconds) = (part()?, part()?, part()?);
    if i32::try_from(months).is_err() {
        return invalid(format!("The duration months must be a 32 bits integer but was: {months}"));
    }
    if i32::try_from(days).is_err() {
        return invalid(format!("The duration days must be a 32 bits integer but was: {days}"));
    }
    let parts = [months, days, nanoseconds];
    if parts.iter().any(|part| *part < 0) && parts.iter().any(|part| *part > 0) {
        return invalid(format!(
            "The duration months, days and nanoseconds must be all of the same sign ({months}, {days}, {nanoseconds})"
        ));
    }
    Ok(())
}

fn refuse_negative_count(kind: &str, bytes: &[u8]) -> Result<(), InvalidValue> {
    match bytes.first_chunk().copied().map(i32::from_be_bytes) {
        Some(..0) => invalid(format!("The data cannot be deserialized as a {kind}")),
        _ => Ok(()),
    }
}

fn not_null(item: Option<&[u8]>) -> Result<&[u8], InvalidValue> {
    item.ok_or_else(|| InvalidValue("Null value read when not allowed".to_owned()))
}

fn validate_item(item_type: &DataType, item: Option<&[u8]>) -> Result<(), InvalidValue> {
    item_type.validate(not_null(item)?)
}

/// `types` are used alternately: one for lists and sets, key and value for maps. `validate` checks
/// an item, which may be null.
fn validate_collection(
    kind: &str,
    mut items: collection::Items<'_>,
    bytes: &[u8],
    types: &[&DataType],
    validate: impl Fn(&DataType, Option<&[u8]>) -> Result<(), InvalidValue>,
) -> Result<(), InvalidValue> {
    if bytes.len() < 4 {
        return invalid(format!("Not enough bytes to read a {kind}"));
    }
    let mut turn = types.iter().cycle();
    while let (Some(item), Some(item_type)) = (items.next(), turn.next()) {
        validate(item_type, item)?;
    }
    if items.claimed() > 0 {
        return invalid(format!("Not enough bytes to read a {kind}"));
    }
    if !items.rest().is_empty() {
        return invalid(format!("Unexpected extraneous bytes after {kind} value"));
    }
    Ok(())
}

fn validate_tuple(items: &[DataType], bytes: &[u8]) -> Result<(), InvalidValue> {
    let mut rest = bytes;
    for (i, item_type) in items.iter().enumerate() {
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() < 4 {
            return invalid(format!("Not enough bytes to read size of {i}th component"));
        }
        match collection::split_item(&mut rest) {
            None => return invalid(format!("Not enough bytes to read {i}th component")),
            Some(Some(item)) => item_type.validate(item)?,
            Some(None) => {}
        }
    }
    if rest.is_empty() { Ok(()) } else { invalid("Invalid remaining data after end of tuple value") }
}

fn validate_udt(definition: &UserType, bytes: &[u8]) -> Result<(), InvalidValue> {
    let mut rest = bytes;
    for (i, (name, field_type)) in definition.fields.iter().enumerate() {
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() < 4 {
            return invalid(format!("Not enough bytes to read size of {i}th field {name}"));
        }
        match collection::split_item(&mut rest) {
            None => return invalid(format!("Not enough bytes to read {i}th field {name}")),
            Some(Some(field)) => field_type.validate(field).map_err(|reason| {
                InvalidValue(format!("Failure validating the {i}th field {name}; {reason}"))
            })?,
            Some(None) => {}
        }
    }
    if rest.is_empty() { Ok(()) } else { invalid("Invalid remaining data after end of UDT value") }
}

fn validate_vector(
    this: &DataType,
    element: &DataType,
    dimension: u32,
    bytes: &[u8],
) -> Result<(), InvalidValue> {
    if bytes.is_empty() {
        return invalid("Invalid empty vector value");
    }
    if this.fixed_width().is_some_and(|width| bytes.len() < width) {
        return invalid(format!("Not enough bytes to read a {this}"));
    }
    let mut elements = vector::read_vector(element, dimension, bytes);
    for _ in 0..dimension {
        match elements.next() {
            Some(bytes) => element.validate(bytes)?,
            None => return invalid(format!("Not enough bytes to read a {this}")),
        }
    }
    match elements.rest().len() {
        0 => Ok(()),
        extra => invalid(format!("Unexpected {extra} extraneous bytes after {this} value")),
    }
}

/// Cassandra's validator also accepts text that Java's strings can represent and Rust's cannot: the
/// two-byte null of modified UTF-8, surrogates, and four-byte sequences beyond U+10FFFF.
fn is_lenient_utf8(bytes: &[u8]) -> bool {
    let is_tail = |byte: &u8| *byte & 0xc0 == 0x80;
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        let (extra, second_at_least) = match first {
            0..0x80 => (0, 0),
            0xc0 => match tail.first() {
                Some(0x80) => (1, 0x80),
                _ => return false,
            },
            0xc2..=0xdf => (1, 0x80),
            0xe0 => (2, 0xa0),
            0xe1..=0xef => (2, 0x80),
            0xf0 => (3, 0x90),
            0xf1..=0xf7 => (3, 0x80),
            _ => return false,
        };
        let Some((sequence, after)) = tail.split_at_checked(extra) else { return false };
        if !sequence.iter().all(is_tail) || sequence.first().is_some_and(|second| *second < second_at_least) {
            return false;
        }
        rest = after;
    }
    true
}
