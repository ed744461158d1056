//! `system.prepared_statements`: the statements that clients prepared, which the next start
//! prepares again, so that clients can continue to use their ids.

use std::sync::Arc;

use bytes::Bytes;
use cassette_engine::Mutation;
use cassette_rows::{DecoratedKey, DeletionTime, PartitionUpdate, TableMetadata};

use crate::api::database::Database;
use crate::api::prepared::{Prepared, StatementId};
use crate::basics::error::{DatabaseError, Result};
use crate::schema::system::encode::{self, seconds};
use crate::schema::system::{PREPARED_STATEMENTS as TABLE, SYSTEM};

impl Database {
    /// Prepares the statements that clients had prepared before the last stop, and keeps those of
    /// [`prepare_and_keep`](Self::prepare_and_keep) from now on. Statements that can no longer be
    /// prepared are forgotten. Returns the number of prepared ones.
    #[doc(hidden)]
    pub fn prepare_kept_statements(&self) -> Result<usize> {
        self.prepared_cache().keep();
        let cql = "SELECT prepared_id, logged_keyspace, query_string FROM system.prepared_statements";
        let rows = self.session().execute(cql, ())?;
        let mut obsolete = Vec::new();
        let mut count = 0;
        for row in rows.iter() {
            let id: Vec<u8> = row.get(0)?;
            let keyspace: Option<String> = row.get(1)?;
            let cql: Option<String> = row.get(2)?;
            let prepared = cql.map(|cql| self.prepare(keyspace.as_deref(), &cql));
            match prepared {
                Some(Ok(prepared)) if prepared.id()[..] == id[..] => {
                    prepared.begin_keeping();
                    count += 1;
                }
                _ => obsolete.push(id),
            }
        }
        self.write_kept(None, obsolete.iter().map(Vec::as_slice));
        Ok(count)
    }

    /// Prepares a statement for a client, and stores its text, so that its id remains valid after a
    /// restart. Statements on roles, whose texts contain passwords, are not stored.
    #[doc(hidden)]
    pub fn prepare_and_keep(&self, keyspace: Option<&str>, cql: &str) -> Result<Arc<Prepared>> {
        let prepared = self.prepare(keyspace, cql)?;
        if prepared.begin_keeping() {
            let forgotten = self.prepared_cache().take_forgotten();
            self.write_kept(Some(&prepared), forgotten.iter().map(StatementId::as_slice));
        }
        Ok(prepared)
    }

    /// Stores a statement, and removes others. A failure is logged: the statement can be executed.
    fn write_kept<'i>(&self, kept: Option<&Prepared>, forgotten: impl Iterator<Item = &'i [u8]>) {
        let catalog = self.catalog();
        let Some(table) = catalog.table(SYSTEM, TABLE) else { return };
        let store = self.store();
        let written = store.next_timestamp(store.clock().now_micros()).and_then(|timestamp| {
            let mut mutations: Vec<Mutation> = forgotten.map(|id| deletion(table, id, timestamp)).collect();
            mutations.extend(kept.map(|prepared| row(table, prepared, timestamp)));
            if mutations.is_empty() || self.check_writable().is_err() {
                return Ok(());
            }
            store.engine().apply(&mutations).map_err(DatabaseError::storage)
        });
        if let Err(error) = written {
            tracing::warn!(%error, "cannot store a prepared statement for the next start");
        }
    }
}

fn row(table: &Arc<TableMetadata>, prepared: &Prepared, timestamp: i64) -> Mutation {
    let mut values = vec![("query_string", prepared.cql().into())];
    if let Some(keyspace) = prepared.keyspace() {
        values.push(("logged_keyspace", keyspace.into()));
    }
    let mut update = PartitionUpdate::new(key(&prepared.id()));
    update.add_row(encode::row(table, &[], &values, timestamp), table);
    Mutation { table: table.clone(), update }
}

fn deletion(table: &Arc<TableMetadata>, id: &[u8], timestamp: i64) -> Mutation {
    let mut update = PartitionUpdate::new(key(id));
    // A statement that is prepared again has a row with the same timestamp, which a deletion of
    // that timestamp would end.
    update.deletion = DeletionTime::new(timestamp - 1, seconds(timestamp));
    Mutation { table: table.clone(), update }
}

