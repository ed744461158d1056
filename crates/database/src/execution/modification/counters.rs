//! Counter writes: increments become counts, one partition after the other.
//!
//! A counter is stored as a context: for each node a clock and its own absolute count, as in
//! Cassandra. The count of this node is read, incremented and written under the partition's lock,
//! which every counter write acquires. Of two counts of one node the later clock wins, so a record
//! that is replayed twice counts once.
//!
//! 1. An increment is bound as a cell whose context is a bare increment; several increments of one
//!    counter add up, like versions of a counter.
//! 2. With the partition locked, the affected counters are looked up in the counter cache, or else
//!    read.
//! 3. Each increment is replaced by the new count of this node, with the next clock.
//! 4. The counts are logged and applied, the counter cache is updated, and the lock is released.
//!
//! A batch does this for each of its partitions separately: as in Cassandra, a counter batch is not
//! atomic.

use std::sync::Arc;

use cassette_engine::trace::trace;
use cassette_engine::{Counted, Durability, Mutation, PartitionCounters, may_wait};
use cassette_rows::merge::counter;
use cassette_rows::{
    Cell, Clustering, ColumnId, DecoratedKey, PartitionUpdate, Row, RowBuilder, Selection, Slice, Slices,
    TableMetadata, Unfiltered,
};

use crate::basics::error::{DatabaseError, Result, WriteType};
use crate::basics::timeouts::Limited;
use crate::execution::Execution;
use crate::store::admission::{Admission, Unapplied};

/// Applies increments and deletions, partition by partition.
///
/// # Errors
/// WouldBlock, without an effect, if this thread must not wait and would have to.
pub(crate) fn apply(mutations: &[Mutation], execution: &Execution<'_>) -> Result<()> {
    if !may_wait() && mutations.len() > 1 {
        // The counts of the first partition could not be undone if the second had to wait.
        return Err(DatabaseError::WouldBlock);
    }
    for (at, mutation) in mutations.iter().enumerate() {
        apply_partition(mutation, execution).map_err(|error| match error {
            // The client must not assume that nothing was applied.
            DatabaseError::Interrupted(_) if at > 0 => {
                Limited::write(WriteType::Counter, execution.options).error()
            }
            error => error,
        })?;
    }
    Ok(())
}

fn apply_partition(mutation: &Mutation, execution: &Execution<'_>) -> Result<()> {
    execution
        .store
        .admitted(execution, WriteType::Counter, |admission| attempt(mutation, execution, admission))
}

fn attempt<'s>(
    Mutation { table, update }: &Mutation,
    execution: &Execution<'s>,
    admission: &mut Admission<'s>,
) -> Result<(), Unapplied> {
    let engine = execution.store.engine();
    trace(|| "Acquiring counter locks");
    let _lock = if may_wait() {
        engine.lock_partition(table.id, &update.key)?
    } else {
        engine.try_lock_partition(table.id, &update.key).ok_or(DatabaseError::WouldBlock)?
    };
    // The write reports a table that was dropped.
    let cache = engine.counters(table.id, &update.key).ok().flatten();
    let counted = counted(update, table, cache.as_ref(), execution)?;
    let mut mutations = vec![Mutation { table: table.clone(), update: counted.update }];
    let write_type = WriteType::Counter;
    let applied =
        execution.store.try_apply(execution, write_type, &mut mutations, Durability::Configured, admission);
    if let Some(cache) = &cache {
        // A failed write may still take effect.
        if applied.is_err() || !counted.is_cacheable || deletes(update) {
            cache.forget();
        } else {
            for (clustering, column, counted) in &counted.cacheable {
                cache.put(clustering, *column, *counted);
            }
        }
    }
    applied
}

/// Whether the update contains a deletion.
fn deletes(update: &PartitionUpdate) -> bool {
    let in_row = |row: &Row| !row.deletion().is_live() || row.cells().any(|cell| cell.is_tombstone());
    !update.deletion.is_live()
        || !update.range_tombstones.is_empty()
        || update.static_row.iter().chain(&update.rows).any(in_row)
}

/// The update to write, and the subsequent contents of the counter cache.
struct CountedUpdate {
    update: PartitionUpdate,
    cacheable: Vec<(Clustering, ColumnId, Counted)>,
    /// Otherwise a deletion covers some of it.
    is_cacheable: bool,
}

