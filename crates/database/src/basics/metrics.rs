//! Metrics of requests: counts, latencies and failures by kind.
//!
//! Names and kinds are those of Cassandra's `ClientRequest`, `CQL` and `Batch` metrics. The engine
//! counts the operations on each table in [`TableMetrics`](cassette_engine::metrics::TableMetrics).

use std::time::Duration;

use cassette_cql::ast::BatchKind;
use cassette_engine::metrics::{BusyCounter, Counter, Histogram};

use crate::basics::error::DatabaseError;

/// Metrics of all requests since the database was opened.
#[derive(Debug)]
pub struct RequestMetrics {
    /// SELECTs of named partitions.
    pub read: RequestKindMetrics,
    /// SELECTs over ranges of partitions.
    pub range: RequestKindMetrics,
    /// INSERTs, UPDATEs, DELETEs and batches without conditions.
    pub write: RequestKindMetrics,
    /// SELECTs with a serial consistency level.
    pub cas_read: RequestKindMetrics,
    /// Modifications and batches with conditions.
    pub cas_write: RequestKindMetrics,
    /// Writes that changed materialized views. The latency covers computing the changes of the
    /// views and writing them with the base rows.
    pub view_write: RequestKindMetrics,
    /// Prepared statements that were executed, including those in batches.
    pub prepared_executed: BusyCounter,
    /// Statements that were executed from text.
    pub regular_executed: BusyCounter,
    /// Partitions changed by each logged batch.
    pub partitions_per_logged_batch: Histogram,
    /// Partitions changed by each unlogged batch.
    pub partitions_per_unlogged_batch: Histogram,
    /// Partitions changed by each counter batch.
    pub partitions_per_counter_batch: Histogram,
}

/// Metrics of one kind of request.
#[derive(Debug)]
pub struct RequestKindMetrics {
    /// Latency, microseconds.
    pub latency: Histogram,
    /// Requests that exceeded their timeout.
    pub timeouts: Counter,
    /// Requests that failed for reasons other than invalid input, and reads that a guardrail ended.
    pub failures: Counter,
    /// Requests that were rejected as invalid.
    pub invalid: Counter,
}

/// The kinds of requests with separate metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Range,
    Write,
    CasRead,
    CasWrite,
    ViewWrite,
}

impl Default for RequestKindMetrics {
    fn default() -> Self {
        Self {
            latency: Histogram::of_latencies(),
            timeouts: Counter::default(),
            failures: Counter::default(),
            invalid: Counter::default(),
        }
    }
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            read: RequestKindMetrics::default(),
            range: RequestKindMetrics::default(),
            write: RequestKindMetrics::default(),
            cas_read: RequestKindMetrics::default(),
            cas_write: RequestKindMetrics::default(),
            view_write: RequestKindMetrics::default(),
            prepared_executed: BusyCounter::default(),
            regular_executed: BusyCounter::default(),
            partitions_per_logged_batch: Histogram::of_positive_counts(),
            partitions_per_unlogged_batch: Histogram::of_positive_counts(),
            partitions_per_counter_batch: Histogram::of_positive_counts(),
        }
    }
}

