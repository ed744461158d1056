//! The derive macros of Cassette. The package `cassette` re-exports and documents them.

mod bind_values;
mod fields;
mod from_row;
mod udt_value;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Reads a row as a struct with named fields, one for each column of that name.
///
/// Columns without a field are ignored; a field without a column is an error. `Option<T>` reads
/// null as `None`.
///
/// | attribute of a field | effect |
/// | --- | --- |
/// | `#[cassette(rename = "name")]` | reads the column `name` |
/// | `#[cassette(flatten)]` | reads the field's own fields from the same row: its type implements `FromRow` by names |
/// | `#[cassette(skip)]` | reads no column; the field is `Default::default()` |
///
/// `#[cassette(crate = path)]` on the struct names the crate `cassette` where it is re-exported or
/// renamed.
#[proc_macro_derive(FromRow, attributes(cassette))]
pub fn from_row(input: TokenStream) -> TokenStream {
    expand(parse_macro_input!(input as DeriveInput), from_row::expand)
}

/// Binds the fields of a struct to the markers with their names.
///
/// A marker `?` has the name of its column, `:name` has its own name. Each marker needs a field;
/// fields without a marker are ignored, so that one struct serves several statements. `None` writes
/// null, `MaybeUnset::Unset` writes nothing.
///
/// | attribute of a field | effect |
/// | --- | --- |
/// | `#[cassette(rename = "name")]` | binds to the markers called `name` |
/// | `#[cassette(flatten)]` | binds the field's own fields: its type implements `BindNamed`, as derived structs do |
/// | `#[cassette(skip)]` | binds to no marker |
#[proc_macro_derive(BindValues, attributes(cassette))]
pub fn bind_values(input: TokenStream) -> TokenStream {
    expand(parse_macro_input!(input as DeriveInput), bind_values::expand)
}

/// Maps a struct to a user-defined type, both ways: implements `ToCql` and `FromCql`.
///
/// Fields are matched by name. Every field of the struct must be one of the type; fields of the
/// type that the struct lacks are written as null and ignored by reads. The order of the fields is
/// that of the type.
///
/// | attribute of a field | effect |
/// | --- | --- |
/// | `#[cassette(rename = "name")]` | maps to the field `name` of the type |
/// | `#[cassette(skip)]` | maps to no field; reads give `Default::default()` |
#[proc_macro_derive(UdtValue, attributes(cassette))]
pub fn udt_value(input: TokenStream) -> TokenStream {
    expand(parse_macro_input!(input as DeriveInput), udt_value::expand)
}

fn expand(
    input: DeriveInput,
    derive: impl FnOnce(&fields::Struct<'_>) -> syn::Result<proc_macro2::TokenStream>,
) -> TokenStream {
    let expanded = fields::Struct::parse(&input).and_then(|parsed| derive(&parsed));
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}

#[cfg(test)]
mod tests;
