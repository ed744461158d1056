//! Conversion of rows to Rust values.

use super::tuple_sizes::for_each_tuple;
use super::{FromCql, Row};
use crate::basics::error::{Result, bail_invalid};

/// A Rust type that a row converts to: a tuple with an element for each column.
pub trait FromRow: Sized {
    /// Converts `row`.
    ///
    /// # Errors
    /// Invalid, if the number of columns or the type of one does not match.
    fn from_row(row: &Row<'_>) -> Result<Self>;
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+))+) => {$(
        impl<$($name: FromCql),+> FromRow for ($($name,)+) {
            fn from_row(row: &Row<'_>) -> Result<Self> {
                let (expected, found) = ([$($index),+].len(), row.columns().len());
                if expected != found {
                    bail_invalid!("cannot convert a row to a tuple: expected {expected} columns, found {found}");
                }
                Ok(($(row.get::<$name>($index)?,)+))
            }
        }
    )+};
}

for_each_tuple!(tuples);
