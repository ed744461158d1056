//! `system_testing.cassette_faults`: the rules of injected faults, with how often they matched.

use std::sync::Arc;

use cassette_engine::Mutation;
use cassette_rows::{PartitionUpdate, Row, TableMetadata};

use super::VirtualTable;
use crate::basics::error::{Result, bail_invalid};
use crate::schema::system::encode::{StoredRow, Value, row_update, text_key};
use crate::schema::testing::FAULTS_TABLE;
use crate::store::Store;
use crate::store::faults::{FAULT_COLUMNS, FaultColumnType, FaultCounts, FaultRule, FaultValue, Faults};

/// The columns that show how often a rule matched.
const COUNTS: [&str; 2] = ["matched", "injected"];

/// `system_testing.cassette_faults`
#[derive(Debug)]
pub(super) struct FaultRules;

impl FaultRules {
    /// Returns its CREATE TABLE and its comment.
    pub fn definition() -> (String, &'static str) {
        let own = FAULT_COLUMNS.iter().map(|(name, column_type)| format!("{name} {}", column_type.name()));
        let counts = COUNTS.iter().map(|name| format!("{name} bigint"));
        let columns: Vec<String> = own.chain(counts).collect();
        let cql = format!("CREATE TABLE {FAULTS_TABLE} (id text PRIMARY KEY, {})", columns.join(", "));
        (cql, "rules of injected faults")
    }
}

impl VirtualTable for FaultRules {
    fn partitions(&self, table: &Arc<TableMetadata>, store: &Store) -> Vec<PartitionUpdate> {
        let Some(faults) = store.faults() else { return Vec::new() };
        let partition = |(rule, FaultCounts { matched, injected }): (FaultRule, FaultCounts)| {
            let mut values: Vec<(&str, Value)> = rule
                .values()
                .into_iter()
                .map(|(name, value)| {
                    let value = match value {
                        FaultValue::Text(text) => Value::from(text.as_str()),
                        FaultValue::Int(value) => value.into(),
                        FaultValue::Double(value) => value.into(),
                        FaultValue::Boolean(value) => value.into(),
                    };
                    (name, value)
                })
                .collect();
            for (name, count) in COUNTS.into_iter().zip([matched, injected]) {
                values.push((name, i64::try_from(count).unwrap_or(i64::MAX).into()));
            }
            let mut partition = PartitionUpdate::new(text_key(&rule.id));
            partition.add_row(row_update(table, &[], &values, 1), table);
            partition
        };
        faults.list().into_iter().map(partition).collect()
    }
}

/// Applies changes of the table.
///
/// # Errors
/// Invalid, for values that a rule cannot have, and if faults cannot be injected.
pub(super) fn apply(mutations: &[Mutation], store: &Store) -> Result<()> {
    let faults = required(store)?;
    for Mutation { table, update } in mutations {
        let Ok(id) = std::str::from_utf8(update.key.key()) else { bail_invalid!("id: expected text") };
        if !update.deletion.is_live() {
            faults.remove(id);
        }
        for row in &update.rows {
            if !row.deletion().is_live() {
                faults.remove(id);
            } else {
                faults.change(id, changes(table, row)?)?;
            }
        }
    }
    Ok(())
}

/// Removes all rules.
///
/// # Errors
/// Invalid, if faults cannot be injected.
pub(super) fn truncate(store: &Store) -> Result<()> {
    required(store).map(Faults::clear)
}

fn required(store: &Store) -> Result<&Faults> {
    match store.faults() {
        Some(faults) => Ok(faults),
        None => bail_invalid!("faults cannot be injected: start the server with --fault-injection"),
    }
}

/// Returns the columns that a row sets or removes.
fn changes(table: &TableMetadata, row: &Row) -> Result<Vec<(String, Option<FaultValue>)>> {
    let stored = StoredRow { table, row, now: 0 };
    for name in COUNTS {
        if table.column(name).is_some_and(|column| row.cell(column.id).is_some()) {
            bail_invalid!("{name} cannot be changed: it is zero after each change of a rule");
        }
    }
    let mut changes = Vec::new();
    for (name, column_type) in FAULT_COLUMNS {
        if table.column(name).is_none_or(|column| row.cell(column.id).is_none()) {
            continue;
        }
        let value = match column_type {
            FaultColumnType::Text => stored.text(name).map(|text| FaultValue::Text(text.to_owned())),
            FaultColumnType::Int => stored.int(name).map(FaultValue::Int),
            FaultColumnType::Double => stored.double(name).map(FaultValue::Double),
            FaultColumnType::Boolean => stored.boolean(name).map(FaultValue::Boolean),
        };
        changes.push(((*name).to_owned(), value));
    }
    Ok(changes)
}
