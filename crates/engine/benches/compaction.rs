//! Compaction and flushes: throughput of one thread, the price of asking overlapping SSTables, and
//! the amplification of random overwrites under levels.
//!
//! ```text
//! cargo bench -p cassette-engine --bench compaction -- [--phase flush,merge,overlapping,amplification] [--rounds 3]
//! MIB=200 ROWS=2000000 cargo bench …        sizes: MiB of rows overwritten under levels; tiny rows merged
//! THREADS=0 cargo bench …                   flushes by one thread alone
//! ```
//!
//! `flush` prints MB/s of rows written out from a memtable of 200 MB, and beside it how fast the
//! disk takes as many bytes as became files, written in one go and synced. The commit log of those
//! rows, as long again, is mostly not synced yet, and the flush waits for that too. `merge` prints
//! MB/s of uncompressed rows read, for tiny rows and rows of 1 KB, LZ4. `overlapping` is the
//! experiment of CASSANDRA-7019: 12,000 partitions in every SSTable, two rows of 300 bytes each, a
//! row deletion in every tenth; the two oldest are compacted with M newer ones outside.
//! `amplification` writes random overwrites under leveled compaction, and prints bytes written by
//! bytes given and bytes kept by bytes that are live.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use cassette_engine::{Engine, Mutation, Options, OverlappingOptions, OverlappingTombstones};
use cassette_rows::schema::CompactionParams;
use cassette_rows::{
    Clustering, ColumnId, ColumnKind, ColumnMetadata, DataType, DecoratedKey, DeletionTime, LivenessInfo,
    PartitionUpdate, RowBuilder, TableId, TableMetadata, TableParams,
};
use cassette_vfs::{RealFileSystem, SystemClock};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use uuid::Uuid;

/// The binary's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let (mut phases, mut rounds) = ("flush,merge,overlapping,amplification".to_owned(), 3);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--phase" => phases = value(),
            "--rounds" => rounds = value().parse().expect("a number of rounds"),
            _ => {}
        }
    }
    for phase in phases.split(',') {
        match phase {
            "flush" => flush(rounds),
            "merge" => merge(rounds),
            "overlapping" => overlapping(rounds),
            "amplification" => amplification(),
            other => panic!("no phase {other}"),
        }
    }
}

fn size(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|size| size.parse().ok()).unwrap_or(default)
}

/// `k blob, c int, v0 … text`, clustered by `c`.
fn table(values: u16, class: &str, options: &[(&str, &str)]) -> Arc<TableMetadata> {
    let column = |name: String, kind, data_type| ColumnMetadata::new(name, kind, 0, data_type);
    let mut columns = vec![
        column("k".into(), ColumnKind::PartitionKey, DataType::Blob),
        column("c".into(), ColumnKind::Clustering, DataType::Int),
    ];
    columns.extend((0..values).map(|n| column(format!("v{n}"), ColumnKind::Regular, DataType::Text)));
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let compaction = CompactionParams { class: format!("{class}CompactionStrategy"), options };
    let params = TableParams { compaction, ..TableParams::default() };
    Arc::new(TableMetadata::new(TableId(Uuid::from_u128(7)), "bench", "t", columns, params))
}

struct Bench {
    engine: Engine,
    table: Arc<TableMetadata>,
    random: SmallRng,
    timestamp: i64,
    directory: tempfile::TempDir,
}

impl Bench {
    fn new(table: Arc<TableMetadata>, change: impl FnOnce(&mut Options)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = Options::new(directory.path());
        options.compaction_throughput = 0;
        options.background_threads = false;
        options.memtable_heap_space = 4 << 30;
        change(&mut options);
        let engine = Engine::open(options, Arc::new(RealFileSystem), Arc::new(SystemClock::new()));
        let engine = engine.expect("an engine");
        engine.create_table(table.clone()).expect("a table");
        engine.finish_recovery().expect("an open engine");
        let random = SmallRng::seed_from_u64(1);
        Self { engine, table, random, timestamp: 1_700_000_000_000_000, directory }
    }