/// Replaces the increments of an update by counts. The partition must be locked.
fn counted(
    update: &PartitionUpdate,
    table: &Arc<TableMetadata>,
    cache: Option<&PartitionCounters<'_>>,
    execution: &Execution<'_>,
) -> Result<CountedUpdate> {
    let known = Known::look_up(update, cache);
    let current = if known.is_complete { None } else { Some(Current::read(update, table, execution)?) };
    let node = execution.store.node().host_id;
    let mut cacheable = Vec::new();
    let mut is_cacheable = true;
    let mut counters = known.counters.into_iter();
    let mut count = |row: &Row, is_static: bool| {
        let mut counted =
            RowBuilder::with_capacity(row.clustering().clone(), row.cell_count(), row.data_size());
        counted.deletion(row.deletion());
        for cell in row.cells() {
            if cell.is_tombstone() {
                counted.cell(cell);
                continue;
            }
            let cached = counters.next().flatten();
            let found = cached.or_else(|| {
                let current = current.as_ref()?;
                current.count(row.clustering(), is_static, cell.column, node.as_bytes())
            });
            let (clock, before) = found.map_or((0, 0), |found| (found.clock, found.count));
            let clock = execution.now_micros.max(clock.saturating_add(1));
            let count = before.wrapping_add(counter::total(cell.value));
            if cache.is_some() {
                let read = || current.as_ref().map_or(i64::MIN, |current| current.deleted);
                let deleted = cached.map_or_else(read, |cached| cached.deleted);
                // The next increment must not be added to a count that a deletion covers.
                is_cacheable &= cell.timestamp > deleted;
                let now = Counted { clock, count, deleted };
                cacheable.push((row.clustering().clone(), cell.column, now));
            }
            counted.cell(Cell { value: &counter::global(node.as_bytes(), clock, count), ..cell });
        }
        counted.finish()
    };
    let counted = PartitionUpdate {
        static_row: update.static_row.as_ref().map(|row| count(row, true)),
        rows: update.rows.iter().map(|row| count(row, false)).collect(),
        ..update.clone()
    };
    Ok(CountedUpdate { update: counted, cacheable, is_cacheable })
}

/// The counters of an update in the counter cache.
struct Known {
    /// For each increment, in the update's order.
    counters: Vec<Option<Counted>>,
    /// All counters are cached.
    is_complete: bool,
}

impl Known {
    fn look_up(update: &PartitionUpdate, cache: Option<&PartitionCounters<'_>>) -> Self {
        let rows = update.static_row.iter().chain(&update.rows);
        let increments =
            rows.flat_map(|row| row.cells().filter(|cell| !cell.is_tombstone()).map(move |cell| (row, cell)));
        let counters: Vec<_> = match cache {
            Some(cache) => increments
                .map(|(row, cell)| cache.get(row.clustering(), cell.column, cell.timestamp))
                .collect(),
            None => increments.map(|_| None).collect(),
        };
        Self { is_complete: counters.iter().all(Option::is_some), counters }
    }
}

/// The current counters, live ones only.
struct Current {
    table: Arc<TableMetadata>,
    static_row: Option<Row>,
    /// In the table's order.
    rows: Vec<Row>,
    /// The timestamp of the latest deletion, microseconds; the maximum if a counter itself is
    /// deleted, which no later increment changes.
    deleted: i64,
    now: u32,
}

impl Current {
    /// Reads the rows that an update increments.
    fn read(update: &PartitionUpdate, table: &Arc<TableMetadata>, execution: &Execution<'_>) -> Result<Self> {
        let mut current = Self {
            table: table.clone(),
            static_row: None,
            rows: Vec::new(),
            deleted: i64::MIN,
            now: execution.now_seconds,
        };
        let increments = |row: &&Row| row.cells().any(|cell| !cell.is_tombstone());
        let rows = update.rows.iter().filter(increments).map(|row| Slice::prefix(row.clustering().clone()));
        let slices = Slices::new(rows.collect(), &table.comparator);
        if slices.as_slice().is_empty() && !update.static_row.as_ref().is_some_and(|row| increments(&row)) {
            return Ok(current);
        }
        trace(|| format!("Reading {} counter values from the CF", update.rows.len()));
        current.fill(&update.key, slices, execution)?;
        Ok(current)
    }

    fn fill(&mut self, key: &DecoratedKey, slices: Slices, execution: &Execution<'_>) -> Result<()> {
        let failed = |error: cassette_rows::StorageError| {
            DatabaseError::read_failure(execution.options.consistency, error)
        };
        let selection = Selection { slices, reversed: false };
        let mut stream = execution.store.read(execution, &self.table, key, &selection)?;
        if let Some(header) = stream.next_partition().map_err(failed)? {
            self.deleted = self.deleted.max(header.deletion.timestamp);
            header.static_row.iter().for_each(|row| self.note_deletions(row));
            self.static_row = header.static_row;
            while let Some(next) = stream.next_unfiltered().map_err(failed)? {
                match next {
                    Unfiltered::Row(row) => {
                        self.note_deletions(&row);
                        self.rows.push(row);
                    }
                    Unfiltered::Marker(marker) => {
                        let open = marker.open.map_or(i64::MIN, |open| open.timestamp);
                        self.deleted = self.deleted.max(open);
                    }
                }
            }
        }
        Ok(())
    }