fn key(id: &[u8]) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(database: &Database) -> Vec<(Option<String>, String)> {
        let cql = "SELECT logged_keyspace, query_string FROM system.prepared_statements";
        let rows = database.session().execute(cql, ()).unwrap();
        let mut kept: Vec<_> = rows.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect();
        kept.sort();
        kept
    }

    fn with_table(database: &Database) {
        let session = database.session();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        ] {
            session.execute(cql, ()).unwrap();
        }
    }

    #[test]
    fn statements_of_clients_stay_prepared_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let (read, write) = ("SELECT * FROM t WHERE k = ?", "INSERT INTO ks.t (k, v) VALUES (?, ?)");
        let (read_id, write_id) = {
            let database = Database::open(directory.path()).unwrap();
            with_table(&database);
            assert_eq!(database.prepare_kept_statements().unwrap(), 0);
            let read = database.prepare_and_keep(Some("ks"), read).unwrap().id();
            database.prepare(None, "SELECT v FROM ks.t").unwrap();
            database.prepare_and_keep(None, "ALTER ROLE x WITH PASSWORD = 'secret'").unwrap();
            (read, database.prepare_and_keep(Some("ks"), write).unwrap().id())
        };
        let database = Database::open(directory.path()).unwrap();
        assert!(database.resolve(&read_id).is_err());
        assert_eq!(database.prepare_kept_statements().unwrap(), 2);
        assert_eq!(kept(&database), [(None, write.to_owned()), (Some("ks".to_owned()), read.to_owned())]);
        database.resolve(&read_id).unwrap();
        database.resolve(&write_id).unwrap();
        database.session().execute("DROP TABLE ks.t", ()).unwrap();
        drop(database);
        let database = Database::open(directory.path()).unwrap();
        assert_eq!(database.prepare_kept_statements().unwrap(), 0);
        assert_eq!(kept(&database), []);
    }

    #[test]
    fn a_statement_of_an_altered_table_is_prepared_again_and_stays_kept() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path()).unwrap();
        with_table(&database);
        database.prepare_kept_statements().unwrap();
        let cql = "SELECT * FROM ks.t";
        let prepared = database.prepare_and_keep(None, cql).unwrap();
        let alter = |cql: &str| database.session().execute(cql, ()).unwrap();
        alter("ALTER TABLE ks.t WITH comment = 'unrelated'");
        database.resolve(&prepared.id()).unwrap();
        for change in ["ALTER TABLE ks.t ADD w int", "CREATE INDEX ON ks.t (v)", "DROP INDEX ks.t_v_idx"] {
            alter(change);
            assert!(database.resolve(&prepared.id()).is_err(), "{change}");
            let again = database.prepare_and_keep(None, cql).unwrap();
            assert_eq!(again.id(), prepared.id());
            database.resolve(&prepared.id()).unwrap();
            assert_eq!(kept(&database).len(), 1);
        }
        alter("DROP TABLE ks.t");
        assert!(database.resolve(&prepared.id()).is_err());
        assert!(database.prepare_and_keep(None, cql).is_err());
        database.prepare_and_keep(None, "SELECT key FROM system.local").unwrap();
        assert_eq!(kept(&database), [(None, "SELECT key FROM system.local".to_owned())]);
        alter("CREATE TABLE ks.t (k int PRIMARY KEY, a int, b int)");
        // Clients of protocol v4 may know the columns of the dropped table.
        assert!(database.prepare_and_keep(None, cql).unwrap().result_has_changed());
        // A program that holds the statement goes on.
        let columns = prepared.planned(&database.catalog()).unwrap().result.as_ref().unwrap().columns.len();
        assert_eq!(columns, 3);
    }

    #[test]
    fn evicted_statements_are_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let options = crate::Options {
            prepared_statements_cache_size: 64 << 10,
            ..crate::Options::new(directory.path())
        };
        let database = Database::open(options).unwrap();
        with_table(&database);
        database.prepare_kept_statements().unwrap();
        for n in 0..300 {
            database.prepare_and_keep(None, &format!("SELECT v FROM ks.t WHERE k = {n}")).unwrap();
        }
        let cached = database.prepared_statements().count;
        // The last eviction is stored with the next statement.
        assert!(kept(&database).len() as u64 <= cached + 2, "{} of {cached}", kept(&database).len());
    }
}
