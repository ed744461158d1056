//! Changes as JSON.

use cassette_cql::values::json::encode_value;
use cassette_engine::cdc::Change;
use cassette_engine::commitlog::Position;
use cassette_rows::merge::counter;
use cassette_rows::{
    Bound, Cell, Clustering, ColumnMetadata, DataType, DeletionTime, RangeTombstone, Row, Side, Slice,
    TableMetadata, key,
};

/// An object whose fields keep their order.
struct Object(String);

impl Object {
    fn new() -> Self {
        Self("{".to_owned())
    }

    /// Appends a field whose value is JSON.
    fn json(mut self, name: &str, value: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&quoted(name));
        self.0.push(':');
        self.0.push_str(value);
        self
    }

    fn text(self, name: &str, value: &str) -> Self {
        self.json(name, &quoted(value))
    }

    fn number(self, name: &str, value: impl Into<i64>) -> Self {
        self.json(name, &value.into().to_string())
    }

    fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What an operation changes in its partition.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// All of it.
    Partition,
    /// The rows of a range.
    Range(Slice),
    /// The static row.
    Static,
    /// One row.
    Row(Clustering),
}

/// An operation of a change: a JSON object to which fields can be added.
pub struct Line {
    object: Object,
    /// What it changes.
    pub target: Target,
}

impl Line {
    fn new(object: Object, target: Target) -> Self {
        Self { object, target }
    }

    /// Appends a field whose value is JSON.
    pub fn with(self, name: &str, value: &str) -> Self {
        Self { object: self.object.json(name, value), ..self }
    }

    /// Returns the text of the object.
    pub fn finish(self) -> String {
        self.object.finish()
    }
}

/// Returns the operations of a change, each a JSON object: deletions first.
pub fn lines(position: Position, change: &Change) -> Vec<Line> {
    let Change { table, update } = change;
    let key = partition_key(table, update.key.key());
    let begin = |operation: &str| {
        Object::new()
            .text("position", &position.to_string())
            .text("keyspace", &table.keyspace)
            .text("table", &table.name)
            .text("operation", operation)
    };
    let mut lines = Vec::new();
    if !update.deletion.is_live() {
        let object = begin("delete_partition").json("key", &object(&key));
        lines.push(Line::new(deletion(object, update.deletion), Target::Partition));
    }
    for tombstone in update.range_tombstones.as_slice() {
        let object = begin("delete_range").json("key", &object(&key));
        let slice = Slice { start: tombstone.start.clone(), end: tombstone.end.clone() };
        lines.push(Line::new(range(object, table, tombstone), Target::Range(slice)));
    }
    if let Some(row) = &update.static_row {
        let object = begin("update").json("key", &object(&key)).json("static", "true");
        lines.push(Line::new(row_content(object, table, row), Target::Static));
    }
    for row in &update.rows {
        let whole = object(&row_key(table, &key, row.clustering()));
        let target = || Target::Row(row.clustering().clone());
        if !row.deletion().is_live() {
            let object = begin("delete_row").json("key", &whole);
            lines.push(Line::new(deletion(object, row.deletion()), target()));
        }
        let has_liveness = !row.liveness().is_empty();
        if has_liveness || row.cell_count() > 0 || !row.complex_deletions().is_empty() {
            let object = begin(if has_liveness { "insert" } else { "update" }).json("key", &whole);
            lines.push(Line::new(row_content(object, table, row), target()));
        }
    }
    lines
}

/// Returns the columns of a row's key and their values as JSON.
fn row_key(table: &TableMetadata, key: &[(String, String)], of_row: &Clustering) -> Vec<(String, String)> {
    let mut whole = key.to_vec();
    whole.extend(clustering(table, of_row));
    whole
}

/// Returns the key of a partition, with that of a row in it, as a JSON object.
pub fn key_object(table: &TableMetadata, key: &[u8], of_row: Option<&Clustering>) -> String {
    let key = partition_key(table, key);
    object(&of_row.map_or_else(|| key.clone(), |of_row| row_key(table, &key, of_row)))
}

