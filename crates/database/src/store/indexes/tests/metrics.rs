//! Metrics of queries by storage-attached indexes.

use std::time::Duration;

use super::{Files, run};
use crate::api::database::Database;
use crate::schema::indexes::Index;

/// Queries, SSTables of indexes with entries for them, filtered rows, and reads of these.
fn metrics(database: &Database) -> (u64, u64, u64, u64) {
    let catalog = database.catalog();
    let table = catalog.table("ks", "t").unwrap();
    let searches = database.store().build_states().searches(table.id);
    let sum = |histogram: &cassette_engine::metrics::Histogram| histogram.snapshot(Duration::ZERO).sum;
    let reads = searches.filtering_latency.count();
    (searches.latency.count(), sum(&searches.sstables), sum(&searches.rows_filtered), reads)
}

fn flush_indexes(database: &Database) {
    let catalog = database.catalog();
    let table = catalog.table("ks", "t").unwrap();
    let storage = |index: &std::sync::Arc<Index>| index.storage().id;
    for id in catalog.indexes_of(table.id).iter().map(storage) {
        database.engine().flush(Some(id)).unwrap();
    }
}

#[test]
fn queries_by_storage_attached_indexes_are_counted_with_what_they_came_upon() {
    let files = Files::new();
    let (database, session) = files.open();
    run(&session, "CREATE TABLE t (k int, c int, v int, w text, x int, PRIMARY KEY (k, c))");
    for create in ["i_v ON t (v) USING 'sai'", "i_w ON t (w) USING 'sai'", "i_x ON t (x)"] {
        run(&session, &format!("CREATE INDEX {create}"));
    }
    let insert = |k: i32| {
        for c in 0..3 {
            run(
                &session,
                &format!("INSERT INTO t (k, c, v, w, x) VALUES ({k}, {c}, {}, 'w{c}', {c})", k % 2),
            );
        }
    };
    (0..4).for_each(insert);
    // In memory only: two partitions of three rows each, read by partition.
    assert_eq!(run(&session, "SELECT * FROM t WHERE v = 1").len(), 6);
    assert_eq!(metrics(&database), (1, 0, 6, 2));
    flush_indexes(&database);
    (4..6).for_each(insert);
    flush_indexes(&database);
    (6..8).for_each(insert);
    assert_eq!(run(&session, "SELECT * FROM t WHERE v = 1").len(), 12);
    assert_eq!(metrics(&database), (2, 2, 18, 6));
    // Queries by another index or by key are not counted.
    run(&session, "SELECT * FROM t WHERE x = 1");
    run(&session, "SELECT * FROM t WHERE k = 1");
    assert_eq!(metrics(&database), (2, 2, 18, 6));
    // For the table, a search is one scan, or one read within a partition, regardless of its reads.
    let reads = || {
        let table = database.catalog().table("ks", "t").unwrap().id;
        let metrics = database.engine().table_metrics(table).unwrap();
        let rows = metrics.live_scanned.snapshot(Duration::ZERO).sum;
        (metrics.read_latency.count(), metrics.range_latency.count(), rows)
    };
    assert_eq!(reads(), (1, 3, 6 + 12 + 8 + 3));
    run(&session, "SELECT * FROM t WHERE k = 1 AND x = 1");
    assert_eq!(reads(), (2, 3, 30));
    // Both indexes are used: two SSTables of each have entries. The entries of the second may save
    // reads of rows, or not be consulted.
    assert_eq!(run(&session, "SELECT * FROM t WHERE v > 0 AND w = 'w1'").len(), 4);
    let (queries, sstables, rows, reads) = metrics(&database);
    assert_eq!((queries, sstables), (3, 6));
    assert!((10..=14).contains(&reads) && rows - 18 == reads - 6, "{rows} rows, {reads} reads");
}

#[test]
fn indexes_of_a_table_count_together_for_as_long_as_there_is_one() {
    let files = Files::new();
    let (database, session) = files.open();
    run(&session, "CREATE TABLE t (k int PRIMARY KEY, v int, w text)");
    run(&session, "CREATE INDEX i_v ON t (v) USING 'sai'");
    run(&session, "SELECT * FROM t WHERE v = 1");
    run(&session, "CREATE INDEX i_w ON t (w) USING 'sai'");
    run(&session, "ALTER TABLE t ADD x int");
    run(&session, "SELECT * FROM t WHERE w = 'one'");
    run(&session, "DROP INDEX i_v");
    assert_eq!(metrics(&database).0, 2);
    run(&session, "DROP INDEX i_w");
    run(&session, "CREATE INDEX i_w ON t (w) USING 'sai'");
    assert_eq!(metrics(&database).0, 0);
}
