//! The CQL of YCSB's Cassandra binding, shared by the embedded engine and servers.

use crate::workload::TableShape;

/// Column of the key.
pub(crate) const KEY: &str = "y_id";

/// Returns `CREATE KEYSPACE IF NOT EXISTS`.
pub(crate) fn create_keyspace(keyspace: &str, replication_factor: usize) -> String {
    format!(
        "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
         {{'class': 'SimpleStrategy', 'replication_factor': {replication_factor}}}"
    )
}

/// Returns `DROP TABLE IF EXISTS`.
pub(crate) fn drop_table(keyspace: &str, shape: &TableShape) -> String {
    format!("DROP TABLE IF EXISTS {keyspace}.{}", shape.table)
}

/// Returns `CREATE TABLE IF NOT EXISTS`; `options` follows WITH, or is empty.
pub(crate) fn create_table(keyspace: &str, shape: &TableShape, options: &str) -> String {
    let columns: Vec<String> = shape.field_names.iter().map(|name| format!("{name} varchar")).collect();
    let with = if options.is_empty() { String::new() } else { format!(" WITH {options}") };
    format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.{} ({KEY} varchar PRIMARY KEY, {}){with}",
        shape.table,
        columns.join(", ")
    )
}

/// A statement for all fields, and one for each single field.
#[derive(Debug, Clone)]
pub(crate) struct PerField<S> {
    pub all: S,
    pub one: Vec<S>,
}

impl<S> PerField<S> {
    /// Returns the statement for one field, or for all.
    pub fn of(&self, field: Option<usize>) -> &S {
        field.and_then(|field| self.one.get(field)).unwrap_or(&self.all)
    }
}

/// The statements of the workloads, in an engine's prepared form `S`.
#[derive(Debug, Clone)]
pub(crate) struct Statements<S> {
    /// Binds the key, then all fields in order.
    pub insert: S,
    /// Binds the fields, then the key.
    pub update: PerField<S>,
    /// Binds the key; returns the key and the fields in order.
    pub read: PerField<S>,
    /// Binds the key and the number of rows; returns the key and the fields in order.
    pub scan: PerField<S>,
}

impl<S> Statements<S> {
    /// Prepares each statement with `prepare`.
    pub fn prepare<E>(
        keyspace: &str,
        shape: &TableShape,
        mut prepare: impl FnMut(&str) -> Result<S, E>,
    ) -> Result<Self, E> {
        let table = format!("{keyspace}.{}", shape.table);
        let fields = &shape.field_names;
        let markers = vec!["?"; fields.len() + 1].join(", ");
        let insert =
            prepare(&format!("INSERT INTO {table} ({KEY}, {}) VALUES ({markers})", fields.join(", ")))?;
        let mut per_field = |query: &dyn Fn(&[String]) -> String| {
            Ok::<_, E>(PerField {
                all: prepare(&query(fields))?,
                one: fields.chunks(1).map(|field| prepare(&query(field))).collect::<Result<_, _>>()?,
            })
        };
        let update = per_field(&|fields| {
            let assignments: Vec<String> = fields.iter().map(|name| format!("{name} = ?")).collect();
            format!("UPDATE {table} SET {} WHERE {KEY} = ?", assignments.join(", "))
        })?;
        // Columns by name, so that their order is known.
        let select = |fields: &[String]| format!("SELECT {KEY}, {} FROM {table}", fields.join(", "));
        let read = per_field(&|fields| format!("{} WHERE {KEY} = ? LIMIT 1", select(fields)))?;
        let scan = per_field(&|fields| format!("{} WHERE token({KEY}) >= token(?) LIMIT ?", select(fields)))?;
        Ok(Self { insert, update, read, scan })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_their_columns_in_order() {
        let shape = TableShape {
            table: "usertable".into(),
            field_names: vec!["f0".into(), "f1".into()],
            statements: None,
        };
        let statements = Statements::prepare("ycsb", &shape, |cql| Ok::<_, ()>(cql.to_string())).unwrap();
        assert_eq!(statements.insert, "INSERT INTO ycsb.usertable (y_id, f0, f1) VALUES (?, ?, ?)");
        assert_eq!(statements.update.of(Some(1)), "UPDATE ycsb.usertable SET f1 = ? WHERE y_id = ?");
        assert_eq!(statements.update.of(None), "UPDATE ycsb.usertable SET f0 = ?, f1 = ? WHERE y_id = ?");
        assert_eq!(
            statements.read.of(None),
            "SELECT y_id, f0, f1 FROM ycsb.usertable WHERE y_id = ? LIMIT 1"
        );
        assert_eq!(
            statements.scan.of(Some(0)),
            "SELECT y_id, f0 FROM ycsb.usertable WHERE token(y_id) >= token(?) LIMIT ?"
        );
        assert_eq!(
            create_table("ycsb", &shape, "compression = {'enabled': false}"),
            "CREATE TABLE IF NOT EXISTS ycsb.usertable (y_id varchar PRIMARY KEY, f0 varchar, f1 varchar) \
             WITH compression = {'enabled': false}"
        );
    }
}
