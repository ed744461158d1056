//! Columns that were dropped at the source. Its SSTables may still contain their cells: the target
//! must know the columns as dropped, too.

use cassette_rows::types::quote_identifier;
use cassette_sstable::SSTableReader;

use super::transfers::SourceTable;
use crate::endpoint::Session;
use crate::error::{Result, unsuitable};
use crate::schema::{Keyspace, Kind, Table};

/// A dropped column.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Dropped {
    table: String,
    name: String,
    is_static: bool,
    cql_type: String,
    /// Its cells up to this time are dropped.
    micros: i64,
}

/// Returns statements that make the columns of all SSTables known at the target. Execute them when
/// all tables exist there, and before it has data of tables that the move creates.
///
/// # Errors
/// If a table of the target has data, or a column, so that this cannot be done.
pub fn statements(
    source: &mut Session<'_>,
    target: &mut Session<'_>,
    keyspaces: &[(&Keyspace, Option<Keyspace>)],
    tables: &[SourceTable<'_>],
) -> Result<Vec<String>> {
    let mut statements = Vec::new();
    for (keyspace, existing) in keyspaces {
        let here = dropped(source, &keyspace.name)?;
        let there = if existing.is_some() { dropped(target, &keyspace.name)? } else { Vec::new() };
        for of in tables.iter().filter(|of| of.table.keyspace == keyspace.name) {
            let found =
                existing.iter().flat_map(|found| &found.tables).find(|found| found.name == of.table.name);
            let is_masked = |column: &str| keyspace.masked.contains(&format!("{}.{column}", of.table.name));
            let is_of_table = |dropped: &&Dropped| dropped.table == of.table.name;
            for column in here.iter().filter(is_of_table) {
                let known = there.iter().filter(is_of_table).any(|other| {
                    other.name == column.name
                        && other.is_static == column.is_static
                        && other.micros >= column.micros
                });
                if known || !of.readers.iter().any(|reader| has_cells(reader, of.table, column)) {
                    continue;
                }
                let is_empty = match found {
                    None => true,
                    Some(found) => crate::plan::is_empty(target, found)?,
                };
                add(&mut statements, of.table, found, column, is_empty, is_masked(&column.name))?;
            }
        }
    }
    Ok(statements)
}

/// Returns whether an SSTable may contain cells that are dropped.
fn has_cells(reader: &SSTableReader, table: &Table, dropped: &Dropped) -> bool {
    let header = reader.header();
    let columns = if dropped.is_static { &header.static_columns } else { &header.regular_columns };
    columns.iter().any(|column| column.name == dropped.name)
        && (!has_column(table, dropped) || reader.stats().min_timestamp <= dropped.micros)
}

/// Returns whether a table has a column of this name, again or still.
fn has_column(table: &Table, dropped: &Dropped) -> bool {
    let kind = if dropped.is_static { Kind::Static } else { Kind::Regular };
    table.columns.iter().any(|column| column.name == dropped.name && column.kind == kind)
}

fn add(
    statements: &mut Vec<String>,
    table: &Table,
    found: Option<&Table>,
    dropped: &Dropped,
    is_empty: bool,
    is_masked: bool,
) -> Result<()> {
    let (name, column) = (table.quoted(), quote_identifier(&dropped.name));
    let suffix = if dropped.is_static { " static" } else { "" };
    let add = format!("ALTER TABLE {name} ADD {column} {}{suffix}", dropped.cql_type);
    let drop = format!("ALTER TABLE {name} DROP {column} USING TIMESTAMP {}", dropped.micros);
    if !has_column(table, dropped) {
        if found.is_some_and(|found| has_column(found, dropped)) {
            return unsuitable(format!(
                "column {column} of {name} was dropped at the source, and exists at the target: execute {drop} \
                 there, or move other keyspaces"
            ));
        }
        statements.extend([add, drop]);
        return Ok(());
    }
    // Dropped, and added again: its older cells must stay invisible.
    if !is_empty || is_masked {
        return unsuitable(format!(
            "column {column} of {name} was dropped and added again at the source, where its older cells still \
             are in SSTables: execute `cassette nodetool compact {} {}` there, start with an empty table at the \
             target, or use --by rows",
            table.keyspace, table.name
        ));
    }
    statements.extend([drop, add]);
    Ok(())
}

fn dropped(session: &mut Session<'_>, keyspace: &str) -> Result<Vec<Dropped>> {
    let page = session.query(&format!(
        "SELECT table_name, column_name, kind, type, dropped_time FROM system_schema.dropped_columns WHERE \
         keyspace_name = '{}'",
        keyspace.replace('\'', "''")
    ))?;
    let row = |row: usize| {
        let millis: i64 = page.get(row, "dropped_time")?.as_ref().try_into().ok().map(i64::from_be_bytes)?;
        Some(Dropped {
            table: page.text(row, 0)?,
            name: page.text(row, 1)?,
            is_static: page.text(row, 2)? == "static",
            cql_type: page.text(row, 3)?,
            micros: millis.saturating_mul(1000),
        })
    };
    Ok((0..page.rows.len()).filter_map(row).collect())
}

/// Checks that the target knows all columns of an SSTable.
///
/// # Errors
/// Names the first column that it does not know.
pub fn check(table: &Table, reader: &SSTableReader, dropped_there: &[(String, bool)]) -> Result<()> {
    let header = reader.header();
    for (columns, kind) in [(&header.static_columns, Kind::Static), (&header.regular_columns, Kind::Regular)]
    {
        for column in columns {
            let is_present =
                table.columns.iter().any(|found| found.name == column.name && found.kind == kind);
            let is_static = kind == Kind::Static;
            let is_dropped =
                dropped_there.iter().any(|(name, of_static)| *name == column.name && *of_static == is_static);
            if !is_present && !is_dropped {
                return unsuitable(format!(
                    "SSTable {} has cells of column {}, which {} lacks at the target: add it there, and drop it \
                     again if it was dropped here",
                    reader.descriptor(),
                    column.name,
                    table.quoted()
                ));
            }
        }
    }
    Ok(())
}

/// Returns the dropped columns of a table: their names, and whether they were static.
pub fn dropped_of(session: &mut Session<'_>, table: &Table) -> Result<Vec<(String, bool)>> {
    let found = dropped(session, &table.keyspace)?.into_iter().filter(|dropped| dropped.table == table.name);
    Ok(found.map(|dropped| (dropped.name, dropped.is_static)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, Shape};

    fn table(columns: &[&str]) -> Table {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            kind: Kind::Regular,
            position: -1,
            cql_type: "int".into(),
            order: "none".into(),
            shape: Shape::Simple,
        };
        Table {
            keyspace: "ks".into(),
            name: "T".into(),
            id: "1".into(),
            columns: columns.iter().map(column).collect(),
            is_counter: false,
            layout: cassette_rows::Layout::Cql,
            cdc: false,
            gc_grace_seconds: 864_000,
        }
    }

    fn added(here: &Table, there: Option<&Table>, is_empty: bool, is_masked: bool) -> Result<Vec<String>> {
        let dropped = Dropped {
            table: "T".into(),
            name: "V".into(),
            is_static: false,
            cql_type: "set<int>".into(),
            micros: 5_000,
        };
        let mut statements = Vec::new();
        add(&mut statements, here, there, &dropped, is_empty, is_masked).map(|()| statements)
    }

    #[test]
    fn dropped_columns_are_added_and_dropped_with_their_time() {
        let add = "ALTER TABLE ks.\"T\" ADD \"V\" set<int>";
        let drop = "ALTER TABLE ks.\"T\" DROP \"V\" USING TIMESTAMP 5000";
        let (without, with) = (table(&["a"]), table(&["a", "V"]));
        assert_eq!(added(&without, None, true, false).unwrap(), [add, drop]);
        assert_eq!(added(&without, Some(&without), false, false).unwrap(), [add, drop]);
        let error = added(&without, Some(&with), true, false).unwrap_err().to_string();
        assert!(error.contains("exists at the target") && error.contains(drop), "{error}");
        // Dropped and added again.
        assert_eq!(added(&with, Some(&with), true, false).unwrap(), [drop, add]);
        for (is_empty, is_masked) in [(false, false), (true, true)] {
            let error = added(&with, Some(&with), is_empty, is_masked).unwrap_err().to_string();
            assert!(error.contains("nodetool compact ks T"), "{error}");
        }
    }
}