impl RequestMetrics {
    /// Returns the kinds with the names of Cassandra's metrics.
    pub fn by_name(&self) -> [(&'static str, &RequestKindMetrics); 6] {
        [
            ("Read", &self.read),
            ("RangeSlice", &self.range),
            ("Write", &self.write),
            ("CASRead", &self.cas_read),
            ("CASWrite", &self.cas_write),
            ("ViewWrite", &self.view_write),
        ]
    }

    /// Records a request that took `time`.
    pub(crate) fn record<T>(&self, kind: RequestKind, time: Duration, outcome: &Result<T, DatabaseError>) {
        let of_kind = match kind {
            RequestKind::Read => &self.read,
            RequestKind::Range => &self.range,
            RequestKind::Write => &self.write,
            RequestKind::CasRead => &self.cas_read,
            RequestKind::CasWrite => &self.cas_write,
            RequestKind::ViewWrite => &self.view_write,
        };
        match outcome {
            Ok(_) => {}
            // The request is retried on another thread and counted then.
            Err(DatabaseError::WouldBlock) => return,
            Err(DatabaseError::ReadTimeout { .. } | DatabaseError::WriteTimeout { .. }) => {
                of_kind.timeouts.add(1)
            }
            Err(
                DatabaseError::ReadFailure { .. }
                | DatabaseError::ReadAborted { .. }
                | DatabaseError::WriteFailure { .. },
            ) => of_kind.failures.add(1),
            Err(_) => return of_kind.invalid.add(1),
        }
        of_kind.latency.record_latency(time);
    }

    /// Records a batch that changed `partitions` partitions.
    pub(crate) fn record_batch(&self, kind: BatchKind, partitions: usize) {
        let histogram = match kind {
            BatchKind::Logged => &self.partitions_per_logged_batch,
            BatchKind::Unlogged => &self.partitions_per_unlogged_batch,
            BatchKind::Counter => &self.partitions_per_counter_batch,
        };
        histogram.record(partitions as u64);
    }

    /// Updates moving averages. `now` is monotonic time. Expected every few seconds; without these
    /// calls, counts remain exact, and rates are averages since the last call.
    pub fn tick(&self, now: Duration) {
        for (_, of_kind) in self.by_name() {
            of_kind.latency.tick(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use cassette_vfs::FakeFileSystem;

    use crate::api::database::{Database, Options};
    use crate::basics::request::{Consistency, StatementOptions};

    fn database() -> Database {
        let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
        let database = Database::open(options).unwrap();
        let session = database.session();
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int, c int, v int, w int, PRIMARY KEY (k, c))",
        ] {
            session.execute(statement, ()).unwrap();
        }
        database
    }

    #[test]
    fn requests_are_counted_by_what_they_are() {
        let database = database();
        let session = database.session();
        let counts = || database.metrics().by_name().map(|(_, of_kind)| of_kind.latency.count());
        assert_eq!(counts(), [0; 6]);
        session.execute("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)", ()).unwrap();
        session
            .execute(
                "BEGIN BATCH DELETE FROM ks.t WHERE k = 8; DELETE FROM ks.t WHERE k = 9; APPLY BATCH",
                (),
            )
            .unwrap();
        session.execute("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1) IF NOT EXISTS", ()).unwrap();
        session.execute("SELECT * FROM ks.t WHERE k IN (1, 2)", ()).unwrap();
        session.execute("SELECT * FROM ks.t", ()).unwrap();
        let serial = StatementOptions { consistency: Consistency::Serial, ..StatementOptions::default() };
        session.execute_with("SELECT * FROM ks.t WHERE k = 1", (), &serial).unwrap();
        // Virtual tables and statements that access no data are not counted.
        session.execute("SELECT * FROM system_views.settings", ()).unwrap();
        session.execute("USE ks", ()).unwrap();
        assert_eq!(counts(), [1, 1, 2, 1, 1, 0]);
        let metrics = database.metrics();
        assert_eq!((metrics.regular_executed.get(), metrics.prepared_executed.get()), (7, 0));
        assert_eq!(metrics.partitions_per_logged_batch.snapshot(Duration::ZERO).sum, 2);
    }

    #[test]
    fn writes_that_change_views_are_counted_as_such_too() {
        let options = Options {
            file_system: Arc::new(FakeFileSystem::new()),
            materialized_views_enabled: true,
            ..Options::new("/data")
        };
        let database = Database::open(options).unwrap();
        let session = database.session();
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
            "CREATE TABLE ks.other (k int PRIMARY KEY, v int)",
            "CREATE MATERIALIZED VIEW ks.by_v AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL \
             PRIMARY KEY (v, k)",
            "INSERT INTO ks.t (k, v) VALUES (1, 1)",
            "UPDATE ks.t SET v = 2 WHERE k = 1",
            // These writes produce no row of the view.
            "INSERT INTO ks.t (k) VALUES (2)",
            "INSERT INTO ks.other (k, v) VALUES (1, 1)",
        ] {
            session.execute(statement, ()).unwrap();
        }
        let [.., (name, views)] = database.metrics().by_name();
        assert_eq!((name, views.latency.count()), ("ViewWrite", 2));
        assert_eq!(database.metrics().write.latency.count(), 4);
    }

    #[test]
    fn prepared_statements_are_counted() {
        let database = database();
        let session = database.session();
        let before = database.prepared_statements().count;
        let select = session.prepare("SELECT v FROM ks.t WHERE k = ?").unwrap();
        for k in 0..3 {
            session.execute(&select, (k,)).unwrap();
        }
        assert_eq!(database.prepared_statements().count, before + 1);
        assert_eq!(database.prepared_statements().evicted, 0);
        assert_eq!(database.metrics().prepared_executed.get(), 3);
    }

    #[test]
    fn reads_count_live_rows_and_tombstones_as_cassandra_does() {
        let database = database();
        let session = database.session();
        for c in 0..10 {
            session.execute(&format!("INSERT INTO ks.t (k, c, v, w) VALUES (1, {c}, 1, 1)"), ()).unwrap();
        }
        for statement in [
            "DELETE FROM ks.t WHERE k = 1 AND c = 0",
            "DELETE v FROM ks.t WHERE k = 1 AND c = 1",
            "DELETE FROM ks.t WHERE k = 1 AND c >= 8",
        ] {
            session.execute(statement, ()).unwrap();
        }
        session.execute("SELECT * FROM ks.t WHERE k = 1", ()).unwrap();
        let catalog = database.catalog();
        let table = catalog.table("ks", "t").unwrap();
        let metrics = database.engine().table_metrics(table.id).unwrap();
        let sum = |histogram: &cassette_engine::metrics::Histogram| histogram.snapshot(Duration::ZERO).sum;
        assert_eq!(sum(&metrics.live_scanned), 7);
        // A row, a cell, and both ends of a range.
        assert_eq!(sum(&metrics.tombstones_scanned), 4);
        assert_eq!((metrics.read_latency.count(), metrics.range_latency.count()), (1, 0));
    }
}
