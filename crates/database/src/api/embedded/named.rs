//! The macro for named values.

use super::{BindNamed, BindValues, Encoded, ToCql, bind_by_name};
use crate::basics::error::Result;
use crate::basics::response::ColumnSpec;

/// Values by the names of markers: `session.execute(insert, named! { "k" => 1, "v" => "one" })`.
///
/// Values may be of different types. Each marker needs a value; values without a marker are
/// ignored.
#[macro_export]
macro_rules! named {
    () => { $crate::embedded::NoMore };
    ($name:expr => $value:expr $(, $($rest:tt)*)?) => {
        $crate::embedded::Named::new($name, $value, $crate::named!($($($rest)*)?))
    };
}

/// A named value, followed by others: created by [`named!`](crate::named).
#[derive(Debug, Clone, Copy)]
pub struct Named<'n, T, R> {
    name: &'n str,
    value: T,
    rest: R,
}

/// The end of [`Named`] values.
#[derive(Debug, Clone, Copy)]
pub struct NoMore;

impl<'n, T, R> Named<'n, T, R> {
    /// Returns `value` for the markers called `name`, and `rest` for others.
    pub fn new(name: &'n str, value: T, rest: R) -> Self {
        Self { name, value, rest }
    }
}

impl BindNamed for NoMore {
    fn bind_marker(&self, _: &ColumnSpec, _: &mut Encoded) -> Result<bool> {
        Ok(false)
    }
}

impl BindValues for NoMore {
    fn bind(&self, markers: &[ColumnSpec], out: &mut Encoded) -> Result<()> {
        bind_by_name(self, markers, out)
    }
}

impl<T: ToCql, R: BindNamed> BindNamed for Named<'_, T, R> {
    fn bind_marker(&self, marker: &ColumnSpec, out: &mut Encoded) -> Result<bool> {
        if *self.name == *marker.name {
            out.push(&self.value, marker).map(|()| true)
        } else {
            self.rest.bind_marker(marker, out)
        }
    }
}

impl<T: ToCql, R: BindNamed> BindValues for Named<'_, T, R> {
    fn bind(&self, markers: &[ColumnSpec], out: &mut Encoded) -> Result<()> {
        bind_by_name(self, markers, out)
    }
}
