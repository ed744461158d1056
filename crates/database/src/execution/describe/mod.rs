//! DESCRIBE: the schema as CQL text, identical to that of Cassandra 5.0.8.

mod cql_text;
mod elements;
mod function_text;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use cassette_cql::ast::{self, DescribeTarget};
use cassette_rows::types::collection;
use cassette_rows::{DataType, TableMetadata};
use uuid::Uuid;

use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::response::{ColumnSpec, Outcome, ResultMetadata, RowSink};
use crate::execution::Execution;
use crate::planning::context::PlanContext;
use crate::schema::catalog::{Catalog, Keyspace, KeyspaceKind};
use crate::schema::system::local::{PARTITIONER, STORAGE_PORT, TOKEN};
use elements::Element;

/// A planned DESCRIBE. Names are resolved at execution.
#[derive(Debug)]
pub(crate) struct DescribePlan {
    statement: ast::Describe,
}

/// The columns of lists: `keyspace_name`, `type`, `name`.
static LIST: LazyLock<Arc<ResultMetadata>> =
    LazyLock::new(|| metadata(&[("keyspace_name", TEXT), ("type", TEXT), ("name", TEXT)]));

/// The columns of elements: the same and `create_statement`.
static ELEMENTS: LazyLock<Arc<ResultMetadata>> = LazyLock::new(|| {
    metadata(&[("keyspace_name", TEXT), ("type", TEXT), ("name", TEXT), ("create_statement", TEXT)])
});

const TEXT: DataType = DataType::Text;

fn metadata(columns: &[(&str, DataType)]) -> Arc<ResultMetadata> {
    let column = |(name, data_type): &(&str, DataType)| ColumnSpec {
        keyspace: "system".into(),
        table: "describe".into(),
        name: (*name).into(),
        data_type: data_type.clone(),
    };
    ResultMetadata::new(columns.iter().map(column).collect())
}

impl DescribePlan {
    /// Plans a DESCRIBE. No name is resolved yet, but the meaning depends on the session's
    /// keyspace.
    pub fn new(describe: &ast::Describe, cx: &mut PlanContext<'_>) -> Result<Self> {
        cx.used_session_keyspace = true;
        Ok(Self { statement: describe.clone() })
    }

    /// Pushes a row for each element.
    pub fn describe(&self, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        if let DescribeTarget::Cluster = self.statement.target {
            return describe_cluster(execution, sink);
        }
        let catalog = execution.catalog;
        let (elements, with_text) = self.elements(catalog, execution.keyspace)?;
        let offset = match &execution.options.paging_state {
            Some(state) => read_paging_state(state, catalog.version())?,
            None => 0,
        };
        let page = execution.options.page_size.and_then(|size| usize::try_from(size).ok());
        let page = page.filter(|size| *size > 0).unwrap_or(usize::MAX);
        sink.begin(if with_text { &ELEMENTS } else { &LIST });
        let mut rows = 0;
        for element in elements.iter().skip(offset).take(page) {
            sink.value(Some(element.keyspace().as_bytes()));
            sink.value(Some(element.kind().as_bytes()));
            sink.value(Some(element.name().as_bytes()));
            if with_text {
                sink.value(Some(element.text(self.statement.with_internals).as_bytes()));
            }
            sink.end_row()?;
            rows += 1;
        }
        let paging_state = (rows == page).then(|| write_paging_state(offset + rows, catalog.version()));
        Ok(Outcome::Rows { paging_state })
    }

