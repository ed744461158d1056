//! Keyspaces and tables, as `system_schema` and DESCRIBE show them.

use cassette_rows::Layout;
use cassette_rows::types::quote_identifier;

use crate::cell::{list, map, text};
use crate::endpoint::Session;
use crate::error::{Result, unsuitable};
use crate::page::Page;

/// The kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

/// How the cells of a column are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// One cell.
    Simple,
    Counter,
    List,
    Set,
    Map,
    /// A user-defined type with a cell for each of these fields.
    Udt(Vec<String>),
}

impl Shape {
    /// Returns whether each element is a cell.
    pub fn is_multi_cell(&self) -> bool {
        !matches!(self, Self::Simple | Self::Counter)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    pub position: i32,
    pub cql_type: String,
    pub order: String,
    pub shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub keyspace: String,
    pub name: String,
    /// Hexadecimal digits.
    pub id: String,
    /// The key columns in order, then the others by name.
    pub columns: Vec<Column>,
    pub is_counter: bool,
    /// How its rows are stored. The kinds of columns are those of storage.
    pub layout: Layout,
    /// Whether its changes are captured.
    pub cdc: bool,
    pub gc_grace_seconds: u32,
}

impl Table {
    /// Returns the columns of a kind, in order.
    pub fn columns(&self, kind: Kind) -> impl Iterator<Item = &Column> + Clone {
        self.columns.iter().filter(move |column| column.kind == kind)
    }

    /// Returns its quoted name.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quote_identifier(&self.keyspace), quote_identifier(&self.name))
    }

    /// Returns whether it has lists with a cell for each element.
    pub fn has_lists(&self) -> bool {
        self.columns.iter().any(|column| column.shape == Shape::List)
    }
}

/// A CREATE statement.
#[derive(Debug, Clone)]
pub struct Object {
    /// `type`, `function`, `aggregate`, `table`, `index` or `materialized_view`.
    pub kind: String,
    pub name: String,
    pub statement: String,
}

/// A keyspace.
#[derive(Debug)]
pub struct Keyspace {
    pub name: String,
    /// The map after `WITH replication =`.
    pub replication: String,
    /// The same, as names and values.
    pub replication_options: Vec<(String, String)>,
    pub durable_writes: bool,
    pub tables: Vec<Table>,
    /// Names with their fields and the types of these.
    pub types: Vec<(String, Vec<(String, String)>)>,
    /// In the order of their creation.
    pub objects: Vec<Object>,
    /// Masked columns: their tables and names.
    pub masked: Vec<String>,
}

/// Returns the names of all keyspaces that are not the server's.
pub fn keyspaces(session: &mut Session<'_>) -> Result<Vec<String>> {
    let page = session.query("SELECT keyspace_name FROM system_schema.keyspaces")?;
    let names = (0..page.rows.len()).filter_map(|row| page.text(row, 0));
    let mut names: Vec<String> = names.filter(|name| !is_system(name)).collect();
    names.sort();
    Ok(names)
}

fn is_system(name: &str) -> bool {
    name == "system" || name.starts_with("system_")
}

/// Reads a keyspace; `None` if it does not exist.
pub fn keyspace(session: &mut Session<'_>, name: &str) -> Result<Option<Keyspace>> {
    if is_system(name) {
        return unsuitable(format!("keyspace {name} is the server's: it cannot be moved"));
    }
    let literal = name.replace('\'', "''");
    let mut read = |what: &str, from: &str| {
        session.query(&format!("SELECT {what} FROM system_schema.{from} WHERE keyspace_name = '{literal}'"))
    };
    let of_keyspace = read("replication, durable_writes", "keyspaces")?;
    let Some(row) = of_keyspace.rows.first() else { return Ok(None) };
    let replication = row.first().cloned().flatten().unwrap_or_default();
    let durable_writes = row.get(1).cloned().flatten().is_none_or(|value| value.first() != Some(&0));
    let types = types(&read("type_name, field_names, field_types", "types")?);
    let of_tables = read("table_name, id, flags, cdc, gc_grace_seconds", "tables")?;
    let of_columns = read("table_name, column_name, kind, position, type, clustering_order", "columns")?;
    // Cassandra has it since 5.0.
    let masks = read("table_name, column_name", "column_masks").unwrap_or_default();
    let masked = (0..masks.rows.len())
        .map(|row| {
            let text = |column| masks.text(row, column).unwrap_or_default();
            format!("{}.{}", text(0), text(1))
        })
        .collect();
    let mut tables = Vec::new();
    for row in 0..of_tables.rows.len() {
        tables.push(table(name, &of_tables, row, &of_columns, &types)?);
    }
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    let described = session.query(&format!("DESCRIBE KEYSPACE {}", quote_identifier(name)))?;
    let described_text = |row: usize, column| described.get(row, column).and_then(text).unwrap_or_default();
    let objects = (0..described.rows.len()).map(|row| {
        let (kind, name) = (described_text(row, "type"), described_text(row, "name"));
        let statement = described_text(row, "create_statement");
        let table = tables.iter().find(|table| kind == "table" && table.name == name);
        Object {
            kind,
            name,
            statement: table.map_or_else(|| statement.clone(), |t| t.executable(&statement)),
        }
    });
    let objects: Vec<_> = objects.filter(|object| object.kind != "keyspace").collect();
    let options = map(&replication).unwrap_or_default();
    let options: Vec<(String, String)> =
        options.iter().filter_map(|(key, value)| Some((text(key)?, text(value)?))).collect();
    Ok(Some(Keyspace {
        name: name.to_owned(),
        replication: literal_map(&options),
        replication_options: options,
        durable_writes,
        tables,
        types,
        objects,
        masked,
    }))
}

