//! Structs as values of user-defined types: called by `#[derive(UdtValue)]`.

use cassette_rows::DataType;
use cassette_rows::types::UserType;
use cassette_rows::types::collection;

use super::{FromCql, ToCql, Written};
use crate::basics::error::{Result, bail_invalid};

/// Appends a value of a user-defined type. Fields that are missing in `fields` are null.
///
/// # Errors
/// Invalid, if `data_type` is not a user-defined type, or lacks one of `fields`.
pub fn write_udt(
    rust: &str,
    fields: &[(&str, &dyn ToCql)],
    data_type: &DataType,
    out: &mut Vec<u8>,
) -> Result<Written> {
    let definition = definition(rust, data_type)?;
    if let Some((name, _)) = fields.iter().find(|(name, _)| definition.field(name).is_none()) {
        bail_invalid!("Unknown field '{name}' in value of user defined type {}", definition.name);
    }
    let mut bytes = Vec::new();
    for (name, field_type) in &definition.fields {
        bytes.clear();
        let written = match fields.iter().find(|(field, _)| field == name) {
            Some((_, value)) => value.write(field_type, &mut bytes)?,
            None => Written::Null,
        };
        collection::write_item(out, matches!(written, Written::Bytes).then_some(bytes.as_slice()));
    }
    Ok(Written::Bytes)
}

/// A value of a user-defined type, read field by field.
#[derive(Debug)]
pub struct UdtReader<'a> {
    definition: &'a UserType,
    items: Vec<Option<&'a [u8]>>,
}

impl<'a> UdtReader<'a> {
    /// Reads a value as the Rust type called `rust`.
    ///
    /// # Errors
    /// Invalid, if `data_type` is not a user-defined type, or the value is null.
    pub fn new(rust: &str, data_type: &'a DataType, bytes: Option<&'a [u8]>) -> Result<Self> {
        let definition = definition(rust, data_type)?;
        let Some(bytes) = bytes else { bail_invalid!("the value is null: read it as an Option") };
        Ok(Self { definition, items: collection::read_tuple(bytes).take(definition.fields.len()).collect() })
    }

    /// Converts the field `name`, which is null in values written before it was added.
    ///
    /// # Errors
    /// Invalid, if the field does not exist, or does not convert to `T`.
    pub fn get<T: FromCql>(&self, name: &str) -> Result<T> {
        match self.definition.field(name) {
            Some((index, data_type)) => T::read(data_type, self.items.get(index).copied().flatten())
                .map_err(|error| error.in_value(name)),
            None => bail_invalid!("user defined type {} has no field {name}", self.definition.name),
        }
    }
}

fn definition<'a>(rust: &str, data_type: &'a DataType) -> Result<&'a UserType> {
    match data_type {
        DataType::Udt { definition, .. } => Ok(definition),
        _ => bail_invalid!("cannot convert {rust}: expected a user-defined type, found {data_type}"),
    }
}
