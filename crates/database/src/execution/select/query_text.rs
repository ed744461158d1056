//! The text of a read in warnings and errors of guardrails, in Cassandra's form.

use std::fmt::Write as _;

use cassette_cql::values::text::to_literal;
use cassette_rows::{ColumnMetadata, DataType, DecoratedKey, key};

use super::reader::Reader;
use crate::execution::Execution;
use crate::planning::terms::Bound;
use crate::schema::conditions::{ColumnRestriction, Filter, Term};

impl Reader<'_, '_> {
    /// Returns the query, without restrictions of clustering columns. `partition` is the key of a
    /// read of one partition.
    pub(crate) fn query(&self, partition: Option<&DecoratedKey>) -> String {
        let table = &self.plan.table;
        let filters = &self.plan.restrictions.filters;
        let mut query = format!("SELECT {} FROM {}", self.columns(), table.qualified_name());
        let components =
            partition.and_then(|partition| key::components(partition.key(), table.partition_key.len()));
        let keys = table.partition_key.iter().zip(components.into_iter().flatten());
        let of_key = keys.map(|(column, value)| equals(column, value));
        let of_rows = filters.iter().flat_map(|filter| comparisons(filter, self.execution));
        for (at, comparison) in of_key.chain(of_rows).enumerate() {
            let keyword = if at == 0 { "WHERE" } else { "AND" };
            let _ = write!(query, " {keyword} {comparison}");
        }
        let options = self.execution.options;
        let page = options.page_size.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
        let total = self.plan.limits.bind(self.execution, None).ok().and_then(|limits| limits.total());
        if let Some(limit) = page.into_iter().chain(total).min() {
            let _ = write!(query, " LIMIT {limit}");
        }
        query + " ALLOW FILTERING"
    }

    /// Returns the static and regular columns that it selects or filters by; `*` for all and for
    /// none.
    fn columns(&self) -> String {
        let Some(queried) = &self.plan.queried else { return "*".to_owned() };
        let table = &self.plan.table;
        let filtered = self.plan.restrictions.filters.iter().map(|filter| &filter.column);
        let wanted: Vec<&str> = queried.iter().chain(filtered).map(|column| column.name.as_str()).collect();
        let stored = table.static_columns().chain(table.regular_columns()).map(|column| column.name.as_str());
        let names: Vec<&str> = stored.filter(|name| wanted.contains(name)).collect();
        if names.is_empty() { "*".to_owned() } else { names.join(", ") }
    }
}

fn equals(column: &ColumnMetadata, value: &[u8]) -> String {
    format!("{} = {}", column.name, to_literal(&column.data_type, Some(value)))
}

/// Returns the comparisons of a filter; values that cannot be bound are shown as `?`.
fn comparisons(filter: &Filter, execution: &Execution<'_>) -> Vec<String> {
    let ColumnMetadata { name, data_type, .. } = &*filter.column;
    let literal = |term: &Term, data_type: &DataType| match term.bind(execution) {
        Ok(Bound::Value(value)) => to_literal(data_type, Some(&value)),
        _ => "?".to_owned(),
    };
    let (key_type, element_type) = match data_type {
        DataType::Map { key, value, .. } => (&**key, &**value),
        DataType::List { element, .. } | DataType::Set { element, .. } => (&**element, &**element),
        other => (other, other),
    };
    match &filter.restriction {
        ColumnRestriction::Eq(term) => vec![format!("{name} = {}", literal(term, data_type))],
        ColumnRestriction::In(terms) => {
            let values = terms.values(name, execution).unwrap_or_default();
            let values: Vec<String> =
                values.iter().map(|value| to_literal(data_type, value.as_deref())).collect();
            vec![format!("{name} IN ({})", values.join(", "))]
        }
        ColumnRestriction::Slice(slice) => {
            let side = |side: &Option<(Term, bool)>, operator: &str| {
                side.as_ref().map(|(term, inclusive)| {
                    let equal = if *inclusive { "=" } else { "" };
                    format!("{name} {operator}{equal} {}", literal(term, data_type))
                })
            };
            [side(&slice.lower, ">"), side(&slice.upper, "<")].into_iter().flatten().collect()
        }
        ColumnRestriction::Like(like) => vec![format!("{name} LIKE {}", literal(&like.pattern, data_type))],
        ColumnRestriction::Contains { values, keys, entries } => {
            let values = values.iter().map(|term| format!("{name} CONTAINS {}", literal(term, element_type)));
            let keys = keys.iter().map(|term| format!("{name} CONTAINS KEY {}", literal(term, key_type)));
            let entries = entries.iter().map(|(key, value)| {
                format!("{name}[{}] = {}", literal(key, key_type), literal(value, element_type))
            });
            values.chain(keys).chain(entries).collect()
        }
    }
}
