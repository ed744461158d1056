//! The comparison after each start: the schema, every row by every read path, and the writes that a
//! crash may have lost.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Model, WriteId};
use crate::schema::{Column, Kind, Row};
use crate::simulation::Simulation;
use crate::value::{Type, Val};
use crate::wire::Cql;

/// The keyspaces, the number of fields of each one's type `pair`, and the tables by
/// `keyspace.table`.
type Schema = (BTreeSet<String>, BTreeMap<String, u8>, BTreeMap<String, Definition>);

/// Maximum number of comparisons until the guesses for open writes explain all partitions.
const GUESSES_MAX: usize = 8;

/// The columns of a table with their types, its indexes and its views.
type Definition = (BTreeMap<String, String>, BTreeSet<String>, BTreeSet<String>);

impl Simulation {
    /// Compares the schema. Resolves a schema change whose outcome was unknown.
    pub(crate) fn settle_schema(&mut self) -> Result<(), String> {
        let Some(seen) = self.schema_seen()? else {
            return if self.node.is_failing() { Ok(()) } else { Err("the schema cannot be read".into()) };
        };
        if let Some(after) = self.in_doubt.take() {
            let same = defined(&after) == defined(&self.model);
            if !same && defined(&after) == seen {
                self.note("   the schema change was applied".to_owned());
                self.model.keyspaces = after.keyspaces;
                self.model.types = after.types;
                self.model.tables = after.tables;
                return Ok(());
            }
        }
        let expected = defined(&self.model);
        if seen == expected { Ok(()) } else { Err(format!("the schema is {seen:?}, expected {expected:?}")) }
    }

    fn schema_seen(&mut self) -> Result<Option<Schema>, String> {
        let text = |name: &str| Column { name: name.into(), kind: Kind::Regular, data_type: Type::Text };
        let mut keyspaces = BTreeSet::new();
        let mut types = BTreeMap::new();
        let mut found: BTreeMap<String, Definition> = BTreeMap::new();
        for keyspace in ["ks0", "ks1"] {
            let mut query = |columns: &[&str], table: &str| -> Result<Option<Vec<Vec<String>>>, String> {
                let cql = format!(
                    "SELECT {} FROM system_schema.{table} WHERE keyspace_name = '{keyspace}'",
                    columns.join(", ")
                );
                let columns: Vec<Column> = columns.iter().map(|name| text(name)).collect();
                let Some(rows) = self.select(&Cql::plain(cql), &columns)? else { return Ok(None) };
                let cell = |cell: Option<Val>| match cell {
                    Some(Val::Text(text)) => text,
                    _ => String::new(),
                };
                Ok(Some(rows.into_iter().map(|row| row.into_iter().map(cell).collect()).collect()))
            };
            let Some(rows) = query(&["keyspace_name"], "keyspaces")? else { return Ok(None) };
            for row in rows {
                keyspaces.insert(row[0].clone());
            }
            let Some(rows) = query(&["type_name", "field_types"], "types")? else { return Ok(None) };
            for row in rows {
                // An encoded list: its elements are not part of the comparison, their number is.
                let fields = row[1].matches("int").count();
                types.insert(keyspace.to_owned(), fields as u8);
            }
            let Some(rows) = query(&["table_name"], "tables")? else { return Ok(None) };
            for row in rows {
                found.entry(format!("{keyspace}.{}", row[0])).or_default();
            }
            let Some(rows) = query(&["table_name", "column_name", "type"], "columns")? else {
                return Ok(None);
            };
            for row in rows {
                if let Some(table) = found.get_mut(&format!("{keyspace}.{}", row[0])) {
                    table.0.insert(row[1].clone(), row[2].clone());
                }
            }
            let Some(rows) = query(&["table_name", "index_name"], "indexes")? else { return Ok(None) };
            for row in rows {
                let table = found.get_mut(&format!("{keyspace}.{}", row[0])).ok_or("an index of no table")?;
                table.1.insert(row[1].clone());
            }
            let Some(rows) = query(&["base_table_name", "view_name"], "views")? else { return Ok(None) };
            for row in rows {
                let table = found.get_mut(&format!("{keyspace}.{}", row[0])).ok_or("a view of no table")?;
                table.2.insert(row[1].clone());
            }
        }
        Ok(Some((keyspaces, types, found)))
    }

    /// Compares everything. `unsynced` are the acknowledged writes of which the crash may have lost
    /// a suffix.
    pub(crate) fn settle(&mut self, unsynced: &[WriteId]) -> Result<(), String> {
        let tables: Vec<String> = self.model.tables.keys().cloned().collect();
        let mut scans: Vec<(String, Vec<Row>)> = Vec::new();
        for table in &tables {
            let rows = self.scan(table)?.ok_or("a table cannot be read")?;
            scans.push((table.clone(), rows));
        }
        let mut first_error = None;
        let before = self.model.clone();
        let mut fits = Vec::new();
        for kept in (0..=unsynced.len()).rev() {
            self.model = before.clone();
            self.model.cut(unsynced, kept);
            match scans.iter().try_for_each(|(table, rows)| self.compare_scan(table, rows)) {
                Ok(()) => fits.push(kept),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        let (Some(longest), Some(shortest)) = (fits.first(), fits.last()) else {
            let error = first_error.unwrap_or_default();
            return Err(format!("after a start, {} unsynced writes: {error}", unsynced.len()));
        };
        if !unsynced.is_empty() {
            self.note(format!("   {shortest} to {longest} of {} unsynced writes survived", unsynced.len()));
        }
        self.model = before;
        self.model.cut_between(unsynced, (*shortest, *longest), self.life - 1);
        // A guess that explains one partition may contradict an earlier guess for another one.
        for _ in 0..GUESSES_MAX {
            let guessed = self.model.fates().to_vec();
            for (table, rows) in &scans {
                self.compare_scan(table, rows)?;
            }
            if self.model.fates() == guessed {
                break;
            }
        }
        for table in &tables {
            self.compare_indexes(table)?;
            self.compare_views(table)?;
        }
        Ok(())
    }
}

fn defined(model: &Model) -> Schema {
    let definition = |table: &crate::model::Table| {
        let shape = &table.shape;
        let columns = shape.columns.iter();
        let columns = columns.map(|column| (column.name.clone(), column.data_type.cql().to_owned()));
        (columns.collect(), shape.indexes.keys().cloned().collect(), shape.views.keys().cloned().collect())
    };
    let tables = model.tables.iter().map(|(name, table)| (name.clone(), definition(table)));
    (model.keyspaces.clone(), model.types.clone(), tables.collect())
}
