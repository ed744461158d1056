//! `INSERT INTO … JSON`.

use std::borrow::Cow;
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

/// A planned `INSERT … JSON`. The JSON text of each execution determines the columns.
#[derive(Debug)]
pub(crate) struct JsonInsert {
    text: Term,
    /// Omitted columns keep their values (`DEFAULT UNSET`).
    default_unset: bool,
    pub if_not_exists: bool,
    pub attributes: Attributes,
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
        let text = match value {
            JsonValue::Literal(text) => Term::Value(text.as_bytes().to_vec().into()),
            JsonValue::BindMarker(marker) => {
                Term::marker(marker, &named_receiver(table, "[json]", DataType::Text), cx)
            }
        };
        let attributes =
            Attributes::new(insert.using.timestamp.as_ref(), insert.using.ttl.as_ref(), table, cx)?;
        Ok(Self { text, default_unset, if_not_exists: insert.if_not_exists, attributes })
    }

    /// Plans the INSERT for the JSON text of this execution.
    pub fn rows(&self, table: &Arc<TableMetadata>, cx: &BindContext<'_>) -> Result<RowsPlan> {
        let text = match self.text.bind(cx)? {
            Bound::Value(text) => text,
            _ => bail_invalid!("Got null for INSERT JSON values"),
        };
        let text = match &text {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes),
            Cow::Owned(bytes) => std::str::from_utf8(bytes),
        }
        .map_err(|_| DatabaseError::invalid("JSON text is not UTF-8"))?;
        if table.layout == Layout::StaticCompact {
            // As in Cassandra, where INSERT JSON sets all columns, also those that it cannot name.
            for column in &table.clustering {
                existing(table, &column.name)?;
            }
        }
        let columns: Vec<&Arc<ColumnMetadata>> =
            table.all_columns().filter(|column| !table.is_hidden(column)).collect();
        let types: Vec<(&str, &DataType)> =
            columns.iter().map(|column| (column.name.as_str(), &column.data_type)).collect();
        let values = decode_row(text, &types)?;
        let mut set = Vec::with_capacity(columns.len());
        for (column, value) in columns.into_iter().zip(values) {
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
