//! CREATE TABLE … WITH COMPACT STORAGE: the columns that it permits, and those that it adds.

use cassette_rows::{ColumnKind, ColumnMetadata, DataType, Layout};

use crate::basics::error::{Result, bail_invalid};

/// Checks the columns outside the primary key, sorted by name, of a table with `clustering`
/// clustering columns.
///
/// # Errors
/// Invalid, with Cassandra's texts.
pub(super) fn validate(columns: &[(&str, &DataType)], has_statics: bool, clustering: usize) -> Result<()> {
    if columns.iter().any(|(_, data_type)| data_type.is_multi_cell()) {
        bail_invalid!("Non-frozen collections and UDTs are not supported with COMPACT STORAGE");
    }
    if has_statics {
        bail_invalid!("Static columns are not supported in COMPACT STORAGE tables");
    }
    if clustering == 0 && columns.is_empty() {
        bail_invalid!("No definition found that is not part of the PRIMARY KEY");
    }
    if clustering > 0 && columns.len() > 1 {
        let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
        bail_invalid!(
            "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY \
             (got: {})",
            names.join(", ")
        );
    }
    Ok(())
}

/// Returns the layout of a table with as many clustering columns.
pub(super) fn layout(clustering: usize) -> Layout {
    match clustering {
        0 => Layout::StaticCompact,
        1 => Layout::Dense,
        _ => Layout::DenseCompound,
    }
}

/// Converts the declared columns to those of a table with `layout`, one of COMPACT STORAGE: adds
/// the hidden ones.
pub(super) fn complete(columns: &mut Vec<ColumnMetadata>, layout: Layout) {
    if layout == Layout::StaticCompact {
        let mut is_counter = false;
        for column in columns.iter_mut().filter(|column| column.kind == ColumnKind::Regular) {
            column.kind = ColumnKind::Static;
            is_counter |= column.data_type == DataType::Counter;
        }
        let name = (1usize..).map(|n| format!("column{n}"));
        let name = unused(columns, name);
        columns.push(ColumnMetadata::new(name, ColumnKind::Clustering, 0, DataType::Text));
        add_value(columns, if is_counter { DataType::Counter } else { DataType::Blob });
    } else if !columns.iter().any(|column| column.kind == ColumnKind::Regular) {
        add_value(columns, DataType::Empty);
    }
}

fn add_value(columns: &mut Vec<ColumnMetadata>, data_type: DataType) {
    let names = (0usize..).map(|n| if n == 0 { "value".to_owned() } else { format!("value{n}") });
    let name = unused(columns, names);
    columns.push(ColumnMetadata::new(name, ColumnKind::Regular, 0, data_type));
}

/// Returns the first of `names` that no column has.
fn unused(columns: &[ColumnMetadata], mut names: impl Iterator<Item = String>) -> String {
    let is_unused = |name: &String| !columns.iter().any(|column| column.name == *name);
    names.find(is_unused).unwrap_or_default()
}
