//! `system_testing.cassette_clock`: the clock of a database with a seed, which can be set.

use std::sync::Arc;

use cassette_engine::Mutation;
use cassette_rows::{PartitionUpdate, TableMetadata};

use super::VirtualTable;
use crate::basics::error::{Result, bail_invalid};
use crate::schema::system::encode::{StoredRow, row_update, text_key};
use crate::schema::testing::CLOCK_TABLE;
use crate::store::Store;
use crate::store::seeded::Seeded;

/// The key of the only row.
const ID: &str = "clock";

/// `system_testing.cassette_clock`
#[derive(Debug)]
pub(super) struct SeededClock;

impl SeededClock {
    /// Returns its CREATE TABLE and its comment.
    pub fn definition() -> (String, &'static str) {
        let cql = format!("CREATE TABLE {CLOCK_TABLE} (id text PRIMARY KEY, now timestamp, start timestamp)");
        (cql, "the clock of a database with a seed")
    }
}

impl VirtualTable for SeededClock {
    fn partitions(&self, table: &Arc<TableMetadata>, store: &Store) -> Vec<PartitionUpdate> {
        let Some(seeded) = store.seeded() else { return Vec::new() };
        let (now, start) = seeded.times();
        let mut partition = PartitionUpdate::new(text_key(ID));
        partition.add_row(row_update(table, &[], &[("now", now.into()), ("start", start.into())], 1), table);
        vec![partition]
    }
}

/// Sets the clock.
///
/// # Errors
/// Invalid, for changes of other columns, deletions, times out of range, and without a seed.
pub(super) fn apply(mutations: &[Mutation], store: &Store) -> Result<()> {
    let seeded = required(store)?;
    for Mutation { table, update } in mutations {
        if update.key.key() != ID.as_bytes() {
            bail_invalid!("id: expected {ID}, the only row");
        }
        let is_deletion =
            !update.deletion.is_live() || update.rows.iter().any(|row| !row.deletion().is_live());
        if is_deletion {
            bail_invalid!("the clock cannot be deleted: TRUNCATE returns it to its start");
        }
        for row in &update.rows {
            let now = StoredRow { table, row, now: 0 }.long("now");
            let Some(millis) = now.filter(|_| row.cells().len() == 1) else {
                bail_invalid!("only now can be changed: to a timestamp");
            };
            seeded.set(millis)?;
        }
    }
    Ok(())
}

/// Returns the clock to its start, and `uuid()` to its first value.
///
/// # Errors
/// Invalid, without a seed.
pub(super) fn truncate(store: &Store) -> Result<()> {
    required(store)?.reset()
}

fn required(store: &Store) -> Result<&Seeded> {
    match store.seeded() {
        Some(seeded) => Ok(seeded),
        None => bail_invalid!("there is no clock that can be set: start the server with --seed"),
    }
}
