//! `system.compaction_history`: the compactions of the last week.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use cassette_engine::{CompletedCompaction, Mutation};
use cassette_rows::{Clustering, DecoratedKey, PartitionUpdate, TableMetadata};
use uuid::Uuid;

use crate::api::database::Database;
use crate::basics::error::Result;
use crate::schema::system::encode::Value;
use crate::schema::system::expiring_row::ExpiringRow;
use crate::schema::system::{COMPACTION_HISTORY as TABLE, SYSTEM};
use crate::store::Store;

/// A completed compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionRecord {
    /// The id, a version 1 UUID.
    pub id: Uuid,
    /// Keyspace of the table.
    pub keyspace: String,
    /// Name of the table.
    pub table: String,
    /// The time of completion, milliseconds since 1970.
    pub compacted_at: i64,
    /// Compressed bytes of Data that were read.
    pub bytes_in: i64,
    /// Compressed bytes of Data that were written.
    pub bytes_out: i64,
    /// The number of partitions that were merged, by number of SSTables.
    pub rows_merged: BTreeMap<i32, i64>,
    /// `compaction_type`.
    pub properties: BTreeMap<String, String>,
}

/// Starts recording completed compactions, in the threads that execute them. Compactions of this
/// table itself are not recorded, since each record would lead to another.
pub(crate) fn note_compactions(store: &Store) {
    let catalog = store.catalog();
    let Some(table) = catalog.table(SYSTEM, TABLE).cloned() else { return };
    store.engine().note_compactions(move |done| {
        let is_of_notes = done.keyspace == SYSTEM && done.name == TABLE;
        (!is_of_notes).then(|| note(&table, done))
    });
}

fn note(table: &Arc<TableMetadata>, done: &CompletedCompaction) -> Mutation {
    let timestamp = done.compacted_at.saturating_mul(1000);
    let ttl = table.params.default_time_to_live;
    let mut row = ExpiringRow::new(table, Clustering::empty(), timestamp, ttl);
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    row.put("bytes_in", number(done.bytes_in).into());
    row.put("bytes_out", number(done.bytes_out).into());
    row.put("columnfamily_name", done.name.as_str().into());
    row.put("compacted_at", done.compacted_at.into());
    row.put("keyspace_name", done.keyspace.as_str().into());
    let properties = BTreeMap::from([("compaction_type".to_owned(), done.kind.label().to_owned())]);
    row.put("compaction_properties", Value::from(&properties));
    let merged = done.rows_merged.iter();
    row.put_map(
        "rows_merged",
        merged.map(|(sstables, partitions)| {
            (sstables.to_be_bytes().to_vec(), number(*partitions).to_be_bytes().to_vec())
        }),
    );
    let mut update = PartitionUpdate::new(DecoratedKey::new(Bytes::copy_from_slice(done.id.as_bytes())));
    update.add_row(row.finish(), table);
    Mutation { table: table.clone(), update }
}

impl Database {
    /// Returns the compactions completed in the last week, the latest first.
    #[doc(hidden)]
    pub fn compaction_history(&self) -> Result<Vec<CompactionRecord>> {
        let cql = "SELECT id, keyspace_name, columnfamily_name, compacted_at, bytes_in, bytes_out, rows_merged, \
                   compaction_properties FROM system.compaction_history";
        let rows = self.session().execute(cql, ())?;
        let mut found = Vec::with_capacity(rows.len());
        for row in rows.iter() {
            let at: Option<SystemTime> = row.get(3)?;
            let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
            found.push(CompactionRecord {
                id: row.get(0)?,
                keyspace: row.get::<Option<String>>(1)?.unwrap_or_default(),
                table: row.get::<Option<String>>(2)?.unwrap_or_default(),
                compacted_at: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
                bytes_in: row.get::<Option<i64>>(4)?.unwrap_or_default(),
                bytes_out: row.get::<Option<i64>>(5)?.unwrap_or_default(),
                rows_merged: row.get::<Option<_>>(6)?.unwrap_or_default(),
                properties: row.get::<Option<_>>(7)?.unwrap_or_default(),
            });
        }
        found.sort_by_key(|record| std::cmp::Reverse(record.compacted_at));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compactions_are_remembered_over_restarts() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path()).unwrap();
        let session = database.session();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        ] {
            session.execute(cql, ()).unwrap();
        }
        let table = database.catalog().table("ks", "t").unwrap().id;
        for v in 0..2 {
            session.execute("INSERT INTO ks.t (k, v) VALUES (1, ?)", (v,)).unwrap();
            database.engine().flush(Some(table)).unwrap();
        }
        database.engine().compact(table).unwrap();
        let history = database.compaction_history().unwrap();
        let of_table: Vec<_> = history.iter().filter(|record| record.table == "t").collect();
        let [record] = &of_table[..] else { panic!("{history:?}") };
        assert_eq!(record.rows_merged, BTreeMap::from([(2, 1)]));
        assert_eq!(record.properties["compaction_type"], "Major compaction");
        assert!(record.bytes_in > record.bytes_out && record.bytes_out > 0 && record.compacted_at > 0);
        let ttl = session.execute("SELECT ttl(bytes_in) FROM system.compaction_history", ()).unwrap();
        let ttl: i32 = ttl.first().unwrap().get(0).unwrap();
        assert!(ttl > 6 * 24 * 3600, "{ttl}");
        let notes = database.catalog().table("system", "compaction_history").unwrap().id;
        database.engine().flush(Some(notes)).unwrap();
        database.engine().compact(notes).unwrap();
        assert_eq!(database.compaction_history().unwrap(), history);
        drop(session);
        database.close().unwrap();
        let database = Database::open(directory.path()).unwrap();
        assert!(database.compaction_history().unwrap().contains(record));
    }
}
