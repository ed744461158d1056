//! Values that are omitted: what they would be written to stays as it is.

use cassette_rows::DataType;

use super::{ToCql, Written};
use crate::basics::error::Result;

/// An omitted value. `None` and [`Value::Null`](super::Value::Null) write a tombstone; this writes
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unset;

/// A value, or none that leaves its column as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaybeUnset<T> {
    /// Leaves the column as it is.
    #[default]
    Unset,
    /// Writes the value; `Set(None)` deletes.
    Set(T),
}

impl<T> MaybeUnset<T> {
    /// `None` becomes [`Unset`](Self::Unset) instead of a deletion.
    pub fn from_option(value: Option<T>) -> Self {
        value.map_or(Self::Unset, Self::Set)
    }
}

impl ToCql for Unset {
    fn write(&self, _: &DataType, _: &mut Vec<u8>) -> Result<Written> {
        Ok(Written::Unset)
    }
}

impl<T: ToCql> ToCql for MaybeUnset<T> {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        match self {
            Self::Unset => Ok(Written::Unset),
            Self::Set(value) => value.write(data_type, out),
        }
    }
}
