//! Points in the commit log, for programs that follow captured changes.

use cassette_engine::commitlog::{CapturePoint, Position};
use cassette_rows::{Selection, Unfiltered};

use crate::api::database::Database;
use crate::basics::error::{DatabaseError, Result};
use crate::schema::system::SYSTEM;
use crate::schema::system::encode::text_key;

/// A point in the commit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPoint {
    /// All acknowledged writes lie before it, later ones after it. Captured changes up to here can
    /// be read from the stream of changes.
    pub position: Position,
    /// The end of the last captured change, or of the segment that it is in: a consumer that has
    /// not read up to here lacks changes.
    pub captured: Position,
    /// The number of the chain of captured segments, which their directory has, too: another one
    /// if changes have not been captured for a time.
    pub chain: u128,
    /// `cdc_block_writes`: otherwise captured changes may be removed before they are read.
    pub blocks_writes: bool,
    /// Changes whenever the schema is changed, or a captured table is truncated: the stream of
    /// changes contains neither. The same after a restart.
    pub state: String,
    /// The greatest write timestamp that the database has issued, microseconds since 1970.
    pub last_timestamp: i64,
}

impl Database {
    /// Makes all acknowledged writes durable, and the captured ones readable.
    ///
    /// # Errors
    /// `Invalid` if change data capture is disabled.
    #[doc(hidden)]
    pub fn log_point(&self) -> Result<LogPoint> {
        let engine = self.engine();
        let synced = engine.sync_captured();
        let point = synced.map_err(|error| DatabaseError::storage_in("cannot sync the commit log", error))?;
        let Some(CapturePoint { end, captured, chain }) = point else {
            return Err(DatabaseError::Invalid("change data capture is disabled (cdc_enabled)".to_owned()));
        };
        let state = format!("{}/{}", self.catalog().version(), self.last_truncation()?);
        let blocks_writes = engine.options().cdc.block_writes;
        let last_timestamp = self.store().last_timestamp();
        Ok(LogPoint { position: end, captured, chain, blocks_writes, state, last_timestamp })
    }

    /// Returns the time of the last truncation in `system.local`, microseconds since 1970; 0 if
    /// there is none.
    fn last_truncation(&self) -> Result<i64> {
        let failed = |error| DatabaseError::storage_after("cannot read system.local", error);
        let catalog = self.catalog();
        let column =
            catalog.table(SYSTEM, "local").and_then(|table| Some((table, table.column("truncated_at")?)));
        let Some((table, column)) = column else { return Ok(0) };
        let stream = self.engine().read(table.id, &text_key("local"), &Selection::all());
        let mut stream =
            stream.map_err(|error| DatabaseError::storage_in("cannot read system.local", error))?;
        let mut last = 0;
        while stream.next_partition().map_err(failed)?.is_some() {
            while let Some(next) = stream.next_unfiltered().map_err(failed)? {
                if let Unfiltered::Row(row) = next {
                    last = row.cells_of(column.id).map(|cell| cell.timestamp).fold(last, i64::max);
                }
            }
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::database::Options;

    fn open(data: &std::path::Path) -> Database {
        let mut options = Options::new(data);
        options.engine.cdc.enabled = true;
        Database::open(options).unwrap()
    }

    fn execute(database: &Database, statement: &str) {
        database.session().execute(statement, ()).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    #[test]
    fn the_state_changes_with_truncations_and_the_schema_alone_and_survives_restarts() {
        let directory = tempfile::TempDir::new().unwrap();
        let data = directory.path().join("data");
        let mut database = open(&data);
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY) WITH cdc = true",
            "CREATE TABLE ks.u (k int PRIMARY KEY)",
        ] {
            execute(&database, statement);
        }
        let mut last = database.log_point().unwrap();
        for (statement, changes) in [
            ("INSERT INTO ks.t (k) VALUES (1)", false),
            ("TRUNCATE ks.u", false),
            ("TRUNCATE ks.t", true),
            ("INSERT INTO ks.t (k) VALUES (2)", false),
            ("TRUNCATE ks.t", true),
            ("ALTER TABLE ks.t ADD v int", true),
        ] {
            execute(&database, statement);
            let point = database.log_point().unwrap();
            assert_eq!(point.state != last.state, changes, "{statement}");
            assert!(point.position >= last.position, "{statement}");
            last = point;
            database.close().unwrap();
            database = open(&data);
            assert_eq!(database.log_point().unwrap().state, last.state, "after {statement}");
        }
    }

    #[test]
    fn captured_changes_before_a_point_can_be_read_whatever_the_sync_mode() {
        let directory = tempfile::TempDir::new().unwrap();
        // Its default mode syncs periodically.
        let database = open(&directory.path().join("data"));
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY) WITH cdc = true",
        ] {
            execute(&database, statement);
        }
        let mut stream = database.change_stream(Position::ZERO);
        for key in 0..200 {
            execute(&database, &format!("INSERT INTO ks.t (k) VALUES ({key})"));
            let point = database.log_point().unwrap();
            let record = stream.next_record().unwrap().expect("a change");
            assert!(record.position <= point.position);
            assert!(stream.next_record().unwrap().is_none());
        }
        assert!(Database::in_memory().unwrap().log_point().is_err(), "nothing is captured");
    }
}
