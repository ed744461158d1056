//! Tombstones are kept at the target until all SSTables of their tables have arrived.
//!
//! A node drops a tombstone at a compaction when `gc_grace_seconds` have passed since the deletion,
//! and no other SSTable of the node has older data of the partition. The SSTable with that data may
//! still be on its way: deleted data would come back. So the move raises `gc_grace_seconds`, and
//! sets it back at its end. The value is durable in the progress file before it is changed.

use cassette_rows::types::quote_identifier;

use super::progress::{Grace, Progress};
use super::transfers::SourceTable;
use crate::endpoint::Session;
use crate::error::Result;
use crate::event::Observer;
use crate::plan::execute;

/// Beyond the age of any tombstone.
const RAISED: i32 = i32::MAX;

/// Raises `gc_grace_seconds` of tables whose SSTables may delete each other's data.
pub fn raise<'t>(
    source: &mut Session<'_>,
    target: &mut Session<'_>,
    tables: impl Iterator<Item = &'t SourceTable<'t>>,
    progress: &Progress,
    observer: &dyn Observer,
) -> Result<()> {
    for of in tables.filter(|of| of.may_delete_across_sstables()) {
        let (keyspace, table) = (&of.table.keyspace, &of.table.name);
        let recorded = progress.grace(keyspace, table);
        let mut seconds = seconds_of(target, keyspace, table)?;
        if seconds == Some(RAISED) {
            if recorded.is_some() {
                continue;
            }
            // Another run has raised it, and its progress file is gone.
            seconds = seconds_of(source, keyspace, table)?;
        }
        let Some(seconds) = seconds else { continue };
        if recorded != Some(seconds) {
            progress.record_grace(Grace { keyspace: keyspace.clone(), table: table.clone(), seconds })?;
        }
        execute(target, &[alter(keyspace, table, RAISED)], observer)?;
    }
    Ok(())
}

/// Sets all raised values back.
pub fn restore(target: &mut Session<'_>, progress: &Progress, observer: &dyn Observer) -> Result<()> {
    for (keyspace, table) in progress.raised() {
        let recorded = progress.grace(&keyspace, &table);
        if let (Some(seconds), Some(RAISED)) = (recorded, seconds_of(target, &keyspace, &table)?) {
            execute(target, &[alter(&keyspace, &table, seconds)], observer)?;
        }
    }
    Ok(())
}

fn alter(keyspace: &str, table: &str, seconds: i32) -> String {
    let (keyspace, table) = (quote_identifier(keyspace), quote_identifier(table));
    format!("ALTER TABLE {keyspace}.{table} WITH gc_grace_seconds = {seconds}")
}

/// Returns the option of a table; `None` if the table does not exist.
fn seconds_of(session: &mut Session<'_>, keyspace: &str, table: &str) -> Result<Option<i32>> {
    let quoted = |name: &str| name.replace('\'', "''");
    let page = session.query(&format!(
        "SELECT gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = '{}' AND table_name = '{}'",
        quoted(keyspace),
        quoted(table)
    ))?;
    let cell = page.get(0, "gc_grace_seconds");
    Ok(cell.and_then(|value| value.as_ref().try_into().ok()).map(i32::from_be_bytes))
}
