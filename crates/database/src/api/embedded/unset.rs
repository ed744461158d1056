//! Omitted values, which leave their column unchanged.

use cassette_rows::DataType;

use super::{ToCql, Written};
use crate::basics::error::Result;

/// An omitted value. `None` and [`Value::Null`](super::Value::Null) write a tombstone; this writes
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unset;

/// A value, or none that leaves its column unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaybeUnset<T> {
    /// Leaves the column unchanged.
    #[default]
    Unset,
    /// Writes the value; `Set(None)` deletes.
    Set(T),
}

impl<T> MaybeUnset<T> {
    /// Converts `None` to [`Unset`](Self::Unset) instead of a deletion.
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