/// Returns an object of fields whose values are JSON.
pub fn object(fields: &[(String, String)]) -> String {
    fields.iter().fold(Object::new(), |object, (name, value)| object.json(name, value)).finish()
}

fn partition_key(table: &TableMetadata, bytes: &[u8]) -> Vec<(String, String)> {
    let columns = &table.partition_key;
    let values = key::components(bytes, columns.len()).unwrap_or_default();
    let field = |(column, value): (&std::sync::Arc<ColumnMetadata>, &[u8])| {
        (column.name.clone(), encode_value(&column.data_type, value))
    };
    columns.iter().zip(values).map(field).collect()
}

fn clustering(table: &TableMetadata, clustering: &Clustering) -> Vec<(String, String)> {
    let values = table.clustering.iter().zip(clustering.values());
    values.map(|(column, value)| (column.name.clone(), nullable(&column.data_type, value))).collect()
}

fn nullable(data_type: &DataType, value: Option<&[u8]>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| encode_value(data_type, value))
}

fn deletion(line: Object, deletion: DeletionTime) -> Object {
    line.number("timestamp", deletion.timestamp)
}

fn range(line: Object, table: &TableMetadata, tombstone: &RangeTombstone) -> Object {
    let bound = |bound: &Bound, inclusive: Side| {
        if bound.prefix.is_empty() {
            return "null".to_owned();
        }
        let is_inclusive = if bound.side == inclusive { "true" } else { "false" };
        let values = object(&clustering(table, &bound.prefix));
        Object::new().json("columns", &values).json("inclusive", is_inclusive).finish()
    };
    let line = line
        .json("start", &bound(&tombstone.start, Side::Before))
        .json("end", &bound(&tombstone.end, Side::After));
    deletion(line, tombstone.deletion)
}

/// Appends the liveness and the cells of a row.
fn row_content(mut line: Object, table: &TableMetadata, row: &Row) -> Object {
    let liveness = row.liveness();
    if !liveness.is_empty() {
        line = line.number("timestamp", liveness.timestamp);
        if liveness.is_expiring() {
            line = line.number("ttl", liveness.ttl).number("expires", liveness.local_expiration);
        }
    }
    let mut cells = Vec::new();
    for (id, deleted) in row.complex_deletions() {
        if let Some(column) = table.column_by_id(*id) {
            let cell = Object::new().text("column", &column.name).json("deleted", "true");
            cells.push(deletion(cell, *deleted).finish());
        }
    }
    for cell in row.cells() {
        if let Some(column) = table.column_by_id(cell.column) {
            cells.push(cell_content(column, &cell).finish());
        }
    }
    line.json("cells", &format!("[{}]", cells.join(",")))
}

fn cell_content(column: &ColumnMetadata, cell: &Cell<'_>) -> Object {
    let mut object = Object::new().text("column", &column.name);
    let mut value_type = &column.data_type;
    // A set has its elements in the paths, and no values.
    let mut has_value = true;
    if let Some(path) = cell.path {
        match &column.data_type {
            DataType::List { element, .. } => {
                object = object.json("cell", &encode_value(&DataType::TimeUuid, path));
                value_type = element;
            }
            DataType::Set { element, .. } => {
                object = object.json("element", &encode_value(element, path));
                has_value = false;
            }
            DataType::Map { key, value, .. } => {
                object = object.json("key", &encode_value(key, path));
                value_type = value;
            }
            DataType::Udt { definition, .. } => {
                let place = path.first_chunk().map(|place| usize::from(u16::from_be_bytes(*place)));
                if let Some((name, data_type)) = place.and_then(|place| definition.fields.get(place)) {
                    object = object.text("field", name);
                    value_type = data_type;
                }
            }
            _ => {}
        }
    }
    if cell.is_tombstone() {
        object = object.json("deleted", "true");
    } else if column.data_type == DataType::Counter {
        object = object.number("value", counter::total(cell.value));
    } else if has_value {
        object = object.json("value", &encode_value(value_type, cell.value));
    }
    object = object.number("timestamp", cell.timestamp);
    if cell.is_expiring() {
        object = object.number("ttl", cell.ttl).number("expires", cell.local_deletion_time);
    }
    object
}
