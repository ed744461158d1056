//! The values bound to a statement.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::{
    ProtocolError, Version,
    notation::{Reader, write_bytes, write_count, write_int, write_string},
};

/// The length that represents null.
const NULL: i32 = -1;

/// The length that represents "not set" (v4 and later).
const UNSET: i32 = -2;

/// One \[value\].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value<'a> {
    /// Deletes the target.
    Null,
    /// Leaves the target unchanged.
    Unset,
    /// A value in its type's serialization.
    Set(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns the bytes of a set value.
    pub fn set(self) -> Option<&'a [u8]> {
        match self {
            Self::Set(bytes) => Some(bytes),
            Self::Null | Self::Unset => None,
        }
    }
}

impl<'a> From<Option<&'a [u8]>> for Value<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Self::Null, Self::Set)
    }
}

/// The values of one request, with or without names, as slices of its bytes.
///
/// Up to 16 values need no allocation.
#[derive(Debug, Clone, Default)]
pub struct Values {
    /// The memory that `starts` refer to: the whole body of the request.
    bytes: Bytes,
    /// The offset of each value's length. All lengths were checked against `bytes`.
    starts: SmallVec<[u32; 16]>,
    /// As many names as values, or none.
    names: Vec<String>,
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The value at `index`.
    pub fn get(&self, index: usize) -> Option<Value<'_>> {
        let rest = self.bytes.get(*self.starts.get(index)? as usize..)?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        match i32::from_be_bytes(*length) {
            UNSET => Some(Value::Unset),
            length => match usize::try_from(length) {
                Ok(length) => rest.get(..length).map(Value::Set),
                Err(_) => Some(Value::Null),
            },
        }
    }

    /// The bytes of the value at `index`, sharing the request's memory; `None` when null, unset or
    /// absent.
    pub fn get_shared(&self, index: usize) -> Option<Bytes> {
        self.get(index)?.set().map(|bytes| self.bytes.slice_ref(bytes))
    }

    /// All values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value<'_>> {
        // `get` is total on indexes below `len`; null is the fallback for the type.
        (0..self.len()).map(|index| self.get(index).unwrap_or(Value::Null))
    }

    /// The name of the value at `index`, when the request named its values.
    pub fn name(&self, index: usize) -> Option<&str> {
        self.names.get(index).map(String::as_str)
    }

    /// Returns whether the values are named.
    pub fn are_named(&self) -> bool {
        !self.names.is_empty()
    }

    /// Creates values that were not received.
    pub fn new<'a>(values: impl IntoIterator<Item = Value<'a>>) -> Self {
        let mut bytes = Vec::new();
        let mut starts = SmallVec::new();
        for value in values {
            starts.push(offset(bytes.len()));
            encode_value(value, &mut bytes);
        }
        Self { bytes: bytes.into(), starts, names: Vec::new() }
    }

    /// Creates named values that were not received.
    pub fn named<'a>(values: impl IntoIterator<Item = (String, Value<'a>)>) -> Self {
        let (names, values): (Vec<_>, Vec<_>) = values.into_iter().unzip();
        Self { names, ..Self::new(values) }
    }

    /// A \[short\] n and n \[value\], each after its name if `named`.
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        version: Version,
        named: bool,
    ) -> Result<Self, ProtocolError> {
        let count = usize::from(reader.read_short()?);
        let room = reader.bounded(count, 4);
        let mut starts = SmallVec::with_capacity(room);
        let mut names = Vec::with_capacity(if named { room } else { 0 });
        for _ in 0..count {
            if named {
                names.push(reader.read_string()?.to_owned());
            }
            starts.push(offset(reader.position()));
            let length = reader.read_int()?;
            match usize::try_from(length) {
                Ok(length) => {
                    reader.take(length, "a value preceded by its 4 bytes length")?;
                }
                // Before v4 every negative length is null.
                Err(_) if length == NULL || version < Version::V4 => {}
                Err(_) if length == UNSET => {}
                Err(_) => return Err(ProtocolError::Invalid(format!("Invalid ByteBuf length {length}"))),
            }
        }
        let mut values = Self { bytes: reader.body().clone(), starts, names };
        if version < Version::V4 {
            values.unset_to_null();
        }
        Ok(values)
    }

    /// v3 has no unset values: their length means null.
    fn unset_to_null(&mut self) {
        if self.iter().any(|value| value == Value::Unset) {
            let nulled = Self::new(self.iter().map(|value| match value {
                Value::Unset => Value::Null,
                other => other,
            }));
            *self = Self { names: std::mem::take(&mut self.names), ..nulled };
        }
    }

    /// The reverse of [`Values::decode`].
    pub(crate) fn encode(&self, buffer: &mut Vec<u8>) {
        write_count(self.len(), buffer);
        for (index, value) in self.iter().enumerate() {
            if let Some(name) = self.name(index) {
                write_string(name, buffer);
            }
            encode_value(value, buffer);
        }
    }
}

/// Equal if the same values have the same names, regardless of memory.
impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && self.iter().eq(other.iter())
    }
}

impl Eq for Values {}

impl<'a> FromIterator<Value<'a>> for Values {
    fn from_iter<I: IntoIterator<Item = Value<'a>>>(values: I) -> Self {
        Self::new(values)
    }
}

fn encode_value(value: Value<'_>, buffer: &mut Vec<u8>) {
    match value {
        Value::Null => write_int(NULL, buffer),
        Value::Unset => write_int(UNSET, buffer),
        Value::Set(bytes) => write_bytes(Some(bytes), buffer),
    }
}

/// An offset in a message body; these are shorter than 2 GiB because their length is an \[int\].
fn offset(position: usize) -> u32 {
    u32::try_from(position).expect("a message body is shorter than 2 GiB")
}
