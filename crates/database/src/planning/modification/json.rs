//! `INSERT INTO … JSON`.

use std::sync::Arc;

use cassette_cql::ast::{self, JsonValue};
use cassette_cql::values::json::{JsonColumn, decode_row};
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, Layout, TableMetadata};

use super::attributes::Attributes;
use super::rows_plan::{self, RowsPlan};
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::planning::context::{BindContext, PlanContext};
use crate::planning::restrictions::{existing, named_receiver};
use crate::planning::terms::Bound;
use crate::schema::conditions::Term;

/// A planned `INSERT … JSON`.
#[derive(Debug)]
pub(crate) struct JsonInsert {
    source: Source,
    /// Omitted columns keep their values (`DEFAULT UNSET`).
    default_unset: bool,
    pub if_not_exists: bool,
    pub attributes: Attributes,
}

/// Where the values come from.
#[derive(Debug)]
enum Source {
    /// The statement itself. Its text is decoded when it is planned, so that, as in Cassandra, its
    /// mistakes are reported before those of attributes and of a batch.
    Literal(Vec<JsonColumn>),
    /// The text of each execution.
    Marker(Term),
}

impl JsonInsert {
    pub fn new(
        insert: &ast::Insert,
        value: &JsonValue,
        default_unset: bool,
        table: &Arc<TableMetadata>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        rows_plan::refuse_insert_of_counters(table)?;
        let attributes =
            Attributes::new(insert.using.timestamp.as_ref(), insert.using.ttl.as_ref(), table, cx)?;
        let source = match value {
            JsonValue::Literal(text) => Source::Literal(decode(text, table)?),
            JsonValue::BindMarker(marker) => {
                Source::Marker(Term::marker(marker, &named_receiver(table, "[json]", DataType::Text), cx))
            }
        };
        if table.layout == Layout::StaticCompact {
            // As in Cassandra, where INSERT JSON sets all columns, also those that it cannot name.
            for column in &table.clustering {
                existing(table, &column.name)?;
            }
        }
        rows_plan::refuse_timestamp(insert.if_not_exists, &attributes)?;
        Ok(Self { source, default_unset, if_not_exists: insert.if_not_exists, attributes })
    }

    /// Plans the INSERT for the values of this execution.
    pub fn rows(&self, table: &Arc<TableMetadata>, cx: &BindContext<'_>) -> Result<RowsPlan> {
        let values = match &self.source {
            Source::Literal(values) => values.clone(),
            Source::Marker(text) => match text.bind(cx)? {
                Bound::Value(bytes) => {
                    let text = std::str::from_utf8(&bytes)
                        .map_err(|_| DatabaseError::invalid("JSON text is not UTF-8"))?;
                    decode(text, table)?
                }
                _ => bail_invalid!("Got null for INSERT JSON values"),
            },
        };
        let mut set = Vec::with_capacity(values.len());
        for (column, value) in columns(table).zip(values) {
            let term = match value {
                JsonColumn::Absent if self.default_unset => match column.kind {
                    ColumnKind::Static | ColumnKind::Regular => continue,
                    ColumnKind::PartitionKey | ColumnKind::Clustering => {
                        bail_invalid!("Invalid unset value for column {}", column.name)
                    }
                },
                JsonColumn::Absent | JsonColumn::Null => Term::Null,
                JsonColumn::Value(bytes) => Term::Value(bytes.into()),
            };
            set.push((column.clone(), term));
        }
        let plan = rows_plan::insert_of(set, self.attributes.clone(), self.if_not_exists, table)?;
        Ok(RowsPlan { sets_all_columns: true, ..plan })
    }
}

/// Returns the columns that a JSON text may name. Those of static compact tables, where the INSERT
/// is refused, are decoded with the hidden ones before that, as in Cassandra.
fn columns(table: &TableMetadata) -> impl Iterator<Item = &Arc<ColumnMetadata>> {
    let with_hidden = table.layout == Layout::StaticCompact;
    table.all_columns().filter(move |column| with_hidden || !table.is_hidden(column))
}

/// Returns the values of a JSON text in the order of [`columns`].
fn decode(text: &str, table: &TableMetadata) -> Result<Vec<JsonColumn>> {
    let types: Vec<(&str, &DataType)> =
        columns(table).map(|column| (column.name.as_str(), &column.data_type)).collect();
    Ok(decode_row(text, &types)?)
}