fn literal_map(pairs: &[(String, String)]) -> String {
    let quoted = |value: &String| format!("'{}'", value.replace('\'', "''"));
    let pairs: Vec<_> =
        pairs.iter().map(|(key, value)| format!("{}: {}", quoted(key), quoted(value))).collect();
    format!("{{{}}}", pairs.join(", "))
}

fn texts(value: Option<&bytes::Bytes>) -> Vec<String> {
    let items = value.and_then(list).unwrap_or_default();
    items.iter().flatten().filter_map(text).collect()
}

fn types(page: &Page) -> Vec<(String, Vec<(String, String)>)> {
    (0..page.rows.len())
        .filter_map(|row| {
            let names = texts(page.get(row, "field_names"));
            let types = texts(page.get(row, "field_types"));
            Some((page.text(row, 0)?, names.into_iter().zip(types).collect()))
        })
        .collect()
}

fn table(
    keyspace: &str,
    tables: &Page,
    row: usize,
    columns: &Page,
    types: &[(String, Vec<(String, String)>)],
) -> Result<Table> {
    let name = tables.text(row, 0).unwrap_or_default();
    let flags = texts(tables.get(row, "flags"));
    let Some(layout) = Layout::from_flags(|name| flags.iter().any(|flag| flag == name)) else {
        return unsuitable(format!("table {keyspace}.{name} has super columns, which are not supported"));
    };
    let mut of_table = Vec::new();
    for row in 0..columns.rows.len() {
        let text = |column: usize| columns.text(row, column).unwrap_or_default();
        if text(0) != name {
            continue;
        }
        let kind = match text(2).as_str() {
            "partition_key" => Kind::PartitionKey,
            "clustering" => Kind::Clustering,
            "static" => Kind::Static,
            _ => Kind::Regular,
        };
        let position = columns.get(row, "position").and_then(|value| value.as_ref().try_into().ok());
        let cql_type = text(4);
        of_table.push(Column {
            name: text(1),
            kind,
            position: position.map_or(0, i32::from_be_bytes),
            shape: shape(&cql_type, types),
            cql_type,
            order: text(5),
        });
    }
    let rank = |column: &Column| (column.kind as u8, column.position);
    of_table.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
    let grace = tables.get(row, "gc_grace_seconds").and_then(|value| value.as_ref().try_into().ok());
    let id = tables.get(row, "id").map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
    Ok(Table {
        keyspace: keyspace.to_owned(),
        name,
        id: id.unwrap_or_default(),
        columns: of_table,
        is_counter: flags.iter().any(|flag| flag == "counter"),
        layout,
        cdc: tables.get(row, "cdc").is_some_and(|value| value.first() == Some(&1)),
        gc_grace_seconds: grace.map_or(0, u32::from_be_bytes),
    })
}

fn shape(cql_type: &str, types: &[(String, Vec<(String, String)>)]) -> Shape {
    match cql_type {
        "counter" => Shape::Counter,
        _ if cql_type.starts_with("list<") => Shape::List,
        _ if cql_type.starts_with("set<") => Shape::Set,
        _ if cql_type.starts_with("map<") => Shape::Map,
        _ => {
            let udt = types.iter().find(|(name, _)| quote_identifier(name) == cql_type || name == cql_type);
            udt.map_or(Shape::Simple, |(_, fields)| {
                Shape::Udt(fields.iter().map(|(name, _)| name.clone()).collect())
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_collections_and_types_that_are_not_frozen_have_many_cells() {
        let types = vec![
            ("address".to_owned(), vec![("street".to_owned(), "text".to_owned())]),
            ("Name".to_owned(), vec![("first".to_owned(), "text".to_owned())]),
        ];
        for (cql_type, expected) in [
            ("int", Shape::Simple),
            ("counter", Shape::Counter),
            ("list<int>", Shape::List),
            ("set<frozen<list<int>>>", Shape::Set),
            ("map<text, int>", Shape::Map),
            ("frozen<map<text, int>>", Shape::Simple),
            ("tuple<int, list<int>>", Shape::Simple),
            ("vector<float, 3>", Shape::Simple),
            ("frozen<address>", Shape::Simple),
            ("address", Shape::Udt(vec!["street".to_owned()])),
            ("\"Name\"", Shape::Udt(vec!["first".to_owned()])),
        ] {
            assert_eq!(shape(cql_type, &types), expected, "{cql_type}");
        }
    }
}