    /// Returns the described elements, and whether the result includes their text.
    fn elements<'a>(&self, catalog: &'a Catalog, current: Option<&str>) -> Result<(Vec<Element<'a>>, bool)> {
        let named = |name: &ast::QualifiedName| {
            let keyspace = match (&name.keyspace, current) {
                (Some(keyspace), _) => keyspace.as_str(),
                (None, Some(current)) => current,
                (None, None) => bail_invalid!("No keyspace specified and no current keyspace"),
            };
            find_keyspace(catalog, keyspace)
        };
        let list = |each: &dyn Fn(&'a Keyspace) -> Vec<Element<'a>>| -> Result<Vec<Element<'a>>> {
            let keyspaces = match current {
                Some(current) => vec![find_keyspace(catalog, current)?],
                None => elements::sorted_keyspaces(catalog),
            };
            Ok(keyspaces.into_iter().flat_map(each).collect())
        };
        Ok(match &self.statement.target {
            DescribeTarget::Keyspaces => {
                (elements::sorted_keyspaces(catalog).into_iter().map(Element::Keyspace).collect(), false)
            }
            DescribeTarget::Tables => (list(&elements::sorted_tables)?, false),
            DescribeTarget::Types => (list(&elements::types_by_name)?, false),
            DescribeTarget::Functions => {
                (list(&|keyspace| elements::functions_by_name(keyspace, None))?, false)
            }
            DescribeTarget::Aggregates => {
                (list(&|keyspace| elements::aggregates_by_name(keyspace, None))?, false)
            }
            DescribeTarget::Schema { full } => {
                let keyspaces = elements::sorted_keyspaces(catalog).into_iter();
                let shown = keyspaces.filter(|keyspace| *full || keyspace.kind == KeyspaceKind::User);
                (shown.flat_map(elements::of_keyspace).collect(), true)
            }
            DescribeTarget::Keyspace { only, name } => {
                let name = name.as_ref().map(ast::Identifier::as_str).or(current);
                let name = name
                    .ok_or_else(|| DatabaseError::invalid("No keyspace specified and no current keyspace"))?;
                let keyspace = find_keyspace(catalog, name)?;
                let all = || elements::of_keyspace(keyspace);
                (if *only { vec![Element::Keyspace(keyspace)] } else { all() }, true)
            }
            DescribeTarget::Table(name) => (find_table(named(name)?, &name.name)?, true),
            DescribeTarget::Type(name) => {
                let keyspace = named(name)?;
                let found = keyspace.types.get(name.name.as_str()).map(Element::Type);
                (vec![found.ok_or_else(|| not_found("User defined type", name, keyspace))?], true)
            }
            DescribeTarget::Index(name) => {
                let keyspace = named(name)?;
                let found = keyspace.indexes.get(name.name.as_str()).map(Element::Index);
                (vec![found.ok_or_else(|| not_found("Table for existing index", name, keyspace))?], true)
            }
            DescribeTarget::View(name) => {
                let keyspace = named(name)?;
                let found = keyspace.views.get(name.name.as_str()).map(Element::View);
                (vec![found.ok_or_else(|| not_found("Materialized view", name, keyspace))?], true)
            }
            DescribeTarget::Function(name) => {
                let keyspace = named(name)?;
                let found = elements::functions_by_name(keyspace, Some(name.name.as_str()));
                (some(found, || not_found("User defined function", name, keyspace))?, true)
            }
            DescribeTarget::Aggregate(name) => {
                let keyspace = named(name)?;
                let found = elements::aggregates_by_name(keyspace, Some(name.name.as_str()));
                (some(found, || not_found("User defined aggregate", name, keyspace))?, true)
            }
            DescribeTarget::Any(name) => (describe_any(catalog, name, current)?, true),
            DescribeTarget::Cluster => (Vec::new(), false),
        })
    }
}

/// Returns the elements, or the error if there are none.
fn some<'a>(elements: Vec<Element<'a>>, missing: impl FnOnce() -> DatabaseError) -> Result<Vec<Element<'a>>> {
    if elements.is_empty() { Err(missing()) } else { Ok(elements) }
}

fn not_found(what: &str, name: &ast::QualifiedName, keyspace: &Keyspace) -> DatabaseError {
    DatabaseError::invalid(format!("{what} '{}' not found in '{}'", name.name.as_str(), keyspace.name))
}

/// Returns [`schema_cql`] of a table in `catalog`.
pub(crate) fn schema_cql_of(catalog: &Catalog, table: &Arc<TableMetadata>) -> String {
    catalog.keyspace(&table.keyspace).map_or_else(String::new, |keyspace| schema_cql(keyspace, table))
}

/// Returns the statements that create a table with the types that it uses, its id, its dropped
/// columns and its indexes: schema.cql of a snapshot.
pub(crate) fn schema_cql(keyspace: &Keyspace, table: &Arc<TableMetadata>) -> String {
    let mut out = String::new();
    for element in elements::with_types(keyspace, table) {
        let kind = element.kind().to_uppercase();
        // The table or some of its types may exist.
        let text = element.text_in(cql_text::Form::Executable);
        out += &text.replacen(&format!("{kind} "), &format!("{kind} IF NOT EXISTS "), 1);
        out.push('\n');
    }
    out
}

