//! Columns with a dynamic data mask.

use std::borrow::Cow;
use std::sync::Arc;

use cassette_cql::values::functions::{ScalarFunction, resolve_mask};
use cassette_rows::ColumnMetadata;

use super::CurrentRow;
use super::expression::Value;
use crate::basics::error::{DatabaseError, Result};
use crate::planning::context::{BindContext, Masks};

/// A column with the function that masks its values.
#[derive(Debug)]
pub(crate) struct MaskedColumn {
    pub column: Arc<ColumnMetadata>,
    function: ScalarFunction,
    /// The arguments after the column.
    arguments: Vec<Option<Vec<u8>>>,
}

impl MaskedColumn {
    /// Returns the column with its mask; `None` if it has none.
    ///
    /// # Errors
    /// Server, if its mask does not exist, which the schema rules out.
    pub fn new(column: &Arc<ColumnMetadata>) -> Result<Option<Self>> {
        let Some(mask) = &column.mask else { return Ok(None) };
        let function = resolve_mask(&mask.function, &column.data_type, mask.arguments.len())?;
        let function = function.ok_or_else(|| {
            DatabaseError::Server(format!("unknown mask of column {}: {}", column.name, mask.function))
        })?;
        Ok(Some(Self { column: column.clone(), function, arguments: mask.arguments.clone() }))
    }

    /// Returns the value of the column in a row, masked unless the execution reads clear values.
    pub fn value<'r>(&self, row: CurrentRow<'r>, cx: &BindContext<'_>) -> Result<Value<'r>> {
        let value = row.value(&self.column, cx.now_seconds);
        match cx.masks {
            Masks::Lifted => Ok(value),
            Masks::Applied => Ok(self.apply(value.as_deref(), cx)?.map(Cow::Owned)),
        }
    }

    /// Returns the mask of a value, which is not null for every null.
    pub fn apply(&self, value: Option<&[u8]>, cx: &BindContext<'_>) -> Result<Option<Vec<u8>>> {
        let mut values = Vec::with_capacity(1 + self.arguments.len());
        values.push(value);
        values.extend(self.arguments.iter().map(Option::as_deref));
        Ok(self.function.evaluate(&values, cx)?)
    }
}
