//! Rust tuples as CQL tuples.

use cassette_rows::DataType;
use cassette_rows::types::collection;

use crate::api::embedded::{FromCql, ToCql, Written};
use crate::basics::error::{Result, bail_invalid};

fn items(data_type: &DataType, expected: usize) -> Result<&[DataType]> {
    match data_type {
        DataType::Tuple(items) if items.len() == expected => Ok(items),
        _ => bail_invalid!(
            "cannot convert a Rust tuple: expected a CQL tuple of {expected}, found {data_type}"
        ),
    }
}

fn write_item(value: &impl ToCql, data_type: &DataType, out: &mut Vec<u8>) -> Result<()> {
    let mut bytes = Vec::new();
    let written = value.write(data_type, &mut bytes)?;
    collection::write_item(out, matches!(written, Written::Bytes).then_some(bytes.as_slice()));
    Ok(())
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+))+) => {$(
        impl<$($name: ToCql),+> ToCql for ($($name,)+) {
            fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
                let items = items(data_type, [$($index),+].len())?;
                $(write_item(&self.$index, &items[$index], out)?;)+
                Ok(Written::Bytes)
            }
        }

        impl<$($name: FromCql),+> FromCql for ($($name,)+) {
            fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
                let items = items(data_type, [$($index),+].len())?;
                let Some(bytes) = bytes else { bail_invalid!("the value is null: read it as an Option") };
                // Values written before an item was added end early.
                let mut values = collection::read_tuple(bytes);
                Ok(($($name::read(&items[$index], values.next().flatten())?,)+))
            }
        }
    )+};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}