/// Returns a keyspace, or else a table, a view or an index.
fn describe_any<'a>(
    catalog: &'a Catalog,
    name: &ast::QualifiedName,
    current: Option<&str>,
) -> Result<Vec<Element<'a>>> {
    let element = name.name.as_str();
    let keyspace = match &name.keyspace {
        Some(keyspace) => keyspace.as_str(),
        None => match catalog.keyspace(element) {
            Some(keyspace) => return Ok(elements::of_keyspace(keyspace)),
            None => current.unwrap_or(element),
        },
    };
    let keyspace = find_keyspace(catalog, keyspace)?;
    if let Some(view) = keyspace.views.get(element) {
        return Ok(vec![Element::View(view)]);
    }
    match (keyspace.tables.get(element), keyspace.indexes.get(element)) {
        (Some(table), _) => Ok(elements::of_table(table, keyspace)),
        (None, Some(index)) => Ok(vec![Element::Index(index)]),
        (None, None) => bail_invalid!("'{element}' not found in keyspace '{}'", keyspace.name),
    }
}

fn find_keyspace<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a Keyspace> {
    match catalog.keyspace(name) {
        Some(keyspace) => Ok(keyspace),
        None => bail_invalid!("'{name}' not found in keyspaces"),
    }
}

fn find_table<'a>(keyspace: &'a Keyspace, name: &str) -> Result<Vec<Element<'a>>> {
    match keyspace.tables.get(name).filter(|_| !keyspace.views.contains_key(name)) {
        Some(table) => Ok(elements::of_table(table, keyspace)),
        None => bail_invalid!("Table '{name}' not found in keyspace '{}'", keyspace.name),
    }
}

/// Pushes name, partitioner and snitch; with a keyspace, also the owner of each range: this node
/// owns all.
fn describe_cluster(execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
    let node = execution.store.node();
    let own = |name: &str| {
        execution.catalog.keyspace(name).is_some_and(|keyspace| keyspace.kind == KeyspaceKind::User)
    };
    let with_ranges = execution.keyspace.is_some_and(own);
    let mut columns = vec![("cluster", TEXT), ("partitioner", TEXT), ("snitch", TEXT)];
    if with_ranges {
        columns.push(("range_ownership", DataType::map(TEXT, DataType::list(TEXT)).freeze()));
    }
    sink.begin(&metadata(&columns));
    sink.value(Some(node.cluster_name.as_bytes()));
    sink.value(Some(PARTITIONER.strip_prefix("org.apache.cassandra.dht.").unwrap_or(PARTITIONER).as_bytes()));
    sink.value(Some(b"SimpleSnitch"));
    if with_ranges {
        let endpoint = format!("/{}:{STORAGE_PORT}", node.address);
        sink.value_with(&mut |out| {
            let mut endpoints = Vec::new();
            collection::write_list(&mut endpoints, [endpoint.as_bytes()].into_iter());
            collection::write_map(out, [(TOKEN.as_bytes(), endpoints.as_slice())].into_iter());
        });
    }
    sink.end_row()?;
    Ok(Outcome::Rows { paging_state: None })
}

/// The length of a paging state in bytes: the schema version, and the number of returned rows as
/// u64.
const PAGING_STATE_LENGTH: usize = 16 + 8;

fn write_paging_state(offset: usize, version: Uuid) -> Bytes {
    let mut state = Vec::with_capacity(PAGING_STATE_LENGTH);
    state.extend_from_slice(version.as_bytes());
    state.extend_from_slice(&(offset as u64).to_be_bytes());
    state.into()
}

fn read_paging_state(state: &[u8], version: Uuid) -> Result<usize> {
    let invalid = || DatabaseError::invalid("Invalid paging state.");
    let (of_version, offset) = state.split_first_chunk::<16>().ok_or_else(invalid)?;
    let offset = u64::from_be_bytes(offset.try_into().map_err(|_| invalid())?);
    if of_version != version.as_bytes() {
        bail_invalid!(
            "The schema has changed since the previous page of the DESCRIBE statement result. Please retry \
             the DESCRIBE statement."
        );
    }
    usize::try_from(offset).map_err(|_| invalid())
}
