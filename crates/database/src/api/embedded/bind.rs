//! The values of a statement's markers.

use std::collections::{BTreeMap, HashMap};

use super::tuple_sizes::for_each_tuple;
use super::{ToCql, Written, bind_by_name};
use crate::basics::error::{Result, bail_invalid};
use crate::basics::request::BoundValue;
use crate::basics::response::ColumnSpec;

/// The values of a statement: `()`, a tuple, a slice or vector by position, or a map by name.
pub trait BindValues {
    /// Writes a value for each of `markers`, in order.
    ///
    /// # Errors
    /// Invalid, if there are too many or too few values, or one has the wrong type.
    fn bind(&self, markers: &[ColumnSpec], out: &mut Encoded) -> Result<()>;
}

/// The position of a value in [`Encoded::bytes`], if it has bytes.
#[derive(Debug)]
enum Part {
    Bytes(std::ops::Range<usize>),
    Null,
    Unset,
}

/// The bytes of markers' values, concatenated.
#[derive(Debug, Default)]
pub struct Encoded {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

impl Encoded {
    /// Appends the value of the marker described by `spec`.
    pub fn push(&mut self, value: &(impl ToCql + ?Sized), spec: &ColumnSpec) -> Result<()> {
        let start = self.bytes.len();
        let written =
            value.write(&spec.data_type, &mut self.bytes).map_err(|error| error.in_value(&spec.name))?;
        self.parts.push(match written {
            Written::Bytes => Part::Bytes(start..self.bytes.len()),
            Written::Null => Part::Null,
            Written::Unset => Part::Unset,
        });
        Ok(())
    }

    /// Returns the bytes of all values.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of values.
    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    /// Returns the values of a statement.
    pub(crate) fn values(&self) -> Vec<BoundValue<'_>> {
        let value = |part: &Part| match part {
            Part::Bytes(range) => BoundValue::Set(&self.bytes[range.clone()]),
            Part::Null => BoundValue::Null,
            Part::Unset => BoundValue::Unset,
        };
        self.parts.iter().map(value).collect()
    }
}

fn check_count(markers: &[ColumnSpec], values: usize) -> Result<()> {
    if markers.len() == values {
        Ok(())
    } else {
        bail_invalid!("there were {} markers(?) in CQL but {values} bound variables", markers.len())
    }
}

impl BindValues for () {
    fn bind(&self, markers: &[ColumnSpec], _: &mut Encoded) -> Result<()> {
        check_count(markers, 0)
    }
}

impl<T: ToCql> BindValues for [T] {
    fn bind(&self, markers: &[ColumnSpec], out: &mut Encoded) -> Result<()> {
        check_count(markers, self.len())?;
        self.iter().zip(markers).try_for_each(|(value, spec)| out.push(value, spec))
    }
}

impl<T: ToCql> BindValues for Vec<T> {
    fn bind(&self, markers: &[ColumnSpec], out: &mut Encoded) -> Result<()> {
        self.as_slice().bind(markers, out)
    }
}

impl<T: ToCql, const N: usize> BindValues for [T; N] {
    fn bind(&self, markers: &[ColumnSpec], out: &mut Encoded) -> Result<()> {
        self.as_slice().bind(markers, out)
    }
}

impl<T: BindValues + ?Sized> BindValues for &T {
    fn bind(&self, markers: &[ColumnSpec], out: &mut Encoded) -> Result<()> {
        (**self).bind(markers, out)
    }
}

macro_rules! maps {
    ($($map:ty $(, $hasher:ident)?;)+) => {$(
        /// By the names of the markers.
        impl<T: ToCql $(, $hasher: std::hash::BuildHasher)?> BindValues for $map {
            fn bind(&self, markers: &[ColumnSpec], out: &mut Encoded) -> Result<()> {
                bind_by_name(self, markers, out)
            }
        }
    )+};
}

maps! {
    BTreeMap<&str, T>;
    BTreeMap<String, T>;
    HashMap<&str, T, S>, S;
    HashMap<String, T, S>, S;
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+))+) => {$(
        impl<$($name: ToCql),+> BindValues for ($($name,)+) {
            fn bind(&self, markers: &[ColumnSpec], out: &mut Encoded) -> Result<()> {
                check_count(markers, [$($index),+].len())?;
                $(out.push(&self.$index, &markers[$index])?;)+
                Ok(())
            }
        }
    )+};
}

for_each_tuple!(tuples);