    fn note_deletions(&mut self, row: &Row) {
        self.deleted = if row.cells().any(|cell| cell.is_tombstone()) {
            i64::MAX
        } else {
            self.deleted.max(row.deletion().timestamp)
        };
    }

    /// Returns the clock and count of `node` in a counter.
    fn count(
        &self,
        clustering: &Clustering,
        is_static: bool,
        column: ColumnId,
        node: &[u8; 16],
    ) -> Option<Counted> {
        let row = if is_static {
            self.static_row.as_ref()
        } else {
            let compare = |row: &Row| self.table.comparator.compare_rows(row.clustering(), clustering);
            self.rows.binary_search_by(compare).ok().and_then(|at| self.rows.get(at))
        };
        let cell = row?.cell(column).filter(|cell| cell.is_live(self.now))?;
        let (clock, count) = counter::of_node(cell.value, node)?;
        Some(Counted { clock, count, deleted: self.deleted })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cassette_engine::Mutation;
    use cassette_rows::{DecoratedKey, DeletionTime, PartitionUpdate};
    use cassette_vfs::FakeFileSystem;

    use crate::api::database::{Database, Options};
    use crate::api::embedded::Session;

    fn open(fs: &FakeFileSystem) -> Database {
        let mut options = Options { file_system: Arc::new(fs.clone()), ..Options::new("/data") };
        options.engine.commitlog_sync = cassette_engine::commitlog::SyncMode::Batch;
        options.engine.background_threads = false;
        Database::open(options).unwrap()
    }

    fn create(database: &Database) -> Session {
        let session = database.session();
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int, c int, n counter, m counter, s counter static, PRIMARY KEY (k, c))",
        ] {
            session.execute(statement, ()).unwrap();
        }
        session
    }

    fn counts(session: &Session) -> Vec<(i32, Option<i64>, Option<i64>)> {
        let rows = session.execute("SELECT c, n, m FROM ks.t WHERE k = 0", ()).unwrap();
        rows.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap())).collect()
    }

    #[test]
    fn increments_of_many_threads_all_count() {
        let database = open(&FakeFileSystem::new());
        let session = create(&database);
        let increment =
            session.prepare("UPDATE ks.t SET n = n + ?, s = s - 1 WHERE k = 0 AND c = ?").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_i32 {
                let (session, increment) = (&session, &increment);
                scope.spawn(move || {
                    for i in 0..200_i64 {
                        session.execute(increment, (i % 7, thread % 2)).unwrap();
                    }
                });
            }
        });
        let each: i64 = (0..200).map(|i| i % 7).sum();
        assert_eq!(counts(&session), [(0, Some(2 * each), None), (1, Some(2 * each), None)]);
        let statics = session.execute("SELECT s FROM ks.t WHERE k = 0 LIMIT 1", ()).unwrap();
        assert_eq!(statics.first().unwrap().get::<i64>(0).unwrap(), -800);
    }

    #[test]
    fn counts_are_exact_after_crashes_flushes_and_compactions() {
        let mut fs = FakeFileSystem::new();
        let mut expected = 0;
        create(&open(&fs));
        for round in 0..12 {
            let database = open(&fs);
            let session = database.session();
            for i in 0..10 {
                session.execute("UPDATE ks.t SET n = n + ? WHERE k = 0 AND c = 1", (i,)).unwrap();
                expected += i;
                if i == round % 10 {
                    database.engine().flush(None).unwrap();
                }
            }
            if round % 4 == 3 {
                let table = database.catalog().table("ks", "t").unwrap().id;
                database.engine().compact(table).unwrap();
            }
            assert_eq!(counts(&session), [(1, Some(expected), None)]);
            fs = if round % 2 == 0 { fs.crash(round as u64) } else { fs.kill() };
        }
        assert_eq!(counts(&open(&fs).session()), [(1, Some(expected), None)]);
    }

    #[test]
    fn a_record_that_is_replayed_over_its_sstable_counts_once() {
        let fs = FakeFileSystem::new();
        let database = open(&fs);
        let session = create(&database);
        session.execute("UPDATE ks.t SET n = n + 5 WHERE k = 0 AND c = 1", ()).unwrap();
        database.engine().flush(None).unwrap();
        drop((session, database));
        // Without replay positions, the whole commit log is replayed, including what SSTables
        // contain.
        use cassette_vfs::FileSystem;
        fs.remove_file(std::path::Path::new("/data/replay_positions")).unwrap();
        assert_eq!(counts(&open(&fs).session()), [(1, Some(5), None)]);
    }

    fn counter_cache(database: &Database) -> (u64, u64) {
        let stats = database.engine().stats().counter_cache;
        (stats.hits, stats.misses)
    }

    #[test]
    fn an_increment_of_a_cached_counter_reads_nothing() {
        let database = open(&FakeFileSystem::new());
        let session = create(&database);
        let reads = || {
            let table = database.catalog().table("ks", "t").unwrap().id;
            database
                .engine()
                .table_metrics(table)
                .unwrap()
                .sstables_per_read
                .snapshot(Default::default())
                .count()
        };
        let increment = || session.execute("UPDATE ks.t SET n = n + 2, s = s + 1 WHERE k = 0 AND c = 1", ());
        increment().unwrap();
        let before = reads();
        assert_eq!((before, counter_cache(&database)), (1, (0, 2)));
        for _ in 0..10 {
            increment().unwrap();
            database.engine().flush(None).unwrap();
        }
        assert_eq!((reads(), counter_cache(&database)), (before, (20, 2)));
        assert_eq!(counts(&session), [(1, Some(22), None)]);
        database.engine().invalidate_counter_cache();
        increment().unwrap();
        assert_eq!(counter_cache(&database), (20, 4));
        assert_eq!(counts(&session), [(1, Some(24), None)]);
    }

    #[test]
    fn deletions_and_truncation_are_not_counted_over() {
        let database = open(&FakeFileSystem::new());
        let session = create(&database);
        let increment =
            || session.execute("UPDATE ks.t SET n = n + 1 WHERE k = 0 AND c = 1", ()).map(drop).unwrap();
        for (deletion, before) in [
            ("DELETE FROM ks.t WHERE k = 0 AND c = 1", 2),
            ("DELETE FROM ks.t WHERE k = 0 AND c > 0", 3),
            ("DELETE FROM ks.t WHERE k = 0", 3),
            ("TRUNCATE ks.t", 3),
            ("BEGIN COUNTER BATCH DELETE FROM ks.t WHERE k = 0 AND c = 1; APPLY BATCH", 3),
        ] {
            increment();
            increment();
            assert_eq!(counts(&session), [(1, Some(before), None)], "before {deletion}");
            session.execute(deletion, ()).unwrap();
            increment();
            assert_eq!(counts(&session), [(1, Some(1), None)], "after {deletion}");
        }
        // Only the first increment and those after deletions read.
        assert_eq!(counter_cache(&database), (9, 6));
        session.execute("DELETE n FROM ks.t WHERE k = 0 AND c = 1", ()).unwrap();
        increment();
        increment();
        assert_eq!(counts(&session), [], "as in Cassandra, a deleted counter stays so");
        assert_eq!(counter_cache(&database), (9, 8), "and none of it is cached");
    }

    #[test]
    fn what_is_under_a_deletion_from_the_future_is_never_counted_on() {
        let database = open(&FakeFileSystem::new());
        let session = create(&database);
        let table = database.catalog().table("ks", "t").unwrap().clone();
        let key = DecoratedKey::new(vec![0; 4].into());
        let deletion = DeletionTime::new(i64::MAX / 2, 1_000_000_000);
        let update = PartitionUpdate { deletion, ..PartitionUpdate::new(key) };
        database.engine().apply(&[Mutation { table, update }]).unwrap();
        for _ in 0..3 {
            session.execute("UPDATE ks.t SET n = n + 1 WHERE k = 0 AND c = 1", ()).unwrap();
        }
        assert_eq!(counts(&session), []);
        assert_eq!(counter_cache(&database), (0, 3), "nothing of it was cached");
    }

    #[test]
    fn the_counter_cache_is_warm_after_a_restart() {
        let fs = FakeFileSystem::new();
        let database = open(&fs);
        let session = create(&database);
        for c in 0..5 {
            session.execute("UPDATE ks.t SET n = n + 1, s = s + 1 WHERE k = 0 AND c = ?", (c,)).unwrap();
        }
        database.close().unwrap();
        let database = open(&fs);
        assert_eq!(database.engine().stats().counter_cache.entries, 6);
        let session = database.session();
        for c in 0..5 {
            session.execute("UPDATE ks.t SET n = n + 1, s = s + 1 WHERE k = 0 AND c = ?", (c,)).unwrap();
        }
        assert_eq!(counter_cache(&database), (10, 0));
        let expected: Vec<_> = (0..5).map(|c| (c, Some(2), None)).collect();
        assert_eq!(counts(&session), expected);
    }
}
