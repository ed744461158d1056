//! Writes of counters: increments become counts, one partition after the other.
//!
//! A counter is stored as a context: for each node its clock and its own count, absolute, as Cassandra stores it. This node's
//! is read, added to, and written under the partition's lock, which every write of increments takes. Of two counts of one node
//! the later clock wins, so that a record that is replayed twice counts once.
//!
//! 1. An increment is bound as a cell with a context that is a bare increment; several of one counter add up, as versions of
//!    a counter do.
//! 2. With the partition locked, the counters that are to change are read.
//! 3. Each increment is replaced by this node's new count, with a clock after the one it had.
//! 4. The counts are logged and applied, and the lock is let go.
//!
//! A batch does this for each of its partitions by itself: as in Cassandra, a batch of counters is not atomic.

use std::sync::Arc;

use cassette_engine::trace::trace;
use cassette_engine::{Mutation, may_wait};
use cassette_rows::merge::counter;
use cassette_rows::{
    Cell, Clustering, ColumnId, DecoratedKey, PartitionUpdate, Row, RowBuilder, Selection, Slice, Slices,
    TableMetadata, Unfiltered,
};

use crate::error::{DatabaseError, Result, WriteType};
use crate::execution::Execution;

/// Applies increments and deletions, partition by partition.
///
/// # Errors
/// WouldBlock, without an effect, when this thread may not wait and would have to.
pub(super) fn apply(mutations: &[Mutation], execution: &Execution<'_>) -> Result<()> {
    let database = execution.database;
    let engine = database.engine();
    if !may_wait() && mutations.len() > 1 {
        // What the first partition counted could not be taken back when the second would have to wait.
        return Err(DatabaseError::WouldBlock);
    }
    for mutation in mutations {
        trace(|| "Acquiring counter locks");
        let (table, key) = (mutation.table.id, &mutation.update.key);
        let _lock = match may_wait() {
            true => engine.lock_partition(table, key),
            false => engine.try_lock_partition(table, key).ok_or(DatabaseError::WouldBlock)?,
        };
        let update = counted(&mutation.update, &mutation.table, execution)?;
        let counted = Mutation { table: mutation.table.clone(), update };
        database.apply(execution, WriteType::Counter, vec![counted])?;
    }
    Ok(())
}

/// The update with counts instead of increments. The partition is locked.
fn counted(
    update: &PartitionUpdate,
    table: &Arc<TableMetadata>,
    execution: &Execution<'_>,
) -> Result<PartitionUpdate> {
    let current = Current::read(update, table, execution)?;
    let node = execution.database.node().host_id;
    let count = |row: &Row, is_static: bool| {
        let mut counted =
            RowBuilder::with_capacity(row.clustering().clone(), row.cell_count(), row.data_size());
        counted.deletion(row.deletion());
        for cell in row.cells() {
            if cell.is_tombstone() {
                counted.cell(cell);
                continue;
            }
            let (clock, before) =
                current.count(row.clustering(), is_static, cell.column, node.as_bytes()).unwrap_or_default();
            let clock = execution.now_micros.max(clock.saturating_add(1));
            let count = before.wrapping_add(counter::total(cell.value));
            counted.cell(Cell { value: &counter::global(node.as_bytes(), clock, count), ..cell });
        }
        counted.finish()
    };
    Ok(PartitionUpdate {
        static_row: update.static_row.as_ref().map(|row| count(row, true)),
        rows: update.rows.iter().map(|row| count(row, false)).collect(),
        ..update.clone()
    })
}

/// The counters as they are, live ones only.
struct Current {
    table: Arc<TableMetadata>,
    static_row: Option<Row>,
    /// In the table's order.
    rows: Vec<Row>,
    now: u32,
}

impl Current {
    /// Reads the rows that an update increments.
    fn read(update: &PartitionUpdate, table: &Arc<TableMetadata>, execution: &Execution<'_>) -> Result<Self> {
        let mut current =
            Self { table: table.clone(), static_row: None, rows: Vec::new(), now: execution.now_seconds };
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
            DatabaseError::read_failure(execution.options.consistency, &error)
        };
        let selection = Selection { slices, reversed: false };
        let mut stream = execution.database.read(execution, &self.table, key, &selection)?;
        if let Some(header) = stream.next_partition().map_err(failed)? {
            self.static_row = header.static_row;
            while let Some(next) = stream.next_unfiltered().map_err(failed)? {
                if let Unfiltered::Row(row) = next {
                    self.rows.push(row);
                }
            }
        }
        Ok(())
    }

    /// Clock and count that `node` has in a counter.
    fn count(
        &self,
        clustering: &Clustering,
        is_static: bool,
        column: ColumnId,
        node: &[u8; 16],
    ) -> Option<(i64, i64)> {
        let row = match is_static {
            true => self.static_row.as_ref(),
            false => {
                let compare = |row: &Row| self.table.comparator.compare_rows(row.clustering(), clustering);
                self.rows.binary_search_by(compare).ok().and_then(|at| self.rows.get(at))
            }
        };
        let cell = row?.cell(column).filter(|cell| cell.is_live(self.now))?;
        counter::of_node(cell.value, node)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cassette_vfs::FakeFileSystem;

    use crate::{Database, Options, Session};

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
                        session.execute_prepared(increment, (i % 7, thread % 2)).unwrap();
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
        // Without replay positions all of the log is replayed, also what SSTables hold.
        use cassette_vfs::FileSystem;
        fs.remove_file(std::path::Path::new("/data/replay_positions")).unwrap();
        assert_eq!(counts(&open(&fs).session()), [(1, Some(5), None)]);
    }
}
