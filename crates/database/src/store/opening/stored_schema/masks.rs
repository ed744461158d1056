//! Loads the masks of columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use cassette_cql::values::class_text::from_class_text;
use cassette_cql::values::functions::resolve_mask;
use cassette_rows::{ColumnMask, ColumnMetadata};

use super::{Loader, unreadable, unreadable_in};
use crate::basics::error::Result;
use crate::schema::system::encode::StoredRow;

/// The columns of tables, by keyspace and table.
pub(super) type Columns = BTreeMap<(String, String), Result<Vec<ColumnMetadata>>>;

/// Adds the masks to the columns. A table with a mask that is not supported has an error instead of
/// columns: its values must not be shown without the mask.
pub(super) fn load(loader: &mut Loader<'_>, columns: &mut Columns) -> Result<()> {
    loader.rows("column_masks", |keyspace, row| {
        let (Some(table), Some(name)) = (row.clustering_text(0), row.clustering_text(1)) else {
            return Err(unreadable(format!("a mask in keyspace {keyspace}")));
        };
        // Cassandra leaves rows of dropped tables and columns, which have no effect.
        let Some(of_table) = columns.get_mut(&(keyspace.to_owned(), table.to_owned())) else { return Ok(()) };
        let Ok(found) = of_table else { return Ok(()) };
        let Some(column) = found.iter_mut().find(|column| column.name == name) else { return Ok(()) };
        match load_mask(&row, column) {
            Ok(mask) => column.mask = Some(Arc::new(mask)),
            Err(error) => {
                let what = format!("the mask of column {keyspace}.{table}.{name}");
                *of_table = Err(unreadable_in(what, error));
            }
        }
        Ok(())
    })
}

fn load_mask(row: &StoredRow<'_>, column: &ColumnMetadata) -> Result<ColumnMask> {
    let (keyspace, function) = (row.text("function_keyspace"), row.text("function_name").unwrap_or_default());
    let values = row.text_list("function_argument_values").unwrap_or_default();
    let nulls = row.boolean_list("function_argument_nulls").unwrap_or_default();
    let resolved = if keyspace == Some("system") {
        resolve_mask(function, &column.data_type, values.len())?
    } else {
        None
    };
    let Some(resolved) = resolved.filter(|resolved| resolved.returns == column.data_type) else {
        let keyspace = keyspace.unwrap_or_default();
        return Err(unreadable(format!("the function {keyspace}.{function} is not supported as a mask")));
    };
    let mut arguments = Vec::with_capacity(values.len());
    for (i, (text, data_type)) in values.iter().zip(resolved.arguments.iter().skip(1)).enumerate() {
        let is_null = nulls.get(i).copied().unwrap_or(false);
        arguments.push(if is_null { None } else { Some(from_class_text(data_type, text)?) });
    }
    Ok(ColumnMask { function: function.to_owned(), arguments })
}
