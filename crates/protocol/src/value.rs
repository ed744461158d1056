//! The values bound to a statement.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::{
    ProtocolError, Version,
    notation::{Reader, write_bytes, write_count, write_int, write_string},
};

/// Length that stands for null.
const NULL: i32 = -1;

/// Length that stands for "not set" (v4 and later).
const UNSET: i32 = -2;

/// One \[value\].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value<'a> {
    /// Deletes what it is bound to.
    Null,
    /// Leaves what it is bound to as it is.
    Unset,
    /// A value in its type's serialization.
    Set(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes of a value that is set.
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

/// The values of one request, with or without names, as slices of the bytes they came in.
///
/// Up to 16 values are listed without any allocation.
#[derive(Debug, Clone, Default)]
pub struct Values {
    /// The memory that `starts` point into: the whole body of the request.
    bytes: Bytes,
    /// For each value, where its length stands. All lengths were checked against `bytes`.
    starts: SmallVec<[u32; 16]>,
    /// As many names as values, or none at all.
    names: Vec<String>,
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
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

    /// The bytes of the value at `index`, sharing the request's memory; `None` when null, unset or absent.
    pub fn get_shared(&self, index: usize) -> Option<Bytes> {
        self.get(index)?.set().map(|bytes| self.bytes.slice_ref(bytes))
    }

    /// All values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value<'_>> {
        // `get` is total on indexes below `len`; null stands in where the type asks for a value.
        (0..self.len()).map(|index| self.get(index).unwrap_or(Value::Null))
    }

    /// The name of the value at `index`, when the request named its values.
    pub fn name(&self, index: usize) -> Option<&str> {
        self.names.get(index).map(String::as_str)
    }

    /// Whether the values are named.
    pub fn are_named(&self) -> bool {
        !self.names.is_empty()
    }

    /// Values that did not come over the wire.
    pub fn new<'a>(values: impl IntoIterator<Item = Value<'a>>) -> Self {
        let mut bytes = Vec::new();
        let mut starts = SmallVec::new();
        for value in values {
            starts.push(offset(bytes.len()));
            encode_value(value, &mut bytes);
        }
        Self { bytes: bytes.into(), starts, names: Vec::new() }
    }

    /// Named values that did not come over the wire.
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

    /// v3 knows no unset values: what looks like one is null.
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

/// Equal when they hold the same values under the same names, wherever these lie in memory.
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

/// An offset in a message body, all of which are shorter than 2 GiB because their length is an \[int\].
fn offset(position: usize) -> u32 {
    u32::try_from(position).expect("a message body is shorter than 2 GiB")
}
