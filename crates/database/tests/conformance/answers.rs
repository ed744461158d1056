//! Executes statements and returns the responses in the format of `raw.py`.

use cassette_cql::values::text::{decode_hex, encode_hex};
use cassette_database::embedded::{ToCql, Written};
use cassette_database::{Caller, ColumnSpec, DatabaseError, Rows, Session, StatementOptions};
use cassette_rows::DataType;
use serde_json::{Map, Value, json};

/// The bytes of a value that is bound to a marker.
enum Bound {
    Null,
    Unset,
    Bytes(Vec<u8>),
}

impl ToCql for Bound {
    fn write(&self, _: &DataType, out: &mut Vec<u8>) -> Result<Written, DatabaseError> {
        match self {
            Self::Null => Ok(Written::Null),
            Self::Unset => Ok(Written::Unset),
            Self::Bytes(bytes) => {
                out.extend_from_slice(bytes);
                Ok(Written::Bytes)
            }
        }
    }
}

/// Divides a statement into its text, the rows of a page and the values of its markers, which a
/// comment at its end contains: `/* pages of 2, bind 00000001, null, unset, empty */`.
fn text_and_values(statement: &str) -> (&str, i32, Vec<Bound>) {
    let mut page_size = 5000; // The driver's.
    let Some((text, how)) = statement.strip_suffix(" */").and_then(|rest| rest.split_once(" /* ")) else {
        return (statement, page_size, Vec::new());
    };
    let (pages, values) = how.split_once("bind ").unwrap_or((how, ""));
    if let Some(rows) = pages.strip_prefix("pages of ") {
        page_size = rows.trim_end_matches(", ").parse().unwrap();
    }
    let value = |value: &str| match value {
        "null" => Bound::Null,
        "unset" => Bound::Unset,
        "empty" => Bound::Bytes(Vec::new()),
        hex => Bound::Bytes(decode_hex(hex).unwrap()),
    };
    (text, page_size, values.split(", ").filter(|value| !value.is_empty()).map(value).collect())
}

/// Returns the response to `statement` in the format of `raw.py`, with the rows of all pages.
pub fn answer(session: &Session, statement: &str) -> Value {
    let (text, page_size, values) = text_and_values(statement);
    // The answers are those of a Cassandra without authentication.
    let caller = Caller::Anonymous;
    let mut options = StatementOptions { page_size: Some(page_size), caller, ..StatementOptions::default() };
    let mut answer = Map::new();
    loop {
        let page = match session.execute_with(text, &values, &options) {
            Ok(rows) => rows,
            Err(DatabaseError::AlreadyExists { keyspace, table }) => {
                return json!({"error": "2400", "keyspace": keyspace, "table": table});
            }
            Err(error) => {
                return json!({"error": format!("{:04x}", error.code()), "message": error.to_string()});
            }
        };
        let mut found = rows_answer(&page);
        match (answer.get_mut("rows"), found.get_mut("rows")) {
            (Some(Value::Array(rows)), Some(Value::Array(more))) => rows.append(more),
            _ => answer = found,
        }
        options.paging_state = page.paging_state().cloned();
        if options.paging_state.is_none() {
            break;
        }
    }
    if !values.is_empty() {
        answer.insert("markers".into(), markers(session, text));
    }
    Value::Object(answer)
}

/// Returns the markers of a statement, and which of them are the partition key.
fn markers(session: &Session, text: &str) -> Value {
    let description = session.prepare(text).unwrap().prepared().description();
    let columns: Vec<_> = description.markers().iter().map(column).collect();
    json!({"columns": columns, "key": description.partition_key_indexes()})
}

fn column(spec: &ColumnSpec) -> String {
    format!("{} {}", spec.name, driver_name(&spec.data_type))
}

fn rows_answer(rows: &Rows) -> Map<String, Value> {
    let mut answer = Map::new();
    if !rows.warnings().is_empty() {
        answer.insert("warnings".into(), json!(rows.warnings()));
    }
    if !rows.columns().is_empty() {
        answer.insert("columns".into(), rows.columns().iter().map(column).collect());
        let row = |row: cassette_database::Row<'_>| -> Value {
            (0..rows.columns().len())
                .map(|i| row.bytes(i).map_or(Value::Null, |bytes| encode_hex(bytes).into()))
                .collect()
        };
        answer.insert("rows".into(), rows.iter().map(row).collect());
    }
    answer
}

/// Returns the Python driver's name of a type.
fn driver_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Text => "varchar".to_owned(),
        DataType::Empty => "'org.apache.cassandra.db.marshal.EmptyType'".to_owned(),
        DataType::List { element, .. } => format!("list<{}>", driver_name(element)),
        DataType::Set { element, .. } => format!("set<{}>", driver_name(element)),
        DataType::Map { key, value, .. } => format!("map<{}, {}>", driver_name(key), driver_name(value)),
        DataType::Tuple(items) => {
            let items: Vec<_> = items.iter().map(driver_name).collect();
            format!("frozen<tuple<{}>>", items.join(", "))
        }
        DataType::Udt { definition, .. } => format!("frozen<{}>", definition.name),
        DataType::Vector { element, dimension } => {
            format!("org.apache.cassandra.db.marshal.VectorType<{}, {dimension}>", driver_class_name(element))
        }
        // The driver separates parameters by a comma and a blank.
        custom @ DataType::Custom(_) => custom.to_string().replace(',', ", "),
        native => native.to_string(),
    }
}

/// Returns the driver's name of a type whose class name it received, with the flag `frozen`.
fn driver_class_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Text => "text".to_owned(),
        DataType::List { element, .. } => format!("list<{}>", driver_class_name(element)),
        DataType::Set { element, .. } => format!("set<{}>", driver_class_name(element)),
        DataType::Map { key, value, .. } => {
            format!("map<{}, {}>", driver_class_name(key), driver_class_name(value))
        }
        DataType::Tuple(items) => {
            let items: Vec<_> = items.iter().map(driver_class_name).collect();
            return format!("frozen<tuple<{}>>", items.join(", "));
        }
        other => driver_name(other),
    };
    match data_type {
        DataType::List { frozen: true, .. }
        | DataType::Set { frozen: true, .. }
        | DataType::Map { frozen: true, .. }
        | DataType::Udt { frozen: true, .. } => format!("frozen<{name}>"),
        _ => name,
    }
}
