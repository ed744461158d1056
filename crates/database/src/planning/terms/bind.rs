//! Binding: the value of a prepared term in one execution.

use std::borrow::Cow;

use cassette_rows::DataType;
use cassette_rows::types::{collection, vector};

use super::Bound;
use super::sorted::sorted;
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::request::BoundValue;
use crate::planning::context::BindContext;
use crate::schema::conditions::Term;

impl Term {
    /// Returns the list of a marker after IN, whose values can be null.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind).
    pub fn bind_in_values<'a>(&'a self, cx: &BindContext<'a>) -> Result<Bound<'a>> {
        let Self::Marker { index, receiver } = self else { return self.bind(cx) };
        match cx.values.get(*index as usize) {
            Some(BoundValue::Set(bytes)) if collection::read_list(bytes).any(|value| value.is_none()) => {
                receiver
                    .data_type
                    .validate_in_values(bytes)
                    .map_err(|error| DatabaseError::Invalid(error.to_string()))?;
                Ok(Bound::Value(Cow::Borrowed(bytes)))
            }
            _ => self.bind(cx),
        }
    }

    /// Returns the value in this execution. Bound bytes are validated against the receiver's type,
    /// and their sets and maps are sorted.
    ///
    /// # Errors
    /// Invalid, for bound bytes that are not a value of their type, and for nulls where none are
    /// allowed.
    pub fn bind<'a>(&'a self, cx: &BindContext<'a>) -> Result<Bound<'a>> {
        Ok(match self {
            Self::Null => Bound::Null,
            Self::Value(bytes) => Bound::Value(Cow::Borrowed(bytes)),
            Self::Marker { index, receiver } => match cx.values.get(*index as usize) {
                Some(BoundValue::Set(bytes)) => {
                    receiver
                        .data_type
                        .validate_bound(bytes)
                        .map_err(|error| DatabaseError::Invalid(error.to_string()))?;
                    Bound::Value(sorted(&receiver.data_type, bytes)?)
                }
                Some(BoundValue::Null) => Bound::Null,
                Some(BoundValue::Unset) => Bound::Unset,
                None => return Err(DatabaseError::Server(format!("no value for bind marker {index}"))),
            },
            Self::Elements { data_type, elements } => {
                let parts = elements.iter().map(|term| term.bind(cx)).collect::<Result<Vec<_>>>()?;
                if parts.iter().any(Bound::is_unset) {
                    return Ok(Bound::Unset);
                }
                let bytes = assemble_elements(data_type, parts.iter().map(Bound::value).collect())?;
                Bound::Value(Cow::Owned(bytes))
            }
            Self::Items { data_type, items } => {
                let parts = items.iter().map(|term| term.bind(cx)).collect::<Result<Vec<_>>>()?;
                if let Some(unset) = parts.iter().position(Bound::is_unset) {
                    refuse_unset(data_type, unset)?;
                }
                Bound::Value(Cow::Owned(assemble_items(parts.iter().map(Bound::value))))
            }
            Self::Item { of, index } => match of.bind(cx)? {
                Bound::Value(tuple) => match collection::read_tuple(&tuple).nth(*index).flatten() {
                    Some(item) => Bound::Value(Cow::Owned(item.to_vec())),
                    None => Bound::Null,
                },
                other => other,
            },
            Self::Function(function) => match function.call(cx)? {
                Some(bytes) => Bound::Value(Cow::Owned(bytes)),
                None => Bound::Null,
            },
        })
    }
}

/// Rejects unset items of frozen tuples and UDTs, which are written as a whole. In a non-frozen UDT
/// an unset field is null.
fn refuse_unset(data_type: &DataType, index: usize) -> Result<()> {
    match data_type {
        DataType::Udt { frozen: false, .. } => Ok(()),
        DataType::Udt { definition, .. } => {
            let field = definition.fields.get(index).map_or("", |(name, _)| name);
            bail_invalid!("Invalid unset value for field '{field}' of user defined type {}", definition.name)
        }
        _ => bail_invalid!("Invalid unset value for tuple field number {index}"),
    }
}

/// Serializes a list, set, vector or map; keys and values alternate in a map. Sets and maps are
/// sorted, and the last of equal keys wins.
pub(crate) fn assemble_elements(data_type: &DataType, parts: Vec<Option<&[u8]>>) -> Result<Vec<u8>> {
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            // As in Cassandra, an empty value is null there, unless it is a text or a blob.
            Some([]) if is_null_if_empty_in(data_type) => {
                bail_invalid!("null is not supported inside vectors")
            }
            Some(value) => values.push(value),
            None => bail_invalid!(
                "null is not supported inside {}",
                if matches!(data_type, DataType::Vector { .. }) { "vectors" } else { "collections" }
            ),
        }
    }
    let mut out = Vec::new();
    match data_type {
        DataType::List { .. } => collection::write_list(&mut out, values.iter().copied()),
        DataType::Set { element, .. } => {
            values.sort_by(|a, b| element.compare(a, b));
            values.dedup_by(|a, b| element.compare(a, b).is_eq());
            collection::write_list(&mut out, values.iter().copied());
        }
        DataType::Map { key, .. } => {
            let mut entries: Vec<_> = values.chunks_exact(2).map(|entry| (entry[0], entry[1])).collect();
            // A stable sort keeps equal keys in order, so the last one wins.
            entries.sort_by(|a, b| key.compare(a.0, b.0));
            let mut unique: Vec<(&[u8], &[u8])> = Vec::with_capacity(entries.len());
            for entry in entries {
                match unique.last_mut() {
                    Some(last) if key.compare(last.0, entry.0).is_eq() => last.1 = entry.1,
                    _ => unique.push(entry),
                }
            }
            collection::write_map(&mut out, unique.iter().copied());
        }
        DataType::Vector { element, .. } => {
            values.iter().for_each(|value| vector::write_element(&mut out, element, value));
        }
        other => bail_invalid!("{other} is no collection"),
    }
    Ok(out)
}

fn is_null_if_empty_in(data_type: &DataType) -> bool {
    match data_type {
        DataType::Vector { element, .. } => {
            !matches!(**element, DataType::Text | DataType::Ascii | DataType::Blob)
        }
        _ => false,
    }
}

/// Serializes a tuple or UDT.
pub(crate) fn assemble_items<'a>(items: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<u8> {
    let mut out = Vec::new();
    collection::write_tuple(&mut out, items);
    out
}
