//! The engine as a whole, on a file system that guarantees no more than its contract.

pub mod admission;
mod cdc;
mod crash;
mod disk;
mod durable_writes;
mod import;
mod limits;
mod metrics;
mod model;
mod node_settings;
mod panics;
mod partition_observer;
mod recovery;
mod row_cache;
mod saved_caches;
mod scrub;
mod settings;
mod snapshots;
pub(crate) mod testing;
mod threads;
mod truncation;
mod unknown_tables;
mod waiting;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cassette_rows::{PartitionUpdate, Selection, TableId, TableMetadata};
use cassette_vfs::{FakeFileSystem, FileSystem, ManualClock};

use crate::engine_tests::testing::{Visible, drain, visible};
use crate::log::commitlog::SyncMode;
use crate::{Engine, KeyRange, Mutation, Options, Result};

/// The state that outlives an engine in a test.
pub struct World {
    pub fs: FakeFileSystem,
    pub clock: Arc<ManualClock>,
    pub options: Options,
    pub tables: Vec<Arc<TableMetadata>>,
}

impl World {
    /// A world of deterministic engines with small segments and memtables.
    pub fn new(tables: Vec<Arc<TableMetadata>>) -> Self {
        let options = Options {
            commitlog_sync: SyncMode::Batch,
            commitlog_segment_size: 16 << 10,
            commitlog_total_space: 256 << 10,
            memtable_heap_space: 1 << 20,
            compaction_throughput: 0,
            background_threads: false,
            ..Options::new("db")
        };
        let clock = Arc::new(ManualClock::at_micros(1_000_000_000));
        Self { fs: FakeFileSystem::new(), clock, options, tables }
    }

    /// Opens an engine and recovers.
    pub fn open(&self) -> Result<Engine> {
        let engine = Engine::open(self.options.clone(), Arc::new(self.fs.clone()), self.clock.clone())?;
        if let [first, rest @ ..] = &self.tables[..] {
            // Like a database: the first table determines the others.
            engine.create_table(first.clone())?;
            engine.replay()?;
            for table in rest {
                engine.create_table(table.clone())?;
            }
        }
        engine.finish_recovery()?;
        Ok(engine)
    }

    pub fn now(&self) -> u32 {
        use cassette_vfs::Clock;
        self.clock.now_seconds() as u32
    }

    pub fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// The names of the files of a table.
    pub fn files(&self, table: &TableMetadata) -> Vec<String> {
        let path = Path::new("db/data").join(&table.keyspace).join(table.directory_name());
        self.fs.read_dir(&path).unwrap().into_iter().map(|entry| entry.name).collect()
    }

    pub fn sstables(&self, table: &TableMetadata) -> usize {
        self.files(table).iter().filter(|name| name.ends_with("-Data.db")).count()
    }

    /// The result of a scan of a whole table.
    pub fn seen(&self, engine: &Engine, id: TableId, selection: &Selection) -> Vec<Visible> {
        visible(drain(engine.scan(id, &KeyRange::ALL, selection).unwrap()), self.now())
    }
}

pub fn mutation(table: &Arc<TableMetadata>, update: PartitionUpdate) -> Mutation {
    Mutation { table: table.clone(), update }
}
