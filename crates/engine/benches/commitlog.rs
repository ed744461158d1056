//! Appends of 1 KiB records to a commit log on the real file system, in `target/` so that it is the
//! disk of the build and not a file system in memory. The log is marked clean all the while, as
//! flushes do.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cassette_engine::commitlog::{CommitLog, CommitLogOptions, Position, Record, SyncMode, TableVersion};
use cassette_vfs::{RealFileSystem, SystemClock};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const RECORD_SIZE: usize = 1024;

struct Payload([u8; RECORD_SIZE]);

impl Record for Payload {
    fn tables(&self) -> &[TableVersion] {
        &[TableVersion { table: 1, schema: 1 }]
    }

    fn encode_dictionary(&self, _: TableVersion, out: &mut Vec<u8>) {
        out.extend(b"columns");
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn size_hint(&self) -> usize {
        RECORD_SIZE
    }
}

/// Appends `records` records from `threads` threads together, and tells how long that took.
fn append(log: &CommitLog, threads: u64, records: u64) -> Duration {
    let payload = Payload([0xa5; RECORD_SIZE]);
    let began = Instant::now();
    thread::scope(|scope| {
        for number in 0..threads {
            let payload = &payload;
            let share = records / threads + u64::from(number < records % threads);
            scope.spawn(move || {
                for appended in 0..share {
                    let position = log.append(black_box(payload)).expect("the log takes records");
                    if number == 0 && appended % 65_536 == 65_535 {
                        log.mark_clean(1, Position::ZERO, position);
                    }
                }
            });
        }
    });
    began.elapsed()
}

fn appends(criterion: &mut Criterion) {
    let modes = [
        ("periodic", SyncMode::Periodic { period: Duration::from_secs(10) }, 20),
        ("group_10ms", SyncMode::Group { window: Duration::from_millis(10) }, 10),
        ("batch", SyncMode::Batch, 10),
    ];
    for (name, sync, samples) in modes {
        let mut group = criterion.benchmark_group(format!("commitlog_append_1k/{name}"));
        group.throughput(Throughput::Elements(1)).sample_size(samples);
        for threads in [1, 2, 4, 16] {
            let directory =
                tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for the log");
            let log = open(&directory.path().join("commitlog"), sync);
            group.bench_function(BenchmarkId::from_parameter(threads), |bencher| {
                bencher.iter_custom(|records| append(&log, threads, records));
            });
        }
        group.finish();
    }
}

fn open(directory: &Path, sync: SyncMode) -> CommitLog {
    let options = CommitLogOptions { sync, ..CommitLogOptions::default() };
    let clock = Arc::new(SystemClock::new());
    let opened = CommitLog::open(Arc::new(RealFileSystem), clock, directory, options, &mut |_| Ok(()));
    opened.expect("an empty log opens").0
}

criterion_group!(benches, appends);
criterion_main!(benches);
