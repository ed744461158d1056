//! Load, point reads and scans of YCSB-shaped records, one thread, on the real file system.
//!
//! ```text
//! cargo bench -p cassette-engine --bench engine -- [--records 1000000] [--operations 1000000] [--rounds 3] [--phase load,...]
//! ```
//!
//! Prints operations per second of each round. Phases: `load`, `memtable-read`, `read` (from
//! SSTables), `compacted-read`, `update` (one field), `read-updated`, `scan` (of up to 100 rows, 50
//! on average).

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use cassette_engine::{Engine, KeyRange, Mutation, Options};
use cassette_rows::{
    Clustering, ColumnId, ColumnKind, ColumnMetadata, DataType, DecoratedKey, LivenessInfo, PartitionStream,
    PartitionUpdate, RowBuilder, Selection, TableId, TableMetadata, TableParams, Unfiltered,
};
use cassette_vfs::{RealFileSystem, SystemClock};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use uuid::Uuid;

/// The binary's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FIELDS: u16 = 10;
const FIELD_BYTES: usize = 100;

struct Bench {
    engine: Engine,
    table: Arc<TableMetadata>,
    records: u64,
    operations: u64,
    random: SmallRng,
    timestamp: i64,
}

fn main() {
    let mut records = 1_000_000;
    let mut operations = 1_000_000;
    let mut rounds = 3;
    let mut phases = "load,read,compacted-read,scan,update,read-updated".to_owned();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--records" => records = value().parse().expect("a number of records"),
            "--operations" => operations = value().parse().expect("a number of operations"),
            "--rounds" => rounds = value().parse().expect("a number of rounds"),
            "--phase" => phases = value(),
            _ => {}
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let engine = Engine::open(
        Options { file_cache_size: 2 << 30, ..Options::new(directory.path()) },
        Arc::new(RealFileSystem),
        Arc::new(SystemClock::new()),
    )
    .expect("an engine");
    let table = usertable();
    engine.create_table(table.clone()).expect("a table");
    engine.finish_recovery().expect("an open engine");
    let mut bench = Bench {
        engine,
        table,
        records,
        operations,
        random: SmallRng::seed_from_u64(1),
        timestamp: 1_700_000_000_000_000,
    };
    for phase in phases.split(',') {
        let rounds = if phase == "load" { 1 } else { rounds };
        for round in 0..rounds {
            bench.prepare(phase, round);
            let (started, cpu) = (Instant::now(), thread_cpu());
            let done = bench.run(phase);
            let (wall, cpu) = (started.elapsed().as_secs_f64(), thread_cpu() - cpu);
            let stats = bench.engine.table_stats(bench.table.id).expect("metrics");
            let read = bench.engine.table_metrics(bench.table.id).expect("metrics");
            let read = read.sstables_per_read.snapshot(bench.engine.stats().now);
            println!(
                "{phase:15} {:9.0} /s  ({:.2} us CPU of the thread each; {} SSTables, {} MiB on disk, {:.2} read each)",
                done as f64 / wall,
                cpu / done as f64 * 1e6,
                stats.sstables,
                stats.live_disk_bytes >> 20,
                read.sum as f64 / read.count().max(1) as f64,
            );
        }
    }
}

/// CPU seconds of this thread, from the kernel's own count.
fn thread_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

fn usertable() -> Arc<TableMetadata> {
    let column = |name: String, kind| ColumnMetadata::new(name, kind, 0, DataType::Text);
    let mut columns = vec![column("y_id".into(), ColumnKind::PartitionKey)];
    columns.extend((0..FIELDS).map(|n| column(format!("field{n}"), ColumnKind::Regular)));
    let id = TableId(Uuid::from_u128(0xcafe));
    Arc::new(TableMetadata::new(id, "ycsb", "usertable", columns, TableParams::default()))
}

fn key(record: u64) -> DecoratedKey {
    // YCSB's order: FNV of the record's number.
    let hash = record
        .to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    DecoratedKey::new(Bytes::from(format!("user{hash}").into_bytes()))
}

impl Bench {
    fn prepare(&mut self, phase: &str, round: usize) {
        match (phase, round) {
            ("read", 0) => self.engine.flush(None).expect("a flush"),
            ("compacted-read", 0) => {
                self.engine.flush(None).expect("a flush");
                self.engine.compact(self.table.id).expect("a compaction");
            }
            _ => {}
        }
        if round == 0 && (phase == "read" || phase == "compacted-read") {
            // Into the cache.
            self.read(self.operations / 2);
        }
    }

    fn run(&mut self, phase: &str) -> u64 {
        match phase {
            "load" => {
                for record in 0..self.records {
                    self.write(record, 0..FIELDS);
                }
                self.records
            }
            "memtable-read" | "read" | "compacted-read" | "read-updated" => self.read(self.operations),
            "update" => {
                for _ in 0..self.operations {
                    let record = self.random.random_range(0..self.records);
                    let field = self.random.random_range(0..FIELDS);
                    self.write(record, field..field + 1);
                }
                self.operations
            }
            "scan" => self.scan(self.operations / 50),
            other => panic!("no phase {other}"),
        }
    }

    fn write(&mut self, record: u64, fields: std::ops::Range<u16>) {
        self.timestamp += 1;
        let mut row =
            RowBuilder::with_capacity(Clustering::empty(), fields.len(), fields.len() * FIELD_BYTES);
        if fields.len() == usize::from(FIELDS) {
            row.liveness(LivenessInfo::new(self.timestamp));
        }
        for field in fields {
            let mut value = [0; FIELD_BYTES];
            self.random.fill_bytes(&mut value);
            value.iter_mut().for_each(|byte| *byte = b' ' + *byte % 95);
            row.live_cell(ColumnId(field), &value, self.timestamp);
        }
        let mut update = PartitionUpdate::new(key(record));
        update.rows.push(row.finish());
        let mutation = Mutation { table: self.table.clone(), update };
        self.engine.apply(std::slice::from_ref(&mutation)).expect("a write");
    }

    fn read(&mut self, count: u64) -> u64 {
        let selection = Selection::all();
        for _ in 0..count {
            let key = key(self.random.random_range(0..self.records));
            let stream = self.engine.read(self.table.id, &key, &selection).expect("a read");
            assert_eq!(rows(stream, 1), 1, "a record that was loaded");
        }
        count
    }

    fn scan(&mut self, count: u64) -> u64 {
        let selection = Selection::all();
        for _ in 0..count {
            let from = key(self.random.random_range(0..self.records));
            let limit = self.random.random_range(1..=100);
            let range = KeyRange::ALL.from(from);
            let stream = self.engine.scan(self.table.id, &range, &selection).expect("a scan");
            assert!(rows(stream, limit) > 0, "records");
        }
        count
    }
}

/// Counts up to `limit` rows, touching every value.
fn rows(mut stream: Box<dyn PartitionStream>, limit: usize) -> usize {
    let mut rows = 0;
    while rows < limit && stream.next_partition().expect("a partition").is_some() {
        while let Some(unfiltered) = stream.next_unfiltered().expect("a row") {
            if let Unfiltered::Row(row) = unfiltered {
                assert_eq!(row.cells().map(|cell| cell.value.len()).sum::<usize>(), 1000);
                rows += 1;
            }
        }
    }
    rows
}