    /// A row of so many columns with values of `bytes` bytes of text.
    fn row(&mut self, key: u64, c: i32, columns: u16, bytes: usize) {
        self.timestamp += 1;
        let mut row = RowBuilder::with_capacity(
            Clustering::of(&[&c.to_be_bytes()]),
            columns.into(),
            usize::from(columns) * bytes,
        );
        row.liveness(LivenessInfo::new(self.timestamp));
        let mut value = vec![0; bytes];
        for column in 0..columns {
            self.random.fill_bytes(&mut value);
            value.iter_mut().for_each(|byte| *byte = b' ' + *byte % 64);
            row.live_cell(ColumnId(column), &value, self.timestamp);
        }
        let mut update = PartitionUpdate::new(decorated(key));
        update.rows.push(row.finish());
        self.apply(update);
    }

    fn apply(&self, update: PartitionUpdate) {
        let mutation = Mutation { table: self.table.clone(), update };
        self.engine.apply(std::slice::from_ref(&mutation)).expect("a write");
    }

    fn flush(&self) {
        self.engine.flush(None).expect("a flush");
    }
}

fn decorated(key: u64) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(&key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()))
}

/// CPU seconds of this thread, from the kernel's own count.
fn thread_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

/// A memtable becomes an SSTable, synced. LZ4.
fn flush(rounds: usize) {
    for round in 0..rounds {
        let mut bench = Bench::new(table(10, "SizeTiered", &[]), |options| {
            options.background_threads = size("THREADS", 1) > 0;
        });
        (0..200_000).for_each(|key| bench.row(key, 0, 10, 100));
        let (began, cpu) = (Instant::now(), process_cpu());
        bench.flush();
        let (wall, cpu) = (began.elapsed().as_secs_f64(), process_cpu() - cpu);
        let stats = bench.engine.table_stats(bench.table.id).expect("metrics");
        let (mb, written) = (stats.uncompressed_bytes as f64 / 1e6, stats.live_disk_bytes as f64 / 1e6);
        let disk = written / seconds_to_write(bench.directory.path(), stats.live_disk_bytes);
        println!(
            "flush round {round}: {:6.1} MB/s of CPU, {:6.1} MB/s of {mb:.0} MB; files: {:6.1} MB/s of \
             {written:.0} MB, the disk takes {disk:6.1} MB/s",
            mb / cpu,
            mb / wall,
            written / wall
        );
    }
}

/// How long so many bytes take to be written and synced.
fn seconds_to_write(directory: &std::path::Path, mut bytes: u64) -> f64 {
    use std::io::Write;
    let piece: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
    let began = Instant::now();
    let mut file = std::fs::File::create(directory.join("as-much")).expect("a file");
    while bytes > 0 {
        let length = bytes.min(piece.len() as u64);
        file.write_all(&piece[..length as usize]).expect("written");
        bytes -= length;
    }
    file.sync_all().expect("synced");
    began.elapsed().as_secs_f64()
}

/// CPU seconds of all threads of this process.
fn process_cpu() -> f64 {
    let ticks = |stat: String| -> Option<f64> {
        // After the name, which ends with the last parenthesis, the 12th and 13th are of user and
        // system, in hundredths.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
    };
    std::fs::read_to_string("/proc/self/stat").ok().and_then(ticks).unwrap_or(f64::NAN) / 100.0
}

/// Four SSTables become one; each row is in one of them, and every fourth in two.
fn merge(rounds: usize) {
    let tiny = size("ROWS", 2_000_000);
    for (name, rows, columns, bytes) in [("tiny rows", tiny, 1, 10), ("1 KB rows", tiny / 10, 10, 100)] {
        let mut bench = Bench::new(table(columns, "SizeTiered", &[]), |_| {});
        for sstable in 0..4 {
            for i in 0..rows / 4 {
                let row = if i % 8 == 0 { i * 4 } else { i * 4 + sstable };
                bench.row(row / 10, (row % 10) as i32, columns, bytes);
            }
            bench.flush();
        }
        for round in 0..rounds {
            let read = bench.engine.table_stats(bench.table.id).expect("metrics").uncompressed_bytes;
            let (began, cpu) = (Instant::now(), thread_cpu());
            match round {
                0 => bench.engine.compact(bench.table.id),
                // Then each by itself.
                _ => bench.engine.upgrade_sstables(bench.table.id),
            }
            .expect("a compaction");
            let (wall, cpu) = (began.elapsed().as_secs_f64(), thread_cpu() - cpu);
            let how = if round == 0 { "4 into 1" } else { "1 into 1" };
            let mb = read as f64 / 1e6;
            println!(
                "merge {name:10} {how}: {:6.1} MB/s of CPU, {:6.1} MB/s ({mb:.0} MB)",
                mb / cpu,
                mb / wall
            );
        }
    }
}

