//! Reads the system tables that record which indexes and views are built.

use std::collections::HashMap;

use cassette_engine::{Engine, KeyRange};
use cassette_rows::{Selection, StorageError, Unfiltered};

use crate::basics::error::{DatabaseError, Result};
use crate::schema::catalog::Catalog;
use crate::schema::system::SYSTEM;
use crate::schema::system::encode::StoredRow;

/// Returns what `note` reads from each live row of table `name` of keyspace `system`, by the
/// keyspace and name of the index or view. Rows for which it returns `None` are skipped.
pub(crate) fn read<T>(
    engine: &Engine,
    catalog: &Catalog,
    name: &str,
    now: u32,
    note: impl Fn(&StoredRow<'_>) -> Option<T>,
) -> Result<HashMap<(String, String), T>> {
    let mut notes = HashMap::new();
    let Some(table) = catalog.table(SYSTEM, name) else { return Ok(notes) };
    let attempted = format!("cannot read {SYSTEM}.{name}");
    let failed = |error: StorageError| DatabaseError::storage_after(&attempted, error);
    let scanned = engine.scan(table.id, &KeyRange::ALL, &Selection::all());
    let mut stream = scanned.map_err(|error| DatabaseError::storage_after(&attempted, error))?;
    while let Some(header) = stream.next_partition().map_err(failed)? {
        let keyspace = String::from_utf8_lossy(header.key.key()).into_owned();
        while let Some(next) = stream.next_unfiltered().map_err(failed)? {
            let Unfiltered::Row(row) = next else { continue };
            let stored = StoredRow { table, row: &row, now };
            if let (Some(name), Some(note), true) =
                (stored.clustering_text(0), note(&stored), row.is_live(now))
            {
                notes.insert((keyspace.clone(), name.to_owned()), note);
            }
        }
    }
    Ok(notes)
}
