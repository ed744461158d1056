//! Values of markers by their names.

use std::collections::{BTreeMap, HashMap};

use super::{Encoded, ToCql};
use crate::basics::error::{Result, bail_invalid};
use crate::basics::response::ColumnSpec;

/// Values with names; each marker of a statement receives the value with its name.
///
/// A marker `?` has the name of its column, `:name` its own. Implemented by maps and by
/// `#[derive(BindValues)]`.
pub trait BindNamed {
    /// Writes the value of `marker`. Returns whether it exists.
    ///
    /// # Errors
    /// Invalid, if the value does not have the type of the marker.
    fn bind_marker(&self, marker: &ColumnSpec, out: &mut Encoded) -> Result<bool>;
}

/// [`BindValues::bind`](super::BindValues::bind) by the names of the markers. Values without a
/// marker are ignored.
///
/// # Errors
/// Invalid, if a marker has no value, or one of the wrong type.
pub fn bind_by_name(
    values: &(impl BindNamed + ?Sized),
    markers: &[ColumnSpec],
    out: &mut Encoded,
) -> Result<()> {
    for marker in markers {
        if !values.bind_marker(marker, out)? {
            bail_invalid!("Missing value for bind marker {}", marker.name);
        }
    }
    Ok(())
}

impl<T: BindNamed + ?Sized> BindNamed for &T {
    fn bind_marker(&self, marker: &ColumnSpec, out: &mut Encoded) -> Result<bool> {
        (**self).bind_marker(marker, out)
    }
}

fn bind_some(value: Option<&impl ToCql>, marker: &ColumnSpec, out: &mut Encoded) -> Result<bool> {
    value.map_or(Ok(false), |value| out.push(value, marker).map(|()| true))
}

impl<T: ToCql> BindNamed for BTreeMap<&str, T> {
    fn bind_marker(&self, marker: &ColumnSpec, out: &mut Encoded) -> Result<bool> {
        bind_some(self.get(&*marker.name), marker, out)
    }
}

impl<T: ToCql> BindNamed for BTreeMap<String, T> {
    fn bind_marker(&self, marker: &ColumnSpec, out: &mut Encoded) -> Result<bool> {
        bind_some(self.get(&*marker.name), marker, out)
    }
}

impl<T: ToCql, S: std::hash::BuildHasher> BindNamed for HashMap<&str, T, S> {
    fn bind_marker(&self, marker: &ColumnSpec, out: &mut Encoded) -> Result<bool> {
        bind_some(self.get(&*marker.name), marker, out)
    }
}

impl<T: ToCql, S: std::hash::BuildHasher> BindNamed for HashMap<String, T, S> {
    fn bind_marker(&self, marker: &ColumnSpec, out: &mut Encoded) -> Result<bool> {
        bind_some(self.get(&*marker.name), marker, out)
    }
}