fn overlapping(rounds: usize) {
    for round in 0..rounds {
        for sources in [0, 5, 10, 20] {
            for by in [OverlappingTombstones::None, OverlappingTombstones::Row, OverlappingTombstones::Cell] {
                let mut bench = Bench::new(table(1, "SizeTiered", &[]), |options| {
                    options.overlapping = OverlappingOptions { provide: by, ..OverlappingOptions::default() };
                });
                for _ in 0..sources + 2 {
                    for key in 0..12_000 {
                        bench.row(key, 0, 1, 300);
                        bench.row(key, 1, 1, 300);
                        if bench.random.random_range(0..10) == 0 {
                            bench.timestamp += 1;
                            let mut row = RowBuilder::new(Clustering::of(&[&0i32.to_be_bytes()]));
                            row.deletion(DeletionTime::new(bench.timestamp, 1_700_000_000));
                            let mut update = PartitionUpdate::new(decorated(key));
                            update.rows.push(row.finish());
                            bench.apply(update);
                        }
                    }
                    bench.flush();
                }
                let mut sstables = bench.engine.sstables(bench.table.id).expect("SSTables");
                sstables.sort_by_key(|sstable| sstable.max_timestamp);
                let oldest: Vec<_> = sstables[..2].iter().map(|sstable| sstable.id).collect();
                let (began, cpu) = (Instant::now(), thread_cpu());
                bench.engine.compact_sstables(bench.table.id, &oldest).expect("a compaction");
                let (wall, cpu) = (began.elapsed().as_secs_f64(), thread_cpu() - cpu);
                let done = bench.engine.compaction_history();
                let out = done.last().map_or(0, |done| done.bytes_out) as f64 / f64::from(1 << 20);
                let metrics = bench.engine.overlap_metrics();
                println!(
                    "overlapping round {round} M {sources:2} {by:?}: {cpu:.3} s of CPU, {wall:.3} s, \
                     {out:.1} MiB out; {} opened, {:.1} MiB of sources read, {:.3} s asking",
                    metrics.sources_opened,
                    metrics.bytes_read as f64 / f64::from(1 << 20),
                    metrics.time.as_secs_f64(),
                );
            }
        }
    }
}

/// Random overwrites: as many bytes again as there are, five times.
fn amplification() {
    const VALUE: usize = 1000;
    let mib = size("MIB", 200);
    let rows = (mib << 20) / VALUE as u64;
    let options = [("sstable_size_in_mb", "64"), ("fanout_size", "10")];
    let mut bench = Bench::new(table(1, "Leveled", &options), |options| {
        options.background_threads = true;
        options.memtable_heap_space = 192 << 20;
    });
    let began = Instant::now();
    let mut given = 0;
    for i in 0..rows * 6 {
        let row = if i < rows { i } else { bench.random.random_range(0..rows) };
        bench.row(row, 0, 1, VALUE);
        given += VALUE as u64;
    }
    let written = began.elapsed().as_secs_f64();
    bench.flush();
    while bench.engine.table_stats(bench.table.id).expect("metrics").pending_compactions > 0
        || !bench.engine.running_compactions().is_empty()
    {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let settled = began.elapsed().as_secs_f64();
    let stats = bench.engine.table_stats(bench.table.id).expect("metrics");
    let bytes = stats.bytes_flushed + stats.bytes_compacted;
    let before = stats.live_disk_bytes;
    bench.engine.compact(bench.table.id).expect("a compaction");
    let least = bench.engine.table_stats(bench.table.id).expect("metrics").live_disk_bytes;
    println!(
        "amplification, {mib} MiB of rows overwritten five times under levels: written {:.2} x of {} MB \
         given, kept {:.2} x of {} MB; {written:.0} s writing, {settled:.0} s until nothing was pending",
        bytes as f64 / given as f64,
        given / 1_000_000,
        before as f64 / least as f64,
        least / 1_000_000,
    );
}
